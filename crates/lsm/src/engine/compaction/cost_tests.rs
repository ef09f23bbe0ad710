//! What operations cost in a store of many tables, in looks at tables. A binary search among ten
//! times as many tables takes four looks more.

use super::merging::older_in;
use crate::engine::table_set::{Level, TableEdit, Tables};
use crate::table::tests::touched::looks;
use crate::testing::{MemoryDisk, StepExecutor, environment};
use crate::{Admission, Engine, Options};
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
    let [few, many] = [FEW, MANY].map(|tables| {
        let (engine, _executor) = store_of(tables);
        let level = level_of(&engine);
        let key = level
            .get(level.len() / 2)
            .unwrap()
            .properties()
            .least_key
            .clone();
        looks(|| work(&engine, &key))
    });
    assert!(few > 0 && many <= few + 30, "{few} looks, then {many}");
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
