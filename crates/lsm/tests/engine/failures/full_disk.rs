//! A full disk: what the store refuses, what it still does, and how it recovers.

use crate::common::{World, delete, put, read};
use lsm::{Disk, Engine, Error, JobClass};
use lsm_testing::{BlockingWrite, Call, Fault, FaultyDisk};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A world without compression, so that written bytes take their room.
fn uncompressed() -> World {
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    world
}

/// Puts until the store refuses one. Returns how many were accepted.
fn fill(engine: &Engine, from: u64) -> u64 {
    for number in from.. {
        let value = "x".repeat(200);
        match engine.write(put(&format!("fill-{number:05}"), number, &value)) {
            Ok(_) => {}
            Err(error) => {
                assert!(matches!(error, Error::DiskFull), "{error}");
                return number - from;
            }
        }
    }
    unreachable!("the disk is finite")
}

#[test]
fn a_full_disk_refuses_puts_while_reads_and_deletes_go_on() {
    let world = uncompressed();
    let engine = world.open();
    world.memory.set_capacity(400 << 10);
    let taken = fill(&engine, 1);
    assert!(taken > 100, "{taken}");
    assert!(engine.statistics().disk_full);
    assert_eq!(
        read(&engine, "fill-00001").map(|value| value.len()),
        Some(200)
    );
    for number in 1..=100 {
        engine
            .write(delete(&format!("fill-{number:05}"), 100_000 + number))
            .unwrap();
    }
    assert_eq!(read(&engine, "fill-00100"), None);
    assert!(engine.statistics().refused_disk_full > 0);
    // Acknowledged writes survive a power cut on a full disk too.
    let after = World::on(Arc::new(world.memory.clone_synced()));
    let engine = after.open();
    assert_eq!(read(&engine, "fill-00001"), None);
}

#[test]
fn a_store_that_was_full_for_long_takes_puts_within_two_seconds_of_room() {
    let world = uncompressed();
    let engine = world.open();
    world.memory.set_capacity(400 << 10);
    fill(&engine, 1);
    world.executor.run_for(Duration::from_secs(300));
    assert!(!engine.takes_puts());
    world.memory.set_capacity(u64::MAX);
    world.executor.run_for(Duration::from_secs(2));
    assert!(engine.takes_puts());
}

#[test]
fn the_store_recovers_by_itself_when_there_is_room() {
    let world = uncompressed();
    let engine = world.open();
    world.memory.set_capacity(400 << 10);
    let taken = fill(&engine, 1);
    world.executor.run_for(Duration::from_secs(10));
    assert!(engine.statistics().disk_full, "no room yet");
    world.memory.set_capacity(u64::MAX);
    world.executor.run_for(Duration::from_secs(10));
    assert!(!engine.statistics().disk_full);
    engine.write(put("after", 1 + taken, "v")).unwrap();
    assert_eq!(read(&engine, "after"), Some("v".into()));
}

#[test]
fn deleting_and_compacting_makes_room_on_a_full_disk() {
    let mut world = uncompressed();
    world.options.disk_reserve_bytes = 300 << 10;
    world
        .bound
        .store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    let engine = world.open();
    world.memory.set_capacity(700 << 10);
    let taken = fill(&engine, 1);
    for number in 1..=taken {
        engine
            .write(delete(&format!("fill-{number:05}"), 100_000 + number))
            .unwrap();
    }
    engine.compact().unwrap();
    world.executor.run_for(Duration::from_secs(10));
    assert!(!engine.statistics().disk_full, "{:?}", engine.statistics());
    assert!(fill(&engine, 200_000) > 100);
}

/// Puts about 5 MiB, and flushes them.
fn put_5_mib(engine: &Engine, timestamp: u64) {
    for number in 0..5_000 {
        let value = format!("{number:01000}");
        let entry = put(&format!("{number:08}"), timestamp, &value);
        engine.write(entry).unwrap();
    }
    engine.flush().unwrap();
}

/// A store of which two merged tables of 5 MiB wait to be freed.
fn with_merged_tables() -> (World, Engine) {
    let mut world = uncompressed();
    world.options.disk_reserve_bytes = 300 << 10;
    world.options.memtable_bytes = 16 << 20;
    world.options.table_bytes = 64 << 20;
    let engine = world.open();
    put_5_mib(&engine, 1);
    put_5_mib(&engine, 2);
    engine.compact().unwrap();
    (world, engine)
}

#[test]
fn a_store_that_becomes_full_frees_merged_tables_at_once() {
    let (world, engine) = with_merged_tables();
    let before = world.memory.used_bytes();
    world.memory.set_capacity(before);
    fill(&engine, 100_000);
    let used = world.memory.used_bytes();
    assert!(used + (8 << 20) < before, "{before} and then {used}");
}

#[test]
fn a_compaction_for_which_there_is_no_room_frees_merged_tables_first() {
    let (world, engine) = with_merged_tables();
    put_5_mib(&engine, 3);
    let headroom = (world.options.memtables_frozen_max + 2) * world.options.memtable_bytes;
    let used = world.memory.used_bytes();
    world
        .memory
        .set_capacity(used + headroom as u64 + (5 << 20));
    engine.compact().unwrap();
    assert!(!engine.statistics().disk_full);
}

/// Level 0 is behind, so ordinary compactions go first, and they fail for lack of room. The
/// one that was ordered would wait for as long as the disk is full.
#[test]
fn an_ordered_compaction_ends_on_a_full_disk() {
    let mut world = with_small_reserve();
    world.options.compaction = false;
    let engine = world.open();
    let value = "x".repeat(200);
    for number in 0..3_000 {
        let key = format!("key-{:03}", number * 37 % 500);
        engine.write(put(&key, 1 + number, &value)).unwrap();
        world.executor.run_for(Duration::from_millis(5));
    }
    engine.close().unwrap();
    drop(engine);
    world.options.compaction = true;
    world.memory.set_capacity(world.memory.used_bytes());
    let engine = world.open();
    engine.order_compaction().unwrap();
    world.executor.run_for(Duration::from_secs(60));
    let whole = engine.whole_compaction();
    assert_eq!((whole.ordered, whole.ended), (1, 1), "{whole:?}");
    assert!(matches!(whole.failure, Some(Error::DiskFull)), "{whole:?}");
    world.memory.set_capacity(u64::MAX);
    world.executor.run_for(Duration::from_secs(60));
    engine.order_compaction().unwrap();
    world.executor.run_for(Duration::from_secs(60));
    let whole = engine.whole_compaction();
    assert_eq!((whole.ordered, whole.ended), (2, 2), "{whole:?}");
    assert!(whole.failure.is_none(), "{whole:?}");
}

/// What a start finds in the log is flushed first, and there is no room for it. The operator is
/// told, rather than left to wait.
#[test]
fn an_ordered_compaction_ends_if_what_is_in_memory_cannot_be_flushed() {
    let mut world = with_small_reserve();
    world.options.memtable_bytes = 1 << 20;
    let engine = world.open();
    let value = "x".repeat(1_000);
    for number in 1..=300 {
        engine
            .write(put(&format!("key-{number:03}"), number, &value))
            .unwrap();
    }
    let mut after = World::on(Arc::new(world.memory.clone_synced()));
    after.options = world.options;
    let engine = after.open();
    after.memory.set_capacity(after.memory.used_bytes());
    engine.order_compaction().unwrap();
    after.executor.run_for(Duration::from_secs(60));
    let whole = engine.whole_compaction();
    assert_eq!((whole.ordered, whole.ended), (1, 1), "{whole:?}");
    assert!(matches!(whole.failure, Some(Error::DiskFull)), "{whole:?}");
    after.memory.set_capacity(u64::MAX);
    after.executor.run_for(Duration::from_secs(60));
    engine.order_compaction().unwrap();
    after.executor.run_for(Duration::from_secs(60));
    let whole = engine.whole_compaction();
    assert_eq!((whole.ordered, whole.ended), (2, 2), "{whole:?}");
    assert!(whole.failure.is_none(), "{whole:?}");
}

/// To ask at each step would take a noticeable part of the time of a compaction.
#[test]
fn a_compaction_asks_for_the_room_once_in_a_megabyte() {
    let mut world = uncompressed();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    world.options.compaction = false;
    world.options.memtable_bytes = 64 << 20;
    world.options.table_bytes = 64 << 20;
    let engine = world.open();
    let value = "x".repeat(1000);
    for table in 0..2 {
        for number in (table..6_000).step_by(2) {
            let key = format!("key-{number:05}");
            engine.write(put(&key, 1 + number, &value)).unwrap();
        }
        engine.flush().unwrap();
    }
    let asks = |call, _: &Path| call == Call::AvailableBytes;
    faulty.arm(Fault::at(u64::MAX, ErrorKind::Other).only(asks));
    engine.compact().unwrap();
    let megabytes = engine.statistics().compaction_written_bytes >> 20;
    assert!(megabytes >= 5, "{megabytes}");
    let asked = faulty.calls();
    assert!((megabytes..3 * megabytes).contains(&asked), "{asked}");
}

/// A world with a reserve that is small beside the store.
fn with_small_reserve() -> World {
    let mut world = uncompressed();
    world.options.disk_reserve_bytes = 32 << 10;
    world
}

/// The tombstones fit into a memtable, and the entries that they hide do not fit into the
/// reserve.
#[test]
fn deletes_alone_bring_a_full_store_back() {
    deletes_bring_back(&with_small_reserve());
    deletes_bring_back(&with_small_reserve().with_blobs(true));
}

fn deletes_bring_back(world: &World) {
    let engine = world.open();
    let value = "x".repeat(200);
    let mut number = 0;
    // Long values among many short ones.
    let mut put_one = |engine: &Engine, key: String, value: &str| {
        number += 1;
        engine.write(put(&key, number, value)).unwrap();
        world.executor.run_for(Duration::from_millis(50));
    };
    for long in 0..20 {
        for short in 0..50 {
            put_one(&engine, format!("{short:02}-short-{long:02}"), &value);
        }
        put_one(&engine, format!("long-{long:02}"), &"y".repeat(10_000));
    }
    engine.compact().unwrap();
    world.memory.set_capacity(world.memory.used_bytes());
    assert!(fill(&engine, number + 1) < 100);
    world.executor.run_for(Duration::from_secs(600));
    assert!(engine.statistics().disk_full, "nothing was deleted");
    for long in 0..20 {
        let key = format!("long-{long:02}");
        engine.write(delete(&key, 100_000 + long)).unwrap();
    }
    world.executor.run_for(Duration::from_secs(60));
    assert!(!engine.statistics().disk_full, "{:?}", engine.statistics());
    engine.write(put("after", 200_000, "v")).unwrap();
    // Deleted keys stay deleted and the others exist, also after a power cut.
    let after = World::on(Arc::new(world.memory.clone_synced()));
    for engine in [engine, after.open()] {
        for long in 0..20 {
            assert_eq!(read(&engine, &format!("long-{long:02}")), None);
            for short in 0..50 {
                let key = format!("{short:02}-short-{long:02}");
                assert_eq!(read(&engine, &key).as_ref(), Some(&value));
            }
        }
    }
}

/// A full store of 1200 entries, all on the last level, which a compaction of level 0 has
/// to read as a whole.
fn full_and_compacted() -> (World, Engine) {
    let world = with_small_reserve();
    let engine = world.open();
    for number in 1..=1200 {
        let entry = put(&format!("fill-{number:05}"), number, &"x".repeat(200));
        engine.write(entry).unwrap();
        world.executor.run_for(Duration::from_millis(50));
    }
    engine.compact().unwrap();
    // Only what is live takes room. Free log segments would be given back.
    let mut names = Disk::list(&*world.memory, &World::folder()).unwrap();
    names.retain(|name| name.ends_with(".free"));
    for name in names {
        Disk::remove(&*world.memory, &World::folder().join(name)).unwrap();
    }
    world.memory.set_capacity(world.memory.used_bytes());
    fill(&engine, 2000);
    (world, engine)
}

/// Rewriting a table for each delete would wear the disk out.
#[test]
fn a_delete_that_frees_little_rewrites_no_table() {
    let (world, engine) = full_and_compacted();
    world.executor.run_for(Duration::from_secs(60));
    let before = engine.statistics();
    assert!(before.disk_full);
    for number in 0..2 {
        let key = format!("fill-{:05}", 1 + number * 400);
        engine.write(delete(&key, 100_000 + number)).unwrap();
        world.executor.run_for(Duration::from_secs(60));
    }
    let after = engine.statistics();
    assert_eq!(after.flushes, before.flushes + 2);
    assert_eq!(after.compactions, before.compactions);
}

/// Each flush of a few deletes writes a table, and there is no room to compact it.
#[test]
fn deletes_that_trickle_in_leave_few_tables_and_hold_up_no_others() {
    let (world, engine) = full_and_compacted();
    let mut most = 0;
    for number in 0..60 {
        // One delete in each table is too little to rewrite it.
        let key = format!("fill-{:05}", 1 + number % 20 * 60 + number / 20);
        engine.write(delete(&key, 100_000 + number)).unwrap();
        world.executor.run_for(Duration::from_secs(40));
        most = most.max(engine.statistics().levels[0].tables);
    }
    let trickled = engine.statistics();
    assert!(trickled.disk_full && trickled.flushes >= 60, "{trickled:?}");
    assert!(most < 12, "{most}");
    for number in 1..=1200 {
        let key = format!("fill-{number:05}");
        engine.write(delete(&key, 200_000 + number)).unwrap();
        world.executor.run_for(Duration::from_millis(5));
    }
    world.executor.run_for(Duration::from_secs(60));
    assert!(!engine.statistics().disk_full, "{:?}", engine.statistics());
}

/// A scan still sees the entries at its beginning, also on a full disk.
#[test]
fn deletes_make_room_once_no_scan_sees_what_they_hide() {
    deletes_make_room(&with_small_reserve());
    deletes_make_room(&with_small_reserve().with_blobs(true));
}

fn deletes_make_room(world: &World) {
    let engine = world.open();
    world.memory.set_capacity(400 << 10);
    let taken = fill(&engine, 1);
    let mut scan = engine.scan(b"", None);
    let mut seen = scan.next_batch(1).unwrap().len() as u64;
    for number in 1..=taken {
        let key = format!("fill-{number:05}");
        engine.write(delete(&key, 100_000 + number)).unwrap();
        world.executor.run_for(Duration::from_millis(50));
    }
    world.executor.run_for(Duration::from_secs(60));
    assert!(engine.statistics().disk_full);
    loop {
        let batch = scan.next_batch(1000).unwrap();
        if batch.is_empty() {
            break;
        }
        seen += batch.len() as u64;
    }
    assert_eq!(seen, taken);
    drop(scan);
    world.executor.run_for(Duration::from_secs(60));
    assert!(!engine.statistics().disk_full);
}

#[test]
fn a_start_without_room_for_the_reserve_reads_and_deletes() {
    let world = World::new();
    {
        let engine = world.open();
        engine.write(put("a", 1, "v")).unwrap();
        engine.close().unwrap();
    }
    world.memory.set_capacity(40 << 10);
    let engine = world.open();
    assert_eq!(read(&engine, "a"), Some("v".into()));
    let refused = engine.write(put("b", 2, "v"));
    assert!(matches!(refused, Err(Error::DiskFull)), "{refused:?}");
    engine.write(delete("a", 3)).unwrap();
    assert_eq!(read(&engine, "a"), None);
}

/// A full store asks for the free space once a second, tries the rest less and less often, and uses
/// none of it.
#[test]
fn a_full_store_waits_for_room_without_taking_it() {
    let mut world = uncompressed();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = world.open();
    world.memory.set_capacity(400 << 10);
    fill(&engine, 1);
    // If only the reserve had room, the first puts would use it up.
    let reserve = world.options.disk_reserve_bytes;
    world
        .memory
        .set_capacity(world.memory.used_bytes() + reserve + 4096);
    let is_of_reserve =
        |call, path: &Path| call == Call::AvailableBytes || path.ends_with("RESERVE");
    faulty.arm(Fault::at(u64::MAX, ErrorKind::Other).only(is_of_reserve));
    world.executor.run_class(JobClass::Log);
    for _ in 0..100 {
        world.clock.advance(Duration::from_secs(1));
        world.executor.run_class(JobClass::Log);
    }
    assert!(engine.statistics().disk_full);
    assert!((110..116).contains(&faulty.calls()), "{}", faulty.calls());
}
