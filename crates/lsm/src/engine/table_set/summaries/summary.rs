//! What a choice of compaction needs to know about a table.

use crate::table::Table;
use crate::table_id::TableId;
use base::{Expiry, Timestamp};
use bytes::Bytes;

/// What a choice of compaction needs to know about a table.
#[derive(Clone, Debug)]
pub(crate) struct TableSummary {
    /// Its number.
    pub(crate) id: TableId,
    /// The length of its file in bytes.
    pub(crate) bytes: u64,
    /// The bytes of its keys and values, before compression, those of values in blob tables included.
    pub(crate) entry_bytes: u64,
    /// Whether values of it lie in blob tables.
    pub(crate) has_blobs: bool,
    /// Its first key.
    pub(crate) least_key: Bytes,
    /// Its last key.
    pub(crate) greatest_key: Bytes,
    /// The least timestamp in it.
    pub(crate) least_timestamp: Timestamp,
    /// The greatest timestamp in it.
    pub(crate) greatest_timestamp: Timestamp,
    /// Its entries, tombstones among them.
    pub(crate) entries: u64,
    /// Its tombstones.
    pub(crate) tombstones: u64,
    /// When half of the bytes of its keys and values have expired; never if fewer of
    /// them expire at all.
    pub(crate) half_expired: Expiry,
    /// No tombstone in it has a lower timestamp.
    pub(crate) oldest_tombstone: Timestamp,
    /// No value in it expires earlier.
    pub(crate) least_expiry: Expiry,
    /// Its versions that belong to other stores only.
    pub(crate) non_owned: u64,
    /// None of them has a lower timestamp.
    pub(crate) oldest_non_owned: Timestamp,
    /// Whether some part of it cannot be read.
    pub(crate) is_damaged: bool,
}

impl TableSummary {
    /// The summary of a table.
    pub(in crate::engine::table_set) fn of(table: &Table) -> Self {
        let properties = table.properties();
        Self {
            id: table.id(),
            bytes: table.file_bytes(),
            entry_bytes: properties.entry_bytes,
            has_blobs: !properties.blobs.is_empty(),
            least_key: properties.least_key.clone(),
            greatest_key: properties.greatest_key.clone(),
            least_timestamp: properties.least_timestamp,
            greatest_timestamp: properties.greatest_timestamp,
            entries: properties.entries,
            tombstones: properties.tombstones,
            half_expired: properties.half_expired,
            oldest_tombstone: properties.oldest_tombstone,
            least_expiry: properties.least_expiry,
            non_owned: properties.non_owned,
            oldest_non_owned: properties.oldest_non_owned,
            is_damaged: table.is_damaged(),
        }
    }

    /// Whether it holds a tombstone below a bound.
    pub(crate) fn has_tombstone_below(&self, bound: Timestamp) -> bool {
        self.tombstones > 0 && self.oldest_tombstone < bound
    }

    /// Whether it holds a non-owned version below a bound.
    pub(crate) fn has_non_owned_below(&self, bound: Timestamp) -> bool {
        self.non_owned > 0 && self.oldest_non_owned < bound
    }

    /// Whether something in it may be dropped one day although nothing newer hides it.
    pub(super) fn is_mortal(&self) -> bool {
        self.tombstones + self.non_owned > 0 || self.least_expiry != Expiry::NEVER
    }

    /// Its place among the tables of a level.
    pub(super) fn place_key(&self) -> (Bytes, TableId) {
        (self.least_key.clone(), self.id)
    }
}
