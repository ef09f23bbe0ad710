//! Items, and sums over them.

use base::{EntryRef, Kind, Timestamp};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed, xxh3_128};

/// What a node keeps of one key, as far as two nodes compare it.
///
/// Two nodes keep the same of a key if and only if their items are equal, but
/// for collisions of hashes. The timestamp alone would not do: it does not show
/// that a value was damaged or cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    /// The hash of the key.
    pub key_hash: u64,
    /// The timestamp of the key's newest version.
    pub timestamp: Timestamp,
    /// The hash of what that version says; [`Item::DEAD`] for a dead one.
    pub content_hash: u32,
}

impl Item {
    /// The bytes of an item, as they are hashed and sent.
    pub const BYTES: usize = 20;

    /// The content of a version that is a tombstone or has expired. Compaction
    /// turns an expired version into a tombstone on each node at its own time,
    /// so both forms must look alike.
    pub const DEAD: u32 = 0;

    /// The item of a key's newest version.
    ///
    /// Every node of a session gives the same `cut`, so all agree on what has
    /// expired, whatever their own clocks say.
    #[must_use]
    pub fn of(entry: EntryRef<'_>, cut: Timestamp) -> Self {
        let content_hash = if is_dead_at(entry, cut) {
            Self::DEAD
        } else {
            // A live version never looks dead.
            (xxh3_64(entry.value_bytes()) as u32).max(1)
        };
        Self {
            key_hash: Self::key_hash_of(entry.key()),
            timestamp: entry.timestamp(),
            content_hash,
        }
    }

    /// Whether the version is a tombstone or had expired by the cut.
    #[must_use]
    pub fn is_dead(self) -> bool {
        self.content_hash == Self::DEAD
    }

    /// The hash of a key.
    #[must_use]
    pub fn key_hash_of(key: &[u8]) -> u64 {
        xxh3_64(key)
    }

    /// The item as bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (key, rest) = bytes.split_at_mut(8);
        let (timestamp, content) = rest.split_at_mut(8);
        key.copy_from_slice(&self.key_hash.to_le_bytes());
        timestamp.copy_from_slice(&self.timestamp.as_u64().to_le_bytes());
        content.copy_from_slice(&self.content_hash.to_le_bytes());
        bytes
    }

    /// A hash that tells the items of one range apart, but for rare collisions.
    #[must_use]
    pub fn short_hash(self) -> u32 {
        self.hash(0) as u32
    }

    /// A hash of the whole item. Each `seed` gives another hash.
    pub(super) fn hash(self, seed: u64) -> u64 {
        xxh3_64_with_seed(&self.to_bytes(), seed)
    }
}

/// Whether a version is a tombstone or has expired by the cut: what [`Item::is_dead`] says
/// of its item, without the hashes.
#[must_use]
pub fn is_dead_at(entry: EntryRef<'_>, cut: Timestamp) -> bool {
    entry.kind() == Kind::Tombstone || entry.expiry().has_passed(cut.unix_ms())
}

/// The number of items and the sum of their 128-bit hashes. Sums of equal sets
/// are equal in whatever order the items came; sums of different sets differ
/// with the certainty of a 128-bit hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// The number of items.
    pub items: u64,
    /// The sum of their hashes, modulo 2^128.
    pub sum: u128,
}

impl Digest {
    /// Adds an item.
    pub fn add(&mut self, item: Item) {
        self.items = self.items.wrapping_add(1);
        self.sum = self.sum.wrapping_add(xxh3_128(&item.to_bytes()));
    }

    /// Adds the items of another digest.
    pub fn join(&mut self, other: Self) {
        self.items = self.items.wrapping_add(other.items);
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// Takes an item away that was added before.
    pub fn remove(&mut self, item: Item) {
        self.items = self.items.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(xxh3_128(&item.to_bytes()));
    }
}

impl FromIterator<Item> for Digest {
    fn from_iter<I: IntoIterator<Item = Item>>(items: I) -> Self {
        let mut digest = Self::default();
        items.into_iter().for_each(|item| digest.add(item));
        digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Entry, Expiry};

    const CUT_MS: u64 = 1_700_000_000_000;

    fn cut() -> Timestamp {
        Timestamp::from_unix_ms(CUT_MS)
    }

    fn timestamp(ms: u64) -> Timestamp {
        Timestamp::from_unix_ms(CUT_MS - 1000 + ms)
    }

    fn put(key: &[u8], ms: u64, value: &[u8], expiry: Expiry) -> Item {
        Item::of(
            Entry::value(key, timestamp(ms), value, expiry, 3).lend(),
            cut(),
        )
    }

    #[test]
    fn items_differ_in_key_timestamp_and_value() {
        let item = put(b"k", 1, b"v", Expiry::NEVER);
        assert_eq!(item, put(b"k", 1, b"v", Expiry::NEVER));
        assert_ne!(item, put(b"l", 1, b"v", Expiry::NEVER));
        assert_ne!(item, put(b"k", 2, b"v", Expiry::NEVER));
        assert_ne!(item, put(b"k", 1, b"w", Expiry::NEVER));
        let tombstone = Item::of(Entry::tombstone(b"k", timestamp(1), 3).lend(), cut());
        assert_ne!(item, tombstone);
        assert_ne!(put(b"k", 1, b"", Expiry::NEVER), tombstone);
    }

    #[test]
    fn a_version_that_expired_before_the_cut_equals_its_tombstone() {
        let tombstone = Item::of(Entry::tombstone(b"k", timestamp(1), 3).lend(), cut());
        assert_eq!(put(b"k", 1, b"v", Expiry::at_unix_ms(CUT_MS)), tombstone);
        assert_ne!(
            put(b"k", 1, b"v", Expiry::at_unix_ms(CUT_MS + 1)),
            tombstone
        );
    }

    #[test]
    fn digests_ignore_order_and_undo() {
        let items: Vec<Item> = (0..100)
            .map(|n: u8| put(&[n], u64::from(n), &[n], Expiry::NEVER))
            .collect();
        let forward: Digest = items.iter().copied().collect();
        let mut backward: Digest = items.iter().rev().copied().collect();
        assert_eq!(forward, backward);
        backward.remove(items[7]);
        assert_ne!(forward, backward);
        backward.add(items[7]);
        assert_eq!(forward, backward);
        // The same item twice is not the same as none.
        backward.add(items[7]);
        backward.add(items[7]);
        assert_ne!(forward, backward);
    }
}
