//! Tables that go down without being rewritten.

use crate::common::{World, long, put, scan_all, tables};
use base::Timestamp;
use lsm::{Compression, Disk, Engine, JobClass, SetAsideKeys};
use lsm_testing::{BlockingWrite, HookedDisk, SyncHook};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A store whose tables have about ten entries of a thousand bytes.
fn world() -> World {
    let mut world = World::new();
    world.options.compression = Compression::None;
    world.options.memtable_bytes = 1 << 20;
    world.options.table_bytes = 16 << 10;
    world
}

/// Writes these keys to a table of level 0.
fn add_table(engine: &Engine, keys: impl IntoIterator<Item = u64>, timestamp: u64) {
    for key in keys {
        let value = long(key, 1000);
        let entry = put(&format!("{key:06}"), timestamp, &value);
        engine.write(entry).unwrap();
    }
    engine.flush().unwrap();
}

/// The test disk counts the bytes of the tables: each is synced once, when it is complete.
#[test]
fn a_fill_in_order_writes_the_log_and_each_table_once() {
    let mut world = World::new();
    world.options.compression = Compression::None;
    world.options.memtable_bytes = 64 << 10;
    world.options.table_bytes = 64 << 10;
    let disk = Arc::new(HookedDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&disk) as _;
    let (table_bytes, memory) = (Arc::new(AtomicU64::new(0)), Arc::clone(&world.memory));
    let counted = Arc::clone(&table_bytes);
    disk.hook_syncs(
        Arc::new(move |path: &Path, sync: &dyn Fn() -> io::Result<()>| {
            if path.extension().is_some_and(|kind| kind == "sst") {
                counted.fetch_add(memory.open(path)?.len()?, Relaxed);
            }
            sync()
        }) as Arc<SyncHook>,
    );
    let mut engine = world.open();
    let mut expected = Vec::new();
    for number in 0..6_000 {
        let entry = put(&format!("{number:08}"), 1 + number, &long(number, 500));
        engine.write(entry.clone()).unwrap();
        expected.push(entry);
        if number % 10 == 0 {
            world.executor.run_for(Duration::from_millis(10));
        }
    }
    world.executor.run_for(Duration::from_secs(5));
    let statistics = engine.statistics();
    assert!(statistics.moved_tables > 20, "{statistics:?}");
    assert_eq!(statistics.compaction_written_bytes, 0);
    assert_eq!(table_bytes.load(Relaxed), statistics.flush_written_bytes);
    assert!(statistics.levels[0].tables < 4, "{statistics:?}");
    let per_byte = table_bytes.load(Relaxed) as f64 / statistics.written_bytes as f64;
    assert!(per_byte < 1.15, "{per_byte}");
    assert_eq!(statistics.hidden_share, 0.0);
    assert_eq!(scan_all(&engine, "", None), expected);
    // The manifest says so, too.
    engine.close().unwrap();
    engine = world.open();
    let after = engine.statistics().levels;
    assert_eq!(after[1..], statistics.levels[1..]);
    assert_eq!(scan_all(&engine, "", None), expected);
}

#[test]
fn of_level_zero_those_move_that_overlap_none() {
    let world = world();
    let engine = world.open();
    add_table(&engine, 0..10, 1);
    add_table(&engine, 20..30, 2);
    add_table(&engine, 25..35, 3);
    add_table(&engine, 50..60, 4);
    world.executor.run_for(Duration::from_secs(1));
    // Only the two others are merged.
    let statistics = engine.statistics();
    assert_eq!((statistics.moved_tables, statistics.compactions), (2, 1));
    assert!(statistics.compaction_read_bytes < 25_000, "{statistics:?}");
    assert_eq!(tables(&engine), [0, 0, 0, 0, 0, 0, 3]);
    assert_eq!(scan_all(&engine, "", None).len(), 10 + 15 + 10);
}

#[test]
fn tables_do_not_move_over_others_nor_if_they_are_short() {
    let world = world();
    let engine = world.open();
    for first in [0, 20, 40, 60] {
        add_table(&engine, first..first + 10, 1 + first);
    }
    world.executor.run_class(JobClass::Compaction);
    assert_eq!(engine.statistics().moved_tables, 4);
    // One key in the middle of each.
    for first in [5, 25, 45, 65] {
        add_table(&engine, [first, first + 1], 100 + first);
    }
    world.executor.run_for(Duration::from_secs(1));
    let statistics = engine.statistics();
    assert_eq!((statistics.moved_tables, statistics.compactions), (4, 1));
    // Short ones become one.
    for key in [100, 200, 300, 400] {
        engine.write(put(&format!("{key:06}"), 200, "v")).unwrap();
        engine.flush().unwrap();
    }
    world.executor.run_for(Duration::from_secs(1));
    let statistics = engine.statistics();
    assert_eq!((statistics.moved_tables, statistics.compactions), (4, 2));
}

#[test]
fn a_scan_goes_on_over_tables_that_move() {
    let world = world();
    let engine = world.open();
    for first in [0, 20, 40, 60] {
        add_table(&engine, first..first + 10, 1 + first);
    }
    let mut scan = engine.scan(b"", None);
    let mut seen = scan.next_batch(3000).unwrap();
    assert!(seen.len() < 10);
    world.executor.run_class(JobClass::Compaction);
    assert_eq!(engine.statistics().moved_tables, 4);
    // The tables are rewritten while the scan still reads them.
    engine.compact().unwrap();
    assert_eq!(engine.statistics().levels[6].tables, 4);
    loop {
        let batch = scan.next_batch(3000).unwrap();
        if batch.is_empty() {
            break;
        }
        seen.extend(batch);
    }
    let keys: Vec<_> = seen.iter().map(|entry| entry.key().to_vec()).collect();
    let expected = [0, 20, 40, 60].map(|first| (first..first + 10).map(|key| format!("{key:06}")));
    assert!(
        keys.iter().map(|key| &key[..]).eq(expected
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .iter()
            .map(String::as_bytes))
    );
}

#[test]
fn what_is_ordered_is_rewritten() {
    let mut world = world();
    world.options.compaction = false;
    let engine = world.open();
    for first in [0, 20, 40, 60] {
        add_table(&engine, first..first + 10, 1 + first);
    }
    engine.compact().unwrap();
    let statistics = engine.statistics();
    assert_eq!(statistics.moved_tables, 0);
    assert!(statistics.compaction_read_bytes > 40_000, "{statistics:?}");
}

/// Only a merge leaves out what is set aside.
#[test]
fn a_table_of_which_a_part_is_set_aside_does_not_move() {
    let world = world();
    let engine = world.open();
    for first in [0, 20, 40] {
        add_table(&engine, first..first + 10, 1 + first);
    }
    // The parts of tables that hold something newer stay live.
    for key in 60..70 {
        let timestamp = if key == 60 { 1 } else { 900 };
        let entry = put(&format!("{key:06}"), timestamp, &long(key, 1000));
        engine.write(entry).unwrap();
    }
    let below = Timestamp::from_u64(500);
    engine.set_aside(below, SetAsideKeys::All).unwrap();
    for first in [80, 90, 95] {
        add_table(&engine, first..first + 4, 1000 + first);
    }
    world.executor.run_for(Duration::from_secs(1));
    let statistics = engine.statistics();
    assert_eq!(statistics.moved_tables, 3, "{statistics:?}");
    let found = scan_all(&engine, "", None);
    assert_eq!(found.len(), 9 + 12);
}
