//! A table that does not open keeps the store from serving nothing but its own keys.

use crate::common::{World, delete, put, read, scan_all, table_files, tables};
use base::{Entry, KEY_BYTES_MAX, Kind, Timestamp};
use lsm::{Disk, Engine, Error};
use lsm_testing::{BlockingWrite, Call, Fault, FaultyDisk};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const KEYS: u64 = 400;

fn key(number: u64) -> String {
    format!("key-{number:03}")
}

/// A closed store whose tables are all on the last level, and the files of the tables by
/// their keys.
fn compacted() -> (World, Vec<PathBuf>) {
    compacted_with((0..KEYS).map(|number| put(&key(number), 1 + number, &"v".repeat(200))))
}

/// As [`compacted`], with these entries.
fn compacted_with(entries: impl Iterator<Item = Entry>) -> (World, Vec<PathBuf>) {
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    let engine = world.open();
    for entry in entries {
        engine.write(entry).unwrap();
    }
    engine.compact().unwrap();
    engine.close().unwrap();
    let names = world.memory.list(&World::folder()).unwrap();
    let names = names.iter().filter(|name| name.ends_with(".sst"));
    let files: Vec<_> = names.map(|name| World::folder().join(name)).collect();
    assert!(files.len() >= 4, "{files:?}");
    (world, files)
}

fn length(world: &World, file: &Path) -> u64 {
    Disk::open(&*world.memory, file).unwrap().len().unwrap()
}

/// Damages the footer of a table.
fn damage(world: &World, file: &Path) {
    let last = length(world, file) - 1;
    world.memory.corrupt(file, last, 0x20).unwrap();
}

/// The numbers of the keys that may be read, those whose reads fail because of `file`, and
/// those that are marked as damaged.
#[track_caller]
fn keys(engine: &Engine, file: &Path) -> (Vec<u64>, Vec<u64>, Vec<u64>) {
    let (mut read, mut failed, mut damaged) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..KEYS {
        match engine.get(key(number).as_bytes()) {
            Ok(found) => {
                assert!(found.is_some(), "{number}");
                read.push(number);
            }
            Err(Error::Corrupt { file: named, .. }) => {
                assert_eq!(&*named, file);
                failed.push(number);
            }
            Err(error) => unreachable!("{error}"),
        }
        if engine.is_damaged(key(number).as_bytes()) {
            damaged.push(number);
        }
    }
    (read, failed, damaged)
}

/// The keys that a scan for a comparison finds.
fn repaired(engine: &Engine) -> usize {
    let mut scan = engine.scan(b"", None).for_full_comparison();
    let mut keys = 0;
    loop {
        match scan.next_batch(1 << 20).unwrap().len() {
            0 => return keys,
            batch => keys += batch,
        }
    }
}

#[test]
fn a_table_between_the_longest_keys_is_lost_for_more_than_one_start() {
    let key = |number: u64| format!("{number:03}{}", "k".repeat(KEY_BYTES_MAX - 3));
    let (world, files) = compacted_with((0..60).map(|number| put(&key(number), 1 + number, "v")));
    damage(&world, &files[1]);
    for _ in 0..3 {
        let (engine, report) = world.try_open().unwrap();
        assert_eq!(report.tables_lost, 1);
        assert!(engine.get(key(0).as_bytes()).unwrap().is_some());
        assert!((0..60).any(|number| engine.get(key(number).as_bytes()).is_err()));
        engine.close().unwrap();
    }
}

#[test]
fn a_start_serves_what_does_not_need_the_table() {
    type Damage = fn(&World, &Path);
    let damages: [(&str, Damage); 5] = [
        ("footer", damage),
        ("properties", |world, file| {
            let at = length(world, file) - 64 - 20;
            world.memory.corrupt(file, at, 1).unwrap();
        }),
        ("cut short", |world, file| {
            let opened = Disk::open(&*world.memory, file).unwrap();
            opened.set_len(100).unwrap();
            opened.sync().unwrap();
        }),
        ("cut to less than a footer", |world, file| {
            let opened = Disk::open(&*world.memory, file).unwrap();
            opened.set_len(10).unwrap();
            opened.sync().unwrap();
        }),
        ("empty", |world, file| {
            let opened = Disk::open(&*world.memory, file).unwrap();
            opened.set_len(0).unwrap();
            opened.sync().unwrap();
        }),
    ];
    for (what, damage) in damages {
        let (world, files) = compacted();
        let file = &files[1];
        damage(&world, file);
        for _ in 0..2 {
            let (engine, report) = world.try_open().unwrap();
            assert_eq!(report.tables_lost, 1, "{what}");
            let (read, failed, damaged) = keys(&engine, file);
            assert!(
                failed.len() > 20 && failed.len() < 150,
                "{what}: {failed:?}"
            );
            let last = failed.last().unwrap();
            assert_eq!(
                failed.len() as u64,
                last - failed[0] + 1,
                "they lie together"
            );
            assert_eq!(failed, damaged);
            assert_eq!(repaired(&engine), read.len());
            let scanned = engine.scan(b"", None).next_batch(1 << 20);
            assert!(matches!(scanned, Err(Error::Corrupt { .. })));
            let statistics = engine.statistics();
            assert_eq!(
                (statistics.tables_damaged, statistics.damaged_ranges),
                (1, 1)
            );
            assert!(engine.has_uncompared_damage());
            assert_eq!(engine.greatest_timestamp(), Timestamp::from_u64(KEYS));
            engine.close().unwrap();
        }
    }
}

#[test]
fn the_store_goes_on_and_loses_no_tombstone_that_the_table_needs() {
    let (world, files) = compacted();
    damage(&world, &files[1]);
    world.bound.store(1 << 40, Relaxed);
    let engine = world.open();
    let (_, failed, _) = keys(&engine, &files[1]);
    let lost = failed[failed.len() / 2];
    engine.write(delete(&key(lost), 10_000)).unwrap();
    engine.write(delete(&key(KEYS - 1), 10_001)).unwrap();
    engine.write(put(&key(lost + 1), 10_002, "new")).unwrap();
    for round in 0..1_000 {
        let number = round % 20;
        let entry = put(&key(number), 20_000 + round, &"w".repeat(200));
        engine.write(entry).unwrap();
        world.executor.run_for(Duration::from_millis(20));
    }
    engine.compact().unwrap();
    assert!(engine.statistics().compactions > 5);
    // A newer version than the table can have is found without it.
    let tombstone = engine.get(key(lost).as_bytes()).unwrap();
    assert_eq!(tombstone.unwrap().kind(), Kind::Tombstone);
    assert_eq!(read(&engine, &key(lost + 1)).as_deref(), Some("new"));
    assert_eq!(engine.get(key(KEYS - 1).as_bytes()).unwrap(), None);
    // What it hid is still there, should the table come back: its file is repaired.
    engine.close().unwrap();
    damage(&world, &files[1]);
    let (engine, report) = world.try_open().unwrap();
    assert_eq!(report.tables_lost, 0);
    assert_eq!(read(&engine, &key(lost)), None);
    assert_eq!(read(&engine, &key(lost + 2)), Some("v".repeat(200)));
    // No comparison has compared it since, and it is not the start that says it is whole.
    assert!(engine.is_damaged(key(lost).as_bytes()));
    assert!(engine.has_uncompared_damage());
}

#[test]
fn once_it_was_compared_the_table_is_gone() {
    let (world, files) = compacted();
    damage(&world, &files[1]);
    let engine = world.open();
    let (_, failed, _) = keys(&engine, &files[1]);
    // A comparison brings what the others have.
    let mark = engine.damage_mark();
    for number in &failed[1..] {
        let again = put(&key(*number), 1 + number, &"v".repeat(200));
        engine.write(again).unwrap();
    }
    engine.damage_compared(mark);
    world.executor.run_for(Duration::from_secs(60));
    assert_eq!(engine.statistics().tables_damaged, 0);
    assert!(!engine.is_damaged(key(failed[1]).as_bytes()));
    assert_eq!(scan_all(&engine, "", None).len() as u64, KEYS - 1);
    assert_eq!(engine.get(key(failed[0]).as_bytes()).unwrap(), None);
    engine.close().unwrap();
    let engine = world.open();
    assert_eq!(
        table_files(&world) as u64,
        tables(&engine).iter().sum::<u64>()
    );
    assert_eq!(engine.statistics().damaged_ranges, 0);
    assert_eq!(scan_all(&engine, "", None).len() as u64, KEYS - 1);
    // The only copy of one key may be in the file.
    let kept = format!("{}.lost", files[1].display());
    assert!(length(&world, Path::new(&kept)) > 0);
}

/// The manifest knows the keys of a table, on every level.
#[test]
fn the_range_is_that_of_the_keys_of_the_table() {
    let (world, files) = compacted();
    damage(&world, files.last().unwrap());
    let engine = world.open();
    assert!(engine.is_damaged(key(KEYS - 1).as_bytes()));
    assert!(!engine.is_damaged(b"zzz"));
    assert!(!engine.is_damaged(b"a"));
    drop(engine);

    let world = World::new();
    let engine = world.open();
    let long = "n".repeat(KEY_BYTES_MAX);
    engine.write(put("m", 1, "v")).unwrap();
    engine.write(put(&long, 1, "v")).unwrap();
    engine.flush().unwrap();
    drop(engine);
    let names = world.memory.list(&World::folder()).unwrap();
    let name = names.iter().find(|name| name.ends_with(".sst")).unwrap();
    damage(&world, &World::folder().join(name));
    let engine = world.open();
    assert!(engine.is_damaged(b"m") && engine.is_damaged(long.as_bytes()));
    assert!(!engine.is_damaged(b"l") && !engine.is_damaged(b"oo"));
}

#[test]
fn a_table_that_cannot_be_read_is_lost_after_some_tries() {
    // Each try reads the end of the file, and then the footer alone.
    for (failures, lost) in [(1, 0), (2, 0), (5, 0), (6, 1)] {
        let (mut world, files) = compacted();
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
        world.disk = Arc::clone(&faulty) as _;
        let left = std::sync::atomic::AtomicU64::new(failures);
        let file = files[1].clone();
        let unreadable = move |call, path: &Path| {
            let is_read = call == Call::Read && path == file;
            is_read
                && left
                    .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
                    .is_ok()
        };
        faulty.arm(Fault::at(0, ErrorKind::Other).only(unreadable).lasting());
        let (engine, report) = world.try_open().unwrap();
        assert_eq!(report.tables_lost, lost, "{failures}");
        assert_eq!(engine.statistics().tables_damaged, lost);
        let (_, failed, _) = keys(&engine, &files[1]);
        assert_eq!(failed.is_empty(), lost == 0);
    }
}

/// A file that cannot be opened says nothing about the table.
#[test]
fn a_file_that_cannot_be_opened_stops_the_start() {
    let (mut world, files) = compacted();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let file = files[1].clone();
    let is_open = move |call, path: &Path| call == Call::Open && path == file;
    faulty.arm(Fault::at(0, ErrorKind::PermissionDenied).only(is_open));
    assert!(matches!(world.try_open(), Err(Error::Io { .. })));
    assert_eq!(world.try_open().unwrap().1.tables_lost, 0);
}

/// Whatever fails while a store with a lost table is opened, the next start finds the same.
#[test]
fn a_start_that_fails_midway_changes_nothing() {
    let (mut world, files) = compacted();
    damage(&world, &files[1]);
    let memory = Arc::clone(&world.memory);
    for at in 0.. {
        let clone = Arc::new(memory.clone_synced());
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&clone) as _));
        faulty.arm(Fault::at(at, ErrorKind::Other));
        (world.memory, world.disk) = (clone, Arc::clone(&faulty) as _);
        let opened = world.try_open();
        let is_over = faulty.failed() == 0;
        drop(opened);
        faulty.heal();
        let (engine, report) = world.try_open().unwrap();
        let (read, failed, _) = keys(&engine, &files[1]);
        assert_eq!(
            (report.tables_lost, read.len() + failed.len()),
            (1, KEYS as usize)
        );
        assert!(
            failed.len() > 20 && failed.len() < 150,
            "call {at}: {failed:?}"
        );
        if is_over {
            assert!(at > 10);
            break;
        }
    }
}
