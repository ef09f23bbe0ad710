//! What requests and compaction ask about the closed timestamp and the GC threshold of the
//! store, without a lock.

use base::Timestamp;
use cluster::ReplicaState;
use cluster::forgetting::Bounds;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Release};

/// The bounds of a store, which requests and compaction read while they change. All of
/// them only rise, but for the one below which the store only receives.
#[derive(Debug, Default)]
pub struct SharedBounds {
    fence: AtomicU64,
    forgotten: AtomicU64,
    greatest: AtomicU64,
    receives_below: AtomicU64,
    surplus_below: AtomicU64,
    is_filled: AtomicBool,
}

/// What held for a store before a key or a page was read. Once it is read, the store may have
/// buried what it held, and count like any other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BeforeRead {
    /// The forget bound of the store.
    pub forgotten: Timestamp,
    /// Below it the store only received.
    pub receives_below: Timestamp,
}

impl SharedBounds {
    /// The bounds of a store that has heard of no greater F than its own.
    #[must_use]
    pub fn of(bounds: Bounds) -> Self {
        let shared = Self::default();
        shared.set(bounds, Timestamp::ZERO, Timestamp::ZERO);
        shared.hear(bounds.forgotten);
        shared
    }

    /// What holds now, for a read that begins.
    pub fn before_read(&self) -> BeforeRead {
        BeforeRead {
            forgotten: self.forgotten(),
            receives_below: self.receives_below(),
        }
    }

    /// How the store stands to forgetting that stands so with its peers. Once an operator has
    /// accepted a store, the peers believe it at its next start; but nobody has compared it.
    /// Once all have, it is as good as any other, though the operator's word lasts as long as
    /// the process.
    pub fn replica_state_of(&self, replica_state: ReplicaState) -> ReplicaState {
        match replica_state {
            ReplicaState::Learner => replica_state,
            _ if self.receives_below() > Timestamp::ZERO => ReplicaState::ForcedVoter,
            ReplicaState::ForcedVoter if self.is_filled.load(Acquire) => ReplicaState::Voter,
            ReplicaState::Voter | ReplicaState::Starting | ReplicaState::ForcedVoter => {
                replica_state
            }
        }
    }

    /// The fence and the forget bound. The fence may be newer than the bound beside it.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            forgotten: self.forgotten(),
            fence: Timestamp::from_u64(self.fence.load(Acquire)),
        }
    }

    /// F: what is dead below it may go.
    pub fn forgotten(&self) -> Timestamp {
        Timestamp::from_u64(self.forgotten.load(Acquire))
    }

    /// The greatest F that the node has heard of.
    pub fn greatest(&self) -> Timestamp {
        Timestamp::from_u64(self.greatest.load(Acquire))
    }

    /// Below it the store only receives, because it lacked something and was not compared
    /// with all others since: what it holds there may have been deleted.
    pub fn receives_below(&self) -> Timestamp {
        Timestamp::from_u64(self.receives_below.load(Acquire))
    }

    /// Below it surplus copies may be dropped.
    pub fn surplus_below(&self) -> Timestamp {
        Timestamp::from_u64(self.surplus_below.load(Acquire))
    }

    /// Whether the store was fenced below the greatest F. Then it is older than the pass that
    /// F rests on, and lacks what came since, whatever its peers remember.
    pub fn is_from_before_fence(&self) -> bool {
        // The fence rises before any F that rests on it, so it is read afterwards.
        let greatest = self.greatest();
        self.bounds().is_receiver(ReplicaState::Voter, greatest)
    }

    /// Notes whether the store was filled since it last lacked something.
    pub fn set_filled(&self, is_filled: bool) {
        self.is_filled.store(is_filled, Release);
    }

    /// Takes over what is durable: raises the bounds, and sets the one below which the store
    /// only receives.
    pub fn set(&self, bounds: Bounds, receives_below: Timestamp, surplus_below: Timestamp) {
        self.fence.fetch_max(bounds.fence.as_u64(), Release);
        self.forgotten.fetch_max(bounds.forgotten.as_u64(), Release);
        self.receives_below.store(receives_below.as_u64(), Release);
        self.surplus_below
            .fetch_max(surplus_below.as_u64(), Release);
    }

    /// Takes note of an F that the node has heard of.
    pub fn hear(&self, forgotten: Timestamp) {
        self.greatest.fetch_max(forgotten.as_u64(), Release);
    }
}
