//! Whole compactions: what an operator orders is done in pieces, beside writes.

use crate::common::{World, delete, long, put, read, scan_all};
use base::Kind;
use lsm::{Disk, Engine, Error, JobClass, WholeCompaction};
use lsm_testing::BlockingWrite;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const KEYS: u64 = 600;

fn key(number: u64) -> String {
    format!("key-{number:04}")
}

/// A store of several levels with some tombstones, the last of them in memory.
fn churned(world: &World) -> Engine {
    let engine = world.open();
    let mut timestamp = 0;
    for round in 0..3 {
        for number in 0..KEYS {
            timestamp += 1;
            let key = key(number * 37 % KEYS);
            let entry = match (number + round) % 7 {
                0 => delete(&key, timestamp),
                _ => put(&key, timestamp, &long(timestamp, 100)),
            };
            engine.write(entry).unwrap();
            if world.options.compaction {
                world.executor.run_for(Duration::from_millis(5));
            }
        }
    }
    assert!(engine.statistics().memtable_entries > 0);
    engine
}

/// The live keys, with their values.
fn live(engine: &Engine) -> Vec<(Vec<u8>, Vec<u8>)> {
    let all = scan_all(engine, "", None);
    let live = all.iter().filter(|entry| entry.kind() == Kind::Value);
    live.map(|entry| (entry.key().to_vec(), entry.value_bytes().to_vec()))
        .collect()
}

fn tombstones(engine: &Engine) -> usize {
    let all = scan_all(engine, "", None);
    all.iter()
        .filter(|entry| entry.kind() == Kind::Tombstone)
        .count()
}

#[track_caller]
fn assert_done(whole: &WholeCompaction, number: u64) {
    assert!(whole.failure.is_none(), "{whole:?}");
    assert_eq!((whole.ordered, whole.ended), (number, number), "{whole:?}");
}

#[test]
fn everything_dead_below_the_bound_is_gone_afterwards() {
    for is_automatic in [true, false] {
        let mut world = World::new();
        world.options.compaction = is_automatic;
        let engine = churned(&world);
        let before = live(&engine);
        assert!(tombstones(&engine) > 50);
        world.bound.store(1 << 40, Relaxed);
        assert_eq!(engine.order_compaction().unwrap(), 1);
        assert_eq!(engine.order_compaction().unwrap(), 1, "it joins the first");
        world.executor.run_for(Duration::from_secs(60));
        assert_done(&engine.whole_compaction(), 1);
        assert!(engine.whole_compaction().merged_bytes > KEYS * 50);
        assert_eq!(live(&engine), before);
        assert_eq!(tombstones(&engine), 0, "automatic: {is_automatic}");
        let levels = engine.statistics().levels;
        let above = levels[..levels.len() - 1].iter();
        assert_eq!(above.map(|level| level.tables).sum::<u64>(), 0);

        // There is nothing left to do for the next one, but to look.
        assert_eq!(engine.order_compaction().unwrap(), 2);
        world.executor.run_for(Duration::from_secs(60));
        assert_done(&engine.whole_compaction(), 2);
        assert_eq!(live(&engine), before);
    }
}

#[test]
fn tombstones_above_the_bound_stay() {
    let world = World::new();
    let engine = churned(&world);
    let bound = 2 * KEYS;
    world.bound.store(bound, Relaxed);
    engine.order_compaction().unwrap();
    world.executor.run_for(Duration::from_secs(60));
    assert_done(&engine.whole_compaction(), 1);
    let dead = scan_all(&engine, "", None);
    let mut dead = dead.iter().filter(|entry| entry.kind() == Kind::Tombstone);
    assert!(tombstones(&engine) > 0);
    assert!(dead.all(|entry| entry.timestamp().as_u64() >= bound));
}

/// What is old may lie above the tombstone that hides it: a level says nothing about age.
#[test]
fn what_is_hidden_may_lie_above_its_tombstone() {
    let mut world = World::new();
    world.options.compaction = false;
    let engine = world.open();
    engine.write(delete("a", 100)).unwrap();
    engine.compact().unwrap();
    engine.write(put("a", 10, "old")).unwrap();
    engine.write(put("b", 10, "v")).unwrap();
    engine.flush().unwrap();
    world.bound.store(1_000, Relaxed);
    engine.order_compaction().unwrap();
    world.executor.run_for(Duration::from_secs(60));
    assert_done(&engine.whole_compaction(), 2);
    assert_eq!(scan_all(&engine, "", None), [put("b", 10, "v")]);
}

#[test]
fn tombstones_that_lie_on_the_last_level_already_go_as_well() {
    let world = World::new();
    let engine = churned(&world);
    engine.compact().unwrap();
    let (dead, before) = (tombstones(&engine), live(&engine));
    assert!(dead > 50);
    world.bound.store(1 << 40, Relaxed);
    engine.order_compaction().unwrap();
    world.executor.run_for(Duration::from_secs(60));
    assert_done(&engine.whole_compaction(), 2);
    assert_eq!((tombstones(&engine), live(&engine)), (0, before));
}

/// Writers wait neither for a flush nor for level 0, and each compaction comes to its end.
#[test]
fn writes_go_on_and_do_not_keep_it_from_its_end() {
    let world = World::new();
    let engine = churned(&world);
    world.bound.store(3 * KEYS, Relaxed);
    let before = engine.statistics();
    let mut timestamp = 10_000;
    let mut most = 0;
    for number in 1..=20 {
        assert_eq!(engine.order_compaction().unwrap(), number);
        while engine.whole_compaction().ended < number {
            timestamp += 1;
            assert!(timestamp < 100_000, "{:?}", engine.whole_compaction());
            let entry = put(&key(timestamp % KEYS), timestamp, &long(timestamp, 100));
            engine.write(entry).unwrap();
            if timestamp % 4 == 0 {
                world.executor.run_one(|_| timestamp as usize / 4);
            }
            most = most.max(engine.statistics().levels[0].tables);
        }
        assert_done(&engine.whole_compaction(), number);
    }
    let after = engine.statistics();
    assert!(after.flushes > before.flushes + 20, "{after:?}");
    assert_eq!((after.stalls, after.slowdowns), (before.stalls, 0));
    assert!(most < 12, "{most}");
    assert_eq!(tombstones(&engine), 0);
}

#[test]
fn a_close_ends_it() {
    let world = World::new();
    let engine = churned(&world);
    let before = live(&engine);
    engine.order_compaction().unwrap();
    world.executor.run_class(JobClass::Flush);
    for _ in 0..3 {
        world.executor.run_class(JobClass::Compaction);
    }
    assert_eq!(engine.whole_compaction().ended, 0);
    engine.close().unwrap();
    let whole = engine.whole_compaction();
    assert!(matches!(whole.failure, Some(Error::Closed)), "{whole:?}");
    assert_eq!(whole.ended, 1);
    assert!(matches!(engine.order_compaction(), Err(Error::Closed)));
    let engine = world.open();
    assert_eq!(live(&engine), before);
    assert_eq!(engine.whole_compaction().ordered, 0);
}

#[test]
fn damage_ends_it_and_the_next_one_goes_past() {
    let mut world = World::new();
    world.options.compaction = false;
    world.options.compression = lsm::Compression::None;
    let engine = churned(&world);
    engine.compact().unwrap();
    drop(engine);
    let names = world.memory.list(&World::folder()).unwrap();
    let name = names.iter().find(|name| name.ends_with(".sst")).unwrap();
    let table = World::folder().join(name);
    world.memory.corrupt(&table, 10, 1).unwrap();
    let engine = world.open();
    engine.write(put(&key(KEYS - 1), 1 << 30, "new")).unwrap();
    world.bound.store(1 << 40, Relaxed);
    engine.order_compaction().unwrap();
    world.executor.run_for(Duration::from_secs(60));
    let whole = engine.whole_compaction();
    assert_eq!((whole.ordered, whole.ended), (1, 1));
    assert!(
        matches!(&whole.failure, Some(Error::Corrupt { file, .. }) if **file == *table),
        "{whole:?}"
    );
    engine.order_compaction().unwrap();
    world.executor.run_for(Duration::from_secs(60));
    assert_done(&engine.whole_compaction(), 2);
    assert_eq!(read(&engine, &key(KEYS - 1)).as_deref(), Some("new"));
}
