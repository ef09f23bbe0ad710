//! How far clocks may be apart.
//!
//! Within the bound a later write wins whatever the clocks say. A node beyond
//! it stops stamping, and replicas refuse what is stamped too far ahead of
//! them, so one broken clock cannot poison keys with timestamps that nobody
//! can overwrite.

use lsm::Timestamp;
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
            far += usize::from(ahead_ms.is_some_and(|ms| ms.unsigned_abs() > self.drift_max_ms));
        }
        far <= peers / 2
    }

    /// Whether a node takes a stamp that another gave, by its own wall clock,
    /// in milliseconds since the Unix epoch.
    ///
    /// It refuses those that are more than twice the bound ahead: two nodes
    /// within the bound from their majority are at most that far apart. Old
    /// stamps are always taken, since hints and repairs carry them.
    #[must_use]
    pub fn takes(self, stamp: Timestamp, now_unix_ms: u64) -> bool {
        let ahead_ms_max = self.drift_max_ms.saturating_mul(2);
        stamp.unix_ms() <= now_unix_ms.saturating_add(ahead_ms_max)
    }
}
