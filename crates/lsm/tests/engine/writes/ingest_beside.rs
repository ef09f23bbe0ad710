//! Ingest beside compactions in progress, scans, writes and other threads.

use crate::common::{self, World, ingest, long, put, read, scan_all, table_files, tables};
use base::{Entry, Timestamp};
use fastrand::Rng;
use lsm::Ingest;
use lsm_testing::{BlockingWrite, waiting::guarded};
use std::collections::BTreeMap;
use std::time::Duration;

/// A compaction in progress may write tables between the keys of its inputs, so an
/// ingested table between them goes to another level.
#[test]
fn a_compaction_in_progress_keeps_its_level_for_itself() {
    for abandons in [false, true] {
        let mut world = World::new();
        world.options.memtable_bytes = 1 << 20;
        let engine = world.open();
        let value = long(1, 2000);
        // Wide tables, without the keys in their middle.
        for timestamp in 1..=4 {
            for number in (0..100).chain(400..500) {
                let key = format!("{number:03}");
                engine.write(put(&key, timestamp, &value)).unwrap();
            }
            engine.flush().unwrap();
        }
        let files = table_files(&world);
        let step = || world.executor.run_for(Duration::from_millis(1));
        for _ in 0..1000 {
            if table_files(&world) == files {
                step();
            }
        }
        assert!(table_files(&world) > files, "a compaction is in progress");
        assert_eq!(engine.statistics().compactions, 0);
        if abandons {
            // Closing abandons it. The next engine has no compaction in progress.
            engine.close().unwrap();
            drop(engine);
            world.options.compaction = false;
            let engine = world.open();
            ingest(&engine, &[put("250", 9, "v")]).unwrap();
            assert_eq!(tables(&engine)[6], 1);
            continue;
        }
        ingest(&engine, &[put("250", 9, "v")]).unwrap();
        assert_eq!(tables(&engine)[5..], [1, 0]);
        (0..1000).for_each(|_| step());
        assert!(engine.statistics().compactions > 0);
        assert_eq!(scan_all(&engine, "", None).len(), 201);
        engine.compact().unwrap();
        assert_eq!(scan_all(&engine, "", None).len(), 201);
    }
}

/// Compactions of several steps, with ingests between the steps: no two tables of a
/// level overlap (a start and the engine itself check that), and no version is lost.
#[test]
fn ingests_beside_compactions_in_progress() {
    for seed in 0..12 {
        let mut rng = Rng::with_seed(seed);
        let mut world = World::new().with_blobs(seed % 2 == 1);
        world.options.memtable_bytes = 64 << 10;
        world.options.table_bytes = rng.u64(8_000..100_000);
        let engine = world.open();
        let mut model = BTreeMap::new();
        let key = |number: u64| format!("{number:03}");
        let value = long(seed, 2000);
        for timestamp in 1..300 {
            if rng.u8(0..4) > 0 {
                let entry = put(&key(rng.u64(0..500)), timestamp, &value);
                engine.write(entry.clone()).unwrap();
                model.insert(entry.key().to_vec(), entry);
            } else if rng.bool() {
                let first = rng.u64(0..500);
                let numbers = first..first + rng.u64(1..20);
                let entries: Vec<_> = numbers.map(|at| put(&key(at), timestamp, "v")).collect();
                ingest(&engine, &entries).unwrap();
                for entry in entries {
                    model.insert(entry.key().to_vec(), entry);
                }
            }
            for _ in 0..rng.u8(0..4) {
                world.executor.run_one(|jobs| rng.usize(0..jobs));
            }
            if rng.u8(0..40) == 0 {
                world.executor.run_for(Duration::from_millis(100));
            }
        }
        let all: Vec<_> = model.into_values().collect();
        assert_eq!(scan_all(&engine, "", None), all, "seed {seed}");
        engine.compact().unwrap();
        assert_eq!(scan_all(&engine, "", None), all, "seed {seed}");
        drop(engine);
        assert_eq!(scan_all(&world.open(), "", None), all, "seed {seed}");
    }
}

/// Ingests, writes, flushes, compactions, scans and a rising closed timestamp at once. No lock
/// waits for another in a circle, and each scan sees whole ingests.
#[test]
fn ingests_beside_everything_else() {
    guarded("locks in a circle", ingest_beside_everything_else);
}

fn ingest_beside_everything_else() {
    let world = World::new();
    let engine = &world.open();
    let bulk = |timestamp| (0..20).map(move |key| put(&format!("bulk-{key:02}"), timestamp, "v"));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for timestamp in 1..=100 {
                let mut ingest = engine.begin_ingest(common::LATE).unwrap();
                for entry in bulk(timestamp) {
                    ingest.push(&entry).unwrap();
                }
                ingest.commit().unwrap();
                engine
                    .raise_closed_timestamp(Timestamp::from_u64(timestamp))
                    .unwrap();
            }
        });
        scope.spawn(move || {
            for timestamp in 1000..1300 {
                let key = format!("key-{:02}", timestamp % 50);
                engine.write(put(&key, timestamp, "v")).unwrap();
            }
        });
        scope.spawn(move || {
            for _ in 0..20 {
                engine.flush().unwrap();
                engine.compact().unwrap();
            }
        });
        scope.spawn(move || {
            for _ in 0..200 {
                let found = scan_all(engine, "bulk", Some("bull"));
                let first = found.first().map(Entry::timestamp);
                assert!(found.is_empty() || found.len() == 20, "{}", found.len());
                assert!(found.iter().all(|entry| Some(entry.timestamp()) == first));
            }
        });
    });
    let found = scan_all(engine, "bulk", Some("bull"));
    assert_eq!(found, bulk(100).collect::<Vec<_>>());
    assert_eq!(engine.acknowledged().total, 100 * 20 + 300);
}

#[test]
fn an_ingest_goes_from_thread_to_thread() {
    fn is_send<T: Send>() {}
    is_send::<Ingest>();
    let world = World::new();
    let engine = world.open();
    let mut ingest = engine.begin_ingest(common::LATE).unwrap();
    ingest.push(&put("a", 1, "v")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || ingest.commit().unwrap());
    });
    assert_eq!(read(&engine, "a"), Some("v".into()));
}
