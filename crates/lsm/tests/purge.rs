//! Tombstones below the drop bound leave the disk, whatever lies beside them.

mod common;

use base::{Entry, Kind};
use common::{World, delete, put, read, scan_all};
use lsm::Engine;
use lsm::testing::BlockingWrite;
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
