//! The error of all decoders of a table.

/// The structure of some bytes is not the one that the format prescribes. The
/// text says what was found; the caller knows the file and the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);
