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
const STRETCH_PLACES: usize = 512;

/// So many of a memtable's bytes to a place. Records take more, so that most
/// often a half of the places is free and few have to be looked at.
const BYTES_TO_A_PLACE: usize = 128;

/// How many places a key may be at. Where others have all of them, be it by
/// chance or by somebody's choice of keys, the B-tree has to be searched.
const PROBES_MAX: usize = 32;

/// A place is 0 where it is empty; else these low bits are the number of a
/// record and 1, and the others are of its key's hash.
const NUMBER_BITS: u32 = 40;

type Stretch = [AtomicU64; STRETCH_PLACES];

/// A hash table of fixed size with linear probing, without locks: a place goes
/// from empty to a version of a key, and from there to newer ones of it.
pub(super) struct Newest {
    stretches: Box<[OnceLock<Box<Stretch>>]>,
    /// All records that were ever the newest of their keys, or all but that.
    records: boxcar::Vec<Arc<Record>>,
}

/// What is known of a key.
#[derive(Clone, Copy)]
pub(super) enum Found<'a> {
    /// It has no version.
    Nothing,
    /// Its newest version.
    Newest(&'a Record),
    /// Whether it has one is not known here.
    Unknown,
}

impl Newest {
    /// A table for a memtable of `bytes`. It may hold more, and is slower then.
    pub(super) fn new(bytes: usize) -> Self {
        let stretches = (bytes / BYTES_TO_A_PLACE / STRETCH_PLACES).next_power_of_two();
        Self {
            stretches: (0..stretches).map(|_| OnceLock::new()).collect(),
            records: boxcar::Vec::new(),
        }
    }

    /// The newest version of a key that was added.
    pub(super) fn find(&self, key: &[u8], hash: KeyHash) -> Found<'_> {
        let hash = hash.as_u64();
        let Some(stretch) = self.stretch(hash).get() else {
            return Found::Nothing;
        };
        for place in places(stretch, hash) {
            match place.load(Acquire) {
                0 => return Found::Nothing,
                held => {
                    if let Some(record) = self.version(held, hash, key) {
                        return Found::Newest(record);
                    }
                }
            }
        }
        Found::Unknown
    }

    /// Adds a version, unless a newer one is there.
    pub(super) fn add(&self, record: &Arc<Record>, hash: KeyHash) {
        let (key, hash) = (record.entry.key(), hash.as_u64());
        let stretch = self
            .stretch(hash)
            .get_or_init(|| Box::new([const { AtomicU64::new(0) }; STRETCH_PLACES]));
        let mut own = None;
        for place in places(stretch, hash) {
            let mut held = place.load(Acquire);
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
                match place.compare_exchange(held, own, AcqRel, Acquire) {
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

    fn stretch(&self, hash: u64) -> &OnceLock<Box<Stretch>> {
        let number = hash as usize / STRETCH_PLACES;
        &self.stretches[number % self.stretches.len()]
    }
}

/// The bits of a hash that a place holds: none of those that choose the place.
fn tag(hash: u64) -> u64 {
    hash >> NUMBER_BITS
}

/// The places where a key with this hash may be, in the order of preference.
fn places(stretch: &Stretch, hash: u64) -> impl Iterator<Item = &AtomicU64> {
    let first = hash as usize % STRETCH_PLACES;
    let (before, from) = stretch.split_at(first);
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

    fn add(newest: &Newest, key: &str, timestamp: u64) {
        newest.add(&record(key, timestamp), KeyHash::of(key.as_bytes()));
    }

    fn find<'a>(newest: &'a Newest, key: &str) -> Found<'a> {
        newest.find(key.as_bytes(), KeyHash::of(key.as_bytes()))
    }

    fn timestamp_of(found: Found<'_>) -> Option<u64> {
        match found {
            Found::Newest(record) => Some(record.entry.timestamp().as_u64()),
            Found::Nothing | Found::Unknown => None,
        }
    }

    #[test]
    fn the_newest_version_stays_whatever_comes_after_it() {
        let newest = Newest::new(0);
        assert!(matches!(find(&newest, "a"), Found::Nothing));
        for (timestamp, expected) in [(20, 20), (10, 20), (30, 30), (30, 30), (29, 30)] {
            add(&newest, "a", timestamp);
            assert_eq!(timestamp_of(find(&newest, "a")), Some(expected));
        }
        assert!(matches!(find(&newest, "b"), Found::Nothing));
    }

    #[test]
    fn what_finds_no_place_is_unknown_and_nothing_else_is_wrong() {
        let newest = Newest::new(0);
        let keys: Vec<String> = (0..2 * STRETCH_PLACES).map(|n| n.to_string()).collect();
        let mut placed = 0;
        for key in &keys {
            add(&newest, key, 1);
        }
        for key in &keys {
            add(&newest, key, 2);
            match find(&newest, key) {
                Found::Newest(record) => {
                    assert_eq!(record.entry.key(), key.as_bytes());
                    assert_eq!(record.entry.timestamp().as_u64(), 2);
                    placed += 1;
                }
                Found::Unknown => {}
                Found::Nothing => panic!("{key} was added"),
            }
        }
        assert_eq!(placed, STRETCH_PLACES, "all places are taken");
        assert!(matches!(find(&newest, "none of them"), Found::Unknown));
    }

    #[test]
    fn of_versions_that_come_at_once_the_newest_stays() {
        const THREADS: u64 = 3;
        const KEYS: u64 = 2_000;
        let newest = Newest::new(4 * KEYS as usize * BYTES_TO_A_PLACE);
        let barrier = Barrier::new(THREADS as usize);
        std::thread::scope(|scope| {
            for thread in 1..=THREADS {
                let (newest, barrier) = (&newest, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    for key in 0..KEYS {
                        add(newest, &key.to_string(), thread);
                        let found = timestamp_of(find(newest, &key.to_string()));
                        assert!(found >= Some(thread), "{found:?} after {thread}");
                    }
                });
            }
        });
        for key in 0..KEYS {
            let found = timestamp_of(find(&newest, &key.to_string()));
            assert_eq!(found, Some(THREADS), "key {key}");
        }
    }
}
