//! What a store says about a write that it has stored.

use crate::timestamp::Timestamp;

/// Whether a store already held a newer version of a key when this version
/// first arrived there.
///
/// A store gives the same verdict however often the same version arrives,
/// unless it no longer remembers the verdict: then the verdict is
/// [`Verdict::Unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The store held nothing newer.
    Clean,
    /// The store held newer versions, and this was the newest of them.
    Newer(Timestamp),
    /// The store cannot say what it held, because the version first arrived too
    /// long ago or because a block is damaged. The timestamp is an upper bound: it
    /// is above that of the version, and the store holds nothing of the key above it.
    Unknown(Timestamp),
}
