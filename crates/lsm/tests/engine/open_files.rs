//! A store of more tables than may be open at the same time: their files are closed and opened
//! again, and nobody notices.

use crate::common::{World, delete, ingest, put, read, scan_all, table_files, tables};
use base::Entry;
use lsm::{Engine, Error, Lookup};
use lsm_testing::{BlockingWrite, Call, Fault, FaultyDisk};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "sst")
}

/// A world whose tables are short, whose cache has room for few blocks, and whose disk counts the
/// tables that are open.
fn world(open_files_max: usize) -> (World, Arc<FaultyDisk>) {
    let mut world = World::new();
    world.options.open_files_max = open_files_max;
    world.options.table_bytes = 1;
    world.options.compression = lsm::Compression::None;
    world.options.cache_bytes = 2 << 10;
    world.options.filter_false_positive_rate = None;
    let disk = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    disk.count_handles(is_table);
    world.disk = Arc::clone(&disk) as _;
    (world, disk)
}

fn key(number: u64) -> String {
    format!("key-{number:03}")
}

const KEYS: u64 = 400;

/// Ingests a value of each key.
fn fill(engine: &Engine) {
    fill_with(engine, KEYS);
    assert!(table_count(engine) > 80);
}

fn fill_with(engine: &Engine, keys: u64) {
    let values = (0..keys).map(|number| put(&key(number), 1 + number, &"v".repeat(300)));
    ingest(engine, &values.collect::<Vec<_>>()).unwrap();
}

fn table_count(engine: &Engine) -> u64 {
    tables(engine).iter().sum()
}

/// How many calls of this kind tables get while `work` is done.
fn calls(disk: &FaultyDisk, counted: Call, work: impl FnOnce()) -> u64 {
    let never = Fault::at(u64::MAX, ErrorKind::Other);
    disk.arm(never.only(move |call, path| call == counted && is_table(path)));
    work();
    let calls = disk.calls();
    disk.heal();
    calls
}

#[test]
fn reads_scans_and_compactions_are_right_and_few_tables_are_open() {
    const OPEN_MAX: usize = 6;
    let (mut world, disk) = world(OPEN_MAX);
    let mut model: BTreeMap<String, u64> = BTreeMap::new();
    let mut random = fastrand::Rng::with_seed(4);
    let mut timestamp = KEYS;
    let value = "v".repeat(300);
    for is_first in [true, false] {
        let engine = world.open();
        if is_first {
            fill(&engine);
            model.extend((0..KEYS).map(|number| (key(number), 1 + number)));
        }
        for _ in 0..3_000 {
            timestamp += 1;
            let key = key(random.u64(0..KEYS));
            match random.u8(0..10) {
                0 => {
                    engine.write(delete(&key, timestamp)).unwrap();
                    model.remove(&key);
                }
                1..4 => {
                    engine.write(put(&key, timestamp, &value)).unwrap();
                    model.insert(key, timestamp);
                }
                4 => {
                    let found = scan_all(&engine, &key, None);
                    let values = found.iter().filter(|it| it.kind() == base::Kind::Value);
                    let values = values.map(|it| it.timestamp().as_u64());
                    assert!(values.eq(model.range(key..).map(|(_, timestamp)| *timestamp)));
                }
                5 => drop(world.executor.run_one(|_| 0)),
                _ => {
                    let found = engine.get(key.as_bytes()).unwrap();
                    let found = found.filter(|it| it.kind() == base::Kind::Value);
                    let found = found.map(|it| it.timestamp().as_u64());
                    assert_eq!(found, model.get(&key).copied());
                }
            }
        }
        assert!(table_count(&engine) > 5 * OPEN_MAX as u64);
        engine.compact().unwrap();
        let live = table_count(&engine) as usize;
        engine.close().unwrap();
        assert_eq!(table_files(&world), live, "what was replaced is removed");
        assert_eq!(disk.handles_max(), OPEN_MAX);
        world.executor = Arc::new(lsm_testing::StepExecutor::new(Arc::clone(&world.clock)));
    }
}

#[test]
fn a_reader_reads_on_in_tables_that_were_replaced_and_a_crash_leaves_nothing_of_them() {
    let (world, _disk) = world(2);
    let engine = world.open();
    fill(&engine);
    let before = scan_all(&engine, "", None);
    let mut scan = engine.scan(b"", None);
    let mut found: Vec<Entry> = Vec::new();
    while found.len() < 100 {
        assert!(scan.advance().unwrap());
        found.push(scan.entry().to_entry());
    }
    for number in 0..KEYS {
        engine
            .write(put(&key(number), 1_000 + number, "new"))
            .unwrap();
    }
    engine.compact().unwrap();
    // All that the scan has not read is closed.
    for number in 0..KEYS {
        assert_eq!(read(&engine, &key(number)).as_deref(), Some("new"));
    }
    let live = table_count(&engine) as usize;
    assert!(table_files(&world) > live, "the scan has the others");
    let crashed = World::on(Arc::new(world.memory.crash_clone(&mut |_| true)));
    let (engine_after_crash, report) = crashed.try_open().unwrap();
    assert!(report.orphans_removed > 0);
    assert_eq!(table_files(&crashed), live);
    assert_eq!(read(&engine_after_crash, &key(7)).as_deref(), Some("new"));

    while scan.advance().unwrap() {
        found.push(scan.entry().to_entry());
    }
    assert!(found == before);
    drop(scan);
    engine.write(put("last", 5_000, "v")).unwrap();
    engine.flush().unwrap();
    world.executor.run_all_due();
    assert_eq!(table_files(&world), table_count(&engine) as usize);
}

/// As when the process has no free file handle: it is an error of that read, and the next one
/// succeeds.
#[test]
fn a_table_that_cannot_be_opened_again_is_not_damaged() {
    let (world, disk) = world(1);
    let engine = world.open();
    fill(&engine);
    let cannot_open = || {
        let fault = Fault::at(0, ErrorKind::Other);
        disk.arm(
            fault
                .only(|call, path| call == Call::Open && is_table(path))
                .lasting(),
        );
    };
    cannot_open();
    let failed = (0..KEYS).filter(|number| {
        match engine.get(key(*number).as_bytes()) {
            Ok(found) => assert!(found.is_some()),
            Err(Error::Io { action, .. }) => {
                assert_eq!(action, "open");
                return true;
            }
            Err(error) => unreachable!("{error}"),
        }
        false
    });
    assert!(failed.count() > 200);
    let is_of_opening = |error| matches!(error, Error::Io { action: "open", .. });
    for _ in 0..5 {
        let mut repaired = engine.scan(b"", None).for_full_comparison();
        assert!(repaired.next_batch(1 << 20).is_err_and(is_of_opening));
        assert!(engine.compact().is_err_and(is_of_opening));
        world.executor.run_for(Duration::from_secs(600));
    }
    let statistics = engine.statistics();
    assert_eq!(
        (statistics.tables_damaged, statistics.damaged_ranges),
        (0, 0)
    );
    disk.heal();
    let mut scan = engine.scan(b"", None).for_full_comparison();
    let mut keys = 0;
    loop {
        match scan.next_batch(1 << 20).unwrap().len() {
            0 => break,
            batch => keys += batch as u64,
        }
    }
    assert_eq!(keys, KEYS);
    engine.compact().unwrap();
    assert_eq!(scan_all(&engine, "", None).len() as u64, KEYS);
}

#[test]
fn each_single_failure_of_opening_a_table_again_is_survived() {
    const FEW: u64 = 40;
    for at in 0.. {
        let (world, disk) = world(2);
        let engine = world.open();
        fill_with(&engine, FEW);
        let fault = Fault::at(at, ErrorKind::Other);
        disk.arm(fault.only(|call, path| call == Call::Open && is_table(path)));
        for number in (0..FEW).step_by(3) {
            match engine.get(key(number).as_bytes()) {
                Ok(found) => assert_eq!(found.unwrap().timestamp().as_u64(), 1 + number),
                Err(error) => assert!(matches!(error, Error::Io { .. }), "{error}"),
            }
        }
        let mut scan = engine.scan(b"", None);
        let mut found = 0;
        let mut errors = 0;
        while errors < 2 {
            match scan.next_batch(1 << 10) {
                Ok(batch) if batch.is_empty() => break,
                Ok(batch) => found += batch.len() as u64,
                Err(_) => errors += 1,
            }
        }
        assert_eq!(found, FEW);
        for number in (0..FEW).step_by(2) {
            // It may wait for a flush that fails.
            let _ = engine.write(put(&key(number), 1_000 + number, &"w".repeat(300)));
        }
        let _ = engine.compact();
        let failed = disk.failed();
        disk.heal();
        world.executor.run_for(Duration::from_secs(600));
        engine.compact().unwrap();
        assert_eq!(scan_all(&engine, "", None).len() as u64, FEW);
        assert_eq!(engine.statistics().tables_damaged, 0);
        engine.close().unwrap();
        drop(engine);
        assert_eq!(scan_all(&world.open(), "", None).len() as u64, FEW);
        if failed == 0 {
            assert!(at > 30, "{at}");
            return;
        }
    }
}

#[test]
fn a_read_that_must_not_block_opens_nothing() {
    let (world, disk) = world(2);
    let engine = world.open();
    fill(&engine);
    let ask = |call| {
        calls(&disk, call, || {
            let asked = (0..KEYS).map(|number| engine.get_cached(key(number).as_bytes()).unwrap());
            assert!(asked.filter(|it| *it == Lookup::MayBlock).count() > 200);
        })
    };
    assert_eq!((ask(Call::Open), ask(Call::Read)), (0, 0));
}

/// The files of a kept table go when the operator discards them, but not while a reader has them.
#[test]
fn what_the_operator_discards_is_readable_for_as_long_as_somebody_reads_it() {
    let (world, _disk) = world(1);
    let engine = world.open();
    fill(&engine);
    let mut scan = engine.scan(b"", None);
    assert!(scan.advance().unwrap());
    let below = base::Timestamp::from_u64(1_000);
    engine.set_aside(below, lsm::SetAsideKeys::All).unwrap();
    engine.discard_set_aside(below).unwrap();
    assert!(table_files(&world) > 80);
    // What is set aside is passed over, but to find that out the tables are read.
    while scan.advance().unwrap() {}
    drop(scan);
    engine.write(put("last", 5_000, "v")).unwrap();
    engine.flush().unwrap();
    assert_eq!(table_files(&world), 1);
}
