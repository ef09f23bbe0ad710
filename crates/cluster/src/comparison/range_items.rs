//! What a node remembers of a range that it has scanned.

use super::bounds::KeyBounds;
use super::digest::{Digest, Item};
use super::kind::RepairKind;
use crate::layout::Layout;
use crate::members::NodeId;
use base::{Entry, EntryRef, Timestamp};

/// The items of a range, with their keys, in the order of the keys.
///
/// A node scans a range once. Where its digest differs from a peer's, the two
/// find the items that differ from this list, without a second scan. It is kept
/// for as long as a session is near the range.
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

/// What a node compares in a session.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    /// Where keys belong.
    pub layout: &'a Layout,
    /// This node.
    pub own: NodeId,
    /// What the session compares.
    pub kind: RepairKind,
    /// What may be passed over with each node, by ID.
    pub bounds: &'a [KeyBounds],
    /// The **reach** of each node, by ID: all of its copies are of keys of which it is
    /// among so many first nodes. 0 for a node that does not take part.
    pub reaches: &'a [u8],
}

/// What a node has in a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSummary {
    /// By node ID: a digest of what is [shared](RangeItems::shared_with) with it.
    pub digests: Vec<Digest>,
    /// The copies of which this node is no replica.
    pub non_owned: u32,
    /// The versions that are [announced](RangeItems::announced_to) to some node.
    pub announces: u32,
    /// The versions of which this node has the only copy.
    pub single_copies: u32,
    /// How far down the preference lists of the keys this node keeps copies.
    pub reach: u8,
}

impl Comparison<'_> {
    fn bounds_with(&self, peer: NodeId) -> Option<&KeyBounds> {
        self.bounds.get(peer.index())
    }

    /// Whether a version may have changed since this node and `peer` were last found equal.
    fn concerns(&self, item: &KeyItem, key: &[u8], peer: NodeId) -> bool {
        let bounds = self.bounds_with(peer);
        bounds.is_some_and(|bounds| item.item.timestamp >= bounds.of(key))
    }

    fn announces(&self, item: &KeyItem, key: &[u8], peer: NodeId) -> bool {
        let is_replica = self.layout.is_replica(self.own, key, item.copies);
        // Of most keys this is all that a full session asks.
        if is_replica && self.kind == RepairKind::Full {
            return false;
        }
        if peer == self.own || !self.concerns(item, key, peer) {
            return false;
        }
        let replicas = self.layout.replicas(key, item.copies);
        if !is_replica {
            return replicas.contains(&peer);
        }
        let reach = self.reaches.get(peer.index()).copied().unwrap_or(0);
        self.kind == RepairKind::Incremental
            && item.copies < reach
            && !replicas.contains(&peer)
            && self.layout.preference_list(key, reach).contains(&peer)
    }

    /// The place of this node in the preference list of a key, from 1 on.
    fn place_of_own(&self, key: &[u8]) -> u8 {
        let preference_list = self.layout.preference_list(key, u8::MAX);
        let before = preference_list.iter().position(|node| *node == self.own);
        // At most 255 nodes are ranked.
        before.map_or(u8::MAX, |before| before as u8 + 1)
    }
}

impl RangeItems {
    /// Adds the newest version of a key that is after all keys so far. What has
    /// expired by the cut is dead.
    pub fn push(&mut self, entry: EntryRef<'_>, cut: Timestamp) {
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

    /// Takes in versions that were streamed, in the order of their keys. Those
    /// that are not newer than what the range has of their key are left out. Gives
    /// the others, in order.
    #[must_use]
    pub fn take_in(&mut self, entries: Vec<Entry>, cut: Timestamp) -> Vec<Entry> {
        let Some(first) = entries.first() else {
            return entries;
        };
        // What arrives mostly follows all that is known, so only what is behind it is merged.
        let below = self.take_below(Some(first.key()));
        let before = std::mem::replace(self, below);
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
                    self.push(entry.lend(), cut);
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

    /// The items that this node compares with `peer`: those whose version names both of
    /// them as replicas, and whose timestamp is not below its key's bound.
    pub fn shared_with<'a>(
        &'a self,
        comparison: &'a Comparison<'_>,
        peer: NodeId,
    ) -> impl Iterator<Item = Item> + 'a {
        self.shared_keys(comparison, peer, &[])
            .map(|(_, item)| item)
    }

    /// As [`RangeItems::shared_with`], with the keys, and only from this key on.
    pub fn shared_keys<'a>(
        &'a self,
        comparison: &'a Comparison<'_>,
        peer: NodeId,
        from: &[u8],
    ) -> impl Iterator<Item = (&'a [u8], Item)> + 'a {
        let before = self.items.partition_point(|item| self.key(item) < from);
        let mut bounds = comparison.bounds_with(peer).map(KeyBounds::ascending);
        let is_shared = move |item: &&KeyItem| {
            let key = self.key(item);
            let bound = bounds.as_mut().map(|bounds| bounds.of(key));
            if bound.is_none_or(|bound| item.item.timestamp < bound) {
                return false;
            }
            let both = [peer, comparison.own];
            comparison.layout.are_replicas(both, key, item.copies)
        };
        let shared = self.items[before..].iter().filter(is_shared);
        shared.map(|item| (self.key(item), item.item))
    }

    /// What the coordinator of a session hears about the range.
    #[must_use]
    pub fn summary(&self, comparison: &Comparison<'_>) -> RangeSummary {
        let bounds = comparison.bounds.iter().map(KeyBounds::ascending);
        let mut digests: Vec<_> = bounds.map(|bounds| (Digest::default(), bounds)).collect();
        let mut summary = RangeSummary::default();
        let reach_max = comparison.reaches.iter().copied().max().unwrap_or(0);
        for item in &self.items {
            let key = self.key(item);
            let replicas = comparison.layout.replicas(key, item.copies);
            summary.single_copies += u32::from(item.copies == 1);
            let is_replica = replicas.contains(&comparison.own);
            if is_replica {
                summary.reach = summary.reach.max(item.copies);
                // Hashed once, whichever nodes share it.
                let alone = Digest::from_iter([item.item]);
                for node in replicas {
                    if let Some((digest, bounds)) = digests.get_mut(node.index())
                        && item.item.timestamp >= bounds.of(key)
                    {
                        digest.join(alone);
                    }
                }
            } else {
                summary.reach = summary.reach.max(comparison.place_of_own(key));
                summary.non_owned += 1;
            }
            let may_announce = match comparison.kind {
                RepairKind::Full => !is_replica,
                RepairKind::Incremental => !is_replica || item.copies < reach_max,
            };
            if may_announce {
                // The list of nodes has 255 names at most.
                let mut others = (0..digests.len()).map(|index| NodeId::new(index as u8));
                let is_announced = others.any(|node| comparison.announces(item, key, node));
                summary.announces += u32::from(is_announced);
            }
        }
        summary.digests = digests.into_iter().map(|(digest, _)| digest).collect();
        summary
    }

    /// The keys whose versions this node offers to `peer`, with the items and the numbers
    /// of copies:
    /// - non-owned copies, to the replicas of their versions;
    /// - in an incremental session, versions of which the peer is no replica, but of whose keys it
    ///   may keep an older version that had more copies. That one is passed over as
    ///   unchanged, so no comparison of what the two share would show it. In a full session
    ///   it does.
    pub fn announced_to<'a>(
        &'a self,
        comparison: &'a Comparison<'_>,
        peer: NodeId,
    ) -> impl Iterator<Item = (&'a [u8], Item, u8)> + 'a {
        let items = self.items.iter();
        let announced = items.filter(move |item| comparison.announces(item, self.key(item), peer));
        announced.map(|item| (self.key(item), item.item, item.copies))
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

    fn layout() -> Layout {
        Layout::named(&["a", "b", "c", "d", "e"], NodeId::new(0)).unwrap()
    }

    fn timestamp(ms: u64) -> Timestamp {
        Timestamp::from_unix_ms(1_700_000_000_000 + ms)
    }

    /// 100 keys of three copies each, at milliseconds 0 to 99.
    fn items() -> RangeItems {
        let mut items = RangeItems::default();
        for number in 0..100 {
            let key = format!("key-{number:02}");
            let entry = Entry::value(key.as_bytes(), timestamp(number), b"v", Expiry::NEVER, 3);
            items.push(entry.lend(), timestamp(200));
        }
        items
    }

    fn everything() -> Vec<KeyBounds> {
        vec![KeyBounds::everything(); 5]
    }

    fn full<'a>(layout: &'a Layout, own: NodeId, bounds: &'a [KeyBounds]) -> Comparison<'a> {
        Comparison {
            layout,
            own,
            kind: RepairKind::Full,
            bounds,
            reaches: &[5; 5],
        }
    }

    #[test]
    fn digests_are_over_what_each_node_shares() {
        let (items, layout, bounds) = (items(), layout(), everything());
        let mut non_owned = 0;
        for own in (0..5).map(NodeId::new) {
            let comparison = full(&layout, own, &bounds);
            let summary = items.summary(&comparison);
            for (index, digest) in summary.digests.iter().enumerate() {
                let node = NodeId::new(index as u8);
                let shared: Digest = items.shared_with(&comparison, node).collect();
                assert_eq!(*digest, shared);
            }
            // Each key of this node has two other replicas. It shares no non-owned copy.
            let total: u64 = summary.digests.iter().map(|digest| digest.items).sum();
            let own_items = 100 - u64::from(summary.non_owned);
            assert_eq!(total, 3 * own_items);
            assert_eq!(summary.single_copies, 0);
            assert_eq!(
                summary.reach, 5,
                "some copies are non-owned on the last node"
            );
            non_owned += summary.non_owned;
        }
        // Each key has three replicas of five nodes, so two hold a non-owned copy.
        assert_eq!(non_owned, 200);
    }

    #[test]
    fn what_is_below_its_bound_is_passed_over() {
        let (items, layout) = (items(), layout());
        let steps = [
            (Vec::new(), timestamp(30)),
            (b"key-50".to_vec(), timestamp(90)),
        ];
        let bounds = vec![KeyBounds::from_steps(steps); 5];
        // The keys 30 to 49, and 90 to 99, at each of their replicas.
        let shared_at = |own| {
            let digests = items.summary(&full(&layout, own, &bounds)).digests;
            digests[own.index()].items
        };
        let total: u64 = (0..5).map(NodeId::new).map(shared_at).sum();
        assert_eq!(total, 90);
    }

    #[test]
    fn non_owned_copies_are_announced_to_their_replicas() {
        let (items, layout, bounds) = (items(), layout(), everything());
        let own = NodeId::new(0);
        let comparison = full(&layout, own, &bounds);
        let mut announced = 0;
        for peer in (0..5).map(NodeId::new) {
            for (key, _, copies) in items.announced_to(&comparison, peer) {
                let replicas = layout.preference_list(key, copies);
                assert!(replicas.contains(&peer) && !replicas.contains(&own));
                announced += 1;
            }
        }
        let summary = items.summary(&comparison);
        assert_eq!(summary.announces, summary.non_owned);
        assert_eq!(announced, 3 * summary.non_owned);
    }

    #[test]
    fn an_incremental_repair_tells_those_that_may_keep_an_older_version_of_more_copies() {
        let (layout, bounds) = (layout(), everything());
        let preference_list = layout.preference_list(b"k", 5);
        let mut items = RangeItems::default();
        let entry = Entry::value(b"k", timestamp(1), b"v", Expiry::NEVER, 1);
        items.push(entry.lend(), timestamp(200));
        let told = |kind, reaches: &[u8]| {
            let comparison = Comparison {
                layout: &layout,
                own: preference_list[0],
                kind,
                bounds: &bounds,
                reaches,
            };
            let is_told = |node: &&NodeId| items.announced_to(&comparison, **node).count() > 0;
            let told: Vec<NodeId> = preference_list.iter().filter(is_told).copied().collect();
            let any = items.summary(&comparison).announces > 0;
            assert_eq!(any, !told.is_empty());
            told
        };
        assert_eq!(
            told(RepairKind::Incremental, &[3; 5]),
            preference_list[1..3]
        );
        assert_eq!(told(RepairKind::Incremental, &[5; 5]), preference_list[1..]);
        assert_eq!(told(RepairKind::Incremental, &[1; 5]), []);
        // Only the second node of the preference list has ever kept more.
        let mut reaches = [1; 5];
        reaches[preference_list[1].index()] = 2;
        assert_eq!(
            told(RepairKind::Incremental, &reaches),
            preference_list[1..2]
        );
        // A full session compares the older versions themselves.
        assert_eq!(told(RepairKind::Full, &[5; 5]), []);
    }

    #[test]
    fn a_part_is_taken_out_and_the_rest_stays() {
        let layout = layout();
        let mut rest = items();
        let bounds = everything();
        let comparison = full(&layout, NodeId::new(0), &bounds);
        let whole = rest.summary(&comparison).digests;
        let first = rest.take_below(Some(b"key-30"));
        let second = rest.take_below(Some(b"key-30"));
        assert_eq!((first.len(), second.len(), rest.len()), (30, 0, 70));
        for (part, key) in [(&first, &b"key-29"[..]), (&rest, b"key-30")] {
            let hash = xxhash_rust::xxh3::xxh3_64(key);
            let found: Vec<&[u8]> = part.find(vec![hash, 1]).map(|(key, _)| key).collect();
            assert_eq!(found, [key]);
        }
        let first = first.summary(&comparison).digests;
        let last = rest.summary(&comparison).digests;
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
            Entry::value(key.as_bytes(), timestamp(ms), b"w", Expiry::NEVER, 3)
        };
        let mut expected = RangeItems::default();
        let mut items = RangeItems::default();
        for number in [10, 20, 30] {
            items.push(entry(number, 50).lend(), timestamp(200));
        }
        let arrived = vec![
            entry(5, 1),
            entry(10, 60),
            entry(15, 1),
            entry(20, 50),
            entry(30, 40),
            entry(40, 1),
        ];
        let taken = items.take_in(arrived, timestamp(200));
        assert_eq!(
            taken,
            [entry(5, 1), entry(10, 60), entry(15, 1), entry(40, 1)]
        );
        for (number, ms) in [(5, 1), (10, 60), (15, 1), (20, 50), (30, 50), (40, 1)] {
            expected.push(entry(number, ms).lend(), timestamp(200));
        }
        let (layout, bounds) = (layout(), everything());
        let own = layout.preference_list(b"key-05", 1)[0];
        let comparison = full(&layout, own, &bounds);
        for node in 0..5 {
            let keys = |items: &RangeItems| {
                let shared = items.shared_keys(&comparison, NodeId::new(node), b"");
                let owned = shared.map(|(key, item)| (key.to_vec(), item));
                owned.collect::<Vec<_>>()
            };
            assert_eq!(keys(&items), keys(&expected));
        }
        assert_eq!(items.take_in(Vec::new(), timestamp(200)), []);
        assert_eq!(items.len(), 6);
    }

    #[test]
    fn what_follows_all_keys_is_added_to_them() {
        let (mut items, mut expected) = (items(), items());
        let later = |number: u64| {
            let key = format!("later-{number:02}");
            Entry::value(key.as_bytes(), timestamp(number), b"w", Expiry::NEVER, 3)
        };
        let arrived: Vec<Entry> = (0..3).map(later).collect();
        assert_eq!(items.take_in(arrived.clone(), timestamp(200)), arrived);
        for entry in &arrived {
            expected.push(entry.lend(), timestamp(200));
        }
        let (layout, bounds) = (layout(), everything());
        for own in (0..5).map(NodeId::new) {
            let comparison = full(&layout, own, &bounds);
            assert_eq!(items.summary(&comparison), expected.summary(&comparison));
        }
    }

    #[test]
    fn what_is_shared_is_given_from_a_key_on() {
        let (items, layout) = (items(), layout());
        let steps = [
            (Vec::new(), timestamp(30)),
            (b"key-50".to_vec(), timestamp(90)),
        ];
        for bounds in [everything(), vec![KeyBounds::from_steps(steps); 5]] {
            let (own, peer) = (NodeId::new(0), NodeId::new(1));
            let comparison = full(&layout, own, &bounds);
            let all: Vec<_> = items.shared_keys(&comparison, peer, b"").collect();
            for from in [&b"key-00"[..], b"key-42", b"key-425", b"key-95", b"l"] {
                let expected = all.iter().filter(|(key, _)| *key >= from).copied();
                let shared = items.shared_keys(&comparison, peer, from);
                assert!(shared.eq(expected), "{from:?}");
            }
        }
    }
}
