//! The error of all decoders of a table.

/// The bytes do not have the structure that the format prescribes. The text says
/// what is wrong; the caller adds the file and the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) struct Malformed(pub(in crate::table) &'static str);
