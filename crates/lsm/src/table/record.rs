//! The body of a record in a data block.
//!
//! ```text
//! flags u8 | copies u8 | timestamp u64 | sequence varint | expiry u64 | length varint | value
//!                                        if bit 2         if bit 1     unless bit 0
//! flags: bit 0 tombstone, bit 1 expires, bit 2 sequence number is not 0, bit 4 the value lies in
//! a blob table: then length and value are replaced by a reference (`record/reference.rs`)
//! ```

use super::block::index::IndexEntry;
use super::block::malformed::Malformed;
use super::block::{BlockCursor, Body, SortedBlock};
use super::reader::Table;
use crate::cache::Block;
use crate::error::Error;
use crate::record::{BlobReference, Record, RecordRef};
use base::{ByteReader, Entry, EntryRef, Expiry, Kind, Timestamp, VALUE_BYTES_MAX, put_varint};

const TOMBSTONE: u8 = 1 << 0;
const EXPIRES: u8 = 1 << 1;
const HAS_SEQUENCE: u8 = 1 << 2;
// 1 << 3 is reserved for the arrival position of a change.
const IN_BLOB_TABLE: u8 = 1 << 4;

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
    /// Empty if it lies in a blob table.
    value: &'a [u8],
    reference: Option<BlobReference>,
}

impl<'a> RecordBody<'a> {
    /// The body of `record`.
    pub(super) fn of(record: RecordRef<'a>) -> Self {
        let entry = record.entry;
        debug_assert!(entry.kind() == Kind::Value || entry.value_bytes().is_empty());
        debug_assert!(entry.kind() == Kind::Value || entry.expiry() == Expiry::NEVER);
        Self {
            sequence: record.sequence,
            timestamp: entry.timestamp(),
            expiry: entry.expiry(),
            kind: entry.kind(),
            copies: entry.copies(),
            value: entry.value_bytes(),
            reference: None,
        }
    }

    /// The body of a record whose value lies in a blob table.
    pub(super) fn referring(record: RecordRef<'a>, reference: BlobReference) -> Self {
        Self {
            value: &[],
            reference: Some(reference),
            ..Self::of(record)
        }
    }

    /// Where its value lies, if that is a blob table.
    pub(super) fn reference(self) -> Option<BlobReference> {
        self.reference
    }

    /// Appends the body.
    pub(super) fn encode(self, buffer: &mut Vec<u8>) {
        self.encode_head(buffer);
        // Reserves room for the end of the block too, because growing once more
        // would copy a long value a second time.
        buffer.reserve(self.value.len() + BLOCK_END_BYTES);
        buffer.extend_from_slice(self.value);
    }

    /// Appends what precedes the value.
    pub(super) fn encode_head(self, buffer: &mut Vec<u8>) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        buffer.push(
            flag(self.kind == Kind::Tombstone, TOMBSTONE)
                | flag(self.expiry != Expiry::NEVER, EXPIRES)
                | flag(self.sequence != 0, HAS_SEQUENCE)
                | flag(self.reference.is_some(), IN_BLOB_TABLE),
        );
        buffer.push(self.copies);
        buffer.extend_from_slice(&self.timestamp.as_u64().to_le_bytes());
        if self.sequence != 0 {
            put_varint(buffer, self.sequence);
        }
        if self.expiry != Expiry::NEVER {
            buffer.extend_from_slice(&self.expiry.unix_ms().to_le_bytes());
        }
        if let Some(reference) = self.reference {
            reference.put(buffer);
        } else if self.kind == Kind::Value {
            put_varint(buffer, self.value.len() as u64);
        }
    }

    /// The version's timestamp.
    pub(super) fn timestamp(self) -> Timestamp {
        self.timestamp
    }

    /// The entry of `key` that has this body.
    pub(super) fn with_key(self, key: &'a [u8]) -> EntryRef<'a> {
        EntryRef::new(
            key,
            self.timestamp,
            self.kind,
            self.value,
            self.expiry,
            self.copies,
        )
    }
}

/// Walks over the records of a data block and lends the one at which it stands.
pub(super) struct RecordWalk {
    cursor: BlockCursor,
    /// The sequence number that every record has at least.
    least_sequence: u64,
    // The record's body. Its value is what the cursor has read last.
    sequence: u64,
    timestamp: Timestamp,
    expiry: Expiry,
    kind: Kind,
    copies: u8,
    value_bytes: usize,
    reference: Option<BlobReference>,
}

impl RecordWalk {
    /// A walk from the first record whose key is at or above `from`.
    pub(super) fn open(block: &Block, from: &[u8], least_sequence: u64) -> Result<Self, Malformed> {
        Ok(Self {
            cursor: BlockCursor::new::<RecordBody<'_>>(block, from)?,
            least_sequence,
            sequence: 0,
            timestamp: Timestamp::ZERO,
            expiry: Expiry::NEVER,
            kind: Kind::Tombstone,
            copies: 0,
            value_bytes: 0,
            reference: None,
        })
    }

    /// Moves to the next record of the block, of which the index says `entry`. Returns
    /// whether there is one.
    #[inline]
    pub(super) fn advance(&mut self, table: &Table, entry: IndexEntry) -> Result<bool, Error> {
        let body = match self.cursor.next::<RecordBody<'_>>() {
            Ok(Some((_, body))) => body,
            Ok(None) => return Ok(false),
            Err(malformed) => return Err(table.corrupt(entry.handle.offset, malformed)),
        };
        table.check(entry, body.timestamp)?;
        self.value_bytes = body.value.len();
        self.reference = body.reference;
        self.timestamp = body.timestamp;
        self.expiry = body.expiry;
        self.kind = body.kind;
        self.copies = body.copies;
        self.sequence = body.sequence.max(self.least_sequence);
        Ok(true)
    }

    /// The key of the record at which the walk stands.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    /// Where the value of that record lies, if that is a blob table.
    #[inline]
    pub(super) fn reference(&self) -> Option<BlobReference> {
        self.reference
    }

    /// The record at which the walk stands, without a value that lies in a blob table.
    #[inline]
    pub(super) fn record(&self) -> RecordRef<'_> {
        RecordRef {
            sequence: self.sequence,
            entry: EntryRef::new(
                self.cursor.key(),
                self.timestamp,
                self.kind,
                self.cursor.last_bytes(self.value_bytes),
                self.expiry,
                self.copies,
            ),
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
        if body.reference.is_some() {
            return Ok(Self::Sorted(block));
        }
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
            reference: _,
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
        let is_in_blob_table = flags & IN_BLOB_TABLE != 0;
        if flags & !(TOMBSTONE | EXPIRES | HAS_SEQUENCE | IN_BLOB_TABLE) != 0
            || tombstone && (expires || is_in_blob_table)
        {
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
        let mut reference = None;
        let (kind, value) = if is_in_blob_table {
            reference = Some(BlobReference::take(input)?);
            (Kind::Value, &[][..])
        } else if tombstone {
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
            reference,
        })
    }
}
