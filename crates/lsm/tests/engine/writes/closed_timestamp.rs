//! The closed timestamp: nothing that is older slips into the store behind it.

use crate::common::{self, CollectedOutcomes, World, delete, put, read, scan_all};
use base::{Entry, Timestamp};
use lsm::{Admission, Disk, Durability, Engine, Error, JobClass, LateSource, Options, Outbox};
use lsm_testing::{BlockingWrite, Call, Ends, Fault, FaultyDisk, waiting::until};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

fn at(timestamp: u64) -> Timestamp {
    Timestamp::from_u64(timestamp)
}

/// The tickets that were refused below `closed_timestamp`, and those that
/// were stored.
#[track_caller]
fn outcomes(collected: &CollectedOutcomes, closed_timestamp: u64) -> (Vec<u64>, Vec<u64>) {
    let (mut refused, mut stored) = (Vec::new(), Vec::new());
    for outcome in collected.take() {
        match outcome.result {
            Ok(_) => stored.push(outcome.ticket),
            Err(Error::Obsolete { below: told }) => {
                assert_eq!(told, at(closed_timestamp));
                refused.push(outcome.ticket);
            }
            Err(error) => unreachable!("{error}"),
        }
    }
    (refused, stored)
}

fn is_obsolete(written: Result<lsm::Applied, Error>) -> bool {
    match written {
        Ok(_) => false,
        Err(Error::Obsolete { .. }) => true,
        Err(error) => unreachable!("{error}"),
    }
}

#[test]
fn writes_that_wait_when_the_closed_timestamp_rises_are_refused_below_it() {
    let world = World::new();
    let engine = world.open();
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    // Synced commits wait for the commit job.
    for timestamp in [50, 49, 10] {
        let entry = put(&format!("k{timestamp}"), timestamp, "v");
        engine.submit(entry, &outbox, timestamp).unwrap();
    }
    engine.raise_closed_timestamp(at(50)).unwrap();
    assert!(scan_all(&engine, "", None).is_empty(), "they still wait");
    world.executor.run_class(JobClass::Commit);
    assert_eq!(outcomes(&collected, 50), (vec![10, 49], vec![50]));
    assert_eq!(read(&engine, "k49"), None);
    assert_eq!(read(&engine, "k50").as_deref(), Some("v"));

    // A group of nothing else leaves no trace in the log either.
    engine.submit(put("k1", 1, "v"), &outbox, 1).unwrap();
    let written = engine.statistics().log_written_bytes;
    world.executor.run_class(JobClass::Commit);
    assert_eq!(outcomes(&collected, 50), (vec![1], vec![]));
    assert_eq!(engine.statistics().log_written_bytes, written);
}

#[test]
fn late_writes_pass_the_closed_timestamp() {
    let engine = World::new().open();
    engine.raise_closed_timestamp(at(50)).unwrap();
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    let writes = [
        (put("a", 10, "late"), common::LATE, 0),
        (put("b", 10, "late"), Admission::Ordinary, 1),
        (delete("c", 49), common::LATE, 2),
        (put("d", 50, "new"), Admission::Ordinary, 3),
    ];
    engine.submit_batch(writes, &outbox);
    engine.close().unwrap();
    assert_eq!(outcomes(&collected, 50), (vec![1], vec![0, 2, 3]));
    let kept: Vec<_> = scan_all(&engine, "", None)
        .iter()
        .map(|entry| entry.key()[0])
        .collect();
    assert_eq!(kept, b"acd");
}

const ALL: &[LateSource] = &[LateSource::RepairWrite, LateSource::ReadRepair];

/// A late write of a source, with the generation that the store has now.
fn late_from(engine: &Engine, source: LateSource) -> Admission {
    Admission::Late {
        gc_threshold: Timestamp::ZERO,
        generation: engine.generation(source),
    }
}

fn late(engine: &Engine) -> Admission {
    late_from(engine, LateSource::RepairWrite)
}

/// The tickets of the writes that were refused as too many, and of those that were stored.
#[track_caller]
fn overloaded(collected: &CollectedOutcomes) -> (Vec<u64>, Vec<u64>) {
    let (mut refused, mut stored) = (Vec::new(), Vec::new());
    for outcome in collected.take() {
        match outcome.result {
            Ok(_) => stored.push(outcome.ticket),
            Err(Error::Overloaded) => refused.push(outcome.ticket),
            Err(error) => unreachable!("{error}"),
        }
    }
    (refused, stored)
}

#[test]
fn late_writes_of_an_earlier_generation_are_refused_below_the_closed_timestamp() {
    let world = World::new();
    let engine = world.open();
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    let before = late(&engine);
    let put_at = |timestamp: u64| put(&format!("k{timestamp}"), timestamp, "v");
    let submit = |timestamp, admission| {
        engine.submit_batch([(put_at(timestamp), admission, timestamp)], &outbox);
    };
    // These wait in the queue, and the next one on its way to it.
    submit(49, before);
    submit(50, before);
    engine.raise_closed_timestamp(at(50)).unwrap();
    engine.begin_generation(ALL).unwrap();
    let seen = scan_all(&engine, "", None);
    submit(10, before);
    submit(11, late(&engine));
    world.executor.run_until_idle();
    assert_eq!(overloaded(&collected), (vec![10, 49], vec![11, 50]));
    let mut now = scan_all(&engine, "", None);
    now.retain(|entry| *entry != put_at(11) && *entry != put_at(50));
    assert_eq!(now, seen);

    // The closed timestamp may be there already.
    submit(20, late(&engine));
    engine.raise_closed_timestamp(at(40)).unwrap();
    engine.begin_generation(ALL).unwrap();
    world.executor.run_until_idle();
    assert_eq!(overloaded(&collected), (vec![20], vec![]));
}

#[test]
fn a_new_generation_refuses_the_late_writes_of_its_sources_alone() {
    let world = World::new();
    let engine = world.open();
    engine.raise_closed_timestamp(at(50)).unwrap();
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    for (raised, refused) in [
        (&[LateSource::ReadRepair][..], vec![2]),
        (&[LateSource::RepairWrite], vec![1]),
        (ALL, vec![1, 2]),
        (&[], vec![]),
    ] {
        let admitted = [(1, LateSource::RepairWrite), (2, LateSource::ReadRepair)];
        let admitted = admitted.map(|(ticket, source)| (ticket, late_from(&engine, source)));
        engine.begin_generation(raised).unwrap();
        for (ticket, admission) in admitted {
            engine.submit_batch([(put("k", 10, "v"), admission, ticket)], &outbox);
        }
        world.executor.run_until_idle();
        assert_eq!(overloaded(&collected).0, refused, "{raised:?}");
    }
}

/// Writers that are held back keep late writes waiting for as long as that lasts.
#[test]
fn a_late_write_beside_a_stalled_writer_does_not_come_in_after_a_new_generation() {
    let mut world = World::new();
    world.options.memtables_frozen_max = 1;
    let engine = world.open();
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    let mut number = 1_000;
    while engine.statistics().stalls == 0 {
        number += 1;
        let entry = put(&number.to_string(), number, &"v".repeat(100));
        engine.submit(entry, &outbox, number).unwrap();
        // Longer than any slowdown.
        world.clock.advance(Duration::from_millis(25));
        world.executor.run_class(JobClass::Commit);
    }
    engine.submit_batch([(put("old", 10, "v"), late(&engine), 0)], &outbox);
    engine.raise_closed_timestamp(at(50)).unwrap();
    engine.begin_generation(ALL).unwrap();
    assert_eq!(read(&engine, "old"), None);
    world.executor.run_until_idle();
    let (refused, stored) = overloaded(&collected);
    assert_eq!(refused, [0]);
    assert_eq!(stored.last(), Some(&number));
    assert_eq!(read(&engine, "old"), None);
}

#[test]
fn an_ingest_of_an_earlier_generation_is_refused_whole() {
    let engine = World::new().open();
    engine.raise_closed_timestamp(at(50)).unwrap();
    let ingest = |timestamp, admission| {
        let mut ingest = engine.begin_ingest(admission)?;
        ingest.push(&put("k", timestamp, "v"))?;
        ingest.commit()
    };
    let before = late(&engine);
    engine.begin_generation(ALL).unwrap();
    let refused = ingest(49, before);
    assert!(matches!(refused, Err(Error::Overloaded)), "{refused:?}");
    assert_eq!(read(&engine, "k"), None);
    for (timestamp, admission) in [(49, late(&engine)), (50, before)] {
        ingest(timestamp, admission).unwrap();
    }
    engine.close().unwrap();
    assert!(matches!(engine.begin_generation(ALL), Err(Error::Closed)));
}

#[test]
fn a_closed_timestamp_never_goes_back() {
    let engine = World::new().open();
    for (closed_timestamp, in_force) in [(50, 50), (40, 50), (0, 50), (60, 60)] {
        engine.raise_closed_timestamp(at(closed_timestamp)).unwrap();
        assert!(is_obsolete(engine.write(put("k", in_force - 1, "v"))));
        assert!(!is_obsolete(engine.write(put("k", in_force, "v"))));
    }
    engine.close().unwrap();
    assert!(matches!(
        engine.raise_closed_timestamp(at(70)),
        Err(Error::Closed)
    ));
}

#[test]
fn a_restart_replays_what_is_older_and_refuses_what_comes() {
    let mut world = World::new();
    let engine = world.open();
    engine.write(put("old", 10, "v")).unwrap();
    engine.raise_closed_timestamp(at(50)).unwrap();
    // Not closed: the log is replayed.
    drop(engine);
    world.options = Options {
        closed_timestamp: at(50),
        ..world.options
    };
    let (engine, report) = world.try_open().unwrap();
    assert_eq!(report.entries_replayed, 1);
    assert_eq!(read(&engine, "old").as_deref(), Some("v"));
    assert!(is_obsolete(engine.write(put("late", 49, "v"))));
    assert!(!is_obsolete(engine.write(put("new", 50, "v"))));
}

/// Its log may hold a write that no scan sees and that a restart brings back: a
/// pass would miss it.
#[test]
fn a_poisoned_store_takes_no_closed_timestamp() {
    let mut world = World::new();
    let disk = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&disk) as _;
    let engine = world.open();
    disk.arm(Fault::at(0, io::ErrorKind::Other).only(|call, _| call == Call::Sync));
    engine.write(put("k", 10, "v")).unwrap_err();
    for raised in [
        engine.raise_closed_timestamp(at(50)),
        engine.begin_generation(ALL),
    ] {
        assert!(matches!(raised, Err(Error::Poisoned { .. })), "{raised:?}");
    }
    assert_eq!(read(&engine, "k"), None);
    drop(engine);
    world.disk = Arc::clone(&world.memory) as Arc<dyn Disk>;
    assert_eq!(read(&world.open(), "k").as_deref(), Some("v"));
}

/// Threads write below the closed timestamp while it rises. What a scan sees behind the closed
/// timestamp is all that there will ever be.
#[test]
fn nothing_older_appears_after_the_closed_timestamp_has_risen() {
    for round in 0..20 {
        let mut world = World::new();
        world.options.durability = Durability::Os;
        world.options.memtable_bytes = 64 << 10;
        let engine = world.open();
        let is_over = AtomicBool::new(false);
        let writer = |thread: u64| {
            let mut number = 0;
            while !is_over.load(SeqCst) {
                let key = format!("{thread}-{number}");
                // Every second write is above the closed timestamp.
                let timestamp = 1 + number + number % 2 * 1_000_000;
                let _refused_or_stored = engine.write(put(&key, timestamp, "v"));
                number += 1;
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let writer = &writer;
                scope.spawn(move || writer(thread));
            }
            let _ends = Ends(&is_over);
            until("the first writes", || engine.last_sequence() >= 100 + round);
            engine.raise_closed_timestamp(at(1_000_000)).unwrap();
            let seen = below(&engine, 1_000_000);
            let sequence = engine.last_sequence();
            until("writes above the closed timestamp", || {
                engine.last_sequence() >= sequence + 100
            });
            is_over.store(true, SeqCst);
            assert_eq!(below(&engine, 1_000_000), seen);
        });
    }
}

fn below(engine: &Engine, bound: u64) -> Vec<Entry> {
    let mut all = scan_all(engine, "", None);
    all.retain(|entry| entry.timestamp() < at(bound));
    all
}
