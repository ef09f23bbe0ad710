//! What a thread counts.
//!
//! A thread records into one interval at a time, which it hands over when the
//! second is over and gets back, emptied, to use again: so a request costs one
//! count in one histogram, and no memory is taken in the steady state.

use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::time::Duration;

/// The longest latency that is told from longer ones: an hour, in microseconds.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// Digits of a latency that are kept.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Why a request did not succeed.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum FailureKind {
    /// It was answered with this status.
    Status(u16),
    /// It had no answer in time.
    Timeout,
    /// Its connection broke.
    Connection,
    /// The answer was no HTTP.
    BadResponse,
    /// The value was none that was put under the key.
    WrongValue,
}

impl FailureKind {
    /// What a run calls it.
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

/// What was counted in some time.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    /// Latencies of the requests that succeeded, in microseconds.
    pub(crate) latency: Histogram<u64>,
    pub(crate) failed: BTreeMap<FailureKind, u64>,
    pub(crate) missing: u64,
    pub(crate) entities: u64,
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
            body_bytes: 0,
        }
    }

    /// Counts a request that succeeded.
    pub(crate) fn succeed(&mut self, latency: Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.latency.saturating_record(us.max(1));
    }

    /// Counts one that did not.
    pub(crate) fn fail(&mut self, why: FailureKind) {
        *self.failed.entry(why).or_default() += 1;
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Adds what another one counted.
    pub(crate) fn add(&mut self, other: &Self) {
        // Both have the same bounds, so there is room for all that the other has.
        let _ = self.latency.add(&other.latency);
        for (why, count) in &other.failed {
            *self.failed.entry(*why).or_default() += count;
        }
        self.missing += other.missing;
        self.entities += other.entities;
        self.body_bytes += other.body_bytes;
    }

    /// Forgets everything but the room that it takes.
    pub(crate) fn clear(&mut self) {
        self.latency.reset();
        self.failed.clear();
        (self.missing, self.entities, self.body_bytes) = (0, 0, 0);
    }
}

/// What a thread counted up to a moment.
#[derive(Debug)]
pub(super) struct Interval {
    /// The thread's number.
    pub(super) thread: usize,
    /// 0 for the warm-up, then the second after it.
    pub(super) number: usize,
    /// When it ended, after the start.
    pub(super) end: Duration,
    pub(super) counts: Box<Counts>,
}

/// A thread's side of the intervals.
pub(super) struct Recorder {
    pub(super) counts: Box<Counts>,
    thread: usize,
    number: usize,
    end: Duration,
    full: SyncSender<Interval>,
    empty: Receiver<Box<Counts>>,
}

impl Recorder {
    /// Begins with a warm-up, which may take no time. Intervals go to `full`
    /// and come back through `empty`.
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

    /// Hands the interval over when it is over at `now`. If nobody takes it
    /// (who watches the run is busy), it goes on with the next one's counts
    /// rather than keep the load waiting.
    pub(super) fn turn(&mut self, now: Duration) {
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
                // Warm-up and load must not mix.
                if interval.number > 0 {
                    self.counts = interval.counts;
                }
            }
        }
    }

    /// Hands over what is left at the end of the load.
    pub(super) fn finish(self, now: Duration) {
        // Nobody takes it only when the run has failed.
        let _ = self.full.send(Interval {
            thread: self.thread,
            number: self.number,
            end: now,
            counts: self.counts,
        });
    }
}
