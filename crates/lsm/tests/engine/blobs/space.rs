//! The space of blob tables: what frees their garbage, on a full disk as well, and what keeps them.

use super::{
    KEYS, VALUE_BYTES, at, key, run_jobs, settle, value, world, world_of_one_table, write,
};
use crate::common::{delete, long, put, read, scan_all, table_files, tables};
use lsm::{Error, SetAsideKeys};
use lsm_testing::BlockingWrite;
use std::time::Duration;

/// Garbage makes room, also where less than half of a blob table is garbage.
#[test]
fn overwrites_go_on_where_the_disk_has_a_fifth_more_than_the_store() {
    let mut world = world();
    world.options.disk_reserve_bytes = 128 << 10;
    let engine = world.open();
    let (keys, mut timestamp) = (10 * KEYS, 0);
    write(&engine, 0..keys, &mut timestamp);
    settle(&world, &engine);
    world.memory.set_capacity(world.memory.used_bytes() / 5 * 6);
    let mut newest: Vec<u64> = (1..=keys).collect();
    let mut random = fastrand::Rng::with_seed(5);
    let mut stored = 0;
    let mut refused = 0;
    for number in 1_000..4_000 {
        let at = random.u64(..keys);
        match engine.write(put(&key(at), number, &value(number))) {
            Ok(_) => {
                stored += 1;
                newest[at as usize] = number;
            }
            Err(error) => {
                assert!(matches!(error, Error::DiskFull), "{error}");
                refused += 1;
            }
        }
        world.executor.run_for(Duration::from_millis(100));
    }
    assert!(
        stored > 2_000,
        "{stored} stored, {refused} refused, {:?}",
        engine.statistics()
    );
    for (number, newest) in (0..).zip(&newest) {
        assert_eq!(read(&engine, &key(number)), Some(value(*newest)));
    }
}

/// A full disk with much garbage.
#[test]
fn garbage_is_freed_on_a_full_disk() {
    let mut world = world_of_one_table();
    world.options.memtable_bytes = 64 << 10;
    world.options.table_bytes = 64 << 10;
    world.options.disk_reserve_bytes = 32 << 10;
    world.options.compaction = false;
    let engine = world.open();
    let mut timestamp = 0;
    let name = |number: u64| format!("key-{number:03}-{}", long(number, 60));
    for round in 0..2_u64 {
        for number in (0..400).filter(|number| round == 0 || number % 5 > 0) {
            timestamp += 1;
            engine
                .write(put(&name(number), timestamp, &long(timestamp, 1_000)))
                .unwrap();
        }
    }
    engine.flush().unwrap();
    engine.compact().unwrap();
    let garbage = engine.statistics().blob_garbage_bytes;
    let levels: Vec<_> = engine
        .statistics()
        .levels
        .iter()
        .map(|it| (it.tables, it.bytes))
        .collect();
    engine.close().unwrap();
    world.options.compaction = true;
    world
        .memory
        .set_capacity(world.memory.used_bytes() + (100 << 10));
    let engine = world.open();
    let full = engine.write(put("long", 100_000, &"x".repeat(200_000)));
    let _jobs = run_jobs(&world, 20_000);
    let after = engine.statistics();
    assert!(
        after.blob_garbage_bytes < garbage / 2,
        "full {full:?}, {} of {garbage} bytes are left, levels {levels:?}, {} compactions, full {}",
        after.blob_garbage_bytes,
        after.compactions,
        after.disk_full
    );
}

/// Deletes of long values bring a full store back.
#[test]
fn deletes_of_some_long_values_bring_a_full_store_back() {
    for (of_ten, has_blobs) in [(4, false), (10, true), (7, true), (4, true)] {
        let mut world = world_of_one_table();
        world.options.blob_value_bytes_min = has_blobs.then_some(1_000);
        world.options.memtable_bytes = 64 << 10;
        world.options.table_bytes = 64 << 10;
        world.options.disk_reserve_bytes = 64 << 10;
        let engine = world.open();
        for number in 0..400 {
            engine
                .write(put(&format!("{number:03}"), number + 1, &value(number)))
                .unwrap();
        }
        engine.compact().unwrap();
        let _jobs = run_jobs(&world, 5_000);
        world.memory.set_capacity(world.memory.used_bytes());
        let full = (0..9).find_map(|it| {
            engine
                .write(put("long", 10_000 + it, &long(it, 60_000)))
                .err()
        });
        assert!(matches!(full, Some(Error::DiskFull)), "{full:?}");
        for number in (0..400).filter(|it| it % 10 < of_ten) {
            engine
                .write(delete(&format!("{number:03}"), 100_000 + number))
                .unwrap();
        }
        world.executor.run_for(Duration::from_secs(600));
        let after = engine.statistics();
        assert!(!after.disk_full, "{of_ten} of ten, {has_blobs}: {after:?}");
    }
}

/// Without the option compactions bring the values back.
#[test]
fn without_the_option_compactions_bring_all_values_back() {
    let mut world = world_of_one_table();
    let engine = world.open();
    let mut timestamp = 0;
    write(&engine, 0..KEYS, &mut timestamp);
    engine.compact().unwrap();
    engine.close().unwrap();
    world.options.blob_value_bytes_min = None;
    let engine = world.open();
    for _ in 0..5 {
        timestamp += 1;
        engine.write(put("other", timestamp, "v")).unwrap();
        engine.compact().unwrap();
        world.executor.run_for(Duration::from_secs(200));
    }
    assert_eq!(engine.statistics().blob_bytes, 0);
}

/// While something is kept, overwrites take the space of what they replace.
#[test]
fn what_is_kept_is_bounded() {
    let world = world_of_one_table();
    let engine = world.open();
    let mut timestamp = 0;
    write(&engine, 0..KEYS, &mut timestamp);
    engine.flush().unwrap();
    engine.set_aside(at(2), SetAsideKeys::All).unwrap();
    let kept = engine.statistics().set_aside;
    let live = KEYS * VALUE_BYTES as u64;
    for _ in 0..100 {
        write(&engine, 0..KEYS, &mut timestamp);
        engine.flush().unwrap();
        engine.compact().unwrap();
        let _jobs = run_jobs(&world, 1_000);
    }
    let bytes = engine.statistics().blob_bytes;
    assert!(
        bytes < 6 * live,
        "{bytes} for {live} live bytes, kept {kept:?}"
    );
}

/// The files of blob tables go with the last reader.
#[test]
fn a_reader_that_ends_frees_blob_tables() {
    let mut world = world_of_one_table();
    world.options.compaction = false;
    let engine = world.open();
    let mut timestamp = 0;
    write(&engine, 0..KEYS, &mut timestamp);
    engine.flush().unwrap();
    let mut scan = engine.scan(b"", None);
    assert!(scan.advance().unwrap());
    write(&engine, 0..KEYS, &mut timestamp);
    engine.compact().unwrap();
    world.executor.run_for(Duration::from_secs(100));
    // The scan may see what was overwritten.
    assert_eq!(engine.statistics().blob_garbage_bytes, 0);
    drop(scan);
    engine.write(put("one", timestamp + 1, "v")).unwrap();
    engine.compact().unwrap();
    engine.write(put("two", timestamp + 2, "v")).unwrap();
    engine.flush().unwrap();
    world.executor.run_for(Duration::from_secs(100));
    let tables: u64 = tables(&engine).iter().sum();
    assert_eq!(table_files(&world) as u64, tables + 1, "one blob table");
    assert_eq!(read(&engine, &key(1)), Some(value(KEYS + 2)));
}

/// What is kept has its values, and all goes once it is discarded.
#[test]
fn what_is_kept_has_its_values_until_it_is_discarded() {
    let world = world_of_one_table();
    let mut engine = world.open();
    let mut timestamp = 0;
    write(&engine, 0..KEYS, &mut timestamp);
    engine.flush().unwrap();
    engine.set_aside(at(1_000), SetAsideKeys::All).unwrap();
    timestamp = 2_000;
    for _ in 0..5 {
        write(&engine, 40..40 + KEYS, &mut timestamp);
        engine.flush().unwrap();
        engine.compact().unwrap();
        let _jobs = run_jobs(&world, 1_000);
        engine.close().unwrap();
        engine = world.open();
        let page = engine.copies_set_aside(b"", 1 << 20).unwrap();
        assert_eq!(page.copies.len() as u64, KEYS);
        for copy in page.copies {
            assert_eq!(
                copy.value_bytes(),
                value(copy.timestamp().as_u64()).as_bytes()
            );
        }
    }
    let before = engine.statistics().blob_bytes;
    engine.discard_set_aside(at(1_000)).unwrap();
    let _jobs = run_jobs(&world, 1_000);
    let after = engine.statistics();
    assert!(after.blob_bytes < before, "{before} and then {after:?}");
    assert!(after.blob_bytes < 2 * KEYS * VALUE_BYTES as u64);
    assert_eq!(scan_all(&engine, "", None).len() as u64, KEYS);
}
