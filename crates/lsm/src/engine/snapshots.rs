//! Snapshots: which sequence numbers the living scans may see.

use crate::sync::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The living snapshots of a store, and the sequence numbers that new ones see.
///
/// Flush and compaction keep every version that a living snapshot sees. A
/// snapshot that is taken after one of them has read [`Snapshots::living`] sees
/// at least everything that was in its inputs, so it needs no more than their winners.
#[derive(Default)]
pub(super) struct Snapshots {
    /// The greatest sequence number that readers may see.
    visible: AtomicU64,
    /// Those that scans hold.
    living: Mutex<Living>,
}

#[derive(Default)]
struct Living {
    /// The scans that hold each sequence number, by their number.
    sequences: BTreeMap<u64, u64>,
    /// Whether compaction has let something be because of them.
    hold_back: bool,
}

impl Snapshots {
    /// Lets readers see the records up to `sequence`.
    pub(super) fn publish(&self, sequence: u64) {
        self.visible.store(sequence, Ordering::Release);
    }

    /// Takes a snapshot of now: the greatest sequence number that it sees. It lives
    /// until it is given back.
    pub(super) fn take(&self) -> u64 {
        let mut living = lock(&self.living);
        // Read under the lock: a flush that does not find this snapshot living
        // began before all that this one sees was published.
        let sequence = self.visible.load(Ordering::Acquire);
        *living.sequences.entry(sequence).or_default() += 1;
        sequence
    }

    /// Gives back a snapshot that was taken. Returns whether it was the last
    /// and compaction has waited for that.
    pub(super) fn give_back(&self, sequence: u64) -> bool {
        let mut living = lock(&self.living);
        if let Some(count) = living.sequences.get_mut(&sequence) {
            *count -= 1;
            if *count == 0 {
                living.sequences.remove(&sequence);
            }
        }
        living.sequences.is_empty() && std::mem::take(&mut living.hold_back)
    }

    /// Whether any lives; then the last is told that compaction waits for it.
    pub(super) fn hold_compaction_back(&self) -> bool {
        let mut living = lock(&self.living);
        living.hold_back = !living.sequences.is_empty();
        living.hold_back
    }

    /// The sequence numbers of the living snapshots, ascending.
    pub(super) fn living(&self) -> Vec<u64> {
        lock(&self.living).sequences.keys().copied().collect()
    }

    /// How many live.
    pub(super) fn count(&self) -> u64 {
        lock(&self.living).sequences.values().sum()
    }
}
