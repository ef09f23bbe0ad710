//! The write-ahead log: every write is in the log before it is acknowledged.
//!
//! The log is a sequence of segments, numbered without gaps. A segment holds the
//! records of one memtable, and is removed after the memtable's flush. Writes that
//! wait at the same time are written as one *group* and share one sync.
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
//! All numbers are little-endian. Space is allocated ahead as zeros, so the magic
//! of a group is not zero. The tag is a hash of the segment's number and of a secret
//! of the store. Therefore a reader accepts neither the bytes of another file nor a
//! client's value as a group, even if they look like one.
//!
//! # Torn or damaged?
//!
//! Each group holds in `synced` how many bytes of its segment were synced before
//! the group was written. A reader that meets bytes which are not a whole group
//! searches for a later group that says these bytes were synced. If it finds one,
//! synced bytes are damaged, which is corruption. If not, these bytes are the tail
//! that a crash tore off. No write in it was acknowledged as durable, so the reader
//! drops it.
//!
//! A group without records is a *seal*, which ends the segment. A segment is sealed
//! and synced before the next one gets its first group, so only the last segment
//! with groups may lack a seal. The file of the next segment is durable before the
//! seal is written. If it is missing although the seal is there, it was lost.
//!
//! No later group and no seal covers the end of the log. There the manifest helps:
//! when the store has been idle for a moment, and when it closes, it records in a
//! [`LogClaim`](crate::manifest::LogClaim) how much of which segment is durable.

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

/// The segment whose file has this name; `None` if the name is not a segment's.
pub(crate) fn segment_of_file_name(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("log-")?.strip_suffix(".wal")?;
    let segment = digits.parse().ok()?;
    (segment_file_name(segment) == name).then_some(segment)
}

/// Removes the file of a segment.
pub(crate) fn remove_segment(disk: &dyn Disk, folder: &Path, segment: u64) -> Result<(), Error> {
    let path = folder.join(segment_file_name(segment));
    disk.remove(&path)
        .map_err(|error| Error::io("remove", &path, error))
}

/// The tag of a segment's header and groups, from the store's secret.
fn segment_tag(secret: u64, segment: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(&segment.to_le_bytes(), secret)
}
