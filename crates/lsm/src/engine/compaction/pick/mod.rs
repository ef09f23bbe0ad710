//! Choosing the next compaction: a pure function of what the levels hold.
//!
//! The levels are sized from the last one up, as RocksDB's dynamic level sizes: the
//! last level's target is the bytes of all sorted levels, and each level above may
//! hold a tenth of the one below. The **base level**, into which level 0 is merged,
//! is the level with the lowest number whose target is at least `base_bytes`. The levels
//! between 0 and the base level stay empty. So nine tenths of the data lie on the last level,
//! however large the store is, and only the tenth above it and level 0 store
//! anything twice.
//!
//! Every level has a score, and the level with the highest score is compacted, if
//! that is at least 1:
//! - level 0 by its number of tables, because reads ask all of them, and by its bytes,
//!   compared with those of the levels below: in a small store, level 0 could otherwise
//!   duplicate more data than all other levels hold;
//! - a level from the base down by its bytes, compared with its target;
//! - a level above the base, which a store that shrinks leaves behind, is emptied
//!   when nothing else is due.
//!
//! Level 0 is taken as a whole, with all tables that it overlaps on the base level. Of
//! other levels one table is taken, in turn by key, with the tables that it overlaps on
//! the level that it is merged into. If no level is due, a table is rewritten on its own
//! level if half of it are tombstones or non-owned versions that may be dropped, or if half of
//! it has expired. This holds on level 0 too, because a store that gets no more writes must not
//! keep what has expired. If nothing else is to be done, [`pick_purge`] rids tables of a few
//! tombstones and non-owned versions among other entries.
//!
//! A compaction may write as much as it reads before it can remove anything. If the
//! room for that is short, a smaller compaction takes the turn of a larger one: one
//! with fewer tables of level 0, of another table, or of another level. The other
//! level need not be due: the less the upper levels hold, the less room a compaction
//! into them needs. If not even that fits, small tables of level 0 are merged with
//! each other, so that they do not become ever more.
//!
//! A damaged table cannot be merged, and must not stop the compaction of others. It lies
//! on level 0, where tables may overlap, and is left out of scores and inputs. It still
//! counts when a tombstone of another table is to be dropped, because it may hold
//! versions that the tombstone hides.
//!
//! Tables that a compaction reads which runs already count for no score, and nothing is picked that
//! is in its way ([`Busy`]).
//!
//! On a full disk none of this may fit. There [`pick_hidden`] comes first: it
//! rewrites a table on its own level, without what versions in other tables hide.

use crate::engine::compaction::gc_thresholds::GcThresholds;
use crate::manifest::LEVELS;
use crate::table_id::TableId;
use base::Expiry;
use bytes::Bytes;
use std::collections::BTreeMap;

pub(crate) use busy::Busy;
pub(crate) use purge::{PurgeRule, Waiting, pick_purge};
pub(crate) use summary::{Levels, TableSummary, summarize};
use summary::{between, bytes_of, ids, input_bytes, overlapped};
pub(crate) use whole::Walk;

mod busy;
mod purge;
mod summary;
mod whole;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

/// How many times larger each level may be than the one above.
const FANOUT: u64 = 10;

/// A table is rewritten for what is hidden in it once that is at least one part in
/// this many. So at most this many bytes are written for each byte that is freed.
const HIDDEN_PART_DIVISOR: u64 = 16;

/// What sizes the levels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PickSettings {
    /// How many tables on level 0 make a compaction due. At least 1.
    pub(crate) level_zero_tables: usize,
    /// The least target of the base level, in bytes: about what level 0 holds
    /// when its compaction is due. At least 1.
    pub(crate) base_bytes: u64,
    /// The size at which a compaction starts the next table, in bytes.
    pub(crate) table_bytes: u64,
    /// The room for what a compaction writes, in bytes.
    pub(crate) room_bytes: u64,
}

/// A compaction to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    /// The tables to merge, each with its level.
    pub(crate) inputs: Vec<(usize, TableId)>,
    /// The level that the result goes to.
    pub(crate) output_level: usize,
    /// Why it is done.
    pub(crate) reason: Reason,
    /// The level whose cursor moves, and the key it moves to, once the compaction is done.
    pub(crate) cursor: Option<(usize, Bytes)>,
}

/// Why a compaction is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Level 0 has many tables, or many bytes for the store's size.
    LevelZero,
    /// A level is larger than its target.
    LevelSize,
    /// A level above the base level still holds tables.
    LevelLeftOver,
    /// Half of a table are tombstones or non-owned versions that may be dropped.
    Droppable,
    /// Half of a table has expired.
    Expired,
    /// Some tombstones or non-owned versions of a table may be dropped, and it has waited long
    /// enough.
    Purge,
    /// It brings down what the tombstones of a table below may hide.
    PushDown,
    /// What is due does not fit the room, and this compaction makes it smaller.
    Room,
    /// The disk is full, and newer versions elsewhere hide a part of the table.
    Hidden,
    /// A part of the table is damaged, and was compared with other stores.
    Damaged,
    /// It is a piece of a whole compaction.
    Whole,
}

/// The compaction that is due, or `None`. A compaction that may not fit the room is
/// returned only if none fits, because it may turn out smaller.
///
/// `cursors` has for each level the key up to which its tables had their turn.
///
/// Only what is below `gc_thresholds` may be dropped, and only values that expired
/// before `expired_before_unix_ms` may be freed. The caller lowers all bounds to
/// what its retention allows: the GC thresholds to the least timestamp in the
/// memtables, and all to zero while snapshots live. Otherwise a table whose
/// tombstones stay would be picked again and again.
#[cfg(test)]
pub(crate) fn pick(
    levels: &Levels,
    settings: &PickSettings,
    cursors: &[Option<Bytes>; LEVELS],
    expired_before_unix_ms: u64,
    gc_thresholds: GcThresholds,
) -> Option<Pick> {
    let (expired, busy) = (expired_before_unix_ms, Busy::default());
    pick_beside(levels, settings, cursors, expired, gc_thresholds, &busy)
}

/// The same beside compactions that run.
pub(crate) fn pick_beside(
    levels: &Levels,
    settings: &PickSettings,
    cursors: &[Option<Bytes>; LEVELS],
    expired_before_unix_ms: u64,
    gc_thresholds: GcThresholds,
    busy: &Busy,
) -> Option<Pick> {
    let all = levels;
    let usable;
    let is_usable = |table: &TableSummary| !table.is_damaged && !busy.reads(table);
    let levels = if levels[0].iter().all(is_usable) {
        levels
    } else {
        let mut levels = levels.clone();
        levels[0].retain(is_usable);
        usable = levels;
        &usable
    };
    let [level_zero, sorted @ ..] = levels;
    let targets = Targets::new(sorted, settings);
    let scores = (0..LEVELS - 1).map(|level| match level {
        0 => level_zero_score(level_zero, sorted, settings),
        _ => targets.score(level, busy.bytes_left(&levels[level])),
    });
    let mut due: Vec<(f64, usize)> = scores
        .enumerate()
        .filter_map(|(level, score)| (score >= 1.0).then_some((score, level)))
        .collect();
    // At equal scores the upper level stays first.
    due.sort_by(|(left, _), (right, _)| right.total_cmp(left));
    let picks = due.iter().filter_map(|(_, level)| match *level {
        0 => Some(pick_level_zero(levels, targets.base, settings.room_bytes)),
        level => pick_sorted(
            levels,
            level,
            &targets,
            cursors[level].as_ref(),
            settings,
            busy,
        ),
    });
    let is_level_zero_due = due.iter().any(|(_, level)| *level == 0);
    let way = (is_level_zero_due && !busy.merges.is_empty()).then_some(targets.base);
    let picks = picks.filter(|pick| busy.admits(levels, pick, way));
    let fits = |pick: &Pick| input_bytes(levels, &pick.inputs) <= settings.room_bytes;
    let mut too_large = None;
    for pick in picks {
        if fits(&pick) {
            return Some(pick);
        }
        too_large.get_or_insert(pick);
    }
    let droppable = pick_dead(levels, all, expired_before_unix_ms, gc_thresholds, busy);
    let droppable = droppable.filter(|pick| busy.admits(levels, pick, way));
    let Some(too_large) = too_large else {
        return droppable;
    };
    // A compaction that fits makes room for the large one, or makes that smaller.
    let smaller = || {
        let by_level = (1..LEVELS - 1).rev();
        by_level.filter_map(|level| {
            let cursor = cursors[level].as_ref();
            let pick = pick_sorted(levels, level, &targets, cursor, settings, busy)?;
            Some(Pick {
                reason: Reason::Room,
                ..pick
            })
        })
    };
    droppable
        .into_iter()
        .chain(smaller().filter(|pick| busy.admits(levels, pick, way)))
        .find(fits)
        .or_else(|| pick_within_level_zero(levels, settings))
        .or(Some(too_large))
}

/// A table to rewrite on its own level, without what newer versions in other tables
/// hide, and the bytes that will be left of it. Among the tables whose rest fits the
/// room, it is the table with the greatest hidden part.
///
/// `hidden_bytes` has for each table the bytes of its keys and values that are
/// known to be hidden.
pub(crate) fn pick_hidden(
    levels: &Levels,
    hidden_bytes: &BTreeMap<TableId, u64>,
    room_bytes: u64,
) -> Option<(Pick, u64)> {
    let hidden_part = |table: &TableSummary| {
        let hidden = hidden_bytes.get(&table.id).copied().unwrap_or(0);
        (hidden as f64 / table.entry_bytes.max(1) as f64).min(1.0)
    };
    let tables = levels
        .iter()
        .enumerate()
        .flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)));
    tables
        .filter(|(_, table)| !table.is_damaged)
        .map(|(level, table)| {
            let part = hidden_part(table);
            let rest_bytes = (table.bytes as f64 * (1.0 - part)) as u64;
            (level, table, part, rest_bytes)
        })
        .filter(|(.., part, rest_bytes)| {
            *part * HIDDEN_PART_DIVISOR as f64 >= 1.0 && *rest_bytes <= room_bytes
        })
        .max_by(|(.., part, _), (.., other, _)| part.total_cmp(other))
        .map(|(level, table, _, rest_bytes)| {
            let pick = Pick {
                inputs: vec![(level, table.id)],
                output_level: level,
                reason: Reason::Hidden,
                cursor: None,
            };
            (pick, rest_bytes)
        })
}

/// The sizes that the levels should have.
struct Targets {
    /// The level that level 0 is merged into.
    base: usize,
    /// The bytes of all sorted levels: the target of the last.
    total: u64,
}

impl Targets {
    fn new(sorted: &[Vec<TableSummary>], settings: &PickSettings) -> Self {
        // The total does not change when a table moves down, so neither does the base
        // level: the targets do not depend on the compactions that they cause.
        let total = sorted.iter().map(|tables| bytes_of(tables)).sum();
        let mut targets = Self {
            base: LEVELS - 1,
            total,
        };
        while targets.base > 1 && targets.of(targets.base - 1) >= settings.base_bytes.max(1) {
            targets.base -= 1;
        }
        targets
    }

    fn of(&self, level: usize) -> u64 {
        (level..LEVELS - 1).fold(self.total, |target, _| target / FANOUT)
    }

    fn score(&self, level: usize, bytes: u64) -> f64 {
        if level < self.base {
            // It is due, but after every level that exceeds its target.
            return if bytes > 0 { 1.0 } else { 0.0 };
        }
        // A level at its target is as large as it should be, not too large.
        match self.of(level) {
            target if bytes > target => bytes as f64 / target as f64,
            _ => 0.0,
        }
    }
}

fn level_zero_score(
    level_zero: &[TableSummary],
    sorted: &[Vec<TableSummary>],
    settings: &PickSettings,
) -> f64 {
    let by_count = level_zero.len() as f64 / settings.level_zero_tables.max(1) as f64;
    let below: u64 = sorted.iter().map(|tables| bytes_of(tables)).sum();
    let nothing_to_merge = below == 0 && level_zero.len() < 2;
    if nothing_to_merge {
        return by_count;
    }
    // Due at half of the bytes of the levels below, so that at most half of them are
    // stored twice.
    by_count.max(bytes_of(level_zero) as f64 * 2.0 / below.max(1) as f64)
}

fn pick_level_zero(levels: &Levels, base: usize, room_bytes: u64) -> Pick {
    let mut tables: Vec<&TableSummary> = levels[0].iter().collect();
    loop {
        let mut inputs: Vec<_> = tables.iter().map(|table| (0, table.id)).collect();
        inputs.extend(ids(overlapped(&tables, levels, base)));
        // Each of them may go down alone, because a level says nothing about age.
        if tables.len() > 1 && input_bytes(levels, &inputs) > room_bytes {
            tables.pop();
            continue;
        }
        return Pick {
            inputs,
            output_level: base,
            reason: Reason::LevelZero,
            cursor: None,
        };
    }
}

/// The smallest tables of level 0 that together make one table, if their number alone
/// would make level 0 due. A table that has reached half of the size of a table is left
/// out, so that it is not rewritten again and again for a few small ones.
fn pick_within_level_zero(levels: &Levels, settings: &PickSettings) -> Option<Pick> {
    let mut tables: Vec<&TableSummary> = levels[0]
        .iter()
        .filter(|table| table.bytes <= settings.table_bytes / 2)
        .collect();
    tables.sort_by_key(|table| table.bytes);
    let mut left = settings.table_bytes.min(settings.room_bytes);
    let inputs: Vec<_> = tables
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
    })
}

/// The next table of a level by key whose compaction fits the room; if none fits,
/// the next table.
fn pick_sorted(
    levels: &Levels,
    level: usize,
    targets: &Targets,
    cursor: Option<&Bytes>,
    settings: &PickSettings,
    busy: &Busy,
) -> Option<Pick> {
    let tables = &levels[level];
    let next = cursor.and_then(|cursor| tables.iter().position(|table| table.least_key > *cursor));
    let (before, after) = tables.split_at(next.unwrap_or(0));
    let output_level = targets.base.max(level + 1);
    let free = after.iter().chain(before).filter(|it| !busy.reads(it));
    let mut picks = free.filter_map(|table| {
        let overlapped: Vec<_> = overlapped(&[table], levels, output_level).collect();
        let others = overlapped.iter().map(|(_, other)| *other);
        if !busy.is_free(output_level, others.chain([table])) {
            return None;
        }
        let bytes = overlapped.iter().map(|(_, other)| other.bytes);
        Some((table, bytes.sum::<u64>() + table.bytes, overlapped))
    });
    let first = picks.next()?;
    let (table, _, overlapped) = if first.1 <= settings.room_bytes {
        first
    } else {
        let mut fitting = picks.filter(|(_, bytes, _)| *bytes <= settings.room_bytes);
        fitting.next().unwrap_or(first)
    };
    let mut inputs = vec![(level, table.id)];
    inputs.extend(ids(overlapped));
    Some(Pick {
        inputs,
        output_level,
        reason: if level < targets.base {
            Reason::LevelLeftOver
        } else {
            Reason::LevelSize
        },
        cursor: Some((level, table.greatest_key.clone())),
    })
}

/// A table half of which is dead, to be rewritten on its own level.
///
/// No table is picked twice for the same dead entries:
/// - Expired entries leave at most tombstones, which do not expire. What is left of
///   the table is picked once half of that has expired. So at most twice the bytes
///   that expire are written, however far apart the expiries lie.
/// - Tombstones and non-owned versions count only if all of them are below their bounds and no
///   other table can hold what they hide, so the rewriting drops every one.
///
/// `all` includes the tables that must not be picked.
fn pick_dead(
    levels: &Levels,
    all: &Levels,
    expired_before_unix_ms: u64,
    gc_thresholds: GcThresholds,
    busy: &Busy,
) -> Option<Pick> {
    let expired_before = Expiry::at_unix_ms(expired_before_unix_ms);
    for (level, tables) in levels.iter().enumerate().rev() {
        for table in tables.iter().filter(|table| !busy.reads(table)) {
            let reason = if table.half_expired < expired_before {
                Reason::Expired
            } else if is_mostly_droppable(table, gc_thresholds) && !may_hide_elsewhere(table, all) {
                Reason::Droppable
            } else {
                continue;
            };
            return Some(Pick {
                inputs: vec![(level, table.id)],
                output_level: level,
                reason,
                cursor: None,
            });
        }
    }
    None
}

/// Whether time alone may make a compaction due: one of the tables could be
/// rewritten once more of it has expired or the GC threshold has advanced.
pub(crate) fn may_become_due(levels: &Levels) -> bool {
    let mut tables = levels.iter().flatten().filter(|table| !table.is_damaged);
    tables
        .any(|table| table.tombstones + table.non_owned > 0 || table.least_expiry != Expiry::NEVER)
}

/// Whether half of a table are tombstones or non-owned versions, all below their bounds.
fn is_mostly_droppable(table: &TableSummary, gc_thresholds: GcThresholds) -> bool {
    let GcThresholds {
        tombstones,
        non_owned,
    } = gc_thresholds;
    let both = table.tombstones + table.non_owned;
    [(table.tombstones, tombstones), (both, non_owned)]
        .into_iter()
        .any(|(dropped, bound)| {
            dropped >= table.entries.div_ceil(2) && table.greatest_timestamp < bound
        })
}

/// Whether another table may hold a version that one in `table` hides.
fn may_hide_elsewhere(table: &TableSummary, levels: &Levels) -> bool {
    let hides = |other: &TableSummary| {
        other.id != table.id && other.least_timestamp <= table.greatest_timestamp
    };
    let (least, greatest) = (&table.least_key, &table.greatest_key);
    (0..LEVELS).any(|level| between(levels, level, least, greatest).any(hides))
}
