//! How far clocks may be apart.
//!
//! While clocks are within the bound, a later write wins although clocks differ. A
//! node whose clock is beyond the bound stops stamping, and replicas refuse versions
//! that are stamped too far ahead of them. So one broken clock cannot write keys with
//! timestamps that nobody can overwrite.

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

    /// Whether a node may stamp writes. `peers_ahead_ms` has for each peer how many
    /// milliseconds its clock is ahead, or [`None`] if it is not known.
    ///
    /// A node may not stamp while its clock is beyond the bound from the clocks of
    /// a majority of all its peers. Unknown clocks do not count against it. If they
    /// did, one broken clock among three nodes would also stop the other node that
    /// is up.
    #[must_use]
    pub fn may_stamp(self, peers_ahead_ms: impl IntoIterator<Item = Option<i64>>) -> bool {
        let (mut peers, mut far) = (0, 0);
        for ahead_ms in peers_ahead_ms {
            peers += 1;
            far += usize::from(ahead_ms.is_some_and(|ms| !self.is_near(ms)));
        }
        far <= peers / 2
    }

    /// Whether a node accepts a stamp, issued by another node or by itself.
    /// `now_unix_ms` is its wall clock in milliseconds since the Unix epoch.
    ///
    /// A node refuses stamps that are more than twice the bound ahead. Two nodes
    /// within the bound from their majority are at most that far apart, so a hybrid
    /// clock that follows the other one is at most that far ahead. Old stamps are
    /// always accepted, because hints and repairs carry them.
    #[must_use]
    pub fn accepts(self, stamp: Timestamp, now_unix_ms: u64) -> bool {
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
        for (peers, may_stamp) in cases {
            let peers_ahead_ms = peers.iter().copied();
            assert_eq!(BOUND.may_stamp(peers_ahead_ms), may_stamp, "{peers:?}");
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
    fn a_replica_refuses_what_is_more_than_twice_the_bound_ahead() {
        let now_unix_ms = Timestamp::EPOCH_UNIX_MS + 50_000;
        let at = |unix_ms| BOUND.accepts(Timestamp::from_unix_ms(unix_ms), now_unix_ms);
        assert!(at(now_unix_ms));
        assert!(at(now_unix_ms + 2_000));
        assert!(!at(now_unix_ms + 2_001));
        assert!(!BOUND.accepts(Timestamp::MAX, now_unix_ms));
        assert!(at(0), "old stamps come with hints and repairs");
    }

    #[test]
    fn a_bound_without_end_bounds_nothing() {
        let boundless = ClockBound::new(Duration::MAX);
        assert!(boundless.may_stamp([Some(i64::MIN)]));
        assert!(boundless.accepts(Timestamp::MAX, u64::MAX));
        assert_eq!(ClockBound::new(Duration::from_secs(1)), BOUND);
    }
}
