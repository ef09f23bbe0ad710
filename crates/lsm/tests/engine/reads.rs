//! Which tables and blocks reads touch, and what scans keep.

use crate::common::{World, delete, put, read, scan_all};
use lsm::Lookup;
use lsm_testing::BlockingWrite;

#[test]
fn a_miss_reads_no_data_block_except_for_a_false_positive() {
    let world = World::new();
    let engine = world.open();
    for number in 0..1_000 {
        engine
            .write(put(&format!("{:04}", number * 2), number + 1, "v"))
            .unwrap();
    }
    engine.compact().unwrap();
    let before = engine.statistics();
    for number in 0..999 {
        assert_eq!(read(&engine, &format!("{:04}", number * 2 + 1)), None);
    }
    let after = engine.statistics();
    let false_positives = after.filter_false_positives - before.filter_false_positives;
    assert_eq!(
        after.data_blocks_fetched - before.data_blocks_fetched,
        false_positives
    );
    assert!(
        false_positives < 40,
        "{false_positives} of 999 at a rate of 0.01"
    );
    assert_eq!(
        after.filter_negatives - before.filter_negatives,
        999 - false_positives
    );
}

#[test]
fn without_filters_on_the_last_level_its_tables_are_read_without_one() {
    let mut world = World::new();
    world.options.last_level_filters = false;
    let engine = world.open();
    for number in 0..100 {
        let key = format!("{:03}", number * 2);
        engine.write(put(&key, number + 1, "old")).unwrap();
    }
    engine.compact().unwrap();
    let misses = || {
        let before = engine.statistics();
        for number in 0..99 {
            assert_eq!(read(&engine, &format!("{:03}", number * 2 + 1)), None);
        }
        let after = engine.statistics();
        let blocks = after.data_blocks_fetched - before.data_blocks_fetched;
        (after.filter_negatives - before.filter_negatives, blocks)
    };
    assert_eq!(
        misses(),
        (0, 99),
        "all that was merged lies on the last level"
    );
    for number in [0, 99] {
        let key = format!("{:03}", number * 2);
        engine.write(put(&key, number + 1_000, "new")).unwrap();
    }
    engine.flush().unwrap();
    let (negatives, _) = misses();
    assert!(
        negatives > 90,
        "a table of level 0 has a filter: {negatives}"
    );
}

#[test]
fn tables_that_cannot_hold_a_newer_version_are_not_read() {
    let mut world = World::new();
    world.options.compaction = false;
    world.options.filter_false_positive_rate = None;
    let engine = world.open();
    for number in 1..=20 {
        engine.write(put("a", number, "v")).unwrap();
        engine.write(put("z", number, "v")).unwrap();
        engine.flush().unwrap();
    }
    let before = engine.statistics().data_blocks_fetched;
    assert_eq!(engine.get(b"a").unwrap().unwrap().timestamp().as_u64(), 20);
    assert_eq!(engine.statistics().data_blocks_fetched - before, 1);
    // The newest by timestamp, not by arrival, comes first.
    engine.write(put("a", 3, "late")).unwrap();
    engine.flush().unwrap();
    let before = engine.statistics().data_blocks_fetched;
    assert_eq!(engine.get(b"a").unwrap().unwrap().timestamp().as_u64(), 20);
    assert_eq!(engine.statistics().data_blocks_fetched - before, 1);
}

#[test]
fn a_cached_read_says_when_it_needs_the_disk() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 1, "v")).unwrap();
    assert!(matches!(
        engine.get_cached(b"a"),
        Ok(Lookup::Found(Some(_)))
    ));
    engine.close().unwrap();
    drop(engine);
    let engine = world.open();
    assert_eq!(engine.get_cached(b"a").unwrap(), Lookup::MayBlock);
    assert_eq!(
        engine.get_cached(b"b").unwrap(),
        Lookup::Found(None),
        "out of range"
    );
    assert_eq!(read(&engine, "a"), Some("v".into()));
    assert!(matches!(
        engine.get_cached(b"a"),
        Ok(Lookup::Found(Some(_)))
    ));
}

#[test]
fn a_scan_sees_its_moment_through_flush_and_compaction() {
    let world = World::new();
    let engine = world.open();
    for number in 0..100 {
        engine
            .write(put(&format!("{number:03}"), 10 + number, "old"))
            .unwrap();
    }
    let mut scan = engine.scan(b"", None);
    let first = scan.next_batch(50).unwrap();
    for number in 0..100 {
        engine
            .write(put(&format!("{number:03}"), 1_000 + number, "new"))
            .unwrap();
        engine
            .write(delete(&format!("{number:03}x"), 2_000))
            .unwrap();
    }
    engine.compact().unwrap();
    assert_eq!(
        engine.statistics().memtable_bytes,
        0,
        "a stalled scan pins no memtable"
    );
    let mut seen = first;
    loop {
        let batch = scan.next_batch(100).unwrap();
        if batch.is_empty() {
            break;
        }
        seen.extend(batch);
    }
    assert_eq!(seen.len(), 100);
    assert!(seen.iter().all(|entry| entry.value_bytes() == b"old"));
    drop(scan);
    assert_eq!(engine.statistics().snapshots, 0);
    engine.write(put("zzz", 5_000, "v")).unwrap();
    engine.compact().unwrap();
    assert_eq!(
        engine.statistics().table_entries,
        201,
        "the old versions went"
    );
}

#[test]
fn a_range_includes_its_start_and_excludes_its_end() {
    let world = World::new();
    let engine = world.open();
    for key in ["a", "b", "c", "d"] {
        engine.write(put(key, 1, "v")).unwrap();
    }
    let keys = |start, end| -> Vec<u8> {
        scan_all(&engine, start, end)
            .iter()
            .map(|entry| entry.key()[0])
            .collect()
    };
    assert_eq!(keys("b", Some("d")), b"bc");
    assert_eq!(keys("", None), b"abcd");
    assert_eq!(keys("bb", None), b"cd");
    assert_eq!(keys("c", Some("c")), b"");
    assert_eq!(keys("d", Some("a")), b"");
}
