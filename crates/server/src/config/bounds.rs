//! The bounds of the numbers of a configuration: the server's own, and those of its
//! node.

pub use node::bounds::{
    BLOB_VALUE_BYTES, CLOCK_DRIFT, COMPACTION_BYTES_PER_SECOND, COMPACTIONS, COUNTS,
    DISK_RESERVE_BYTES, GC_GRACE, HINT_AGE, HINT_BYTES, REPAIR_INTERVAL, TIMES, VALUE_BYTES,
};

pub(super) use node::bounds::check;

use std::ops::RangeInclusive;
use std::time::Duration;

/// The least memory of a server, in bytes.
pub const MEMORY_BYTES_MIN: u64 = 128 << 20;
/// [`ServerConfig::memory_bytes`](super::ServerConfig::memory_bytes).
pub const MEMORY_BYTES: RangeInclusive<u64> = MEMORY_BYTES_MIN..=1 << 50;
/// [`ServerConfig::threads`](super::ServerConfig::threads).
pub const THREADS: RangeInclusive<usize> = 1..=1024;
/// [`ServerConfig::read_threads`](super::ServerConfig::read_threads).
pub const READ_THREADS: RangeInclusive<usize> = 1..=4096;
/// [`ServerConfig::requests_queued_max`](super::ServerConfig::requests_queued_max).
pub const REQUESTS_QUEUED: RangeInclusive<usize> = 0..=1 << 20;
/// [`ServerConfig::memtable_bytes`](super::ServerConfig::memtable_bytes).
pub const MEMTABLE_BYTES: RangeInclusive<u64> = 64 << 10..=1 << 30;
/// [`ServerConfig::drain_timeout`](super::ServerConfig::drain_timeout). The
/// store has two seconds more, so a node stops within ten.
pub const DRAIN_TIMEOUT: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(8);

/// What a TLS handshake may hold, in bytes: rustls refuses longer messages.
pub const HANDSHAKE_BYTES_MAX: usize = 64 << 10;

/// What the history of the last hour takes, and what the other nodes have said of themselves,
/// in bytes.
pub const HISTORY_BYTES_MAX: usize = 128 << 10;

/// The longest batch with `Content-Length`, and the longest answer to one, in bytes. It is
/// fixed, so that clients can rely on it.
pub const BATCH_BODY_BYTES_MAX: usize = 16 << 20;

/// A line of a batch may be longer than the longest value in base64, by a key, names and
/// punctuation.
const LINE_EXTRA_BYTES: usize = 32 << 10;

/// The longest line of a batch where values may have so many bytes.
pub(crate) const fn line_bytes_max(value_bytes_max: usize) -> usize {
    (value_bytes_max.div_ceil(3) * 4).saturating_add(LINE_EXTRA_BYTES)
}

/// What a chunked batch may hold that counts nowhere else, in bytes: what has arrived of it,
/// its operations, and its answers with one value.
pub const BATCH_STREAM_BYTES: usize = 192 << 10;
