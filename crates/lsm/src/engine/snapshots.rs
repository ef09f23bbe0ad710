//! Snapshots: which arrivals the living scans may see.

use crate::sync::lock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The living snapshots of a store, and the arrivals that new ones see.
///
/// Flush and compaction keep every version that a living snapshot sees. A
/// snapshot that is taken after one of them has read [`Snapshots::living`] sees
/// at least everything that was in its inputs, so it needs no more than their winners.
#[derive(Default)]
pub(super) struct Snapshots {
    /// The greatest arrival that readers may see.
    visible: AtomicU64,
    /// How many scans hold each arrival.
    living: Mutex<BTreeMap<u64, u64>>,
}

impl Snapshots {
    /// Lets readers see the records up to `arrival`.
    pub(super) fn publish(&self, arrival: u64) {
        self.visible.store(arrival, Ordering::Release);
    }

    /// Takes a snapshot of now.
    pub(super) fn take(self: &Arc<Self>) -> Snapshot {
        let mut living = lock(&self.living);
        // Read under the lock: a flush that does not find this snapshot living
        // began before all that this one sees was published.
        let arrival = self.visible.load(Ordering::Acquire);
        *living.entry(arrival).or_default() += 1;
        Snapshot {
            arrival,
            snapshots: Arc::clone(self),
        }
    }

    /// The arrivals of the living snapshots, ascending.
    pub(super) fn living(&self) -> Vec<u64> {
        lock(&self.living).keys().copied().collect()
    }

    /// How many live.
    pub(super) fn count(&self) -> u64 {
        lock(&self.living).values().sum()
    }
}

/// A moment in the order of arrival, kept visible until it is dropped.
pub(super) struct Snapshot {
    /// The greatest arrival that it sees.
    pub(super) arrival: u64,
    snapshots: Arc<Snapshots>,
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut living = lock(&self.snapshots.living);
        if let Some(count) = living.get_mut(&self.arrival) {
            *count -= 1;
            if *count == 0 {
                living.remove(&self.arrival);
            }
        }
    }
}
