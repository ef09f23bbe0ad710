//! Compactions that cannot work, that are paced, and that only time makes due.

use crate::common::{World, delete, put, read};
use base::{Entry, Expiry, Timestamp};
use lsm::{Disk, Engine, Error, JobClass};
use lsm_testing::{BlockingWrite, Call, Fault, FaultyDisk};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const KEYS: u64 = 3_000;

fn entry(number: u64) -> Entry {
    let key = format!("{:05}", number * 7919 % KEYS);
    put(&key, number, &"x".repeat(200))
}

/// Writes every key once, and runs the background work to its end.
fn fill(world: &World) -> Engine {
    fill_keys(world, KEYS)
}

/// The same with some of the keys.
fn fill_keys(world: &World, keys: u64) -> Engine {
    let engine = world.open();
    for number in 1..=keys {
        engine.write(entry(number)).unwrap();
        if number % 20 == 0 {
            world.executor.run_for(Duration::from_millis(50));
        }
    }
    world.executor.run_for(Duration::from_secs(5));
    engine
}

/// A sixth of the disk is free. The reserve, the memtables and the tables are small
/// compared with the store. At times the largest compactions do not fit.
#[test]
fn steady_overwrites_go_on_where_a_sixth_of_the_disk_is_free() {
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    world.options.disk_reserve_bytes = 32 << 10;
    world.options.memtable_bytes = 2 << 10;
    world.options.table_bytes = 4 << 10;
    let engine = fill(&world);
    let used = world.memory.used_bytes();
    world.memory.set_capacity(used / 5 * 6);
    let mut refused = 0;
    for number in KEYS + 1..=4 * KEYS {
        refused += u64::from(engine.write(entry(number)).is_err());
        world.executor.run_for(Duration::from_millis(20));
    }
    let statistics = engine.statistics();
    assert_eq!(refused, 0, "{statistics:?}");
    assert!(statistics.compactions > 10, "{statistics:?}");
}

/// Hardly any room is free, so compaction cannot work. It does not make the store full,
/// and it does not wear the disk out with attempts.
#[test]
fn a_compaction_without_room_gives_up_before_the_store_is_full() {
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    // So few that level 0 is merged with all of them.
    let engine = fill_keys(&world, 500);
    let before = engine.statistics();
    // Notes at each call how much room there is.
    let least_available = Arc::new(AtomicU64::new(u64::MAX));
    let (memory, least) = (Arc::clone(&world.memory), Arc::clone(&least_available));
    faulty.arm(
        Fault::at(u64::MAX, ErrorKind::Other).only(move |_, folder| {
            least.fetch_min(memory.available_bytes(folder).unwrap(), Relaxed);
            false
        }),
    );
    // The room of the memtables, and a little more.
    world
        .memory
        .set_capacity(world.memory.used_bytes() + (80 << 10));
    for number in KEYS + 1..=KEYS + 150 {
        engine.write(entry(number)).unwrap();
        world.executor.run_for(Duration::from_secs(1));
        assert!(!engine.statistics().disk_full);
    }
    assert!(engine.statistics().levels[0].tables >= 4, "due");
    let stuck = engine.statistics();
    world.executor.run_for(Duration::from_secs(600));
    assert!(!engine.statistics().disk_full);
    assert_eq!(engine.statistics().compactions, stuck.compactions);
    // Half of the room that was left for the memtables.
    let least = least_available.load(Relaxed);
    assert!(least >= 16 << 10, "{least}");
    // Once there is room, the next attempt succeeds.
    world.memory.set_capacity(u64::MAX);
    world.executor.run_for(Duration::from_secs(61));
    let after = engine.statistics();
    assert!(after.compactions > before.compactions);
    assert!(after.levels[0].tables < 4, "{after:?}");
}

/// The deleted values compress to almost nothing, so a table that should shrink by nine
/// tenths does not. The rewrite is tried once, and not completed.
#[test]
fn a_rewrite_that_exceeds_its_estimate_leaves_room_for_deletes() {
    let mut world = World::new();
    world.options.table_bytes = 1 << 20;
    world.options.compaction = false;
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = world.open();
    let mut rng = fastrand::Rng::with_seed(1);
    for number in 1..=150 {
        let noise: String = std::iter::repeat_with(|| rng.alphanumeric())
            .take(1000)
            .collect();
        engine
            .write(put(&format!("hard-{number}"), number, &noise))
            .unwrap();
        let soft = "x".repeat(10_000);
        engine
            .write(put(&format!("soft-{number}"), number, &soft))
            .unwrap();
    }
    engine.compact().unwrap();
    drop(engine);
    world.options.compaction = true;
    let engine = world.open();
    world.memory.set_capacity(world.memory.used_bytes());
    for number in 1..=150 {
        engine
            .write(delete(&format!("soft-{number}"), 1000 + number))
            .unwrap();
        let full = engine.write(put("long", 1, &"x".repeat(20_000)));
        assert_eq!(full.unwrap_err().to_string(), Error::DiskFull.to_string());
    }
    let before = engine.statistics();
    let least_available = Arc::new(AtomicU64::new(u64::MAX));
    let (memory, least) = (Arc::clone(&world.memory), Arc::clone(&least_available));
    let tables = Arc::new(AtomicU64::new(0));
    let created = Arc::clone(&tables);
    faulty.arm(
        Fault::at(u64::MAX, ErrorKind::Other).only(move |call, path| {
            least.fetch_min(memory.available_bytes(path).unwrap(), Relaxed);
            let is_table = path.extension().is_some_and(|kind| kind == "sst");
            created.fetch_add(u64::from(call == Call::Create && is_table), Relaxed);
            false
        }),
    );
    world.executor.run_for(Duration::from_secs(600));
    let after = engine.statistics();
    assert_eq!(after.levels[6], before.levels[6]);
    // The tables of level 0 were merged on level 0.
    let of_level_zero = after.flushes - before.flushes + after.compactions;
    assert_eq!(tables.load(Relaxed) - of_level_zero, 1, "one try");
    let least = least_available.load(Relaxed);
    assert!(least >= 32 << 10, "{least}");
}

fn is_read_of_a_table(call: Call, path: &Path) -> bool {
    call == Call::Read && path.extension().is_some_and(|kind| kind == "sst")
}

/// The inputs cannot be read. Compaction goes on without them, and its attempts become
/// rare. Once the inputs can be read, they are merged.
#[test]
fn a_compaction_that_fails_again_and_again_stalls_no_writer() {
    let mut world = World::new();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = fill(&world);
    // The tables that flushes write and open can be read.
    let names = world.memory.list(&World::folder()).unwrap();
    let inputs: Vec<_> = names
        .into_iter()
        .filter(|name| name.ends_with(".sst"))
        .map(|name| World::folder().join(name))
        .collect();
    let arm = || {
        let inputs = inputs.clone();
        let is_input = move |call, path: &Path| {
            is_read_of_a_table(call, path) && inputs.iter().any(|input| input == path)
        };
        faulty.arm(Fault::at(0, ErrorKind::Other).lasting().only(is_input));
    };
    arm();
    let mut number = KEYS;
    let mut most = 0;
    while most < 60 && number < KEYS + 6_000 {
        number += 1;
        engine.write(entry(number)).unwrap();
        world.executor.run_for(Duration::from_millis(20));
        most = most.max(engine.statistics().levels[0].tables);
    }
    assert_eq!(engine.statistics().stalls, 0);
    assert!(engine.statistics().tables_damaged > 0, "{most}");
    // The attempts are up to an hour apart, so some hours without flushes see few.
    world.executor.run_for(Duration::from_secs(3600));
    arm();
    world.executor.run_for(Duration::from_secs(6 * 3600));
    assert!((5..100).contains(&faulty.failed()), "{}", faulty.failed());
    faulty.heal();
    world.executor.run_for(Duration::from_secs(4000));
    let statistics = engine.statistics();
    assert_eq!(statistics.tables_damaged, 0);
    assert!(statistics.levels[0].tables < 4, "{statistics:?}");
    assert_eq!(read(&engine, "00001").map(|value| value.len()), Some(200));
}

#[test]
fn compaction_is_held_to_its_rate() {
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    world.options.compaction_bytes_per_second = 1 << 20;
    world.options.memtable_bytes = 1200 << 10;
    world.options.table_bytes = 8 << 20;
    world.options.compaction = false;
    let engine = world.open();
    for number in 1..=18_000 {
        let key = format!("{:05}", number * 7_919 % 18_001);
        engine.write(put(&key, number, &"x".repeat(200))).unwrap();
        world.executor.run_class(JobClass::Flush);
    }
    engine.flush().unwrap();
    drop(engine);
    world.options.compaction = true;
    let engine = world.open();
    let tables = engine.statistics().levels[0].tables;
    assert!(
        (4..8).contains(&tables),
        "due, but not in a hurry: {tables}"
    );
    // 18,000 entries of 205 bytes are three and a half times what compaction may write in a
    // second. After the last step it does not wait.
    world.executor.run_for(Duration::from_millis(2_500));
    assert_eq!(engine.statistics().compactions, 0);
    world.executor.run_for(Duration::from_secs(1));
    assert_eq!(engine.statistics().compactions, 1);
}

/// Its environment gives compaction a pace. The nearer writers are to waiting for it, the
/// less it rests, and in a hurry it does not rest at all.
#[test]
fn compaction_rests_as_it_is_told_unless_it_is_urgent() {
    for (tables, compactions) in [(4, 0), (8, 1)] {
        let mut world = World::new();
        world.options.compression = lsm::Compression::None;
        world.options.memtable_bytes = 512 << 10;
        world.rest_ms.store(250, Relaxed);
        let engine = world.open();
        let mut number = 0;
        while engine.statistics().levels[0].tables < tables {
            number += 1;
            assert!(number < 100_000, "level 0 never has {tables} tables");
            let key = format!("{:05}", number * 7_919 % 100_000);
            engine.write(put(&key, number, &"x".repeat(200))).unwrap();
            world.executor.run_class(JobClass::Flush);
        }
        // Two megabytes or more, 128 KiB a step, 64 MiB a second.
        world.executor.run_for(Duration::from_millis(500));
        assert_eq!(engine.statistics().compactions, compactions, "{tables}");
        // A rest is no stop.
        world.executor.run_for(Duration::from_secs(20));
        assert_eq!(engine.statistics().compactions, 1, "{tables}");
    }
}

/// The rate no longer holds once compaction is behind, even if a step was put off for a
/// long time before.
#[test]
fn a_pause_ends_when_compaction_falls_behind() {
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    world.options.compaction_bytes_per_second = 1;
    world.options.memtable_bytes = 512 << 10;
    let engine = world.open();
    let mut number = 0;
    let mut flush_until = |tables| {
        while engine.statistics().levels[0].tables < tables {
            number += 1;
            assert!(number < 100_000, "level 0 never has {tables} tables");
            let key = format!("{:05}", number * 7_919 % 100_000);
            engine.write(put(&key, number, &"x".repeat(200))).unwrap();
            world.executor.run_class(JobClass::Flush);
        }
    };
    flush_until(4);
    world.executor.run_for(Duration::from_secs(10));
    flush_until(7);
    world.executor.run_for(Duration::from_secs(10));
    assert_eq!(engine.statistics().compactions, 0, "a byte a second");
    flush_until(8);
    world.executor.run_for(Duration::from_millis(100));
    assert_eq!(engine.statistics().compactions, 1);
}

/// A step reads a bounded number of bytes, however many of them are dropped.
#[test]
fn a_step_is_short_even_where_nothing_is_kept() {
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    world.options.memtable_bytes = 4 << 20;
    world.options.compaction = false;
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = world.open();
    for round in 0..4 {
        for key in 0..8_000_u64 {
            let key = format!("{key:05}");
            let entry = match round {
                3 => delete(&key, 4),
                _ => put(&key, 1 + round, &"x".repeat(100)),
            };
            engine.write(entry).unwrap();
        }
        engine.flush().unwrap();
    }
    drop(engine);
    world.bound.store(u64::MAX, Relaxed);
    world.options.compaction = true;
    let engine = world.open();
    faulty.arm(Fault::at(u64::MAX, ErrorKind::Other).only(is_read_of_a_table));
    let mut most = 0;
    while engine.statistics().compactions == 0 {
        let before = faulty.calls();
        assert!(
            world.executor.run_one(|_| 0),
            "the next step is due at once"
        );
        most = most.max(faulty.calls() - before);
        assert!(faulty.calls() < 100_000, "the compaction never ends");
    }
    let all = faulty.calls();
    assert_eq!(engine.statistics().table_entries, 0);
    // The compaction reads 3 MB and keeps nothing.
    assert!(most < all / 2, "{most} of {all} reads in one step");
}

#[test]
fn values_that_expire_in_a_quiet_store_are_freed() {
    let world = World::new();
    world.bound.store(u64::MAX, Relaxed);
    let engine = world.open();
    for number in 1..=500 {
        let key = format!("{number:03}");
        let expiry = Expiry::at_unix_ms(1_100_000);
        let timestamp = Timestamp::from_u64(number);
        let entry = Entry::value(key.as_bytes(), timestamp, &[7; 200], expiry, 1);
        engine.write(entry).unwrap();
    }
    engine.compact().unwrap();
    world.executor.run_for(Duration::from_secs(30));
    assert_eq!(engine.statistics().table_entries, 500);
    world.executor.run_for(Duration::from_secs(200));
    assert_eq!(engine.statistics().table_entries, 0);
}

#[test]
fn tombstones_in_a_quiet_store_are_dropped_once_the_bound_passes_them() {
    let world = World::new();
    let engine = world.open();
    for number in 1..=500 {
        engine
            .write(delete(&format!("{number:03}"), number))
            .unwrap();
    }
    engine.compact().unwrap();
    world.executor.run_for(Duration::from_secs(200));
    assert_eq!(engine.statistics().table_tombstones, 500);
    let scan = engine.scan(b"", None);
    world.bound.store(1_000, Relaxed);
    world.executor.run_for(Duration::from_secs(200));
    assert_eq!(
        engine.statistics().table_tombstones,
        500,
        "a scan sees them"
    );
    drop(scan);
    world.executor.run_for(Duration::from_secs(61));
    assert_eq!(engine.statistics().table_tombstones, 0);
}
