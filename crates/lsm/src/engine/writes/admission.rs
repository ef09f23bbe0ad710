//! How writes are admitted: which of them a store takes below its closed timestamp
//! ([`closed_timestamp`](super::closed_timestamp) tells why), and what they have to do with
//! [promises](super::promises).

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
    /// No version, but the promise of a ballot: the entry is a tombstone of the key with the ballot
    /// as its timestamp.
    Promise {
        /// Whether it replaces the promise of a lower ballot.
        is_forced: bool,
        /// The owner's number of what is in force for the request. The store promises no request of
        /// a lower number any more.
        epoch: u64,
    },
    /// A version that is stored only while the store keeps this promise, which is gone then.
    Accept {
        /// The promised ballot.
        ballot: Timestamp,
    },
    /// The end of a promise: the entry is as that of the promise.
    Release,
}

impl Admission {
    /// Whether it has to do with promises.
    pub(super) fn is_conditional(self) -> bool {
        match self {
            Self::Ordinary | Self::Late { .. } => false,
            Self::Promise { .. } | Self::Accept { .. } | Self::Release => true,
        }
    }

    /// Whether the entry is a version to store.
    pub(in crate::engine) fn is_version(self) -> bool {
        !matches!(self, Self::Promise { .. } | Self::Release)
    }
}

/// What late writes are. Each source has generations of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateSource {
    /// Repair writes of the session that is under way.
    RepairWrite,
    /// Read repairs.
    ReadRepair,
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
