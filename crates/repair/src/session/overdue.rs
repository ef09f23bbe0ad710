//! How late the GC threshold is, while a session is to raise it.
//!
//! Clients that saturate the nodes leave a session nothing but the floor of the budget. That is
//! enough for a store that does not grow, but deleted data must go in bounded time however
//! much comes. So a session gets more the later the threshold is: see [`Background::set_overdue`].
//!
//! [`Background::set_overdue`]: replica::background::Background::set_overdue

use base::Timestamp;
use std::time::Duration;

/// What the GC threshold is measured by.
pub(super) struct Overdue {
    /// How far in the past it is at best.
    pub(super) gc_grace: Duration,
    /// How often a full session begins; [`None`] if none does by itself.
    pub(super) interval: Option<Duration>,
    /// When this node was started, in milliseconds since 1970: the first one is late from then.
    pub(super) started_unix_ms: u64,
}

impl Overdue {
    /// How often the floor of the budget is doubled: once when it has been late for twice the
    /// interval, as a session begins within one and may take another, and once more for each
    /// further one.
    pub(super) fn doublings(&self, now_unix_ms: u64, gc_threshold: Timestamp) -> u32 {
        let Some(interval) = self.interval else {
            return 0;
        };
        let bound_unix_ms = match gc_threshold {
            Timestamp::ZERO => self.started_unix_ms,
            known => known.unix_ms(),
        };
        let age_ms = u128::from(now_unix_ms.saturating_sub(bound_unix_ms));
        let late_ms = age_ms.saturating_sub(self.gc_grace.as_millis());
        let intervals = late_ms / interval.as_millis().max(1);
        u32::try_from(intervals.saturating_sub(1)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_doubled_with_each_interval_by_which_it_is_late() {
        const START_MS: u64 = 1_700_000_000_000;
        let overdue = Overdue {
            gc_grace: Duration::from_secs(10),
            interval: Some(Duration::from_secs(5)),
            started_unix_ms: START_MS,
        };
        let known = Timestamp::from_unix_ms(START_MS + 1_000_000);
        for (bound, bound_unix_ms) in [(Timestamp::ZERO, START_MS), (known, known.unix_ms())] {
            for (age_seconds, doublings) in [(0, 0), (19, 0), (20, 1), (24, 1), (25, 2), (40, 5)] {
                let now_unix_ms = bound_unix_ms + 1000 * age_seconds;
                assert_eq!(overdue.doublings(now_unix_ms, bound), doublings);
            }
            assert_eq!(overdue.doublings(bound_unix_ms - 1, bound), 0);
        }
        let without_repairs = Overdue {
            interval: None,
            ..overdue
        };
        assert_eq!(without_repairs.doublings(u64::MAX, known), 0);
    }
}
