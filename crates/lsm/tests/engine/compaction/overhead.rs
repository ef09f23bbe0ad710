//! What the disk holds of tables that are not live: it is told, and bounded.

use crate::common::{World, long, put};
use lsm::{Compression, Engine, OverheadBytes};
use lsm_testing::BlockingWrite;
use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn live_bytes(engine: &Engine) -> u64 {
    let levels = engine.statistics().levels;
    levels.iter().map(|level| level.bytes).sum()
}

#[test]
fn unfinished_held_and_removed_tables_are_told() {
    let mut world = World::new();
    world.options.compression = Compression::None;
    world.options.memtable_bytes = 4 << 20;
    world.options.table_bytes = 4 * MIB;
    let engine = world.open();
    for timestamp in 1..=4 {
        for number in 0..400 {
            let entry = put(&format!("{number:03}"), timestamp, &long(timestamp, 1000));
            engine.write(entry).unwrap();
        }
        engine.flush().unwrap();
    }
    let overhead = || engine.statistics().overhead;
    assert_eq!(overhead(), OverheadBytes::default());
    let replaced = live_bytes(&engine);
    let snapshot = engine.freeze(1, Duration::from_secs(60)).unwrap();
    assert!(engine.end_hold(1));
    let mut steps = 0;
    let mut step = || {
        world.executor.run_for(Duration::from_millis(1));
        steps += 1;
        assert!(steps < 1_000, "{:?}", engine.statistics());
    };
    while overhead().unfinished == 0 {
        step();
    }
    let begun = overhead();
    assert!(begun.unfinished < 500 * KIB, "{begun:?}");
    assert_eq!(begun.all(), begun.unfinished);
    while engine.statistics().compactions == 0 {
        step();
    }
    let held = OverheadBytes {
        held: replaced,
        ..OverheadBytes::default()
    };
    assert_eq!(overhead(), held);
    drop(snapshot);
    let removed = OverheadBytes {
        removed: replaced,
        ..OverheadBytes::default()
    };
    assert_eq!(overhead(), removed);
    world.executor.run_for(Duration::from_secs(1));
    assert_eq!(overhead(), OverheadBytes::default());
}

/// Whoever writes at full speed has the old tables freed at that speed, too.
#[test]
fn a_fill_at_full_speed_leaves_little_to_be_freed() {
    let mut world = World::new();
    world.options.compression = Compression::None;
    world.options.memtable_bytes = 256 << 10;
    world.options.table_bytes = 256 * KIB;
    let engine = world.open();
    let value = long(1, 1000);
    let (mut read, mut read_max, mut overhead_max) = (0, 0, 0);
    let keys = 30_000;
    for number in 0..keys {
        let key = number * 7_919 % keys;
        let entry = put(&format!("{key:08}"), 1 + number, &value);
        engine.write(entry).unwrap();
        if number % 500 > 0 {
            continue;
        }
        world.executor.run_for(Duration::from_millis(10));
        let statistics = engine.statistics();
        let live = live_bytes(&engine);
        let overhead = statistics.overhead.all();
        // What a job frees, and what the compactions of ten milliseconds have replaced.
        let allowed = (live / 10).max(4 * 256 * KIB);
        read_max = read_max.max(statistics.compaction_read_bytes - read);
        read = statistics.compaction_read_bytes;
        assert!(
            overhead <= allowed + 3 * read_max + MIB,
            "{overhead} beside {live}: {statistics:?}"
        );
        let told = live + overhead + statistics.log_bytes;
        let used = world.memory.used_bytes();
        assert!(used <= told + 2 * MIB, "{used}, but {told} are told");
        overhead_max = overhead_max.max(overhead);
    }
    assert!(overhead_max > MIB, "{overhead_max}");
}
