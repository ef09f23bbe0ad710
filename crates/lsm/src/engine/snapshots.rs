//! Snapshots: which arrivals the living scans may see.

use crate::sync::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The living snapshots of a store, and the arrivals that new ones see.
///
/// Flush and compaction keep every version that a living snapshot sees. A
/// snapshot that is taken after one of them has read [`Snapshots::living`] sees
/// at least everything that was in its inputs, so it needs no more than their winners.
#[derive(Default)]
pub(super) struct Snapshots {
    /// The greatest arrival that readers may see.
    visible: AtomicU64,
    /// Those that scans hold.
    living: Mutex<Living>,
}

#[derive(Default)]
struct Living {
    /// The scans that hold each arrival, by their number.
    arrivals: BTreeMap<u64, u64>,
    /// Whether compaction has let something be because of them.
    hold_back: bool,
}

impl Snapshots {
    /// Lets readers see the records up to `arrival`.
    pub(super) fn publish(&self, arrival: u64) {
        self.visible.store(arrival, Ordering::Release);
    }

    /// Takes a snapshot of now: the greatest arrival that it sees. It lives
    /// until it is given back.
    pub(super) fn take(&self) -> u64 {
        let mut living = lock(&self.living);
        // Read under the lock: a flush that does not find this snapshot living
        // began before all that this one sees was published.
        let arrival = self.visible.load(Ordering::Acquire);
        *living.arrivals.entry(arrival).or_default() += 1;
        arrival
    }

    /// Gives back a snapshot that was taken. Returns whether it was the last
    /// and compaction has waited for that.
    pub(super) fn give_back(&self, arrival: u64) -> bool {
        let mut living = lock(&self.living);
        if let Some(count) = living.arrivals.get_mut(&arrival) {
            *count -= 1;
            if *count == 0 {
                living.arrivals.remove(&arrival);
            }
        }
        living.arrivals.is_empty() && std::mem::take(&mut living.hold_back)
    }

    /// Whether any lives; then the last is told that compaction waits for it.
    pub(super) fn hold_compaction_back(&self) -> bool {
        let mut living = lock(&self.living);
        living.hold_back = !living.arrivals.is_empty();
        living.hold_back
    }

    /// The arrivals of the living snapshots, ascending.
    pub(super) fn living(&self) -> Vec<u64> {
        lock(&self.living).arrivals.keys().copied().collect()
    }

    /// How many live.
    pub(super) fn count(&self) -> u64 {
        lock(&self.living).arrivals.values().sum()
    }
}
