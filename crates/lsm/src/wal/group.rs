//! Groups of records as bytes, in both versions of the format.

use super::{FLAG_EXPIRES, FLAG_PROMISE, FLAG_TOMBSTONE};
use crate::error::Error;
use base::{ByteReader, Entry, Expiry, KEY_BYTES_MAX, Kind, Timestamp, VALUE_BYTES_MAX};
use std::ops::RangeInclusive;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The length of what each record's body has before an expiry and a key: flags, copies, the
/// key's length and the timestamp.
const BODY_HEAD_BYTES: usize = 12;

/// The version of a segment's format, as its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentFormat {
    /// Each record has a checksum of its own. Behind the groups of a segment are zeros,
    /// because its file was made for it.
    V1,
    /// Each group has one checksum over its records, seeded with the segment's tag. Behind
    /// the groups of a segment may be those of another, whose file it uses again.
    V2,
}

/// The versions of the format of the log that this release reads; it writes the last one.
pub const LOG_VERSIONS: RangeInclusive<u32> = 1..=SegmentFormat::NEWEST.version();

impl SegmentFormat {
    /// All formats that are read.
    pub(super) const ALL: [Self; 2] = [Self::V1, Self::V2];

    /// The format that is written.
    pub(crate) const NEWEST: Self = Self::V2;

    /// The format of this number; `None` if it is unknown.
    pub(super) fn of_version(version: u32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|format| format.version() == version)
    }

    pub(super) const fn version(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// What a group begins with. It is not zero, unlike space that was never written.
    pub(super) fn group_magic(self) -> &'static [u8; 4] {
        match self {
            Self::V1 => b"\x1eKVG",
            Self::V2 => b"\x1eKV2",
        }
    }

    /// The length of a group's header.
    pub(super) fn group_header_bytes(self) -> usize {
        match self {
            Self::V1 => 32,
            Self::V2 => 40,
        }
    }

    /// The length of what precedes a record's body.
    pub(super) fn record_header_bytes(self) -> usize {
        match self {
            Self::V1 => 8,
            Self::V2 => 4,
        }
    }
}

/// The header of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupHeader {
    /// How many bytes of the segment were synced before the group was written.
    pub(super) synced: u64,
    pub(super) record_bytes: u32,
    pub(super) record_count: u32,
    /// The checksum of the records. 0 in [`SegmentFormat::V1`].
    pub(super) checksum: u64,
}

impl GroupHeader {
    /// The header at the beginning of `bytes`, if it is whole and has this tag.
    pub(super) fn read(bytes: &[u8], format: SegmentFormat, tag: u64) -> Option<Self> {
        let (group_tag, header) = Self::read_any(bytes, format)?;
        (group_tag == tag).then_some(header)
    }

    /// The header at the beginning of `bytes`, if it is whole, and its tag.
    pub(super) fn read_any(bytes: &[u8], format: SegmentFormat) -> Option<(u64, Self)> {
        let mut fields = ByteReader::new(bytes.get(..format.group_header_bytes())?);
        let magic: [u8; 4] = fields.array()?;
        let crc = fields.u32()?;
        let computed = base::crc32c(fields.rest());
        let group_tag = fields.u64()?;
        let header = Self {
            synced: fields.u64()?,
            record_bytes: fields.u32()?,
            record_count: fields.u32()?,
            checksum: match format {
                SegmentFormat::V1 => 0,
                SegmentFormat::V2 => fields.u64()?,
            },
        };
        let is_whole = magic == *format.group_magic() && crc == computed;
        is_whole.then_some((group_tag, header))
    }

    /// Writes the header to `bytes`, which are as long as a header of this format.
    pub(super) fn write(self, format: SegmentFormat, tag: u64, bytes: &mut [u8]) {
        bytes[0..4].copy_from_slice(format.group_magic());
        bytes[8..16].copy_from_slice(&tag.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.synced.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.record_bytes.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.record_count.to_le_bytes());
        if format == SegmentFormat::V2 {
            bytes[32..40].copy_from_slice(&self.checksum.to_le_bytes());
        }
        let crc = base::crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    }

    /// The length of the whole group.
    pub(super) fn group_bytes(self, format: SegmentFormat) -> usize {
        format
            .group_header_bytes()
            .saturating_add(self.record_bytes as usize)
    }
}

/// What the records of a group are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordOf {
    /// Versions of keys.
    Version,
    /// Promises of ballots. Their entries have no value.
    Promise,
}

/// A group that was read.
pub(super) struct Group {
    /// Its versions.
    pub(super) entries: Vec<Entry>,
    /// Its promises: keys with their ballots as timestamps.
    pub(super) promises: Vec<Entry>,
    /// Whether it has no records and so ends the segment.
    pub(super) is_seal: bool,
    /// Its length.
    pub(super) bytes: usize,
}

/// The checksum of a group's records. The tag is its seed, so that records which another
/// segment has left in the same file do not pass for those of a group of this segment.
pub(super) fn checksum(records: &[u8], tag: u64) -> u64 {
    xxh3_64_with_seed(records, tag)
}

/// The group at the beginning of `bytes`, if all of it is whole.
pub(super) fn read_group(bytes: &[u8], format: SegmentFormat, tag: u64) -> Option<Group> {
    let header = GroupHeader::read(bytes, format, tag)?;
    let end = header.group_bytes(format);
    let mut records = bytes.get(format.group_header_bytes()..end)?;
    if format == SegmentFormat::V2 && checksum(records, tag) != header.checksum {
        return None;
    }
    let (mut entries, mut promises) = (Vec::new(), Vec::new());
    while !records.is_empty() {
        let (entry, of, rest) = read_record(records, format)?;
        match of {
            RecordOf::Version => entries.push(entry),
            RecordOf::Promise => promises.push(entry),
        }
        records = rest;
    }
    let count = entries.len() + promises.len();
    let is_whole = count == header.record_count as usize;
    is_whole.then_some(Group {
        entries,
        promises,
        is_seal: count == 0,
        bytes: end,
    })
}

fn read_record(bytes: &[u8], format: SegmentFormat) -> Option<(Entry, RecordOf, &[u8])> {
    let mut fields = ByteReader::new(bytes);
    let crc = match format {
        SegmentFormat::V1 => Some(fields.u32()?),
        SegmentFormat::V2 => None,
    };
    let body_bytes = fields.u32()? as usize;
    let body = fields.bytes(body_bytes)?;
    if let Some(crc) = crc
        && crc != base::crc32c(&bytes[4..format.record_header_bytes() + body_bytes])
    {
        return None;
    }
    let (entry, of) = read_body(body)?;
    Some((entry, of, fields.rest()))
}

fn read_body(body: &[u8]) -> Option<(Entry, RecordOf)> {
    let mut fields = ByteReader::new(body);
    let [flags, copies] = fields.array()?;
    if flags & !(FLAG_TOMBSTONE | FLAG_EXPIRES | FLAG_PROMISE) != 0 {
        return None;
    }
    let of = if flags & FLAG_PROMISE != 0 {
        RecordOf::Promise
    } else {
        RecordOf::Version
    };
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
    let entry = Entry::new(key, timestamp, kind, value, expiry, copies);
    Some((entry, of))
}

/// How long a group is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupSize {
    record_bytes: u32,
    record_count: u32,
}

impl GroupSize {
    /// The size of a group of these entries.
    ///
    /// # Errors
    /// [`Error::Invalid`]: a reader would not accept an entry or would read it as another one,
    /// or the group is too long.
    pub(super) fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Result<Self, Error> {
        let (mut bytes, mut record_count) = (0, 0);
        for entry in entries {
            check(entry)?;
            bytes += record_head_bytes(entry) + entry.data_bytes();
            record_count += 1;
        }
        let record_bytes = u32::try_from(bytes).map_err(|_| {
            Error::Invalid(format!("a group of {bytes} bytes is too long for a log"))
        })?;
        Ok(Self {
            record_bytes,
            record_count,
        })
    }

    /// Whether the group has no records.
    pub(super) fn is_empty(self) -> bool {
        self.record_count == 0
    }

    /// The length of the group with its header, in bytes.
    pub(super) fn group_bytes(self) -> u64 {
        SegmentFormat::NEWEST.group_header_bytes() as u64 + u64::from(self.record_bytes)
    }

    /// The header of a group of this size.
    pub(super) fn header(self, synced: u64, checksum: u64) -> GroupHeader {
        GroupHeader {
            synced,
            record_bytes: self.record_bytes,
            record_count: self.record_count,
            checksum,
        }
    }
}

/// Writes a group of the newest format and of this size to `buffer`, which is empty. `synced`
/// is how many bytes of the segment are synced.
pub(super) fn write_group<'a>(
    size: GroupSize,
    of: RecordOf,
    entries: impl Iterator<Item = &'a Entry>,
    tag: u64,
    synced: u64,
    buffer: &mut Vec<u8>,
) {
    let format = SegmentFormat::NEWEST;
    let header_bytes = format.group_header_bytes();
    buffer.reserve(header_bytes + size.record_bytes as usize);
    buffer.resize(header_bytes, 0);
    for entry in entries {
        write_record_head(entry, of, buffer);
        buffer.extend_from_slice(entry.value_bytes());
    }
    let (header, records) = buffer.split_at_mut(header_bytes);
    debug_assert_eq!(records.len(), size.record_bytes as usize);
    let written = size.header(synced, checksum(records, tag));
    written.write(format, tag, header);
}

/// Writes a seal to `buffer`, which is empty.
pub(super) fn write_seal(format: SegmentFormat, tag: u64, synced: u64, buffer: &mut Vec<u8>) {
    buffer.resize(format.group_header_bytes(), 0);
    let seal = GroupHeader {
        synced,
        record_bytes: 0,
        record_count: 0,
        checksum: checksum(&[], tag),
    };
    seal.write(format, tag, buffer);
}

/// Refuses an entry that a reader would not accept or would read as another one.
fn check(entry: &Entry) -> Result<(), Error> {
    let (key_bytes, value_bytes) = (entry.key().len(), entry.value_bytes().len());
    if (1..=KEY_BYTES_MAX).contains(&key_bytes) && value_bytes <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "a log holds no key of {key_bytes} and no value of {value_bytes} bytes"
    )))
}

/// The length of what precedes the key of an entry in its record.
fn record_head_bytes(entry: &Entry) -> usize {
    let expiry_bytes = match entry.expiry() {
        Expiry::NEVER => 0,
        _ => size_of::<u64>(),
    };
    SegmentFormat::NEWEST.record_header_bytes() + BODY_HEAD_BYTES + expiry_bytes
}

/// Appends the record of an entry up to its value, which comes next.
pub(super) fn write_record_head(entry: &Entry, of: RecordOf, buffer: &mut Vec<u8>) {
    let header_bytes = SegmentFormat::NEWEST.record_header_bytes();
    let body_bytes = record_head_bytes(entry) - header_bytes + entry.data_bytes();
    let mut flags = 0;
    if entry.kind() == Kind::Tombstone {
        flags |= FLAG_TOMBSTONE;
    }
    if entry.expiry() != Expiry::NEVER {
        flags |= FLAG_EXPIRES;
    }
    if of == RecordOf::Promise {
        flags |= FLAG_PROMISE;
    }
    buffer.extend_from_slice(&(body_bytes as u32).to_le_bytes());
    buffer.extend_from_slice(&[flags, entry.copies()]);
    buffer.extend_from_slice(&(entry.key().len() as u16).to_le_bytes());
    buffer.extend_from_slice(&entry.timestamp().as_u64().to_le_bytes());
    if entry.expiry() != Expiry::NEVER {
        buffer.extend_from_slice(&entry.expiry().unix_ms().to_le_bytes());
    }
    buffer.extend_from_slice(entry.key());
}
