//! The bounds of the numbers in a configuration. They exclude obvious mistakes, and numbers with
//! which a node could not keep its promises.

use super::ConfigError;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Numbers of requests that wait or run, and of connections.
pub const COUNTS: RangeInclusive<usize> = 1..=1 << 20;

// The requests in flight, four in the background for each, and as many again for peers and
// hints have a slot each.
const _: () = assert!(8 * *COUNTS.end() < replica::pending::SLOTS_MAX);

/// [`NodeConfig::value_bytes_max`](super::NodeConfig::value_bytes_max).
pub const VALUE_BYTES: RangeInclusive<u64> = 1..=base::VALUE_BYTES_MAX as u64;
/// [`NodeConfig::blob_value_bytes_min`](super::NodeConfig::blob_value_bytes_min). With shorter values
/// a large store has many references to many blob tables, and each flush writes a short one.
pub const BLOB_VALUE_BYTES: RangeInclusive<u64> = 64 << 10..=base::VALUE_BYTES_MAX as u64;
/// [`NodeConfig::compactions_max`](super::NodeConfig::compactions_max).
pub const COMPACTIONS: RangeInclusive<usize> = 1..=lsm::JobClass::COMPACTIONS.len();
/// [`NodeConfig::compaction_bytes_per_second`](super::NodeConfig::compaction_bytes_per_second).
pub const COMPACTION_BYTES_PER_SECOND: RangeInclusive<u64> = 64 << 10..=1 << 40;
/// [`NodeConfig::disk_reserve_bytes`](super::NodeConfig::disk_reserve_bytes).
pub const DISK_RESERVE_BYTES: RangeInclusive<u64> = 0..=1 << 40;
/// Timeouts and other durations.
pub const TIMES: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
/// [`NodeConfig::clock_drift_max`](super::NodeConfig::clock_drift_max). Clocks that are
/// synchronised over a network are closer than the least bound.
pub const CLOCK_DRIFT: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
/// [`NodeConfig::hint_bytes_max`](super::NodeConfig::hint_bytes_max).
pub const HINT_BYTES: RangeInclusive<u64> = 1 << 20..=1 << 40;
/// [`NodeConfig::hint_age_max`](super::NodeConfig::hint_age_max).
pub const HINT_AGE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(7 * 24 * 3600);
/// [`NodeConfig::gc_grace`](super::NodeConfig::gc_grace).
pub const GC_GRACE: RangeInclusive<Duration> =
    Duration::from_secs(3)..=Duration::from_secs(366 * 24 * 3600);
/// [`NodeConfig::repair_interval`](super::NodeConfig::repair_interval) and
/// [`NodeConfig::full_repair_interval`](super::NodeConfig::full_repair_interval). The bound
/// is high enough for a full repair a year; a higher one means `None`.
pub const REPAIR_INTERVAL: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(366 * 24 * 3600);

/// Checks that the number in a field is within its bounds.
///
/// # Errors
/// The field and its bounds.
pub fn check<T: PartialOrd + fmt::Debug>(
    field: &'static str,
    number: &T,
    bounds: &RangeInclusive<T>,
) -> Result<(), ConfigError> {
    if bounds.contains(number) {
        return Ok(());
    }
    let (least, most) = (bounds.start(), bounds.end());
    let problem = format!("is {number:?}: give {least:?} to {most:?}");
    Err(ConfigError::new(field, problem))
}
