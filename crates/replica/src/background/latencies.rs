//! Latencies of requests: counts by bucket, and the statistics of a window.

use std::time::Duration;

/// How many requests took how long, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyCounts {
    /// The upper bounds of the buckets, in microseconds, in ascending order.
    pub bounds_us: &'static [u64],
    /// How many requests took at most the bound of their bucket and more than the bound
    /// before. One more than there are bounds: the last bucket has no bound.
    pub counts: Vec<u64>,
}

/// The requests between two moments.
#[derive(Debug)]
pub(super) struct LatencyWindow {
    bounds_us: &'static [u64],
    counts: Vec<u64>,
    requests: u64,
}

impl LatencyWindow {
    /// The requests from `before` until `now`.
    pub(super) fn between(before: &LatencyCounts, now: &LatencyCounts) -> Self {
        let before = before.counts.iter().chain(std::iter::repeat(&0));
        let counts = now.counts.iter().zip(before);
        let counts: Vec<u64> = counts
            .map(|(now, before)| now.saturating_sub(*before))
            .collect();
        Self {
            bounds_us: now.bounds_us,
            requests: counts.iter().sum(),
            counts,
        }
    }

    /// How many requests there were.
    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    /// The bucket's bounds in microseconds. The last bucket counts as twice its lower
    /// bound, so that what is in it counts as slow.
    fn span_us(&self, bucket: usize) -> (f64, f64) {
        let bound = |index: usize| self.bounds_us.get(index).map(|bound_us| *bound_us as f64);
        let lower = bucket.checked_sub(1).and_then(bound).unwrap_or(0.0);
        (lower, bound(bucket).unwrap_or(2.0 * lower))
    }

    /// The time that this share of the requests did not exceed, as if the requests of a
    /// bucket were spread evenly over it. Zero without requests.
    pub(super) fn quantile(&self, share: f64) -> Duration {
        let rank = self.requests as f64 * share;
        let mut below = 0.0;
        for (bucket, count) in self.counts.iter().enumerate() {
            let count = *count as f64;
            if count > 0.0 && below + count >= rank {
                let (lower, upper) = self.span_us(bucket);
                let us = lower + (upper - lower) * ((rank - below) / count);
                return Duration::from_secs_f64(us.max(0.0) / 1e6);
            }
            below += count;
        }
        Duration::ZERO
    }

    /// How many requests took longer, by the same assumption.
    pub(super) fn slower_than(&self, limit: Duration) -> f64 {
        let limit_us = limit.as_secs_f64() * 1e6;
        let counts = self.counts.iter().enumerate();
        counts
            .map(|(bucket, count)| {
                let (lower, upper) = self.span_us(bucket);
                let above = (upper - limit_us) / (upper - lower).max(1.0);
                *count as f64 * above.clamp(0.0, 1.0)
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS_US: [u64; 3] = [100, 200, 400];

    fn counts(counts: [u64; 4]) -> LatencyCounts {
        LatencyCounts {
            bounds_us: &BOUNDS_US,
            counts: counts.to_vec(),
        }
    }

    #[test]
    fn a_window_has_what_came_since_its_start() {
        let window = LatencyWindow::between(&counts([5, 1, 0, 0]), &counts([5, 91, 10, 0]));
        assert_eq!(window.requests(), 100);
        assert_eq!(window.quantile(0.45), Duration::from_micros(150));
        assert_eq!(window.quantile(0.95), Duration::from_micros(300));
        assert!((window.slower_than(Duration::from_micros(150)) - 55.0).abs() < 1e-9);
        assert!((window.slower_than(Duration::from_micros(300)) - 5.0).abs() < 1e-9);
        assert!(window.slower_than(Duration::from_micros(400)) < 1e-9);
    }

    #[test]
    fn what_has_no_bound_counts_as_slow() {
        let none = LatencyCounts::default();
        let window = LatencyWindow::between(&none, &counts([0, 0, 0, 8]));
        assert!((window.slower_than(Duration::from_micros(400)) - 8.0).abs() < 1e-9);
        assert!(window.quantile(0.5) > Duration::from_micros(400));
        assert_eq!(
            LatencyWindow::between(&none, &none).quantile(0.99),
            Duration::ZERO
        );
    }
}
