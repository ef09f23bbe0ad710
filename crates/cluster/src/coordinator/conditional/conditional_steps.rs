//! The events that a conditional write receives, and the actions that it returns.

use super::condition::{Base, Newest};
use crate::placement::REPLICAS_INLINE;
use crate::replicas::{Miss, ReplicaIndex};
use base::Timestamp;
use smallvec::SmallVec;

/// What has happened to a conditional write. `replica` says which replica of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionalEvent {
    /// A replica has promised the ballot: its newest version is as expected.
    Promised {
        /// Which ballot.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
        /// The timestamp of its newest version; [`None`] where there is none, or a dead one below
        /// the GC threshold.
        newest: Option<Timestamp>,
        /// Its GC threshold: what is dead below it counts as no version.
        gc_threshold: Timestamp,
    },
    /// The newest version of a replica is not as expected, or not below the ballot. It has promised
    /// nothing.
    Differs {
        /// Of which ballot.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
        /// Its newest version.
        newest: Newest,
    },
    /// A replica keeps or has kept the promise of another ballot, and has not promised this one.
    Busy {
        /// Of which ballot.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
        /// The other ballot.
        with: Timestamp,
        /// Whether it has kept that promise for longer than a conditional write takes.
        is_stale: bool,
    },
    /// A replica has not promised, or its answer was lost.
    PrepareMissed {
        /// Of which ballot.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
        /// Why.
        why: Miss,
    },
    /// A replica has accepted the version.
    Accepted {
        /// Of which ballot.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
    },
    /// A replica has refused the version for good: it keeps the promise no more.
    Refused {
        /// Of which ballot.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
    },
    /// A replica may have accepted the version: its answer was lost.
    AcceptMissed {
        /// Of which ballot.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
        /// Why.
        why: Miss,
    },
    /// The read has ended; [`None`] if too few replicas have answered.
    Read(Option<Newest>),
    /// The stale promises were settled, or could not be.
    Settled,
    /// The pause is over.
    Resumed,
    /// The clock allocates no ballot.
    NoBallot,
    /// A hint is kept, or could not be: hints are best effort.
    HintKept {
        /// For which replica.
        replica: ReplicaIndex,
    },
    /// The request's time is over.
    Deadline,
}

/// What to do for a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionalAction {
    /// Ask a replica to promise; `Promised`, `Differs`, `Busy` or `PrepareMissed` is to follow.
    Prepare {
        /// Which ballot.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
        /// What its newest version must be.
        base: Base,
    },
    /// Send the version to a replica; `Accepted`, `Refused` or `AcceptMissed` is to follow.
    Accept {
        /// Of which ballot, which is the version's timestamp.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
    },
    /// Tell a replica that its promise is needed no more. Nothing follows.
    Release {
        /// Which ballot.
        ballot: Timestamp,
        /// Which replica.
        replica: ReplicaIndex,
    },
    /// Read the key by a [`Read`](super::super::Read) of the same replicas; `Read` is to follow.
    Read,
    /// Settle the key by a [`Settle`](super::Settle) of the same replicas; `Settled` is to follow.
    Settle,
    /// Wait for a few milliseconds, a random time; `Resumed` is to follow.
    Pause,
    /// Allocate a ballot, and call [`ConditionalWrite::prepare`](super::ConditionalWrite::prepare).
    Ballot {
        /// What it must be above.
        above: Timestamp,
    },
    /// Keep a hint for a replica; `HintKept` is to follow.
    Hint {
        /// Of which ballot.
        ballot: Timestamp,
        /// For which replica.
        replica: ReplicaIndex,
    },
    /// Answer the client.
    Reply(ConditionalOutcome),
    /// Nothing is left to do.
    Done,
}

/// How a conditional write has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionalOutcome {
    /// The condition held, and the version with this ballot is written.
    Applied {
        /// The version.
        version: Timestamp,
        /// How many replicas have accepted it.
        acks: u8,
    },
    /// The condition does not hold.
    NotMatched {
        /// What is current.
        current: Newest,
    },
    /// Too few replicas have promised in time. Nothing has happened or will.
    NotApplied,
    /// Too few replicas have accepted the version in time. It may have happened, or may yet.
    Unknown {
        /// The version.
        version: Timestamp,
        /// How many replicas have accepted it.
        acks: u8,
    },
}

/// The actions of a step, in the order in which to do them.
pub type ConditionalActions = SmallVec<[ConditionalAction; REPLICAS_INLINE + 2]>;
