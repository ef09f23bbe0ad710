//! The newest version of each key, by the key's hash. Point reads use this index
//! instead of a B-tree, where most steps are cache misses. Writes find in it whether
//! their key has an older or a newer version.

use super::record_list::RecordList;
use crate::record::Record;
use crate::table::KeyHash;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire},
};
use std::sync::{Arc, OnceLock};

/// The number of slots that are allocated at a time: a page of memory, so that a new
/// memtable delays no write.
const CHUNK_SLOTS: usize = 512;

/// The bytes of a memtable for each slot. Most records take more, so about half of the
/// slots stay empty and a search visits few of them.
const BYTES_PER_SLOT: usize = 128;

/// The number of slots in which a key may be. Other keys may occupy all of them, by
/// chance or because a client chose its keys so. Then the B-tree has to be searched.
const PROBES_MAX: usize = 32;

/// The number of low bits of a slot that hold the number of a record plus 1. The other
/// bits are from the hash of its key. An empty slot is 0.
const NUMBER_BITS: u32 = 40;

type Chunk = [AtomicU64; CHUNK_SLOTS];

/// A hash table of fixed size with linear probing and without locks. A slot changes
/// from empty to a version of a key, and from there only to newer versions of it.
pub(super) struct HashIndex {
    chunks: Box<[OnceLock<Box<Chunk>>]>,
    /// All records that were the newest of their key at some time, and perhaps some
    /// that lost a race against a newer version.
    records: RecordList,
}

/// What the index knows about a key.
#[derive(Clone, Copy)]
pub(super) enum NewestVersion<'a> {
    /// The key has no version.
    Absent,
    /// The key's newest version.
    Found(&'a Record),
    /// The key may have versions; the B-tree knows.
    Unknown,
}

impl HashIndex {
    /// An index for a memtable of `bytes` bytes. It may hold more, and is slower then.
    pub(super) fn new(bytes: usize) -> Self {
        let chunks = (bytes / BYTES_PER_SLOT / CHUNK_SLOTS).next_power_of_two();
        Self {
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            records: RecordList::new(),
        }
    }

    /// The newest version of a key that was added.
    pub(super) fn find(&self, key: &[u8], hash: KeyHash) -> NewestVersion<'_> {
        let hash = hash.as_u64();
        let Some(chunk) = self.chunk(hash).get() else {
            return NewestVersion::Absent;
        };
        for slot in slots(chunk, hash) {
            match slot.load(Acquire) {
                0 => return NewestVersion::Absent,
                held => {
                    if let Some(record) = self.version(held, hash, key) {
                        return NewestVersion::Found(record);
                    }
                }
            }
        }
        NewestVersion::Unknown
    }

    /// Adds a version, unless the index holds a newer one.
    pub(super) fn add(&self, record: &Arc<Record>, hash: KeyHash) {
        let (key, hash) = (record.entry.key(), hash.as_u64());
        let chunk = self
            .chunk(hash)
            .get_or_init(|| Box::new([const { AtomicU64::new(0) }; CHUNK_SLOTS]));
        let mut own = None;
        for slot in slots(chunk, hash) {
            let mut held = slot.load(Acquire);
            loop {
                if held != 0 {
                    match self.version(held, hash, key) {
                        None => break,
                        Some(other) if other.entry.rank() >= record.entry.rank() => return,
                        Some(_) => {}
                    }
                }
                let own = *own.get_or_insert_with(|| {
                    // The number fits: more records would not fit into memory.
                    let number = self.records.push(Arc::clone(record)) as u64 + 1;
                    tag(hash) << NUMBER_BITS | number
                });
                match slot.compare_exchange(held, own, AcqRel, Acquire) {
                    Ok(_) => return,
                    Err(now) => held = now,
                }
            }
        }
    }

    /// The record in a slot that is not empty, if it is a version of this key.
    fn version(&self, held: u64, hash: u64, key: &[u8]) -> Option<&Record> {
        if held >> NUMBER_BITS != tag(hash) {
            return None;
        }
        let number = held & ((1 << NUMBER_BITS) - 1);
        let record = self.records.get(number as usize - 1)?;
        (record.entry.key() == key).then_some(record)
    }

    /// Its slots, a chunk at a time, and its records.
    pub(super) fn into_parts(
        self,
    ) -> (
        impl Iterator<Item = Option<Box<Chunk>>> + Send,
        impl Iterator<Item = Arc<Record>> + Send,
    ) {
        let chunks = self.chunks.into_iter().map(OnceLock::into_inner);
        (chunks, self.records.into_records())
    }

    fn chunk(&self, hash: u64) -> &OnceLock<Box<Chunk>> {
        let number = hash as usize / CHUNK_SLOTS;
        &self.chunks[number % self.chunks.len()]
    }
}

/// The bits of a hash that a slot holds. They are not among those that choose the
/// slot.
fn tag(hash: u64) -> u64 {
    hash >> NUMBER_BITS
}

/// The slots in which a key with this hash may be, in the order of the search.
fn slots(chunk: &Chunk, hash: u64) -> impl Iterator<Item = &AtomicU64> {
    let first = hash as usize % CHUNK_SLOTS;
    let (before, from) = chunk.split_at(first);
    from.iter().chain(before).take(PROBES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Entry, Expiry, Timestamp};
    use std::sync::Barrier;

    fn record(key: &str, timestamp: u64) -> Arc<Record> {
        let timestamp = Timestamp::from_u64(timestamp);
        Arc::new(Record {
            sequence: 0,
            entry: Entry::value(key.as_bytes(), timestamp, b"", Expiry::NEVER, 1),
        })
    }

    fn add(index: &HashIndex, key: &str, timestamp: u64) {
        index.add(&record(key, timestamp), KeyHash::of(key.as_bytes()));
    }

    fn find<'a>(index: &'a HashIndex, key: &str) -> NewestVersion<'a> {
        index.find(key.as_bytes(), KeyHash::of(key.as_bytes()))
    }

    fn timestamp_of(found: NewestVersion<'_>) -> Option<u64> {
        match found {
            NewestVersion::Found(record) => Some(record.entry.timestamp().as_u64()),
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
        let keys: Vec<String> = (0..2 * CHUNK_SLOTS).map(|n| n.to_string()).collect();
        let mut found = 0;
        for key in &keys {
            add(&index, key, 1);
        }
        for key in &keys {
            add(&index, key, 2);
            match find(&index, key) {
                NewestVersion::Found(record) => {
                    assert_eq!(record.entry.key(), key.as_bytes());
                    assert_eq!(record.entry.timestamp().as_u64(), 2);
                    found += 1;
                }
                NewestVersion::Unknown => {}
                NewestVersion::Absent => panic!("{key} was added"),
            }
        }
        assert_eq!(found, CHUNK_SLOTS, "all slots are taken");
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
