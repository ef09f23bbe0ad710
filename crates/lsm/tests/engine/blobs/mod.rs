//! Long values apart from their keys, in blob tables: when these come and go, and what is read.
//! Tests of the engine that write at random run with blob tables, too
//! ([`World::with_blobs`](crate::common::World::with_blobs)).

mod damage;
mod space;

use crate::common::{World, delete, ingest, long, put, read, scan_all, table_files};
use base::{Clock, Timestamp};
use lsm::{Disk, Engine};
use lsm_testing::BlockingWrite;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const KEYS: u64 = 30;
const VALUE_BYTES: usize = 2_000;

fn world() -> World {
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    world.options.blob_value_bytes_min = Some(1_000);
    world.options.memtable_bytes = 32 << 10;
    world.options.table_bytes = 32 << 10;
    world
}

/// The same with room for the whole store in a memtable and in a table.
fn world_of_one_table() -> World {
    let mut world = world();
    world.options.memtable_bytes = 1 << 20;
    world.options.table_bytes = 1 << 20;
    world
}

fn at(timestamp: u64) -> Timestamp {
    Timestamp::from_u64(timestamp)
}

fn key(number: u64) -> String {
    format!("key-{number:03}")
}

fn value(timestamp: u64) -> String {
    long(timestamp, VALUE_BYTES)
}

/// Writes some keys, each with the next timestamp.
fn write(engine: &Engine, keys: impl Iterator<Item = u64>, timestamp: &mut u64) {
    for number in keys {
        *timestamp += 1;
        let entry = put(&key(number), *timestamp, &value(*timestamp));
        engine.write(entry).unwrap();
    }
}

fn settle(world: &World, engine: &Engine) {
    engine.flush().unwrap();
    world.executor.run_for(Duration::from_secs(20));
}

fn sst_files(world: &World) -> BTreeSet<PathBuf> {
    let names = world.memory.list(&World::folder()).unwrap();
    let names = names.into_iter().filter(|name| name.ends_with(".sst"));
    names.map(|name| World::folder().join(name)).collect()
}

fn length(world: &World, path: &Path) -> u64 {
    Disk::open(&*world.memory, path).unwrap().len().unwrap()
}

fn longest(world: &World, files: &BTreeSet<PathBuf>) -> PathBuf {
    let files = files.iter();
    let longest = files.max_by_key(|file| length(world, file));
    longest.unwrap().clone()
}

/// A closed store with all values in one blob table, and the file of that.
fn store_with_blob_table() -> (World, PathBuf) {
    let world = world_of_one_table();
    let engine = world.open();
    let mut timestamp = 0;
    write(&engine, 0..KEYS, &mut timestamp);
    engine.flush().unwrap();
    engine.close().unwrap();
    let files = sst_files(&world);
    assert_eq!(files.len(), 2);
    let blob = longest(&world, &files);
    (world, blob)
}

/// Runs at most so many jobs.
fn run_jobs(world: &World, mut jobs: u64) -> u64 {
    let first = jobs;
    while jobs > 0 {
        if world.executor.run_one(|_| 0) {
            jobs -= 1;
            continue;
        }
        let Some(due) = world.executor.next_due() else {
            break;
        };
        let wait = due.saturating_sub(world.clock.monotonic());
        if wait > Duration::from_secs(30) {
            break;
        }
        world.clock.advance(wait);
    }
    first - jobs
}

/// The version of the format of the manifest.
fn manifest_version(world: &World) -> u8 {
    let file = Disk::open(&*world.memory, &World::folder().join("MANIFEST")).unwrap();
    let mut head = [0; 12];
    file.read_exact_at(&mut head, 0).unwrap();
    head[8]
}

/// The greatest version of the format of a table.
fn table_version(world: &World) -> u8 {
    let versions = sst_files(world).into_iter().map(|path| {
        let file = Disk::open(&*world.memory, &path).unwrap();
        let mut version = [0; 4];
        let at = file.len().unwrap() - 12;
        file.read_exact_at(&mut version, at).unwrap();
        version[0]
    });
    versions.max().unwrap_or(0)
}

#[test]
fn overwritten_values_are_freed_and_live_ones_stay() {
    let world = world();
    let engine = world.open();
    let mut timestamp = 0;
    let mut newest = vec![0; KEYS as usize];
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..40 {
        for _ in 0..KEYS / 2 {
            let number = random.u64(..KEYS);
            write(&engine, std::iter::once(number), &mut timestamp);
            newest[number as usize] = timestamp;
        }
        settle(&world, &engine);
        let statistics = engine.statistics();
        let live = newest.iter().filter(|it| **it > 0).count() as u64 * VALUE_BYTES as u64;
        assert!(statistics.blob_bytes >= live);
        assert!(
            statistics.blob_bytes < 5 * live / 2 + (64 << 10),
            "{statistics:?}"
        );
        for (number, newest) in (0..).zip(&newest) {
            let expected = (*newest > 0).then(|| value(*newest));
            assert_eq!(read(&engine, &key(number)), expected);
        }
    }
    let statistics = engine.statistics();
    assert!(
        statistics.write_amplification() < 4.5,
        "{}",
        statistics.write_amplification()
    );
    let named = engine
        .statistics()
        .levels
        .iter()
        .map(|it| it.tables)
        .sum::<u64>();
    drop(engine);
    // What nobody needs has no file, not even before the next start looks.
    let before = table_files(&world);
    let engine = world.open();
    assert_eq!(table_files(&world), before);
    assert!(before as u64 > named, "there are blob tables");
    for (number, newest) in (0..).zip(&newest) {
        let expected = (*newest > 0).then(|| value(*newest));
        assert_eq!(read(&engine, &key(number)), expected);
    }
}

#[test]
fn without_values_in_blob_tables_all_is_written_as_before() {
    let mut world = world();
    let engine = world.open();
    let mut timestamp = 0;
    write(&engine, 0..KEYS, &mut timestamp);
    settle(&world, &engine);
    assert_eq!((manifest_version(&world), table_version(&world)), (6, 6));
    // Compactions bring the values back once the option is gone.
    drop(engine);
    world.options.blob_value_bytes_min = None;
    let engine = world.open();
    assert_ne!(engine.statistics().blob_bytes, 0);
    write(&engine, 0..KEYS, &mut timestamp);
    settle(&world, &engine);
    engine.compact().unwrap();
    settle(&world, &engine);
    assert_eq!(engine.statistics().blob_bytes, 0);
    assert_eq!(scan_all(&engine, "", None).len() as u64, KEYS);
    drop(engine);
    let _engine = world.open();
    assert_eq!((manifest_version(&world), table_version(&world)), (5, 5));
}

#[test]
fn deletes_free_blob_tables() {
    let world = world();
    let engine = world.open();
    let mut timestamp = 0;
    write(&engine, 0..KEYS, &mut timestamp);
    settle(&world, &engine);
    for number in 0..KEYS {
        engine.write(delete(&key(number), 1_000)).unwrap();
    }
    world.bound.store(2_000, Relaxed);
    engine.compact().unwrap();
    settle(&world, &engine);
    let statistics = engine.statistics();
    assert_eq!((statistics.blob_bytes, statistics.table_entries), (0, 0));
    assert_eq!(table_files(&world), 0);
}

#[test]
fn a_scan_keeps_the_values_that_it_sees() {
    let world = world();
    let engine = world.open();
    let mut timestamp = 0;
    write(&engine, 0..KEYS, &mut timestamp);
    settle(&world, &engine);
    // Its cursors hold the tables of their moment.
    let mut scan = engine.scan(b"", None);
    assert!(scan.advance().unwrap());
    for _ in 0..6 {
        write(&engine, 0..KEYS, &mut timestamp);
        engine.flush().unwrap();
        engine.compact().unwrap();
        world.executor.run_for(Duration::from_secs(2));
    }
    for number in 0..KEYS {
        assert_eq!(scan.entry().value_bytes(), value(number + 1).as_bytes());
        assert_eq!(scan.advance().unwrap(), number + 1 < KEYS);
    }
    drop(scan);
    settle(&world, &engine);
    assert!(engine.statistics().blob_bytes < 3 * KEYS * VALUE_BYTES as u64);
}

#[test]
fn what_is_ingested_goes_to_blob_tables_with_a_compaction() {
    let world = world();
    let engine = world.open();
    let entries: Vec<_> = (0..KEYS)
        .map(|it| put(&key(it), it + 1, &value(it + 1)))
        .collect();
    ingest(&engine, &entries).unwrap();
    assert_eq!(engine.statistics().blob_bytes, 0);
    engine.compact().unwrap();
    settle(&world, &engine);
    assert!(engine.statistics().blob_bytes > KEYS * VALUE_BYTES as u64);
    assert_eq!(scan_all(&engine, "", None), entries);
}
