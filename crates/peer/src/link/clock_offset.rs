//! How far ahead a wall clock is of another wall clock or of a monotonic clock.
//!
//! A link remembers how far the *peer's wall clock* is ahead of *this node's monotonic clock*. So a
//! step of this node's wall clock is noticed at once, not only with the next heartbeat.
//!
//! Pure: times are parameters.

use super::failure_detector::SUSPECT_AFTER;
use base::Clock;
use std::time::Duration;

/// How far a peer's wall clock is ahead of this node's monotonic clock, in
/// milliseconds. The peer's clock read `peer_unix_ms` between a ping and its
/// pong; the pong came at `now`, and `took` is the time between the two. The
/// result is right to half of `took`; it is `None` if `took` is too long for
/// that to say anything.
pub(crate) fn peer_ahead_ms(peer_unix_ms: u64, now: Duration, took: Duration) -> Option<i64> {
    if took > SUSPECT_AFTER {
        return None;
    }
    let half_ms = (took / 2).as_millis() as i64;
    let ahead = i128::from(peer_unix_ms) - now.as_millis() as i128;
    let ahead = ahead.clamp(i128::from(i64::MIN / 2), i128::from(i64::MAX / 2)) as i64;
    Some(ahead + half_ms)
}

/// How far a node's own wall clock is ahead of its monotonic clock, in
/// milliseconds. It changes when the wall clock is set.
pub(crate) fn own_ahead_ms(clock: &dyn Clock) -> i64 {
    let ahead = i128::from(clock.unix_ms()) - clock.monotonic().as_millis() as i128;
    ahead.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_offset_is_right_to_half_of_the_round_trip() {
        for (theirs, ours, took, drift) in [
            (5_010, 5_020, ms(20), Some(0)),
            (9_000, 5_000, ms(0), Some(4_000)),
            (1_000, 5_000, ms(2), Some(-3_999)),
            (5_000, 5_000, ms(401), None),
            (u64::MAX, 0, ms(0), Some(i64::MAX / 2)),
            (0, u64::MAX, ms(0), Some(i64::MIN / 2)),
        ] {
            let now = Duration::from_millis(ours);
            assert_eq!(peer_ahead_ms(theirs, now, took), drift, "{theirs} {ours}");
        }
    }
}
