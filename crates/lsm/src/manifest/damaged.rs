//! The damaged ranges of the manifest.

use super::encoding::{put_key, take_key};
use crate::table_id::TableId;
use base::ByteReader;
use bytes::Bytes;
use std::ops::Range;

/// A part of a table's file that is not what was written, and the keys whose versions
/// it may have held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DamagedRange {
    /// The table.
    pub(crate) table: TableId,
    /// The part of its file, in bytes.
    pub(crate) bytes: Range<u64>,
    /// The first key.
    pub(crate) first_key: Bytes,
    /// The last key; `None` for the end of the key space.
    pub(crate) last_key: Option<Bytes>,
    /// Whether what the store held of these keys was set aside since this was noted.
    pub(crate) is_set_aside: bool,
}

impl DamagedRange {
    /// Whether the part may have held versions of `key`.
    pub(crate) fn admits(&self, key: &[u8]) -> bool {
        *self.first_key <= *key && self.last_key.as_ref().is_none_or(|last| *key <= **last)
    }

    pub(super) fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.table.0.to_le_bytes());
        bytes.extend_from_slice(&self.bytes.start.to_le_bytes());
        bytes.extend_from_slice(&self.bytes.end.to_le_bytes());
        bytes.push(u8::from(self.is_set_aside));
        put_key(bytes, Some(&self.first_key));
        put_key(bytes, self.last_key.as_ref());
    }

    pub(super) fn take(reader: &mut ByteReader<'_>) -> Option<Self> {
        let range = Self {
            table: TableId(reader.u64()?),
            bytes: reader.u64()?..reader.u64()?,
            is_set_aside: match reader.u8()? {
                0 => false,
                1 => true,
                _ => return None,
            },
            first_key: take_key(reader)??,
            last_key: take_key(reader)?,
        };
        let has_key = range.admits(&range.first_key);
        (!range.bytes.is_empty() && has_key).then_some(range)
    }
}

/// Checks that the ranges are of live tables.
pub(super) fn check_damaged(
    ranges: &[DamagedRange],
    is_live: impl Fn(TableId) -> bool,
) -> Result<(), String> {
    match ranges.iter().find(|range| !is_live(range.table)) {
        Some(range) => Err(format!(
            "a damaged range of table {}, which is not live",
            range.table.0
        )),
        None => Ok(()),
    }
}
