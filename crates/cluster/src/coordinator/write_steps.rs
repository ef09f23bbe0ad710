//! The events that a write receives, and the actions that it returns.

use super::Decision;
use crate::placement::REPLICAS_INLINE;
use crate::replicas::{Miss, ReplicaIndex};
use base::{NewerVersion, Timestamp};
use smallvec::SmallVec;

/// How many timestamps a write takes at most.
pub const ROUNDS_MAX: u8 = 4;

/// Which timestamp of a write is meant. There are two, and more only while conditional writes of
/// the key overtake it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Round(u8);

impl Round {
    /// The timestamp that the write began with.
    pub const FIRST: Self = Self(0);

    /// A timestamp above the newer versions that the replicas held.
    pub const SECOND: Self = Self(1);

    /// The round with this number, from 0; [`None`] if no write takes so many timestamps.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number < ROUNDS_MAX {
            Some(Self(number))
        } else {
            None
        }
    }

    /// Its number, from 0.
    #[must_use]
    pub const fn as_u8(self) -> u8 {
        self.0
    }

    pub(super) fn next(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }
}

/// What has happened to a write. `replica` says which replica of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteEvent {
    /// A replica has stored it.
    Stored {
        /// Of which timestamp.
        round: Round,
        /// Which replica.
        replica: ReplicaIndex,
        /// What newer versions it held when this timestamp first arrived there.
        newer_version: NewerVersion,
    },
    /// A replica has not stored it, or its answer was lost.
    Missed {
        /// Of which timestamp.
        round: Round,
        /// Which replica.
        replica: ReplicaIndex,
        /// Why.
        why: Miss,
    },
    /// A hint is kept, or could not be: hints are best effort.
    HintKept {
        /// Of which timestamp.
        round: Round,
        /// For which replica.
        replica: ReplicaIndex,
    },
    /// The clock allocates no timestamp above what the replicas hold.
    NoTimestamp,
    /// Half of the request's time is over: see [`Write::awaits_half_time`](super::Write::awaits_half_time).
    HalfTime,
    /// The request's time is over.
    Deadline,
}

/// What to do for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAction {
    /// Send it to a replica; `Stored` or `Missed` is to follow.
    Send {
        /// Of which timestamp.
        round: Round,
        /// Which replica.
        replica: ReplicaIndex,
    },
    /// Keep a hint for a replica; `HintKept` is to follow.
    Hint {
        /// Of which timestamp.
        round: Round,
        /// For which replica.
        replica: ReplicaIndex,
    },
    /// Timestamp it once more, and call [`Write::pushed`](super::Write::pushed).
    Push {
        /// What the new timestamp must be above.
        above: Timestamp,
    },
    /// Answer the client.
    Reply(Decision),
    /// Nothing is left to do.
    Done,
}

/// The actions of a step, in the order in which to do them.
pub type WriteActions = SmallVec<[WriteAction; REPLICAS_INLINE + 2]>;
