//! What a node remembers of a range that it has scanned.

use super::bounds::KeyBounds;
use super::digest::{Digest, Item};
use crate::node_number::NodeNumber;
use crate::placement::Placement;
use base::{Entry, Timestamp};

/// The items of a range, with their keys, in the order of the keys.
///
/// A node scans a range once. Where its digest differs from a peer's, the two
/// find the items that differ from this list, without a second scan. It is kept
/// for as long as a pass is near the range.
#[derive(Debug, Default)]
pub struct RangeItems {
    items: Vec<KeyItem>,
    keys: Vec<u8>,
}

/// An item with its key and the number of copies of its version.
#[derive(Clone, Copy, Debug)]
struct KeyItem {
    item: Item,
    key_begin: u32,
    key_bytes: u16,
    copies: u8,
}

impl RangeItems {
    /// Adds the newest version of a key that is after all keys so far. What has
    /// expired by the cut is dead.
    pub fn push(&mut self, entry: &Entry, cut: Timestamp) {
        self.push_item(entry.key(), Item::of(entry, cut), entry.copies());
    }

    fn push_item(&mut self, key: &[u8], item: Item, copies: u8) {
        // Both fit: keys have 4096 bytes at most, and a range is bounded.
        let (key_begin, key_bytes) = (self.keys.len() as u32, key.len() as u16);
        self.keys.extend_from_slice(key);
        self.items.push(KeyItem {
            item,
            key_begin,
            key_bytes,
            copies,
        });
    }

    /// Takes in versions that have arrived in bulk, in the order of their keys. Those
    /// that are not newer than what the range has of their key are left out. Gives
    /// the others, in order.
    #[must_use]
    pub fn take_in(&mut self, entries: Vec<Entry>, cut: Timestamp) -> Vec<Entry> {
        let before = std::mem::take(self);
        let mut known = before.items.iter().peekable();
        let mut taken = Vec::with_capacity(entries.len());
        for entry in entries {
            let key = entry.key();
            while let Some(item) = known.next_if(|item| before.key(item) < key) {
                self.push_item(before.key(item), item.item, item.copies);
            }
            match known.next_if(|item| before.key(item) == key) {
                Some(item) if item.item.timestamp >= entry.timestamp() => {
                    self.push_item(key, item.item, item.copies);
                }
                _ => {
                    self.push(&entry, cut);
                    taken.push(entry);
                }
            }
        }
        for item in known {
            self.push_item(before.key(item), item.item, item.copies);
        }
        taken
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Takes out the items of the keys below `end`, all of them for [`None`].
    #[must_use]
    pub fn take_below(&mut self, end: Option<&[u8]>) -> Self {
        let below = match end {
            Some(end) => self.items.partition_point(|item| self.key(item) < end),
            None => self.items.len(),
        };
        let mut rest = self.items.split_off(below);
        let begin = rest
            .first()
            .map_or(self.keys.len(), |item| item.key_begin as usize);
        let rest_keys = self.keys.split_off(begin);
        for item in &mut rest {
            item.key_begin -= begin as u32;
        }
        let rest = Self {
            items: rest,
            keys: rest_keys,
        };
        std::mem::replace(self, rest)
    }

    /// The items that this node compares with `peer`: those whose version names
    /// the peer as a replica, and whose timestamp is not below its key's bound.
    pub fn shared_with<'a>(
        &'a self,
        placement: &'a Placement,
        peer: NodeNumber,
        bounds: &'a KeyBounds,
    ) -> impl Iterator<Item = Item> + 'a {
        self.shared_keys(placement, peer, bounds)
            .map(|(_, item)| item)
    }

    /// As [`RangeItems::shared_with`], with the keys.
    pub fn shared_keys<'a>(
        &'a self,
        placement: &'a Placement,
        peer: NodeNumber,
        bounds: &'a KeyBounds,
    ) -> impl Iterator<Item = (&'a [u8], Item)> + 'a {
        let mut bounds = bounds.ascending();
        let is_shared = move |item: &&KeyItem| {
            let key = self.key(item);
            item.item.timestamp >= bounds.of(key)
                && placement.replicas(key, item.copies).contains(&peer)
        };
        let shared = self.items.iter().filter(is_shared);
        shared.map(|item| (self.key(item), item.item))
    }

    /// A digest for each node, by number: of what is
    /// [shared](RangeItems::shared_with) with it. `bounds` has one for each node.
    #[must_use]
    pub fn digests(&self, placement: &Placement, bounds: &[KeyBounds]) -> Vec<Digest> {
        let bounds = bounds.iter().map(KeyBounds::ascending);
        let mut digests: Vec<_> = bounds.map(|bounds| (Digest::default(), bounds)).collect();
        for item in &self.items {
            let key = self.key(item);
            // Hashed once, whichever nodes share it.
            let alone = Digest::from_iter([item.item]);
            for node in placement.replicas(key, item.copies) {
                if let Some((digest, bounds)) = digests.get_mut(node.index())
                    && item.item.timestamp >= bounds.of(key)
                {
                    digest.join(alone);
                }
            }
        }
        digests.into_iter().map(|(digest, _)| digest).collect()
    }

    /// The keys, with their numbers of copies, of which this node, `own`, is no
    /// replica: surplus copies.
    pub fn surplus<'a>(
        &'a self,
        placement: &'a Placement,
        own: NodeNumber,
    ) -> impl Iterator<Item = (&'a [u8], u8)> + 'a {
        let is_surplus = move |item: &&KeyItem| {
            let replicas = placement.replicas(self.key(item), item.copies);
            !replicas.contains(&own)
        };
        let surplus = self.items.iter().filter(is_surplus);
        surplus.map(|item| (self.key(item), item.copies))
    }

    /// The keys with these hashes that are in the range, and their items.
    pub fn find(&self, mut key_hashes: Vec<u64>) -> impl Iterator<Item = (&[u8], Item)> {
        key_hashes.sort_unstable();
        self.items
            .iter()
            .filter(move |item| key_hashes.binary_search(&item.item.key_hash).is_ok())
            .map(|item| (self.key(item), item.item))
    }

    fn key(&self, item: &KeyItem) -> &[u8] {
        let begin = item.key_begin as usize;
        &self.keys[begin..begin + usize::from(item.key_bytes)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Expiry;

    fn placement() -> Placement {
        Placement::new(["a", "b", "c", "d", "e"])
    }

    fn stamp(ms: u64) -> Timestamp {
        Timestamp::from_unix_ms(1_700_000_000_000 + ms)
    }

    /// 100 keys of three copies each, at milliseconds 0 to 99.
    fn items() -> RangeItems {
        let mut items = RangeItems::default();
        for number in 0..100 {
            let key = format!("key-{number:02}");
            let entry = Entry::value(key.as_bytes(), stamp(number), b"v", Expiry::NEVER, 3);
            items.push(&entry, stamp(200));
        }
        items
    }

    fn everything() -> Vec<KeyBounds> {
        vec![KeyBounds::everything(); 5]
    }

    #[test]
    fn digests_are_over_what_each_node_shares() {
        let (items, placement) = (items(), placement());
        let digests = items.digests(&placement, &everything());
        let total: u64 = digests.iter().map(|digest| digest.items).sum();
        assert_eq!(total, 300);
        let everything = KeyBounds::everything();
        for (index, digest) in digests.iter().enumerate() {
            let node = NodeNumber::new(index as u8);
            let shared: Digest = items.shared_with(&placement, node, &everything).collect();
            assert_eq!(*digest, shared);
        }
        // Each key has three replicas of five nodes, so two hold a surplus copy.
        let surplus_at = |node| items.surplus(&placement, NodeNumber::new(node)).count();
        assert_eq!((0..5).map(surplus_at).sum::<usize>(), 200);
    }

    #[test]
    fn what_is_below_its_bound_is_passed_over() {
        let (items, placement) = (items(), placement());
        let steps = [(Vec::new(), stamp(30)), (b"key-50".to_vec(), stamp(90))];
        let bounds = KeyBounds::from_steps(steps);
        let digests = items.digests(&placement, &vec![bounds; 5]);
        // The keys 30 to 49, and 90 to 99.
        let total: u64 = digests.iter().map(|digest| digest.items).sum();
        assert_eq!(total, 90);
    }

    #[test]
    fn a_part_is_taken_out_and_the_rest_stays() {
        let placement = placement();
        let mut rest = items();
        let whole = rest.digests(&placement, &everything());
        let first = rest.take_below(Some(b"key-30"));
        let second = rest.take_below(Some(b"key-30"));
        assert_eq!((first.len(), second.len(), rest.len()), (30, 0, 70));
        for (part, key) in [(&first, &b"key-29"[..]), (&rest, b"key-30")] {
            let hash = xxhash_rust::xxh3::xxh3_64(key);
            let found: Vec<&[u8]> = part.find(vec![hash, 1]).map(|(key, _)| key).collect();
            assert_eq!(found, [key]);
        }
        let first = first.digests(&placement, &everything());
        let last = rest.digests(&placement, &everything());
        for ((whole, first), last) in whole.iter().zip(&first).zip(&last) {
            assert_eq!(whole.items, first.items + last.items);
            assert_eq!(whole.sum, first.sum.wrapping_add(last.sum));
        }
        assert_eq!(rest.take_below(None).len(), 70);
        assert!(rest.is_empty());
    }

    #[test]
    fn what_is_taken_in_replaces_only_what_is_older() {
        let entry = |number: u64, ms: u64| {
            let key = format!("key-{number:02}");
            Entry::value(key.as_bytes(), stamp(ms), b"w", Expiry::NEVER, 3)
        };
        let mut expected = RangeItems::default();
        let mut items = RangeItems::default();
        for number in [10, 20, 30] {
            items.push(&entry(number, 50), stamp(200));
        }
        let arrived = vec![
            entry(5, 1),
            entry(10, 60),
            entry(15, 1),
            entry(20, 50),
            entry(30, 40),
            entry(40, 1),
        ];
        let taken = items.take_in(arrived, stamp(200));
        assert_eq!(
            taken,
            [entry(5, 1), entry(10, 60), entry(15, 1), entry(40, 1)]
        );
        for (number, ms) in [(5, 1), (10, 60), (15, 1), (20, 50), (30, 50), (40, 1)] {
            expected.push(&entry(number, ms), stamp(200));
        }
        let (placement, bounds) = (placement(), KeyBounds::everything());
        for node in 0..5 {
            let keys = |items: &RangeItems| {
                let shared = items.shared_keys(&placement, NodeNumber::new(node), &bounds);
                let owned = shared.map(|(key, item)| (key.to_vec(), item));
                owned.collect::<Vec<_>>()
            };
            assert_eq!(keys(&items), keys(&expected));
        }
        assert_eq!(items.take_in(Vec::new(), stamp(200)), []);
        assert_eq!(items.len(), 6);
    }
}
