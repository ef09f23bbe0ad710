//! The hybrid logical clock that stamps writes.

use crate::clock_bound::ClockBound;
use base::Timestamp;

/// A hybrid logical clock (Kulkarni et al., "Logical Physical Clocks", 2014):
/// as near to the wall clock as it can be while every stamp is above all
/// stamps given or seen before. Each stamp carries the node's number, so it
/// differs from those of all other nodes, too.
///
/// A counter that overflows carries into the milliseconds, so a clock that
/// gives more than 4,096 stamps in a millisecond runs ahead of the wall for a moment.
#[derive(Clone, Debug)]
pub struct HybridClock {
    node: u8,
    greatest: Timestamp,
}

impl HybridClock {
    /// The clock of the node with this number ([`Members::stamp_number`]),
    /// whose stamps are all above `greatest_seen`: the greatest timestamp
    /// that the node has stored.
    ///
    /// [`Members::stamp_number`]: crate::Members::stamp_number
    #[must_use]
    pub fn new(node: u8, greatest_seen: Timestamp) -> Self {
        Self {
            node,
            greatest: greatest_seen,
        }
    }

    /// What the next stamp would be, given the wall clock's milliseconds since
    /// the Unix epoch. [`None`] when the clock has reached its end: a stamp of
    /// the last millisecond was seen, and nothing can be above it.
    #[must_use]
    pub fn next(&self, now_unix_ms: u64) -> Option<Timestamp> {
        let after = self.greatest.next_of(self.node)?;
        Some(after.max(Timestamp::new(now_unix_ms, 0, self.node)))
    }

    /// The next stamp, as [`HybridClock::next`] has it.
    #[must_use = "a stamp that is dropped is gone"]
    pub fn stamp(&mut self, now_unix_ms: u64) -> Option<Timestamp> {
        let stamp = self.next(now_unix_ms)?;
        self.greatest = stamp;
        Some(stamp)
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

    const NODE: u8 = 3;

    fn clock(greatest_seen: Timestamp) -> HybridClock {
        HybridClock::new(NODE, greatest_seen)
    }

    /// A moment, in milliseconds since the Unix epoch.
    fn at(ms: u64) -> u64 {
        Timestamp::EPOCH_UNIX_MS + ms
    }

    fn seen(ms: u64) -> Timestamp {
        Timestamp::from_unix_ms(at(ms))
    }

    #[test]
    fn stamps_follow_the_wall_clock_and_never_go_back() {
        let mut clock = clock(Timestamp::ZERO);
        let first = clock.stamp(at(1_000)).unwrap();
        assert_eq!(first, Timestamp::new(at(1_000), 0, NODE));
        let second = clock.stamp(at(1_000)).unwrap();
        assert_eq!(second, Timestamp::new(at(1_000), 1, NODE));
        let after_a_step_back = clock.stamp(at(10)).unwrap();
        assert!(after_a_step_back > second);
        assert_eq!(after_a_step_back.node(), NODE);
        let later = Timestamp::new(at(2_000), 0, NODE);
        assert_eq!(clock.stamp(at(2_000)), Some(later));
    }

    #[test]
    fn stamps_are_above_what_was_seen() {
        let mut clock = clock(seen(5_000));
        assert!(clock.stamp(at(1)).unwrap() > seen(5_000));
        clock.observe(seen(9_000));
        assert!(clock.stamp(at(1)).unwrap() > seen(9_000));
        clock.observe(Timestamp::ZERO);
        assert!(clock.stamp(at(1)).unwrap() > seen(9_000));
    }

    #[test]
    fn no_two_nodes_give_the_same_stamp() {
        let mut clocks: Vec<_> = (1..=3)
            .map(|node| HybridClock::new(node, seen(7)))
            .collect();
        let mut given = std::collections::BTreeSet::new();
        for round in 0..50 {
            for number in 0..clocks.len() {
                let stamp = clocks[number].stamp(at(7)).unwrap();
                assert!(given.insert(stamp), "{stamp}");
                clocks[(number + round) % 3].observe(stamp);
            }
        }
    }

    #[test]
    fn a_broken_clock_elsewhere_does_not_drag_this_one_along() {
        let bound = ClockBound::new(Duration::from_millis(100));
        let mut clock = clock(Timestamp::ZERO);
        assert!(clock.observe_within(seen(1_200), bound, at(1_000)));
        assert!(clock.stamp(at(1_000)).unwrap() > seen(1_200));
        let greatest = clock.greatest();
        assert!(!clock.observe_within(seen(1_201), bound, at(1_000)));
        assert!(!clock.observe_within(Timestamp::MAX, bound, at(1_000)));
        assert_eq!(clock.greatest(), greatest);
    }

    #[test]
    fn a_full_counter_carries_into_the_milliseconds() {
        let last = Timestamp::new(at(7), Timestamp::COUNTER_MAX, NODE);
        let first = Timestamp::new(at(8), 0, NODE);
        assert_eq!(clock(last).stamp(at(7)), Some(first));
    }

    #[test]
    fn the_end_of_time_is_no_panic() {
        assert_eq!(clock(Timestamp::MAX).stamp(1), None);
    }
}
