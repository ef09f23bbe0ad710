//! Disks that fail: full, failing once, failing to sync, damaged, shared.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on panics"
)]

mod common;

use common::{World, delete, put, read};
use lsm::disk::{Call, Fault, FaultyDisk};
use lsm::testing::BlockingWrite;
use lsm::{Durability, Engine, Error, Lane, Outbox, Outcome};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A world in which what is written takes its room.
fn uncompressed() -> World {
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    world
}

/// Puts until the store refuses one; returns how many were taken.
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
    // What was acknowledged survives the power cut on a full disk, too.
    let after = World::on(Arc::new(world.memory.clone_synced()));
    let engine = after.open();
    assert_eq!(read(&engine, "fill-00001"), None);
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

/// A world with a reserve that is small beside the store.
fn with_small_reserve() -> World {
    let mut world = uncompressed();
    world.options.disk_reserve_bytes = 32 << 10;
    world
}

/// The tombstones of all these fit a memtable, and what they hide does not fit
/// the reserve.
#[test]
fn deletes_alone_bring_a_full_store_back() {
    let world = with_small_reserve();
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
    // What was deleted stays so, and what was not is there, after a power cut too.
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

/// A full store of 1200 entries, all in the last level, which a compaction of
/// level 0 has to read whole.
fn full_and_compacted() -> (World, Engine) {
    let world = with_small_reserve();
    let engine = world.open();
    for number in 1..=1200 {
        let entry = put(&format!("fill-{number:05}"), number, &"x".repeat(200));
        engine.write(entry).unwrap();
        world.executor.run_for(Duration::from_millis(50));
    }
    engine.compact().unwrap();
    world.memory.set_capacity(world.memory.used_bytes());
    fill(&engine, 2000);
    (world, engine)
}

/// To write a table again for each delete would wear the disk out.
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

/// Each flush of them is a table, for whose compaction there is no room.
#[test]
fn deletes_that_trickle_in_leave_few_tables_and_hold_up_no_others() {
    let (world, engine) = full_and_compacted();
    let mut most = 0;
    for number in 0..60 {
        // One in each table, so that none is worth it.
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

/// A scan goes on to see what was there when it began, on a full disk too.
#[test]
fn deletes_make_room_once_no_scan_sees_what_they_hide() {
    let world = with_small_reserve();
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

#[test]
fn a_failed_sync_poisons_the_store() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 1, "before")).unwrap();
    world.memory.fail_syncs(true);
    let failed = engine.write(put("a", 2, "after"));
    assert!(matches!(failed, Err(Error::Poisoned { .. })), "{failed:?}");
    world.memory.fail_syncs(false);
    // Not even now: the kernel may have dropped what it could not write.
    let refused = engine.write(put("b", 3, "v"));
    assert!(
        matches!(refused, Err(Error::Poisoned { .. })),
        "{refused:?}"
    );
    assert_eq!(read(&engine, "a"), Some("before".into()), "reads go on");
    let cause = engine.statistics().poisoned.expect("it says so");
    assert!(cause.contains("sync"), "{cause}");
    drop(engine);
    let engine = world.open();
    engine.write(put("b", 4, "restarted")).unwrap();
}

#[test]
fn a_failed_sync_of_a_table_or_manifest_poisons_too() {
    type Fails = fn(Call, &Path) -> bool;
    let of_table = |call, path: &Path| {
        call == Call::Sync && path.extension().is_some_and(|name| name == "sst")
    };
    let of_manifest = |call, path: &Path| call == Call::Sync && path.ends_with("MANIFEST.tmp");
    let of_folder = |call, _: &Path| call == Call::SyncFolder;
    // The calls that such a failure may hit, of which one does, and what the
    // store then names. The folder is synced once for a table and once for the
    // manifest.
    let (flush, compact) = (false, true);
    let cases: [(bool, Fails, u64, &str); 6] = [
        (flush, of_table, 0, ".sst"),
        (flush, of_folder, 0, "/data/store:"),
        (flush, of_manifest, 0, "MANIFEST.tmp"),
        (flush, of_folder, 1, "/data/store:"),
        (compact, of_table, 0, ".sst"),
        (compact, of_manifest, 0, "MANIFEST.tmp"),
    ];
    for (compacts, fails, at, named) in cases {
        let mut world = World::new();
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
        world.disk = Arc::clone(&faulty) as _;
        let engine = world.open();
        for number in 1..=2 {
            engine.write(put("a", number, "v")).unwrap();
            engine.flush().unwrap();
        }
        if !compacts {
            engine.write(put("a", 3, "v")).unwrap();
        }
        // The next segment is made ahead, so that its syncs are not hit.
        world.executor.run_lane(Lane::Log);
        faulty.arm(Fault::at(at, ErrorKind::Other).only(fails));
        let failed = match compacts {
            true => engine.compact(),
            false => engine.flush(),
        };
        assert!(matches!(failed, Err(Error::Poisoned { .. })), "{failed:?}");
        assert_eq!(faulty.failed(), 1);
        faulty.heal();
        assert!(matches!(
            engine.write(put("b", 9, "v")),
            Err(Error::Poisoned { .. })
        ));
        let cause = engine.statistics().poisoned.expect("it says so");
        assert!(cause.contains(named), "{cause}");
        assert_eq!(read(&engine, "a"), Some("v".into()));
        drop(engine);
        assert_eq!(read(&world.open(), "a"), Some("v".into()));
    }
}

#[test]
fn a_second_opener_is_refused() {
    let world = World::new();
    let engine = world.open();
    assert!(matches!(world.try_open(), Err(Error::Locked { .. })));
    drop(engine);
    world.open();
}

#[test]
fn a_failed_sync_by_interval_poisons() {
    let mut world = World::new();
    world.options.durability = Durability::Interval(Duration::from_millis(10));
    let engine = world.open();
    engine.write(put("a", 1, "v")).unwrap();
    world.memory.fail_syncs(true);
    engine.write(put("a", 2, "before the sync")).unwrap();
    world.executor.run_for(Duration::from_millis(10));
    world.memory.fail_syncs(false);
    assert!(engine.statistics().poisoned.is_some());
    let refused = engine.write(put("b", 3, "v"));
    assert!(matches!(refused, Err(Error::Poisoned { .. })));
    assert_eq!(read(&engine, "a"), Some("before the sync".into()));
}

/// A full store asks what room there is, less and less often, and takes none
/// of the little that is left.
#[test]
fn a_full_store_waits_for_room_without_taking_it() {
    let mut world = uncompressed();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = world.open();
    world.memory.set_capacity(400 << 10);
    fill(&engine, 1);
    // Room for the reserve alone would be used up by the first puts.
    let reserve = world.options.disk_reserve_bytes;
    world
        .memory
        .set_capacity(world.memory.used_bytes() + reserve + 4096);
    let is_of_reserve =
        |call, path: &Path| call == Call::AvailableBytes || path.ends_with("RESERVE");
    faulty.arm(Fault::at(u64::MAX, ErrorKind::Other).only(is_of_reserve));
    world.executor.run_lane(Lane::Log);
    for _ in 0..100 {
        world.clock.advance(Duration::from_secs(1));
        world.executor.run_lane(Lane::Log);
    }
    assert!(engine.statistics().disk_full);
    assert!((10..16).contains(&faulty.calls()), "{}", faulty.calls());
}

#[derive(Default)]
struct Collected {
    outcomes: Mutex<Vec<Outcome>>,
}

impl Outbox for Collected {
    fn deliver(&self, outcomes: Vec<Outcome>) {
        self.outcomes.lock().unwrap().extend(outcomes);
    }
}

/// How a run of writes goes about it.
#[derive(Clone, Copy, Debug)]
struct Run {
    durability: Durability,
    /// By an outbox and jobs, not by calls that block.
    submits: bool,
    /// The call that fails, and how.
    fault: Option<(u64, ErrorKind)>,
}

impl Run {
    /// Writes, lets work go on in between, and checks what was acknowledged;
    /// returns how many calls the disk got.
    fn run(self) -> u64 {
        let mut world = World::new();
        world.options.durability = self.durability;
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
        if let Some((call, kind)) = self.fault {
            faulty.arm(Fault::at(call, kind).with_short_writes());
        }
        world.disk = Arc::clone(&faulty) as _;
        let key_of = |number: u64| format!("key-{:02}", number % 20);
        let mut acknowledged = BTreeMap::new();
        if let Ok((engine, _)) = world.try_open() {
            let collected = Arc::new(Collected::default());
            let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
            let mut submitted = 0;
            for number in 1..=80 {
                let entry = put(&key_of(number), number, &"v".repeat(250));
                if self.submits {
                    submitted += usize::from(engine.submit(entry, &outbox, number).is_ok());
                    world.executor.run_for(Duration::from_millis(1));
                } else if engine.write(entry).is_ok() {
                    acknowledged.insert(key_of(number), number);
                }
                if number % 3 == 0 {
                    world.executor.run_one(|_| 0);
                }
            }
            world.executor.run_for(Duration::from_secs(5));
            let outcomes = std::mem::take(&mut *collected.outcomes.lock().unwrap());
            assert_eq!(outcomes.len(), submitted, "{self:?}: each is told its end");
            let stored = outcomes.iter().filter(|outcome| outcome.result.is_ok());
            acknowledged.extend(stored.map(|outcome| (key_of(outcome.ticket), outcome.ticket)));
            let _ = engine.flush();
            let _ = engine.compact();
            for (key, number) in &acknowledged {
                // A read may fail with the disk, but never lie.
                if let Ok(found) = engine.get(key.as_bytes()) {
                    let found = found.expect("acknowledged").timestamp().as_u64();
                    assert!(found >= *number, "{self:?}: {key}");
                }
            }
        }
        world.disk = Arc::clone(&world.memory) as _;
        let engine = world.open();
        for (key, number) in acknowledged {
            let found = engine.get(key.as_bytes()).unwrap().expect("acknowledged");
            assert!(found.timestamp().as_u64() >= number, "{self:?}: {key}");
        }
        faulty.calls()
    }
}

/// Whichever call fails once, and however, what was acknowledged is there, in
/// the running store and after a restart.
#[test]
fn a_single_failed_disk_call_loses_nothing() {
    let interval = Durability::Interval(Duration::from_millis(3));
    for (durability, submits) in [(Durability::Sync, false), (interval, true)] {
        let mut run = Run {
            durability,
            submits,
            fault: None,
        };
        let calls = run.run();
        assert!(calls > 200, "{calls}");
        for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
            for call in 0..calls {
                run.fault = Some((call, kind));
                run.run();
            }
        }
    }
}

#[test]
fn damage_is_an_error_that_names_file_and_offset_and_never_an_answer() {
    let world = World::new();
    {
        let engine = world.open();
        for number in 1..=200 {
            let key = format!("key-{number:03}");
            engine.write(put(&key, number, &key)).unwrap();
        }
        engine.compact().unwrap();
        engine.close().unwrap();
    }
    let folder = World::folder();
    let names = lsm::Disk::list(&*world.memory, &folder).unwrap();
    let table = names.iter().find(|name| name.ends_with(".sst")).unwrap();
    let length = lsm::Disk::open(&*world.memory, &folder.join(table))
        .unwrap()
        .len()
        .unwrap();
    for offset in (0..length).step_by(7) {
        let damaged = World::on(Arc::new(world.memory.clone_synced()));
        damaged
            .memory
            .corrupt(&folder.join(table), offset, 0x20)
            .unwrap();
        let error = match damaged.try_open() {
            Err(error) => Some(error),
            Ok((engine, _)) => (1..=200).find_map(|number| {
                let key = format!("key-{number:03}");
                match engine.get(key.as_bytes()) {
                    Ok(found) => {
                        assert_eq!(found.expect("present").value_bytes(), key.as_bytes());
                        None
                    }
                    Err(error) => Some(error),
                }
            }),
        };
        match error {
            Some(Error::Corrupt { file, .. }) => assert_eq!(&*file, folder.join(table)),
            other => panic!("byte {offset} of {length} damaged: {other:?}"),
        }
    }
}

/// A process that has no file handle left for the next segment refuses writes
/// only as long.
#[test]
fn a_segment_that_cannot_be_made_is_no_reason_to_poison() {
    let mut world = World::new();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = world.open();
    let is_segment = |path: &Path| path.extension().is_some_and(|extension| extension == "wal");
    faulty.arm(
        Fault::at(0, ErrorKind::Other)
            .only(move |call, path| call == Call::Create && is_segment(path))
            .lasting(),
    );
    let value = "v".repeat(1000);
    let write = |timestamp: u64| engine.write(put(&timestamp.to_string(), timestamp, &value));
    let refused = (1..100)
        .find(|timestamp| write(*timestamp).is_err())
        .unwrap();
    assert!(matches!(write(refused), Err(Error::Io { .. })));
    assert_eq!(engine.statistics().poisoned, None);
    faulty.heal();
    for timestamp in refused..refused + 100 {
        write(timestamp).unwrap();
    }
    drop(engine);
    let engine = world.open();
    for timestamp in 1..refused + 100 {
        assert_eq!(read(&engine, &timestamp.to_string()).as_ref(), Some(&value));
    }
}
