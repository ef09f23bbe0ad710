//! Which writes a store admits below its closed timestamp:
//! [`closed_timestamp`](super::closed_timestamp) tells why.

use base::Timestamp;

/// How an entry is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// A write, a hint or a repair: refused below the closed timestamp.
    Ordinary,
    /// A version that may be below the closed timestamp. The owner has checked that it may
    /// be taken.
    Late {
        /// The GC threshold when the owner has checked the version. If compaction uses a
        /// greater one by the time of the commit, a version below that is refused.
        gc_threshold: Timestamp,
        /// The generation of its source then, read before the owner has looked at anything else.
        /// If a later one has begun by the time of the commit, a version below the closed timestamp
        /// is refused.
        generation: Generation,
    },
}

/// Where late writes come from. Each source has generations of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateSource {
    /// The comparison of stores that is under way.
    Comparison,
    /// A read that has found stores unequal.
    Read,
}

/// Which late writes of a source still count: those that were admitted since it began. See
/// [`Engine::begin_generation`].
///
/// [`Engine::begin_generation`]: crate::Engine::begin_generation
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    pub(super) source: LateSource,
    pub(super) number: u64,
}

impl Generation {
    /// That of a store that was just opened.
    #[must_use]
    pub const fn first(source: LateSource) -> Self {
        Self { source, number: 0 }
    }
}
