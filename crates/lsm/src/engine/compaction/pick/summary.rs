//! What a choice needs to know about the tables.

use crate::engine::compaction::gc_thresholds::GcThresholds;
use crate::engine::table_set::{Level, Tables};
use crate::manifest::LEVELS;
use crate::table::Table;
use crate::table_id::TableId;
use base::{Expiry, Timestamp};
use bytes::Bytes;
use std::collections::BTreeSet;

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
    let summaries = |tables: &Level| tables.iter().map(|table| summary(table)).collect();
    Box::new(tables.levels().each_ref().map(summaries))
}

fn summary(table: &Table) -> TableSummary {
    let properties = table.properties();
    TableSummary {
        id: table.id(),
        bytes: table.file_bytes(),
        entry_bytes: properties.entry_bytes,
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

/// The bytes of a compaction's tables.
pub(super) fn input_bytes(levels: &Levels, inputs: &[(usize, TableId)]) -> u64 {
    let inputs: BTreeSet<_> = inputs.iter().copied().collect();
    let is_input = |level, table: &&TableSummary| inputs.contains(&(level, table.id));
    levels
        .iter()
        .enumerate()
        .flat_map(|(level, tables)| tables.iter().filter(move |table| is_input(level, table)))
        .map(|table| table.bytes)
        .sum()
}

/// The tables of `level` that lie, even in part, between the least and the greatest
/// key of `tables`. Tables in a gap between them count, because an output table may
/// span the gap.
pub(super) fn overlapped<'a>(
    tables: &[&TableSummary],
    levels: &'a Levels,
    level: usize,
) -> impl Iterator<Item = (usize, &'a TableSummary)> + use<'a> {
    let least = tables.iter().map(|table| &table.least_key).min();
    let greatest = tables.iter().map(|table| &table.greatest_key).max();
    let range = least.zip(greatest);
    let tables = range.map(|(least, greatest)| between(levels, level, least, greatest));
    tables
        .into_iter()
        .flatten()
        .map(move |table| (level, table))
}

/// The tables of a level that lie, even in part, between two keys.
pub(super) fn between<'a>(
    levels: &'a Levels,
    level: usize,
    least: &Bytes,
    greatest: &Bytes,
) -> impl Iterator<Item = &'a TableSummary> + use<'a> {
    let tables = levels[level].as_slice();
    let is_before = |table: &TableSummary| {
        #[cfg(test)]
        crate::table::tests::touched::note();
        table.greatest_key < *least
    };
    let is_behind = |table: &TableSummary| table.least_key > *greatest;
    // Those of level 0 are not sorted by key.
    let (sorted, any) = match level {
        0 => (&[][..], tables),
        _ => {
            let from = tables.partition_point(is_before);
            let to = tables.partition_point(|table| !is_behind(table));
            (tables.get(from..to).unwrap_or_default(), &[][..])
        }
    };
    let any = any
        .iter()
        .filter(|table| !is_before(table) && !is_behind(table));
    let any: Vec<_> = any.collect();
    sorted.iter().chain(any)
}

/// The tables by their numbers.
pub(super) fn ids<'a>(
    tables: impl IntoIterator<Item = (usize, &'a TableSummary)>,
) -> impl Iterator<Item = (usize, TableId)> {
    let tables = tables.into_iter();
    tables.map(|(level, table)| (level, table.id))
}

/// The bytes of some tables.
pub(super) fn bytes_of(tables: &[TableSummary]) -> u64 {
    tables.iter().map(|table| table.bytes).sum()
}
