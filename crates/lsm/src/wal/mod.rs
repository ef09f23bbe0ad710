//! The write-ahead log: every write is in the log before it is acknowledged.
//!
//! The log is a sequence of segments, numbered without gaps. A segment holds the
//! records of one memtable, and is not needed any more after the memtable's flush. Writes
//! that wait at the same time are written as one *group* and share one sync.
//!
//! # A segment file
//!
//! ```text
//! segment  = header group* rest
//! header   = magic u64 | version u32 | crc32c u32 of magic, version and tag | tag u64
//! group    = magic u32 | crc32c u32 of the rest of the group's header
//!          | tag u64 | synced u64 | record bytes u32 | record count u32
//!          | checksum u64 of all records, seeded with the tag
//!          | record*
//! record   = body bytes u32 | body
//! body     = flags u8 | copies u8 | key bytes u16 | timestamp u64
//!          | expiry u64, if flags has EXPIRES | key | value
//! ```
//!
//! A record whose flags have PROMISE is no version: the store has promised the timestamp as a
//! ballot of the key. Promises have groups of their own.
//!
//! All numbers are little-endian; the checksum is XXH3. The tag is a hash of the segment's
//! number and of a secret of the store. Therefore a reader accepts neither the bytes of
//! another file nor a client's value as a group, even if they look like one.
//!
//! That is version 2. In version 1, which is still read, a group has no checksum of its
//! records. Instead each record begins with the crc32c u32 of what follows in it.
//!
//! # A file is used again
//!
//! The first write to new space of a file is dear: its sync also writes metadata of the file
//! system. Zeros that are written ahead avoid that, but then the disk writes them in addition to
//! the log. So the file of a segment that is not needed any more becomes *free*, and later a
//! segment with a new number ([`FreeSegments`]). First its header is replaced and synced, then it
//! is renamed.
//!
//! Old groups stay behind the new ones. A reader must not take them for new:
//!
//! - A whole old group has another tag.
//! - A torn new group may end with the sound end of an old one. But its checksum covers all
//!   records, and they do not match it.
//! - No two files ever hold groups of one number: if a start begins a segment anew, it empties
//!   the file behind its header, or replaces it.
//!
//! # Torn or damaged?
//!
//! Each group holds in `synced` how many bytes of its segment were synced before
//! the group was written. A reader that meets bytes which are not a whole group
//! searches for a later group that says these bytes were synced. If it finds one,
//! synced bytes are damaged, which is corruption. If not, these bytes are the tail
//! that a crash tore off. No write in it was acknowledged as durable, so the reader
//! drops it. The header of a group has a checksum of its own, so that it says this even if
//! the group itself is torn. The search ends where the file still holds a group of an earlier
//! segment: nothing was synced from there on. So a start does not read all of a long file
//! that holds little.
//!
//! A group without records is a *seal*, which ends the segment. A segment is sealed
//! and synced before the next one gets its first group, so only the last segment
//! with groups may lack a seal. The file of the next segment and its header are durable
//! before the seal is written, and a start that begins that segment again keeps the header.
//! If either is missing although the seal is there, it was lost.
//!
//! No later group and no seal covers the end of the log. There the manifest helps:
//! when the store has been idle for a moment, and when it closes, it records in a
//! [`LogClaim`](crate::manifest::LogClaim) how much of which segment is durable.
//!
//! `segment_writer` writes segments, in groups (`group`, `long_group`), and syncs them
//! (`pending_sync`); `segment_reader` tells a torn tail from damage; `free_segments` keeps files
//! for later segments; `segment_folder` is a log of the engine's owner.

mod free_segments;
mod fuzz;
mod group;
mod long_group;
mod pending_sync;
mod segment_bytes;
mod segment_folder;
mod segment_reader;
mod segment_writer;

#[cfg(test)]
mod reuse_tests;
#[cfg(test)]
mod search_tests;
#[cfg(test)]
mod tests;

pub(crate) use free_segments::FreeSegments;
pub use fuzz::fuzz_segment;
pub use group::LOG_VERSIONS;
pub(crate) use group::SegmentFormat;
pub use pending_sync::PendingSync;
pub(crate) use segment_bytes::SegmentBytes;
pub use segment_folder::{SegmentFile, SegmentFolder, SegmentOwner};
pub(crate) use segment_reader::{SegmentContents, read_contents};
pub use segment_writer::SegmentWriter;
pub(crate) use segment_writer::{SegmentPlace, SegmentSpace};

use crate::disk::Disk;
use crate::error::Error;
use std::path::Path;

const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"KVORUMWL");
const SEGMENT_HEADER_BYTES: usize = 24;
const FLAG_TOMBSTONE: u8 = 1;
const FLAG_EXPIRES: u8 = 2;
const FLAG_PROMISE: u8 = 4;
// 8 is reserved for the arrival position of a change.

/// The system keeps files in memory by pages of this size, in bytes.
const PAGE_BYTES: usize = 4096;

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

/// The name of the file of segment `segment` once it is free.
fn free_file_name(segment: u64) -> String {
    format!("log-{segment:016}.free")
}

/// The segment whose free file has this name; `None` if the name is not one.
fn segment_of_free_file_name(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("log-")?.strip_suffix(".free")?;
    let segment = digits.parse().ok()?;
    (free_file_name(segment) == name).then_some(segment)
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
