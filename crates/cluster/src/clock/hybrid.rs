//! The hybrid logical clock that timestamps writes.

use super::bound::ClockBound;
use base::Timestamp;

/// A hybrid logical clock (Kulkarni et al., "Logical Physical Clocks", 2014):
/// as near to the wall clock as possible while every timestamp is above all timestamps
/// issued or seen before. Each timestamp carries the node's ID, so no two nodes
/// issue the same timestamp.
///
/// A counter that overflows carries into the milliseconds, so a clock that issues
/// more than 4,096 timestamps in a millisecond is ahead of the wall clock for a moment.
#[derive(Clone, Debug)]
pub struct HybridClock {
    node: u8,
    greatest: Timestamp,
}

impl HybridClock {
    /// The clock of the node with this ID ([`Members::id_in_timestamps`]),
    /// whose timestamps are all above `greatest_seen`: the greatest timestamp
    /// that the node has stored.
    ///
    /// [`Members::id_in_timestamps`]: crate::Members::id_in_timestamps
    #[must_use]
    pub fn new(node: u8, greatest_seen: Timestamp) -> Self {
        Self {
            node,
            greatest: greatest_seen,
        }
    }

    /// The next timestamp, without issuing it. `now_unix_ms` is the wall clock in
    /// milliseconds since the Unix epoch. [`None`] once the clock has seen the last
    /// timestamp, because no timestamp can be above it.
    #[must_use]
    pub fn peek(&self, now_unix_ms: u64) -> Option<Timestamp> {
        let after = self.greatest.next_of(self.node)?;
        Some(after.max(Timestamp::new(now_unix_ms, 0, self.node)))
    }

    /// Issues the next timestamp: see [`HybridClock::peek`].
    #[must_use = "the clock issues each timestamp once"]
    pub fn issue(&mut self, now_unix_ms: u64) -> Option<Timestamp> {
        let timestamp = self.peek(now_unix_ms)?;
        self.greatest = timestamp;
        Some(timestamp)
    }

    /// Observes a timestamp that a peer sent, if the bound accepts it by the wall
    /// clock, and returns whether it does. A timestamp beyond the bound would drag
    /// along this clock and all clocks that observe its timestamps.
    pub fn observe_within(&mut self, seen: Timestamp, bound: ClockBound, now_unix_ms: u64) -> bool {
        let is_accepted = bound.accepts(seen, now_unix_ms);
        if is_accepted {
            self.observe(seen);
        }
        is_accepted
    }

    /// Observes a timestamp: all later timestamps are above it.
    pub fn observe(&mut self, seen: Timestamp) {
        self.greatest = self.greatest.max(seen);
    }

    /// The greatest timestamp issued or seen.
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

    /// A time in milliseconds since the Unix epoch.
    fn at(ms: u64) -> u64 {
        Timestamp::EPOCH_UNIX_MS + ms
    }

    fn seen(ms: u64) -> Timestamp {
        Timestamp::from_unix_ms(at(ms))
    }

    #[test]
    fn timestamps_follow_the_wall_clock_and_never_go_back() {
        let mut clock = clock(Timestamp::ZERO);
        let first = clock.issue(at(1_000)).unwrap();
        assert_eq!(first, Timestamp::new(at(1_000), 0, NODE));
        let second = clock.issue(at(1_000)).unwrap();
        assert_eq!(second, Timestamp::new(at(1_000), 1, NODE));
        let after_a_step_back = clock.issue(at(10)).unwrap();
        assert!(after_a_step_back > second);
        assert_eq!(after_a_step_back.node(), NODE);
        let later = Timestamp::new(at(2_000), 0, NODE);
        assert_eq!(clock.issue(at(2_000)), Some(later));
    }

    #[test]
    fn timestamps_are_above_what_was_seen() {
        let mut clock = clock(seen(5_000));
        assert!(clock.issue(at(1)).unwrap() > seen(5_000));
        clock.observe(seen(9_000));
        assert!(clock.issue(at(1)).unwrap() > seen(9_000));
        clock.observe(Timestamp::ZERO);
        assert!(clock.issue(at(1)).unwrap() > seen(9_000));
    }

    #[test]
    fn no_two_nodes_issue_the_same_timestamp() {
        let mut clocks: Vec<_> = (1..=3)
            .map(|node| HybridClock::new(node, seen(7)))
            .collect();
        let mut issued = std::collections::BTreeSet::new();
        for round in 0..50 {
            for number in 0..clocks.len() {
                let timestamp = clocks[number].issue(at(7)).unwrap();
                assert!(issued.insert(timestamp), "{timestamp}");
                clocks[(number + round) % 3].observe(timestamp);
            }
        }
    }

    #[test]
    fn a_broken_clock_elsewhere_does_not_drag_this_one_along() {
        let bound = ClockBound::new(Duration::from_millis(100));
        let mut clock = clock(Timestamp::ZERO);
        assert!(clock.observe_within(seen(1_200), bound, at(1_000)));
        assert!(clock.issue(at(1_000)).unwrap() > seen(1_200));
        let greatest = clock.greatest();
        assert!(!clock.observe_within(seen(1_201), bound, at(1_000)));
        assert!(!clock.observe_within(Timestamp::MAX, bound, at(1_000)));
        assert_eq!(clock.greatest(), greatest);
    }

    #[test]
    fn a_full_counter_carries_into_the_milliseconds() {
        let last = Timestamp::new(at(7), Timestamp::COUNTER_MAX, NODE);
        let first = Timestamp::new(at(8), 0, NODE);
        assert_eq!(clock(last).issue(at(7)), Some(first));
    }

    #[test]
    fn after_the_last_timestamp_there_is_no_timestamp() {
        assert_eq!(clock(Timestamp::MAX).issue(1), None);
    }
}
