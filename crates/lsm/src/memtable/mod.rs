//! Memtables: the newest records, sorted, in memory.
//!
//! A memtable indexes its records twice:
//! - A tree holds all records in [`RecordRef::order`](crate::record::RecordRef::order), for
//!   scans and for the flush. It has a lock, which is held to add a few dozen records, or to
//!   sort and copy as many.
//! - A hash table holds the winner of each key. Point reads use it, and so do writes,
//!   which find in it what they overwrite.
//!
//! One skip list could replace both, but each step of a search in it is a cache
//! miss. With 100,000 records a point read took three times as long, and an
//! insertion twice as long as with a hash table and B-trees in place of the tree.
//!
//! Records are only added. A memtable is dropped as a whole, after its flush. Any
//! number of threads may read and write at the same time.

mod cursor;
mod hash_index;
mod order;
mod remains;
mod tree;

use crate::locks::lock;
use crate::record::Record;
use crate::table::KeyHash;
use base::{Entry, Kind, Timestamp};
pub(crate) use cursor::MemtableCursor;
use hash_index::{HashIndex, NewestVersion, PREFETCHED_MAX};
use order::{OrderedRecord, Position};
pub(crate) use remains::Remains;
use smallvec::SmallVec;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use tree::Tree;

/// The memory of a record without the bytes of its key and value: the head of its entry,
/// its share of the tree's leaves and of the hash table, and the allocator's overhead.
const RECORD_OVERHEAD_BYTES: usize = 160;

/// The newest records of a store; see the module.
pub(crate) struct Memtable {
    tree: Mutex<Tree>,
    by_hash: HashIndex,
    /// The log segment that holds these records and no others.
    segment: u64,
    bytes: AtomicUsize,
    least_timestamp: AtomicU64,
    greatest_timestamp: AtomicU64,
    last_sequence: AtomicU64,
    committed: AtomicU64,
    has_tombstones: AtomicBool,
}

impl Memtable {
    /// An empty memtable whose records are logged in `segment`. It is meant to
    /// take about `bytes_max` and may take more.
    pub(crate) fn new(segment: u64, bytes_max: usize) -> Self {
        Self {
            tree: Mutex::default(),
            by_hash: HashIndex::new(bytes_max),
            segment,
            bytes: AtomicUsize::new(0),
            least_timestamp: AtomicU64::new(u64::MAX),
            greatest_timestamp: AtomicU64::new(0),
            last_sequence: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            has_tombstones: AtomicBool::new(false),
        }
    }

    /// Adds a record, and returns the other versions of its key. A version that the
    /// memtable already holds is not added again. The result may miss a version that
    /// another thread adds at the same moment; the engine adds one record at a time,
    /// in the order of the sequence numbers.
    pub(crate) fn insert(&self, record: &Record) -> Rivals {
        self.committed.fetch_add(1, Relaxed);
        let entry = &record.entry;
        let hash = KeyHash::of(entry.key());
        let (rivals, is_here) = self.find_rivals(record, hash);
        if is_here {
            return rivals;
        }
        let timestamp = entry.timestamp().as_u64();
        self.least_timestamp.fetch_min(timestamp, Relaxed);
        self.greatest_timestamp.fetch_max(timestamp, Relaxed);
        // Records come in the order of their sequence numbers.
        self.last_sequence.store(record.sequence, Relaxed);
        self.bytes.fetch_add(memory_bytes(entry), Relaxed);
        if entry.kind() == Kind::Tombstone {
            self.has_tombstones.store(true, Relaxed);
        }
        // The tree comes first: a thread that finds the record by its hash may search the
        // tree for its rivals, and must find it there.
        lock(&self.tree).insert(OrderedRecord::new(record.clone()));
        self.by_hash.add(&record.entry, hash);
        rivals
    }

    /// Reads what insertions of the first of these keys read first: it comes from memory for
    /// many of them at the same time, not for one after another.
    pub(crate) fn prefetch<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) {
        let hashes = keys.take(PREFETCHED_MAX).map(KeyHash::of);
        let hashes: SmallVec<[KeyHash; PREFETCHED_MAX]> = hashes.collect();
        self.by_hash.prefetch(&hashes);
    }

    /// The other versions of a record's key. The memtable need not hold the record.
    pub(crate) fn rivals(&self, record: &Record) -> Rivals {
        let hash = KeyHash::of(record.entry.key());
        self.find_rivals(record, hash).0
    }

    /// The other versions of a record's key, and whether the memtable already holds
    /// this version.
    fn find_rivals(&self, record: &Record, hash: KeyHash) -> (Rivals, bool) {
        let entry = &record.entry;
        match self.by_hash.find(entry.key(), hash) {
            NewestVersion::Absent => (Rivals::default(), false),
            NewestVersion::Found(held) if held.timestamp() < entry.timestamp() => {
                (Rivals::default(), false)
            }
            NewestVersion::Found(_) | NewestVersion::Unknown => self.search_rivals(record),
        }
    }

    /// [`Memtable::find_rivals`] by the tree. It visits only the winner and the record's own
    /// position, because a hot key may have any number of versions between them.
    fn search_rivals(&self, record: &Record) -> (Rivals, bool) {
        let entry = &record.entry;
        let mut tree = lock(&self.tree);
        let newer = winner(&mut tree, entry.key()).map(|winner| winner.timestamp());
        let ordered = OrderedRecord::new(record.clone());
        let same = tree
            .last_before(Position::At(&ordered))
            .map(|before| &before.record)
            .filter(|before| before.entry.key() == entry.key())
            .filter(|before| before.entry.timestamp() == entry.timestamp());
        let is_here = same.is_some_and(|same| same.entry.rank() == entry.rank());
        let rivals = Rivals {
            newer: newer.filter(|newer| *newer > entry.timestamp()),
            same: same.map(|same| same.sequence),
        };
        (rivals, is_here)
    }

    /// The winning version of a key in this memtable.
    pub(crate) fn newest(&self, key: &[u8]) -> Option<Entry> {
        let hash = KeyHash::of(key);
        match self.by_hash.find(key, hash) {
            NewestVersion::Absent => None,
            NewestVersion::Found(entry) => Some(entry),
            NewestVersion::Unknown => winner(&mut lock(&self.tree), key),
        }
    }

    /// The memory of the memtable, in bytes; an estimate.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// How many records it holds.
    pub(crate) fn entries(&self) -> usize {
        lock(&self.tree).len()
    }

    /// Whether it holds no record.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// The key of its last record in the order of keys.
    pub(crate) fn last_key(&self) -> Option<Vec<u8>> {
        let mut tree = lock(&self.tree);
        let last = tree.last()?;
        Some(last.record.entry.key().to_vec())
    }

    /// Whether one of its records is a tombstone.
    pub(crate) fn has_tombstones(&self) -> bool {
        self.has_tombstones.load(Relaxed)
    }

    /// The log segment that holds its records.
    pub(crate) fn segment(&self) -> u64 {
        self.segment
    }

    /// The sequence number of the record that came last; 0 when there is none.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.last_sequence.load(Relaxed)
    }

    /// How many records its log segment holds: those that it was given, even if it
    /// already held the same version.
    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Relaxed)
    }

    /// The least timestamp of its records; the greatest possible when there are none.
    pub(crate) fn least_timestamp(&self) -> Timestamp {
        Timestamp::from_u64(self.least_timestamp.load(Relaxed))
    }

    /// The greatest timestamp of its records; the least possible when there are none.
    pub(crate) fn greatest_timestamp(&self) -> Timestamp {
        Timestamp::from_u64(self.greatest_timestamp.load(Relaxed))
    }
}

/// The winning version of a key in a tree.
fn winner(tree: &mut Tree, key: &[u8]) -> Option<Entry> {
    let mut winner = None;
    tree.visit_after(Position::Before(key), |following| {
        let first = following.first().map(|ordered| &ordered.record.entry);
        winner = first.filter(|first| first.key() == key).cloned();
        first.is_none()
    });
    winner
}

/// The versions of a record's key that memtables hold besides the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rivals {
    /// The greatest timestamp above the record's.
    pub(crate) newer: Option<Timestamp>,
    /// The least sequence number of a version with the record's own timestamp.
    pub(crate) same: Option<u64>,
}

impl Rivals {
    /// The rivals in two memtables together.
    pub(crate) fn and(self, other: Self) -> Self {
        let sequences = self.same.into_iter().chain(other.same);
        Self {
            newer: self.newer.max(other.newer),
            same: sequences.min(),
        }
    }
}

/// The memory that an entry takes in a memtable, in bytes.
pub(crate) fn memory_bytes(entry: &Entry) -> usize {
    record_bytes(entry.data_bytes())
}

/// The memory that a record takes in a memtable whose key and value have `data_bytes`.
pub(crate) fn record_bytes(data_bytes: usize) -> usize {
    data_bytes + RECORD_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests;
