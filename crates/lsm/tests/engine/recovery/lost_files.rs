//! A store does not open if a file is missing, truncated or damaged, also the newest log.

use crate::common::{World, put, read};
use lsm::{Engine, Error};
use lsm_testing::{BlockingWrite, Call, Fault, FaultyDisk};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Stores in every state of their log, each with the files that it needs.
fn stores_by_state() -> Vec<(&'static str, World)> {
    let value = "v".repeat(250);
    type Write = fn(&Engine, &str);
    let states: [(&str, Write); 6] = [
        ("made", |_, _| {}),
        ("with its first write", |engine, value| {
            engine.write(put("a", 1, value)).unwrap();
        }),
        ("with several segments", |engine, value| {
            for number in 1..=60 {
                engine.write(put("a", number, value)).unwrap();
            }
            assert!(engine.statistics().memtables_frozen > 0);
        }),
        ("flushed", |engine, value| {
            engine.write(put("a", 1, value)).unwrap();
            engine.flush().unwrap();
        }),
        ("flushed and written to", |engine, value| {
            engine.write(put("a", 1, value)).unwrap();
            engine.flush().unwrap();
            engine.write(put("b", 2, value)).unwrap();
        }),
        ("closed", |engine, value| {
            engine.write(put("a", 1, value)).unwrap();
            engine.close().unwrap();
        }),
    ];
    let states = states.into_iter().map(|(name, write)| {
        let world = World::new();
        let engine = world.open();
        write(&engine, &value);
        // The process was killed.
        (
            name,
            World::on(Arc::new(world.memory.crash_clone(&mut |_| true))),
        )
    });
    states.collect()
}

/// No segment was made ahead, so every file of these stores is needed.
#[test]
fn a_missing_file_stops_the_start() {
    let folder = World::folder();
    for (state, world) in stores_by_state() {
        let names = lsm::Disk::list(&*world.memory, &folder).unwrap();
        let is_of_store = |name: &&String| {
            *name == "MANIFEST" || name.ends_with(".sst") || name.ends_with(".wal")
        };
        let mut removed = 0;
        for name in names.iter().filter(is_of_store) {
            let without = World::on(Arc::new(world.memory.crash_clone(&mut |_| true)));
            lsm::Disk::remove(&*without.memory, &folder.join(name)).unwrap();
            match without.try_open() {
                Err(Error::Corrupt { .. }) => removed += 1,
                Err(error) => panic!("{state}, {name}: {error}"),
                Ok(_) => panic!("{state}: {name} is missing and nobody noticed"),
            }
        }
        assert!(removed >= 2, "{state}: {names:?}");
        world.open();
    }
}

/// A repair of a file system leaves empty files, and a segment without its header looks like one
/// that was just being made. But the header is durable before the log reaches the segment.
#[test]
fn a_log_segment_without_its_header_stops_the_start() {
    let folder = World::folder();
    type Damage = fn(&dyn lsm::Disk, &Path);
    let damages: [Damage; 2] = [
        |disk, log| disk.open(log).unwrap().set_len(0).unwrap(),
        |disk, log| disk.open(log).unwrap().write_all_at(&[0; 4096], 0).unwrap(),
    ];
    for (state, world) in stores_by_state() {
        let names = lsm::Disk::list(&*world.memory, &folder).unwrap();
        let logs: Vec<_> = names.iter().filter(|it| it.ends_with(".wal")).collect();
        assert!(!logs.is_empty());
        for name in logs {
            for damage in damages {
                let damaged = World::on(Arc::new(world.memory.crash_clone(&mut |_| true)));
                damage(&*damaged.memory, &folder.join(name));
                match damaged.try_open() {
                    Err(Error::Corrupt { file, .. }) => assert_eq!(*file, folder.join(name)),
                    Err(error) => panic!("{state}, {name}: {error}"),
                    Ok(_) => panic!("{state}: {name} is empty and nobody noticed"),
                }
            }
        }
    }
}

/// The segment that was made ahead needs no header before the log reaches it.
#[test]
fn a_segment_made_ahead_may_be_empty() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 1, "v")).unwrap();
    world.executor.run_class(lsm::JobClass::Log);
    let ahead = World::folder().join("log-0000000000000002.wal");
    let memory = Arc::new(world.memory.crash_clone(&mut |_| true));
    let file = lsm::Disk::open(&*memory, &ahead).unwrap();
    file.set_len(0).unwrap();
    assert_eq!(read(&World::on(memory).open(), "a").as_deref(), Some("v"));
}

/// No later group covers the last acknowledged writes.
#[test]
fn a_log_that_ends_too_early_stops_the_start_of_a_store_that_was_idle() {
    let segment = World::folder().join("log-0000000000000001.wal");
    // The claim comes after an idle moment, or from a close whose flush fails.
    for is_closed in [false, true] {
        let mut world = World::new();
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
        world.disk = Arc::clone(&faulty) as _;
        let engine = world.open();
        for number in 1..=3 {
            engine.write(put("a", number, "v")).unwrap();
        }
        if is_closed {
            let is_table = |call, path: &Path| {
                call == Call::Create && path.extension().is_some_and(|name| name == "sst")
            };
            faulty.arm(Fault::at(0, ErrorKind::Other).only(is_table).lasting());
            assert!(matches!(engine.close(), Err(Error::Io { .. })));
            faulty.heal();
        } else {
            world.executor.run_for(Duration::from_secs(3));
        }
        drop(engine);
        let file = lsm::Disk::open(&*world.memory, &segment).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let last = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64;
        type Damage<'a> = &'a dyn Fn(&dyn lsm::Disk);
        let damages: [(&str, Damage<'_>); 3] = [
            ("flipped", &|disk| {
                let file = disk.open(&segment).unwrap();
                file.write_all_at(&[bytes[last as usize] ^ 1], last)
                    .unwrap();
            }),
            ("cut off", &|disk| {
                disk.open(&segment).unwrap().set_len(last).unwrap();
            }),
            ("emptied", &|disk| {
                disk.open(&segment).unwrap().set_len(0).unwrap();
            }),
        ];
        for (what, damage) in damages {
            let damaged = World::on(Arc::new(world.memory.clone_synced()));
            damage(&*damaged.memory);
            match damaged.try_open() {
                Err(Error::Corrupt { file, .. }) => assert_eq!(&*file, segment),
                Err(error) => panic!("{what}: {error}"),
                Ok(_) => panic!("{what}, closed {is_closed}: nobody noticed"),
            }
        }
        assert_eq!(read(&world.open(), "a").as_deref(), Some("v"));
    }
}

/// The store records one claim each time its writers pause.
#[test]
fn a_busy_store_is_not_slowed_by_claims() {
    let mut world = World::new();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = world.open();
    let manifests = |call, path: &Path| call == Call::Sync && path.ends_with("MANIFEST");
    world.executor.run_for(Duration::from_secs(10));
    faulty.arm(Fault::at(u64::MAX, ErrorKind::Other).only(manifests));
    for number in 1..=30 {
        engine.write(put("a", number, "v")).unwrap();
        world.executor.run_for(Duration::from_millis(500));
    }
    assert_eq!(faulty.calls(), 0);
    world.executor.run_for(Duration::from_secs(100));
    assert_eq!(faulty.calls(), 1);
}
