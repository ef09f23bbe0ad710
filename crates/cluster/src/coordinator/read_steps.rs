//! The events that a read receives, and the actions that it returns.

use super::Decision;
use crate::placement::REPLICAS_INLINE;
use crate::replicas::{Miss, ReplicaIndex};
use base::{Entry, NewerVersion, Timestamp};
use smallvec::SmallVec;

/// What has happened to a read. `replica` says which replica of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadEvent {
    /// A replica has answered.
    Answered {
        /// Which replica.
        replica: ReplicaIndex,
        /// Its newest version of the key, which may be a tombstone or expired.
        entry: Option<Entry>,
        /// Whether that is a tombstone, or has expired by the coordinator's clock.
        is_dead: bool,
        /// The GC threshold of its store.
        gc_threshold: Timestamp,
    },
    /// A replica has not answered, or its answer was lost.
    Missed {
        /// Which replica.
        replica: ReplicaIndex,
        /// Why.
        why: Miss,
    },
    /// A replica has stored the version that it was to be repaired with.
    Repaired {
        /// Which replica.
        replica: ReplicaIndex,
        /// What newer versions it held when that version first arrived there.
        newer_version: NewerVersion,
    },
    /// A replica was not repaired, or its answer was lost.
    RepairMissed {
        /// Which replica.
        replica: ReplicaIndex,
        /// Why.
        why: Miss,
    },
    /// A replica is slow, and another one may be asked.
    Slow {
        /// Which replica.
        replica: ReplicaIndex,
    },
    /// A pause is over.
    Resumed,
    /// The request's time is over.
    Deadline,
}

/// What to do for a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAction {
    /// Ask a replica, perhaps once more; `Answered` or `Missed` is to follow.
    Ask {
        /// Which replica.
        replica: ReplicaIndex,
    },
    /// Write [`Read::freshest`](super::Read::freshest), as it is now, to a replica; `Repaired` or
    /// `RepairMissed` is to follow.
    Repair {
        /// Which replica.
        replica: ReplicaIndex,
    },
    /// Wait a moment; `Resumed` is to follow. Nothing else is under way.
    Pause,
    /// Answer the client, with [`Read::answer`](super::Read::answer) as it is now.
    Reply(Decision),
    /// Nothing is left to do.
    Done,
}

/// The actions of a step, in the order in which to do them.
pub type ReadActions = SmallVec<[ReadAction; REPLICAS_INLINE + 2]>;
