//! What compaction keeps, drops and bounds.

use crate::common::{World, delete, put, read, scan_all};
use base::{Entry, Expiry, Timestamp};
use lsm::{Durability, Engine, Options, RealDisk};
use lsm_testing::BlockingWrite;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

#[test]
fn overwrites_keep_space_amplification_under_two() {
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    let engine = world.open();
    let mut rng = fastrand::Rng::with_seed(3);
    let keys = 2_000;
    let live_bytes = keys * (8 + 100);
    let mut worst = 0.0_f64;
    for number in 1..=10 * keys {
        let key = if number <= keys {
            number
        } else {
            rng.u64(1..=keys)
        };
        let value = "v".repeat(100);
        engine
            .write(put(&format!("{key:08}"), number, &value))
            .unwrap();
        if number % 10 == 0 {
            world.executor.run_for(Duration::from_millis(10));
        }
        if number > 2 * keys && number % 500 == 0 {
            let statistics = engine.statistics();
            let bytes: u64 = statistics.levels.iter().map(|level| level.bytes).sum();
            worst = worst.max(bytes as f64 / live_bytes as f64);
        }
    }
    assert!(engine.statistics().compactions > 5);
    assert!(worst < 2.0, "{worst}");
}

/// Where the file system allows it, the second compaction reads past the system's memory what
/// the first one has written past it.
#[test]
fn compactions_on_a_real_disk_read_what_others_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let (mut environment, _executor) = lsm_testing::environment(Arc::new(RealDisk::default()));
    environment.folder = folder.path().join("store");
    let options = Options {
        durability: Durability::Os,
        memtable_bytes: 1 << 20,
        table_bytes: 2 << 20,
        compression: lsm::Compression::None,
        ..Options::default()
    };
    let (engine, _) = Engine::open(environment, options).unwrap();
    let mut expected = BTreeMap::new();
    let mut timestamp = 0;
    for every in [1, 3, 1000] {
        for number in (0..6_000).step_by(every) {
            timestamp += 1;
            let key = format!("{number:08}");
            let entry = put(&key, timestamp, &format!("{timestamp:01000}"));
            engine.write(entry.clone()).unwrap();
            expected.insert(key, entry);
        }
        engine.compact().unwrap();
        let found = scan_all(&engine, "", None);
        assert!(found.iter().eq(expected.values()), "every {every}");
    }
}

/// Long syncs of the log would be behind a file system that tells its device of all that a
/// merge frees at once.
#[test]
fn the_space_of_merged_tables_is_freed_a_little_at_a_time() {
    const MIB: u64 = 1 << 20;
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    world.options.memtable_bytes = 16 << 20;
    world.options.table_bytes = 64 << 20;
    let engine = world.open();
    for timestamp in [1, 2] {
        for number in 0..5_000 {
            let value = format!("{number:01000}");
            engine
                .write(put(&format!("{number:08}"), timestamp, &value))
                .unwrap();
        }
        engine.flush().unwrap();
    }
    engine.compact().unwrap();
    let mut used = world.memory.used_bytes();
    let mut freed = 0;
    while world.executor.next_due().is_some() {
        world.executor.run_for(Duration::from_millis(10));
        let now = world.memory.used_bytes();
        assert!(used - now <= MIB, "{used} and then {now}");
        freed += used - now;
        used = now;
    }
    assert!(freed >= 8 * MIB, "{freed}");
}

#[test]
fn tombstones_stay_without_a_bound_and_go_below_it() {
    for bound in [0, 50, 1_000] {
        let world = World::new();
        world.bound.store(bound, Relaxed);
        let engine = world.open();
        engine.write(put("a", 10, "v")).unwrap();
        engine.flush().unwrap();
        engine.write(delete("a", 100)).unwrap();
        engine.compact().unwrap();
        assert_eq!(read(&engine, "a"), None);
        let kept = scan_all(&engine, "", None);
        if bound > 100 {
            assert_eq!(kept, [], "below the bound no older write can arrive");
        } else {
            assert_eq!(kept, [delete("a", 100)]);
            // A late, older put does not resurrect the key.
            engine.write(put("a", 60, "late")).unwrap();
            assert_eq!(read(&engine, "a"), None);
        }
    }
}

/// An older put arrives late: it waits for its commit, or lies in a memtable, while the
/// tombstone is merged. If a compaction considered only tables, it would drop the
/// tombstone, and the put would become visible.
#[test]
fn a_tombstone_stays_while_an_older_version_lies_in_memory() {
    for is_committed in [false, true] {
        let world = World::new();
        world.bound.store(1_000, Relaxed);
        let engine = world.open();
        engine.write(delete("a", 100)).unwrap();
        engine.flush().unwrap();
        engine.write(put("b", 500, "v")).unwrap();
        engine.flush().unwrap();
        // Without this there is no tombstone to be dropped.
        assert_eq!(engine.statistics().table_tombstones, 1);
        let outbox: Arc<dyn lsm::Outbox> = Arc::new(Ignore);
        engine.submit(put("a", 50, "late"), &outbox, 1).unwrap();
        if is_committed {
            world.executor.run_class(lsm::JobClass::Commit);
        }
        world.executor.run_class(lsm::JobClass::Compaction);
        let statistics = engine.statistics();
        assert_eq!(statistics.compactions, 1, "two tables of a small store");
        assert_eq!(statistics.levels[0].tables, 0);
        assert_eq!(statistics.table_tombstones, 1, "committed: {is_committed}");
        world.executor.run_for(Duration::from_secs(5));
        assert_eq!(read(&engine, "a"), None);
        // Once the put is in a table as well, both are dropped.
        engine.flush().unwrap();
        engine.compact().unwrap();
        assert_eq!(scan_all(&engine, "", None), [put("b", 500, "v")]);
    }
}

struct Ignore;

impl lsm::Outbox for Ignore {
    fn deliver(&self, _: Vec<lsm::Outcome>) {}
}

#[test]
fn expired_versions_hide_older_ones_until_they_may_go() {
    let world = World::new();
    let engine = world.open();
    let expired = Entry::value(
        b"a",
        Timestamp::from_u64(20),
        b"short-lived",
        Expiry::at_unix_ms(1_000_500),
        1,
    );
    engine.write(put("a", 10, "old")).unwrap();
    engine.flush().unwrap();
    engine.write(expired.clone()).unwrap();
    engine.compact().unwrap();
    assert_eq!(scan_all(&engine, "", None), std::slice::from_ref(&expired));
    world.clock.advance(Duration::from_secs(10));
    world.trusts_clock.store(false, Relaxed);
    world.bound.store(25, Relaxed);
    engine.write(put("b", 30, "v")).unwrap();
    engine.compact().unwrap();
    assert_eq!(
        scan_all(&engine, "", None),
        [expired, put("b", 30, "v")],
        "it stays while nobody knows the time, whatever may be dropped"
    );
    world.trusts_clock.store(true, Relaxed);
    // The bound goes back only with a restart.
    engine.close().unwrap();
    world.bound.store(0, Relaxed);
    let engine = world.open();
    engine.compact().unwrap();
    let tombstone = Entry::tombstone(b"a", Timestamp::from_u64(20), 1);
    assert_eq!(
        scan_all(&engine, "", None),
        [tombstone, put("b", 30, "v")],
        "without a bound it goes on to hide what is older"
    );
    engine.write(put("a", 15, "late")).unwrap();
    assert_eq!(read(&engine, "a"), None);
    engine.compact().unwrap();
    world.bound.store(25, Relaxed);
    engine.write(put("c", 40, "v")).unwrap();
    engine.compact().unwrap();
    assert_eq!(
        scan_all(&engine, "", None),
        [put("b", 30, "v"), put("c", 40, "v")]
    );
}

/// There is no GC threshold, and no more write comes.
#[test]
fn what_has_expired_in_a_quiet_store_is_freed_without_a_gc_threshold() {
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    world.trusts_clock.store(false, Relaxed);
    let engine = world.open();
    let entry = |number: u64| {
        let expiry = Expiry::at_unix_ms(1_000_500);
        let key = format!("key-{number:03}");
        let timestamp = Timestamp::from_u64(number);
        Entry::value(key.as_bytes(), timestamp, &[7; 1000], expiry, 3)
    };
    for number in 0..100 {
        engine.write(entry(number)).unwrap();
    }
    engine.compact().unwrap();
    let bytes = || -> u64 {
        let levels = engine.statistics().levels;
        levels.iter().map(|level| level.bytes).sum()
    };
    world.executor.run_for(Duration::from_secs(600));
    assert!(bytes() > 100_000, "the clock may be wrong");
    // A living scan still sees the values.
    let mut scan = engine.scan(b"", None);
    let seen = scan.next_batch(1).unwrap();
    world.trusts_clock.store(true, Relaxed);
    world.executor.run_for(Duration::from_secs(120));
    assert!(bytes() > 100_000, "a scan lives");
    assert_eq!(seen, [entry(0)]);
    drop(scan);
    world.executor.run_for(Duration::from_secs(120));
    assert!(bytes() < 10_000, "{}", bytes());
    let tombstones: Vec<_> = (0..100)
        .map(|number| Entry::tombstone(entry(number).key(), Timestamp::from_u64(number), 3))
        .collect();
    assert_eq!(scan_all(&engine, "", None), tombstones);
    // The tombstones that are left are not rewritten again and again.
    let compactions = engine.statistics().compactions;
    world.executor.run_for(Duration::from_secs(600));
    assert_eq!(engine.statistics().compactions, compactions);
}

/// A table is rewritten whenever half of the rest has expired, although one of its values
/// lives much longer.
#[test]
fn a_table_whose_values_expire_one_after_another_shrinks_by_halves() {
    const MINUTE: Duration = Duration::from_secs(60);
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    world.options.memtable_bytes = 1 << 20;
    world.options.table_bytes = 1 << 20;
    let engine = world.open();
    for number in 0..200_u64 {
        let minutes = match number {
            77 => 1_000_000,
            _ => number,
        };
        let expiry = Expiry::at_unix_ms(1_000_000 + minutes * 60_000);
        // Not in the order of their keys.
        let key = format!("key-{:03}", number * 37 % 200);
        let timestamp = Timestamp::from_u64(number);
        let entry = Entry::value(key.as_bytes(), timestamp, &[7; 1000], expiry, 3);
        engine.write(entry).unwrap();
    }
    engine.compact().unwrap();
    let bytes = || -> u64 {
        let levels = engine.statistics().levels;
        levels.iter().map(|level| level.bytes).sum()
    };
    let written = engine.statistics().compaction_written_bytes;
    assert!(bytes() > 200_000);
    world.executor.run_for(90 * MINUTE);
    assert!(bytes() > 200_000, "less than half has expired");
    world.executor.run_for(20 * MINUTE);
    assert!(bytes() < 120_000, "half has expired: {}", bytes());
    world.executor.run_for(90 * MINUTE);
    let left = bytes();
    assert!(left < 20_000, "nearly all has expired: {left}");
    world.executor.run_for(10 * MINUTE);
    let statistics = engine.statistics();
    let written = statistics.compaction_written_bytes - written;
    assert!(written < 220_000, "{written}");
    // Only the value that has not expired is left.
    world.executor.run_for(200 * MINUTE);
    assert_eq!(engine.statistics().compactions, statistics.compactions);
}

#[test]
fn compaction_off_leaves_the_tables_alone() {
    let mut world = World::new();
    world.options.compaction = false;
    let engine = world.open();
    for number in 1..=100 {
        engine.write(put("a", number, "v")).unwrap();
        engine.flush().unwrap();
    }
    world.executor.run_for(Duration::from_secs(5));
    assert_eq!(engine.statistics().levels[0].tables, 100);
    assert_eq!(engine.get(b"a").unwrap().unwrap().timestamp().as_u64(), 100);
    engine.compact().unwrap();
    let statistics = engine.statistics();
    assert_eq!(
        statistics
            .levels
            .iter()
            .map(|level| level.tables)
            .sum::<u64>(),
        1
    );
    assert_eq!(
        statistics.table_entries, 1,
        "an explicit call compacts all the same"
    );
}

#[test]
fn removed_tables_and_segments_leave_the_folder() {
    let world = World::new();
    let engine = world.open();
    for number in 1..=2_000 {
        let key = format!("{:04}", number % 300);
        engine.write(put(&key, number, &"v".repeat(50))).unwrap();
    }
    engine.compact().unwrap();
    world.executor.run_for(Duration::from_secs(5));
    let names = lsm::Disk::list(&*world.memory, &World::folder()).unwrap();
    let count = |suffix: &str| names.iter().filter(|name| name.ends_with(suffix)).count() as u64;
    let tables: u64 = engine
        .statistics()
        .levels
        .iter()
        .map(|level| level.tables)
        .sum();
    assert_eq!(count(".sst"), tables, "{names:?}");
    assert!(count(".wal") <= 2, "{names:?}");
}

#[test]
fn the_end_of_the_last_scan_wakes_the_compaction_that_waits_for_it() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 10, "v")).unwrap();
    engine.compact().unwrap();
    engine.write(delete("a", 20)).unwrap();
    let scans = [engine.scan(b"", None), engine.scan(b"", None)];
    // The tombstone replaces the value once both are on the last level.
    engine.compact().unwrap();
    world.bound.store(1_000, Relaxed);
    world.executor.run_all_due();
    assert_eq!(
        engine.statistics().table_tombstones,
        1,
        "a scan sees past it"
    );
    let [first, last] = scans;
    drop(first);
    world.executor.run_all_due();
    assert_eq!(engine.statistics().table_tombstones, 1);
    drop(last);
    // No time passes, so only the scan's end can have woken it. The version that the scan
    // kept is dropped first, then the tombstone.
    world.executor.run_all_due();
    assert_eq!(engine.statistics().table_tombstones, 0);
}

#[test]
fn what_has_expired_on_level_0_of_a_quiet_store_goes() {
    let world = World::new();
    world.bound.store(1_000, Relaxed);
    let engine = world.open();
    let expiry = Expiry::at_unix_ms(1_000_500);
    let entry = Entry::value(b"a", Timestamp::from_u64(20), b"short-lived", expiry, 1);
    engine.write(entry).unwrap();
    engine.flush().unwrap();
    world.executor.run_for(Duration::from_millis(100));
    assert_eq!(engine.statistics().levels[0].tables, 1);
    world.executor.run_for(Duration::from_secs(120));
    assert_eq!(engine.statistics().table_entries, 0);
    assert_eq!(engine.statistics().levels[0].tables, 0);
}
