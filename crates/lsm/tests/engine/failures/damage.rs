//! Damage to a table: its intact parts are served, and the others are errors.

use crate::common::{World, delete, put, read};
use base::Kind;
use lsm::{Disk, Engine, Error};
use lsm_testing::{BlockingWrite, Call, Fault, FaultyDisk};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The keys of the store, a few in each block.
const KEYS: u64 = 300;

fn key(number: u64) -> String {
    format!("key-{number:03}")
}

/// A reopened store whose tables are all on the last level, and the file of the table
/// with the least keys.
fn compacted() -> (World, PathBuf) {
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    world.options.compaction = false;
    let engine = world.open();
    for number in 0..KEYS {
        engine
            .write(put(&key(number), 1 + number, &"v".repeat(200)))
            .unwrap();
    }
    engine.compact().unwrap();
    engine.close().unwrap();
    world.options.compaction = true;
    let folder = World::folder();
    let names = world.memory.list(&folder).unwrap();
    let tables: Vec<_> = names.iter().filter(|name| name.ends_with(".sst")).collect();
    assert!(tables.len() > 1, "{names:?}");
    let table = folder.join(tables[0]);
    (world, table)
}

/// Writes, and runs compactions until they have merged much. Returns the greatest number
/// of tables on level 0 in the meantime.
fn keep_working(world: &World, engine: &Engine) -> u64 {
    let mut most = 0;
    for number in 0..1500 {
        // All keys but those of the first blocks.
        let entry = put(
            &key(50 + number % (KEYS - 50)),
            10_000 + number,
            &"w".repeat(200),
        );
        engine.write(entry).unwrap();
        world.executor.run_for(Duration::from_millis(20));
        most = most.max(engine.statistics().levels[0].tables);
    }
    most
}

#[test]
fn compaction_goes_on_without_a_damaged_table() {
    let (world, table) = compacted();
    world.memory.corrupt(&table, 10, 1).unwrap();
    world.bound.store(1 << 40, Relaxed);
    let engine = world.open();
    // A part of the block's records is deleted; the tombstones must stay.
    engine.write(delete(&key(0), 5_000)).unwrap();
    let most = keep_working(&world, &engine);
    let statistics = engine.statistics();
    assert_eq!(statistics.tables_damaged, 1, "{statistics:?}");
    assert!(most < 12, "{most}");
    assert!(statistics.compactions > 10, "{statistics:?}");
    assert!(statistics.stalls == 0, "{statistics:?}");

    // A compaction that the owner asks for skips it too.
    engine.compact().unwrap();
    let mut engine = engine;
    for _ in 0..2 {
        let tombstone = engine.get(key(0).as_bytes()).unwrap().unwrap();
        assert_eq!(tombstone.kind(), Kind::Tombstone, "dropped past the damage");
        let damaged = engine.get(key(1).as_bytes());
        assert!(matches!(damaged, Err(Error::Corrupt { .. })), "{damaged:?}");
        assert_eq!(
            read(&engine, &key(30)),
            Some("v".repeat(200)),
            "of another block"
        );
        assert_eq!(read(&engine, &key(60)), Some("w".repeat(200)));
        assert_eq!(engine.statistics().tables_damaged, 1);
        drop(engine);
        engine = world.open();
    }
}

/// A checksum does not find a bad sector: the system reports it.
#[test]
fn a_table_that_cannot_be_read_is_left_out_after_a_few_tries() {
    let (mut world, table) = compacted();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = world.open();
    let unreadable = move |call, path: &std::path::Path| call == Call::Read && path == table;
    faulty.arm(Fault::at(0, ErrorKind::Other).only(unreadable).lasting());
    let most = keep_working(&world, &engine);
    let statistics = engine.statistics();
    assert_eq!(statistics.tables_damaged, 1, "{statistics:?}");
    assert!(most < 24, "{most}");
    assert!(statistics.compactions > 10, "{statistics:?}");
    assert_eq!(read(&engine, &key(60)), Some("w".repeat(200)));
    assert!(matches!(
        engine.get(key(1).as_bytes()),
        Err(Error::Io { .. })
    ));
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
    let names = Disk::list(&*world.memory, &folder).unwrap();
    let table = names.iter().find(|name| name.ends_with(".sst")).unwrap();
    let length = Disk::open(&*world.memory, &folder.join(table))
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
                        assert_eq!(found.unwrap().value_bytes(), key.as_bytes());
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
