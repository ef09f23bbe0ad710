//! How far ahead a node reserves timestamps.
//!
//! A node allocates timestamps only up to a durable timestamp bound, and after a start only above
//! the timestamp bound that it finds. So it allocates no timestamp twice, even if it crashes or its
//! clock steps back.
//!
//! The timestamp bound is some seconds ahead and is raised before timestamps reach it. More seconds
//! mean fewer syncs. But the timestamps between the last one issued and the timestamp bound are
//! skipped after a crash, so the timestamps of the next start are ahead of its clock. A node in a
//! crash loop must not get further ahead with each start. Therefore a full step is measured from
//! the wall clock. From a hybrid clock that is ahead of the wall clock, as after a crash, the first
//! step is short, and each further step is twice as long as the one before.

use base::Timestamp;
use std::time::Duration;

/// The first step from a hybrid clock that is ahead of the wall clock, in milliseconds.
const STEP_FIRST_MS: u64 = 100;

/// The timestamp bound in force, and how far ahead the next one is.
#[derive(Clone, Debug)]
pub struct TimestampReservation {
    step_ms_max: u64,
    /// The next step from a hybrid clock that is ahead of the wall clock.
    step_ms: u64,
    bound: Timestamp,
    /// How far ahead this timestamp bound was when it was raised.
    reserved_ms: u64,
}

impl TimestampReservation {
    /// Steps of at most `step_max`, above the timestamp bound that a start has found.
    #[must_use]
    pub fn new(step_max: Duration, found: Timestamp) -> Self {
        let step_ms_max = u64::try_from(step_max.as_millis()).unwrap_or(u64::MAX);
        let step_ms_max = step_ms_max.max(1);
        Self {
            step_ms_max,
            step_ms: STEP_FIRST_MS.min(step_ms_max),
            bound: found,
            reserved_ms: 0,
        }
    }

    /// The timestamp bound in force: no timestamp may be above it.
    #[must_use]
    pub fn bound(&self) -> Timestamp {
        self.bound
    }

    /// Whether the timestamp bound should be raised for the timestamps after this one, because
    /// half of the reservation is used up.
    #[must_use]
    pub fn is_low(&self, timestamp: Timestamp) -> bool {
        let left_ms = self.bound.unix_ms().saturating_sub(timestamp.unix_ms());
        timestamp > self.bound || left_ms < self.reserved_ms / 2
    }

    /// The next timestamp bound. `greatest` is the greatest timestamp issued or seen, `now_unix_ms`
    /// the wall clock in milliseconds since the Unix epoch.
    #[must_use]
    pub fn next(&self, greatest: Timestamp, now_unix_ms: u64) -> Timestamp {
        let from_now_ms = now_unix_ms.saturating_add(self.step_ms_max);
        let from_greatest_ms = greatest.unix_ms().saturating_add(self.step_ms);
        let next = Timestamp::from_unix_ms(from_now_ms.max(from_greatest_ms));
        // There is no step above the last timestamp.
        next.max(greatest).max(self.bound)
    }

    /// Records that the timestamp bound is durable which [`TimestampReservation::next`]
    /// returned for `greatest` and `now_unix_ms`.
    pub fn raised(&mut self, bound: Timestamp, greatest: Timestamp, now_unix_ms: u64) {
        let from_ms = greatest.unix_ms().max(now_unix_ms);
        self.bound = bound;
        self.reserved_ms = bound.unix_ms().saturating_sub(from_ms);
        if greatest.unix_ms() > now_unix_ms {
            self.step_ms = self.step_ms.saturating_mul(2).min(self.step_ms_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = Timestamp::EPOCH_UNIX_MS + 1_000_000;
    const STEP_MS: u64 = 10_000;

    fn at(unix_ms: u64) -> Timestamp {
        Timestamp::from_unix_ms(unix_ms)
    }

    fn reservation(found: Timestamp) -> TimestampReservation {
        TimestampReservation::new(Duration::from_millis(STEP_MS), found)
    }

    fn raise(reservation: &mut TimestampReservation, greatest: Timestamp, now_unix_ms: u64) {
        let bound = reservation.next(greatest, now_unix_ms);
        reservation.raised(bound, greatest, now_unix_ms);
    }

    #[test]
    fn the_bound_is_a_long_step_ahead_and_raised_at_half_of_it() {
        let mut reservation = reservation(Timestamp::ZERO);
        assert!(reservation.is_low(at(NOW)));
        raise(&mut reservation, at(NOW - 5), NOW);
        assert_eq!(reservation.bound(), at(NOW + STEP_MS));
        assert!(!reservation.is_low(at(NOW + STEP_MS / 2)));
        assert!(reservation.is_low(at(NOW + STEP_MS / 2 + 1)));
        assert!(reservation.is_low(at(NOW + 5 * STEP_MS)));
    }

    #[test]
    fn steps_from_a_hybrid_clock_that_is_ahead_double() {
        let ahead = at(NOW + 1_000_000);
        let mut reservation = reservation(Timestamp::ZERO);
        for step_ms in [100, 200, 400, 800, 1_600, 3_200, 6_400, STEP_MS, STEP_MS] {
            // The timestamp bound before is used up.
            let greatest = reservation.bound().max(ahead);
            raise(&mut reservation, greatest, NOW);
            assert_eq!(reservation.bound(), at(greatest.unix_ms() + step_ms));
            assert!(!reservation.is_low(at(greatest.unix_ms() + step_ms / 2)));
        }
    }

    #[test]
    fn a_crash_loop_runs_ahead_by_the_first_step_each_time() {
        let mut found = at(NOW);
        for start in 0..50 {
            let mut reservation = reservation(found);
            raise(&mut reservation, found, NOW);
            found = reservation.bound();
            assert_eq!(found, at(NOW + STEP_MS + start * 100));
        }
    }

    #[test]
    fn the_bound_is_never_lowered() {
        let mut reservation = reservation(at(NOW));
        raise(&mut reservation, Timestamp::ZERO, NOW - 100_000);
        assert_eq!(reservation.bound(), at(NOW));
    }

    #[test]
    fn a_step_of_zero_and_the_last_timestamp_do_not_panic() {
        let reservation = TimestampReservation::new(Duration::ZERO, Timestamp::ZERO);
        assert_eq!(reservation.next(Timestamp::ZERO, NOW), at(NOW + 1));
        let reservation = TimestampReservation::new(Duration::MAX, Timestamp::ZERO);
        assert_eq!(reservation.next(Timestamp::MAX, u64::MAX), Timestamp::MAX);
    }
}
