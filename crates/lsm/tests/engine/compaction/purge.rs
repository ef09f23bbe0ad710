//! Tombstones below the GC threshold leave the disk, whatever lies beside them.

use crate::common::{World, delete, put, read, scan_all};
use base::{Clock, Entry, Expiry, Kind, Timestamp};
use lsm::Engine;
use lsm_testing::BlockingWrite;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

fn key(number: u64) -> String {
    format!("key-{number:05}")
}

fn tombstones(engine: &Engine) -> Vec<u64> {
    let all = scan_all(engine, "", None);
    let dead = all.iter().filter(|entry| entry.kind() == Kind::Tombstone);
    dead.map(|entry| entry.timestamp().as_u64()).collect()
}

/// A store of some levels, of which every `share`-th key is deleted at the end.
fn churned(world: &World, share: u64) -> Engine {
    let engine = world.open();
    let mut timestamp = 0;
    let mut write = |entry: &dyn Fn(u64) -> Entry| {
        timestamp += 1;
        assert!(engine.write(entry(timestamp)).is_ok());
        world.executor.run_for(Duration::from_millis(5));
    };
    for number in 0..1500 {
        write(&|timestamp| put(&key(number * 37 % 1500), timestamp, &"v".repeat(100)));
    }
    for number in (0..1500).step_by(share as usize) {
        write(&|timestamp| delete(&key(number), timestamp));
    }
    assert!(engine.flush().is_ok());
    world.executor.run_for(Duration::from_secs(600));
    engine
}

#[test]
fn tombstones_in_mixed_tables_go_within_a_week_and_no_others() {
    for share in [3, 100] {
        let world = World::new();
        let engine = churned(&world, share);
        let deleted = 1500_u64.div_ceil(share);
        assert_eq!(tombstones(&engine).len() as u64, deleted);
        // Half of the tombstones are below the bound.
        let bound = 1500 + deleted / 2;
        world.bound.store(bound, Relaxed);
        world.executor.run_for(9 * DAY);
        let left = tombstones(&engine);
        assert!(left.iter().all(|timestamp| *timestamp >= bound), "{left:?}");
        assert_eq!(left.len() as u64, 1500 + deleted + 1 - bound);
        for number in 0..1500 {
            let is_deleted = number % share == 0;
            assert_eq!(read(&engine, &key(number)).is_none(), is_deleted);
        }
        // No table is rewritten again before the bound rises.
        let written = engine.statistics().compaction_written_bytes;
        world.executor.run_for(20 * DAY);
        assert_eq!(engine.statistics().compaction_written_bytes, written);
        world.bound.store(1_000_000, Relaxed);
        world.executor.run_for(9 * DAY);
        assert_eq!(tombstones(&engine), []);
        assert_eq!(scan_all(&engine, "", None).len() as u64, 1500 - deleted);
    }
}

#[test]
fn what_is_dead_goes_as_soon_as_compaction_hears_of_the_bound() {
    for hears in [false, true] {
        let world = World::new();
        let engine = world.open();
        for number in 0..100 {
            assert!(engine.write(put(&key(number), number, "v")).is_ok());
            assert!(engine.write(delete(&key(number), 1_000 + number)).is_ok());
        }
        assert!(engine.flush().is_ok());
        world.executor.run_for(Duration::from_secs(600));
        assert_eq!(tombstones(&engine).len(), 100);
        world.bound.store(10_000, Relaxed);
        if hears {
            engine.apply_gc_threshold();
        }
        world.executor.run_for(Duration::from_millis(500));
        assert_eq!(tombstones(&engine).is_empty(), hears);
        world.executor.run_for(Duration::from_secs(120));
        assert_eq!(tombstones(&engine), []);
    }
}

/// The bound of a node alone rises with every write.
#[test]
fn a_bound_that_rises_all_the_time_does_not_rewrite_tables_all_the_time() {
    let world = World::new();
    let engine = churned(&world, 100);
    let bytes: u64 = engine
        .statistics()
        .levels
        .iter()
        .map(|level| level.bytes)
        .sum();
    let before = engine.statistics().compaction_written_bytes;
    for minute in 0..10 * 24 * 60 {
        world.bound.store(10_000 + minute, Relaxed);
        world.executor.run_for(Duration::from_secs(60));
    }
    let written = engine.statistics().compaction_written_bytes - before;
    assert!(written <= 2 * bytes, "{written} of {bytes}");
    assert_eq!(tombstones(&engine), []);
}

/// The start of the days of these tests.
fn day(day: u64) -> Timestamp {
    Timestamp::from_unix_ms(Timestamp::ZERO.unix_ms() + day * 86_400_000)
}

/// The store is opened anew every six days, and no table waits for a week.
#[test]
fn a_restart_forgets_nothing_of_the_wait() {
    let mut world = World::new();
    world.options.purge_wait = 7 * DAY;
    let engine = world.open();
    for number in 0..1500 {
        let timestamp = day(50).as_u64() + number;
        assert!(
            engine
                .write(put(&key(number), timestamp, &"v".repeat(100)))
                .is_ok()
        );
    }
    for (number, of_day) in [(3, 60), (700, 64), (1400, 68)] {
        assert!(
            engine
                .write(delete(&key(number), day(of_day).as_u64()))
                .is_ok()
        );
    }
    assert!(engine.compact().is_ok());
    drop(engine);
    let mut left = Vec::new();
    // The bound rises in steps, as that of a cluster does: once in six days.
    for bound in (60..90).step_by(6) {
        world.bound.store(day(bound).as_u64() + 1, Relaxed);
        let engine = world.open();
        world.executor.run_for(DAY / 2);
        left.push((bound, tombstones(&engine).len()));
        assert!(engine.close().is_ok());
    }
    assert_eq!(left, [(60, 3), (66, 3), (72, 1), (78, 0), (84, 0)]);
}

/// Fewer than half of the bytes of a table expire, so it is never mostly dead.
#[test]
fn a_few_values_that_have_expired_are_freed_as_well() {
    let mut world = World::new();
    world.options.purge_wait = 7 * DAY;
    let engine = world.open();
    let start = world.clock.unix_ms();
    for number in 0..600 {
        let expiry = match number % 10 {
            0 => Expiry::at_unix_ms(start + (1 + number / 100) * 86_400_000),
            _ => Expiry::NEVER,
        };
        let timestamp = Timestamp::from_u64(1 + number);
        let value = "v".repeat(100);
        let entry = Entry::value(
            key(number).as_bytes(),
            timestamp,
            value.as_bytes(),
            expiry,
            3,
        );
        assert!(engine.write(entry).is_ok());
    }
    assert!(engine.compact().is_ok());
    world.bound.store(1_000, Relaxed);
    let entries = |engine: &Engine| engine.statistics().table_entries;
    let before = engine.statistics().compaction_written_bytes;
    world.executor.run_for(7 * DAY);
    assert_eq!(entries(&engine), 600);
    // The clock of the store is wrong: nothing is freed.
    world.trusts_clock.store(false, Relaxed);
    world.executor.run_for(30 * DAY);
    assert_eq!(entries(&engine), 600);
    world.trusts_clock.store(true, Relaxed);
    world.executor.run_for(DAY);
    assert_eq!(entries(&engine), 540);
    let written = engine.statistics().compaction_written_bytes - before;
    let bytes: u64 = engine.statistics().levels.iter().map(|it| it.bytes).sum();
    assert!(written <= 2 * bytes, "{written} for {bytes}");
}

/// The deletes do not fill a memtable, and nothing is written afterwards.
#[test]
fn deletes_of_a_store_that_falls_silent_free_what_they_hide() {
    let world = World::new();
    let engine = world.open();
    for number in 0..600 {
        let entry = put(&key(number), 1 + number, &"v".repeat(100));
        assert!(engine.write(entry).is_ok());
    }
    assert!(engine.compact().is_ok());
    world.executor.run_for(DAY);
    for number in 0..600 {
        assert!(engine.write(delete(&key(number), 1001 + number)).is_ok());
    }
    world.executor.run_for(DAY);
    assert!(engine.statistics().table_entries >= 600);
    world.bound.store(5_000, Relaxed);
    world.executor.run_for(DAY);
    assert_eq!(engine.statistics().table_entries, 0);
    assert_eq!(tombstones(&engine), []);
}

#[test]
fn an_old_version_in_memory_does_not_stop_purges() {
    let mut world = World::new();
    world.options.purge_wait = 7 * DAY;
    let engine = world.open();
    for number in 0..600 {
        let entry = match number % 10 {
            0 => delete(&key(number), 1001 + number),
            _ => put(&key(number), 1001 + number, &"v".repeat(100)),
        };
        assert!(engine.write(entry).is_ok());
    }
    assert!(engine.compact().is_ok());
    // Another store had it, and this one did not.
    assert!(engine.write(put("late", 7, "v")).is_ok());
    world.bound.store(5_000, Relaxed);
    world.executor.run_for(9 * DAY);
    assert_eq!(tombstones(&engine), []);
    assert!(read(&engine, "late").is_some());
}
