//! The counter of acknowledged writes: it survives restarts, flushes and crashes, and a
//! copy that is restored shows less.

use crate::common::{World, delete, put};
use fastrand::Rng;
use lsm::{Acknowledged, Durability};
use lsm_testing::BlockingWrite;
use std::sync::Arc;
use std::time::Duration;

fn both(records: u64) -> Acknowledged {
    Acknowledged {
        total: records,
        durable: records,
    }
}

#[test]
fn every_committed_record_counts_once() {
    let world = World::new();
    let engine = world.open();
    assert_eq!(engine.acknowledged(), both(0));
    engine.write(put("a", 1, "v")).unwrap();
    engine.write(delete("a", 2)).unwrap();
    // The log holds it twice, although the memtable does not.
    engine.write(delete("a", 2)).unwrap();
    assert_eq!(engine.acknowledged(), both(3));
    for step in ["flush", "write", "compact", "close", "kill"] {
        match step {
            "flush" => engine.flush().unwrap(),
            "write" => drop(engine.write(put("b", 3, "v")).unwrap()),
            "compact" => engine.compact().unwrap(),
            "close" => engine.close().unwrap(),
            _ => {}
        }
        let expected = if step == "flush" { 3 } else { 4 };
        assert_eq!(engine.acknowledged(), both(expected), "{step}");
    }
    drop(engine);
    let engine = world.open();
    assert_eq!(engine.acknowledged(), both(4));
    engine.write(put("c", 5, "v")).unwrap();
    drop(engine);
    for _ in 0..2 {
        assert_eq!(world.open().acknowledged(), both(5), "from the log");
    }
}

#[test]
fn versions_that_a_start_drops_still_count() {
    let mut world = World::new();
    let engine = world.open();
    engine.write(put("a", 1, "v")).unwrap();
    engine.flush().unwrap();
    engine.write(put("a", 100, "v")).unwrap();
    drop(engine);
    world.options.drop_versions_above = Some(base::Timestamp::from_u64(50));
    assert_eq!(world.open().acknowledged(), both(2));
}

#[test]
fn a_restored_copy_counts_less() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 1, "v")).unwrap();
    engine.flush().unwrap();
    let copy = world.memory.clone_synced();
    engine.write(put("a", 2, "v")).unwrap();
    engine.flush().unwrap();
    let restored = World::on(Arc::new(copy)).open();
    assert_eq!(restored.acknowledged(), both(1));
    assert_eq!(engine.acknowledged(), both(2));
}

#[test]
fn without_syncs_only_what_was_synced_is_durable() {
    let mut world = World::new();
    world.options.durability = Durability::Interval(Duration::from_millis(10));
    let engine = world.open();
    let count = |total, durable| Acknowledged { total, durable };
    for number in 1..=3 {
        engine.write(put("a", number, "v")).unwrap();
    }
    assert_eq!(engine.acknowledged(), count(3, 0));
    world.executor.run_for(Duration::from_millis(10));
    engine.write(put("a", 4, "v")).unwrap();
    assert_eq!(engine.acknowledged(), count(4, 3), "the interval");
    engine.sync().unwrap();
    engine.write(put("a", 5, "v")).unwrap();
    assert_eq!(engine.acknowledged(), count(5, 4), "a sync");
    engine.flush().unwrap();
    engine.write(put("a", 6, "v")).unwrap();
    assert_eq!(engine.acknowledged(), count(6, 5), "a flush");
    let power_cut = World::on(Arc::new(world.memory.clone_synced()));
    assert_eq!(power_cut.open().acknowledged(), both(5));
    engine.close().unwrap();
    assert_eq!(engine.acknowledged(), both(6), "a close");
}

/// Whatever a power cut leaves, the counter is at least what was durable before, and at
/// most what was committed.
#[test]
fn no_crash_lowers_what_was_durable() {
    for seed in 0..120 {
        let mut rng = Rng::with_seed(seed);
        let mut world = World::new();
        world.options.durability = match rng.u8(0..3) {
            0 => Durability::Sync,
            1 => Durability::Os,
            _ => Durability::Interval(Duration::from_millis(3)),
        };
        let engine = world.open();
        let mut last = Acknowledged::default();
        for number in 1..=rng.u64(1..150) {
            let key = format!("key-{:02}", rng.u8(0..30));
            let value = "v".repeat(rng.usize(0..300));
            engine.write(put(&key, number, &value)).unwrap();
            match rng.u8(0..20) {
                0..6 => drop(world.executor.run_one(|jobs| rng.usize(0..jobs))),
                6 => engine.flush().unwrap(),
                7 => engine.sync().unwrap(),
                8 => world.executor.run_for(Duration::from_secs(2)),
                _ => {}
            }
            let now = engine.acknowledged();
            assert_eq!(now.total, number, "seed {seed}");
            assert!(
                (last.durable..=number).contains(&now.durable),
                "seed {seed}"
            );
            last = now;
        }
        for _ in 0..4 {
            let likely = rng.u8(0..5);
            let disk = world.memory.crash_clone(&mut |_| rng.u8(0..4) < likely);
            let after = World::on(Arc::new(disk));
            for _opening in 0..2 {
                let found = after.open().acknowledged();
                let expected = last.durable..=last.total;
                assert!(
                    expected.contains(&found.total),
                    "seed {seed}: {found:?}, {last:?}"
                );
                assert_eq!(found.total, found.durable);
            }
        }
    }
}
