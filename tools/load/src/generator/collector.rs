//! Merges what the threads counted: per second and in total.

use super::recorder::{Counts, Interval};
use crate::results::{LatencyDistribution, Second};
use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// Steps of the spectrum for each halving of the distance to 100%, as in wrk2.
const SPECTRUM_STEPS: u32 = 5;

/// Percentiles that are usually asked for; the spectrum contains them exactly.
const NAMED_PERCENTILES: [f64; 7] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999];

/// The counts of all threads in one second.
struct MergedSecond {
    end: Duration,
    counts: Box<Counts>,
}

/// Merges intervals.
pub(super) struct Collector {
    warmup: Duration,
    /// The channel that returns emptied intervals to each thread.
    empty: Vec<SyncSender<Box<Counts>>>,
    /// How many intervals of each thread have ended.
    over: Vec<usize>,
    /// Seconds whose interval some thread has not handed over.
    open: BTreeMap<usize, MergedSecond>,
    pub(super) total: Counts,
    pub(super) timeline: Vec<Second>,
}

impl Collector {
    pub(super) fn new(warmup: Duration, empty: Vec<SyncSender<Box<Counts>>>) -> Self {
        Self {
            warmup,
            over: vec![0; empty.len()],
            empty,
            open: BTreeMap::new(),
            total: Counts::new(),
            timeline: Vec::new(),
        }
    }

    /// Merges an interval of a thread, and calls `watch` with each second that
    /// is now complete.
    pub(super) fn take(&mut self, interval: Interval, mut watch: impl FnMut(&Second)) {
        let Interval {
            thread,
            number,
            end,
            mut counts,
        } = interval;
        self.over[thread] = number + 1;
        if number > 0 {
            match self.open.get_mut(&number) {
                Some(merged) => {
                    merged.counts.add(&counts);
                    merged.end = merged.end.max(end);
                    self.give_back(thread, counts);
                }
                None => {
                    self.open.insert(number, MergedSecond { end, counts });
                }
            }
        } else {
            counts.clear();
            self.give_back(thread, counts);
        }
        let over = self.over.iter().min().copied().unwrap_or(0);
        while let Some(entry) = self.open.first_entry()
            && *entry.key() < over
        {
            let merged = entry.remove();
            self.close(merged, thread, &mut watch);
        }
    }

    /// Completes the seconds that some thread did not reach.
    pub(super) fn finish(&mut self, mut watch: impl FnMut(&Second)) {
        while let Some((_, merged)) = self.open.pop_first() {
            self.close(merged, 0, &mut watch);
        }
    }

    fn close(&mut self, merged: MergedSecond, thread: usize, watch: &mut impl FnMut(&Second)) {
        let counts = merged.counts;
        let at_seconds = merged.end.saturating_sub(self.warmup).as_secs_f64();
        let percentile = |share| ms(counts.latency.value_at_quantile(share));
        let second = Second {
            at_seconds,
            succeeded: counts.latency.len(),
            failed: counts.failures(),
            p50_ms: percentile(0.5),
            p99_ms: percentile(0.99),
            max_ms: ms(counts.latency.max()),
        };
        self.total.add(&counts);
        self.give_back(thread, counts);
        // The last interval of a run of whole seconds has no length.
        let is_longer = self
            .timeline
            .last()
            .is_none_or(|last| last.at_seconds < second.at_seconds);
        if is_longer || second.succeeded + second.failed > 0 {
            self.timeline.push(second);
            watch(&second);
        }
    }

    fn give_back(&self, thread: usize, mut counts: Box<Counts>) {
        counts.clear();
        // The thread has enough empty intervals, or has ended.
        let _ = self.empty[thread].try_send(counts);
    }
}

/// Converts microseconds to milliseconds.
fn ms(us: u64) -> f64 {
    us as f64 / 1e3
}

/// The latency distribution of the counts.
pub(super) fn latency(counts: &Counts) -> LatencyDistribution {
    let histogram = &counts.latency;
    let at_most_max = |us| ms(histogram.max().min(us));
    let mut spectrum: Vec<(f64, f64)> = histogram
        .iter_quantiles(SPECTRUM_STEPS)
        .map(|step| {
            let percentile = 100.0 * step.quantile_iterated_to();
            (percentile, at_most_max(step.value_iterated_to()))
        })
        .collect();
    if !histogram.is_empty() {
        let named = NAMED_PERCENTILES.iter();
        spectrum.extend(named.map(|percentile| {
            let us = histogram.value_at_quantile(percentile / 100.0);
            (*percentile, at_most_max(us))
        }));
        spectrum.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        spectrum.dedup_by_key(|step| step.0);
    }
    LatencyDistribution {
        count: histogram.len(),
        mean_ms: histogram.mean() / 1e3,
        max_ms: ms(histogram.max()),
        spectrum,
    }
}
