//! What operations cost in a store of many tables, in looks at tables. A binary search among ten
//! times as many tables takes four looks more.

use super::job::aside::move_damaged_aside;
use super::merging::{Compaction, older_in};
use super::moves::move_down;
use super::pick::{Cuts, Pick, Reason};
use crate::engine::table_set::{Level, TableEdit, Tables};
use crate::table::tests::touched::looks;
use crate::table_id::TableId;
use crate::testing::{MemoryDisk, StepExecutor, environment};
use crate::{Admission, Engine, Options, ScanAhead};
use base::{Entry, Expiry, Timestamp};
use std::sync::Arc;

const FEW: u64 = 40;
const MANY: u64 = 400;

fn entry(number: u64) -> Entry {
    let key = format!("key-{number:06}");
    let timestamp = Timestamp::from_u64(1 + number);
    Entry::value(key.as_bytes(), timestamp, &[7; 100], Expiry::NEVER, 1)
}

/// A store whose last level has this many tables, of a few keys each.
fn store_of(tables: u64) -> (Engine, Arc<StepExecutor>) {
    let (environment, executor) = environment(Arc::new(MemoryDisk::new()));
    let options = Options {
        table_bytes: 1,
        block_bytes: 64,
        compaction: false,
        ..Options::default()
    };
    let (engine, _) = Engine::open(environment, options).unwrap();
    let mut ingest = engine.begin_ingest(Admission::Ordinary).unwrap();
    let mut number = 0;
    while level_of(&engine).len() < tables as usize {
        ingest.push(&entry(number)).unwrap();
        number += 1;
        if number % tables == 0 {
            ingest.commit().unwrap();
            ingest = engine.begin_ingest(Admission::Ordinary).unwrap();
        }
    }
    (engine, executor)
}

/// The tables of the last level.
fn level_of(engine: &Engine) -> Level {
    let state = engine.inner.core.tables.load_full();
    state.tables.levels()[6].clone()
}

/// Checks that what `work` does takes about as many looks in a store of many tables as in one of
/// few. It gets the store, and a key in the middle.
#[track_caller]
fn assert_searches(work: impl Fn(&Engine, &[u8])) {
    assert_searches_on(6, work);
}

/// The same, with the tables on some level.
#[track_caller]
fn assert_searches_on(of_level: usize, work: impl Fn(&Engine, &[u8])) {
    let [few, many] = [FEW, MANY].map(|tables| {
        let (engine, _executor) = store_of(tables);
        let level = level_of(&engine);
        let key = level
            .get(level.len() / 2)
            .unwrap()
            .properties()
            .least_key
            .clone();
        if of_level < 6 {
            let moved = level.iter().map(|table| (of_level, Arc::clone(table)));
            let edit = TableEdit {
                moved: moved.collect(),
                ..TableEdit::default()
            };
            engine.inner.core.tables.apply(edit).unwrap();
        }
        looks(|| work(&engine, &key))
    });
    assert!(few > 0 && many <= few + 30, "{few} looks, then {many}");
}

/// The table that has a key.
fn table_of(engine: &Engine, key: &[u8]) -> TableId {
    let state = engine.inner.core.tables.load_full();
    state.tables.candidates(key).next().unwrap().id()
}

#[test]
fn a_read_searches() {
    assert_searches(|engine, key| assert!(engine.get(key).unwrap().is_some()));
}

#[test]
fn a_short_scan_searches() {
    assert_searches(|engine, key| {
        let mut scan = engine.scan(key, None);
        assert!(!scan.next_batch(1).unwrap().is_empty());
        assert!(!scan.next_batch(1).unwrap().is_empty());
    });
    assert_searches(|engine, key| {
        let end = [key, &b"~"[..]].concat();
        let mut scan = engine.scan(key, Some(&end));
        assert_eq!(scan.next_batch(1 << 20).unwrap().len(), 1);
    });
}

#[test]
fn a_tombstone_in_a_merge_searches() {
    assert_searches(|engine, key| {
        let state = engine.inner.core.tables.load_full();
        let others = Arc::new(Tables::clone(&state.tables));
        let older = older_in(others);
        assert!(older(key, Timestamp::MAX));
        assert!(!older(key, Timestamp::ZERO));
    });
}

#[test]
fn an_edit_searches() {
    assert_searches(|engine, key| {
        let tables = &engine.inner.core.tables;
        let before = tables.load_full();
        let table = before.tables.candidates(key).next().unwrap();
        let edit = TableEdit {
            moved: vec![(4, Arc::clone(table))],
            ..TableEdit::default()
        };
        tables.apply(edit).unwrap();
        assert!(engine.get(key).unwrap().is_some());
        let removed = TableEdit {
            removed: vec![table.id()],
            ..TableEdit::default()
        };
        tables.apply(removed).unwrap();
        assert!(engine.get(key).unwrap().is_none());
    });
}

#[test]
fn a_compaction_searches() {
    assert_searches(|engine, key| {
        let core = &engine.inner.core;
        move_damaged_aside(core).unwrap();
        let pick = Pick::rewrite(6, table_of(engine, key), Reason::Whole);
        let mut compaction = Compaction::start(pick, None, core).unwrap();
        while compaction.merge_some(core).unwrap().is_some() {}
        compaction.complete(core).unwrap();
        assert!(engine.get(key).unwrap().is_some());
    });
}

#[test]
fn a_move_searches() {
    assert_searches_on(5, |engine, key| {
        let table = table_of(engine, key);
        let pick = Pick {
            inputs: vec![(5, table)],
            output_level: 6,
            reason: Reason::LevelSize,
            cursor: None,
            cuts: Cuts::default(),
        };
        assert!(move_down(&pick, &engine.inner.core).unwrap());
        assert_eq!(level_of(engine).len(), 1);
    });
}

#[test]
fn a_scan_that_goes_on_searches() {
    assert_searches(|engine, key| {
        let ahead = ScanAhead::default();
        for _ in 0..2 {
            let scan = engine.scan(key, None).for_full_comparison();
            let mut scan = scan.with_read_ahead(&ahead);
            assert!(!scan.next_batch(1).unwrap().is_empty());
            drop(scan);
            assert!(ahead.tables() > 0);
        }
    });
}

#[test]
fn statistics_look_at_no_table() {
    let (engine, _executor) = store_of(FEW);
    let found = looks(|| assert!(engine.statistics().table_entries >= FEW));
    assert_eq!(found, 0);
}
