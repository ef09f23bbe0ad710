//! What a node keeps in a range of keys, summed up for those who compare nodes from
//! outside.
//!
//! It is the digest that nodes compare in a session, over any range, with the bytes that
//! the items stand for. Two nodes that keep the same give the same for the same
//! [`KeptScope`], although a value that has expired may be a tombstone on one of them.

use super::digest::{Digest, Item, is_dead_at};
use crate::layout::Layout;
use crate::members::NodeId;
use base::{EntryRef, Timestamp};
use std::sync::Arc;

/// Which keys count.
#[derive(Clone, Debug)]
pub struct KeptScope {
    /// Where keys belong.
    pub layout: Arc<Layout>,
    /// Only the keys of which both nodes are replicas, if there are two.
    pub both: Option<[NodeId; 2]>,
    /// A key whose newest version is above it does not count. What has expired by it is
    /// dead.
    pub cut: Timestamp,
    /// A key whose newest version is dead and below it does not count: a node may have
    /// dropped it.
    pub gc_threshold: Timestamp,
}

impl KeptScope {
    /// Whether a key counts, by its newest version. It hashes no value.
    fn counts(&self, entry: EntryRef<'_>) -> bool {
        let is_collected = entry.timestamp() < self.gc_threshold && is_dead_at(entry, self.cut);
        entry.timestamp() <= self.cut
            && !is_collected
            && self
                .both
                .is_none_or(|both| self.layout.are_replicas(both, entry.key(), entry.copies()))
    }
}

/// What a node keeps of the keys that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The digest of their items. Deleted keys are items, too.
    pub digest: Digest,
    /// The bytes of the keys, and of the values that are not dead.
    pub bytes: u64,
}

impl Kept {
    /// Adds the newest version of a key, if the key counts.
    pub fn add(&mut self, entry: EntryRef<'_>, scope: &KeptScope) {
        if !scope.counts(entry) {
            return;
        }
        let item = Item::of(entry, scope.cut);
        let value_bytes = if item.is_dead() {
            0
        } else {
            entry.value_bytes().len()
        };
        self.bytes += (entry.key().len() + value_bytes) as u64;
        self.digest.add(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Entry, Expiry};

    const CUT_MS: u64 = 1_700_000_000_000;

    fn timestamp(ms: u64) -> Timestamp {
        Timestamp::from_unix_ms(CUT_MS - 1000 + ms)
    }

    fn scope() -> KeptScope {
        KeptScope {
            layout: Arc::new(Layout::named(&["a", "b", "c"], NodeId::new(0)).unwrap()),
            both: None,
            cut: Timestamp::from_unix_ms(CUT_MS),
            gc_threshold: Timestamp::ZERO,
        }
    }

    fn kept(entries: &[Entry], scope: &KeptScope) -> Kept {
        let mut kept = Kept::default();
        entries
            .iter()
            .for_each(|entry| kept.add(entry.lend(), scope));
        kept
    }

    fn put(key: &str, ms: u64, value: &[u8]) -> Entry {
        Entry::value(key.as_bytes(), timestamp(ms), value, Expiry::NEVER, 3)
    }

    #[test]
    fn what_differs_in_a_value_a_timestamp_or_a_deletion_differs() {
        let same = kept(&[put("a", 1, b"one"), put("b", 2, b"two")], &scope());
        assert_eq!(
            same,
            kept(&[put("b", 2, b"two"), put("a", 1, b"one")], &scope())
        );
        assert_eq!((same.digest.items, same.bytes), (2, 8));
        for other in [
            put("b", 2, b"TWO"),
            put("b", 3, b"two"),
            put("c", 2, b"two"),
            Entry::tombstone(b"b", timestamp(2), 3),
        ] {
            let other = kept(&[put("a", 1, b"one"), other], &scope());
            assert_ne!(same.digest, other.digest);
        }
    }

    #[test]
    fn an_expired_value_counts_as_the_tombstone_that_it_becomes() {
        let expiry = Expiry::at_unix_ms(CUT_MS);
        let expired = Entry::value(b"k", timestamp(1), b"value", expiry, 3);
        let tombstone = Entry::tombstone(b"k", timestamp(1), 3);
        let scope = scope();
        assert_eq!(
            kept(std::slice::from_ref(&expired), &scope),
            kept(&[tombstone], &scope)
        );
        let before = KeptScope {
            cut: Timestamp::from_unix_ms(CUT_MS - 1),
            ..scope
        };
        assert_eq!(kept(&[expired], &before).bytes, 6);
    }

    #[test]
    fn what_is_above_the_cut_or_collected_does_not_count() {
        let entries = [
            put("a", 1, b"v"),
            put("b", 5, b"v"),
            Entry::tombstone(b"c", timestamp(1), 3),
            Entry::tombstone(b"d", timestamp(4), 3),
        ];
        let items = |cut: u64, gc_threshold: u64| {
            let scope = KeptScope {
                cut: timestamp(cut),
                gc_threshold: timestamp(gc_threshold),
                ..scope()
            };
            kept(&entries, &scope).digest.items
        };
        assert_eq!(items(9, 0), 4);
        assert_eq!(items(5, 0), 4, "the cut itself counts");
        assert_eq!(items(4, 0), 3);
        assert_eq!(items(9, 4), 3, "what is at the bound is not below it");
        assert_eq!(items(9, 5), 2, "values are never collected");
        assert_eq!(items(4, 5), 1);
    }

    #[test]
    fn only_keys_that_belong_to_both_nodes_count() {
        let scope = scope();
        let entries: Vec<Entry> = (0..100)
            .map(|number| {
                let key = format!("key-{number}");
                Entry::value(key.as_bytes(), timestamp(1), b"v", Expiry::NEVER, 2)
            })
            .collect();
        let of_pair = |one: u8, other: u8| {
            let scope = KeptScope {
                both: Some([NodeId::new(one), NodeId::new(other)]),
                ..scope.clone()
            };
            kept(&entries, &scope).digest.items
        };
        let pairs = [of_pair(0, 1), of_pair(0, 2), of_pair(1, 2)];
        assert!(pairs.iter().all(|items| *items > 0), "{pairs:?}");
        assert_eq!(pairs.iter().sum::<u64>(), 100, "two of three keep each key");
        assert_eq!(of_pair(1, 0), of_pair(0, 1));
    }
}
