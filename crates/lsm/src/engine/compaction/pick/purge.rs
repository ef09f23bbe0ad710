//! Choosing what rids a table of the tombstones and non-owned versions below the GC threshold,
//! although it holds more than those.

use super::choice::{Pick, PickSettings, Reason, input_bytes};
use super::cuts::Cuts;
use super::level_zero::pick_level_zero;
use super::targets::Targets;
use crate::engine::compaction::gc_thresholds::GcThresholds;
use crate::engine::table_set::{Levels, TableSummary};
use crate::manifest::LEVELS;
use base::Timestamp;
use std::sync::Arc;
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
        let may_drop = table.has_tombstone_below(self.gc_thresholds.tombstones)
            || table.has_non_owned_below(self.gc_thresholds.non_owned);
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
            Some(below) if table.has_non_owned_below(below.non_owned) => {
                has_waited && below.non_owned < self.gc_thresholds.non_owned
            }
            _ => has_waited,
        };
        let frees = match waiting.purged_below {
            Some(_) => has_waited,
            None => is_past(self.expired_before_unix_ms, table.least_expiry.unix_ms()),
        };
        table.has_tombstone_below(self.gc_thresholds.tombstones) && drops
            || table.has_non_owned_below(self.gc_thresholds.non_owned) && drops_non_owned
            || self.may_free(table) && frees
    }
}

/// The compaction of the first of the `due` tables whose compaction fits the room.
///
/// A tombstone goes only together with what it hides. If that may lie below, the
/// table is merged with it, on the level where it is. If it may lie above, the upper
/// table first goes down a level ([`Reason::PushDown`]); the due table has its turn
/// later. If it lies more than a level below and all of that is too much for one compaction, the
/// due table itself goes down a level, and has its turn there.
pub(crate) fn pick_purge<'a>(
    levels: &Levels,
    due: impl Iterator<Item = (usize, &'a Arc<TableSummary>)>,
    gc_threshold: Timestamp,
    settings: &PickSettings,
) -> Option<Pick> {
    let base = Targets::new(levels, settings).base;
    let due = due.filter(|(_, table)| !table.is_damaged);
    let mut picks = due.map(|(level, table)| {
        let pick = purge(levels, level, table, gc_threshold, base, settings);
        pick.cut(levels, base, settings)
    });
    picks.find(|pick| input_bytes(levels, &pick.inputs) <= settings.room_bytes)
}

fn purge(
    levels: &Levels,
    level: usize,
    table: &Arc<TableSummary>,
    gc_threshold: Timestamp,
    base: usize,
    settings: &PickSettings,
) -> Pick {
    let may_hide = |other: &&Arc<TableSummary>| {
        other.id != table.id && !other.is_damaged && other.least_timestamp < gc_threshold
    };
    let holder = |level| {
        let mut tables = levels.between(level, &table.least_key, &table.greatest_key);
        tables.find(may_hide)
    };
    let above = (0..=level).find_map(|upper| Some((upper, holder(upper)?)));
    match above {
        Some((0, _)) => Pick {
            reason: Reason::PushDown,
            ..pick_level_zero(levels, levels.level_zero(), base, settings)
        },
        Some((upper, other)) => merged(levels, upper, other, upper + 1, Reason::PushDown),
        None => {
            let below = (level + 1..LEVELS).rev();
            let mut holding = below.filter(|lower| holder(*lower).is_some());
            let output_level = holding.next().unwrap_or(level);
            let purge = merged(levels, level, table, output_level, Reason::Purge);
            let next = base.max(level + 1);
            if output_level > next && input_bytes(levels, &purge.inputs) > settings.input_bytes_max
            {
                return merged(levels, level, table, next, Reason::PushDown);
            }
            purge
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
    let (mut least_key, mut greatest_key) = (&table.least_key, &table.greatest_key);
    for lower in level + 1..=output_level {
        let overlapped: Vec<_> = levels.between(lower, least_key, greatest_key).collect();
        for table in overlapped {
            least_key = least_key.min(&table.least_key);
            greatest_key = greatest_key.max(&table.greatest_key);
            inputs.push((lower, table.id));
        }
    }
    Pick {
        inputs,
        output_level,
        reason,
        cursor: None,
        cuts: Cuts::default(),
    }
}
