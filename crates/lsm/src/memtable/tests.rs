use super::*;
use crate::record::NextRecord;
use crate::testing::Ends;
use base::Expiry;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn put(key: &str, timestamp: u64, value: &str) -> Entry {
    Entry::value(
        key.as_bytes(),
        Timestamp::from_u64(timestamp),
        value.as_bytes(),
        Expiry::NEVER,
        1,
    )
}

fn insert(memtable: &Memtable, sequence: u64, entry: Entry) -> Option<u64> {
    let rivals = memtable.insert(&Record { sequence, entry });
    rivals.newer.map(Timestamp::as_u64)
}

/// The sequence number of the version's first arrival; checks that it is not stored
/// again.
fn same(memtable: &Memtable, sequence: u64, entry: Entry) -> Option<u64> {
    memtable.insert(&Record { sequence, entry }).same
}

fn drain(mut cursor: MemtableCursor) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    while let Some(record) = cursor.next().unwrap() {
        all.push((
            String::from_utf8(record.entry.key().to_vec()).unwrap(),
            record.entry.timestamp().as_u64(),
        ));
    }
    all
}

#[test]
fn the_highest_timestamp_wins_in_any_order() {
    let memtable = Memtable::new(1, 1 << 20);
    assert_eq!(insert(&memtable, 1, put("b", 20, "new")), None);
    assert_eq!(insert(&memtable, 2, put("b", 10, "old")), Some(20));
    assert_eq!(insert(&memtable, 3, put("b", 30, "newest")), None);
    assert_eq!(insert(&memtable, 4, put("a", 99, "other key")), None);
    assert_eq!(memtable.newest(b"b").unwrap().value_bytes(), b"newest");
    assert_eq!(memtable.newest(b"ab"), None);
    assert_eq!(memtable.newest(b"c"), None);
    assert_eq!(memtable.least_timestamp().as_u64(), 10);
    assert_eq!(memtable.greatest_timestamp().as_u64(), 99);
}

#[test]
fn a_repeated_version_has_the_sequence_number_of_its_first_insertion() {
    let memtable = Memtable::new(1, 1 << 20);
    assert_eq!(same(&memtable, 1, put("k", 10, "v")), None);
    let bytes = memtable.bytes();
    for sequence in 2..4 {
        assert_eq!(same(&memtable, sequence, put("k", 10, "v")), Some(1));
    }
    assert_eq!(memtable.bytes(), bytes, "not stored twice");
    assert_eq!(same(&memtable, 4, put("k", 12, "x")), None);
    assert_eq!(same(&memtable, 5, put("k", 10, "v")), Some(1));
    assert_eq!(insert(&memtable, 6, put("k", 10, "v")), Some(12));
    assert_eq!(same(&memtable, 7, put("k", 11, "between")), None);
    assert_eq!(same(&memtable, 8, put("k", 11, "between")), Some(7));
    let record = |entry| Record { sequence: 9, entry };
    let rivals = memtable.rivals(&record(put("k", 11, "between")));
    assert_eq!(
        (rivals.newer, rivals.same),
        (Some(Timestamp::from_u64(12)), Some(7))
    );
    let rivals = memtable.rivals(&record(put("other", 11, "v")));
    assert_eq!(rivals, Rivals::default());
}

/// No two writes have the same timestamp. If a damaged history has two such versions,
/// neither counts as newer.
#[test]
fn another_version_of_the_same_timestamp_is_not_newer() {
    let memtable = Memtable::new(1, 1 << 20);
    insert(&memtable, 1, put("k", 10, "v"));
    for (sequence, value) in [(2, "w"), (3, "u")] {
        assert_eq!(insert(&memtable, sequence, put("k", 10, value)), None);
    }
    assert_eq!(drain(Arc::new(memtable).cursor(Bound::Unbounded)).len(), 3);
}

#[test]
fn an_old_version_is_found_among_newer_ones() {
    let memtable = Memtable::new(1, 1 << 20);
    for version in 1..=100 {
        insert(&memtable, version, put("k", 2 * version, "v"));
    }
    let bytes = memtable.bytes();
    for version in 1..100 {
        let again = insert(&memtable, 100 + version, put("k", 2 * version, "v"));
        assert_eq!(again, Some(200));
    }
    assert_eq!(memtable.bytes(), bytes, "not stored twice");
    assert_eq!(insert(&memtable, 200, put("k", 101, "between")), Some(200));
    assert!(memtable.bytes() > bytes);
}

#[test]
fn more_keys_than_expected_are_found_and_have_their_rivals() {
    let memtable = Memtable::new(1, 1024);
    let keys = || (0..2_000_u64).map(|number| (number, number.to_string()));
    for (number, key) in keys() {
        assert_eq!(insert(&memtable, number, put(&key, 10 + number, "v")), None);
    }
    for (number, key) in keys() {
        let entry = put(&key, 9 + number, "older");
        let newest = 10 + number;
        assert_eq!(insert(&memtable, number, entry), Some(newest), "{key}");
        let found = memtable.newest(key.as_bytes()).unwrap();
        assert_eq!(
            (found.key(), found.timestamp().as_u64()),
            (key.as_bytes(), newest)
        );
    }
    assert_eq!(memtable.newest(b"none of them"), None);
}

#[test]
fn keys_with_equal_prefixes_are_in_the_order_of_their_bytes() {
    let memtable = Arc::new(Memtable::new(1, 1 << 20));
    let keys = ["a", "a\0", "a\0\0", "a\0b", "ab"]
        .into_iter()
        .map(str::to_owned)
        .chain((14..20).map(|length| "c".repeat(length)))
        .chain((14..20).map(|length| "c".repeat(13) + &"\0".repeat(length - 13)));
    let mut keys: Vec<String> = keys.collect();
    for (number, key) in (0..).zip(keys.iter().rev()) {
        for version in [1, 2] {
            insert(&memtable, number, put(key, version, "v"));
        }
    }
    keys.sort();
    let sorted = keys
        .iter()
        .flat_map(|key| [(key.clone(), 2), (key.clone(), 1)]);
    assert!(
        drain(memtable.cursor(Bound::Unbounded))
            .into_iter()
            .eq(sorted)
    );
    for key in &keys {
        let newest = memtable.newest(key.as_bytes()).unwrap();
        assert_eq!(newest.timestamp().as_u64(), 2);
        assert_eq!(newest.key(), key.as_bytes());
    }
}

#[test]
fn a_cursor_returns_every_record_in_order_from_its_start() {
    let memtable = Arc::new(Memtable::new(1, 1 << 20));
    for number in 0..1000_u64 {
        insert(
            &memtable,
            number,
            put(&format!("{:03}", number % 500), number, "v"),
        );
    }
    let all = drain(memtable.cursor(Bound::Unbounded));
    assert_eq!(all.len(), 1000);
    assert_eq!(all[0], ("000".into(), 500), "the winner comes first");
    assert_eq!(all[1], ("000".into(), 0));
    assert!(all.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    let included = drain(memtable.cursor(Bound::Included(b"498")));
    assert_eq!(included.len(), 4);
    let excluded = drain(memtable.cursor(Bound::Excluded(b"498")));
    assert_eq!(excluded, [("499".into(), 999), ("499".into(), 499)]);
}

/// Every version of every writer has its own timestamp.
#[test]
fn concurrent_writers_and_readers_miss_no_record() {
    const WRITERS: u64 = 3;
    const VERSIONS: u64 = 1_500;
    const KEYS: u64 = 50;
    let timestamp = |writer, version| version * WRITERS + writer + 1;
    let key = |timestamp: u64| format!("{:02}", timestamp % KEYS);
    let memtable = Arc::new(Memtable::new(1, 1 << 20));
    let written: [AtomicU64; WRITERS as usize] = Default::default();
    let floor = || {
        written
            .each_ref()
            .map(|count| count.load(Ordering::Acquire))
    };
    // The greatest timestamp of a key among the first versions of each writer.
    let newest = |floor: &[u64; WRITERS as usize], key: u64| {
        let last = (0..).zip(floor).filter_map(|(writer, count)| {
            let mut timestamps = (0..*count).rev().map(|version| timestamp(writer, version));
            timestamps.find(|timestamp| timestamp % KEYS == key)
        });
        last.max()
    };
    let write = |writer: u64| {
        for version in 0..VERSIONS {
            let own = timestamp(writer, version);
            let known = newest(&floor(), own % KEYS).filter(|known| *known > own);
            let found = insert(&memtable, own, put(&key(own), own, "v"));
            assert!(found >= known, "{known:?} was there, {found:?} was found");
            written[writer as usize].store(version + 1, Ordering::Release);
        }
    };
    let check = || {
        let floor = floor();
        let all = drain(memtable.cursor(Bound::Unbounded));
        let in_order = |(key, timestamp): &(String, u64)| (key.clone(), u64::MAX - timestamp);
        assert!(all.is_sorted_by_key(in_order));
        let held: BTreeSet<u64> = all.iter().map(|(_, timestamp)| *timestamp).collect();
        assert_eq!(held.len(), all.len(), "a record came twice");
        for (writer, count) in (0..).zip(floor) {
            assert!((0..count).all(|version| held.contains(&timestamp(writer, version))));
        }
        for number in 0..KEYS {
            let found = memtable.newest(format!("{number:02}").as_bytes());
            let found = found.map(|entry| entry.timestamp().as_u64());
            assert!(found >= newest(&floor, number), "key {number}");
        }
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    check();
                }
            });
        }
        let _ends = Ends(&is_over);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let write = &write;
                scope.spawn(move || write(writer));
            }
        });
    });
    check();
    let record_bytes = memory_bytes(&put("00", 1, "v"));
    assert_eq!(
        memtable.bytes(),
        record_bytes * (WRITERS * VERSIONS) as usize
    );
}
