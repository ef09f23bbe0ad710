//! Choosing a table half of which is dead, to be rewritten on its own level.
//!
//! No table is picked twice for the same dead entries:
//! - Expired entries leave at most tombstones, which do not expire. What is left of
//!   the table is picked once half of that has expired. So at most twice the bytes
//!   that expire are written, however far apart the expiries lie.
//! - Tombstones and non-owned versions count only if all of them are below their bounds and no
//!   other table can hold what they hide, so the rewriting drops every one.
//!
//! On a full disk a table is rewritten for what versions in other tables hide.

use super::busy::Busy;
use super::choice::{Pick, Reason};
use crate::engine::compaction::gc_thresholds::GcThresholds;
use crate::engine::table_set::{Levels, TableSummary};
use crate::manifest::LEVELS;
use crate::table_id::TableId;
use base::Expiry;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A table is rewritten for what is hidden in it once that is at least one part in
/// this many. So at most this many bytes are written for each byte that is freed.
const HIDDEN_PART_DIVISOR: u64 = 16;

/// A table half of which is dead. `levels` learns which tables keep what others could drop, so
/// that no choice finds that out again.
pub(super) fn pick_dead(
    levels: &mut Levels,
    expired_before_unix_ms: u64,
    gc_thresholds: GcThresholds,
    busy: &Busy,
) -> Option<Pick> {
    let expired_before = Expiry::at_unix_ms(expired_before_unix_ms);
    let is_idle = |(_, table): &(usize, &Arc<TableSummary>)| !busy.reads(table);
    if let Some((level, table)) = levels.expired(expired_before).find(is_idle) {
        return Some(Pick::rewrite(level, table.id, Reason::Expired));
    }
    let GcThresholds {
        tombstones,
        non_owned,
    } = gc_thresholds;
    loop {
        let next = levels.droppable(tombstones, non_owned).find(is_idle);
        let next = next.map(|(level, table)| (level, table.id, hiding(table, levels)));
        let (level, id, other) = next?;
        match other {
            Some(other) => levels.keep(id, other),
            None => return Some(Pick::rewrite(level, id, Reason::Droppable)),
        }
    }
}

/// Another table that may hold a version that one in `table` hides.
fn hiding(table: &TableSummary, levels: &Levels) -> Option<TableId> {
    let hides = |other: &&Arc<TableSummary>| {
        other.id != table.id && other.least_timestamp <= table.greatest_timestamp
    };
    let (least, greatest) = (&table.least_key, &table.greatest_key);
    let mut levels = (0..LEVELS).filter_map(|level| {
        let mut tables = levels.between(level, least, greatest);
        tables.find(hides)
    });
    levels.next().map(|other| other.id)
}

/// What of a table is known to be hidden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// How many versions.
    pub(crate) versions: u64,
    /// The bytes of their keys and values, wherever these lie.
    pub(crate) bytes: u64,
}

/// A table to rewrite on its own level, without what newer versions in other tables
/// hide, and the bytes that will be left of it. Among the tables whose rest fits the
/// room, it is the table with the greatest hidden part.
///
/// `hidden` says what of each table is known to be hidden.
pub(crate) fn pick_hidden(
    levels: &Levels,
    hidden: &BTreeMap<TableId, Hidden>,
    room_bytes: u64,
) -> Option<(Pick, u64)> {
    let part = |hidden: u64, of: u64| (hidden as f64 / of.max(1) as f64).min(1.0);
    let tables = hidden.iter().filter_map(|(id, hidden)| {
        let (level, table) = levels.get(*id)?;
        Some((level, table, hidden))
    });
    tables
        .filter(|(_, table, _)| !table.is_damaged)
        .map(|(level, table, hidden)| {
            let bytes_part = part(hidden.bytes, table.entry_bytes);
            // References are all about as long, however long the values are.
            let file_part = if table.has_blobs {
                part(hidden.versions, table.entries)
            } else {
                bytes_part
            };
            let rest_bytes = (table.bytes as f64 * (1.0 - file_part)) as u64;
            (level, table, bytes_part, rest_bytes)
        })
        .filter(|(.., part, rest_bytes)| {
            *part * HIDDEN_PART_DIVISOR as f64 >= 1.0 && *rest_bytes <= room_bytes
        })
        .max_by(|(.., part, _), (.., other, _)| part.total_cmp(other))
        .map(|(level, table, _, rest_bytes)| {
            (Pick::rewrite(level, table.id, Reason::Hidden), rest_bytes)
        })
}
