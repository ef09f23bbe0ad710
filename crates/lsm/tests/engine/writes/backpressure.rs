//! How writers fare when background work falls behind or fails.

use crate::common::{CollectedOutcomes, World, put, read};
use lsm::{Durability, Error, JobClass, Options, Outbox};
use lsm_testing::{BlockingWrite, Call, Fault, FaultyDisk};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

/// Every write that waits when the store is poisoned gets that error, whatever it waits
/// for.
#[test]
fn a_poison_ends_every_wait() {
    for durability in [
        Durability::Sync,
        Durability::Interval(Duration::from_millis(5)),
    ] {
        for class_first in JobClass::ALL {
            let mut world = World::new();
            world.options.memtables_frozen_max = 1;
            world.options.durability = durability;
            let engine = world.open();
            let collected = Arc::new(CollectedOutcomes::default());
            let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
            let mut submitted = 0;
            for number in 1..=400 {
                let entry = put(&format!("{number:03}"), number, &"v".repeat(100));
                if engine.submit(entry, &outbox, number).is_ok() {
                    submitted += 1;
                }
                // Longer than any slowdown.
                world.clock.advance(Duration::from_millis(25));
                world.executor.run_class(JobClass::Commit);
            }
            assert!(engine.statistics().stalls > 0);
            assert!(collected.count() < submitted, "some wait");
            world.memory.fail_syncs(true);
            world.clock.advance(Duration::from_secs(1));
            world.executor.run_class(class_first);
            world.executor.run_until_idle();
            assert!(engine.statistics().poisoned.is_some());
            assert_eq!(collected.count(), submitted, "{class_first:?} first");
        }
    }
}

/// The same for a wait that a flush cannot end.
#[test]
fn a_poison_ends_a_wait_for_compaction() {
    let mut world = World::new();
    world.options.memtable_bytes = 1024;
    world.options.durability = Durability::Interval(Duration::from_secs(3600));
    let engine = world.open();
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    let mut number = 0;
    while collected.count() == number {
        number += 1;
        let entry = put(&format!("{number:04}"), number, &"v".repeat(300));
        engine.submit(entry, &outbox, number).unwrap();
        for class in [JobClass::Commit, JobClass::Flush, JobClass::Commit] {
            world.clock.advance(Duration::from_millis(25));
            world.executor.run_class(class);
        }
        assert!(number < 1_000, "level 0 never stalls the writers");
    }
    assert_eq!(engine.statistics().memtables_frozen, 0);
    world.memory.fail_syncs(true);
    world.clock.advance(Duration::from_secs(3600));
    // The interval sync fails, and nothing is left to flush.
    world.executor.run_class(JobClass::Log);
    assert!(engine.statistics().poisoned.is_some());
    for _ in 0..2 {
        // The second job comes after a slowdown.
        world.executor.run_class(JobClass::Commit);
        world.clock.advance(Duration::from_millis(25));
    }
    assert_eq!(collected.count(), number);
}

#[test]
fn a_failed_sync_of_a_segment_made_ahead_poisons() {
    let mut world = World::new();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = world.open();
    engine.write(put("a", 1, "v")).unwrap();
    let is_sync_of_a_segment = |call, path: &std::path::Path| {
        call == Call::Sync && path.extension().is_some_and(|kind| kind == "wal")
    };
    faulty.arm(Fault::at(0, ErrorKind::Other).only(is_sync_of_a_segment));
    world.executor.run_class(JobClass::Log);
    assert_eq!(faulty.failed(), 1);
    assert!(matches!(
        engine.write(put("b", 2, "v")),
        Err(Error::Poisoned { .. })
    ));
    assert_eq!(read(&engine, "a"), Some("v".into()));
}

#[test]
fn the_same_entry_again_and_again_does_not_grow_the_log() {
    let world = World::new();
    let engine = world.open();
    for _ in 0..2_000 {
        engine.write(put("k", 7, &"v".repeat(100))).unwrap();
        world.executor.run_all_due();
    }
    let statistics = engine.statistics();
    assert!(statistics.log_written_bytes > 200_000);
    let bound = 4 * world.options.memtable_bytes as u64;
    assert!(statistics.log_bytes <= bound, "{}", statistics.log_bytes);
}

#[test]
fn long_values_count_by_their_bytes_against_the_frozen_memtables() {
    let mut world = World::new();
    world.options.memtables_frozen_max = 4;
    let engine = world.open();
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    for number in 1..=10 {
        let value = "v".repeat(3 * world.options.memtable_bytes);
        engine
            .submit(put("k", number, &value), &outbox, number)
            .unwrap();
        world.executor.run_class(JobClass::Commit);
    }
    let statistics = engine.statistics();
    assert!(statistics.memtables_frozen <= 2, "{statistics:?}");
    world.executor.run_until_idle();
    assert_eq!(collected.count(), 10);
}

/// The log is filled at a bounded pace, however many segments begin meanwhile.
#[test]
fn one_fill_of_the_log_is_scheduled_at_a_time() {
    let mut world = World::new();
    world.options.memtable_bytes = 4 << 20;
    let engine = world.open();
    for number in 1..=5 {
        engine.write(put("k", number, "v")).unwrap();
        engine.flush().unwrap();
        world.executor.run_class(JobClass::Log);
    }
    for _ in 0..3 {
        world.clock.advance(Duration::from_millis(10));
        assert_eq!(world.executor.run_class(JobClass::Log), 1);
    }
}

#[test]
fn options_that_cannot_work_are_refused() {
    let refused = |change: fn(&mut Options)| {
        let mut world = World::new();
        change(&mut world.options);
        matches!(world.try_open(), Err(Error::Invalid(_)))
    };
    assert!(refused(|options| options.memtable_bytes = 0));
    assert!(refused(|options| options.memtables_frozen_max = 0));
    assert!(refused(|options| options.block_bytes = 0));
    assert!(refused(|options| options.table_bytes = 0));
    assert!(refused(
        |options| options.filter_false_positive_rate = Some(1.0)
    ));
    assert!(refused(
        |options| options.filter_false_positive_rate = Some(f64::NAN)
    ));
    assert!(!refused(|options| options.filter_false_positive_rate = None));
}
