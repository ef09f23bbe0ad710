//! Starts that fail, die or meet a full disk, and what the next start finds.

use crate::common::{World, delete, put, read};
use lsm::{Disk, Durability, Error, JobClass};
use lsm_testing::{BlockingWrite, Fault, FaultyDisk, MemoryDisk};
use std::io::ErrorKind;
use std::sync::Arc;

const KEYS: u64 = 20;
const WRITES: u64 = 80;

/// How the run before a start ended.
#[derive(Clone, Copy, Debug)]
enum End {
    /// After a flush, with the next segment made ahead: the log has no records.
    Flushed,
    /// With records in several segments.
    Killed,
    /// The same, after a rest.
    Idle,
    /// With an orderly close.
    Closed,
    /// Killed, started and killed again: the last segment is sealed, and the next one has
    /// nothing but its header.
    Restarted,
}

const ENDS: [End; 5] = [
    End::Flushed,
    End::Killed,
    End::Idle,
    End::Closed,
    End::Restarted,
];

fn ended(end: End) -> Arc<MemoryDisk> {
    let world = World::new();
    let engine = world.open();
    for number in 1..=WRITES {
        let key = format!("key-{:02}", number % KEYS);
        engine.write(put(&key, number, &"v".repeat(250))).unwrap();
    }
    match end {
        End::Flushed => {
            engine.flush().unwrap();
            world.executor.run_class(JobClass::Log);
        }
        End::Killed => {}
        End::Idle => {
            world.executor.run_class(JobClass::Log);
            world.clock.advance(std::time::Duration::from_secs(3));
            world.executor.run_class(JobClass::Log);
        }
        End::Closed => engine.close().unwrap(),
        End::Restarted => {
            drop(engine);
            world.open();
        }
    }
    Arc::new(world.memory.clone_synced())
}

fn check(memory: MemoryDisk, context: &str) {
    check_from(memory, WRITES, context);
}

/// Checks that a store has the last of so many writes of each key.
fn check_from(memory: MemoryDisk, writes: u64, context: &str) {
    let world = World::on(Arc::new(memory));
    for opening in 0..2 {
        let (engine, _) = world
            .try_open()
            .unwrap_or_else(|error| panic!("{context}, opening {opening}: {error}"));
        for number in writes - KEYS + 1..=writes {
            let key = format!("key-{:02}", number % KEYS);
            let found = engine.get(key.as_bytes()).unwrap().unwrap();
            assert_eq!(found.timestamp().as_u64(), number, "{context}");
        }
    }
}

/// The i-th call of a start fails, for every i. The process dies with it or not, and the
/// power is cut or not. The next start finds everything.
#[test]
fn a_start_that_fails_at_any_call_leaves_a_store_that_starts() {
    for end in ENDS {
        for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
            for lasting in [false, true] {
                for call in 0.. {
                    let context = format!("{end:?}, {kind:?} at call {call}, lasting {lasting}");
                    let mut rng = fastrand::Rng::with_seed(call);
                    let mut world = World::on(Arc::new(ended(end).clone_synced()));
                    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
                    let fault = Fault::at(call, kind).with_short_writes();
                    faulty.arm(if lasting { fault.lasting() } else { fault });
                    world.disk = Arc::clone(&faulty) as _;
                    // It may open or not. Mostly it survives a full disk.
                    drop(world.try_open());
                    // The process died.
                    check(world.memory.crash_clone(&mut |_| true), &context);
                    // The power was cut.
                    check(world.memory.clone_synced(), &context);
                    for likely in 1..4 {
                        let survives = &mut |_: lsm_testing::Unsynced<'_>| rng.u8(0..4) < likely;
                        check(world.memory.crash_clone(survives), &context);
                    }
                    if faulty.failed() == 0 {
                        assert!(call > 20, "{call}");
                        break;
                    }
                }
            }
        }
    }
}

/// After a failed sync the store restarts, and then the power is cut. The restart has
/// read records that were only in the system's memory, and a mere sync would not have
/// written them.
#[test]
fn what_a_failed_sync_left_in_memory_is_written_again() {
    for is_sealed in [false, true] {
        let mut world = World::new();
        if is_sealed {
            // The seal's sync is then the first one, and it fails.
            world.options.durability = Durability::Os;
        }
        let engine = world.open();
        engine.write(put("a", 1, &"v".repeat(5_000))).unwrap();
        world.memory.fail_syncs(true);
        if is_sealed {
            assert!(engine.flush().is_err());
        } else {
            assert!(engine.write(put("b", 2, &"v".repeat(5_000))).is_err());
        }
        assert!(engine.statistics().poisoned.is_some());
        world.memory.fail_syncs(false);
        drop(engine);
        world.options.durability = Durability::Sync;
        let engine = world.open();
        engine.write(put("c", 3, "v")).unwrap();
        let held = ["a", "b", "c"].map(|key| read(&engine, key));
        assert!(held[0].is_some());
        let after = World::on(Arc::new(world.memory.clone_synced()));
        let engine = after.open();
        assert_eq!(["a", "b", "c"].map(|key| read(&engine, key)), held);
    }
}

/// Other programs took all the room that was left, while the store was down or while it
/// ran on its reserve. It opens, reads, and accepts deletes.
#[test]
fn a_restart_on_a_full_disk_lives_on_the_reserve() {
    for writes in (0..60).step_by(3) {
        for is_made_ahead in [false, true] {
            let mut world = World::new();
            world.options.compression = lsm::Compression::None;
            let engine = world.open();
            for number in 1..=writes {
                let key = format!("{number:02}");
                engine.write(put(&key, number, &"x".repeat(200))).unwrap();
                if is_made_ahead {
                    world.executor.run_class(JobClass::Log);
                }
            }
            drop(engine);
            world.memory.set_capacity(world.memory.used_bytes());
            let engine = world.open();
            assert!(engine.statistics().disk_full);
            for number in 1..=writes {
                let key = format!("{number:02}");
                assert!(read(&engine, &key).is_some());
                engine.write(delete(&key, 1_000 + number)).unwrap();
                assert_eq!(read(&engine, &key), None);
            }
            assert!(matches!(
                engine.write(put("more", 5_000, "v")),
                Err(Error::DiskFull)
            ));
        }
    }
}

/// A store that became full and was killed starts with the little room that is left.
#[test]
fn a_full_store_starts_again() {
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    let engine = world.open();
    world.memory.set_capacity(400 << 10);
    let mut number = 0;
    while !engine.statistics().disk_full {
        number += 1;
        assert!(number < 100_000, "the disk is never full");
        let _ = engine.write(put(&format!("{number:05}"), number, &"x".repeat(200)));
    }
    drop(engine);
    for left in [2_u64 << 10, 4 << 10, 16 << 10, 64 << 10] {
        let mut after = World::on(Arc::new(world.memory.clone_synced()));
        after.options = world.options.clone();
        after.memory.set_capacity(after.memory.used_bytes() + left);
        let engine = after.open();
        assert!(read(&engine, "00001").is_some(), "{left} bytes left");
        assert!(engine.statistics().disk_full);
        engine.write(delete("00001", 1 << 40)).unwrap();
        assert_eq!(read(&engine, "00001"), None);
    }
}

/// Others take each byte that the store gives back, before and while it starts. It serves what
/// it holds, takes deletes as long as its log has room, and starts again and again.
#[test]
fn a_store_starts_without_any_room() {
    for (end, exchanges) in ENDS.into_iter().flat_map(|end| [(end, true), (end, false)]) {
        let context = format!("{end:?}, exchanges {exchanges}");
        let memory = ended(end);
        if !exchanges {
            // Where names cannot be exchanged, there may be no room for the next manifest.
            let spare = World::folder().join("MANIFEST.tmp");
            memory.remove(&spare).unwrap();
        }
        // Files cannot grow by a byte, whatever is freed.
        memory.set_capacity(0);
        let mut world = World::on(Arc::clone(&memory));
        let mut deleted = 0;
        for start in 0..4 {
            let engine = world.open();
            assert!(engine.statistics().disk_full, "{context}");
            for number in 1..=KEYS {
                let found = read(&engine, &format!("key-{:02}", number % KEYS));
                assert_eq!(
                    found.is_none(),
                    number <= deleted,
                    "{context}, start {start}"
                );
            }
            assert!(matches!(
                engine.write(put("more", 1 << 40, "v")),
                Err(Error::DiskFull)
            ));
            let key = format!("key-{:02}", deleted + 1);
            match engine.write(delete(&key, 1 << 40)) {
                Ok(_) => deleted += 1,
                Err(error) => assert!(matches!(error, Error::DiskFull), "{context}: {error}"),
            }
            world.executor.run_for(std::time::Duration::from_secs(20));
            drop(engine);
            // The power was cut.
            world = World::on(Arc::new(world.memory.clone_synced()));
        }
        world.memory.set_capacity(u64::MAX);
        let engine = world.open();
        engine.write(put("more", 1 << 40, "v")).unwrap();
        for number in 1..=KEYS {
            let found = read(&engine, &format!("key-{:02}", number % KEYS));
            assert_eq!(found.is_none(), number <= deleted, "{context}");
        }
    }
}

/// A store that went on in its last segment has room again.
#[test]
fn a_store_that_went_on_in_its_last_segment_goes_on_in_a_new_one() {
    let memory = ended(End::Killed);
    memory.set_capacity(0);
    let world = World::on(Arc::clone(&memory));
    let engine = world.open();
    memory.set_capacity(u64::MAX);
    world.executor.run_for(std::time::Duration::from_secs(20));
    assert!(!engine.statistics().disk_full);
    for number in WRITES + 1..=2 * WRITES {
        let key = format!("key-{:02}", number % KEYS);
        engine.write(put(&key, number, &"v".repeat(250))).unwrap();
        world.executor.run_one(|_| 0);
    }
    drop(engine);
    check_from(world.memory.clone_synced(), 2 * WRITES, "after it has room");
}

/// The file of the log that has records.
fn log_with_records(world: &World) -> std::path::PathBuf {
    let names = world.memory.list(&World::folder()).unwrap();
    let first = names.iter().find(|name| name.ends_with(".wal")).unwrap();
    World::folder().join(first)
}

#[test]
fn a_torn_tail_is_reported_and_dropped() {
    let mut world = World::new();
    world.options.durability = Durability::Os;
    let engine = world.open();
    engine.write(put("a", 1, "v")).unwrap();
    drop(engine);
    let world = World::on(Arc::new(world.memory.crash_clone(&mut |_| true)));
    // The only byte of the value, which is the last of the log.
    let log = log_with_records(&world);
    let file = world.memory.open(&log).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    world.memory.corrupt(&log, last, 1).unwrap();
    let (engine, report) = world.try_open().unwrap();
    assert_eq!(read(&engine, "a"), None);
    assert_eq!(report.entries_replayed, 0);
    // The bytes of the group, which follow the 24 bytes of the segment's header.
    assert_eq!(report.torn_bytes, last + 1 - 24);
    drop(engine);
    assert_eq!(world.try_open().unwrap().1.torn_bytes, 0);
}

#[test]
fn a_damaged_log_is_named_with_the_offset() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 1, "v")).unwrap();
    engine.write(put("b", 2, "v")).unwrap();
    engine.write(put("c", 3, "v")).unwrap();
    drop(engine);
    let log = log_with_records(&world);
    // This byte is in the first group, and the third group says that it was synced.
    world.memory.corrupt(&log, 60, 1).unwrap();
    match world.try_open() {
        Err(Error::Corrupt { file, offset, .. }) => {
            assert_eq!((&*file, offset), (&*log, 24));
        }
        other => panic!("{:?}", other.map(|(_, report)| report)),
    }
}

#[test]
fn a_missing_table_is_corruption() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 1, "v")).unwrap();
    engine.flush().unwrap();
    drop(engine);
    let names = world.memory.list(&World::folder()).unwrap();
    let table = names.iter().find(|name| name.ends_with(".sst")).unwrap();
    let table = World::folder().join(table);
    world.memory.remove(&table).unwrap();
    match world.try_open() {
        Err(Error::Corrupt { file, .. }) => assert_eq!(&*file, table),
        other => panic!("{:?}", other.map(|(_, report)| report)),
    }
}
