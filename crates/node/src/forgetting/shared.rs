//! What requests ask about forgetting, without a lock.

use base::Timestamp;
use cluster::Standing;
use cluster::forgetting::Bounds;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};

/// The bounds of a store, which requests and compaction read while they change. All of
/// them only rise, but for the one below which the store only receives.
#[derive(Debug, Default)]
pub(crate) struct SharedBounds {
    fence: AtomicU64,
    forgotten: AtomicU64,
    heard: AtomicU64,
    receives_below: AtomicU64,
}

impl SharedBounds {
    /// The fence and the forget bound. The fence may be newer than the bound beside it.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds {
            forgotten: self.forgotten(),
            fence: Timestamp::from_u64(self.fence.load(Acquire)),
        }
    }

    /// F: what is dead below it may go.
    pub(crate) fn forgotten(&self) -> Timestamp {
        Timestamp::from_u64(self.forgotten.load(Acquire))
    }

    /// The greatest F that the node has heard of.
    pub(crate) fn greatest(&self) -> Timestamp {
        Timestamp::from_u64(self.heard.load(Acquire))
    }

    /// Below it the store only receives, because it lacked something and was not compared
    /// with all others since: what it holds there may have been deleted.
    pub(crate) fn receives_below(&self) -> Timestamp {
        Timestamp::from_u64(self.receives_below.load(Acquire))
    }

    /// Whether the store was fenced below the greatest F. Then it is older than the pass that
    /// F rests on, and lacks what came since, whatever its peers remember.
    pub(crate) fn is_from_before_fence(&self) -> bool {
        // The fence rises before any F that rests on it, so it is read afterwards.
        let greatest = self.greatest();
        self.bounds().is_receiver(Standing::Witness, greatest)
    }

    pub(super) fn raise(&self, bounds: Bounds, receives_below: Timestamp) {
        self.fence.fetch_max(bounds.fence.as_u64(), Release);
        self.forgotten.fetch_max(bounds.forgotten.as_u64(), Release);
        self.receives_below.store(receives_below.as_u64(), Release);
    }

    pub(crate) fn hear(&self, forgotten: Timestamp) {
        self.heard.fetch_max(forgotten.as_u64(), Release);
    }
}

#[cfg(test)]
impl SharedBounds {
    /// The bounds of a store that has heard of no greater F than its own.
    pub(crate) fn of(bounds: Bounds) -> Self {
        let shared = Self::default();
        shared.raise(bounds, Timestamp::ZERO);
        shared.hear(bounds.forgotten);
        shared
    }

    /// As [`SharedBounds::of`], in a store that only receives below a bound.
    pub(crate) fn of_receiver(bounds: Bounds, receives_below: Timestamp) -> Self {
        let shared = Self::of(bounds);
        shared.raise(bounds, receives_below);
        shared.hear(receives_below);
        shared
    }
}
