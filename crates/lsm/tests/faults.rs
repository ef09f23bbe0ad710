//! Disks that fail: full, failing once, failing to sync, damaged, shared.

mod common;

use common::{World, delete, put, read};
use lsm::disk::{Fault, FaultyDisk};
use lsm::{Engine, Error};
use std::sync::Arc;
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
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 1, "v")).unwrap();
    world.memory.fail_syncs(true);
    assert!(engine.flush().is_err());
    world.memory.fail_syncs(false);
    assert!(matches!(
        engine.write(put("b", 2, "v")),
        Err(Error::Poisoned { .. })
    ));
    assert_eq!(read(&engine, "a"), Some("v".into()));
    drop(engine);
    assert_eq!(read(&world.open(), "a"), Some("v".into()));
}

#[test]
fn a_second_opener_is_refused() {
    let world = World::new();
    let engine = world.open();
    assert!(matches!(world.try_open(), Err(Error::Locked { .. })));
    drop(engine);
    world.open();
}

/// Whichever call fails once, what was acknowledged is there, in the running
/// store and after a restart.
#[test]
fn a_single_failed_disk_call_loses_nothing() {
    let run = |fail: Option<u64>| {
        let mut world = World::new();
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
        if let Some(call) = fail {
            faulty.arm(Fault::at(call, std::io::ErrorKind::Other));
        }
        world.disk = Arc::clone(&faulty) as _;
        let mut acknowledged = Vec::new();
        if let Ok((engine, _)) = world.try_open() {
            for number in 1..=80 {
                let key = format!("key-{:02}", number % 20);
                if engine.write(put(&key, number, &"v".repeat(250))).is_ok() {
                    acknowledged.retain(|(held, _)| *held != key);
                    acknowledged.push((key, number));
                }
                if number % 3 == 0 {
                    world.executor.run_one(|_| 0);
                }
            }
            let _ = engine.flush();
            let _ = engine.compact();
            for (key, number) in &acknowledged {
                // A read may fail with the disk, but never lie.
                if let Ok(found) = engine.get(key.as_bytes()) {
                    let found = found.expect("acknowledged").timestamp().as_u64();
                    assert!(found >= *number, "call {fail:?}: {key}");
                }
            }
        }
        world.disk = Arc::clone(&world.memory) as _;
        let engine = world.open();
        for (key, number) in acknowledged {
            let found = engine.get(key.as_bytes()).unwrap().expect("acknowledged");
            assert!(found.timestamp().as_u64() >= number, "call {fail:?}: {key}");
        }
        faulty.calls()
    };
    let calls = run(None);
    assert!(calls > 200, "{calls}");
    for call in 0..calls {
        run(Some(call));
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

#[test]
fn a_missing_file_stops_the_start() {
    let world = World::new();
    {
        let engine = world.open();
        engine.write(put("a", 1, "v")).unwrap();
        engine.flush().unwrap();
        engine.write(put("b", 2, "v")).unwrap();
    }
    let folder = World::folder();
    for name in lsm::Disk::list(&*world.memory, &folder).unwrap() {
        let is_of_store = name == "MANIFEST" || name.ends_with(".sst") || name.ends_with(".wal");
        if !is_of_store {
            continue;
        }
        let without = World::on(Arc::new(world.memory.clone_synced()));
        if lsm::Disk::open(&*without.memory, &folder.join(&name)).is_err() {
            continue;
        }
        lsm::Disk::remove(&*without.memory, &folder.join(&name)).unwrap();
        match without.try_open() {
            Err(_) => {}
            // A segment made ahead holds nothing.
            Ok((engine, _)) => {
                assert!(
                    name.ends_with(".wal"),
                    "{name} is missing and nobody noticed"
                );
                assert_eq!(read(&engine, "a"), Some("v".into()));
                assert_eq!(read(&engine, "b"), Some("v".into()), "{name}");
            }
        }
    }
}
