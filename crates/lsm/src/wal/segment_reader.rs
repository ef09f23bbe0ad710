//! Reads segments, and distinguishes a torn tail from damage.

use super::{
    FLAG_EXPIRES, FLAG_TOMBSTONE, GROUP_HEADER_BYTES, GROUP_MAGIC, RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES, SEGMENT_MAGIC, SEGMENT_VERSION, segment_tag,
};
use crate::error::Error;
use base::{ByteReader, Entry, Expiry, KEY_BYTES_MAX, Kind, Timestamp};
use std::path::Path;

/// What a segment file holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SegmentContents {
    /// The entries of its whole groups, in the order in which they were written.
    pub(crate) entries: Vec<Entry>,
    /// Where its last whole group ends, which may be a seal; 0 if not even the file's
    /// header is whole.
    pub(crate) end: u64,
    /// Whether it ends with a seal.
    pub(crate) sealed: bool,
    /// How many bytes of torn groups follow the end.
    pub(crate) torn_bytes: u64,
}

impl SegmentContents {
    /// Whether it has no whole group: it was created ahead, or its first group is torn.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && !self.sealed
    }
}

/// Decodes the bytes of a whole segment file. Any bytes give contents or an error.
///
/// # Errors
/// [`Error::Corrupt`] if bytes that were synced are damaged,
/// [`Error::Invalid`] for a format of another version.
pub(crate) fn read_segment(
    bytes: &[u8],
    secret: u64,
    segment: u64,
    path: &Path,
) -> Result<SegmentContents, Error> {
    let tag = segment_tag(secret, segment);
    let mut entries = Vec::new();
    let mut end = 0;
    let mut sealed = false;
    if read_segment_header(bytes, tag, path)? {
        end = SEGMENT_HEADER_BYTES;
        while !sealed {
            let Some(group) = read_group(bytes, end, tag) else {
                break;
            };
            sealed = group.entries.is_empty();
            entries.extend(group.entries);
            end = group.end;
        }
    }
    let mut torn_bytes = 0;
    if !sealed {
        let tail = &bytes[end..];
        if let Some(claim) = find_claim(tail, end, tag) {
            return Err(Error::corrupt(
                path,
                end as u64,
                format!(
                    "this group of the log is damaged, although the group at offset {claim} says \
                     that it was synced"
                ),
            ));
        }
        torn_bytes = tail
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last as u64 + 1);
    }
    Ok(SegmentContents {
        entries,
        end: end as u64,
        sealed,
        torn_bytes,
    })
}

/// Whether the file's header is whole.
pub(super) fn read_segment_header(bytes: &[u8], tag: u64, path: &Path) -> Result<bool, Error> {
    let Some(header) = bytes.get(..SEGMENT_HEADER_BYTES) else {
        return Ok(false);
    };
    let mut fields = ByteReader::new(header);
    let fields = (fields.u64(), fields.u32(), fields.u32(), fields.u64());
    let (Some(magic), Some(version), Some(crc), Some(header_tag)) = fields else {
        return Ok(false);
    };
    let computed = crc32c::crc32c_append(crc32c::crc32c(&header[0..12]), &header[16..]);
    if magic != SEGMENT_MAGIC || crc != computed {
        return Ok(false);
    }
    if version != SEGMENT_VERSION {
        return Err(Error::Invalid(format!(
            "{} has log format {version}; this version reads format {SEGMENT_VERSION}",
            path.display()
        )));
    }
    if header_tag != tag {
        return Err(Error::corrupt(
            path,
            16,
            "this is a segment of another store or has another number",
        ));
    }
    Ok(true)
}

struct Group {
    entries: Vec<Entry>,
    end: usize,
}

struct GroupHeader {
    synced: u64,
    record_bytes: usize,
    record_count: u32,
}

fn read_group_header(bytes: &[u8], at: usize, tag: u64) -> Option<GroupHeader> {
    let header = bytes.get(at..at.checked_add(GROUP_HEADER_BYTES)?)?;
    let mut fields = ByteReader::new(header);
    let (magic, crc) = (fields.u32()?, fields.u32()?);
    let computed = crc32c::crc32c(fields.rest());
    let group_tag = fields.u64()?;
    let header = GroupHeader {
        synced: fields.u64()?,
        record_bytes: fields.u32()? as usize,
        record_count: fields.u32()?,
    };
    let is_whole = magic == GROUP_MAGIC && crc == computed && group_tag == tag;
    is_whole.then_some(header)
}

/// The group at `at`, if all of its records are whole.
fn read_group(bytes: &[u8], at: usize, tag: u64) -> Option<Group> {
    let header = read_group_header(bytes, at, tag)?;
    let start = at + GROUP_HEADER_BYTES;
    let end = start.checked_add(header.record_bytes)?;
    let mut records = bytes.get(start..end)?;
    let mut entries = Vec::new();
    while !records.is_empty() {
        let (entry, rest) = read_record(records)?;
        entries.push(entry);
        records = rest;
    }
    (entries.len() == header.record_count as usize).then_some(Group { entries, end })
}

fn read_record(bytes: &[u8]) -> Option<(Entry, &[u8])> {
    let mut fields = ByteReader::new(bytes);
    let (crc, body_bytes) = (fields.u32()?, fields.u32()? as usize);
    let body = fields.bytes(body_bytes)?;
    if crc != crc32c::crc32c(&bytes[4..RECORD_HEADER_BYTES + body_bytes]) {
        return None;
    }
    Some((read_body(body)?, fields.rest()))
}

fn read_body(body: &[u8]) -> Option<Entry> {
    let mut fields = ByteReader::new(body);
    let [flags, copies] = fields.array()?;
    if flags & !(FLAG_TOMBSTONE | FLAG_EXPIRES) != 0 {
        return None;
    }
    let kind = if flags & FLAG_TOMBSTONE != 0 {
        Kind::Tombstone
    } else {
        Kind::Value
    };
    let key_bytes = usize::from(fields.u16()?);
    let timestamp = Timestamp::from_u64(fields.u64()?);
    let expiry = if flags & FLAG_EXPIRES != 0 {
        Expiry::at_unix_ms(fields.u64()?)
    } else {
        Expiry::NEVER
    };
    let key = fields.bytes(key_bytes)?;
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return None;
    }
    let value = fields.rest();
    Some(Entry::new(key, timestamp, kind, value, expiry, copies))
}

/// The offset of a group in `tail` whose header says that bytes after `start` were
/// synced before it was written. `tail` begins at offset `start` of its segment.
fn find_claim(tail: &[u8], start: usize, tag: u64) -> Option<usize> {
    memchr::memmem::find_iter(tail, &GROUP_MAGIC.to_le_bytes())
        .find(|at| {
            read_group_header(tail, *at, tag).is_some_and(|header| header.synced > start as u64)
        })
        .map(|at| start + at)
}
