//! Choosing what rids a table of the tombstones below the drop bound, although it
//! holds more than those.

use super::PickSettings;
use super::{
    Levels, Pick, Reason, TableSummary, Targets, input_bytes, overlapped, pick_level_zero,
};
use crate::manifest::LEVELS;
use crate::table_id::TableId;
use base::Timestamp;
use std::collections::BTreeSet;

/// The first of the `due` tables, from the last level up, whose compaction fits the
/// room.
///
/// A tombstone goes only together with what it hides. If that may lie below, the
/// table is merged with it, on the level where it is. If it may lie above, the upper
/// table first goes down a level ([`Reason::PushDown`]); the due table has its turn
/// later.
pub(crate) fn pick_purge(
    levels: &Levels,
    due: &BTreeSet<TableId>,
    drop_bound: Timestamp,
    settings: &PickSettings,
) -> Option<Pick> {
    let is_due = |table: &&TableSummary| due.contains(&table.id) && !table.is_damaged;
    let tables = levels.iter().enumerate().rev().flat_map(|(level, tables)| {
        tables
            .iter()
            .filter(is_due)
            .map(move |table| (level, table))
    });
    tables
        .map(|(level, table)| purge(levels, level, table, drop_bound, settings))
        .find(|pick| input_bytes(levels, &pick.inputs) <= settings.room_bytes)
}

fn purge(
    levels: &Levels,
    level: usize,
    table: &TableSummary,
    drop_bound: Timestamp,
    settings: &PickSettings,
) -> Pick {
    let may_hide = |other: &&TableSummary| {
        other.id != table.id
            && !other.is_damaged
            && other.least_timestamp < drop_bound
            && other.greatest_key >= table.least_key
            && other.least_key <= table.greatest_key
    };
    let above = (0..=level).find_map(|upper| {
        let other = levels[upper].iter().find(may_hide)?;
        Some((upper, other))
    });
    match above {
        Some((0, _)) => {
            let [_, sorted @ ..] = levels;
            let base = Targets::new(sorted, settings).base;
            Pick {
                reason: Reason::PushDown,
                ..pick_level_zero(levels, base, settings.room_bytes)
            }
        }
        Some((upper, other)) => merged(levels, upper, other, upper + 1, Reason::PushDown),
        None => {
            let below = (level + 1..LEVELS).rev();
            let mut holding = below.filter(|lower| levels[*lower].iter().any(|it| may_hide(&it)));
            let output_level = holding.next().unwrap_or(level);
            merged(levels, level, table, output_level, Reason::Purge)
        }
    }
}

/// Merges a table with all that overlap it from the next level down to `output_level`.
fn merged(
    levels: &Levels,
    level: usize,
    table: &TableSummary,
    output_level: usize,
    reason: Reason,
) -> Pick {
    let mut inputs = vec![(level, table.id)];
    let mut tables = vec![table];
    for lower in level + 1..=output_level {
        let more: Vec<_> = overlapped(&tables, levels, lower).collect();
        let is_more = |table: &&TableSummary| more.contains(&(lower, table.id));
        tables.extend(levels[lower].iter().filter(is_more));
        inputs.extend(more);
    }
    Pick {
        inputs,
        output_level,
        reason,
        cursor: None,
    }
}
