//! The node's metrics of the last hour, in samples of ten seconds: for people who investigate an
//! event without Prometheus.
//!
//! A recorder reads the counters of all runtimes once for each sample, at no cost for requests. The
//! memory is planned with [`HISTORY_BYTES_MAX`].

use super::requests::{self, LATENCY_BUCKETS};
use super::{LATENCY_BOUNDS_US, Metrics, operations};
use crate::config::bounds::HISTORY_BYTES_MAX;
use api::history::HistorySample;
use base::Clock;
use cluster::NODES_MAX;
use node::ExaminedNode;
use profile::lock;
use std::array;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// How long a sample lasts.
pub(crate) const SAMPLE_PERIOD: Duration = Duration::from_secs(10);

/// How many samples are kept: those of an hour.
pub(crate) const SAMPLES_MAX: usize = 360;

/// With what the other nodes have said of themselves, of which the node keeps one record each.
const _: () = assert!(
    SAMPLES_MAX * size_of::<Sample>() + NODES_MAX * size_of::<ExaminedNode>() <= HISTORY_BYTES_MAX
);

/// How many requests took how long, by the buckets of the metrics.
pub(crate) type BucketCounts = [u32; LATENCY_BUCKETS];

/// What the node did in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// When the span ended.
    pub(crate) end_unix_ms: u64,
    /// How long it was.
    pub(crate) span: Duration,
    /// How long `GET`s and `HEAD`s of keys took.
    pub(crate) reads: BucketCounts,
    /// How long `PUT`s and `DELETE`s took.
    pub(crate) writes: BucketCounts,
    /// Operations of batches.
    pub(crate) batch_operations: u32,
    /// Requests for keys, scans and batches, and operations of batches, that were answered
    /// `503`.
    pub(crate) refused: u32,
    /// Those that were answered `500`, `504` or `507`.
    pub(crate) failed: u32,
}

/// What the node has done since its start.
#[derive(Clone, Debug, Default)]
struct Totals {
    reads: [u64; LATENCY_BUCKETS],
    writes: [u64; LATENCY_BUCKETS],
    batch_operations: u64,
    refused: u64,
    failed: u64,
}

/// The samples of the last hour.
pub(crate) struct History {
    metrics: Arc<Metrics>,
    state: Mutex<State>,
}

struct State {
    /// The oldest first.
    samples: VecDeque<Sample>,
    /// The totals at the end of the last sample, and when that was on the monotonic clock.
    before: Totals,
    sampled_at: Duration,
}

impl History {
    /// A history that begins now.
    pub(crate) fn new(metrics: Arc<Metrics>, clock: &dyn Clock) -> Self {
        Self {
            state: Mutex::new(State {
                samples: VecDeque::with_capacity(SAMPLES_MAX),
                before: Totals::of(&metrics),
                sampled_at: clock.monotonic(),
            }),
            metrics,
        }
    }

    /// Takes a sample every [`SAMPLE_PERIOD`].
    pub(crate) async fn record_forever(&self, clock: &dyn Clock) {
        let first = tokio::time::Instant::now() + SAMPLE_PERIOD;
        let mut ticks = tokio::time::interval_at(first, SAMPLE_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.sample(clock);
        }
    }

    /// Ends the span that runs, and keeps its sample.
    pub(super) fn sample(&self, clock: &dyn Clock) {
        let totals = Totals::of(&self.metrics);
        let mut state = lock(&self.state);
        let sample = state.running(&totals, clock);
        if state.samples.len() == SAMPLES_MAX {
            state.samples.pop_front();
        }
        state.samples.push_back(sample);
        state.before = totals;
        state.sampled_at = clock.monotonic();
    }

    /// The last `count` samples, the oldest first, and what has happened since.
    pub(crate) fn last(&self, count: usize, clock: &dyn Clock) -> (Vec<Sample>, Sample) {
        let totals = Totals::of(&self.metrics);
        let state = lock(&self.state);
        let skipped = state.samples.len().saturating_sub(count);
        let samples = state.samples.iter().skip(skipped).copied().collect();
        (samples, state.running(&totals, clock))
    }
}

impl History {
    /// The last `count` samples as they are told.
    pub(crate) fn told(&self, count: usize, clock: &dyn Clock) -> api::history::History {
        let (samples, running) = self.last(count, clock);
        api::history::History {
            period_seconds: SAMPLE_PERIOD.as_secs(),
            bounds_us: LATENCY_BOUNDS_US.to_vec(),
            samples: samples.iter().map(told).collect(),
            running: told(&running),
        }
    }
}

fn told(sample: &Sample) -> HistorySample {
    HistorySample {
        unix_ms: sample.end_unix_ms,
        span_ms: u64::try_from(sample.span.as_millis()).unwrap_or(u64::MAX),
        reads: trimmed(&sample.reads),
        writes: trimmed(&sample.writes),
        batch_operations: sample.batch_operations,
        refused: sample.refused,
        failed: sample.failed,
    }
}

/// The counts without the empty buckets at their end.
fn trimmed(counts: &BucketCounts) -> Vec<u32> {
    let last = counts.iter().rposition(|count| *count > 0);
    counts[..last.map_or(0, |last| last + 1)].to_vec()
}

impl State {
    /// What happened since the last sample.
    fn running(&self, totals: &Totals, clock: &dyn Clock) -> Sample {
        let before = &self.before;
        let buckets = |now: &[u64; LATENCY_BUCKETS], before: &[u64; LATENCY_BUCKETS]| {
            array::from_fn(|bucket| increase(before[bucket], now[bucket]))
        };
        Sample {
            end_unix_ms: clock.unix_ms(),
            span: clock.monotonic().saturating_sub(self.sampled_at),
            reads: buckets(&totals.reads, &before.reads),
            writes: buckets(&totals.writes, &before.writes),
            batch_operations: increase(before.batch_operations, totals.batch_operations),
            refused: increase(before.refused, totals.refused),
            failed: increase(before.failed, totals.failed),
        }
    }
}

/// By how much a counter rose. Readers may see a runtime's counters a little late, so it
/// may seem to fall.
fn increase(before: u64, now: u64) -> u32 {
    u32::try_from(now.saturating_sub(before)).unwrap_or(u32::MAX)
}

impl Totals {
    fn of(metrics: &Metrics) -> Self {
        let with = |is_counted: fn(u16) -> bool| {
            requests::answers_with(metrics, is_counted) + operations::with(metrics, is_counted)
        };
        Self {
            reads: requests::entity_buckets(metrics, &["GET", "HEAD"]),
            writes: requests::entity_buckets(metrics, &["PUT", "DELETE"]),
            batch_operations: operations::with(metrics, |_| true),
            refused: with(|status| status == 503),
            failed: with(|status| matches!(status, 500 | 504 | 507)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{OperationKind, Route};
    use base::ManualClock;
    use hyper::{Method, StatusCode};

    fn total(buckets: &BucketCounts) -> u32 {
        buckets.iter().sum()
    }

    #[test]
    fn a_sample_has_what_happened_in_its_span() {
        let clock = ManualClock::new(1_000_000);
        let metrics = Arc::new(Metrics::new(2));
        let answer = |method: Method, status: u16| {
            let status = StatusCode::from_u16(status).unwrap();
            for runtime in 0..2 {
                let requests = &metrics.of_listener(runtime).requests;
                let took = Duration::from_micros(20);
                requests.answered(Route::Entity, &method, status, took);
                requests.answered(Route::Status, &method, status, took);
            }
        };
        answer(Method::GET, 200);
        let history = History::new(Arc::clone(&metrics), &clock);
        answer(Method::GET, 200);
        answer(Method::HEAD, 404);
        answer(Method::PUT, 503);
        clock.advance(SAMPLE_PERIOD);
        history.sample(&clock);
        answer(Method::DELETE, 504);
        let operations = &metrics.of_listener(1).operations;
        operations.ended(OperationKind::Put, StatusCode::CREATED);
        operations.ended(OperationKind::Get, StatusCode::GATEWAY_TIMEOUT);
        clock.advance(Duration::from_secs(3));

        let (samples, running) = history.last(9, &clock);
        let [sample] = samples.as_slice() else {
            panic!("{samples:?}")
        };
        assert_eq!(
            (sample.end_unix_ms, sample.span),
            (1_010_000, SAMPLE_PERIOD)
        );
        assert_eq!((total(&sample.reads), total(&sample.writes)), (4, 2));
        assert_eq!(sample.reads[1], 4, "20 µs are in the bucket of 25 µs");
        assert_eq!((sample.refused, sample.failed), (2, 0));
        assert_eq!(sample.batch_operations, 0);
        assert_eq!(running.span, Duration::from_secs(3));
        assert_eq!((total(&running.reads), total(&running.writes)), (0, 2));
        assert_eq!((running.refused, running.failed), (0, 3));
        assert_eq!(running.batch_operations, 2);
    }

    #[test]
    fn empty_buckets_at_the_end_are_left_out() {
        let mut counts = BucketCounts::default();
        assert_eq!(trimmed(&counts), Vec::<u32>::new());
        counts[2] = 7;
        assert_eq!(trimmed(&counts), [0, 0, 7]);
        counts[counts.len() - 1] = 1;
        assert_eq!(trimmed(&counts).len(), counts.len());
    }

    #[test]
    fn the_samples_of_an_hour_are_kept_and_no_more() {
        let clock = ManualClock::new(0);
        let history = History::new(Arc::new(Metrics::new(1)), &clock);
        for _ in 0..SAMPLES_MAX + 2 {
            clock.advance(SAMPLE_PERIOD);
            history.sample(&clock);
        }
        let (samples, _) = history.last(usize::MAX, &clock);
        assert_eq!(samples.len(), SAMPLES_MAX);
        let hour = samples[SAMPLES_MAX - 1].end_unix_ms - samples[0].end_unix_ms;
        assert_eq!(hour, 3_590_000);
        let (last, _) = history.last(2, &clock);
        assert_eq!(last, samples[SAMPLES_MAX - 2..]);
    }
}
