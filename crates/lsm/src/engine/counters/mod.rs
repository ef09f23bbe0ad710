//! Counts of what the store has done since it was opened.

pub(super) mod acknowledged;
pub(super) mod sync_times;

use base::Clock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use sync_times::SyncTimes;

/// Counts of what was done since the store was opened.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) writes: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) sync_times: SyncTimes,
    pub(super) log_written_bytes: AtomicU64,
    pub(super) flushes: AtomicU64,
    pub(super) flush_written_bytes: AtomicU64,
    pub(super) compactions: AtomicU64,
    pub(super) moved_tables: AtomicU64,
    pub(super) compaction_read_bytes: AtomicU64,
    pub(super) compaction_written_bytes: AtomicU64,
    pub(super) non_owned_dropped: AtomicU64,
    pub(super) hidden: HiddenShare,
    pub(super) slowdowns: AtomicU64,
    pub(super) stalls: AtomicU64,
    pub(super) refused_overloaded: AtomicU64,
    pub(super) refused_disk_full: AtomicU64,
}

impl Counters {
    /// Syncs the log, and counts the sync and how long it took.
    pub(super) fn time_sync<T>(&self, clock: &dyn Clock, sync: impl FnOnce() -> T) -> T {
        let began = clock.monotonic();
        let result = sync();
        let took = clock.monotonic().saturating_sub(began);
        self.sync_times.add(took);
        result
    }
}

/// How many of the bytes that compactions move to the last level replace older
/// versions there. Only compactions write it, one at a time.
#[derive(Default)]
pub(super) struct HiddenShare {
    moved_bytes: AtomicU64,
    dropped_bytes: AtomicU64,
}

impl HiddenShare {
    /// Notes that a compaction has moved `moved_bytes` down to the last level, and has
    /// dropped `dropped_bytes` of those that it read, in a store of `store_bytes`.
    /// Once as many bytes as the store holds have moved, what was noted before
    /// counts half, so that the share follows the load.
    pub(super) fn note(&self, moved_bytes: u64, dropped_bytes: u64, store_bytes: u64) {
        let mut moved = self.moved_bytes.load(Relaxed).saturating_add(moved_bytes);
        let mut dropped = self.dropped_bytes.load(Relaxed);
        dropped = dropped.saturating_add(dropped_bytes.min(moved_bytes));
        if moved > store_bytes {
            (moved, dropped) = (moved / 2, dropped / 2);
        }
        self.moved_bytes.store(moved, Relaxed);
        self.dropped_bytes.store(dropped, Relaxed);
    }

    /// The share of the moved bytes that replaced older versions, between 0 and 1.
    pub(super) fn share(&self) -> f64 {
        let moved = self.moved_bytes.load(Relaxed).max(1);
        self.dropped_bytes.load(Relaxed) as f64 / moved as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hidden_share_follows_the_load() {
        let hidden = HiddenShare::default();
        assert_eq!(hidden.share(), 0.0);
        hidden.note(100, 100, 1_000);
        assert_eq!(hidden.share(), 1.0);
        hidden.note(300, 0, 1_000);
        assert_eq!(hidden.share(), 0.25);
        for _ in 0..100 {
            hidden.note(1_000, 0, 1_000);
        }
        assert!(hidden.share() < 0.000_1, "{}", hidden.share());
        // The moved bytes cannot hide more than as many bytes.
        hidden.note(u64::MAX, u64::MAX, 1_000);
        assert!(hidden.share() <= 1.0);
    }
}
