//! Tables that go down a level without being rewritten.
//!
//! A level says nothing about age, so a table may go to any level where it overlaps no other.
//! An edit of the manifest does that: the file stays what it is, and readers notice nothing.
//! RocksDB and Pebble call it a trivial move. So a load in the order of the keys writes the log and
//! each table once.
//!
//! What is picked in order to be rewritten is rewritten: a move drops nothing. What it leaves
//! (tombstones, expired values, versions that only an earlier snapshot saw) goes with a later
//! compaction of the table.

use super::pick::{Pick, Reason};
use crate::engine::core::Core;
use crate::engine::table_set::{Level, ReadState, Tables};
use crate::error::Error;
use crate::manifest::LEVELS;
use crate::table::Table;
use crate::table_id::TableId;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A table does not move above tables of so many times the size of a table: the compaction that
/// brings it down later would have to merge it with all of them.
const TABLES_BELOW_MAX: u64 = 10;

/// A table of level 0 does not move if it is shorter than this part of the size of a table. It is
/// merged with others, so that small tables do not add up: they would cost each start and each
/// pick.
const SHORT_DIVISOR: u64 = 16;

/// Moves the tables of a pick down that need not be merged. Returns whether it has moved any.
///
/// # Errors
/// As [`TableSet::apply`](crate::engine::table_set::TableSet::apply).
pub(super) fn move_down(pick: &Pick, core: &Core) -> Result<bool, Error> {
    let (state, inputs) = core.tables.find(pick.inputs.iter().map(|(_, id)| *id));
    let tables = movable(&state, inputs, pick, core.options.table_bytes);
    if tables.is_empty() {
        return Ok(false);
    }
    let moved = core.tables.move_down(pick.output_level, tables);
    let moved = moved.map_err(|error| core.poison_if_sync(error))?;
    let bytes = moved.iter().map(|table| table.file_bytes()).sum();
    note_moved_down(pick.output_level, bytes, 0, core);
    let counters = &core.counters;
    let tables = moved.len() as u64;
    counters.moved_tables.fetch_add(tables, Relaxed);
    tracing::debug!(?pick, tables, bytes, "tables move down");
    Ok(tables > 0)
}

/// Those of the inputs of a pick that may move to its level.
fn movable(
    state: &ReadState,
    inputs: Vec<(usize, Arc<Table>)>,
    pick: &Pick,
    table_bytes: u64,
) -> Vec<Arc<Table>> {
    match pick.reason {
        Reason::LevelZero
        | Reason::LevelSize
        | Reason::LevelLeftOver
        | Reason::PushDown
        | Reason::Room => {}
        Reason::Wide
        | Reason::Droppable
        | Reason::Expired
        | Reason::Purge
        | Reason::Hidden
        | Reason::Damaged
        | Reason::Garbage
        | Reason::Whole => return Vec::new(),
    }
    let output_level = pick.output_level;
    let is_set_aside = |table: &Table| {
        let mut parts = state.set_aside.iter();
        parts.any(|part| part.table == table.id())
    };
    let alone: BTreeSet<TableId> = alone(&state.tables.levels()[0])
        .filter(|table| table.file_bytes() >= table_bytes / SHORT_DIVISOR)
        .map(|table| table.id())
        .collect();
    let may_move = |(level, table): &(usize, Arc<Table>)| {
        *level < output_level
            && (*level > 0 || alone.contains(&table.id()))
            && !table.is_damaged()
            && !is_set_aside(table)
            && !state.tables.overlaps(output_level, table)
            && bytes_below(&state.tables, output_level, table)
                <= table_bytes.saturating_mul(TABLES_BELOW_MAX)
    };
    let movable = inputs.into_iter().filter(may_move);
    movable.map(|(_, table)| table).collect()
}

/// Those of the tables of level 0 that overlap no other of them. One that is damaged does not
/// count: it is not merged with any.
fn alone(tables: &Level) -> impl Iterator<Item = &Arc<Table>> {
    let mut by_key: Vec<_> = tables.iter().filter(|table| !table.is_damaged()).collect();
    by_key.sort_by(|one, other| {
        let (one, other) = (one.properties(), other.properties());
        one.least_key.cmp(&other.least_key)
    });
    let next_keys = by_key
        .iter()
        .copied()
        .skip(1)
        .map(|it| &it.properties().least_key);
    let next_keys: Vec<_> = next_keys.map(Some).chain([None]).collect();
    let mut greatest_before: Option<&Bytes> = None;
    by_key
        .into_iter()
        .zip(next_keys)
        .filter_map(move |(table, next)| {
            let keys = table.properties();
            let is_behind = greatest_before.is_none_or(|before| *before < keys.least_key);
            let is_before = next.is_none_or(|next| keys.greatest_key < *next);
            greatest_before = greatest_before.max(Some(&keys.greatest_key));
            (is_behind && is_before).then_some(table)
        })
}

/// The bytes of the tables that `table` overlaps on the level below `level`.
fn bytes_below(tables: &Tables, level: usize, table: &Table) -> u64 {
    let below = level + 1;
    if below >= LEVELS {
        return 0;
    }
    let keys = table.properties();
    let places = tables.places(below, Bound::Included(&keys.least_key), None);
    places
        .map_while(|place| tables.levels()[below].get(place))
        .take_while(|other| other.properties().least_key <= keys.greatest_key)
        .map(|other| other.file_bytes())
        .sum()
}

/// Notes that a compaction has brought `moved_bytes` down to a level and has dropped
/// `dropped_bytes` of what it has read, if no level below has tables.
pub(super) fn note_moved_down(level: usize, moved_bytes: u64, dropped_bytes: u64, core: &Core) {
    let state = core.tables.load();
    let levels = state.tables.levels();
    let mut below = levels.iter().skip(level + 1);
    if moved_bytes > 0 && below.all(|tables| tables.len() == 0) {
        let hidden = &core.counters.hidden;
        hidden.note(moved_bytes, dropped_bytes, state.tables.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::compaction::pick::Cuts;
    use crate::testing::{BlockingWrite, MemoryDisk, environment};
    use crate::{Admission, Compression, Engine, Options};
    use base::{Entry, Expiry, Timestamp};

    const TABLE_BYTES: u64 = 16 << 10;

    fn entry(key: &str) -> Entry {
        let timestamp = Timestamp::from_u64(1);
        Entry::value(key.as_bytes(), timestamp, &[7; 1000], Expiry::NEVER, 1)
    }

    /// How many tables of level 0 may move to a level, over this number of tables on the last
    /// level. There is one, which spans all keys.
    fn movable_to(output_level: usize, below: usize) -> usize {
        let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
        let options = Options {
            compaction: false,
            compression: Compression::None,
            table_bytes: TABLE_BYTES,
            ..Options::default()
        };
        let (engine, _) = Engine::open(environment, options).unwrap();
        let state = || engine.inner.core.tables.load_full();
        let mut ingest = engine.begin_ingest(Admission::Ordinary).unwrap();
        for number in 0..below * 16 {
            ingest.push(&entry(&format!("k{number:06}"))).unwrap();
        }
        ingest.commit().unwrap();
        let tables = state().tables.levels()[LEVELS - 1].len();
        assert!(tables.abs_diff(below) <= 2, "{tables}");
        for key in ["a", "z"] {
            engine.write(entry(key)).unwrap();
        }
        engine.flush().unwrap();
        let state = state();
        let fresh: Vec<_> = state.tables.levels()[0].iter().cloned().collect();
        let pick = Pick {
            inputs: fresh.iter().map(|table| (0, table.id())).collect(),
            output_level,
            reason: Reason::LevelZero,
            cursor: None,
            cuts: Cuts::default(),
        };
        let inputs = fresh.into_iter().map(|table| (0, table)).collect();
        movable(&state, inputs, &pick, TABLE_BYTES).len()
    }

    #[test]
    fn a_table_moves_over_a_few_tables_and_not_among_them() {
        assert_eq!(movable_to(5, 6), 1);
        assert_eq!(movable_to(5, 14), 0, "it would be merged with all of them");
        assert_eq!(movable_to(4, 14), 1, "they are not the next level");
        assert_eq!(movable_to(6, 2), 0, "it overlaps them");
    }

    #[test]
    fn of_tables_that_overlap_each_other_one_moves() {
        let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
        let options = Options {
            compaction: false,
            compression: Compression::None,
            table_bytes: TABLE_BYTES,
            ..Options::default()
        };
        let (engine, _) = Engine::open(environment, options).unwrap();
        let core = &engine.inner.core;
        let mut ids = Vec::new();
        for (keys, level) in [(["a", "c"], 2), (["b", "d"], 0)] {
            for key in keys {
                engine.write(entry(key)).unwrap();
            }
            engine.flush().unwrap();
            let table = Arc::clone(core.tables.load().tables.levels()[0].get(0).unwrap());
            ids.push((level, table.id()));
            core.tables.move_down(level, vec![table]).unwrap();
        }
        let pick = Pick {
            inputs: ids,
            output_level: 6,
            reason: Reason::PushDown,
            cursor: None,
            cuts: Cuts::default(),
        };
        assert!(move_down(&pick, core).unwrap());
        let levels = core.tables.load();
        assert_eq!(levels.tables.levels()[6].len(), 1);
    }
}
