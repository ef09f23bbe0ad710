//! Counts requests and latencies on one thread.
//!
//! A thread counts into one interval, hands it over when its second has ended,
//! and gets it back emptied. So a request costs one increment in one histogram,
//! and no memory is allocated in the steady state.

use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::time::Duration;

/// Latencies above this count as this: an hour, in microseconds.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// Significant digits of a recorded latency.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Why a request did not succeed.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum FailureKind {
    /// The response had this status.
    Status(u16),
    /// No response arrived in time.
    Timeout,
    /// Its connection broke.
    Connection,
    /// The response was not HTTP.
    BadResponse,
    /// The value was never put under its key.
    WrongValue,
}

impl FailureKind {
    /// Its name in a run.
    pub(crate) fn label(self) -> String {
        match self {
            Self::Status(status) => status.to_string(),
            Self::Timeout => "timeout".to_owned(),
            Self::Connection => "connection".to_owned(),
            Self::BadResponse => "bad response".to_owned(),
            Self::WrongValue => crate::results::WRONG_VALUE.to_owned(),
        }
    }
}

/// Counts over some time.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    /// Latencies of the requests that succeeded, in microseconds.
    pub(crate) latency: Histogram<u64>,
    pub(crate) failed: BTreeMap<FailureKind, u64>,
    pub(crate) missing: u64,
    pub(crate) entities: u64,
    /// Operations of the batches that succeeded.
    pub(crate) operations: u64,
    pub(crate) body_bytes: u64,
}

impl Counts {
    pub(crate) fn new() -> Self {
        let latency = Histogram::new_with_max(LATENCY_US_MAX, SIGNIFICANT_DIGITS);
        #[expect(
            clippy::expect_used,
            reason = "both bounds are constants in the allowed range"
        )]
        let latency = latency.expect("a histogram up to an hour");
        Self {
            latency,
            failed: BTreeMap::new(),
            missing: 0,
            entities: 0,
            operations: 0,
            body_bytes: 0,
        }
    }

    /// Counts a request that succeeded.
    pub(crate) fn succeed(&mut self, latency: Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.latency.saturating_record(us.max(1));
    }

    /// Counts a request that failed.
    pub(crate) fn fail(&mut self, why: FailureKind) {
        *self.failed.entry(why).or_default() += 1;
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Adds the counts of `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        // Both histograms have the same bounds, so adding cannot fail.
        let _ = self.latency.add(&other.latency);
        for (why, count) in &other.failed {
            *self.failed.entry(*why).or_default() += count;
        }
        self.missing += other.missing;
        self.entities += other.entities;
        self.operations += other.operations;
        self.body_bytes += other.body_bytes;
    }

    /// Sets all counts to zero and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.latency.reset();
        self.failed.clear();
        (self.missing, self.entities) = (0, 0);
        (self.operations, self.body_bytes) = (0, 0);
    }
}

/// The counts of a thread in one interval.
#[derive(Debug)]
pub(super) struct Interval {
    /// The thread's number.
    pub(super) thread: usize,
    /// 0 for the warm-up, then the number of the second after it.
    pub(super) number: usize,
    /// Its end, as a time after the start.
    pub(super) end: Duration,
    pub(super) counts: Box<Counts>,
}

/// Counts for a thread, and hands intervals over.
pub(super) struct Recorder {
    pub(super) counts: Box<Counts>,
    thread: usize,
    number: usize,
    end: Duration,
    full: SyncSender<Interval>,
    empty: Receiver<Box<Counts>>,
}

impl Recorder {
    /// Begins with the interval of the warm-up, which may have no length.
    /// Intervals are sent to `full` and come back through `empty`.
    pub(super) fn new(
        thread: usize,
        warmup: Duration,
        full: SyncSender<Interval>,
        empty: Receiver<Box<Counts>>,
    ) -> Self {
        Self {
            counts: Box::new(Counts::new()),
            thread,
            number: 0,
            end: warmup,
            full,
            empty,
        }
    }

    /// Hands the interval over if it has ended at `now`. If the channel is full
    /// because the watching thread is busy, the counts stay in the next
    /// interval, so that the load does not wait.
    pub(super) fn end_intervals(&mut self, now: Duration) {
        while now >= self.end {
            let counts = self.empty.try_recv();
            let next = counts.unwrap_or_else(|_| Box::new(Counts::new()));
            let interval = Interval {
                thread: self.thread,
                number: self.number,
                end: self.end,
                counts: std::mem::replace(&mut self.counts, next),
            };
            self.number += 1;
            self.end += Duration::from_secs(1);
            if let Err(TrySendError::Full(interval)) = self.full.try_send(interval) {
                // Counts of the warm-up must not become part of the load.
                if interval.number > 0 {
                    self.counts = interval.counts;
                }
            }
        }
    }

    /// Hands over the last interval.
    pub(super) fn finish(self, now: Duration) {
        // The receiver is gone only if the run has failed.
        let _ = self.full.send(Interval {
            thread: self.thread,
            number: self.number,
            end: now,
            counts: self.counts,
        });
    }
}
