//! The body of a record in a data block.
//!
//! ```text
//! flags u8 | copies u8 | timestamp u64 | sequence varint | expiry u64 | length varint | value
//!                                        if bit 2         if bit 1     unless bit 0
//! flags: bit 0 tombstone, bit 1 expires, bit 2 sequence number is not 0
//! ```

use super::block::{Body, SortedBlock};
use super::malformed::Malformed;
use crate::cache::Block;
use crate::record::Record;
use base::{ByteReader, Entry, Expiry, Kind, Timestamp, VALUE_BYTES_MAX, put_varint};

const TOMBSTONE: u8 = 1 << 0;
const EXPIRES: u8 = 1 << 1;
const HAS_SEQUENCE: u8 = 1 << 2;

/// Room for the restarts of a block that holds one record, and a little more.
const BLOCK_END_BYTES: usize = 16;

/// A record without its key, whose value lies in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordBody<'a> {
    sequence: u64,
    timestamp: Timestamp,
    expiry: Expiry,
    kind: Kind,
    copies: u8,
    value: &'a [u8],
}

impl<'a> RecordBody<'a> {
    /// The body of `record`.
    pub(super) fn of(record: &'a Record) -> Self {
        let entry = &record.entry;
        debug_assert!(entry.kind() == Kind::Value || entry.value_bytes().is_empty());
        debug_assert!(entry.kind() == Kind::Value || entry.expiry() == Expiry::NEVER);
        Self {
            sequence: record.sequence,
            timestamp: entry.timestamp(),
            expiry: entry.expiry(),
            kind: entry.kind(),
            copies: entry.copies(),
            value: entry.value_bytes(),
        }
    }

    /// Appends the body.
    pub(super) fn encode(self, buffer: &mut Vec<u8>) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        buffer.push(
            flag(self.kind == Kind::Tombstone, TOMBSTONE)
                | flag(self.expiry != Expiry::NEVER, EXPIRES)
                | flag(self.sequence != 0, HAS_SEQUENCE),
        );
        buffer.push(self.copies);
        buffer.extend_from_slice(&self.timestamp.as_u64().to_le_bytes());
        if self.sequence != 0 {
            put_varint(buffer, self.sequence);
        }
        if self.expiry != Expiry::NEVER {
            buffer.extend_from_slice(&self.expiry.unix_ms().to_le_bytes());
        }
        if self.kind == Kind::Value {
            put_varint(buffer, self.value.len() as u64);
            // Reserves room for the end of the block too, because growing once more
            // would copy a long value a second time.
            buffer.reserve(self.value.len() + BLOCK_END_BYTES);
            buffer.extend_from_slice(self.value);
        }
    }

    /// The version's timestamp.
    pub(super) fn timestamp(self) -> Timestamp {
        self.timestamp
    }

    /// The entry of `key` that has this body.
    pub(super) fn to_entry(self, key: &[u8]) -> Entry {
        Entry::new(
            key,
            self.timestamp,
            self.kind,
            self.value,
            self.expiry,
            self.copies,
        )
    }

    /// The record of `key` that has this body.
    pub(super) fn to_record(self, key: &[u8]) -> Record {
        Record {
            sequence: self.sequence,
            entry: self.to_entry(key),
        }
    }
}

/// What a data block holds.
pub(super) enum DataBlock {
    /// One record and nothing else. Its value has taken the block's memory over
    /// unless others share the block, so that a long value is not in memory twice.
    SingleRecord(Record),
    /// Several records.
    Sorted(Block),
}

impl DataBlock {
    /// Takes the record out of a block that holds only one.
    pub(super) fn open(block: Block) -> Result<Self, Malformed> {
        let sorted = SortedBlock::parse(block.payload())?;
        let Some((key, body)) = sorted.single_entry::<RecordBody<'_>>()? else {
            return Ok(Self::Sorted(block));
        };
        // A body ends with its value.
        let value_end = sorted.entries_end();
        let value = value_end - body.value.len()..value_end;
        let RecordBody {
            sequence,
            timestamp,
            expiry,
            kind,
            copies,
            value: _,
        } = body;
        let key_bytes = key.len();
        let data = block.join(key, value);
        Ok(Self::SingleRecord(Record {
            sequence,
            entry: Entry::from_data(data, key_bytes, timestamp, kind, expiry, copies),
        }))
    }
}

impl<'a> Body<'a> for RecordBody<'a> {
    #[inline]
    fn decode(input: &mut ByteReader<'a>) -> Option<Self> {
        let flags = input.u8()?;
        let tombstone = flags & TOMBSTONE != 0;
        let expires = flags & EXPIRES != 0;
        if flags & !(TOMBSTONE | EXPIRES | HAS_SEQUENCE) != 0 || tombstone && expires {
            return None;
        }
        let copies = input.u8()?;
        let timestamp = Timestamp::from_u64(input.u64()?);
        let sequence = match flags & HAS_SEQUENCE {
            0 => 0,
            _ => input.varint()?,
        };
        let expiry = match flags & EXPIRES {
            0 => Expiry::NEVER,
            _ => Expiry::at_unix_ms(input.u64()?),
        };
        let (kind, value) = if tombstone {
            (Kind::Tombstone, &[][..])
        } else {
            let bytes = input.length().filter(|&bytes| bytes <= VALUE_BYTES_MAX)?;
            (Kind::Value, input.bytes(bytes)?)
        };
        Some(Self {
            sequence,
            timestamp,
            expiry,
            kind,
            copies,
            value,
        })
    }
}
