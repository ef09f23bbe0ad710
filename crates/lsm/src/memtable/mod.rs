//! Memtables: the newest records, sorted, in memory.
//!
//! A memtable has its records twice. B-trees have them in [`Record::order`],
//! for scans and for the flush: a few of them, each with a lock that is held
//! for one insertion or for a handful of records, with the keys spread over
//! them by hash. A hash table without locks has the winner of each key, for
//! point reads and for writes, which learn there what they overwrite.
//!
//! One skip list would serve them all, but each step of a search in it is a
//! cache miss: with 100,000 records a point read took three times as long, and
//! an insertion twice.
//!
//! Records are only added; a memtable goes as a whole, after its flush. Any
//! number of threads may read and write at a time.

mod hash_index;
mod order;
mod source;

use crate::record::Record;
use crate::sync::lock;
use crate::table::KeyHash;
use base::{Entry, Kind, Timestamp};
use hash_index::{HashIndex, NewestVersion};
use order::{OrderedRecord, last_not_after, versions};
pub(crate) use source::MemtableSource;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Memory that a record takes beside the bytes of its key and value: itself, its
/// share of a B-tree's nodes and of the hash table, and the allocator's.
const RECORD_OVERHEAD_BYTES: usize = 208;

/// How many B-trees there are. Enough that writers and scans seldom meet, few
/// enough to look into all of them for a short scan.
const SHARDS: usize = 4;

/// The newest records of a store. See the module.
pub(crate) struct Memtable {
    shards: [Mutex<BTreeSet<OrderedRecord>>; SHARDS],
    by_hash: HashIndex,
    /// The log segment that holds these records and no others.
    segment: u64,
    bytes: AtomicUsize,
    least_timestamp: AtomicU64,
    greatest_timestamp: AtomicU64,
    last_sequence: AtomicU64,
    has_tombstones: AtomicBool,
}

impl Memtable {
    /// An empty memtable whose records are logged in `segment`. It is meant to
    /// take about `bytes_max` and may take more.
    pub(crate) fn new(segment: u64, bytes_max: usize) -> Self {
        Self {
            shards: Default::default(),
            by_hash: HashIndex::new(bytes_max),
            segment,
            bytes: AtomicUsize::new(0),
            least_timestamp: AtomicU64::new(u64::MAX),
            greatest_timestamp: AtomicU64::new(0),
            last_sequence: AtomicU64::new(0),
            has_tombstones: AtomicBool::new(false),
        }
    }

    /// Adds a record and tells what was here of its key. A version that is here
    /// already is not added again. What another thread adds of the same key at
    /// the same moment may be missed; the engine adds one record at a time, in
    /// the order of their sequence numbers.
    pub(crate) fn insert(&self, record: &Arc<Record>) -> Rivals {
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
        // First into the B-tree: whoever finds it by its hash and looks for its
        // rivals must not miss it there.
        let ordered = OrderedRecord::new(Arc::clone(record));
        lock(self.shard(hash)).insert(ordered);
        self.by_hash.add(record, hash);
        rivals
    }

    /// What is here of the key of a record that is not here, or came later.
    pub(crate) fn rivals(&self, record: &Record) -> Rivals {
        let hash = KeyHash::of(record.entry.key());
        self.find_rivals(record, hash).0
    }

    /// What is here of a record's key, and whether its very version is.
    fn find_rivals(&self, record: &Record, hash: KeyHash) -> (Rivals, bool) {
        let entry = &record.entry;
        match self.by_hash.find(entry.key(), hash) {
            NewestVersion::Absent => (Rivals::default(), false),
            NewestVersion::Found(held) if held.entry.timestamp() < entry.timestamp() => {
                (Rivals::default(), false)
            }
            NewestVersion::Found(_) | NewestVersion::Unknown => self.search_rivals(record, hash),
        }
    }

    /// The same by the B-tree. It looks at the winner and at where the record
    /// itself would be: a hot key may have any number of versions between them.
    fn search_rivals(&self, record: &Record, hash: KeyHash) -> (Rivals, bool) {
        let entry = &record.entry;
        let shard = lock(self.shard(hash));
        let winner = versions(&shard, entry.key()).next();
        let newer = winner.map(|winner| winner.record.entry.timestamp());
        let same = last_not_after(&shard, record)
            .filter(|same| same.record.entry.timestamp() == entry.timestamp());
        let is_here = same.is_some_and(|same| same.record.entry.rank() == entry.rank());
        let rivals = Rivals {
            newer: newer.filter(|newer| *newer > entry.timestamp()),
            same: same.map(|same| same.record.sequence),
        };
        (rivals, is_here)
    }

    /// The winning version of a key here.
    pub(crate) fn newest(&self, key: &[u8]) -> Option<Entry> {
        let hash = KeyHash::of(key);
        match self.by_hash.find(key, hash) {
            NewestVersion::Absent => None,
            NewestVersion::Found(record) => Some(record.entry.clone()),
            NewestVersion::Unknown => {
                let shard = lock(self.shard(hash));
                let winner = versions(&shard, key).next()?;
                Some(winner.record.entry.clone())
            }
        }
    }

    fn shard(&self, hash: KeyHash) -> &Mutex<BTreeSet<OrderedRecord>> {
        &self.shards[hash.as_u64() as usize % SHARDS]
    }

    /// Its memory, in bytes: an estimate.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// How many records it holds.
    pub(crate) fn entries(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Whether it holds no record.
    pub(crate) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| lock(shard).is_empty())
    }

    /// Whether there is a tombstone among its records.
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

    /// The least timestamp of its records; the greatest possible when there are none.
    pub(crate) fn least_timestamp(&self) -> Timestamp {
        Timestamp::from_u64(self.least_timestamp.load(Relaxed))
    }

    /// The greatest timestamp of its records; the least possible when there are none.
    pub(crate) fn greatest_timestamp(&self) -> Timestamp {
        Timestamp::from_u64(self.greatest_timestamp.load(Relaxed))
    }
}

/// What memtables hold of a record's key, beside the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rivals {
    /// The greatest timestamp above the record's.
    pub(crate) newer: Option<Timestamp>,
    /// When a version with the record's own timestamp first arrived.
    pub(crate) same: Option<u64>,
}

impl Rivals {
    /// What two memtables hold.
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
    entry.data_bytes() + RECORD_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests;
