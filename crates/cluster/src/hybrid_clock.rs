//! The hybrid logical clock that stamps writes.

use crate::clock_bound::ClockBound;
use lsm::Timestamp;

/// A hybrid logical clock (Kulkarni et al., "Logical Physical Clocks", 2014):
/// as near to the wall clock as it can be while every stamp is above all
/// stamps given or seen before.
///
/// A counter that overflows carries into the milliseconds, so a clock that
/// gives more than 65,536 stamps in a millisecond runs ahead of the wall for a moment.
#[derive(Clone, Debug)]
pub struct HybridClock {
    greatest: Timestamp,
}

impl HybridClock {
    /// A clock whose stamps are all above `greatest_seen`: the greatest
    /// timestamp that the node has stored.
    #[must_use]
    pub fn new(greatest_seen: Timestamp) -> Self {
        Self {
            greatest: greatest_seen,
        }
    }

    /// The next stamp, given the wall clock's milliseconds since the Unix
    /// epoch. [`None`] when the clock has reached its end: a stamp of the last
    /// millisecond was seen, and nothing can be above it.
    #[must_use = "a stamp that is dropped is gone"]
    pub fn stamp(&mut self, now_unix_ms: u64) -> Option<Timestamp> {
        let after = Timestamp::from_u64(self.greatest.as_u64().checked_add(1)?);
        self.greatest = after.max(Timestamp::from_unix_ms(now_unix_ms));
        Some(self.greatest)
    }

    /// Takes note of a timestamp that a peer sent, if the bound allows it by
    /// the wall clock; whether it does. A stamp from beyond would drag this
    /// clock along, and with it every clock that hears from this one.
    pub fn observe_within(&mut self, seen: Timestamp, bound: ClockBound, now_unix_ms: u64) -> bool {
        let is_taken = bound.takes(seen, now_unix_ms);
        if is_taken {
            self.observe(seen);
        }
        is_taken
    }

    /// Takes note of a timestamp that is trusted: stamps from now on are above it.
    pub fn observe(&mut self, seen: Timestamp) {
        self.greatest = self.greatest.max(seen);
    }

    /// The greatest stamp given or seen.
    #[must_use]
    pub fn greatest(&self) -> Timestamp {
        self.greatest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn stamps_follow_the_wall_clock_and_never_go_back() {
        let mut clock = HybridClock::new(Timestamp::ZERO);
        let first = clock.stamp(1_000).unwrap();
        assert_eq!(first, Timestamp::from_unix_ms(1_000));
        let second = clock.stamp(1_000).unwrap();
        assert_eq!((second.unix_ms(), second.counter()), (1_000, 1));
        let after_a_step_back = clock.stamp(10).unwrap();
        assert!(after_a_step_back > second);
        assert_eq!(clock.stamp(2_000), Some(Timestamp::from_unix_ms(2_000)));
    }

    #[test]
    fn stamps_are_above_what_was_seen() {
        let mut clock = HybridClock::new(Timestamp::from_unix_ms(5_000));
        assert!(clock.stamp(1).unwrap() > Timestamp::from_unix_ms(5_000));
        clock.observe(Timestamp::from_unix_ms(9_000));
        assert!(clock.stamp(1).unwrap() > Timestamp::from_unix_ms(9_000));
        clock.observe(Timestamp::ZERO);
        assert!(clock.stamp(1).unwrap() > Timestamp::from_unix_ms(9_000));
    }

    #[test]
    fn a_broken_clock_elsewhere_does_not_drag_this_one_along() {
        let bound = ClockBound::new(Duration::from_millis(100));
        let mut clock = HybridClock::new(Timestamp::ZERO);
        assert!(clock.observe_within(Timestamp::from_unix_ms(1_200), bound, 1_000));
        assert!(clock.stamp(1_000).unwrap() > Timestamp::from_unix_ms(1_200));
        let greatest = clock.greatest();
        assert!(!clock.observe_within(Timestamp::from_unix_ms(1_201), bound, 1_000));
        assert!(!clock.observe_within(Timestamp::MAX, bound, 1_000));
        assert_eq!(clock.greatest(), greatest);
    }

    #[test]
    fn a_full_counter_carries_into_the_milliseconds() {
        let last = Timestamp::from_u64(Timestamp::from_unix_ms(8).as_u64() - 1);
        let mut clock = HybridClock::new(last);
        assert_eq!(clock.stamp(7), Some(Timestamp::from_unix_ms(8)));
    }

    #[test]
    fn the_end_of_time_is_no_panic() {
        let mut clock = HybridClock::new(Timestamp::MAX);
        assert_eq!(clock.stamp(1), None);
    }
}
