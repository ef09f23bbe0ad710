//! Choosing what rids a table of the tombstones and non-owned versions below the GC threshold,
//! although it holds more than those.

use super::PickSettings;
use super::summary::{between, ids, input_bytes, overlapped};
use super::{Levels, Pick, Reason, TableSummary, Targets, pick_level_zero};
use crate::engine::compaction::gc_thresholds::GcThresholds;
use crate::manifest::LEVELS;
use crate::table_id::TableId;
use base::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;

/// A table waits for a part of the time if one entry in this many is a tombstone or non-owned.
const MANY_DIVISOR: u64 = 16;

/// It is this part of the time.
const MANY_WAIT_DIVISOR: u32 = 7;

/// When a table is purged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PurgeRule {
    /// What is below may go.
    pub(crate) gc_thresholds: GcThresholds,
    /// Values that expired before it may be freed; 0 for none.
    pub(crate) expired_before_unix_ms: u64,
    /// How far these are past what may stay.
    pub(crate) wait: Duration,
    /// The monotonic time.
    pub(crate) now: Duration,
}

/// What is remembered of a table that waits for a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Since when, on the monotonic clock.
    pub(crate) since: Duration,
    /// The GC thresholds of the purge that has written the table, if one has. What is below
    /// could not go.
    pub(crate) purged_below: Option<GcThresholds>,
}

impl PurgeRule {
    /// Whether a table holds what may go.
    pub(crate) fn concerns(&self, table: &TableSummary) -> bool {
        let may_drop = table.has_tombstone_below(self.gc_thresholds)
            || table.has_non_owned_below(self.gc_thresholds);
        !table.is_damaged && (may_drop || self.may_free(table))
    }

    fn may_free(&self, table: &TableSummary) -> bool {
        table.least_expiry.unix_ms() < self.expired_before_unix_ms
    }

    /// Whether a table has its turn.
    pub(crate) fn is_due(&self, table: &TableSummary, waiting: Waiting) -> bool {
        let droppable = table.tombstones + table.non_owned;
        let wait = if droppable >= table.entries.div_ceil(MANY_DIVISOR) {
            self.wait / MANY_WAIT_DIVISOR
        } else {
            self.wait
        };
        let has_waited = self.now.saturating_sub(waiting.since) >= wait;
        let is_past = |passed_ms: u64, by_ms: u64| {
            passed_ms > 0 && Duration::from_millis(passed_ms.saturating_sub(by_ms)) >= wait
        };
        let (oldest, bound) = (table.oldest_tombstone, self.gc_thresholds.tombstones);
        let drops = match waiting.purged_below {
            Some(below) if oldest < below.tombstones => has_waited && below.tombstones < bound,
            _ => has_waited || is_past(bound.unix_ms(), oldest.unix_ms()),
        };
        let drops_non_owned = match waiting.purged_below {
            Some(below) if table.has_non_owned_below(below) => {
                has_waited && below.non_owned < self.gc_thresholds.non_owned
            }
            _ => has_waited,
        };
        let frees = match waiting.purged_below {
            Some(_) => has_waited,
            None => is_past(self.expired_before_unix_ms, table.least_expiry.unix_ms()),
        };
        table.has_tombstone_below(self.gc_thresholds) && drops
            || table.has_non_owned_below(self.gc_thresholds) && drops_non_owned
            || self.may_free(table) && frees
    }
}

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
    gc_threshold: Timestamp,
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
        .map(|(level, table)| purge(levels, level, table, gc_threshold, settings))
        .find(|pick| input_bytes(levels, &pick.inputs) <= settings.room_bytes)
}

fn purge(
    levels: &Levels,
    level: usize,
    table: &TableSummary,
    gc_threshold: Timestamp,
    settings: &PickSettings,
) -> Pick {
    let may_hide = |other: &&TableSummary| {
        other.id != table.id && !other.is_damaged && other.least_timestamp < gc_threshold
    };
    let holder = |level| {
        let mut tables = between(levels, level, &table.least_key, &table.greatest_key);
        tables.find(may_hide)
    };
    let above = (0..=level).find_map(|upper| Some((upper, holder(upper)?)));
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
            let mut holding = below.filter(|lower| holder(*lower).is_some());
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
        tables.extend(more.iter().map(|(_, table)| *table));
        inputs.extend(ids(more));
    }
    Pick {
        inputs,
        output_level,
        reason,
        cursor: None,
    }
}
