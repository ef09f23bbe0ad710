//! An old version does not come in behind the compaction that has dropped its tombstone.

use crate::common::{CollectedOutcomes, World, delete, put, read, scan_all, table_files};
use base::Timestamp;
use lsm::{Admission, Durability, Engine, Error, Generation, JobClass, LateSource, Outbox};
use lsm_testing::{BlockingWrite, Ends};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

fn at(timestamp: u64) -> Timestamp {
    Timestamp::from_u64(timestamp)
}

/// A late write that was admitted under this GC threshold.
fn late(gc_threshold: u64) -> Admission {
    Admission::Late {
        gc_threshold: at(gc_threshold),
        generation: Generation::first(LateSource::RepairWrite),
    }
}

/// A store that has had a tombstone of "a" with the timestamp 60. `bound` is the GC threshold
/// of its last compaction.
fn deleted(world: &World, bound: u64) -> Engine {
    let engine = world.open();
    engine.write(delete("a", 60)).unwrap();
    engine.write(put("b", 70, "v")).unwrap();
    world.bound.store(bound, Relaxed);
    engine.compact().unwrap();
    engine
}

/// Submits a put of "a", commits it, and says what it was refused with.
#[track_caller]
fn refusal(engine: &Engine, timestamp: u64, admission: Admission) -> Option<Timestamp> {
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    engine.submit_batch([(put("a", timestamp, "old"), admission, 0)], &outbox);
    engine.write(put("c", 1 << 40, "v")).unwrap();
    match &collected.take()[0].result {
        Ok(_) => None,
        Err(Error::Obsolete {
            below: closed_timestamp,
        }) => Some(*closed_timestamp),
        Err(error) => unreachable!("{error}"),
    }
}

#[test]
fn a_late_write_that_was_admitted_before_the_bound_rose_is_refused_below_it() {
    // The bound of the compaction, the timestamp, the bound at the admission.
    let cases = [
        (100, 50, late(0), Some(100)),
        (100, 99, late(99), Some(100)),
        (100, 100, late(0), None),
        // A store that lacks something is filled below its own bound.
        (100, 50, late(100), None),
        (100, 50, late(120), None),
        (0, 50, late(0), None),
        // The owner has promised that there are none below: this one was on its way.
        (100, 50, Admission::Ordinary, None),
    ];
    for (bound, timestamp, admission, refused_below) in cases {
        let world = World::new();
        let engine = deleted(&world, bound);
        let is_gone = scan_all(&engine, "a", Some("b")).is_empty();
        assert_eq!(is_gone, bound > 60);
        let refused = refusal(&engine, timestamp, admission);
        assert_eq!(refused, refused_below.map(at), "{timestamp} {admission:?}");
        assert_eq!(
            read(&engine, "a").is_some(),
            refused_below.is_none() && bound > 60
        );
    }
}

#[test]
fn the_bound_never_goes_back() {
    let world = World::new();
    let engine = deleted(&world, 100);
    world.bound.store(40, Relaxed);
    engine.compact().unwrap();
    assert_eq!(refusal(&engine, 50, late(40)), Some(at(100)));
    // What the compaction may drop does not go back either.
    engine.write(delete("d", 90)).unwrap();
    engine.compact().unwrap();
    assert!(scan_all(&engine, "d", None).is_empty());
}

#[test]
fn a_closed_timestamp_and_a_bound_refuse_each_their_own() {
    let world = World::new();
    let engine = deleted(&world, 100);
    engine.raise_closed_timestamp(at(200)).unwrap();
    assert_eq!(refusal(&engine, 150, Admission::Ordinary), Some(at(200)));
    assert_eq!(refusal(&engine, 50, late(0)), Some(at(100)));
    assert_eq!(refusal(&engine, 150, late(0)), None);
}

/// It was submitted before the compaction began, so its tombstone stays, although it is
/// refused in the end.
#[test]
fn a_tombstone_stays_while_a_late_write_waits_that_it_hides() {
    let world = World::new();
    let engine = deleted(&world, 0);
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    engine.submit_batch([(put("a", 50, "old"), late(0), 0)], &outbox);
    world.bound.store(100, Relaxed);
    engine.order_compaction().unwrap();
    world.executor.run_class(JobClass::Compaction);
    assert_eq!(engine.whole_compaction().ended, 2);
    world.executor.run_class(JobClass::Commit);
    assert!(collected.take()[0].result.is_err());
    assert_eq!(read(&engine, "a"), None);
    assert_eq!(scan_all(&engine, "", None)[0], delete("a", 60));
}

#[test]
fn an_ingest_that_began_before_the_bound_rose_is_refused_whole() {
    // Pushed before the compaction, or after it.
    for is_pushed_before in [true, false] {
        let world = World::new();
        let engine = deleted(&world, 0);
        let mut ingest = engine.begin_ingest(late(0)).unwrap();
        let old = put("a", 50, "old");
        if is_pushed_before {
            ingest.push(&old).unwrap();
        }
        world.bound.store(100, Relaxed);
        engine.compact().unwrap();
        let is_gone = scan_all(&engine, "a", Some("b")).is_empty();
        assert_eq!(is_gone, !is_pushed_before);
        if !is_pushed_before {
            ingest.push(&old).unwrap();
        }
        ingest.push(&put("d", 500, "new")).unwrap();
        let committed = ingest.commit();
        assert!(
            matches!(committed, Err(Error::Obsolete { below: closed_timestamp }) if closed_timestamp == at(100)),
            "{committed:?}"
        );
        assert_eq!(read(&engine, "a"), None);
        assert_eq!(read(&engine, "d"), None);
        let live: u64 = engine.statistics().levels.iter().map(|it| it.tables).sum();
        assert_eq!(table_files(&world) as u64, live);
    }
    let world = World::new();
    let engine = deleted(&world, 100);
    let mut ingest = engine.begin_ingest(late(100)).unwrap();
    ingest.push(&put("a", 50, "filled")).unwrap();
    ingest.commit().unwrap();
    assert_eq!(read(&engine, "a").as_deref(), Some("filled"));
}

/// Late writes are admitted and then wait, while the bound rises and compactions drop the
/// tombstones that hide them.
#[test]
fn late_writes_and_compactions_beside_each_other_bring_nothing_back() {
    const KEYS: u64 = 20;
    const ROUNDS: u64 = 60;
    let mut world = World::new();
    world.options.durability = Durability::Os;
    let engine = world.open();
    let key = |number: u64| format!("{number:03}");
    let is_over = AtomicBool::new(false);
    // The owner's bound: versions below it are not admitted.
    let admits_from = AtomicU64::new(0);
    let rewriter = |thread: u64| {
        let mut random = fastrand::Rng::with_seed(thread);
        while !is_over.load(SeqCst) {
            let bound = admits_from.load(SeqCst);
            let number = random.u64(..KEYS);
            // The put that the tombstone of some round hides.
            let timestamp = random.u64(..ROUNDS) * 100 + number;
            if timestamp < bound {
                continue;
            }
            for _ in 0..random.u64(..50) {
                std::thread::yield_now();
            }
            let old = put(&key(number), timestamp, "old");
            let collected: Arc<dyn Outbox> = Arc::new(CollectedOutcomes::default());
            if random.bool() {
                engine.submit_batch([(old, late(bound), 0)], &collected);
            } else {
                let mut ingest = engine.begin_ingest(late(bound)).unwrap();
                ingest.push(&old).unwrap();
                let _refused_or_stored = ingest.commit();
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let rewriter = &rewriter;
            scope.spawn(move || rewriter(thread));
        }
        let _ends = Ends(&is_over);
        for round in 0..ROUNDS {
            for number in 0..KEYS {
                let deleted = delete(&key(number), round * 100 + 50);
                engine.write(deleted).unwrap();
            }
            let bound = (round + 1) * 100;
            admits_from.store(bound, SeqCst);
            world.bound.store(bound, SeqCst);
            engine.compact().unwrap();
        }
    });
    // Commits what waits.
    engine.write(put("last", 1 << 40, "v")).unwrap();
    for number in 0..KEYS {
        assert_eq!(read(&engine, &key(number)), None, "key {number} is back");
    }
}
