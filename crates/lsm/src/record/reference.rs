//! Where a long value lies that is not in the table of its record.

use crate::table_id::TableId;
use base::{ByteReader, VALUE_BYTES_MAX, put_varint};

/// The place of a value in a blob table, where it is in a block of its own, with its record.
///
/// In a table: `blob table varint | offset varint | length of the frame varint | length of the
/// value varint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlobReference {
    /// The blob table.
    pub(crate) table: TableId,
    /// Where the frame of the block begins in its file.
    pub(crate) offset: u64,
    /// The length of that frame in bytes.
    pub(crate) bytes: u32,
    /// The length of the value in bytes.
    pub(crate) value_bytes: u32,
}

impl BlobReference {
    /// Appends the reference.
    pub(crate) fn put(self, buffer: &mut Vec<u8>) {
        put_varint(buffer, self.table.0);
        put_varint(buffer, self.offset);
        put_varint(buffer, u64::from(self.bytes));
        put_varint(buffer, u64::from(self.value_bytes));
    }

    /// The reference that comes next, unless it is one that nobody has written.
    pub(crate) fn take(input: &mut ByteReader<'_>) -> Option<Self> {
        let table = TableId(input.varint()?);
        let offset = input.varint()?;
        let bytes = u32::try_from(input.varint()?).ok()?;
        let value_bytes = u32::try_from(input.varint()?).ok()?;
        (value_bytes as usize <= VALUE_BYTES_MAX).then_some(Self {
            table,
            offset,
            bytes,
            value_bytes,
        })
    }
}
