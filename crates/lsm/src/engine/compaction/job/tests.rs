//! What begins when, and what is measured meanwhile.

use super::*;
use crate::engine::compaction::pressure::LEVEL_0_TABLES_DUE;
use crate::engine::writes::write_rate::Backlog;
use crate::testing::{BlockingWrite, HookedDisk, MemoryDisk, StepExecutor, SyncHook, environment};
use crate::{Engine, Options};
use base::{Entry, Expiry, ManualClock, Timestamp};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Writes a value that does not compress, and flushes it to a table of level 0.
fn add_table(engine: &Engine, number: u64, bytes: usize) {
    let mut random = fastrand::Rng::with_seed(number);
    let value: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
        .take(bytes)
        .collect();
    let timestamp = Timestamp::from_u64(number);
    let key = number.to_be_bytes();
    engine
        .write(Entry::value(&key, timestamp, &value, Expiry::NEVER, 1))
        .unwrap();
    engine.flush().unwrap();
}

#[test]
fn a_closing_engine_begins_no_compaction() {
    for closing in [false, true] {
        let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
        let (engine, _) = Engine::open(environment, Options::default()).unwrap();
        for timestamp in 1..=LEVEL_0_TABLES_DUE as u64 {
            let timestamp = Timestamp::from_u64(timestamp);
            engine
                .write(Entry::value(b"k", timestamp, b"v", Expiry::NEVER, 1))
                .unwrap();
            engine.flush().unwrap();
        }
        let core = &engine.inner.core;
        if closing {
            core.health.close();
        }
        engine.inner.compactor.run(core);
        let state = lock(&engine.inner.compactor.state);
        assert_eq!(state.running() == 0, closing);
    }
}

/// Such a compaction may take minutes. Meanwhile level 0 fills up, and there may be much room.
#[test]
fn a_compaction_of_deep_levels_does_not_slow_the_writers() {
    let clock = Arc::new(ManualClock::new(0));
    let disk = Arc::new(HookedDisk::new(Arc::new(MemoryDisk::new())));
    let (mut environment, _) = environment(Arc::clone(&disk) as _);
    environment.clock = Arc::clone(&clock) as _;
    environment.executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
    // Each table takes a second.
    disk.hook_syncs(
        Arc::new(move |path: &Path, sync: &dyn Fn() -> io::Result<()>| {
            if path.extension().is_some_and(|kind| kind == "sst") {
                clock.advance(Duration::from_secs(1));
            }
            sync()
        }) as Arc<SyncHook>,
    );
    let (engine, _) = Engine::open(environment, Options::default()).unwrap();
    let (core, compactor) = (&engine.inner.core, &engine.inner.compactor);
    let equal = Backlog {
        room: 1.0,
        left: 1.0,
    };
    let rate = || core.write_rate.rate(None, Some(equal));
    for number in 1..=4 {
        add_table(&engine, number, 100 << 10);
    }
    compactor.compact_once(core).unwrap();
    let of_level_zero = rate();
    let expected = 4.0 * core.options.memtable_bytes as f64;
    assert_eq!(of_level_zero, Some(expected), "a second for four tables");
    compactor.order_whole(core);
    let begun = compactor.begin(core).unwrap().unwrap();
    assert!(
        matches!(begun, CompactionStep::Begun),
        "a whole compaction, of the deepest level"
    );
    for number in 5..=20 {
        add_table(&engine, number, 10);
    }
    let step = || compactor.step(0, &mut lock(&compactor.slots[0]), core);
    while let Some(Ok(CompactionStep::Merged(_))) = step() {}
    assert!(lock(&compactor.slots[0]).current.is_none());
    assert!(urgency(core) >= 1.0, "level 0 has waited");
    assert_eq!(rate(), of_level_zero);
}

/// The system frees the space of a file that was removed when it is closed, which takes long.
#[test]
fn no_reader_closes_the_files_that_a_compaction_has_removed() {
    let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
    let (engine, _) = Engine::open(environment, Options::default()).unwrap();
    for number in 1..=4 {
        add_table(&engine, number, 10);
    }
    let core = &engine.inner.core;
    let held = core.tables.load_full();
    let tables = held.tables.iter().map(|(_, table)| Arc::downgrade(table));
    let tables: Vec<_> = tables.collect();
    assert_eq!(tables.len(), 4);
    engine.inner.compactor.compact_once(core).unwrap();
    assert_eq!(engine.statistics().levels[0].tables, 0);
    drop(held);
    assert!(tables.iter().all(|table| table.strong_count() == 1));
    engine.inner.compactor.run(core);
    assert!(tables.iter().all(|table| table.strong_count() == 0));
}
