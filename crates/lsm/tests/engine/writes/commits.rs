//! Group commit: visibility, sharing of syncs, bounds, ties, reopening.

use crate::common::{self, CollectedOutcomes, World, delete, put, read};
use base::Expiry;
use lsm::{Admission, Durability, Engine, Error, Lookup, Outbox};
use lsm_testing::BlockingWrite;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn writes_that_wait_together_share_one_sync_and_one_delivery() {
    let world = World::new();
    let engine = world.open();
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    let syncs = engine.statistics().log_syncs;
    for ticket in 0..10 {
        engine
            .submit(put(&format!("k{ticket}"), ticket + 1, "v"), &outbox, ticket)
            .unwrap();
    }
    assert_eq!(
        engine.get_cached(b"k0").unwrap(),
        Lookup::Found(None),
        "not stored yet"
    );
    world.executor.run_until_idle();
    assert_eq!(engine.statistics().log_syncs - syncs, 1);
    let deliveries = collected.take_deliveries();
    assert_eq!(deliveries.len(), 1);
    let tickets: BTreeSet<_> = deliveries[0].iter().map(|outcome| outcome.ticket).collect();
    assert_eq!(tickets, (0..10).collect());
    assert!(deliveries[0].iter().all(|outcome| outcome.result.is_ok()));
    assert_eq!(read(&engine, "k9"), Some("v".into()));
}

/// A store whose groups are counted.
struct Groups {
    world: World,
    engine: Engine,
    collected: Arc<CollectedOutcomes>,
    timestamp: Cell<u64>,
}

impl Groups {
    fn new() -> Self {
        let mut world = World::new();
        world.options.memtable_bytes = 64 << 20;
        world.options.write_queue_bytes_max = 64 << 20;
        Self {
            engine: world.open(),
            world,
            collected: Arc::default(),
            timestamp: Cell::new(0),
        }
    }

    /// Submits writes of this value, and runs what is due: time stands still.
    fn submit_values(&self, count: usize, value: &str) {
        let outbox: Arc<dyn Outbox> = Arc::clone(&self.collected) as _;
        for _ in 0..count {
            self.timestamp.update(|before| before + 1);
            let entry = put("k", self.timestamp.get(), value);
            let submitted = self.engine.submit(entry, &outbox, 0);
            assert!(submitted.is_ok(), "{submitted:?}");
        }
        self.world.executor.run_all_due();
    }

    fn submit(&self, count: usize) {
        self.submit_values(count, "v");
    }

    fn run_for(&self, time: Duration) {
        self.world.executor.run_for(time);
    }

    /// The lengths of the groups since the last call.
    fn taken(&self) -> Vec<usize> {
        let deliveries = self.collected.take_deliveries();
        deliveries.iter().map(Vec::len).collect()
    }
}

/// After a group the next one gathers until as many writes wait, or its time is over.
#[test]
fn a_group_gathers_under_load_until_it_is_as_large_as_the_one_before() {
    let groups = Groups::new();
    let gather_max = Duration::from_micros(400);
    // Small groups do not gather.
    groups.submit(1);
    groups.submit(3);
    groups.submit(1);
    assert_eq!(groups.taken(), [1, 3, 1]);
    // The next group waits for five writes, and is committed once they are there.
    groups.submit(5);
    groups.submit(4);
    assert_eq!(groups.taken(), [5]);
    groups.submit(1);
    assert_eq!(groups.taken(), [5]);
    // Its time ends with its own span, not with the span of the group before.
    groups.run_for(gather_max / 2);
    groups.submit(5);
    groups.submit(4);
    groups.run_for(gather_max / 2);
    assert_eq!(groups.taken(), [5]);
    groups.run_for(gather_max / 2);
    assert_eq!(groups.taken(), [4]);
    // However large a group was, the next one waits for 64 writes at most.
    groups.submit(100);
    groups.submit(63);
    assert_eq!(groups.taken(), [100]);
    groups.submit(1);
    assert_eq!(groups.taken(), [64]);
    // A few long writes are enough, too.
    let long = "v".repeat(3 << 20);
    groups.submit_values(2, &long);
    assert_eq!(groups.taken().len(), 2, "of four mebibytes at most");
    // If no write comes, the time ends the gathering.
    groups.run_for(Duration::from_micros(1500));
    groups.submit(1);
    assert_eq!(groups.taken(), [1]);
}

/// Writes that come at a rate of their own do not wait for as many as once came together.
#[test]
fn a_group_gathers_for_long_only_while_writes_come_fast() {
    let groups = Groups::new();
    let nanosecond = Duration::from_nanos(1);
    // Of 40 writes, one every 33.3 us takes 1.3 ms.
    for (cycle, gathers_for) in [(1_340, 400), (1_320, 1500)] {
        groups.run_for(Duration::from_millis(10));
        groups.submit(40);
        groups.run_for(Duration::from_micros(cycle));
        assert_eq!(groups.taken(), [40]);
        groups.submit(40);
        groups.submit(39);
        assert_eq!(groups.taken(), [40]);
        groups.run_for(Duration::from_micros(gathers_for) - nanosecond);
        assert_eq!(groups.taken(), [0; 0]);
        groups.run_for(nanosecond);
        assert_eq!(groups.taken(), [39]);
    }
}

/// Where a commit costs no sync, the submitting thread makes it, unless it is long or a
/// commit job is scheduled.
#[test]
fn without_a_sync_a_small_write_is_committed_in_place() {
    for durability in [
        Durability::Os,
        Durability::Interval(Duration::from_millis(10)),
    ] {
        let mut world = World::new();
        world.options.durability = durability;
        world.options.memtable_bytes = 1 << 20;
        let engine = world.open();
        let collected = Arc::new(CollectedOutcomes::default());
        let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
        let groups = || {
            collected
                .take_deliveries()
                .iter()
                .map(Vec::len)
                .collect::<Vec<_>>()
        };
        engine.submit(put("a", 1, "v"), &outbox, 0).unwrap();
        assert_eq!(groups(), [1], "at once");
        assert_eq!(read(&engine, "a"), Some("v".into()));
        engine.submit_batch(
            (2..5).map(|timestamp| (put("b", timestamp, "v"), Admission::Ordinary, timestamp)),
            &outbox,
        );
        assert_eq!(groups(), [3], "together");

        let long = "v".repeat(100_000);
        engine.submit(put("c", 5, &long), &outbox, 0).unwrap();
        engine.submit(put("d", 6, "v"), &outbox, 0).unwrap();
        assert!(
            groups().is_empty(),
            "a later write does not overtake the long one"
        );
        world.executor.run_class(lsm::JobClass::Commit);
        assert_eq!(groups(), [2]);
        engine.submit(put("e", 7, "v"), &outbox, 0).unwrap();
        assert_eq!(groups(), [1], "the long one is committed");

        // After the interval's sync of the log, writes are committed in place again.
        world.executor.run_for(Duration::from_millis(10));
        engine.submit(put("f", 8, "v"), &outbox, 0).unwrap();
        assert_eq!(groups(), [1]);

        engine.close().unwrap();
        let refused = engine.submit(put("g", 9, "v"), &outbox, 0);
        assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
        assert!(groups().is_empty());
        drop(engine);
        let kept = common::scan_all(&world.open(), "", None);
        assert_eq!(kept.len(), 6);
    }
}

/// A full memtable is left to the commit job, because a freeze syncs the log.
#[test]
fn a_write_that_needs_a_fresh_memtable_is_not_committed_in_place() {
    let mut world = World::new();
    world.options.durability = Durability::Os;
    let engine = world.open();
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    let mut timestamp = 0;
    while collected.count() == timestamp {
        timestamp += 1;
        engine
            .submit(put("k", timestamp, "v"), &outbox, timestamp)
            .unwrap();
        assert!(timestamp < 1_000, "the memtable takes 8 KiB");
    }
    assert_eq!(engine.statistics().memtables_frozen, 0);
    world.executor.run_class(lsm::JobClass::Commit);
    assert_eq!(engine.statistics().memtables_frozen, 1);
    assert_eq!(collected.count(), timestamp);
}

/// A reader does not see a write whose sync has not ended.
#[test]
fn a_write_is_invisible_until_it_is_synced() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 1, "old")).unwrap();
    world.memory.fail_syncs(true);
    assert!(engine.write(put("a", 2, "new")).is_err());
    assert_eq!(read(&engine, "a"), Some("old".into()));
}

#[test]
fn threads_that_write_at_once_share_groups() {
    let world = World::new();
    let engine = world.open();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let engine = engine.clone();
            scope.spawn(move || {
                for number in 0..200 {
                    engine
                        .write(put(&format!("{thread}-{number}"), number + 1, "v"))
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(common::scan_all(&engine, "", None).len(), 800);
    assert_eq!(engine.statistics().writes, 800);
    drop(engine);
    assert_eq!(common::scan_all(&world.open(), "", None).len(), 800);
}

#[test]
fn the_queue_is_bounded() {
    let mut world = World::new();
    world.options.write_queue_bytes_max = 2_000;
    let engine = world.open();
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    let mut taken = 0;
    let refused = loop {
        match engine.submit(put("k", taken + 1, &"v".repeat(100)), &outbox, taken) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 100);
    };
    assert!(matches!(refused, Error::Overloaded), "{refused}");
    assert_eq!(engine.statistics().refused_overloaded, 1);
    world.executor.run_until_idle();
    assert_eq!(collected.count(), taken);
    engine.submit(put("k", 1_000, "v"), &outbox, 7).unwrap();
    // An entry that is larger than the whole bound is accepted if no other write waits.
    world.executor.run_until_idle();
    engine
        .submit(put("k", 1_001, &"v".repeat(5_000)), &outbox, 8)
        .unwrap();
}

#[test]
fn writers_are_slowed_then_wait_for_the_flush() {
    let mut world = World::new();
    world.options.memtables_frozen_max = 1;
    world.options.write_queue_bytes_max = 1 << 20;
    let engine = world.open();
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    for ticket in 0..300 {
        engine
            .submit(
                put(&format!("{ticket:03}"), ticket + 1, &"v".repeat(100)),
                &outbox,
                ticket,
            )
            .unwrap();
        world.executor.run_class(lsm::JobClass::Commit);
        world.clock.advance(Duration::from_millis(1));
    }
    let statistics = engine.statistics();
    assert!(statistics.slowdowns > 0, "{statistics:?}");
    assert!(statistics.stalls > 0, "{statistics:?}");
    assert!(collected.count() < 300, "no flush has run, so some wait");
    assert_eq!(statistics.memtables_frozen, 1);
    world.executor.run_until_idle();
    assert_eq!(collected.count(), 300);
    assert!(
        collected
            .take()
            .iter()
            .all(|outcome| outcome.result.is_ok())
    );
}

#[test]
fn ties_are_broken_by_the_rule_wherever_the_versions_lie() {
    let value = |value: &str, expiry: u64, copies| {
        let expiry = if expiry == 0 {
            Expiry::NEVER
        } else {
            Expiry::at_unix_ms(expiry)
        };
        base::Entry::value(
            b"k",
            base::Timestamp::from_u64(5),
            value.as_bytes(),
            expiry,
            copies,
        )
    };
    // From the loser to the winner: number of copies, value, expiry, tombstone, timestamp.
    let ladder = [
        value("a", 9_000_000, 3),
        value("b", 9_000_000, 1),
        value("b", 9_000_000, 2),
        value("a", 9_500_000, 1),
        value("a", 0, 1),
        value("ab", 0, 1),
        value("b", 0, 1),
        delete("k", 5),
        put("k", 6, ""),
    ];
    for winner in 0..ladder.len() {
        for loser in 0..winner {
            for (first, second) in [(winner, loser), (loser, winner)] {
                for flushes in 0..3 {
                    let world = World::new();
                    let engine = world.open();
                    engine.write(ladder[first].clone()).unwrap();
                    if flushes > 0 {
                        engine.flush().unwrap();
                    }
                    engine.write(ladder[second].clone()).unwrap();
                    if flushes > 1 {
                        engine.compact().unwrap();
                    }
                    let found = engine.get(b"k").unwrap();
                    assert_eq!(
                        found.as_ref(),
                        Some(&ladder[winner]),
                        "{first} then {second}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_greatest_timestamp_survives_restart_and_dropped_tombstones() {
    let world = World::new();
    world
        .bound
        .store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    let engine = world.open();
    engine.write(delete("k", 900)).unwrap();
    engine.compact().unwrap();
    assert_eq!(common::scan_all(&engine, "", None), []);
    drop(engine);
    assert_eq!(world.open().greatest_timestamp().as_u64(), 900);
}

#[test]
fn interval_durability_syncs_within_the_interval() {
    let mut world = World::new();
    world.options.durability = Durability::Interval(Duration::from_millis(100));
    let engine = world.open();
    engine.write(put("a", 1, "v")).unwrap();
    assert_eq!(read(&engine, "a"), Some("v".into()), "acknowledged at once");
    let lost = World::on(Arc::new(world.memory.clone_synced()));
    assert_eq!(read(&lost.open(), "a"), None, "not synced yet");
    world.executor.run_for(Duration::from_millis(101));
    let kept = World::on(Arc::new(world.memory.clone_synced()));
    assert_eq!(read(&kept.open(), "a"), Some("v".into()));
}

#[test]
fn a_closed_store_refuses_writes_and_reopens_without_replay() {
    let world = World::new();
    let engine = world.open();
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    engine.submit(put("a", 1, "v"), &outbox, 0).unwrap();
    engine.close().unwrap();
    assert_eq!(collected.count(), 1, "the submitted write was stored");
    assert!(matches!(engine.write(put("b", 2, "v")), Err(Error::Closed)));
    assert_eq!(read(&engine, "a"), Some("v".into()));
    drop(engine);
    let (engine, report) = world.try_open().unwrap();
    assert_eq!(report.entries_replayed, 0);
    assert_eq!(read(&engine, "a"), Some("v".into()));
}

#[test]
fn keys_of_impossible_lengths_are_refused() {
    let world = World::new();
    let engine = world.open();
    for key in [String::new(), "k".repeat(4097)] {
        assert!(matches!(
            engine.write(put(&key, 1, "v")),
            Err(Error::Invalid(_))
        ));
    }
    engine.write(put(&"k".repeat(4096), 1, "v")).unwrap();
    engine.flush().unwrap();
    assert_eq!(read(&engine, &"k".repeat(4096)), Some("v".into()));
}

/// Otherwise the end of a segment would hold the writers up for a sync of all of it.
#[test]
fn a_log_that_the_system_syncs_is_written_back_as_it_grows() {
    let mut world = World::new();
    world.options.durability = Durability::Os;
    world.options.memtable_bytes = 8 << 20;
    let engine = world.open();
    world.executor.run_class(lsm::JobClass::Log);
    for number in 1..=4_500 {
        let key = format!("{number:04}");
        engine.write(put(&key, number, &"v".repeat(1_000))).unwrap();
        world.executor.run_class(lsm::JobClass::Log);
    }
    let statistics = engine.statistics();
    assert_eq!(statistics.memtables_frozen, 0);
    let due = statistics.log_written_bytes >> 20;
    assert!(due >= 4);
    // Each sync comes with the group that makes it due, so it covers a little more than a
    // mebibyte.
    assert!(
        (due - 1..=due).contains(&statistics.log_syncs),
        "{statistics:?}"
    );
}
