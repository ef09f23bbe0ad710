//! The body of a record in a data block.
//!
//! ```text
//! flags u8 | copies u8 | timestamp u64 | arrival varint | expiry u64 | length varint | value
//!                                        if bit 2         if bit 1     unless bit 0
//! flags: bit 0 tombstone, bit 1 expires, bit 2 arrival is not 0
//! ```

use super::block::Body;
use super::codec::{Input, put_varint};
use crate::entry::{Entry, Expiry, Kind, Record, VALUE_BYTES_MAX};
use crate::timestamp::Timestamp;

const TOMBSTONE: u8 = 1 << 0;
const EXPIRES: u8 = 1 << 1;
const ARRIVAL: u8 = 1 << 2;

/// A record without its key, whose value lies in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordBody<'a> {
    arrival: u64,
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
            arrival: record.arrival,
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
                | flag(self.arrival != 0, ARRIVAL),
        );
        buffer.push(self.copies);
        buffer.extend_from_slice(&self.timestamp.as_u64().to_le_bytes());
        if self.arrival != 0 {
            put_varint(buffer, self.arrival);
        }
        if self.expiry != Expiry::NEVER {
            buffer.extend_from_slice(&self.expiry.unix_ms().to_le_bytes());
        }
        if self.kind == Kind::Value {
            put_varint(buffer, self.value.len() as u64);
            buffer.extend_from_slice(self.value);
        }
    }

    /// The entry that has this body at `key`.
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

    /// The record that has this body at `key`.
    pub(super) fn to_record(self, key: &[u8]) -> Record {
        Record {
            arrival: self.arrival,
            entry: self.to_entry(key),
        }
    }
}

impl<'a> Body<'a> for RecordBody<'a> {
    #[inline]
    fn decode(input: &mut Input<'a>) -> Option<Self> {
        let flags = input.u8()?;
        let tombstone = flags & TOMBSTONE != 0;
        let expires = flags & EXPIRES != 0;
        if flags & !(TOMBSTONE | EXPIRES | ARRIVAL) != 0 || tombstone && expires {
            return None;
        }
        let copies = input.u8()?;
        let timestamp = Timestamp::from_u64(input.u64()?);
        let arrival = match flags & ARRIVAL {
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
            (Kind::Value, input.take(bytes)?)
        };
        Some(Self {
            arrival,
            timestamp,
            expiry,
            kind,
            copies,
            value,
        })
    }
}
