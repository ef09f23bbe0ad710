//! Flushes, which take one step at a time.

use crate::common::{World, put, read, scan_all};
use lsm::{Disk, Engine, JobClass};
use lsm_testing::{BlockingWrite, Call, Fault, FaultyDisk};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn is_write_of_a_table(call: Call, path: &Path) -> bool {
    call == Call::Write && path.extension().is_some_and(|kind| kind == "sst")
}

fn world() -> (World, Arc<FaultyDisk>) {
    let mut world = World::new();
    world.options.memtable_bytes = 2 << 20;
    world.options.compression = lsm::Compression::None;
    world.options.compaction = false;
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    (world, faulty)
}

/// Writes until a memtable is frozen. Returns the number of keys.
fn freeze_one(engine: &Engine) -> u64 {
    let mut keys = 0;
    while engine.statistics().memtables_frozen == 0 {
        keys += 1;
        assert!(keys < 100_000, "no memtable is ever frozen");
        let key = format!("{keys:05}");
        engine.write(put(&key, keys, &"x".repeat(200))).unwrap();
    }
    keys
}

/// Runs one job, which is the flush's, because no later class has one.
fn flush_step(world: &World) {
    assert!(
        world.executor.run_one(|classes| classes - 1),
        "a step is due"
    );
}

fn tables(world: &World) -> usize {
    let names = world.memory.list(&World::folder()).unwrap();
    names.iter().filter(|name| name.ends_with(".sst")).count()
}

#[test]
fn a_flush_is_a_row_of_steps_between_which_reads_see_all() {
    let (world, _) = world();
    let engine = world.open();
    let keys = freeze_one(&engine);
    let before = scan_all(&engine, "0", None);
    let mut steps = 0;
    while engine.statistics().flushes == 0 {
        assert_eq!(read(&engine, "00001").map(|value| value.len()), Some(200));
        assert_eq!(engine.statistics().memtables_frozen, 1);
        flush_step(&world);
        steps += 1;
    }
    // 200 bytes a key, in steps of 64 KiB.
    assert!(steps > keys * 200 / (64 << 10), "{steps} steps");
    assert_eq!(scan_all(&engine, "0", None), before);
    assert_eq!(engine.statistics().memtables_frozen, 0);
    assert_eq!(tables(&world), 1);
}

#[test]
fn a_flush_that_fails_midway_leaves_nothing_and_begins_anew() {
    for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
        let (world, faulty) = world();
        let engine = world.open();
        let keys = freeze_one(&engine);
        // The third of the flush's four writes fails.
        faulty.arm(Fault::at(2, kind).only(is_write_of_a_table));
        if kind == ErrorKind::Other {
            world.executor.run_class(JobClass::Flush);
            assert_eq!(faulty.failed(), 1);
            let statistics = engine.statistics();
            assert_eq!((statistics.flushes, statistics.memtables_frozen), (0, 1));
            assert_eq!(tables(&world), 0, "the half-written table is gone");
            world.executor.run_for(Duration::from_secs(2));
        } else {
            // The room of the reserve is free at once.
            world.executor.run_class(JobClass::Flush);
            assert_eq!(faulty.failed(), 1);
        }
        let statistics = engine.statistics();
        assert_eq!((statistics.flushes, statistics.memtables_frozen), (1, 0));
        assert_eq!(tables(&world), 1, "{kind:?}");
        assert_eq!(scan_all(&engine, "0", None).len() as u64, keys);
    }
}

#[test]
fn a_store_closed_amid_a_flush_ends_it() {
    let (world, _) = world();
    let engine = world.open();
    let keys = freeze_one(&engine);
    for _ in 0..3 {
        flush_step(&world);
    }
    engine.close().unwrap();
    assert_eq!(tables(&world), 2, "the frozen memtable and the active one");
    drop(engine);
    let (engine, report) = world.try_open().unwrap();
    assert_eq!((report.entries_replayed, report.orphans_removed), (0, 0));
    assert_eq!(scan_all(&engine, "0", None).len() as u64, keys);
}

#[test]
fn a_store_that_ends_amid_a_flush_replays_its_log() {
    let (world, _) = world();
    let engine = world.open();
    let keys = freeze_one(&engine);
    for _ in 0..3 {
        flush_step(&world);
    }
    assert_eq!(tables(&world), 1, "half written");
    drop(engine);
    let (engine, report) = world.try_open().unwrap();
    assert_eq!((report.entries_replayed, report.orphans_removed), (keys, 1));
    assert_eq!(scan_all(&engine, "0", None).len() as u64, keys);
}
