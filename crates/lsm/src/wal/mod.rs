//! The write-ahead log: every write is in it before it is acknowledged.
//!
//! The log is a row of segments, numbered without gaps; a segment holds the
//! records of one memtable and goes when that is flushed. Writes that wait
//! together are written together, as one *group*, and share one sync.
//!
//! # A segment file
//!
//! ```text
//! segment  = header group* zeros
//! header   = magic u64 | version u32 | crc32c u32 of the rest | tag u64
//! group    = magic u32 | crc32c u32 of the rest of the group's header
//!          | tag u64 | synced u64 | record bytes u32 | record count u32
//!          | record*
//! record   = crc32c u32 of the rest | body bytes u32 | body
//! body     = flags u8 | copies u8 | key bytes u16 | timestamp u64
//!          | expiry u64, if flags has EXPIRES | key | value
//! ```
//!
//! All numbers are little-endian. Space is allocated ahead as zeros, so a
//! group's magic is not zero. The tag is a hash of the segment's number and a
//! secret of the store: bytes of another file never pass for a group, nor does
//! a value that a client made to look like one.
//!
//! # Torn or damaged?
//!
//! Each group says in `synced` how many bytes of its segment were known to be
//! synced before it was written. So when a reader meets bytes that are no whole
//! group, it looks for a later group that says they had been synced. If there
//! is one, synced bytes were damaged: corruption. If there is none, this is
//! the tail that a crash tore: nobody was promised it, and it is dropped.
//!
//! A group without records is a *seal*: the segment ends with it. A segment is
//! sealed and synced before the next one takes its first group, so only the
//! last segment that has groups may lack a seal. The next one's file is there
//! and durable before the seal is written: where it is missing behind a seal,
//! it was lost.
//!
//! What no later group and no seal tells of, the manifest does: whenever the
//! store has been idle for a moment, and at its orderly close, it takes note of
//! how much of which segment is durable, in a [`LogClaim`](crate::manifest::LogClaim).

mod fuzz;
mod pending_sync;
mod segment_folder;
mod segment_reader;
mod segment_writer;

#[cfg(test)]
mod tests;

pub use fuzz::fuzz_segment;
pub use pending_sync::PendingSync;
pub use segment_folder::{SegmentFile, SegmentFolder, SegmentOwner};
pub(crate) use segment_reader::{SegmentContents, read_segment};
pub use segment_writer::SegmentWriter;

use crate::disk::Disk;
use crate::error::Error;
use std::path::Path;

const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"KVORUMWL");
const SEGMENT_VERSION: u32 = 1;
const SEGMENT_HEADER_BYTES: usize = 24;
const GROUP_MAGIC: u32 = u32::from_le_bytes(*b"\x1eKVG");
const GROUP_HEADER_BYTES: usize = 32;
const RECORD_HEADER_BYTES: usize = 8;
const FLAG_TOMBSTONE: u8 = 1;
const FLAG_EXPIRES: u8 = 2;

/// The file name of a segment.
pub(crate) fn segment_file_name(segment: u64) -> String {
    format!("log-{segment:016}.wal")
}

/// The segment that a file name stands for, if any.
pub(crate) fn segment_of_file_name(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("log-")?.strip_suffix(".wal")?;
    let segment = digits.parse().ok()?;
    (segment_file_name(segment) == name).then_some(segment)
}

/// Removes the file of a segment whose records are in tables.
pub(crate) fn remove_segment(disk: &dyn Disk, folder: &Path, segment: u64) -> Result<(), Error> {
    let path = folder.join(segment_file_name(segment));
    disk.remove(&path)
        .map_err(|error| Error::io("remove", &path, error))
}

/// The tag of a segment's header and groups, from the store's secret.
fn segment_tag(secret: u64, segment: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(&segment.to_le_bytes(), secret)
}
