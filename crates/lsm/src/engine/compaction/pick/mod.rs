//! Choosing the next compaction: a function of what the levels hold.
//!
//! The levels are sized from the last one up, as RocksDB's dynamic level sizes ([`targets`]). Level
//! 0 is merged into the **base level**; the levels between 0 and the base level stay empty. Nine
//! tenths of the data lie on the last level, however large the store is, and only the tenth above
//! it and level 0 store anything twice.
//!
//! Every level has a score, and the level with the highest score is compacted, if
//! that is at least 1:
//! - level 0 by its number of tables, because reads ask all of them, and by its bytes,
//!   compared with those of the levels below: in a small store, level 0 could otherwise
//!   duplicate more data than all other levels hold;
//! - a level from the base down by the bytes of its files, compared with its target;
//! - a level above the base, which a store that shrinks leaves behind, is emptied
//!   when nothing else is due.
//!
//! Of level 0 all tables are taken, with those that they overlap on the base level
//! ([`level_zero`]). Of other levels some neighbours are taken, in turn by key, with those that they
//! overlap on the level that they are merged into ([`sorted`]). No compaction takes more than
//! [`PickSettings::input_bytes_max`], unless one table of level 0 for each that makes it due is
//! more. A table that would, because it overlaps very many, is first divided on its own level. So
//! that this is rare, the tables that a compaction writes end before they overlap much ([`cuts`]).
//!
//! If no level is due, a table is rewritten on its own level if half of it is dead ([`dead`]). This
//! holds on level 0 too, because a store that gets no more writes must not
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
//!
//! No choice looks at all tables: [`Levels`] is kept from one choice to the next, and knows their
//! order and their bounds.

use crate::engine::compaction::gc_thresholds::GcThresholds;
use crate::engine::table_set::Levels;
use crate::manifest::LEVELS;
use bytes::Bytes;
use choice::input_bytes;
use dead::pick_dead;
use level_zero::{pick_level_zero, pick_within_level_zero};
use sorted::pick_sorted;
use targets::Targets;

pub(crate) use busy::Busy;
pub(crate) use choice::{Pick, PickSettings, Reason};
#[cfg(test)]
pub(crate) use cuts::Cuts;
pub(crate) use cuts::Cutter;
pub(crate) use dead::{Hidden, pick_hidden};
pub(crate) use purge::{PurgeRule, Waiting, pick_purge};
pub(crate) use whole::Walk;

mod busy;
mod choice;
mod cuts;
mod dead;
mod level_zero;
mod purge;
mod sorted;
mod targets;
mod whole;

#[cfg(test)]
mod simulation;
#[cfg(test)]
pub(super) mod tests;

/// While the base level has more than so many times its target, it goes before level 0, which
/// would be merged with all of it.
const BASE_SCORE_MAX: f64 = 2.5;

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
///
/// `levels` stays as it is, but learns which tables keep what others could drop.
#[cfg(test)]
pub(crate) fn pick(
    levels: &mut Levels,
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
    levels: &mut Levels,
    settings: &PickSettings,
    cursors: &[Option<Bytes>; LEVELS],
    expired_before_unix_ms: u64,
    gc_thresholds: GcThresholds,
    busy: &Busy,
) -> Option<Pick> {
    let targets = Targets::new(levels, settings);
    let fits =
        |levels: &Levels, pick: &Pick| input_bytes(levels, &pick.inputs) <= settings.room_bytes;
    let due = due_levels(levels, &targets, settings, busy);
    let way = (due.contains(&0) && !busy.merges.is_empty()).then_some(targets.base);
    let mut too_large = None;
    for level in due {
        let pick = match level {
            0 => {
                let tables = level_zero::usable(levels, busy);
                Some(pick_level_zero(levels, tables, targets.base, settings))
            }
            _ => {
                let cursor = cursors[level].as_ref();
                pick_sorted(levels, level, &targets, cursor, settings, busy)
            }
        };
        match pick.filter(|pick| busy.admits(levels, pick, way)) {
            Some(pick) if fits(levels, &pick) => {
                return Some(pick.cut(levels, targets.base, settings));
            }
            pick => too_large = too_large.or(pick),
        }
    }
    let dead = pick_dead(levels, expired_before_unix_ms, gc_thresholds, busy);
    let levels: &Levels = levels;
    let dead = dead.filter(|pick| busy.admits(levels, pick, way));
    let Some(too_large) = too_large else {
        return dead;
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
    dead.into_iter()
        .chain(smaller().filter(|pick| busy.admits(levels, pick, way)))
        .find(|pick| fits(levels, pick))
        .or_else(|| pick_within_level_zero(level_zero::usable(levels, busy), settings))
        .or(Some(too_large))
        .map(|pick| pick.cut(levels, targets.base, settings))
}

/// The levels that are due, the most urgent first.
fn due_levels(
    levels: &Levels,
    targets: &Targets,
    settings: &PickSettings,
    busy: &Busy,
) -> Vec<usize> {
    let sorted = (1..LEVELS - 1).map(|level| targets.score(level, busy.bytes_left(levels, level)));
    let level_zero = level_zero::score(levels, settings, busy);
    let scores = std::iter::once(level_zero).chain(sorted);
    let due = scores.enumerate().filter(|(_, score)| *score >= 1.0);
    let mut due: Vec<(usize, f64)> = due.collect();
    let base = due.iter().find(|(level, _)| *level == targets.base);
    if base.is_some_and(|(_, score)| *score > BASE_SCORE_MAX)
        && let Some((0, score)) = due.first_mut()
    {
        *score = 1.0;
    }
    // At equal scores the upper level stays first.
    due.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    due.into_iter().map(|(level, _)| level).collect()
}
