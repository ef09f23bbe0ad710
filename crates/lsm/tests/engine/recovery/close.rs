//! A closed store writes nothing to its folder, which another engine can open at once.

use crate::common::{World, put, read, scan_all};
use lsm::{Engine, Error};
use lsm_testing::{BlockingWrite, Call, Fault, FaultyDisk};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Calls that change what is in the folder.
fn writes(call: Call, _: &Path) -> bool {
    !matches!(
        call,
        Call::List | Call::Open | Call::AvailableBytes | Call::Read | Call::Len
    )
}

/// Counts the calls that change something from now on.
fn watch(disk: &FaultyDisk) {
    disk.arm(Fault::at(u64::MAX, io::ErrorKind::Other).only(writes));
}

/// A store with work of every class: a compaction between two steps, memtables that wait
/// for their flush, a segment that is not filled yet.
fn busy(world: &World) -> Engine {
    let engine = world.open();
    let mut timestamp = 0;
    // As many level-0 tables as make a compaction due, with more than a step in them.
    for _ in 0..4 {
        for number in 0..9 {
            timestamp += 1;
            let value = "v".repeat(60 << 10);
            engine
                .write(put(&format!("{number:02}"), timestamp, &value))
                .unwrap();
        }
        engine.flush().unwrap();
    }
    assert!(
        world.executor.run_one(|classes| classes - 1),
        "a first step"
    );
    engine.write(put("last", timestamp + 1, "v")).unwrap();
    engine
}

#[test]
fn nothing_is_written_once_a_close_has_returned() {
    for full_disk in [false, true] {
        let mut world = World::new();
        world.options.memtable_bytes = 1 << 20;
        world.options.table_bytes = 1 << 20;
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
        world.disk = Arc::clone(&faulty) as _;
        let engine = busy(&world);
        if full_disk {
            // From now on the store checks again and again whether there is room.
            world.memory.set_capacity(world.memory.used_bytes());
            let filler = "v".repeat(1 << 20);
            let refused = (1_000..1_020)
                .find_map(|timestamp| engine.write(put("filler", timestamp, &filler)).err());
            assert!(matches!(refused, Some(Error::DiskFull)), "{refused:?}");
        }
        let closed = engine.close();
        assert!(closed.is_ok() || full_disk, "{closed:?}");
        world.memory.set_capacity(u64::MAX);
        watch(&faulty);
        world.executor.run_for(Duration::from_secs(300));
        assert!(matches!(engine.flush(), Err(Error::Closed)));
        assert!(matches!(engine.compact(), Err(Error::Closed)));
        assert!(matches!(engine.write(put("a", 1, "v")), Err(Error::Closed)));
        engine.close().unwrap();
        assert_eq!(faulty.calls(), 0, "a closed store has written");
        assert_eq!(read(&engine, "last").as_deref(), Some("v"), "reads go on");
    }
}

#[test]
fn a_closed_store_can_be_opened_beside_its_old_handles() {
    let mut world = World::new();
    world.options.memtable_bytes = 1 << 20;
    world.options.table_bytes = 1 << 20;
    // So that the old store reads what the new one removes.
    world.options.open_files_max = 100;
    let engine = busy(&world);
    let scan = engine.scan(b"", None);
    engine.close().unwrap();
    let held = scan_all(&engine, "", None);
    let (next, report) = world.try_open().unwrap();
    assert_eq!(report.entries_replayed, 0);
    assert_eq!(
        report.orphans_removed, 0,
        "the close removed the files of the compaction"
    );
    // The executor now holds jobs of both engines.
    next.write(put("last", 10_000, "w")).unwrap();
    world.executor.run_for(Duration::from_secs(300));
    next.compact().unwrap();
    assert_eq!(read(&next, "last").as_deref(), Some("w"));
    assert_eq!(
        scan_all(&engine, "", None),
        held,
        "the old handles see the old store"
    );
    drop((scan, engine));
    assert!(matches!(world.try_open(), Err(Error::Locked { .. })));
}

#[test]
fn a_failed_close_frees_the_folder() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 1, "v")).unwrap();
    world.memory.fail_syncs(true);
    assert!(engine.close().is_err());
    world.memory.fail_syncs(false);
    let (next, _) = world.try_open().unwrap();
    assert_eq!(read(&next, "a").as_deref(), Some("v"));
}
