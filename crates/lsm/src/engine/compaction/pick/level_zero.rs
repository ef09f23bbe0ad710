//! Choosing tables of level 0.

use super::busy::Busy;
use super::choice::{Pick, PickSettings, Reason, bytes_between};
use super::cuts::Cuts;
use crate::engine::table_set::{Levels, TableSummary};
use std::sync::Arc;

/// The tables of level 0 that are not damaged, and that no merge in progress reads.
pub(super) fn usable<'a>(
    levels: &'a Levels,
    busy: &'a Busy,
) -> impl Iterator<Item = &'a Arc<TableSummary>> {
    levels.level_zero().filter(move |table| !busy.reads(table))
}

/// How urgent it is to merge level 0; from 1 on it is due.
pub(super) fn score(levels: &Levels, settings: &PickSettings, busy: &Busy) -> f64 {
    let tables = usable(levels, busy).count();
    let by_count = tables as f64 / settings.level_zero_tables.max(1) as f64;
    let below = levels.sorted_bytes();
    let nothing_to_merge = below == 0 && tables < 2;
    if nothing_to_merge {
        return by_count;
    }
    // Due at half of the bytes of the levels below, so that at most half of them are
    // stored twice.
    let bytes: u64 = usable(levels, busy).map(|table| table.bytes).sum();
    by_count.max(bytes as f64 * 2.0 / below.max(1) as f64)
}

/// Merges tables of level 0 with all that they overlap on the base level. Each of them may go
/// down alone, because a level says nothing about age. So the last ones stay if the room is
/// short, or if the bytes are many and enough tables are left to make it worth it.
pub(super) fn pick_level_zero<'a>(
    levels: &Levels,
    tables: impl Iterator<Item = &'a Arc<TableSummary>>,
    base: usize,
    settings: &PickSettings,
) -> Pick {
    let mut tables: Vec<_> = tables.collect();
    loop {
        let least_key = tables.iter().map(|table| &table.least_key).min();
        let greatest_key = tables.iter().map(|table| &table.greatest_key).max();
        let range = least_key.zip(greatest_key);
        let below_bytes = range.map_or(0, |(least, greatest)| {
            bytes_between(levels, base, least, greatest)
        });
        let bytes = below_bytes + tables.iter().map(|table| table.bytes).sum::<u64>();
        let is_short = tables.len() > 1 && bytes > settings.room_bytes;
        let is_much =
            tables.len() > settings.level_zero_tables.max(1) && bytes > settings.input_bytes_max;
        if is_short || is_much {
            tables.pop();
            continue;
        }
        let mut inputs: Vec<_> = tables.iter().map(|table| (0, table.id)).collect();
        if let Some((least, greatest)) = range {
            let below = levels.between(base, least, greatest);
            inputs.extend(below.map(|table| (base, table.id)));
        }
        return Pick {
            inputs,
            output_level: base,
            reason: Reason::LevelZero,
            cursor: None,
            cuts: Cuts::default(),
        };
    }
}

/// The smallest tables of level 0 that together make one table, if their number alone
/// would make level 0 due. A table that has reached half of the size of a table is left
/// out, so that it is not rewritten again and again for a few small ones.
pub(super) fn pick_within_level_zero<'a>(
    tables: impl Iterator<Item = &'a Arc<TableSummary>>,
    settings: &PickSettings,
) -> Option<Pick> {
    let mut small: Vec<_> = tables
        .filter(|table| table.bytes <= settings.table_bytes / 2)
        .collect();
    small.sort_by_key(|table| table.bytes);
    let mut left = settings.table_bytes.min(settings.room_bytes);
    let inputs: Vec<_> = small
        .into_iter()
        .map_while(|table| {
            left = left.checked_sub(table.bytes)?;
            Some((0, table.id))
        })
        .collect();
    (inputs.len() >= settings.level_zero_tables.max(2)).then_some(Pick {
        inputs,
        output_level: 0,
        reason: Reason::Room,
        cursor: None,
        cuts: Cuts::default(),
    })
}
