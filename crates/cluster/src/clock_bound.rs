//! How far clocks may be apart.
//!
//! Within the bound a later write wins whatever the clocks say. A node beyond
//! it stops stamping, and replicas refuse what is stamped too far ahead of
//! them, so one broken clock cannot poison keys with timestamps that nobody
//! can overwrite.

use base::Timestamp;
use std::time::Duration;

/// The bound on how far the clocks of a cluster's nodes may be apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockBound {
    drift_max_ms: u64,
}

impl ClockBound {
    /// A bound of this length, in whole milliseconds.
    #[must_use]
    pub fn new(drift_max: Duration) -> Self {
        Self {
            drift_max_ms: u64::try_from(drift_max.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Whether a clock that is so many milliseconds ahead is near.
    #[must_use]
    pub fn is_near(self, ahead_ms: i64) -> bool {
        ahead_ms.unsigned_abs() <= self.drift_max_ms
    }

    /// Whether a node's clock is proven right, as far as the cluster can tell:
    /// whether it is near the clocks of a majority of all its peers, given how
    /// many milliseconds each of them is ahead; [`None`] for a peer that it
    /// has not heard from. A node without peers has nobody to prove it.
    #[must_use]
    pub fn is_proven(self, peers_ahead_ms: impl IntoIterator<Item = Option<i64>>) -> bool {
        let (mut peers, mut near) = (0, 0);
        for ahead_ms in peers_ahead_ms {
            peers += 1;
            near += usize::from(ahead_ms.is_some_and(|ms| self.is_near(ms)));
        }
        near > peers / 2
    }

    /// Whether a node may stamp writes, given how many milliseconds each of
    /// its peers' clocks is ahead of its own; [`None`] for a peer that it has
    /// not heard from.
    ///
    /// It may not when its clock is beyond the bound from the clocks of a
    /// majority of all its peers. Peers that it has not heard from are no
    /// witnesses against it: otherwise one broken clock among three nodes
    /// would stop the other that is up as well.
    #[must_use]
    pub fn may_stamp(self, peers_ahead_ms: impl IntoIterator<Item = Option<i64>>) -> bool {
        let (mut peers, mut far) = (0, 0);
        for ahead_ms in peers_ahead_ms {
            peers += 1;
            far += usize::from(ahead_ms.is_some_and(|ms| !self.is_near(ms)));
        }
        far <= peers / 2
    }

    /// Whether a node takes a stamp, by its own wall clock, in milliseconds
    /// since the Unix epoch: one that another gave as well as one of its own.
    ///
    /// It refuses those that are more than twice the bound ahead: two nodes
    /// within the bound from their majority are at most that far apart, so a
    /// hybrid clock that follows the other one is at most that far ahead, too.
    /// Old stamps are always taken, since hints and repairs carry them.
    #[must_use]
    pub fn takes(self, stamp: Timestamp, now_unix_ms: u64) -> bool {
        let ahead_ms_max = self.drift_max_ms.saturating_mul(2);
        stamp.unix_ms() <= now_unix_ms.saturating_add(ahead_ms_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: ClockBound = ClockBound {
        drift_max_ms: 1_000,
    };

    #[test]
    fn a_node_stops_stamping_when_a_majority_of_its_peers_is_far() {
        let (near, far_ahead, far_behind) = (Some(1_000), Some(1_001), Some(-1_001));
        let unheard = None;
        let cases: [(&[Option<i64>], bool); 13] = [
            (&[], true),
            (&[near], true),
            (&[Some(-1_000)], true),
            (&[far_ahead], false),
            (&[Some(i64::MIN)], false),
            (&[unheard], true),
            // Of two peers one is no majority, be the other one near or unheard of.
            (&[far_ahead, near], true),
            (&[far_ahead, unheard], true),
            (&[far_ahead, far_behind], false),
            (&[far_ahead, far_ahead, near], false),
            // Of four peers, three are.
            (&[far_ahead, far_behind, near, near], true),
            (&[far_ahead, far_behind, far_ahead, near], false),
            (&[far_ahead, far_behind, unheard, unheard], true),
        ];
        for (peers, may_stamp) in cases {
            let peers_ahead_ms = peers.iter().copied();
            assert_eq!(BOUND.may_stamp(peers_ahead_ms), may_stamp, "{peers:?}");
        }
    }

    #[test]
    fn a_clock_is_proven_near_a_majority_of_all_peers() {
        let (near, far, unheard) = (Some(-1_000), Some(1_001), None);
        let cases: [(&[Option<i64>], bool); 9] = [
            (&[], false),
            (&[near], true),
            (&[far], false),
            (&[unheard], false),
            (&[near, near], true),
            (&[near, unheard], false),
            (&[near, far], false),
            (&[near, near, unheard], true),
            (&[near, near, far, far], false),
        ];
        for (peers, is_proven) in cases {
            assert_eq!(
                BOUND.is_proven(peers.iter().copied()),
                is_proven,
                "{peers:?}"
            );
        }
    }

    #[test]
    fn a_replica_refuses_what_is_more_than_twice_the_bound_ahead() {
        let now_unix_ms = Timestamp::EPOCH_UNIX_MS + 50_000;
        let at = |unix_ms| BOUND.takes(Timestamp::from_unix_ms(unix_ms), now_unix_ms);
        assert!(at(now_unix_ms));
        assert!(at(now_unix_ms + 2_000));
        assert!(!at(now_unix_ms + 2_001));
        assert!(!BOUND.takes(Timestamp::MAX, now_unix_ms));
        assert!(at(0), "old stamps come with hints and repairs");
    }

    #[test]
    fn a_bound_without_end_bounds_nothing() {
        let boundless = ClockBound::new(Duration::MAX);
        assert!(boundless.may_stamp([Some(i64::MIN)]));
        assert!(boundless.takes(Timestamp::MAX, u64::MAX));
        assert_eq!(ClockBound::new(Duration::from_secs(1)), BOUND);
    }
}
