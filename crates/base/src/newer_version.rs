//! The newer-version check: what a store says about a write that it has stored.

use crate::timestamp::Timestamp;

/// Whether a store already held a newer version of a key when this version first
/// arrived there.
///
/// The answer is the same however often the version arrives, unless the store no longer
/// remembers it: then it is [`NewerVersion::Unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewerVersion {
    /// The store held nothing newer.
    None,
    /// The store held newer versions, and this was the newest of them.
    At(Timestamp),
    /// The same, and the store had promised a ballot above this version before it arrived: a
    /// conditional write has overtaken it. Such a write cannot count as written just before the
    /// newer version, which was to replace the version before this one.
    Overtaken(Timestamp),
    /// The store cannot say what it held, because the version first arrived too
    /// long ago or because a block is damaged. The timestamp is an upper bound: it
    /// is above that of the version, and the store holds nothing of the key above it.
    Unknown(Timestamp),
}
