//! The schedule of an open loop: when requests fall due.
//!
//! The i-th request of a run is due at `start + i / rate`, even if earlier
//! requests are unanswered. The threads take requests in turn. A request that
//! finds no free connection stays due; the schedule keeps only a counter,
//! however many requests wait.

use crate::plan::Rate;
use std::time::Duration;

/// The schedule of one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrivalSchedule {
    /// Nanoseconds between two requests of this thread.
    interval_ns: f64,
    /// Nanoseconds from the start to the first request of this thread.
    offset_ns: f64,
    taken: u64,
}

impl ArrivalSchedule {
    /// The schedule of thread number `thread` of `threads`; [`None`] in a
    /// closed loop.
    pub(super) fn new(rate: Rate, thread: usize, threads: usize) -> Option<Self> {
        match rate {
            Rate::Max => None,
            Rate::PerSecond(rate) => Some(Self {
                interval_ns: 1e9 * threads as f64 / rate,
                offset_ns: 1e9 * thread as f64 / rate,
                taken: 0,
            }),
        }
    }

    /// When the next request is due, after the start.
    pub(super) fn next(&self) -> Duration {
        Duration::from_nanos((self.offset_ns + self.taken as f64 * self.interval_ns) as u64)
    }

    /// Takes the next request if it is due at `now`, and returns when it was
    /// due.
    pub(super) fn take(&mut self, now: Duration) -> Option<Duration> {
        let due = self.next();
        if due > now {
            return None;
        }
        self.taken += 1;
        Some(due)
    }

    /// How many requests fall due before `time`, a time after the start.
    pub(super) fn due_before(&self, time: Duration) -> u64 {
        let past_first_ns = time.as_nanos() as f64 - self.offset_ns;
        (past_first_ns / self.interval_ns).ceil().max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_a_constant_rate() {
        let rate = Rate::PerSecond(1_000.0);
        let mut due: Vec<Duration> = (0..3)
            .flat_map(|thread| {
                let mut schedule = ArrivalSchedule::new(rate, thread, 3).unwrap();
                std::iter::from_fn(move || schedule.take(Duration::from_micros(99_500)))
            })
            .collect();
        due.sort_unstable();
        let expected: Vec<Duration> = (0..100).map(Duration::from_millis).collect();
        let near = due.iter().zip(&expected);
        assert_eq!(due.len(), expected.len());
        assert!(
            near.into_iter()
                .all(|(a, b)| a.abs_diff(*b).as_nanos() < 10)
        );
    }

    #[test]
    fn what_is_due_is_counted_whether_or_not_it_was_taken() {
        let all = |time| -> u64 {
            let schedule = |thread| ArrivalSchedule::new(Rate::PerSecond(1_000.0), thread, 3);
            let each = (0..3).filter_map(schedule);
            each.map(|schedule| schedule.due_before(time)).sum()
        };
        assert_eq!(all(Duration::ZERO), 0);
        assert_eq!(all(Duration::from_secs(1)), 1_000);
        assert_eq!(all(Duration::from_micros(1_500)), 2);
    }
}
