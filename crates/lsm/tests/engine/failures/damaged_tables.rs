//! Damaged parts of tables, from the scan that finds them until they are rewritten: no read
//! is wrong at any moment.

use crate::common::{World, put, read};
use base::{Entry, Expiry, Timestamp};
use lsm::{Disk, Engine, Error, JobClass, NonOwned};
use lsm_testing::{BlockingWrite, Call, Fault, FaultyDisk};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The keys of the store, a few in each block.
const KEYS: u64 = 100;

fn key(number: u64) -> String {
    format!("key-{number:03}")
}

fn value(number: u64) -> String {
    format!("{number}").repeat(40)
}

fn version(number: u64) -> Entry {
    put(&key(number), 1 + number, &value(number))
}

/// A closed store with one table, its file and the file's length.
fn store_of_a_table() -> (World, PathBuf, u64) {
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    world.options.table_bytes = 1 << 20;
    let engine = world.open();
    for number in 0..KEYS {
        engine.write(version(number)).unwrap();
    }
    engine.compact().unwrap();
    engine.close().unwrap();
    let file = table_file(&world);
    let length = Disk::open(&*world.memory, &file).unwrap().len().unwrap();
    (world, file, length)
}

fn table_file(world: &World) -> PathBuf {
    let names = world.memory.list(&World::folder()).unwrap();
    let mut tables = names.iter().filter(|name| name.ends_with(".sst"));
    let file = World::folder().join(tables.next().unwrap());
    assert_eq!(tables.next(), None);
    file
}

/// A copy of a closed store.
fn copy_of(world: &World) -> World {
    World {
        options: world.options.clone(),
        ..World::on(Arc::new(world.memory.clone_synced()))
    }
}

/// The keys that a full comparison finds, after which the damage that it met is noted.
fn scan_fully(world: &World, engine: &Engine) -> BTreeSet<String> {
    let mut scan = engine.scan(b"", None).for_full_comparison();
    let mut found = BTreeSet::new();
    loop {
        let batch = scan.next_batch(500).unwrap();
        if batch.is_empty() {
            break;
        }
        for entry in batch {
            let key = String::from_utf8(entry.key().to_vec()).unwrap();
            assert!(found.insert(key));
        }
    }
    drop(scan);
    world.executor.run_all_due();
    found
}

/// Compares the store with one that has all versions: it is written what it lacks. A
/// poisoned store is not rewritten.
fn compare(world: &World, engine: &Engine) {
    let mark = engine.damage_mark();
    let found = scan_fully(world, engine);
    for number in 0..KEYS {
        if !found.contains(&key(number))
            && let Err(error) = engine.write(version(number))
        {
            assert!(matches!(error, Error::Poisoned { .. }), "{error}");
            return;
        }
    }
    engine.damage_compared(mark);
}

/// Checks that each key is read right or not at all.
fn check(engine: &Engine, context: &str) {
    for number in 0..KEYS {
        match engine.get(key(number).as_bytes()) {
            Ok(found) => {
                let found = found.unwrap_or_else(|| panic!("{context}: {number} is gone"));
                assert_eq!(found.value_bytes(), value(number).as_bytes(), "{context}");
            }
            Err(Error::Corrupt { .. } | Error::Io { .. }) => {}
            Err(error) => panic!("{context}: {error}"),
        }
    }
}

/// Checks that nothing is damaged any more, now and after a restart.
fn check_whole(world: &World, engine: Engine, context: &str) {
    let statistics = engine.statistics();
    let damage = (statistics.damaged_ranges, statistics.tables_damaged);
    assert_eq!(damage, (0, 0), "{context}");
    assert!(!engine.is_damaged(b"") && !engine.has_uncompared_damage());
    assert_eq!(scan_fully(world, &engine).len() as u64, KEYS, "{context}");
    drop(engine);
    let engine = world.open();
    for number in 0..KEYS {
        assert_eq!(
            read(&engine, &key(number)),
            Some(value(number)),
            "{context}"
        );
    }
    assert_eq!(engine.statistics().damaged_ranges, 0, "{context}");
}

#[test]
fn a_full_comparison_finds_damage_anywhere_and_after_it_the_table_is_rewritten() {
    let (store, file, length) = store_of_a_table();
    let mut lost = BTreeSet::new();
    for offset in (0..length).step_by(83).chain([length - 1]) {
        let context = format!("byte {offset} of {length}");
        let world = copy_of(&store);
        let engine = world.open();
        // The cache has every block from now on.
        check(&engine, &context);
        assert!(!engine.is_damaged(key(3).as_bytes()));
        world.memory.corrupt(&file, offset, 0x20).unwrap();
        let found = scan_fully(&world, &engine);
        lost.insert(KEYS - found.len() as u64);
        let statistics = engine.statistics();
        assert_eq!(statistics.damaged_ranges, 1, "{context}");
        assert!(engine.has_uncompared_damage(), "{context}");
        for number in (0..KEYS).map(key) {
            let is_found = found.contains(&number);
            assert!(
                is_found || engine.is_damaged(number.as_bytes()),
                "{context}"
            );
        }
        check(&engine, &context);
        compare(&world, &engine);
        assert!(!engine.has_uncompared_damage(), "{context}");
        check(&engine, &context);
        world.executor.run_for(Duration::from_secs(5));
        check_whole(&world, engine, &context);
    }
    // Filter, properties and footer hold no keys; the top index leads to all.
    assert!(lost.contains(&0) && lost.contains(&KEYS), "{lost:?}");
    assert!(lost.len() > 3, "{lost:?}");
}

#[test]
fn damage_concerns_the_keys_of_its_block_and_is_known_after_a_restart() {
    let (world, file, _) = store_of_a_table();
    world.memory.corrupt(&file, 1000, 1).unwrap();
    let engine = world.open();
    let damaged_keys = |engine: &Engine| -> Vec<u64> {
        let is_damaged = |number: &u64| engine.is_damaged(key(*number).as_bytes());
        (0..KEYS).filter(is_damaged).collect()
    };
    assert_eq!(damaged_keys(&engine), []);
    // A read meets it.
    let failed = (0..KEYS).find(|number| engine.get(key(*number).as_bytes()).is_err());
    world.executor.run_all_due();
    let damaged = damaged_keys(&engine);
    assert!(damaged.contains(&failed.unwrap()), "{damaged:?}");
    assert!((2..20).contains(&damaged.len()), "{damaged:?}");
    let mark = engine.damage_mark();
    drop(engine);
    let engine = world.open();
    assert_eq!(damaged_keys(&engine), damaged);
    assert_eq!(engine.statistics().tables_damaged, 1);
    assert_eq!(engine.damage_mark(), mark);
    // Not even if it can be read again: what a comparison returns now may be gone later.
    world.memory.corrupt(&file, 1000, 1).unwrap();
    let found = scan_fully(&world, &engine);
    assert!(!found.contains(&key(failed.unwrap())));
    compare(&world, &engine);
    let compared = engine.last_sequence();
    let is_empty = |changes: Vec<lsm::LeastTimestamps>| changes.iter().all(Vec::is_empty);
    assert!(is_empty(engine.changes_since(compared).unwrap()));
    world.executor.run_for(Duration::from_secs(5));
    // What the rewritten table holds again, the next comparison compares.
    let changes = engine.changes_since(compared).unwrap();
    let least = changes.iter().flatten().map(|(_, least)| least.as_u64());
    assert_eq!(least.min(), Some(1));
    check_whole(&world, engine, "rewritten");
}

#[test]
fn a_table_with_damage_that_was_noted_after_the_comparison_began_is_not_rewritten() {
    let (world, file, length) = store_of_a_table();
    world.memory.corrupt(&file, 1000, 1).unwrap();
    let engine = world.open();
    let before = engine.damage_mark();
    scan_fully(&world, &engine);
    let first = engine.damage_mark();
    assert!(first > before);
    world.memory.corrupt(&file, length / 2, 1).unwrap();
    scan_fully(&world, &engine);
    assert_eq!(engine.statistics().damaged_ranges, 2);
    for mark in [before, first] {
        engine.damage_compared(mark);
        world.executor.run_for(Duration::from_secs(5));
        engine.compact().unwrap();
        assert_eq!(engine.statistics().damaged_ranges, 2);
        assert!(engine.has_uncompared_damage());
        check(&engine, "too early");
    }
    compare(&world, &engine);
    engine.compact().unwrap();
    check_whole(&world, engine, "in time");
}

#[test]
fn a_sector_that_cannot_be_read_is_damage_to_a_comparison() {
    let (mut world, file, _) = store_of_a_table();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = world.open();
    let of_table = move |call, path: &Path| call == Call::Read && path == file;
    // One failure may be temporary.
    faulty.arm(Fault::at(3, ErrorKind::Other).only(of_table.clone()));
    assert_eq!(scan_fully(&world, &engine).len() as u64, KEYS);
    assert_eq!(faulty.failed(), 1);
    assert_eq!(engine.statistics().damaged_ranges, 0);
    faulty.arm(Fault::at(3, ErrorKind::Other).only(of_table).lasting());
    assert!((scan_fully(&world, &engine).len() as u64) < KEYS);
    assert!(engine.statistics().damaged_ranges > 0);
    faulty.heal();
    compare(&world, &engine);
    world.executor.run_for(Duration::from_secs(5));
    check_whole(&world, engine, "readable again");
}

/// Its tombstone may be forgotten everywhere else: no comparison has seen what is read again.
#[test]
fn what_can_be_read_again_of_a_damaged_part_does_not_come_back_below_the_closed_timestamp() {
    let below = 1 + KEYS;
    let cases = [
        (0, 3, false),
        (below, 3, false),
        (below, 1, false),
        (below, 1, true),
    ];
    for (closed_timestamp, copies, is_non_owned) in cases {
        let mut world = World::new();
        world.non_owned = is_non_owned.then(|| NonOwned {
            is_non_owned: Arc::new(|_, _| true),
            gc_threshold: Arc::new(|| Timestamp::ZERO),
        });
        world.options.compression = lsm::Compression::None;
        world.options.table_bytes = 1 << 20;
        let engine = world.open();
        for number in 0..KEYS {
            let (key, value) = (key(number), value(number));
            let timestamp = Timestamp::from_u64(1 + number);
            let (key, value) = (key.as_bytes(), value.as_bytes());
            let entry = Entry::value(key, timestamp, value, Expiry::NEVER, copies);
            engine.write(entry).unwrap();
        }
        engine.compact().unwrap();
        engine.close().unwrap();
        let file = table_file(&world);
        let engine = world.open();
        world.memory.corrupt(&file, 1000, 1).unwrap();
        let found = scan_fully(&world, &engine);
        let damaged: Vec<u64> = (0..KEYS).filter(|it| !found.contains(&key(*it))).collect();
        assert!((2..20).contains(&damaged.len()), "{damaged:?}");
        // The disk was at fault, and all other stores have forgotten what the part held.
        world.memory.corrupt(&file, 1000, 1).unwrap();
        engine
            .raise_closed_timestamp(Timestamp::from_u64(closed_timestamp))
            .unwrap();
        let mark = engine.damage_mark();
        assert_eq!(scan_fully(&world, &engine), found);
        engine.damage_compared(mark);
        world.executor.run_for(Duration::from_secs(5));
        assert_eq!(engine.statistics().damaged_ranges, 0);
        for number in 0..KEYS {
            let held = engine.get(key(number).as_bytes()).unwrap().is_some();
            let is_kept =
                !damaged.contains(&number) || closed_timestamp == 0 || copies == 1 && !is_non_owned;
            assert_eq!(
                held, is_kept,
                "{number}, {closed_timestamp}, {copies}, {is_non_owned}"
            );
        }
    }
}

/// From the report of the damage until the table is rewritten, each call on the disk
/// fails in turn. Afterwards the power is cut.
#[test]
fn whatever_call_fails_while_damage_is_noted_and_rewritten_no_read_is_wrong() {
    let (store, file, _) = store_of_a_table();
    let mut rewritten = 0;
    for at in 0.. {
        let mut world = copy_of(&store);
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
        world.disk = Arc::clone(&faulty) as _;
        world.memory.corrupt(&file, 1000, 1).unwrap();
        let engine = world.open();
        world.executor.run_class(JobClass::Log);
        let context = format!("call {at}");
        let of_tables_or_manifest =
            |_, path: &Path| path.extension().is_none_or(|name| name != "wal");
        faulty.arm(Fault::at(at, ErrorKind::Other).only(of_tables_or_manifest));
        let _may_fail = engine.get(key(9).as_bytes()).is_err();
        world.executor.run_all_due();
        world.executor.run_for(Duration::from_secs(2));
        scan_fully(&world, &engine);
        compare(&world, &engine);
        world.executor.run_for(Duration::from_secs(20));
        let has_failed = faulty.failed() > 0;
        faulty.heal();
        check(&engine, &context);
        rewritten += u64::from(engine.statistics().damaged_ranges == 0);
        drop(engine);
        let after = copy_of(&world);
        let engine = after.open();
        check(&engine, &context);
        scan_fully(&after, &engine);
        compare(&after, &engine);
        after.executor.run_for(Duration::from_secs(5));
        check_whole(&after, engine, &context);
        if !has_failed {
            assert!(at > 15, "{at}");
            break;
        }
    }
    assert!(rewritten > 0);
}

#[test]
fn the_power_may_be_cut_at_any_moment_of_a_rewrite() {
    let (world, file, _) = store_of_a_table();
    world.memory.corrupt(&file, 1000, 1).unwrap();
    let engine = world.open();
    scan_fully(&world, &engine);
    compare(&world, &engine);
    engine.flush().unwrap();
    let mut states = BTreeSet::new();
    for _ in 0..2000 {
        if !world.executor.run_one(|_| 0) {
            world.clock.advance(Duration::from_millis(5));
            continue;
        }
        let after = copy_of(&world);
        let engine = after.open();
        states.insert(engine.statistics().damaged_ranges);
        check(&engine, "after a power cut");
        if engine.statistics().damaged_ranges == 0 {
            break;
        }
    }
    assert_eq!(states, BTreeSet::from([0, 1]));
}
