//! How far apart clocks may be.
//!
//! While clocks are within the bound, a later write wins although clocks differ. A node whose clock
//! is beyond the bound stops allocating timestamps, and replicas refuse versions with a timestamp
//! too far ahead of their own clocks. So one broken clock cannot write keys with timestamps that
//! nobody can overwrite.

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

    /// Whether a clock is near that is this many milliseconds ahead.
    #[must_use]
    pub fn is_near(self, ahead_ms: i64) -> bool {
        ahead_ms.unsigned_abs() <= self.drift_max_ms
    }

    /// Whether a node's clock is proven: whether it is near the clocks of a majority
    /// of all its peers. `peers_ahead_ms` has for each peer how many milliseconds
    /// its clock is ahead, or [`None`] if it is not known. Without peers no clock
    /// is proven.
    #[must_use]
    pub fn is_proven(self, peers_ahead_ms: impl IntoIterator<Item = Option<i64>>) -> bool {
        let (mut peers, mut near) = (0, 0);
        for ahead_ms in peers_ahead_ms {
            peers += 1;
            near += usize::from(ahead_ms.is_some_and(|ms| self.is_near(ms)));
        }
        near > peers / 2
    }

    /// Whether a node's clock is that of a majority of all nodes, itself among them: whether
    /// more than half of them are near it. `peers_ahead_ms` is as for
    /// [`ClockBound::is_proven`], which asks for more among three and fewer nodes, because what
    /// rests on it cannot be taken back.
    #[must_use]
    pub fn is_of_majority(self, peers_ahead_ms: impl IntoIterator<Item = Option<i64>>) -> bool {
        let (mut nodes, mut near) = (1, 1);
        for ahead_ms in peers_ahead_ms {
            nodes += 1;
            near += usize::from(ahead_ms.is_some_and(|ms| self.is_near(ms)));
        }
        near > nodes / 2
    }

    /// Whether a node may allocate timestamps. `peers_ahead_ms` has for each peer how many
    /// milliseconds its clock is ahead, or [`None`] if it is not known.
    ///
    /// A node may not allocate timestamps while its clock is beyond the bound from the clocks of
    /// a majority of all its peers. Unknown clocks do not count against it. If they
    /// did, one broken clock among three nodes would also stop the other node that
    /// is up.
    #[must_use]
    pub fn may_allocate_timestamps(
        self,
        peers_ahead_ms: impl IntoIterator<Item = Option<i64>>,
    ) -> bool {
        let (mut peers, mut far) = (0, 0);
        for ahead_ms in peers_ahead_ms {
            peers += 1;
            far += usize::from(ahead_ms.is_some_and(|ms| !self.is_near(ms)));
        }
        far <= peers / 2
    }

    /// Whether a node accepts a timestamp, issued by another node or by itself.
    /// `now_unix_ms` is its wall clock in milliseconds since the Unix epoch.
    ///
    /// A node refuses timestamps that are more than twice the bound ahead. Two nodes
    /// within the bound from their majority are at most that far apart, so a hybrid
    /// clock that follows the other one is at most that far ahead. Old timestamps are
    /// always accepted, because hints and repairs carry them.
    #[must_use]
    pub fn accepts(self, timestamp: Timestamp, now_unix_ms: u64) -> bool {
        let ahead_ms_max = self.drift_max_ms.saturating_mul(2);
        timestamp.unix_ms() <= now_unix_ms.saturating_add(ahead_ms_max)
    }
}

/// How far the time that most clocks have is ahead of a node's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MedianAhead {
    /// The median of the clocks of all nodes, the own one among them, in milliseconds. Of an
    /// even number, the one of the two middle ones that is nearer to the own clock: what this
    /// says of the time, no minority can change.
    pub nearer_ms: i64,
    /// The one that is further from the own clock: if it is near, at least half of the others
    /// agree with the own clock.
    pub further_ms: i64,
}

impl MedianAhead {
    /// Of the peers' clocks that are known, in milliseconds ahead of the own one. One clock of
    /// three that is wrong does not count, whether it is ahead or behind.
    #[must_use]
    pub fn of(peers_ahead_ms: impl IntoIterator<Item = Option<i64>>) -> Self {
        let mut known: Vec<i64> = peers_ahead_ms.into_iter().flatten().collect();
        known.push(0);
        known.sort_unstable();
        let middle = |index: usize| known.get(index).copied().unwrap_or(0);
        let (lower, upper) = (middle((known.len() - 1) / 2), middle(known.len() / 2));
        let (nearer_ms, further_ms) = if lower.unsigned_abs() < upper.unsigned_abs() {
            (lower, upper)
        } else {
            (upper, lower)
        };
        Self {
            nearer_ms,
            further_ms,
        }
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
        let unknown = None;
        let cases: [(&[Option<i64>], bool); 13] = [
            (&[], true),
            (&[near], true),
            (&[Some(-1_000)], true),
            (&[far_ahead], false),
            (&[Some(i64::MIN)], false),
            (&[unknown], true),
            // One of two peers is not a majority, whether the other one is near or unknown.
            (&[far_ahead, near], true),
            (&[far_ahead, unknown], true),
            (&[far_ahead, far_behind], false),
            (&[far_ahead, far_ahead, near], false),
            // Three of four peers are a majority.
            (&[far_ahead, far_behind, near, near], true),
            (&[far_ahead, far_behind, far_ahead, near], false),
            (&[far_ahead, far_behind, unknown, unknown], true),
        ];
        for (peers, may_allocate_timestamps) in cases {
            let peers_ahead_ms = peers.iter().copied();
            assert_eq!(
                BOUND.may_allocate_timestamps(peers_ahead_ms),
                may_allocate_timestamps,
                "{peers:?}"
            );
        }
    }

    #[test]
    fn a_clock_is_proven_near_a_majority_of_all_peers() {
        let (near, far, unknown) = (Some(-1_000), Some(1_001), None);
        let cases: [(&[Option<i64>], bool); 9] = [
            (&[], false),
            (&[near], true),
            (&[far], false),
            (&[unknown], false),
            (&[near, near], true),
            (&[near, unknown], false),
            (&[near, far], false),
            (&[near, near, unknown], true),
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
    fn a_clock_is_that_of_a_majority_of_all_nodes() {
        let (near, far, unknown) = (Some(-1_000), Some(1_001), None);
        let cases: [(&[Option<i64>], bool); 9] = [
            (&[], true),
            (&[near], true),
            (&[far], false),
            (&[unknown], false),
            (&[near, far], true),
            (&[near, unknown], true),
            (&[far, unknown], false),
            (&[near, far, far], false),
            (&[near, near, far, far], true),
        ];
        for (peers, is_of_majority) in cases {
            let peers_ahead_ms = peers.iter().copied();
            assert_eq!(
                BOUND.is_of_majority(peers_ahead_ms),
                is_of_majority,
                "{peers:?}"
            );
        }
    }

    #[test]
    fn the_median_follows_the_majority_and_not_one_wrong_clock() {
        let cases: [(&[Option<i64>], i64, i64); 10] = [
            (&[], 0, 0),
            (&[None], 0, 0),
            // Of two clocks, nobody can say which is wrong.
            (&[Some(9)], 0, 9),
            (&[Some(-9)], 0, -9),
            // One of three is wrong: another one, and this one.
            (&[Some(9), Some(0)], 0, 0),
            (&[Some(-9), Some(0)], 0, 0),
            (&[Some(9), Some(9)], 9, 9),
            (&[Some(-9), Some(-8)], -8, -8),
            (&[Some(9), Some(9), Some(0)], 0, 9),
            (&[Some(9), Some(0), Some(0), Some(9)], 0, 0),
        ];
        for (peers, nearer_ms, further_ms) in cases {
            let expected = MedianAhead {
                nearer_ms,
                further_ms,
            };
            let found = MedianAhead::of(peers.iter().copied());
            assert_eq!(found, expected, "{peers:?}");
        }
    }

    #[test]
    fn a_replica_refuses_what_is_more_than_twice_the_bound_ahead() {
        let now_unix_ms = Timestamp::EPOCH_UNIX_MS + 50_000;
        let at = |unix_ms| BOUND.accepts(Timestamp::from_unix_ms(unix_ms), now_unix_ms);
        assert!(at(now_unix_ms));
        assert!(at(now_unix_ms + 2_000));
        assert!(!at(now_unix_ms + 2_001));
        assert!(!BOUND.accepts(Timestamp::MAX, now_unix_ms));
        assert!(at(0), "old timestamps come with hints and repairs");
    }

    #[test]
    fn a_bound_without_end_bounds_nothing() {
        let boundless = ClockBound::new(Duration::MAX);
        assert!(boundless.may_allocate_timestamps([Some(i64::MIN)]));
        assert!(boundless.accepts(Timestamp::MAX, u64::MAX));
        assert_eq!(ClockBound::new(Duration::from_secs(1)), BOUND);
    }
}
