//! What follows from the two timestamps that a store remembers.

use base::Timestamp;
use std::time::Duration;

/// How far a member may raise its closed timestamp: only so far that everything below is at
/// least `gc_grace` in the past by its own clock, and only while that clock is trusted. So a
/// coordinator whose clock is years ahead closes nothing, and a member whose own clock is does
/// not close anything itself.
#[must_use]
pub fn latest_closed(trusted_unix_ms: Option<u64>, gc_grace: Duration) -> Option<Timestamp> {
    let gc_grace_ms = u64::try_from(gc_grace.as_millis()).unwrap_or(u64::MAX);
    let latest = Timestamp::from_unix_ms(trusted_unix_ms?.saturating_sub(gc_grace_ms));
    (latest > Timestamp::ZERO).then_some(latest)
}

/// Whether a coordinator takes a version for absent. `gc_threshold` is the greatest one that
/// one of those that it compares has named.
#[must_use]
pub fn is_absent(timestamp: Timestamp, is_dead: bool, gc_threshold: Timestamp) -> bool {
    is_dead && timestamp < gc_threshold
}
