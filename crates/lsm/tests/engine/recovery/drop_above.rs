//! Versions above a limit are dropped when a store is opened.

use crate::common::{World, delete, ingest, long, put, read, scan_all};
use base::Timestamp;
use lsm::{Disk, Engine, Error};
use lsm_testing::{BlockingWrite, Fault, FaultyDisk, MemoryDisk};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

const LIMIT: u64 = 1_000;
const KEYS: u64 = 30;

/// What readers see once the versions above the limit are dropped.
type Expected = BTreeMap<String, u64>;

fn key(number: u64) -> String {
    format!("key-{number:02}")
}

/// A store whose versions lie in deep tables, on level 0 and in the log. Each key has a
/// version below the limit. A third of the keys has one above it as well, some of which
/// are deletes. The version below the limit was written last.
fn written(has_blobs: bool) -> (Arc<MemoryDisk>, Expected) {
    let world = World::new().with_blobs(has_blobs);
    let engine = world.open();
    let mut expected = Expected::new();
    let mut write = |engine: &Engine, from: u64, to: u64| {
        for number in from..to {
            if number % 3 == 0 {
                let future = LIMIT + 1 + number;
                engine
                    .write(match number % 2 {
                        0 => put(&key(number), future, "future"),
                        _ => delete(&key(number), future),
                    })
                    .unwrap();
            }
            engine
                .write(put(&key(number), number + 1, &"v".repeat(100)))
                .unwrap();
            expected.insert(key(number), number + 1);
        }
    };
    write(&engine, 0, 10);
    engine.flush().unwrap();
    engine.compact().unwrap();
    write(&engine, 10, 20);
    engine.flush().unwrap();
    write(&engine, 20, KEYS);
    (Arc::new(world.memory.clone_synced()), expected)
}

fn dropping(memory: Arc<MemoryDisk>) -> World {
    let mut world = World::on(memory);
    world.options.drop_versions_above = Some(Timestamp::from_u64(LIMIT));
    world
}

/// Checks that no version above the limit is left. What such a version had hidden may
/// have been freed before, so a key may be absent, unless its version is in the log.
fn check(engine: &Engine, expected: &Expected, context: &str) {
    let found: Expected = scan_all(engine, "", None)
        .iter()
        .map(|entry| {
            let key = String::from_utf8(entry.key().to_vec()).unwrap();
            (key, entry.timestamp().as_u64())
        })
        .collect();
    for number in 0..KEYS {
        let (key, hidden) = (key(number), number % 3 == 0);
        let (found, expected) = (found.get(&key), expected.get(&key));
        assert!(
            found == expected || (hidden && found.is_none()),
            "{context}: {key} is {found:?}, not {expected:?}"
        );
    }
    let greatest = engine.greatest_timestamp();
    assert!(
        greatest <= Timestamp::from_u64(LIMIT),
        "{context}: {greatest}"
    );
}

#[test]
fn a_start_drops_what_lies_above_the_limit_and_no_more() {
    let (memory, expected) = written(false);
    let world = dropping(Arc::clone(&memory));
    let (engine, report) = world.try_open().unwrap();
    assert_eq!(report.versions_dropped, KEYS / 3);
    check(&engine, &expected, "at once");
    engine.write(put(&key(0), 70, "overwritten")).unwrap();
    assert_eq!(read(&engine, &key(0)).as_deref(), Some("overwritten"));
    engine.compact().unwrap();
    engine.close().unwrap();

    // They are dropped for good: a start without the limit finds none of them.
    let world = World::on(Arc::new(world.memory.clone_synced()));
    let (engine, report) = world.try_open().unwrap();
    assert_eq!(report.versions_dropped, 0);
    assert!(engine.greatest_timestamp() <= Timestamp::from_u64(LIMIT));
    assert_eq!(read(&engine, &key(0)).as_deref(), Some("overwritten"));
}

#[test]
fn a_start_without_the_option_drops_nothing() {
    let (memory, _) = written(false);
    let world = World::on(memory);
    let (engine, report) = world.try_open().unwrap();
    assert_eq!(report.versions_dropped, 0);
    let greatest = Timestamp::from_u64(LIMIT + 1 + KEYS - 3);
    assert_eq!(engine.greatest_timestamp(), greatest);
    assert_eq!(read(&engine, &key(12)).as_deref(), Some("future"));
}

#[test]
fn a_store_that_is_all_from_the_future_is_empty() {
    let world = World::new();
    let engine = world.open();
    for number in 0..40 {
        engine
            .write(put(&key(number), LIMIT + 1 + number, &"v".repeat(300)))
            .unwrap();
    }
    engine.flush().unwrap();
    engine.write(put("last", LIMIT + 100, "v")).unwrap();
    let world = dropping(Arc::new(world.memory.clone_synced()));
    let (engine, report) = world.try_open().unwrap();
    assert_eq!(report.versions_dropped, 41);
    assert!(scan_all(&engine, "", None).is_empty());
    assert_eq!(engine.greatest_timestamp(), Timestamp::ZERO);
    engine.close().unwrap();
}

/// The i-th call of a start that drops versions fails, for every i. The process dies
/// with it, and the power is cut. The next start with the limit does the rest.
#[test]
fn a_start_that_dies_at_any_call_is_completed_by_the_next() {
    for (kind, has_blobs) in [
        (ErrorKind::Other, false),
        (ErrorKind::Other, true),
        (ErrorKind::StorageFull, true),
    ] {
        let (memory, expected) = written(has_blobs);
        for call in 0.. {
            let memory = Arc::new(memory.clone_synced());
            let mut world = dropping(Arc::clone(&memory));
            let disk = Arc::new(FaultyDisk::new(Arc::clone(&memory) as Arc<dyn Disk>));
            world.disk = Arc::clone(&disk) as _;
            disk.arm(Fault::at(call, kind).lasting().with_short_writes());
            let opened = world.try_open().is_ok();
            let was_met = disk.failed() > 0;
            for survives in [false, true] {
                let left = Arc::new(memory.crash_clone(&mut |_| survives));
                let context = format!("{kind:?} at call {call}, opened {opened}");
                let engine = dropping(Arc::clone(&left))
                    .try_open()
                    .unwrap_or_else(|error| panic!("{context}: {error}"))
                    .0;
                check(&engine, &expected, &context);
            }
            if !was_met {
                assert!(opened);
                break;
            }
        }
    }
}

/// Each table is freed before the one after the next is written.
#[test]
fn a_start_needs_room_for_a_few_tables_and_not_for_all() {
    const TABLE_BYTES: u64 = 64 << 10;
    let mut world = World::new();
    world.options.table_bytes = TABLE_BYTES;
    world.options.compression = lsm::Compression::None;
    let engine = world.open();
    let entries: Vec<_> = (0..1_000)
        .map(|number| {
            let timestamp = if number % 20 == 0 { LIMIT } else { 0 } + 1 + number / 20;
            put(&format!("{number:04}"), timestamp, &long(number, 1_000))
        })
        .collect();
    assert!(ingest(&engine, &entries).unwrap().tables > 14);
    engine.close().unwrap();
    drop(engine);
    let memory = Arc::new(world.memory.clone_synced());
    memory.set_capacity(memory.used_bytes() + 3 * TABLE_BYTES);
    let mut world = dropping(Arc::clone(&memory));
    world.options.compression = lsm::Compression::None;
    let (engine, report) = world.try_open().unwrap();
    assert_eq!(report.versions_dropped, 50);
    assert_eq!(scan_all(&engine, "", None).len(), 950);
}

/// There the log goes on in its last segment, whose records stay in memory.
#[test]
fn a_start_without_room_for_a_log_segment_says_that_it_drops_nothing() {
    let world = World::new();
    let engine = world.open();
    for number in 0..10 {
        engine
            .write(put(&key(number), LIMIT + 1 + number, "future"))
            .unwrap();
    }
    drop(engine);
    let memory = Arc::new(world.memory.clone_synced());
    let folder = World::folder();
    for name in memory.list(&folder).unwrap() {
        if name == "RESERVE" || name.ends_with(".free") {
            memory.remove(&folder.join(name)).unwrap();
        }
    }
    memory.set_capacity(memory.used_bytes());
    let refused = dropping(Arc::clone(&memory)).try_open().map(drop);
    assert!(matches!(refused, Err(Error::DiskFull)), "{refused:?}");
    memory.set_capacity(u64::MAX);
    let (engine, report) = dropping(memory).try_open().unwrap();
    assert_eq!(report.versions_dropped, 10);
    assert!(scan_all(&engine, "", None).is_empty());
}
