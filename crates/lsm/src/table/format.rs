//! The footer and the properties of a table.
//!
//! The footer is the last [`FOOTER_BYTES`] of the file:
//! ```text
//!  0  u64  offset of the properties' frame
//!  8  u32  its length
//! 12  u32  length of the top index's frame
//! 16  u64  offset of the top index's frame
//! 24  u64  offset of the filter's pages; 0 without a filter
//! 32  u64  length of all their frames; 0 without a filter
//! 40  u64  length of the file
//! 48  u32  crc32c of the other 60 bytes
//! 52  u32  version of the format
//! 56       magic
//! ```
//! Version 6 is written only for a table that refers to blob tables, and version 5 for all others.
//! Versions 3 and 4 are read, too; their properties lack what is marked below. In every version
//! the footer has this length, checksum, version and magic have
//! these offsets, and the checksum covers the rest. So a reader can distinguish a
//! damaged table from one of a later version.
//!
//! The payload of the properties' frame:
//! ```text
//! u64 each: entries, tombstones, bytes of keys and values, least timestamp,
//!           greatest timestamp, greatest sequence number, the expiry by which half of
//!           the bytes have expired; from version 4 on: the least timestamp of a
//!           tombstone, or the greatest possible one without any, and the least expiry;
//!           from version 5 on: non-owned versions, and the least timestamp of one, or the
//!           greatest possible one without any
//! u32 each: filter pages, filter page bytes, filter probes; 0 without a filter
//! least key, greatest key: length varint and bytes each
//! from version 6 on: the blob tables that values lie in: count varint, and for each, by number, its
//!           number u64 and the bytes of the keys and values that lie there u64
//! ```

use super::block::frame::{Handle, TRAILER_BYTES};
use super::block::malformed::Malformed;
use super::filter::FilterShape;
use crate::record::{BlobReference, RecordRef};
use crate::table_id::TableId;
use base::{ByteReader, Expiry, KEY_BYTES_MAX, Kind, Timestamp, put_varint};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The length of the footer.
pub(super) const FOOTER_BYTES: usize = 64;

/// The version of the format that is written, unless values lie in blob tables.
pub(super) const VERSION: u32 = 5;

/// The version of a table whose properties name the blob tables that it refers to.
const VERSION_WITH_BLOBS: u32 = 6;

/// The oldest version that is read.
pub(super) const VERSION_MIN: u32 = 3;

/// The versions of the format of SSTables that this release reads. It writes the last one for tables
/// that refer to blob tables, and the one before for all others.
pub const TABLE_VERSIONS: RangeInclusive<u32> = VERSION_MIN..=VERSION_WITH_BLOBS;

/// The version before, whose properties do not count non-owned versions.
const VERSION_WITHOUT_NON_OWNED: u32 = 4;

/// Sequence numbers are counted from 1, and no store lives long enough to reach this
/// number: the next one always exists.
const SEQUENCE_MAX: u64 = u64::MAX / 2;

const MAGIC: [u8; 8] = *b"kvrm-sst";
pub(super) const CHECKSUM_AT: usize = 48;

/// Where the parts of a table lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) properties: Handle,
    pub(super) top_index: Handle,
    /// Where the filter's pages begin, and the length of all their frames.
    pub(super) filter_offset: u64,
    pub(super) filter_bytes: u64,
    /// The length of the whole file, this footer included.
    pub(super) file_bytes: u64,
    /// The version of the format.
    pub(super) version: u32,
}

/// Why a footer was refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FooterError {
    /// Its bytes are not those that a writer wrote.
    Malformed(Malformed),
    /// It is intact, but this code does not know its version.
    UnknownVersion(u32),
}

impl Footer {
    /// The bytes of the footer.
    pub(super) fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[0..8].copy_from_slice(&self.properties.offset.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.properties.bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.top_index.bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.top_index.offset.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.filter_offset.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.filter_bytes.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.file_bytes.to_le_bytes());
        bytes[52..56].copy_from_slice(&self.version.to_le_bytes());
        bytes[56..].copy_from_slice(&MAGIC);
        let checksum = footer_checksum(&bytes);
        bytes[CHECKSUM_AT..52].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The footer from the last bytes of a file of `file_bytes`.
    pub(super) fn decode(bytes: &[u8; FOOTER_BYTES], file_bytes: u64) -> Result<Self, FooterError> {
        let malformed = |what| Err(FooterError::Malformed(Malformed(what)));
        if bytes[56..] != MAGIC {
            return malformed("the file does not end as a table does");
        }
        let Some((footer, checksum)) = Self::decode_fields(&mut ByteReader::new(bytes)) else {
            return malformed("the footer is too short");
        };
        if checksum != footer_checksum(bytes) {
            return malformed("the footer's checksum does not match");
        }
        if !TABLE_VERSIONS.contains(&footer.version) {
            return Err(FooterError::UnknownVersion(footer.version));
        }
        if footer.file_bytes != file_bytes {
            return malformed("the file is not as long as its footer says");
        }
        Ok(footer)
    }

    /// The footer and its checksum. The caller checks the latter, and the version.
    fn decode_fields(input: &mut ByteReader<'_>) -> Option<(Self, u32)> {
        let properties_offset = input.u64()?;
        let properties_bytes = input.u32()?;
        let top_index_bytes = input.u32()?;
        let top_index_offset = input.u64()?;
        let mut footer = Self {
            properties: Handle {
                offset: properties_offset,
                bytes: properties_bytes,
            },
            top_index: Handle {
                offset: top_index_offset,
                bytes: top_index_bytes,
            },
            filter_offset: input.u64()?,
            filter_bytes: input.u64()?,
            file_bytes: input.u64()?,
            version: 0,
        };
        let checksum = input.u32()?;
        footer.version = input.u32()?;
        Some((footer, checksum))
    }

    /// Where page `page` of the filter lies; `None` if that is past the filter's end.
    pub(super) fn filter_page(&self, shape: FilterShape, page: u32) -> Option<Handle> {
        let bytes = shape.page_bytes.checked_add(TRAILER_BYTES as u32)?;
        let before = u64::from(bytes).checked_mul(u64::from(page))?;
        let end = before.checked_add(u64::from(bytes))?;
        let handle = Handle {
            offset: self.filter_offset.checked_add(before)?,
            bytes,
        };
        (end <= self.filter_bytes).then_some(handle)
    }
}

pub(super) fn footer_checksum(bytes: &[u8; FOOTER_BYTES]) -> u32 {
    let before = base::crc32c(&bytes[..CHECKSUM_AT]);
    base::crc32c_append(before, &bytes[CHECKSUM_AT + 4..])
}

/// What a table holds, so that a reader can decide whether to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableProperties {
    /// The number of records: versions, not keys.
    pub(crate) entries: u64,
    /// The tombstones among them.
    pub(crate) tombstones: u64,
    /// The bytes of the keys and values of all versions, before compression, those of values in
    /// blob tables included.
    pub(crate) entry_bytes: u64,
    /// The least timestamp of a record.
    pub(crate) least_timestamp: Timestamp,
    /// The greatest timestamp of a record.
    pub(crate) greatest_timestamp: Timestamp,
    /// The greatest sequence number of a record.
    pub(crate) greatest_sequence: u64,
    /// When half of these bytes have expired, or a little later; [`Expiry::NEVER`] if
    /// fewer expire at all.
    pub(crate) half_expired: Expiry,
    /// No tombstone has a lower timestamp; [`Timestamp::MAX`] if there is none.
    pub(crate) oldest_tombstone: Timestamp,
    /// No value expires earlier, as far as the table says.
    pub(crate) least_expiry: Expiry,
    /// The versions that belong to other stores only, as far as the table says.
    pub(crate) non_owned: u64,
    /// None of them has a lower timestamp; [`Timestamp::MAX`] if there is none.
    pub(crate) oldest_non_owned: Timestamp,
    /// The least key.
    pub(crate) least_key: Bytes,
    /// The greatest key.
    pub(crate) greatest_key: Bytes,
    /// The size of the filter, if there is one.
    pub(super) filter: Option<FilterShape>,
    /// Of each blob table that values lie in, by number, the bytes of their keys and values.
    pub(crate) blobs: BTreeMap<TableId, u64>,
}

impl TableProperties {
    /// The properties of a table that holds nothing yet.
    pub(super) fn empty() -> Self {
        Self {
            entries: 0,
            tombstones: 0,
            entry_bytes: 0,
            least_timestamp: Timestamp::MAX,
            greatest_timestamp: Timestamp::ZERO,
            greatest_sequence: 0,
            half_expired: Expiry::NEVER,
            oldest_tombstone: Timestamp::MAX,
            least_expiry: Expiry::NEVER,
            non_owned: 0,
            oldest_non_owned: Timestamp::MAX,
            least_key: Bytes::new(),
            greatest_key: Bytes::new(),
            filter: None,
            blobs: BTreeMap::new(),
        }
    }

    /// Counts the next record, whose key is at or above all before. `Expiries` counts
    /// its expiry, and the writer knows the greatest key at its end.
    #[inline]
    pub(super) fn add(&mut self, record: RecordRef<'_>, reference: Option<BlobReference>) {
        let entry = record.entry;
        if self.entries == 0 {
            self.least_key = Bytes::copy_from_slice(entry.key());
        }
        self.entries += 1;
        if entry.kind() == Kind::Tombstone {
            self.tombstones += 1;
            self.oldest_tombstone = self.oldest_tombstone.min(entry.timestamp());
        }
        self.least_expiry = self.least_expiry.min(entry.expiry());
        self.entry_bytes += entry.data_bytes() as u64;
        if let Some(reference) = reference {
            let value_bytes = u64::from(reference.value_bytes);
            self.entry_bytes += value_bytes;
            let referred = self.blobs.entry(reference.table).or_default();
            *referred += entry.key().len() as u64 + value_bytes;
        }
        self.least_timestamp = self.least_timestamp.min(entry.timestamp());
        self.greatest_timestamp = self.greatest_timestamp.max(entry.timestamp());
        self.greatest_sequence = self.greatest_sequence.max(record.sequence);
    }

    /// The version of the format that has all of this.
    pub(super) fn version(&self) -> u32 {
        if self.blobs.is_empty() {
            VERSION
        } else {
            VERSION_WITH_BLOBS
        }
    }

    /// Counts the last record as a non-owned version of this timestamp.
    pub(super) fn add_non_owned(&mut self, timestamp: Timestamp) {
        self.non_owned += 1;
        self.oldest_non_owned = self.oldest_non_owned.min(timestamp);
    }

    /// The payload of the properties' frame.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut buffer = Vec::new();
        for number in [
            self.entries,
            self.tombstones,
            self.entry_bytes,
            self.least_timestamp.as_u64(),
            self.greatest_timestamp.as_u64(),
            self.greatest_sequence,
            self.half_expired.unix_ms(),
            self.oldest_tombstone.as_u64(),
            self.least_expiry.unix_ms(),
            self.non_owned,
            self.oldest_non_owned.as_u64(),
        ] {
            buffer.extend_from_slice(&number.to_le_bytes());
        }
        let shape = self.filter.map_or([0; 3], |shape| {
            [shape.pages, shape.page_bytes, shape.probes]
        });
        for number in shape {
            buffer.extend_from_slice(&number.to_le_bytes());
        }
        for key in [&self.least_key, &self.greatest_key] {
            put_varint(&mut buffer, key.len() as u64);
            buffer.extend_from_slice(key);
        }
        if !self.blobs.is_empty() {
            put_varint(&mut buffer, self.blobs.len() as u64);
            for (table, bytes) in &self.blobs {
                buffer.extend_from_slice(&table.0.to_le_bytes());
                buffer.extend_from_slice(&bytes.to_le_bytes());
            }
        }
        buffer
    }

    /// The properties from the payload of their frame in a file of this version.
    pub(super) fn decode(payload: &[u8], version: u32) -> Result<Self, Malformed> {
        let mut input = ByteReader::new(payload);
        let properties = Self::decode_fields(&mut input, version)
            .filter(|_| input.rest().is_empty())
            .ok_or(Malformed("the properties are malformed"))?;
        properties.filter.map(FilterShape::check).transpose()?;
        properties.check()?;
        Ok(properties)
    }

    /// Refuses properties that no writer writes, and those after which the engine
    /// could not continue.
    fn check(&self) -> Result<(), Malformed> {
        let is_sound = self.tombstones <= self.entries
            && self.least_timestamp <= self.greatest_timestamp
            && self.least_key <= self.greatest_key
            && self.least_timestamp <= self.oldest_tombstone
            && self.non_owned <= self.entries - self.tombstones
            && self.least_timestamp <= self.oldest_non_owned;
        if !is_sound {
            return Err(Malformed("the properties contradict one another"));
        }
        if self.greatest_sequence > SEQUENCE_MAX {
            return Err(Malformed("the greatest sequence number is impossible"));
        }
        Ok(())
    }

    fn decode_fields(input: &mut ByteReader<'_>, version: u32) -> Option<Self> {
        let entries = input.u64()?;
        let tombstones = input.u64()?;
        let entry_bytes = input.u64()?;
        let least_timestamp = Timestamp::from_u64(input.u64()?);
        let greatest_timestamp = Timestamp::from_u64(input.u64()?);
        let greatest_sequence = input.u64()?;
        let half_expired = Expiry::at_unix_ms(input.u64()?);
        let (oldest_tombstone, least_expiry) = match (version, tombstones) {
            // A bound that is too low has the table rewritten once, and then it is known. What
            // expires before half of the table has is left to the ordinary compactions.
            (VERSION_MIN, 0) => (Timestamp::MAX, half_expired),
            (VERSION_MIN, _) => (least_timestamp, half_expired),
            _ => (
                Timestamp::from_u64(input.u64()?),
                Expiry::at_unix_ms(input.u64()?),
            ),
        };
        let (non_owned, oldest_non_owned) = match version {
            // What an earlier release has written is left to the ordinary compactions.
            VERSION_MIN..=VERSION_WITHOUT_NON_OWNED => (0, Timestamp::MAX),
            _ => (input.u64()?, Timestamp::from_u64(input.u64()?)),
        };
        Some(Self {
            entries,
            tombstones,
            entry_bytes,
            least_timestamp,
            greatest_timestamp,
            greatest_sequence,
            half_expired,
            oldest_tombstone,
            least_expiry,
            non_owned,
            oldest_non_owned,
            filter: decode_shape(input)?,
            least_key: decode_key(input)?,
            greatest_key: decode_key(input)?,
            blobs: match version {
                VERSION_WITH_BLOBS => decode_blobs(input)?,
                _ => BTreeMap::new(),
            },
        })
    }
}

/// A filter's shape, or three zeros for no filter.
fn decode_shape(input: &mut ByteReader<'_>) -> Option<Option<FilterShape>> {
    let shape = FilterShape {
        pages: input.u32()?,
        page_bytes: input.u32()?,
        probes: input.u32()?,
    };
    let none = shape.pages == 0 && shape.page_bytes == 0 && shape.probes == 0;
    Some((!none).then_some(shape))
}

/// The blob tables, and what lies in each.
fn decode_blobs(input: &mut ByteReader<'_>) -> Option<BTreeMap<TableId, u64>> {
    let count = input.length()?;
    let mut blobs = BTreeMap::new();
    for _ in 0..count {
        let (table, bytes) = (TableId(input.u64()?), input.u64()?);
        if blobs
            .last_key_value()
            .is_some_and(|(last, _)| *last >= table)
        {
            return None;
        }
        blobs.insert(table, bytes);
    }
    Some(blobs)
}

fn decode_key(input: &mut ByteReader<'_>) -> Option<Bytes> {
    let bytes = input.length().filter(|&bytes| bytes <= KEY_BYTES_MAX)?;
    input.bytes(bytes).map(Bytes::copy_from_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footer() -> Footer {
        Footer {
            properties: Handle {
                offset: 5 << 40,
                bytes: 200,
            },
            top_index: Handle {
                offset: 5 << 33,
                bytes: u32::MAX,
            },
            filter_offset: 1 << 33,
            filter_bytes: 1 << 30,
            file_bytes: 6 << 40,
            version: VERSION,
        }
    }

    #[test]
    fn a_footer_comes_back_and_checks_the_length_of_the_file() {
        let bytes = footer().encode();
        assert_eq!(Footer::decode(&bytes, 6 << 40), Ok(footer()));
        assert!(matches!(
            Footer::decode(&bytes, (6 << 40) + 1),
            Err(FooterError::Malformed(_))
        ));
    }

    #[test]
    fn every_flipped_bit_of_a_footer_is_damage_and_not_another_version() {
        for bit in 0..FOOTER_BYTES * 8 {
            let mut bytes = footer().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(
                matches!(
                    Footer::decode(&bytes, 6 << 40),
                    Err(FooterError::Malformed(_))
                ),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_later_version_is_named() {
        let mut bytes = footer().encode();
        bytes[52..56].copy_from_slice(&7u32.to_le_bytes());
        let checksum = footer_checksum(&bytes);
        bytes[CHECKSUM_AT..52].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(
            Footer::decode(&bytes, 6 << 40),
            Err(FooterError::UnknownVersion(7))
        );
    }
}
