//! The newest version of each key, by the key's hash. A point read looks here
//! rather than into a B-tree, most of whose steps are cache misses, and a write
//! learns here whether there is an older version than its own, or a newer one.

use crate::record::Record;
use crate::table::KeyHash;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire},
};
use std::sync::{Arc, OnceLock};

/// How many places are made at a time: a page of memory, so that a fresh
/// memtable holds up nobody.
const CHUNK_SLOTS: usize = 512;

/// So many of a memtable's bytes to a place. Records take more, so that most
/// often a half of the places is free and few have to be looked at.
const BYTES_PER_SLOT: usize = 128;

/// How many places a key may be at. Where others have all of them, be it by
/// chance or by somebody's choice of keys, the B-tree has to be searched.
const PROBES_MAX: usize = 32;

/// A place is 0 where it is empty; else these low bits are the number of a
/// record and 1, and the others are of its key's hash.
const NUMBER_BITS: u32 = 40;

type Chunk = [AtomicU64; CHUNK_SLOTS];

/// A hash table of fixed size with linear probing, without locks: a place goes
/// from empty to a version of a key, and from there to newer ones of it.
pub(super) struct HashIndex {
    chunks: Box<[OnceLock<Box<Chunk>>]>,
    /// All records that were ever the newest of their keys, or all but that.
    records: boxcar::Vec<Arc<Record>>,
}

/// What is known of a key.
#[derive(Clone, Copy)]
pub(super) enum NewestVersion<'a> {
    /// It has no version.
    Absent,
    /// Its newest version.
    Found(&'a Record),
    /// Whether it has one is not known here.
    Unknown,
}

impl HashIndex {
    /// A table for a memtable of `bytes`. It may hold more, and is slower then.
    pub(super) fn new(bytes: usize) -> Self {
        let chunks = (bytes / BYTES_PER_SLOT / CHUNK_SLOTS).next_power_of_two();
        Self {
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            records: boxcar::Vec::new(),
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

    /// Adds a version, unless a newer one is there.
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
                    // More than fit into the bits would take more memory than there is.
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

    /// The record of a place that is not empty, if it is of this key.
    fn version(&self, held: u64, hash: u64, key: &[u8]) -> Option<&Record> {
        if held >> NUMBER_BITS != tag(hash) {
            return None;
        }
        let number = held & ((1 << NUMBER_BITS) - 1);
        let record = self.records.get(number as usize - 1)?;
        (record.entry.key() == key).then_some(record)
    }

    fn chunk(&self, hash: u64) -> &OnceLock<Box<Chunk>> {
        let number = hash as usize / CHUNK_SLOTS;
        &self.chunks[number % self.chunks.len()]
    }
}

/// The bits of a hash that a place holds: none of those that choose the place.
fn tag(hash: u64) -> u64 {
    hash >> NUMBER_BITS
}

/// The places where a key with this hash may be, in the order of preference.
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
    fn what_finds_no_place_is_unknown_and_nothing_else_is_wrong() {
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
        assert_eq!(found, CHUNK_SLOTS, "all places are taken");
        assert!(matches!(
            find(&index, "none of them"),
            NewestVersion::Unknown
        ));
    }

    #[test]
    fn of_versions_that_come_at_once_the_newest_stays() {
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
