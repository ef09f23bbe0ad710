//! A few figures about recent requests of clients, for people who look at the cluster through
//! another node.

use super::history::{BucketCounts, History, Sample};
use super::requests::{LATENCY_BOUNDS_US, LATENCY_BUCKETS};
use base::Clock;
use node::ClientActivity;
use peer::LatencyQuantiles;
use std::time::Duration;

/// How many samples latencies are from, besides what has happened since: those of a minute,
/// because the slowest of few requests would be chance.
const LATENCY_SAMPLES: usize = 6;

/// A rate over less time would be chance.
const RATE_SPAN_MIN: Duration = Duration::from_secs(1);

/// How many requests took how long, in samples together.
type Counts = [u64; LATENCY_BUCKETS];

impl History {
    /// What clients did lately: the rate of the last seconds, and the latencies of the last
    /// minute.
    pub(crate) fn activity(&self, clock: &dyn Clock) -> ClientActivity {
        let (samples, running) = self.last(LATENCY_SAMPLES, clock);
        let latest = match samples.last() {
            Some(sample) if running.span < RATE_SPAN_MIN => sample,
            _ => &running,
        };
        let all = || samples.iter().chain([&running]);
        ClientActivity {
            requests_per_1000_s: requests_per_1000_s(latest),
            reads: quantiles(&sum(all().map(|sample| &sample.reads))),
            writes: quantiles(&sum(all().map(|sample| &sample.writes))),
        }
    }
}

fn requests_per_1000_s(sample: &Sample) -> u64 {
    let keys = sample.reads.iter().chain(&sample.writes);
    let answered = keys.copied().map(u64::from).sum::<u64>() + u64::from(sample.batch_operations);
    let span_ms = u64::try_from(sample.span.as_millis()).unwrap_or(u64::MAX);
    answered.saturating_mul(1_000_000) / span_ms.max(1)
}

fn sum<'a>(samples: impl Iterator<Item = &'a BucketCounts>) -> Counts {
    let mut sum = Counts::default();
    for counts in samples {
        for (sum, count) in sum.iter_mut().zip(counts) {
            *sum += u64::from(*count);
        }
    }
    sum
}

/// `None` without requests.
fn quantiles(counts: &Counts) -> Option<LatencyQuantiles> {
    Some(LatencyQuantiles {
        p50_us: quantile(counts, 0.5)?,
        p99_us: quantile(counts, 0.99)?,
        p999_us: quantile(counts, 0.999)?,
    })
}

/// The time in microseconds that a share of the requests did not exceed, as if those of a
/// bucket were spread evenly over it. The last bucket has no upper bound: it counts as if that
/// were twice its lower one.
fn quantile(counts: &Counts, share: f64) -> Option<u64> {
    let rank = counts.iter().sum::<u64>() as f64 * share;
    let mut below = 0.0;
    let mut lower_us = 0.0;
    for (bucket, count) in counts.iter().enumerate() {
        let bound_us = LATENCY_BOUNDS_US.get(bucket);
        let upper_us = bound_us.map_or(2.0 * lower_us, |bound_us| *bound_us as f64);
        let count = *count as f64;
        if count > 0.0 && below + count >= rank {
            let us = lower_us + (upper_us - lower_us) * ((rank - below) / count);
            return Some(us.round() as u64);
        }
        below += count;
        lower_us = upper_us;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::history::SAMPLE_PERIOD;
    use crate::metrics::{Metrics, OperationKind, Route};
    use base::ManualClock;
    use hyper::{Method, StatusCode};
    use std::sync::Arc;

    #[test]
    fn a_quantile_lies_in_its_bucket_as_if_requests_were_spread_evenly() {
        let mut counts = Counts::default();
        assert_eq!(quantile(&counts, 0.5), None);
        // 100 requests from 10 to 25 µs, and 100 from 250 to 500.
        (counts[1], counts[5]) = (100, 100);
        assert_eq!(LATENCY_BOUNDS_US[..6], [10, 25, 50, 100, 250, 500]);
        assert_eq!(quantile(&counts, 0.25), Some(18));
        assert_eq!(quantile(&counts, 0.5), Some(25));
        assert_eq!(quantile(&counts, 0.75), Some(375));
        assert_eq!(quantile(&counts, 1.0), Some(500));
        // What took longer than all bounds.
        let mut slowest = Counts::default();
        slowest[LATENCY_BUCKETS - 1] = 1;
        assert_eq!(quantile(&slowest, 1.0), Some(20_000_000));
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds_and_latencies_are_those_of_the_last_minute() {
        let clock = Arc::new(ManualClock::new(1_000_000));
        let metrics = Arc::new(Metrics::new(1));
        let listener = metrics.of_listener(0);
        let answer = |method: &Method, took_us| {
            let took = Duration::from_micros(took_us);
            listener
                .requests
                .answered(Route::Entity, method, StatusCode::OK, took);
        };
        let history = History::new(Arc::clone(&metrics), &*clock);
        assert_eq!(history.activity(&*clock), ClientActivity::default());
        for _ in 0..30 {
            answer(&Method::GET, 20);
        }
        clock.advance(Duration::from_secs(2));
        let activity = history.activity(&*clock);
        assert_eq!(activity.requests_per_1000_s, 15_000);
        assert!((10..25).contains(&activity.reads.unwrap().p50_us));
        assert_eq!(activity.writes, None);

        clock.advance(SAMPLE_PERIOD - Duration::from_secs(2));
        history.sample(&*clock);
        answer(&Method::PUT, 200);
        listener
            .operations
            .ended(OperationKind::Put, StatusCode::CREATED);
        // A sample has just ended: its rate is told until there is a newer one.
        clock.advance(Duration::from_millis(500));
        let activity = history.activity(&*clock);
        assert_eq!(activity.requests_per_1000_s, 3_000);
        assert!((100..=250).contains(&activity.writes.unwrap().p999_us));
        clock.advance(Duration::from_millis(500));
        assert_eq!(history.activity(&*clock).requests_per_1000_s, 2_000);
        // After a minute only the samples remember it.
        for _ in 0..=LATENCY_SAMPLES {
            clock.advance(SAMPLE_PERIOD);
            history.sample(&*clock);
        }
        assert_eq!(history.activity(&*clock), ClientActivity::default());
    }
}
