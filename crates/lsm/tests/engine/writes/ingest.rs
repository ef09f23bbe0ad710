//! Ingest: what it adds, where its tables go, who sees them when, and what is left of
//! one that fails.

use crate::common::{self, World, delete, ingest, long, put, read, scan_all, table_files, tables};
use base::{NewerVersion, Timestamp};
use lsm::{Admission, Error, Ingested, LateSource};
use lsm_testing::{BlockingWrite, newer_version_of};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

#[test]
fn nothing_is_visible_before_the_commit_and_everything_after() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("b", 5, "written")).unwrap();
    let mut ingest = engine.begin_ingest(common::LATE).unwrap();
    for entry in [put("a", 7, "new"), put("b", 4, "old"), delete("c", 8)] {
        ingest.push(&entry).unwrap();
    }
    assert_eq!(scan_all(&engine, "", None).len(), 1);
    let ingested = ingest.commit().unwrap();
    assert_eq!((ingested.tables, ingested.records), (1, 3));
    assert!(ingested.bytes > 0);
    for _ in 0..3 {
        assert_eq!(read(&engine, "a"), Some("new".into()));
        assert_eq!(read(&engine, "b"), Some("written".into()), "the newer one");
        assert_eq!(engine.get(b"c").unwrap(), Some(delete("c", 8)));
        assert_eq!(engine.greatest_timestamp(), Timestamp::from_u64(8));
        engine.compact().unwrap();
    }
    engine.close().unwrap();
    let engine = world.open();
    assert_eq!(scan_all(&engine, "", None).len(), 3);
    assert_eq!(engine.acknowledged().total, 4);
    assert_eq!(engine.greatest_timestamp(), Timestamp::from_u64(8));
}

#[test]
fn an_ingested_tombstone_hides_older_versions_below_it() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 1, "old")).unwrap();
    engine.flush().unwrap();
    engine.write(put("b", 1, "old")).unwrap();
    ingest(&engine, &[delete("a", 2), delete("b", 2)]).unwrap();
    for _ in 0..2 {
        assert_eq!(read(&engine, "a"), None);
        assert_eq!(read(&engine, "b"), None);
        engine.compact().unwrap();
    }
}

#[test]
fn tables_lie_on_the_deepest_level_where_they_overlap_nothing() {
    let mut world = World::new();
    world.options.compaction = false;
    let engine = world.open();
    // A table above that spans all keys does not matter.
    engine.write(put("a", 1, "v")).unwrap();
    engine.write(put("z", 1, "v")).unwrap();
    engine.flush().unwrap();
    ingest(&engine, &[put("b", 2, "v"), put("d", 2, "v")]).unwrap();
    assert_eq!(tables(&engine), [1, 0, 0, 0, 0, 0, 1]);
    ingest(&engine, &[put("e", 2, "v"), put("f", 2, "v")]).unwrap();
    assert_eq!(tables(&engine), [1, 0, 0, 0, 0, 0, 2]);
    for (first, last) in [("a", "b"), ("c", "c"), ("d", "d"), ("d", "f")] {
        let mut entries = vec![put(first, 3, "v")];
        if last > first {
            entries.push(put(last, 3, "v"));
        }
        ingest(&engine, &entries).unwrap();
    }
    assert_eq!(tables(&engine), [1, 0, 0, 0, 1, 3, 2]);
    for timestamp in 4..10 {
        ingest(
            &engine,
            &[put("c", timestamp, "v"), put("e", timestamp, "v")],
        )
        .unwrap();
    }
    assert_eq!(
        tables(&engine),
        [4, 1, 1, 1, 1, 3, 2],
        "level 0 takes the rest"
    );
    assert_eq!(engine.get(b"e").unwrap(), Some(put("e", 9, "v")));
    drop(engine);
    assert_eq!(world.open().get(b"c").unwrap(), Some(put("c", 9, "v")));
}

#[test]
fn tables_are_cut_at_their_size() {
    let world = World::new();
    let engine = world.open();
    let entries: Vec<_> = (0..200)
        .map(|number| put(&format!("{number:03}"), 1, &long(number, 1000)))
        .collect();
    let ingested = ingest(&engine, &entries).unwrap();
    assert!((10..15).contains(&ingested.tables), "{ingested:?}");
    assert_eq!(scan_all(&engine, "", None), entries);
}

#[test]
fn keys_that_do_not_ascend_end_an_ingest() {
    let world = World::new();
    let engine = world.open();
    for second in ["a", "b"] {
        let mut ingest = engine.begin_ingest(common::LATE).unwrap();
        ingest.push(&put("b", 1, "v")).unwrap();
        for _ in 0..2 {
            let refused = ingest.push(&put(second, 2, "v"));
            assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        }
        assert_eq!(table_files(&world), 0);
        let refused = ingest.commit();
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
    assert_eq!(ingest(&engine, &[]).unwrap(), Ingested::default());
    assert_eq!(engine.acknowledged().total, 0);
}

#[test]
fn an_ingest_that_is_dropped_removes_its_files() {
    let world = World::new();
    let engine = world.open();
    let mut ingest = engine.begin_ingest(common::LATE).unwrap();
    for number in 0..100 {
        let key = format!("{number:03}");
        ingest.push(&put(&key, 1, &long(number, 1000))).unwrap();
    }
    assert!(table_files(&world) > 3);
    drop(ingest);
    assert_eq!(table_files(&world), 0);
    assert_eq!(engine.acknowledged().total, 0);
}

#[test]
fn an_ingest_that_outlives_its_engine_touches_no_file_of_the_next() {
    let world = World::new();
    let engine = world.open();
    let mut ingest = engine.begin_ingest(common::LATE).unwrap();
    ingest.push(&put("a", 1, "lost")).unwrap();
    engine.close().unwrap();
    drop(engine);
    let engine = world.open();
    engine.write(put("b", 1, "kept")).unwrap();
    engine.flush().unwrap();
    let closed = ingest.push(&put("c", 1, "v"));
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
    let closed = ingest.commit();
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
    drop(engine);
    let engine = world.open();
    assert_eq!(read(&engine, "b"), Some("kept".into()));
    assert_eq!(read(&engine, "a"), None);
}

#[test]
fn a_scan_sees_all_of_an_ingest_or_nothing() {
    let world = World::new();
    let engine = world.open();
    let keys = || (0..20).map(|number| format!("{number:02}"));
    let all = |timestamp| keys().map(move |key| put(&key, timestamp, "v"));
    for entry in all(1) {
        engine.write(entry).unwrap();
    }
    let mut scan = engine.scan(b"", None);
    let mut before = scan.next_batch(20).unwrap();
    let entries: Vec<_> = all(2).collect();
    ingest(&engine, &entries).unwrap();
    let mut after = engine.scan(b"", None);
    for step in 0.. {
        match step {
            1 => engine.flush().unwrap(),
            2 => engine.compact().unwrap(),
            _ => {}
        }
        let batch = scan.next_batch(20).unwrap();
        if batch.is_empty() {
            break;
        }
        before.extend(batch);
    }
    assert_eq!(before, all(1).collect::<Vec<_>>());
    assert_eq!(after.next_batch(1 << 20).unwrap(), entries);
    assert_eq!(scan_all(&engine, "", None), entries);
}

#[test]
fn ingested_versions_are_arrivals() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("m", 50, "v")).unwrap();
    let before = engine.last_sequence();
    ingest(&engine, &[put("a", 90, "v"), put("b", 7, "v")]).unwrap();
    let least_of = |sequence| {
        let changes = engine.changes_since(sequence).unwrap();
        let least = changes.iter().flatten().map(|(_, least)| least.as_u64());
        least.min()
    };
    assert_eq!(least_of(before), Some(7));
    assert_eq!(least_of(engine.last_sequence()), None);
    // The memtable is older than the ingest and flushed later.
    engine.flush().unwrap();
    // Flushes that are so many are remembered together.
    for number in 0..40 {
        engine.write(put("z", 100 + number, "v")).unwrap();
        engine.flush().unwrap();
        assert_eq!(least_of(before), Some(7), "after {number} flushes");
    }
}

/// A version that came with an ingest is not taken for one that arrives now: it was
/// clean when it came, although a newer one is here now.
#[test]
fn the_newer_version_on_an_ingested_version_is_not_that_of_a_first_arrival() {
    for compacts in [false, true] {
        let world = World::new();
        let engine = world.open();
        ingest(&engine, &[put("a", 5, "v")]).unwrap();
        engine.write(put("a", 9, "newer")).unwrap();
        if compacts {
            engine.compact().unwrap();
        }
        let again = engine.write(put("a", 5, "v")).unwrap();
        let newer = Timestamp::from_u64(9);
        assert_eq!(newer_version_of(&again), NewerVersion::Unknown(newer));
        let other = engine.write(put("a", 6, "v")).unwrap();
        assert_eq!(newer_version_of(&other), NewerVersion::At(newer));
        // Once no request asks any more, the tables alone decide.
        world.clock.advance(Duration::from_secs(60));
        engine.write(put("b", 20, "v")).unwrap();
        engine.write(put("b", 19, "v")).unwrap();
    }
}

/// A compaction must not drop a tombstone that hides what was pushed, although no table
/// has it yet.
#[test]
fn an_entry_that_was_pushed_keeps_the_tombstones_that_hide_it() {
    for commits in [false, true] {
        let world = World::new();
        let engine = world.open();
        engine.write(delete("k", 5)).unwrap();
        let admission = Admission::Late {
            gc_threshold: Timestamp::from_u64(10),
            generation: engine.generation(LateSource::RepairWrite),
        };
        let mut ingest = engine.begin_ingest(admission).unwrap();
        ingest.push(&put("k", 3, "dead")).unwrap();
        world.bound.store(10, Relaxed);
        engine.compact().unwrap();
        assert_eq!(scan_all(&engine, "", None).len(), 1);
        if commits {
            ingest.commit().unwrap();
            assert_eq!(read(&engine, "k"), None);
        } else {
            drop(ingest);
        }
        engine.compact().unwrap();
        assert_eq!(
            scan_all(&engine, "", None),
            [],
            "the tombstone goes after it"
        );
    }
}

#[test]
fn the_closed_timestamp_refuses_an_ordinary_ingest_that_began_before_it_rose() {
    for admission in [Admission::Ordinary, common::LATE] {
        let world = World::new();
        let engine = world.open();
        let mut ingest = engine.begin_ingest(admission).unwrap();
        ingest.push(&put("a", 9, "v")).unwrap();
        ingest.push(&put("b", 20, "v")).unwrap();
        engine
            .raise_closed_timestamp(Timestamp::from_u64(10))
            .unwrap();
        let ingested = ingest.commit();
        if admission == common::LATE {
            assert_eq!(ingested.unwrap().records, 2);
        } else {
            assert!(
                matches!(ingested, Err(Error::Obsolete { .. })),
                "{ingested:?}"
            );
            assert_eq!(scan_all(&engine, "", None), []);
            assert_eq!(table_files(&world), 0);
        }
    }
}

#[test]
fn an_ingest_leaves_the_room_that_writes_need() {
    let mut world = World::new();
    world.options.compaction = false;
    let engine = world.open();
    engine.write(put("a", 1, "v")).unwrap();
    world
        .memory
        .set_capacity(world.memory.used_bytes() + (200 << 10));
    let mut ingest = engine.begin_ingest(common::LATE).unwrap();
    let mut pushes = (0..1000).map(|number| {
        let key = format!("{number:04}");
        ingest.push(&put(&key, 1, &long(number, 1000)))
    });
    let full = pushes.find_map(Result::err);
    assert!(matches!(full, Some(Error::DiskFull)), "{full:?}");
    drop(pushes);
    assert!(matches!(ingest.commit(), Err(Error::DiskFull)));
    assert_eq!(table_files(&world), 0);
    assert!(engine.takes_puts());
    let wanted = engine.statistics().room_wanted_bytes.unwrap();
    assert!(
        wanted > 200 << 10,
        "the tables that it has removed count: {wanted}"
    );
    engine.write(put("b", 2, "v")).unwrap();
    // What it wants is there no sooner than the disk has it.
    let give = |bytes: u64| {
        world.memory.set_capacity(world.memory.used_bytes() + bytes);
        engine.look_at_folder().unwrap();
        engine.statistics().room_wanted_bytes
    };
    assert_eq!(give(wanted - 1), Some(wanted));
    assert_eq!(give(wanted), None, "nobody needs to store anything first");
    world.memory.set_capacity(u64::MAX);
    let mut ingest = engine.begin_ingest(common::LATE).unwrap();
    ingest.push(&put("0", 1, "v")).unwrap();
    ingest.commit().unwrap();
    assert_eq!(engine.statistics().room_wanted_bytes, None);
    // On a full disk none begins.
    world.memory.set_capacity(world.memory.used_bytes());
    let refused = engine.write(put("c", 3, &"v".repeat(200_000)));
    assert!(matches!(refused, Err(Error::DiskFull)), "{refused:?}");
    let wanted = engine.statistics().room_wanted_bytes.unwrap();
    assert!(wanted > world.options.disk_reserve_bytes, "{wanted}");
    assert!(matches!(
        engine.begin_ingest(common::LATE),
        Err(Error::DiskFull)
    ));
}

#[test]
fn a_failed_sync_poisons_the_store() {
    for at_commit in [false, true] {
        let world = World::new();
        let engine = world.open();
        let mut ingest = engine.begin_ingest(common::LATE).unwrap();
        ingest.push(&put("a", 1, &long(1, 20_000))).unwrap();
        world.memory.fail_syncs(true);
        let failed = if at_commit {
            ingest.commit().map(drop)
        } else {
            ingest.push(&put("b", 1, &long(2, 20_000)))
        };
        assert!(matches!(failed, Err(Error::Poisoned { .. })), "{failed:?}");
        world.memory.fail_syncs(false);
        assert!(matches!(
            engine.begin_ingest(common::LATE),
            Err(Error::Poisoned { .. })
        ));
        assert_eq!(engine.get(b"a").unwrap(), None);
        drop(engine);
    }
}
