//! Damage of blob tables: what is not read, what a comparison passes over, and what is rewritten.

use super::{
    KEYS, at, key, length, longest, run_jobs, sst_files, store_with_blob_table, value,
    world_of_one_table, write,
};
use crate::common::{World, put, read, write_late};
use base::Timestamp;
use lsm::{Engine, Error, SetAsideKeys};
use lsm_testing::BlockingWrite;
use std::collections::BTreeSet;
use std::time::Duration;

fn found(engine: &Engine) -> BTreeSet<Vec<u8>> {
    let mut scan = engine.scan(b"", None).for_full_comparison();
    let mut found = BTreeSet::new();
    while scan.advance().unwrap() {
        found.insert(scan.entry().key().to_vec());
    }
    found
}

/// Compares the store with one that has all versions, until it is whole.
fn repair(world: &World, engine: &Engine) -> usize {
    let mark = engine.damage_mark();
    let mut scan = engine.scan(b"", None).for_full_comparison();
    let mut found = BTreeSet::new();
    while scan.advance().unwrap() {
        found.insert(scan.entry().key().to_vec());
    }
    drop(scan);
    world.executor.run_all_due();
    for number in (0..KEYS).filter(|it| !found.contains(key(*it).as_bytes())) {
        engine
            .write(put(&key(number), number + 1, &value(number + 1)))
            .unwrap();
    }
    engine.damage_compared(mark);
    world.executor.run_for(Duration::from_secs(20));
    found.len()
}

fn check_whole(engine: &Engine) {
    for number in 0..KEYS {
        assert_eq!(read(engine, &key(number)), Some(value(number + 1)));
    }
    let statistics = engine.statistics();
    assert_eq!(
        (statistics.damaged_ranges, statistics.tables_damaged),
        (0, 0)
    );
}

#[test]
fn a_damaged_value_is_a_damaged_range_until_a_repair() {
    let (world, blob) = store_with_blob_table();
    world.memory.corrupt(&blob, 5_000, 0x20).unwrap();
    let engine = world.open();
    let unread = (0..KEYS).filter(|it| engine.get(key(*it).as_bytes()).is_err());
    assert_eq!(unread.count(), 1, "the others are read");
    let mut scan = engine.scan(b"", None);
    assert!(matches!(
        scan.next_batch(1 << 20),
        Err(Error::Corrupt { .. })
    ));
    drop(scan);
    world.executor.run_all_due();
    assert!(engine.has_uncompared_damage() && engine.is_damaged(key(2).as_bytes()));
    assert!(!engine.is_damaged(key(20).as_bytes()));
    assert_eq!(repair(&world, &engine) as u64, KEYS - 1);
    check_whole(&engine);
    assert!(!sst_files(&world).contains(&blob));
    drop(engine);
    check_whole(&world.open());
}

#[test]
fn a_blob_table_that_does_not_open_is_damaged_as_a_whole() {
    let (world, blob) = store_with_blob_table();
    let length = length(&world, &blob);
    world.memory.corrupt(&blob, length - 20, 0x20).unwrap();
    let (engine, report) = world.try_open().unwrap();
    assert_eq!(report.tables_lost, 1);
    assert!(engine.get(key(3).as_bytes()).is_err());
    // A restart finds it once more.
    drop(engine);
    let (engine, report) = world.try_open().unwrap();
    assert_eq!(report.tables_lost, 1);
    assert!(engine.is_damaged(key(3).as_bytes()));
    assert_eq!(repair(&world, &engine), 0);
    check_whole(&engine);
    drop(engine);
    check_whole(&world.open());
}

/// Nobody knows what it refers to, and it may come back.
#[test]
fn while_a_table_does_not_open_no_blob_table_goes() {
    let (world, blob) = store_with_blob_table();
    let table = sst_files(&world).into_iter().find(|file| *file != blob);
    let table = table.unwrap();
    let damage = || {
        let end = length(&world, &table);
        world.memory.corrupt(&table, end - 20, 0x20).unwrap();
    };
    damage();
    let (engine, report) = world.try_open().unwrap();
    assert_eq!(report.tables_lost, 1);
    engine.write(put("other", 1_000, "v")).unwrap();
    engine.compact().unwrap();
    world.executor.run_for(Duration::from_secs(20));
    engine.close().unwrap();
    damage();
    let engine = world.open();
    for number in 0..KEYS {
        assert_eq!(read(&engine, &key(number)), Some(value(number + 1)));
    }
}

/// Damage of one value, set aside as a node does, compared: the rewrite has to end.
#[test]
fn a_rewrite_ends_while_something_is_kept() {
    let (world, blob) = store_with_blob_table();
    world.memory.corrupt(&blob, 5_000, 0x20).unwrap();
    let engine = world.open();
    assert!((0..KEYS).any(|it| engine.get(key(it).as_bytes()).is_err()));
    world.executor.run_all_due();
    assert!(engine.has_damage_to_set_aside());
    engine.set_aside(at(1_000), SetAsideKeys::Damaged).unwrap();
    let mark = engine.damage_mark();
    let found = found(&engine);
    world.executor.run_all_due();
    for number in (0..KEYS).filter(|it| !found.contains(key(*it).as_bytes())) {
        write_late(
            &engine,
            put(&key(number), number + 1, &value(number + 1)),
            1_000,
        )
        .unwrap();
    }
    engine.damage_compared(mark);
    let before = engine.statistics();
    let jobs = run_jobs(&world, 3_000);
    let after = engine.statistics();
    assert!(
        after.compactions - before.compactions < 10,
        "{} compactions in {jobs} jobs, {} damaged ranges, kept {:?}",
        after.compactions - before.compactions,
        after.damaged_ranges,
        after.set_aside,
    );
    assert_eq!(after.damaged_ranges, 0);
}

/// A lost blob table, set aside, compared and rewritten: the damage has to go.
#[test]
fn a_lost_blob_table_is_repaired_while_something_is_kept() {
    let (world, blob) = store_with_blob_table();
    world
        .memory
        .corrupt(&blob, length(&world, &blob) - 20, 0x20)
        .unwrap();
    let (engine, report) = world.try_open().unwrap();
    assert_eq!(report.tables_lost, 1);
    engine.set_aside(at(1_000), SetAsideKeys::Damaged).unwrap();
    let mark = engine.damage_mark();
    assert!(found(&engine).is_empty());
    world.executor.run_all_due();
    for number in 0..KEYS {
        write_late(
            &engine,
            put(&key(number), number + 1, &value(number + 1)),
            1_000,
        )
        .unwrap();
    }
    engine.damage_compared(mark);
    let jobs = run_jobs(&world, 3_000);
    let after = engine.statistics();
    assert_eq!(
        (
            after.damaged_ranges,
            after.tables_damaged,
            engine.is_damaged(key(3).as_bytes())
        ),
        (0, 0, false),
        "after {jobs} jobs, {} compactions",
        after.compactions,
    );
}

/// A table refers to two damaged blob tables, of which one was not compared.
#[test]
fn damage_that_was_not_compared_is_not_forgotten() {
    let mut world = world_of_one_table();
    world.options.compaction = false;
    let engine = world.open();
    let mut timestamp = 0;
    write(&engine, 0..KEYS, &mut timestamp);
    engine.flush().unwrap();
    let first = sst_files(&world);
    // One value alone.
    write(&engine, 40..41, &mut timestamp);
    engine.flush().unwrap();
    let second: BTreeSet<_> = sst_files(&world).difference(&first).cloned().collect();
    let (one, other) = (longest(&world, &first), longest(&world, &second));
    engine.compact().unwrap();
    engine.close().unwrap();
    assert!(sst_files(&world).contains(&one) && sst_files(&world).contains(&other));
    assert_eq!(sst_files(&world).len(), 3, "one table refers to both");
    world.memory.corrupt(&one, 5_000, 0x20).unwrap();
    world.memory.corrupt(&other, 500, 0x20).unwrap();
    world.options.compaction = true;
    let engine = world.open();
    // The first is found and compared ...
    assert!((0..KEYS).any(|it| engine.get(key(it).as_bytes()).is_err()));
    world.executor.run_all_due();
    let mark = engine.damage_mark();
    // ... and the second one is found after the mark.
    engine.get(key(40).as_bytes()).unwrap_err();
    world.executor.run_all_due();
    assert!(engine.is_damaged(key(40).as_bytes()));
    engine.damage_compared(mark);
    assert!(engine.has_uncompared_damage());
    world.executor.run_for(Duration::from_secs(5));
    let read = engine.get(key(40).as_bytes());
    assert!(
        engine.is_damaged(key(40).as_bytes()) && engine.has_uncompared_damage(),
        "the store says of a key that nobody compared: {read:?}"
    );
}

/// A version that came again, because it could not be read, must not stop compactions.
#[test]
fn a_version_that_came_again_does_not_stop_compactions() {
    let (world, blob) = store_with_blob_table();
    world.memory.corrupt(&blob, 5_000, 0x20).unwrap();
    let engine = world.open();
    let damaged: Vec<_> = (0..KEYS)
        .filter(|it| engine.get(key(*it).as_bytes()).is_err())
        .collect();
    world.executor.run_all_due();
    // A repair under way sends it.
    for number in damaged {
        engine
            .write(put(&key(number), number + 1, &value(number + 1)))
            .unwrap();
    }
    engine.flush().unwrap();
    for round in 0..20 {
        engine
            .write(put(&format!("other-{round}"), 100 + round, "v"))
            .unwrap();
        engine.flush().unwrap();
        world.executor.run_for(Duration::from_secs(70));
    }
    let levels = engine.statistics().levels;
    assert!(levels[0].tables < 8, "{levels:?}");
}

/// Who passes over damage that is not noted raises this counter.
#[test]
fn every_comparison_that_passes_over_a_value_says_so() {
    let (world, blob) = store_with_blob_table();
    world.memory.corrupt(&blob, 5_000, 0x20).unwrap();
    let engine = world.open();
    // No job notes the damage meanwhile.
    for round in 0..2 {
        let met = engine.damage_met();
        let mut scan = engine.scan(b"", None).for_comparison(Timestamp::ZERO);
        let mut keys = 0;
        while scan.advance().unwrap() {
            keys += 1;
        }
        assert_eq!(keys, KEYS - 1);
        assert_ne!(engine.damage_met(), met, "round {round}");
    }
}

/// What drops versions above a limit writes no value anew, and drops them beside damage.
#[test]
fn versions_above_a_limit_are_dropped_beside_a_damaged_value() {
    for is_damaged in [false, true] {
        let (mut world, blob) = store_with_blob_table();
        if is_damaged {
            world.memory.corrupt(&blob, 5_000, 0x20).unwrap();
        }
        world.options.drop_versions_above = Some(at(20));
        let (engine, report) = world.try_open().unwrap();
        assert_eq!(report.versions_dropped, KEYS - 20, "damaged {is_damaged}");
        assert_eq!(engine.statistics().blob_bytes, length(&world, &blob));
        let unread = (0..20).filter(|it| engine.get(key(*it).as_bytes()).is_err());
        assert_eq!(unread.count(), usize::from(is_damaged));
        assert_eq!(read(&engine, &key(20)), None);
    }
}

/// A damaged value is not the damage of other keys.
#[test]
fn a_damaged_value_concerns_its_key_alone() {
    let world = world_of_one_table();
    let engine = world.open();
    let mut timestamp = 0;
    write(&engine, (0..KEYS).step_by(10), &mut timestamp);
    engine.flush().unwrap();
    let blob = longest(&world, &sst_files(&world));
    write(&engine, (0..KEYS).filter(|it| it % 10 > 0), &mut timestamp);
    engine.flush().unwrap();
    engine.close().unwrap();
    world.memory.corrupt(&blob, 2_500, 0x20).unwrap();
    let engine = world.open();
    let unread: Vec<_> = (0..KEYS)
        .filter(|it| engine.get(key(*it).as_bytes()).is_err())
        .collect();
    world.executor.run_all_due();
    let damaged: Vec<_> = (0..KEYS)
        .filter(|it| engine.is_damaged(key(*it).as_bytes()))
        .collect();
    assert_eq!(damaged, unread);
}

/// A scrub finds damage of a blob table that the next start would meet.
#[test]
fn a_full_comparison_checks_all_of_a_blob_table() {
    for from_end in [20, 100] {
        let (world, blob) = store_with_blob_table();
        let engine = world.open();
        world
            .memory
            .corrupt(&blob, length(&world, &blob) - from_end, 0x20)
            .unwrap();
        assert_eq!(found(&engine).len() as u64, KEYS);
        world.executor.run_all_due();
        let damaged = engine.statistics().damaged_ranges;
        engine.close().unwrap();
        let (_engine, report) = world.try_open().unwrap();
        assert_eq!((damaged, report.tables_lost), (1, 1), "{from_end}");
    }
}

/// An old version whose value is damaged does not matter to who reads a newer one.
#[test]
fn a_newer_version_is_read_beside_a_damaged_older_one() {
    let mut world = world_of_one_table();
    world.options.compaction = false;
    let engine = world.open();
    engine.write(put("k", 1, &value(1))).unwrap();
    engine.write(put("l", 100, &value(2))).unwrap();
    engine.flush().unwrap();
    let blob = longest(&world, &sst_files(&world));
    // In a table whose greatest timestamp is below that of the other.
    engine.write(put("k", 50, "new")).unwrap();
    engine.flush().unwrap();
    world.memory.corrupt(&blob, 500, 0x20).unwrap();
    assert_eq!(read(&engine, "k").as_deref(), Some("new"));
}

/// A comparison goes on behind a value that it cannot read, also where a version came again.
#[test]
fn a_comparison_goes_on_where_a_version_came_again() {
    let (world, blob) = store_with_blob_table();
    world.memory.corrupt(&blob, 5_000, 0x20).unwrap();
    let engine = world.open();
    for number in 0..KEYS {
        engine
            .write(put(&key(number), number + 1, &value(number + 1)))
            .unwrap();
    }
    let mut scan = engine.scan(b"", None).for_full_comparison();
    let mut keys = 0;
    while scan.advance().unwrap() {
        keys += 1;
    }
    assert_eq!(keys, KEYS);
}
