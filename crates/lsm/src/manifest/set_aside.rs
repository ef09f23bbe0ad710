//! Parts of tables that are set aside: see [`set_aside`](crate::engine::jobs::set_aside).

use super::encoding::{put_key, take_key};
use crate::table_id::TableId;
use base::{ByteReader, Timestamp};
use bytes::Bytes;
use std::collections::BTreeSet;

/// Keys of a table of which what is below a timestamp is not part of the store any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetAsidePart {
    /// The table. It is live, or its file is kept.
    pub(crate) table: TableId,
    /// The length of the table's file in bytes.
    pub(crate) file_bytes: u64,
    /// How many versions the table holds, of these keys and others.
    pub(crate) versions: u64,
    /// The timestamp.
    pub(crate) below: Timestamp,
    /// Whether what is below is kept for the operator, and the table's file for as long.
    pub(crate) is_kept: bool,
    /// The first key.
    pub(crate) first_key: Bytes,
    /// The last key.
    pub(crate) last_key: Bytes,
}

impl SetAsidePart {
    /// Whether a version is in the part.
    pub(crate) fn includes(&self, key: &[u8], timestamp: Timestamp) -> bool {
        timestamp < self.below && *self.first_key <= *key && *key <= *self.last_key
    }

    pub(super) fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.table.0.to_le_bytes());
        bytes.extend_from_slice(&self.file_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.versions.to_le_bytes());
        bytes.extend_from_slice(&self.below.as_u64().to_le_bytes());
        bytes.push(u8::from(self.is_kept));
        put_key(bytes, Some(&self.first_key));
        put_key(bytes, Some(&self.last_key));
    }

    pub(super) fn take(reader: &mut ByteReader<'_>) -> Option<Self> {
        let part = Self {
            table: TableId(reader.u64()?),
            file_bytes: reader.u64()?,
            versions: reader.u64()?,
            below: Timestamp::from_u64(reader.u64()?),
            is_kept: match reader.u8()? {
                0 => false,
                1 => true,
                _ => return None,
            },
            first_key: take_key(reader)??,
            last_key: take_key(reader)??,
        };
        (part.first_key <= part.last_key).then_some(part)
    }
}

/// The tables of which a part is kept.
pub(crate) fn kept_tables(parts: &[SetAsidePart]) -> BTreeSet<TableId> {
    let kept = parts.iter().filter(|part| part.is_kept);
    kept.map(|part| part.table).collect()
}

/// Checks that each part is of a table that is live or kept, which have numbers below `next`.
pub(super) fn check_set_aside(
    parts: &[SetAsidePart],
    is_live: impl Fn(TableId) -> bool,
    next: TableId,
) -> Result<(), String> {
    let kept = kept_tables(parts);
    for SetAsidePart { table, .. } in parts {
        if *table >= next {
            return Err(format!("a part of table {}, which is yet to come", table.0));
        }
        if !is_live(*table) && !kept.contains(table) {
            return Err(format!(
                "a part of table {}, which is neither live nor kept",
                table.0
            ));
        }
    }
    Ok(())
}
