//! What becomes of versions that belong to other stores only.

use super::*;
use crate::record::{ListCursor, NextRecord};
use base::{Entry, Kind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A reader without a snapshot sees all sequence numbers up to this one.
const READER: u64 = u64::MAX;

/// The forms of a version: a value of this store, a tombstone, a non-owned value.
const FORMS: usize = 3;

const NON_OWNED_COPIES: u8 = 1;

fn version(timestamp: u64, form: usize, sequence: u64) -> Record {
    let at = Timestamp::from_u64(timestamp);
    let entry = match form {
        0 => Entry::value(b"k", at, b"v", Expiry::NEVER, 3),
        1 => Entry::tombstone(b"k", at, NON_OWNED_COPIES),
        _ => Entry::value(b"k", at, b"s", Expiry::NEVER, NON_OWNED_COPIES),
    };
    Record { sequence, entry }
}

fn non_owned() -> NonOwned {
    NonOwned {
        is_non_owned: Arc::new(|_, copies| copies == NON_OWNED_COPIES),
        gc_threshold: Arc::new(|| Timestamp::MAX),
    }
}

struct Output {
    records: Vec<Record>,
    non_owned: u64,
    tombstones: u64,
}

/// What a compaction keeps of `records` below the bounds for tombstones and for non-owned, with
/// the rest of the versions outside.
fn retain(
    mut records: Vec<Record>,
    snapshots: &[u64],
    (tombstones, below): (u64, u64),
    outside: &[Record],
) -> Output {
    records.sort_by(Record::order);
    let outside = outside.to_vec();
    let retention = Retention {
        snapshots: snapshots.to_vec(),
        expired_before_unix_ms: 0,
        gc_thresholds: GcThresholds {
            tombstones: Timestamp::from_u64(tombstones),
            non_owned: Timestamp::from_u64(below),
        },
        non_owned: Some(non_owned()),
        older_elsewhere: Box::new(move |_, timestamp| {
            let mut outside = outside.iter();
            outside.any(|record| record.entry.timestamp() <= timestamp)
        }),
        newer_elsewhere: None,
        emptied_blobs: BTreeSet::new(),
    };
    let cursor = ListCursor::new(records.into_iter().map(Ok).collect());
    let mut retained = Retained::new(cursor, retention);
    let mut kept = Vec::new();
    while let Some(record) = retained.next().unwrap() {
        kept.push(record);
    }
    Output {
        records: kept,
        non_owned: retained.dropped_non_owned(),
        tombstones: retained.dropped_tombstones(),
    }
}

/// The version that `snapshot` sees.
fn seen(records: &[Record], snapshot: u64) -> Option<&Entry> {
    let records = records.iter().filter(|record| record.sequence <= snapshot);
    let entries = records.map(|record| &record.entry);
    entries.max_by(|one, other| one.rank().cmp(&other.rank()))
}

fn value_seen(records: &[Record], snapshot: u64) -> Option<&Entry> {
    seen(records, snapshot).filter(|entry| entry.kind() == Kind::Value)
}

/// Every list of so many versions with timestamps 1 and 2, all forms, and sequence numbers 1
/// and 2.
fn all_lists(length: usize) -> Vec<Vec<Record>> {
    let one = || (1..=2).flat_map(|at| (0..FORMS).map(move |form| (at, form)));
    let all: Vec<Record> = one()
        .flat_map(|(at, form)| (1..=2).map(move |sequence| version(at, form, sequence)))
        .collect();
    let mut lists = vec![Vec::new()];
    for _ in 0..length {
        lists = lists
            .into_iter()
            .flat_map(|list: Vec<Record>| {
                let longer =
                    |record: &Record| [list.as_slice(), std::slice::from_ref(record)].concat();
                all.iter().map(longer).collect::<Vec<_>>()
            })
            .collect();
    }
    lists
}

#[test]
fn non_owned_stays_once_its_bound_is_withdrawn() {
    let bound = Arc::new(AtomicU64::new(5));
    let present = Arc::clone(&bound);
    let gc_threshold = Arc::new(move || Timestamp::from_u64(present.load(Relaxed)));
    let at = Timestamp::from_u64(1);
    let records = [b"a", b"b", b"c"].map(|key| Record {
        sequence: 1,
        entry: Entry::value(key, at, b"s", Expiry::NEVER, NON_OWNED_COPIES),
    });
    let retention = Retention {
        snapshots: Vec::new(),
        expired_before_unix_ms: 0,
        gc_thresholds: GcThresholds {
            tombstones: Timestamp::from_u64(5),
            non_owned: Timestamp::from_u64(5),
        },
        non_owned: Some(NonOwned {
            gc_threshold,
            ..non_owned()
        }),
        older_elsewhere: Box::new(|_, _| false),
        newer_elsewhere: None,
        emptied_blobs: BTreeSet::new(),
    };
    let mut retained = Retained::new(ListCursor::new(Vec::from(records.map(Ok))), retention);
    assert!(matches!(retained.step().unwrap(), Step::Passed));
    assert!(retained.may_drop_non_owned());
    bound.store(0, Relaxed);
    let mut kept = Vec::new();
    while let Some(record) = retained.next().unwrap() {
        kept.push(record.entry.key().to_vec());
    }
    assert_eq!(kept, [b"b", b"c"]);
    assert_eq!(retained.dropped_non_owned(), 1);
    // The first one is not gone before the tables are replaced.
    assert!(!retained.may_drop_non_owned());
    bound.store(1, Relaxed);
    assert!(!retained.may_drop_non_owned());
    bound.store(2, Relaxed);
    assert!(retained.may_drop_non_owned());
}

#[test]
fn non_owned_goes_below_its_bound_and_shows_nothing_older_in_any_small_case() {
    let mut dropped = 0;
    for length in 1..=3 {
        for list in all_lists(length) {
            for (snapshots, bounds, part) in [&[][..], &[1], &[2]]
                .into_iter()
                .flat_map(|it| [(3, 3), (3, 2), (2, 2), (3, 0)].map(|bounds| (it, bounds)))
                .flat_map(|(it, bounds)| (1..1_u32 << length).map(move |part| (it, bounds, part)))
            {
                let is_inside = |index: usize| part >> index & 1 == 1;
                let (inside, outside): (Vec<_>, Vec<_>) =
                    (0..length).partition(|index| is_inside(*index));
                let [inside, outside] = [inside, outside]
                    .map(|part| part.iter().map(|at| list[*at].clone()).collect::<Vec<_>>());
                let output = retain(inside.clone(), snapshots, bounds, &outside);
                dropped += output.non_owned;
                let case = || format!("{inside:?} beside {outside:?}, {snapshots:?}, {bounds:?}");
                let after = [output.records.as_slice(), &outside].concat();
                for snapshot in snapshots {
                    let before = value_seen(&list, *snapshot);
                    assert_eq!(value_seen(&after, *snapshot), before, "{}", case());
                }
                let before = value_seen(&list, READER);
                let now = value_seen(&after, READER);
                let may_go = before.is_some_and(|entry| {
                    entry.copies() == NON_OWNED_COPIES && entry.timestamp().as_u64() < bounds.1
                });
                let is_gone = may_go && snapshots.is_empty() && now.is_none();
                assert!(is_gone || now == before, "{} shows {now:?}", case());
            }
        }
    }
    assert!(dropped > 1000, "{dropped}");
}

#[test]
fn a_non_owned_version_is_dropped_only_below_its_own_bound_and_that_for_tombstones_is_another() {
    let list = || vec![version(5, 2, 2), version(4, 0, 1)];
    let left = |bounds, snapshots: &[u64], outside: &[Record]| {
        retain(list(), snapshots, bounds, outside).records.len()
    };
    assert_eq!(left((9, 6), &[], &[]), 0, "the older version goes with it");
    assert_eq!(left((9, 5), &[], &[]), 1);
    assert_eq!(left((9, 0), &[], &[]), 1);
    // A scan sees it, or may have seen it before.
    assert_eq!(left((9, 6), &[7], &[]), 1);
    // Without it an older one would be seen, but not one that is newer.
    assert_eq!(left((9, 6), &[], &[version(3, 0, 1)]), 1);
    assert_eq!(left((9, 6), &[], &[version(6, 0, 1)]), 0);
    // A tombstone goes by the bound for tombstones, wherever it belongs.
    let tombstone = retain(vec![version(5, 1, 1)], &[], (6, 0), &[]);
    assert_eq!((tombstone.tombstones, tombstone.non_owned), (1, 0));
    let tombstone = retain(vec![version(5, 1, 1)], &[], (5, 5), &[]);
    assert_eq!(tombstone.records.len(), 1);
    // What belongs to this store stays.
    assert_eq!(
        retain(vec![version(5, 0, 1)], &[], (9, 9), &[])
            .records
            .len(),
        1
    );
}
