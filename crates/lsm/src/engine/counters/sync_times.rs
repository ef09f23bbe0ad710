//! How long syncs of the log take: the first thing to check when writes are slow.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The upper bounds of the buckets, in microseconds.
const BOUNDS_US: [u64; 15] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000,
];

/// A distribution to which any thread adds.
#[derive(Default)]
pub(in crate::engine) struct SyncTimes {
    /// The last bucket is for syncs that took longer than every bound.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_ns: AtomicU64,
}

/// How long syncs of the log took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncTimeStatistics {
    /// Upper bounds, each with the number of syncs that took at most that and more
    /// than the bound before. The last bound is [`Duration::MAX`].
    pub buckets: Vec<(Duration, u64)>,
    /// The time of all syncs together.
    pub sum: Duration,
}

impl SyncTimes {
    pub(in crate::engine) fn add(&self, took: Duration) {
        let bucket = BOUNDS_US.partition_point(|bound| Duration::from_micros(*bound) < took);
        self.buckets[bucket].fetch_add(1, Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(nanoseconds, Relaxed);
    }

    pub(in crate::engine) fn statistics(&self) -> SyncTimeStatistics {
        let bounds = BOUNDS_US.iter().map(|bound| Duration::from_micros(*bound));
        let counts = self.buckets.iter().map(|count| count.load(Relaxed));
        SyncTimeStatistics {
            buckets: bounds.chain([Duration::MAX]).zip(counts).collect(),
            sum: Duration::from_nanos(self.sum_ns.load(Relaxed)),
        }
    }
}

impl SyncTimeStatistics {
    /// How many syncs there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_with_its_bound() {
        let times = SyncTimes::default();
        for took_us in [0, 50, 51, 2_500_000, 2_500_001, u64::MAX / 1_000] {
            times.add(Duration::from_micros(took_us));
        }
        let statistics = times.statistics();
        let counts: Vec<u64> = statistics.buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!(statistics.count(), 6);
        assert_eq!((counts[0], counts[1], counts[14], counts[15]), (2, 1, 1, 2));
        assert_eq!(statistics.buckets[15].0, Duration::MAX);
    }
}
