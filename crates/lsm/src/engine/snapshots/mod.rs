//! Snapshots: which sequence numbers the living scans see.

pub(super) mod frozen;
pub(super) mod held_scans;

use crate::locks::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The owner of the living snapshots, and of the sequence number that new ones see.
///
/// Flush and compaction keep every version that a living snapshot sees. A snapshot
/// that is taken after one of them has read [`Snapshots::living`] sees at least
/// everything in its inputs, so it needs only the winners among them.
///
/// Its lock is held briefly. Meanwhile only an ingest takes another: that with which the
/// table set replaces the read state.
#[derive(Default)]
pub(super) struct Snapshots {
    /// The greatest sequence number that readers may see.
    visible: AtomicU64,
    /// The snapshots that scans hold.
    living: Mutex<Living>,
}

#[derive(Default)]
struct Living {
    /// For each sequence number how many scans hold it.
    sequences: BTreeMap<u64, u64>,
    /// Whether compaction has left something undone because of them.
    hold_back: bool,
}

impl Snapshots {
    /// Lets readers see the records up to `sequence`.
    pub(super) fn publish(&self, sequence: u64) {
        self.visible.store(sequence, Ordering::Release);
    }

    /// Lets `show` add tables to the read state whose records have this `sequence`, and
    /// lets readers see them. No snapshot is taken in between: one that a reader of the
    /// tables does not find among the living sees all of their records.
    pub(super) fn publish_with<T>(&self, sequence: u64, show: impl FnOnce() -> T) -> T {
        let _living = lock(&self.living);
        let shown = show();
        self.publish(sequence);
        shown
    }

    /// The greatest sequence number that readers may see.
    pub(super) fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    /// Takes a snapshot of now: the greatest sequence number that it sees. It lives
    /// until [`Snapshots::release`].
    pub(super) fn take(&self) -> u64 {
        let mut living = lock(&self.living);
        // Read under the lock: a flush that did not see this snapshot as living
        // began earlier, so this snapshot sees everything in that flush's memtable.
        let sequence = self.visible.load(Ordering::Acquire);
        *living.sequences.entry(sequence).or_default() += 1;
        sequence
    }

    /// Releases a snapshot that was taken. Returns whether it was the last one and
    /// compaction has waited for its end.
    pub(super) fn release(&self, sequence: u64) -> bool {
        let mut living = lock(&self.living);
        if let Some(count) = living.sequences.get_mut(&sequence) {
            *count -= 1;
            if *count == 0 {
                living.sequences.remove(&sequence);
            }
        }
        living.sequences.is_empty() && std::mem::take(&mut living.hold_back)
    }

    /// Returns whether a snapshot lives. If one does, notes that compaction waits,
    /// and the release of the last snapshot reports that.
    pub(super) fn defer_compaction(&self) -> bool {
        let mut living = lock(&self.living);
        living.hold_back = !living.sequences.is_empty();
        living.hold_back
    }

    /// The sequence numbers of the living snapshots, ascending.
    pub(super) fn living(&self) -> Vec<u64> {
        lock(&self.living).sequences.keys().copied().collect()
    }

    /// How many snapshots live.
    pub(super) fn count(&self) -> u64 {
        lock(&self.living).sequences.values().sum()
    }
}
