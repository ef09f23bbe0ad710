use super::*;
use crate::record::Record;
use base::{Entry, Expiry, Timestamp};
use fastrand::Rng;

fn ordered(key: &[u8], timestamp: u64, sequence: u64) -> OrderedRecord {
    let timestamp = Timestamp::from_u64(timestamp);
    let entry = Entry::value(key, timestamp, b"", Expiry::NEVER, 1);
    OrderedRecord::new(Record { sequence, entry })
}

fn sequence(ordered: &OrderedRecord) -> u64 {
    ordered.record.sequence
}

/// The sequence numbers of the records behind a position.
fn following(tree: &mut Tree, position: Position<'_>, most: usize) -> Vec<u64> {
    let mut found = Vec::new();
    tree.visit_after(position, |some| {
        found.extend(some.iter().map(sequence));
        found.len() < most
    });
    found.truncate(most);
    found
}

/// A key with few different bytes, often the prefix of another, around the length of a prefix.
fn random_key(random: &mut Rng) -> Vec<u8> {
    let length = match random.u8(..4) {
        0 => random.usize(1..4),
        _ => random.usize(12..19),
    };
    let bytes = (0..length).map(|place| match place {
        0..11 => b'k',
        _ => random.u8(..3),
    });
    bytes.collect()
}

#[test]
fn it_finds_what_a_sorted_list_has() {
    for seed in 0..20 {
        let mut random = Rng::with_seed(seed);
        let mut tree = Tree::default();
        let mut model: Vec<Record> = Vec::new();
        for number in 1..=2_000 {
            let key = match (random.u8(..5) == 0, model.last()) {
                (true, Some(last)) => last.entry.key().to_vec(),
                _ => random_key(&mut random),
            };
            let new = ordered(&key, random.u64(1..50), number);
            let place = model.partition_point(|held| held.order(&new.record).is_lt());
            model.insert(place, new.record.clone());
            tree.insert(new);
            // Between reads many records wait to be sorted.
            if random.u8(..100) > 0 && number < 2_000 {
                continue;
            }
            assert_eq!(tree.len(), model.len());
            assert_eq!(
                tree.last().map(sequence),
                model.last().map(|it| it.sequence)
            );
            let key = random_key(&mut random);
            let at = &model[random.usize(..model.len())];
            let at = OrderedRecord::new(at.clone());
            for (position, from, to) in [
                (
                    Position::Before(&key),
                    model.partition_point(|held| held.entry.key() < key.as_slice()),
                    model.partition_point(|held| held.entry.key() < key.as_slice()),
                ),
                (
                    Position::After(&key),
                    model.partition_point(|held| held.entry.key() <= key.as_slice()),
                    model.partition_point(|held| held.entry.key() <= key.as_slice()),
                ),
                (
                    Position::At(&at),
                    model.partition_point(|held| held.order(&at.record).is_le()),
                    model.partition_point(|held| held.order(&at.record).is_lt()),
                ),
            ] {
                for most in [3, usize::MAX] {
                    let expected = model[from..].iter().take(most).map(|it| it.sequence);
                    let found = following(&mut tree, position, most);
                    assert!(found.into_iter().eq(expected), "seed {seed}");
                }
                let before = tree.last_before(position).map(sequence);
                let expected = model[..to].last().map(|it| it.sequence);
                assert_eq!(before, expected, "seed {seed}");
            }
        }
        let all = model.iter().map(|it| it.sequence);
        let found = following(&mut tree, Position::Before(b""), usize::MAX);
        assert!(found.into_iter().eq(all), "seed {seed}");
        let freed = tree.into_records().map(|it| sequence(&it));
        let mut freed: Vec<u64> = freed.collect();
        freed.sort_unstable();
        freed.dedup();
        assert!(
            freed.into_iter().eq(1..=2_000),
            "all records are given back"
        );
    }
}

#[test]
fn an_empty_tree_has_no_records() {
    let mut tree = Tree::default();
    assert_eq!(tree.len(), 0);
    assert!(tree.last().is_none());
    assert!(tree.last_before(Position::After(b"k")).is_none());
    assert_eq!(following(&mut tree, Position::Before(b""), 1), []);
}

/// How many leaves these keys and timestamps make. Some of the leaves are sorted in between.
fn leaves(records: impl Iterator<Item = (u64, u64)>) -> usize {
    let mut tree = Tree::default();
    for (sequence, (key, timestamp)) in (0..).zip(records) {
        let new = ordered(&key.to_be_bytes(), timestamp, sequence);
        if sequence % 50 == 0 {
            tree.last_before(Position::At(&new));
        }
        tree.insert(new);
    }
    tree.leaves.len()
}

#[test]
fn records_that_come_in_order_fill_their_leaves() {
    let ascending = (0..100 * LEAF_RECORDS_MAX as u64).map(|key| (key, 1));
    assert!(leaves(ascending) <= 102);
}

#[test]
fn no_order_of_records_makes_many_leaves() {
    const RECORDS: u64 = 100 * LEAF_RECORDS_MAX as u64;
    let most = 2 * 100 + 2;
    assert!(leaves((0..RECORDS).rev().map(|key| (key, 1))) <= most);
    // Versions of one key, of which the newest comes first in the order, behind a full leaf.
    let full = (0..LEAF_RECORDS_MAX as u64).map(|key| (key, 1));
    let last = LEAF_RECORDS_MAX as u64 - 1;
    let versions = (2..RECORDS).map(|timestamp| (last, timestamp));
    assert!(leaves(full.clone().chain(versions)) <= most);
    // Keys between a full leaf and the last one.
    let between = (0..RECORDS).map(|key| (1 << 40 | key, 1));
    assert!(leaves(full.chain([(u64::MAX, 1)]).chain(between)) <= most);
}
