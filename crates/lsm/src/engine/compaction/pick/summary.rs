//! What a choice needs to know about the tables.

use crate::engine::compaction::gc_thresholds::GcThresholds;
use crate::engine::table_set::Tables;
use crate::manifest::LEVELS;
use crate::table::Table;
use crate::table_id::TableId;
use base::{Expiry, Timestamp};
use bytes::Bytes;
use std::sync::Arc;

/// What a choice needs to know about a table.
#[derive(Clone, Debug)]
pub(crate) struct TableSummary {
    /// Its number.
    pub(crate) id: TableId,
    /// The length of its file in bytes.
    pub(crate) bytes: u64,
    /// The bytes of its keys and values, before compression.
    pub(crate) entry_bytes: u64,
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
    /// Whether it holds a tombstone below the bound for them.
    pub(crate) fn has_tombstone_below(&self, bounds: GcThresholds) -> bool {
        self.tombstones > 0 && self.oldest_tombstone < bounds.tombstones
    }

    /// Whether it holds a non-owned version below the bound for them.
    pub(crate) fn has_non_owned_below(&self, bounds: GcThresholds) -> bool {
        self.non_owned > 0 && self.oldest_non_owned < bounds.non_owned
    }
}

/// The tables of each level, sorted by key on all but the first.
pub(crate) type Levels = [Vec<TableSummary>; LEVELS];

/// Summarizes the tables of each level.
pub(crate) fn summarize(tables: &Tables) -> Box<Levels> {
    let summaries = |tables: &Vec<Arc<Table>>| tables.iter().map(|table| summary(table)).collect();
    Box::new(tables.levels().each_ref().map(summaries))
}

fn summary(table: &Table) -> TableSummary {
    let properties = table.properties();
    TableSummary {
        id: table.id(),
        bytes: table.file_bytes(),
        entry_bytes: properties.entry_bytes,
        least_key: Bytes::copy_from_slice(&properties.least_key),
        greatest_key: Bytes::copy_from_slice(&properties.greatest_key),
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
