//! The statistics of a store are right.

use crate::common::{World, put};
use lsm::{Compression, Engine, Statistics};
use lsm_testing::BlockingWrite;
use std::time::Duration;

/// Writes a hundred bytes to each of these keys, and runs the jobs meanwhile.
fn write_all(world: &World, engine: &Engine, keys: impl Iterator<Item = u64>, first: u64) {
    for (number, key) in keys.enumerate() {
        let entry = put(
            &format!("{key:08}"),
            first + number as u64,
            &"v".repeat(100),
        );
        engine.write(entry).unwrap();
        if number % 10 == 0 {
            world.executor.run_for(Duration::from_millis(10));
        }
    }
    world.executor.run_for(Duration::from_secs(60));
}

/// The keys below a number, in an order that spreads them over the tables.
fn spread(keys: u64) -> impl Iterator<Item = u64> {
    (0..keys).map(move |number| number * 7_919 % keys)
}

#[test]
fn unique_keys_take_no_more_than_their_size_and_overwritten_ones_do() {
    let mut world = World::new();
    world.options.compression = Compression::None;
    let engine = world.open();
    let keys = 6_000;
    write_all(&world, &engine, spread(keys), 1);
    let unique = engine.statistics();
    assert!(unique.compactions > 5, "{unique:?}");
    let last = unique
        .levels
        .iter()
        .rev()
        .find(|level| level.bytes > 0)
        .unwrap();
    let all: u64 = unique.levels.iter().map(|level| level.bytes).sum();
    assert!(all > last.bytes, "there is something above the last level");
    assert!(unique.space_amplification() < 1.02, "{unique:?}");

    // Writes each key again, and a quarter of them once more.
    write_all(&world, &engine, spread(keys), 10_000);
    write_all(&world, &engine, spread(keys / 4), 20_000);
    let overwritten = engine.statistics();
    engine.compact().unwrap();
    let bytes = |statistics: &Statistics| -> u64 {
        statistics.levels.iter().map(|level| level.bytes).sum()
    };
    let really = bytes(&overwritten) as f64 / bytes(&engine.statistics()) as f64;
    let told = overwritten.space_amplification();
    assert!(really > 1.05, "{really}: {overwritten:?}");
    let (hidden, really_hidden) = (told - 1.0, really - 1.0);
    assert!(
        (really_hidden / 2.0..=really_hidden * 2.0).contains(&hidden),
        "{told} is told, and it is {really}"
    );
}

#[test]
fn entries_are_counted_in_memory_and_on_disk() {
    let world = World::new();
    let engine = world.open();
    for key in 0..5 {
        engine.write(put(&key.to_string(), 1 + key, "v")).unwrap();
    }
    let counted = |engine: &Engine| {
        let statistics = engine.statistics();
        (statistics.memtable_entries, statistics.table_entries)
    };
    assert_eq!(counted(&engine), (5, 0));
    engine.flush().unwrap();
    assert_eq!(counted(&engine), (0, 5));
    engine.write(put("more", 10, "v")).unwrap();
    assert_eq!(counted(&engine), (1, 5));
}

#[test]
fn syncs_are_counted_with_their_time() {
    let world = World::new();
    let engine = world.open();
    let before = engine.statistics();
    engine.write(put("a", 1, "v")).unwrap();
    let after = engine.statistics();
    assert_eq!(after.log_syncs, before.log_syncs + 1);
    assert_eq!(after.sync_times.count(), after.log_syncs);
    // The clock of this world stands still while the disk works.
    assert_eq!(after.sync_times.sum, Duration::ZERO);
    assert_eq!(after.sync_times.buckets[0].1, after.log_syncs);
}
