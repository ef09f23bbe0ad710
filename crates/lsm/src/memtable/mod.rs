//! Memtables: the newest records, sorted, in memory.
//!
//! A memtable is a lock-free skip list (`crossbeam-skiplist`) of records in
//! [`Record::order`], so that the winner of a key is the first record at or
//! after the key, and beside it a hash table of the winners, which point reads
//! ask. Records are only added; a memtable goes as a whole, after its flush.
//! Any number of threads may read and write at a time.

mod newest;
mod order;

use crate::entry::{Entry, Record, RecordSource};
use crate::error::Error;
use crate::timestamp::Timestamp;
use crossbeam_skiplist::SkipSet;
use newest::{Found, Newest};
use order::{Place, Placed, Seek, Slot};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Memory that a record takes beside the bytes of its key and value: the skip
/// list's node with a tower of two on average, the record, its share of the
/// hash table, and the allocator's.
const RECORD_OVERHEAD_BYTES: usize = 208;

/// How many records a source copies at a time. Few enough to be nothing beside
/// a block, enough that seeking is rare.
const SOURCE_BATCH: usize = 64;

/// The newest records of a store. See the module.
pub(crate) struct Memtable {
    slots: SkipSet<Slot>,
    newest: Newest,
    /// The log segment that holds these records and no others.
    segment: u64,
    bytes: AtomicUsize,
    least_timestamp: AtomicU64,
    greatest_timestamp: AtomicU64,
}

impl Memtable {
    /// An empty memtable whose records are logged in `segment`. It is meant to
    /// take about `bytes_max` and may take more.
    pub(crate) fn new(segment: u64, bytes_max: usize) -> Self {
        Self {
            slots: SkipSet::new(),
            newest: Newest::new(bytes_max),
            segment,
            bytes: AtomicUsize::new(0),
            least_timestamp: AtomicU64::new(u64::MAX),
            greatest_timestamp: AtomicU64::new(0),
        }
    }

    /// Adds a record and returns the greatest timestamp among the other
    /// versions of its key here. A version that is here already is not added again.
    pub(crate) fn insert(&self, record: Record) -> Option<Timestamp> {
        let entry = &record.entry;
        let rivals = match self.newest.find(entry.key()) {
            Found::Nothing => Rivals::default(),
            Found::Newest(held) if held.entry.rank() < entry.rank() => Rivals {
                has_same: false,
                newest: Some(held.entry.timestamp()),
            },
            Found::Newest(_) | Found::Unknown => self.rivals_of(entry),
        };
        if rivals.has_same {
            return rivals.newest;
        }
        let timestamp = entry.timestamp().as_u64();
        self.least_timestamp.fetch_min(timestamp, Relaxed);
        self.greatest_timestamp.fetch_max(timestamp, Relaxed);
        self.bytes.fetch_add(memory_bytes(entry), Relaxed);
        let record = Arc::new(record);
        // First into the list: whoever finds it by its hash and looks for its
        // rivals must not miss it there.
        self.slots.insert(Slot::new(Arc::clone(&record)));
        self.newest.add(&record);
        rivals.newest
    }

    /// What is here of an entry's key. Walks from the winner down to the first
    /// version that the entry beats.
    fn rivals_of(&self, entry: &Entry) -> Rivals {
        let mut rivals = Rivals::default();
        let mut slot = self.first_slot(entry.key());
        while let Some(held) = slot {
            let other = &held.value().record.entry;
            if other.key() != entry.key() {
                break;
            }
            if other.rank() == entry.rank() {
                rivals.has_same = true;
            } else {
                rivals.newest = rivals.newest.or(Some(other.timestamp()));
            }
            if other.rank() < entry.rank() {
                break;
            }
            slot = held.next();
        }
        rivals
    }

    /// The winning version of a key here.
    pub(crate) fn newest(&self, key: &[u8]) -> Option<Entry> {
        match self.newest.find(key) {
            Found::Nothing => None,
            Found::Newest(record) => Some(record.entry.clone()),
            Found::Unknown => {
                let slot = self.first_slot(key)?;
                let entry = &slot.value().record.entry;
                (entry.key() == key).then(|| entry.clone())
            }
        }
    }

    /// The records from the first of `start` on, or past the last of it.
    pub(crate) fn source(self: &Arc<Self>, start: Bound<&[u8]>) -> MemtableSource {
        let start = match start {
            Bound::Included(key) => Start::Key(key.to_vec()),
            Bound::Excluded(key) => Start::AfterKey(key.to_vec()),
            Bound::Unbounded => Start::Key(Vec::new()),
        };
        MemtableSource {
            memtable: Arc::clone(self),
            start,
            batch: VecDeque::new(),
        }
    }

    /// Its memory, in bytes: an estimate from above.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Whether it holds no record.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The log segment that holds its records.
    pub(crate) fn segment(&self) -> u64 {
        self.segment
    }

    /// The least timestamp of its records; the greatest possible when there are none.
    pub(crate) fn least_timestamp(&self) -> Timestamp {
        Timestamp::from_u64(self.least_timestamp.load(Relaxed))
    }

    /// The greatest timestamp of its records; the least possible when there are none.
    pub(crate) fn greatest_timestamp(&self) -> Timestamp {
        Timestamp::from_u64(self.greatest_timestamp.load(Relaxed))
    }

    fn first_slot(&self, key: &[u8]) -> Option<crossbeam_skiplist::set::Entry<'_, Slot>> {
        let seek: &dyn Placed = &Seek::to(Place::Before(key));
        self.slots.lower_bound(Bound::Included(seek))
    }
}

/// What a memtable holds of an entry's key.
#[derive(Default)]
struct Rivals {
    /// Whether the entry itself is there.
    has_same: bool,
    /// The greatest timestamp of the others.
    newest: Option<Timestamp>,
}

/// The memory that an entry takes in a memtable, in bytes.
pub(crate) fn memory_bytes(entry: &Entry) -> usize {
    entry.data_bytes() + RECORD_OVERHEAD_BYTES
}

/// Where a source goes on.
enum Start {
    Key(Vec<u8>),
    AfterKey(Vec<u8>),
    After(Record),
}

/// The records of a memtable in order, those included that come while it is read.
pub(crate) struct MemtableSource {
    memtable: Arc<Memtable>,
    start: Start,
    batch: VecDeque<Record>,
}

impl RecordSource for MemtableSource {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        if self.batch.is_empty() {
            let seek = match &self.start {
                Start::Key(key) => Seek::to(Place::Before(key)),
                Start::AfterKey(key) => Seek::to(Place::After(key)),
                Start::After(record) => Seek::to(Place::At(record)),
            };
            let seek: &dyn Placed = &seek;
            let mut slot = self.memtable.slots.lower_bound(Bound::Excluded(seek));
            while let Some(found) = slot {
                self.batch.push_back(Record::clone(&found.value().record));
                if self.batch.len() == SOURCE_BATCH {
                    break;
                }
                slot = found.next();
            }
            if let Some(last) = self.batch.back() {
                self.start = Start::After(last.clone());
            }
        }
        Ok(self.batch.pop_front())
    }
}

#[cfg(test)]
mod tests;
