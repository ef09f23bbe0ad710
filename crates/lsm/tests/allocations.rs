//! Operations that must not allocate memory. This program's allocator counts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod common;

use common::{World, put};
use lsm::{Engine, Lookup};
use lsm_testing::BlockingWrite;

const TABLES: u64 = 20;
const MISSES: u64 = 10_000;

#[test]
fn a_miss_that_filters_answer_allocates_nothing() {
    let mut world = World::new();
    world.options.compaction = false;
    world.options.cache_bytes = 8 << 20;
    let engine = world.open();
    for table in 1..=TABLES {
        for number in 0..20 {
            // Every table spans all keys, so a get probes each of them.
            let key = format!("{:05}", (number * MISSES / 19) * 2);
            engine.write(put(&key, table, "v")).unwrap();
        }
        engine.flush().unwrap();
    }
    let absent: Vec<String> = (0..MISSES)
        .map(|number| format!("{:05}", number * 2 + 1))
        .collect();
    // Reads the blocks into the cache.
    for key in &absent {
        assert_eq!(engine.get(key.as_bytes()).unwrap(), None);
    }
    let before = engine.statistics();
    let mut misses = 0;
    let taken = allocation_counter::measure(|| {
        for key in &absent {
            let found = engine.get_cached(key.as_bytes());
            misses += u64::from(matches!(found, Ok(Lookup::Found(None))));
        }
    });
    assert_eq!(misses, MISSES);
    assert_eq!(taken.count_total, 0, "{taken:?}");
    let asked = engine.statistics().filter_negatives - before.filter_negatives;
    assert!(
        asked > MISSES * TABLES * 9 / 10,
        "filters asked {asked} times"
    );
}

/// The bytes that stay allocated by a memtable of a megabyte, its flush, and,
/// in the middle, a scan that has begun and then stalls.
fn kept_bytes(scans: bool) -> i64 {
    let mut world = World::new();
    world.options.memtable_bytes = 8 << 20;
    let engine = world.open();
    let value = "v".repeat(1_000);
    let mut scan = None;
    let taken = allocation_counter::measure(|| {
        for number in 1..=1_000 {
            let key = format!("{number:04}");
            engine.write(put(&key, number, &value)).unwrap();
        }
        if scans {
            let mut begun = engine.scan(b"", None);
            assert!(!begun.next_batch(5_000).unwrap().is_empty());
            scan = Some(begun);
        }
        engine.flush().unwrap();
    });
    drop(scan);
    taken.bytes_current
}

#[test]
fn a_stalled_scan_pins_no_memtable() {
    let (without, with) = (kept_bytes(false), kept_bytes(true));
    assert!(with - without < 10_000, "{with} bytes instead of {without}");
}

/// How many records a store has that is read in order.
const RECORDS: u64 = 20_000;

/// A store whose tables overlap, so that everything in order is a merge.
fn overlapping_tables() -> (World, Engine) {
    let mut world = World::new();
    world.options.compaction = false;
    world.options.memtable_bytes = 64 << 20;
    world.options.table_bytes = 64 << 20;
    let engine = world.open();
    for table in 0..4 {
        for number in (table..RECORDS).step_by(4) {
            let key = format!("{number:08}");
            engine
                .write(put(&key, 1 + number, &"v".repeat(40)))
                .unwrap();
        }
        engine.flush().unwrap();
    }
    (world, engine)
}

#[test]
fn a_scan_that_lends_allocates_nothing_for_an_entry() {
    let (_world, engine) = overlapping_tables();
    let mut lent = 0;
    let taken = allocation_counter::measure(|| {
        let mut scan = engine.scan(b"", None).for_full_comparison();
        while scan.advance().unwrap() {
            lent += scan.entry().value_bytes().len() as u64 / 40;
        }
    });
    assert_eq!(lent, RECORDS);
    assert!(taken.count_total < RECORDS / 4, "{taken:?}");
}

#[test]
fn a_compaction_allocates_nothing_for_a_record() {
    let (_world, engine) = overlapping_tables();
    let taken = allocation_counter::measure(|| engine.compact().unwrap());
    assert_eq!(engine.statistics().levels[6].tables, 1);
    // A debug build copies each record, to check that they come in order.
    let checks = if cfg!(debug_assertions) { RECORDS } else { 0 };
    assert!(taken.count_total < checks + RECORDS / 4, "{taken:?}");
}

const LONG_VALUES: u64 = 6;

/// A value of a megabyte that compresses, or one that does not.
fn long_value(number: u64, compresses: bool) -> String {
    if compresses {
        return format!("{number:08}").repeat(1 << 17);
    }
    let mut random = fastrand::Rng::with_seed(number);
    (0..1 << 20).map(|_| random.alphanumeric()).collect()
}

#[test]
fn long_values_are_in_memory_one_at_a_time() {
    for (compresses, keys) in [(true, LONG_VALUES), (false, LONG_VALUES), (false, 1)] {
        let mut world = World::new();
        world.options.compaction = false;
        let engine = world.open();
        for number in 0..LONG_VALUES {
            let key = format!("{:02}", number % keys);
            let value = long_value(number, compresses);
            engine.write(put(&key, 1 + number, &value)).unwrap();
            engine.flush().unwrap();
        }
        assert_eq!(engine.statistics().levels[0].tables, LONG_VALUES);
        let mut read = Vec::new();
        let taken = allocation_counter::measure(|| {
            read = engine.scan(b"", None).next_batch(1).unwrap();
        });
        let last = (0..LONG_VALUES).rfind(|number| number % keys == 0).unwrap();
        assert_eq!(
            read[0].value_bytes(),
            long_value(last, compresses).as_bytes()
        );
        // One value is returned, and the next one is read ahead.
        assert!(taken.bytes_max < 9 << 18, "{taken:?}");
        drop(read);
        let mut found = None;
        let taken = allocation_counter::measure(|| found = engine.get(b"00").unwrap());
        assert_eq!(found.unwrap().value_bytes().len(), 1 << 20);
        let frame_bytes = if compresses { 1 << 18 } else { 0 };
        assert!(taken.bytes_max < (5 << 18) + frame_bytes, "{taken:?}");
    }
}
