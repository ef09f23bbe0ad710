//! Gathers what the threads counted: second by second, and in all.

use super::recorder::{Counts, Interval};
use crate::results::{LatencyDistribution, Second};
use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// Steps of the spectrum for each halving of the distance to 100%, as in wrk2.
const SPECTRUM_STEPS: u32 = 5;

/// Percentiles that people ask for by name, which a spectrum has exactly.
const NAMED_PERCENTILES: [f64; 7] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999];

/// What all threads counted in one second.
struct MergedSecond {
    end: Duration,
    counts: Box<Counts>,
}

/// Gathers intervals.
pub(super) struct Collector {
    warmup: Duration,
    /// Where each thread gets its intervals back.
    empty: Vec<SyncSender<Box<Counts>>>,
    /// How many intervals of each thread are over.
    over: Vec<usize>,
    /// Seconds that not all threads have told of.
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

    /// Takes an interval of a thread; gives the seconds that are over with it.
    pub(super) fn take(&mut self, interval: Interval, mut tell: impl FnMut(&Second)) {
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
            self.close(merged, thread, &mut tell);
        }
    }

    /// Closes the seconds that some thread ended before.
    pub(super) fn finish(&mut self, mut tell: impl FnMut(&Second)) {
        while let Some((_, merged)) = self.open.pop_first() {
            self.close(merged, 0, &mut tell);
        }
    }

    fn close(&mut self, merged: MergedSecond, thread: usize, tell: &mut impl FnMut(&Second)) {
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
        // A run of whole seconds ends with an interval of no length.
        let is_longer = self
            .timeline
            .last()
            .is_none_or(|last| last.at_seconds < second.at_seconds);
        if is_longer || second.succeeded + second.failed > 0 {
            self.timeline.push(second);
            tell(&second);
        }
    }

    fn give_back(&self, thread: usize, mut counts: Box<Counts>) {
        counts.clear();
        // A thread that has enough of them, or has ended, needs no more.
        let _ = self.empty[thread].try_send(counts);
    }
}

/// Microseconds in milliseconds.
fn ms(us: u64) -> f64 {
    us as f64 / 1e3
}

/// The distribution that was counted.
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
