//! The newest version of each key, by the key's hash. Point reads use this index
//! instead of the tree, where a search is many comparisons. Writes find in it whether
//! their key has an older or a newer version.

use crate::locks::{read, write};
use crate::table::KeyHash;
use base::Entry;
use smallvec::SmallVec;
use std::hint::black_box;
use std::iter::once;
use std::sync::{OnceLock, PoisonError, RwLock};

/// The number of slots of a bucket, so that it fills a line of the processor's cache.
const BUCKET_SLOTS: usize = 4;

/// The number of buckets that are allocated at a time: a page of memory, so that a new
/// memtable delays no write.
const CHUNK_BUCKETS: usize = 64;

/// The bytes of a memtable for each slot. Most records take more, so about half of the
/// slots stay empty and a search visits few buckets.
const BYTES_PER_SLOT: usize = 128;

/// The number of buckets in which a key may be. Other keys may fill all of them, by
/// chance or because a client chose its keys so. Then the tree has to be searched.
const PROBES_MAX: usize = 8;

/// For so many keys of a group the index is read ahead. With more, the first would be gone from
/// the cache again.
pub(super) const PREFETCHED_MAX: usize = 64;

/// How many versions are read at the same time.
const PREFETCHED_TOGETHER: usize = 16;

/// A hash table of fixed size with linear probing from bucket to bucket. A short entry is
/// behind one pointer, so a search waits for memory twice: for the bucket and for the
/// entry.
pub(super) struct HashIndex {
    chunks: Box<[OnceLock<Box<Chunk>>]>,
}

type Chunk = [Bucket; CHUNK_BUCKETS];

/// The lock is held for the comparison of two versions, and to put one into its slot.
#[derive(Default)]
#[repr(align(64))]
struct Bucket(RwLock<Slots>);

/// The slots of a bucket are taken one after another. One that is taken stays with its key.
#[derive(Default)]
struct Slots {
    /// Bits of the hash of each key, so that a search looks at hardly any entry of another.
    tags: [u32; BUCKET_SLOTS],
    newest: [Option<Entry>; BUCKET_SLOTS],
}

/// What the index knows about a key.
pub(super) enum NewestVersion {
    /// The key has no version.
    Absent,
    /// The key's newest version.
    Found(Entry),
    /// The key may have versions; the tree knows.
    Unknown,
}

impl HashIndex {
    /// An index for a memtable of `bytes` bytes. It may hold more, and is slower then.
    pub(super) fn new(bytes: usize) -> Self {
        let chunks = bytes.div_ceil(BYTES_PER_SLOT * BUCKET_SLOTS * CHUNK_BUCKETS);
        Self {
            chunks: (0..chunks.max(1)).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The newest version of a key that was added.
    pub(super) fn find(&self, key: &[u8], hash: KeyHash) -> NewestVersion {
        let hash = hash.as_u64();
        let Some(chunk) = self.chunk(hash).get() else {
            return NewestVersion::Absent;
        };
        for bucket in buckets(chunk, hash) {
            let slots = read(&bucket.0);
            match slots.place(key, tag(hash)) {
                Place::Taken(_, newest) => return NewestVersion::Found(newest.clone()),
                Place::Free(_) => return NewestVersion::Absent,
                Place::Elsewhere => {}
            }
        }
        NewestVersion::Unknown
    }

    /// Reads what insertions of keys with these hashes read first: their buckets, then the
    /// versions there. Each loop does little else, so that the processor is far enough ahead to
    /// read for many keys at the same time.
    pub(super) fn prefetch(&self, hashes: &[KeyHash]) {
        let buckets = hashes.iter().filter_map(|hash| {
            let hash = hash.as_u64();
            let chunk = self.chunk(hash).get()?;
            Some((&chunk[hash as usize % CHUNK_BUCKETS], tag(hash)))
        });
        let buckets: SmallVec<[(&Bucket, u32); PREFETCHED_MAX]> = buckets.collect();
        for (bucket, _) in &buckets {
            black_box(bucket.0.is_poisoned());
        }
        for some in buckets.chunks(PREFETCHED_TOGETHER) {
            // A lock waits for all reads before it, so all locks are taken first. Nobody waits
            // for one here, because nobody may wait for a lock that holds another.
            let slots = some
                .iter()
                .filter_map(|(bucket, tag)| Some((bucket.0.try_read().ok()?, *tag)));
            let slots: SmallVec<[_; PREFETCHED_TOGETHER]> = slots.collect();
            for (slots, tag) in &slots {
                let held = slots.tags.iter().zip(&slots.newest);
                let same = held.filter(|(held, _)| *held == tag);
                same.filter_map(|(_, newest)| newest.as_ref())
                    .for_each(Entry::prefetch);
            }
        }
    }

    /// Adds a version, unless the index holds a newer one.
    pub(super) fn add(&self, entry: &Entry, hash: KeyHash) {
        let hash = hash.as_u64();
        let chunk = self
            .chunk(hash)
            .get_or_init(|| Box::new(std::array::from_fn(|_| Bucket::default())));
        for bucket in buckets(chunk, hash) {
            let mut slots = write(&bucket.0);
            let slot = match slots.place(entry.key(), tag(hash)) {
                Place::Taken(_, newest) if newest.rank() >= entry.rank() => return,
                Place::Taken(slot, _) | Place::Free(slot) => slot,
                Place::Elsewhere => continue,
            };
            slots.tags[slot] = tag(hash);
            slots.newest[slot] = Some(entry.clone());
            return;
        }
    }

    /// Its entries, and nothing behind those of each chunk, which is freed with that.
    pub(super) fn into_entries(self) -> impl Iterator<Item = Option<Entry>> + Send {
        let chunks = self.chunks.into_iter().filter_map(OnceLock::into_inner);
        chunks.flat_map(|chunk| {
            let buckets = (chunk as Box<[Bucket]>).into_iter();
            let entries = buckets.flat_map(|bucket| {
                let slots = bucket.0.into_inner();
                let slots = slots.unwrap_or_else(PoisonError::into_inner);
                slots.newest.into_iter().flatten()
            });
            entries.map(Some).chain(once(None))
        })
    }

    fn chunk(&self, hash: u64) -> &OnceLock<Box<Chunk>> {
        let number = hash as usize / CHUNK_BUCKETS;
        &self.chunks[number % self.chunks.len()]
    }
}

/// Where a key is in a bucket.
enum Place<'a> {
    /// In this slot, with this newest version.
    Taken(usize, &'a Entry),
    /// Nowhere, and this slot is free for it.
    Free(usize),
    /// Not in this bucket, which is full.
    Elsewhere,
}

impl Slots {
    fn place(&self, key: &[u8], tag: u32) -> Place<'_> {
        for (slot, (held, newest)) in self.tags.iter().zip(&self.newest).enumerate() {
            match newest {
                None => return Place::Free(slot),
                Some(newest) if *held == tag && newest.key() == key => {
                    return Place::Taken(slot, newest);
                }
                Some(_) => {}
            }
        }
        Place::Elsewhere
    }
}

/// The bits of a hash that a slot holds: not those that choose the place in the chunk.
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// The buckets in which a key with this hash may be, in the order of the search.
fn buckets(chunk: &Chunk, hash: u64) -> impl Iterator<Item = &Bucket> {
    let first = hash as usize % CHUNK_BUCKETS;
    let (before, from) = chunk.split_at(first);
    from.iter().chain(before).take(PROBES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Expiry, Timestamp};
    use std::sync::Barrier;

    const SLOTS: usize = CHUNK_BUCKETS * BUCKET_SLOTS;

    #[test]
    fn a_bucket_fills_a_line_and_a_chunk_a_page() {
        assert_eq!((size_of::<Bucket>(), size_of::<Chunk>()), (64, 4096));
    }

    fn add(index: &HashIndex, key: &str, timestamp: u64) {
        let timestamp = Timestamp::from_u64(timestamp);
        let entry = Entry::value(key.as_bytes(), timestamp, b"", Expiry::NEVER, 1);
        index.add(&entry, KeyHash::of(key.as_bytes()));
    }

    fn find(index: &HashIndex, key: &str) -> NewestVersion {
        index.find(key.as_bytes(), KeyHash::of(key.as_bytes()))
    }

    fn timestamp_of(found: NewestVersion) -> Option<u64> {
        match found {
            NewestVersion::Found(entry) => Some(entry.timestamp().as_u64()),
            NewestVersion::Absent | NewestVersion::Unknown => None,
        }
    }

    #[test]
    fn the_newest_version_stays_whatever_comes_after_it() {
        let index = HashIndex::new(0);
        assert!(matches!(find(&index, "a"), NewestVersion::Absent));
        for (timestamp, expected) in [(20, 20), (10, 20), (30, 30), (30, 30), (29, 30)] {
            add(&index, "a", timestamp);
            assert_eq!(timestamp_of(find(&index, "a")), Some(expected));
        }
        assert!(matches!(find(&index, "b"), NewestVersion::Absent));
    }

    #[test]
    fn a_key_without_a_free_slot_is_unknown_and_all_others_are_right() {
        let index = HashIndex::new(0);
        let keys: Vec<String> = (0..2 * SLOTS).map(|n| n.to_string()).collect();
        let mut found = 0;
        for key in &keys {
            add(&index, key, 1);
        }
        for key in &keys {
            add(&index, key, 2);
            match find(&index, key) {
                NewestVersion::Found(entry) => {
                    assert_eq!(entry.key(), key.as_bytes());
                    assert_eq!(entry.timestamp().as_u64(), 2);
                    found += 1;
                }
                NewestVersion::Unknown => {}
                NewestVersion::Absent => panic!("{key} was added"),
            }
        }
        assert_eq!(found, SLOTS, "all slots are taken");
        assert!(matches!(
            find(&index, "none of them"),
            NewestVersion::Unknown
        ));
    }

    #[test]
    fn the_newest_of_concurrent_versions_stays() {
        const THREADS: u64 = 3;
        const KEYS: u64 = 2_000;
        let index = HashIndex::new(4 * KEYS as usize * BYTES_PER_SLOT);
        let barrier = Barrier::new(THREADS as usize);
        std::thread::scope(|scope| {
            for thread in 1..=THREADS {
                let (index, barrier) = (&index, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    for key in 0..KEYS {
                        add(index, &key.to_string(), thread);
                        let found = timestamp_of(find(index, &key.to_string()));
                        assert!(found >= Some(thread), "{found:?} after {thread}");
                    }
                });
            }
        });
        for key in 0..KEYS {
            let found = timestamp_of(find(&index, &key.to_string()));
            assert_eq!(found, Some(THREADS), "key {key}");
        }
    }
}
