//! Retention against a model without its rules: every snapshot must see the same before
//! and after.

use super::*;
use crate::record::{ListCursor, NextRecord};
use base::{Entry, Expiry, Kind};
use std::collections::BTreeSet;

/// The time of all tests. A version that expires at 1 is dead, at 1000 alive.
const NOW_UNIX_MS: u64 = 500;

/// A reader without a snapshot sees all sequence numbers up to this one.
const READER: u64 = u64::MAX;

#[derive(Debug, PartialEq)]
struct Output {
    records: Vec<Record>,
    versions: u64,
    tombstones: u64,
}

/// What an ordinary compaction keeps, which does not ask what is hidden elsewhere.
fn retain(
    records: Vec<Record>,
    snapshots: &[u64],
    gc_threshold: u64,
    outside: &[Record],
) -> Output {
    retain_visible(records, snapshots, (gc_threshold, 0), outside, &[])
}

fn retain_visible(
    mut records: Vec<Record>,
    snapshots: &[u64],
    (gc_threshold, expired_before_unix_ms): (u64, u64),
    outside: &[Record],
    hiding: &[Record],
) -> Output {
    records.sort_by(Record::order);
    let (outside, hiding) = (outside.to_vec(), hiding.to_vec());
    let mut retained = Retained::new(
        ListCursor::new(records.into_iter().map(Ok).collect()),
        Retention {
            snapshots: snapshots.to_vec(),
            expired_before_unix_ms,
            gc_thresholds: GcThresholds {
                tombstones: Timestamp::from_u64(gc_threshold),
                non_owned: Timestamp::ZERO,
            },
            non_owned: None,
            older_elsewhere: Box::new(move |key, timestamp| {
                outside.iter().any(|record| {
                    record.entry.key() == key && record.entry.timestamp() <= timestamp
                })
            }),
            newer_elsewhere: Some(Box::new(move |key, timestamp| {
                hiding
                    .iter()
                    .any(|record| record.entry.key() == key && record.entry.timestamp() > timestamp)
            })),
            emptied_blobs: BTreeSet::new(),
        },
    );
    let mut kept = Vec::new();
    while let Some(record) = retained.next().unwrap() {
        kept.push(record);
    }
    assert_eq!(retained.next().unwrap(), None);
    Output {
        records: kept,
        versions: retained.dropped_versions(),
        tombstones: retained.dropped_tombstones(),
    }
}

/// The version of the key that `snapshot` sees, dead or alive.
fn version_seen<'a>(
    records: impl IntoIterator<Item = &'a Record>,
    snapshot: u64,
) -> Option<&'a Entry> {
    records
        .into_iter()
        .filter(|record| record.sequence <= snapshot)
        .map(|record| &record.entry)
        .max_by(|a, b| a.rank().cmp(&b.rank()))
}

/// The version of the key that `snapshot` sees, if it is alive.
fn value_seen<'a>(
    records: impl IntoIterator<Item = &'a Record>,
    snapshot: u64,
) -> Option<&'a Entry> {
    version_seen(records, snapshot).filter(|entry| entry.is_live(NOW_UNIX_MS))
}

/// One of the few versions of which small cases consist.
fn version(timestamp: u64, form: usize, sequence: u64) -> Record {
    let timestamp = Timestamp::from_u64(timestamp);
    let entry = match form {
        0 => Entry::value(b"k", timestamp, b"v", Expiry::NEVER, 1),
        1 => Entry::tombstone(b"k", timestamp, 1),
        _ => Entry::value(b"k", timestamp, b"v", Expiry::at_unix_ms(1), 1),
    };
    Record { sequence, entry }
}

/// Every multiset of `length` versions with timestamps 1 and 2, all forms, and
/// sequence numbers 0 to 3; identical versions among them.
fn all_lists(length: usize) -> Vec<Vec<Record>> {
    let mut versions = Vec::new();
    for timestamp in 1..=2 {
        for form in 0..3 {
            versions.extend((0..=3).map(|sequence| version(timestamp, form, sequence)));
        }
    }
    // As indexes into the versions, none lower than the one before it.
    let mut lists = vec![Vec::new()];
    for _ in 0..length {
        lists = lists
            .into_iter()
            .flat_map(|list: Vec<usize>| {
                let least = list.last().copied().unwrap_or(0);
                (least..versions.len()).map(move |index| [list.as_slice(), &[index]].concat())
            })
            .collect();
    }
    lists
        .into_iter()
        .map(|list| {
            list.into_iter()
                .map(|index| versions[index].clone())
                .collect()
        })
        .collect()
}

/// Whether two different versions have one timestamp.
fn has_ties(list: &[Record]) -> bool {
    let mut pairs = list.iter().flat_map(|a| list.iter().map(move |b| (a, b)));
    pairs.any(|(a, b)| a.entry.timestamp() == b.entry.timestamp() && a.entry != b.entry)
}

/// Every set of the snapshots 0 to 3.
fn all_snapshots() -> Vec<Vec<u64>> {
    (0..16_u32)
        .map(|set| (0..4).filter(|bit| set >> bit & 1 == 1).collect())
        .collect()
}

#[test]
fn every_snapshot_sees_the_same_in_every_small_case() {
    for length in 1..=3 {
        for list in all_lists(length) {
            for snapshots in all_snapshots() {
                let readers: Vec<u64> = snapshots.iter().copied().chain([READER]).collect();

                // Without a GC threshold every reader sees exactly the same version.
                let output = retain(list.clone(), &snapshots, 0, &[]);
                for &reader in &readers {
                    assert_eq!(
                        version_seen(&output.records, reader),
                        version_seen(&list, reader),
                        "{list:?} seen from {reader} of {snapshots:?} became {output:?}"
                    );
                }
                let seen: BTreeSet<_> = readers
                    .iter()
                    .filter_map(|&reader| version_seen(&list, reader))
                    .map(Entry::rank)
                    .collect();
                assert_eq!(
                    output.records.len(),
                    seen.len(),
                    "{list:?} for {snapshots:?}"
                );
                assert!(output.records.is_sorted_by(|a, b| a.order(b).is_lt()));
                assert_eq!(output.versions as usize, list.len() - seen.len());

                // Any part of the versions may lie elsewhere, and any bound be in force.
                for part in 0..1_u32 << length {
                    let is_inside = |index: usize| part >> index & 1 == 1;
                    let (inside, outside): (Vec<_>, Vec<_>) = list
                        .iter()
                        .enumerate()
                        .partition(|(index, _)| is_inside(*index));
                    let inside: Vec<Record> = inside.into_iter().map(|(_, r)| r.clone()).collect();
                    let outside: Vec<Record> =
                        outside.into_iter().map(|(_, r)| r.clone()).collect();
                    let hidings: [&[Record]; 2] = [&[], &outside];
                    let bounds = [(2, 0), (3, 0), (2, NOW_UNIX_MS), (3, NOW_UNIX_MS)];
                    for ((gc_threshold, expired_before), hiding) in bounds
                        .into_iter()
                        .flat_map(|bounds| hidings.map(|hiding| (bounds, hiding)))
                    {
                        // A tombstone of an expired version may outrank another version
                        // of its timestamp, but two writes never get the same timestamp.
                        if expired_before > 0 && has_ties(&list) {
                            continue;
                        }
                        let output = retain_visible(
                            inside.clone(),
                            &snapshots,
                            (gc_threshold, expired_before),
                            &outside,
                            hiding,
                        );
                        assert!(output.records.is_sorted_by(|a, b| a.order(b).is_lt()));
                        let after: Vec<_> = output.records.iter().chain(&outside).collect();
                        for &reader in &readers {
                            assert_eq!(
                                value_seen(after.iter().copied(), reader),
                                value_seen(&list, reader),
                                "{inside:?} beside {outside:?} below {gc_threshold}, seen from \
                                 {reader} of {snapshots:?}, became {output:?}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_version_hidden_from_elsewhere_is_dropped_unless_a_snapshot_lives() {
    let list = vec![version(1, 0, 1), version(2, 0, 2)];
    let newer = [version(3, 1, 3)];
    let kept = |snapshots: &[u64], hiding: &[Record]| {
        retain_visible(list.clone(), snapshots, (0, 0), &newer, hiding)
            .records
            .len()
    };
    assert_eq!(kept(&[], &newer), 0);
    assert_eq!(
        kept(&[], &[version(2, 0, 2)]),
        1,
        "the same version is not newer"
    );
    assert_eq!(kept(&[1], &newer), 2);
}

/// A second compaction, after some snapshots have ended, keeps of the first one's output
/// what it would have kept of the first one's input.
#[test]
fn a_second_compaction_loses_nothing_by_the_first() {
    for list in all_lists(3) {
        for snapshots in all_snapshots() {
            let first = retain(list.clone(), &snapshots, 0, &[]);
            for left in (0..=snapshots.len()).map(|from| &snapshots[from..]) {
                let second = retain(first.records.clone(), left, 0, &[]);
                let direct = retain(list.clone(), left, 0, &[]);
                let entries = |output: &Output| -> Vec<Entry> {
                    output
                        .records
                        .iter()
                        .map(|record| record.entry.clone())
                        .collect()
                };
                assert_eq!(
                    entries(&second),
                    entries(&direct),
                    "{list:?} {snapshots:?} {left:?}"
                );
            }
        }
    }
}

#[test]
fn sequence_numbers_become_0_only_below_the_least_snapshot() {
    let list = vec![
        version(5, 0, 9),
        version(4, 0, 7),
        version(3, 0, 4),
        version(2, 0, 2),
    ];
    let sequences = |snapshots: &[u64]| -> Vec<u64> {
        let output = retain(list.clone(), snapshots, 0, &[]);
        output
            .records
            .iter()
            .map(|record| record.sequence)
            .collect()
    };
    assert_eq!(sequences(&[]), [0]);
    assert_eq!(sequences(&[9]), [0]);
    assert_eq!(sequences(&[8]), [9, 0]);
    assert_eq!(sequences(&[5, 8]), [9, 7, 0]);
    assert_eq!(sequences(&[1, 5, 8]), [9, 7, 4]);
}

#[test]
fn a_tombstone_is_dropped_only_if_it_hides_nothing() {
    let tombstone = version(2, 1, 8);
    let alone = |gc_threshold, outside: &[Record]| {
        retain(
            vec![tombstone.clone(), version(1, 0, 5)],
            &[],
            gc_threshold,
            outside,
        )
    };
    assert_eq!(
        alone(3, &[]),
        Output {
            records: vec![],
            versions: 1,
            tombstones: 1
        }
    );
    // A tombstone at the bound stays. So does one that hides a version elsewhere, even of
    // the same timestamp, but not one that is older than every version elsewhere.
    assert_eq!(alone(2, &[]).records.len(), 1);
    assert_eq!(alone(3, &[version(1, 0, 1)]).records.len(), 1);
    assert_eq!(alone(3, &[version(2, 0, 1)]).records.len(), 1);
    assert_eq!(alone(3, &[version(3, 0, 1)]).records.len(), 0);
    // A snapshot that still sees the value keeps both.
    let both = retain(vec![tombstone.clone(), version(1, 0, 5)], &[6], 3, &[]);
    assert_eq!(both.records.len(), 2);
}

#[test]
fn a_version_that_has_expired_by_every_clock_becomes_a_tombstone() {
    let expiring = |expiry_unix_ms| Record {
        sequence: 0,
        entry: Entry::value(
            b"k",
            Timestamp::from_u64(2),
            b"value",
            Expiry::at_unix_ms(expiry_unix_ms),
            3,
        ),
    };
    let retained = |record: Record, gc_threshold, expired_before, outside: &[Record]| {
        let bounds = (gc_threshold, expired_before);
        retain_visible(vec![record], &[], bounds, outside, &[]).records
    };
    let tombstone = Record {
        sequence: 0,
        entry: Entry::tombstone(b"k", Timestamp::from_u64(2), 3),
    };
    let expected = std::slice::from_ref(&tombstone);
    assert_eq!(retained(expiring(99), 0, 100, &[]), expected);
    assert_eq!(retained(expiring(100), 0, 100, &[]), [expiring(100)]);
    // A version without expiry does not, and none does while the time is not certain.
    let lasting = version(2, 0, 0);
    assert_eq!(retained(lasting.clone(), 0, u64::MAX, &[]), [lasting]);
    assert_eq!(retained(expiring(0), u64::MAX, 0, &[]), [expiring(0)]);
    // Below the GC threshold it is dropped as any tombstone is.
    assert_eq!(retained(expiring(99), 3, 100, &[]), []);
    let older = [version(1, 0, 0)];
    assert_eq!(retained(expiring(99), 3, 100, &older), [tombstone]);
}

#[test]
fn keys_are_decided_one_by_one() {
    let record = |key: &[u8], kind, timestamp, sequence| Record {
        sequence,
        entry: Entry::new(
            key,
            Timestamp::from_u64(timestamp),
            kind,
            b"",
            Expiry::NEVER,
            1,
        ),
    };
    let input = vec![
        record(b"a", Kind::Tombstone, 2, 9), // dropped
        record(b"a", Kind::Value, 1, 8),     // dropped with it
        record(b"b", Kind::Tombstone, 2, 9), // kept: the snapshot sees the older value
        record(b"b", Kind::Value, 1, 3),
        record(b"c", Kind::Tombstone, 5, 9), // kept: too young to be dropped
        record(b"d", Kind::Tombstone, 1, 9), // kept: hides something elsewhere
        record(b"e", Kind::Value, 1, 9),
        record(b"f", Kind::Tombstone, 1, 2), // dropped at the end of the input
    ];
    let outside = [record(b"d", Kind::Value, 0, 1)];
    let output = retain(input, &[3], 5, &outside);
    let keys: Vec<&[u8]> = output
        .records
        .iter()
        .map(|record| record.entry.key())
        .collect();
    assert_eq!(keys, [b"b", b"b", b"c", b"d", b"e"]);
    assert_eq!((output.versions, output.tombstones), (1, 2));
}
