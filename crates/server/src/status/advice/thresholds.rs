//! From where on something needs an operator. The alerts of docs/how-to/runbooks.md have the same
//! numbers, and a test compares them.

/// A pair of nodes that no repair has found equal for this many intervals needs a look.
pub(super) const REPAIR_INTERVALS_MAX: u64 = 3;

/// A full repair is late after this many intervals.
pub(super) const FULL_REPAIR_INTERVALS_MAX: u64 = 2;

/// And at least after this long: a repair of much data takes its time.
pub(super) const REPAIR_SECONDS_MIN: u64 = 3600;

/// How often full repairs should run where none begins by itself.
pub(super) const FULL_REPAIR_INTERVAL_SECONDS: u64 = 7 * 86_400;

/// A clock that is further than this from those of most other nodes is not kept by NTP.
pub(super) const CLOCK_AHEAD_MS_MAX: u64 = 2000;

/// Background work that may use no more than this of its time is at its floor, or nearly.
pub(super) const BACKGROUND_SHARE_LOW: f64 = 0.05;

/// Two nodes that run and have had no connection for this long cannot reach each other.
pub(super) const APART_SECONDS: u64 = 60;

/// Hints that take more than this share of their room are close to being dropped.
pub(super) const HINT_SHARE_MAX: f64 = 0.5;

/// A certificate that expires within this time has to be exchanged.
pub(super) const CERTIFICATE_SECONDS_MIN: u64 = 14 * 86_400;

/// For how long no repair may have found a pair equal, if one begins each `interval`.
pub(super) fn repair_seconds_max(interval: u64, intervals_max: u64) -> u64 {
    interval
        .saturating_mul(intervals_max)
        .max(REPAIR_SECONDS_MIN)
}
