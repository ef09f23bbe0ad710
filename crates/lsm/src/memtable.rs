//! Memtables: the newest records, sorted, in memory.
//!
//! A memtable is a lock-free skip list (`crossbeam-skiplist`) of records in
//! [`Record::order`], so that the winner of a key is the first record at or
//! after the key. Records are only added; a memtable goes as a whole, after
//! its flush. Any number of threads may read and write at a time.

use crate::entry::{Entry, Record, RecordSource};
use crate::error::Error;
use crate::table::KeyHash;
use crate::timestamp::Timestamp;
use crossbeam_skiplist::SkipSet;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Memory that a record takes beside the bytes of its key and value: the skip
/// list's node with a tower of two on average, the record, and the allocator's share.
const RECORD_OVERHEAD_BYTES: usize = 192;

/// How many records a source copies at a time. Few enough to be nothing beside
/// a block, enough that seeking is rare.
const SOURCE_BATCH: usize = 64;

/// The newest records of a store. See the module.
pub(crate) struct Memtable {
    slots: SkipSet<Slot>,
    newest: NewestByHash,
    /// The log segment that holds these records and no others.
    segment: u64,
    bytes: AtomicUsize,
    least_timestamp: AtomicU64,
    greatest_timestamp: AtomicU64,
}

impl Memtable {
    /// An empty memtable whose records are logged in `segment`.
    pub(crate) fn new(segment: u64) -> Self {
        Self {
            slots: SkipSet::new(),
            newest: NewestByHash::new(),
            segment,
            bytes: AtomicUsize::new(0),
            least_timestamp: AtomicU64::new(u64::MAX),
            greatest_timestamp: AtomicU64::new(0),
        }
    }

    /// Adds a record and returns the greatest timestamp among the other
    /// versions of its key here; one below the record's own may go unreported.
    /// A version that is here already is not added again.
    pub(crate) fn insert(&self, record: Record) -> Option<Timestamp> {
        let rivals = match self.newest.raise(&record.entry) {
            Raised::Newest => Rivals::default(),
            Raised::PerhapsNot => self.rivals_of(&record.entry),
        };
        if rivals.has_same {
            return rivals.newest;
        }
        let timestamp = record.entry.timestamp().as_u64();
        self.least_timestamp.fetch_min(timestamp, Relaxed);
        self.greatest_timestamp.fetch_max(timestamp, Relaxed);
        self.bytes.fetch_add(memory_bytes(&record.entry), Relaxed);
        self.slots.insert(Slot::new(record));
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
        let slot = self.first_slot(key)?;
        let entry = &slot.value().record.entry;
        (entry.key() == key).then(|| entry.clone())
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

/// The greatest timestamp of all keys whose hashes share a place: tells most
/// writes that nothing here can rival them, without a search. Writes come
/// nearly in the order of their timestamps, but not quite where several nodes
/// stamp them, so a single number for all keys would tell hardly any.
struct NewestByHash {
    timestamps: Box<[AtomicU64; NEWEST_PLACES]>,
}

/// Few enough to stay in the processor's cache; many beside the writes that
/// overtake each other on their way, which are those under way at a time.
const NEWEST_PLACES: usize = 4096;

/// What [`NewestByHash`] knows of an entry that was added.
enum Raised {
    /// All other versions of its key are older.
    Newest,
    /// There may be one that is not.
    PerhapsNot,
}

impl NewestByHash {
    fn new() -> Self {
        Self {
            timestamps: Box::new([const { AtomicU64::new(0) }; NEWEST_PLACES]),
        }
    }

    /// Adds an entry. It has to be added before the list has it: whoever looks
    /// there only when told to must not miss it.
    fn raise(&self, entry: &Entry) -> Raised {
        let hash = KeyHash::of(entry.key()).as_u64();
        let timestamp = entry.timestamp().as_u64();
        let place = &self.timestamps[hash as usize % NEWEST_PLACES];
        match place.fetch_max(timestamp, Relaxed) < timestamp {
            true => Raised::Newest,
            false => Raised::PerhapsNot,
        }
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
                self.batch.push_back(found.value().record.clone());
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

/// A record as the skip list orders it.
struct Slot {
    /// The key's first bytes: most comparisons of a search are decided by them,
    /// without following the record's pointer.
    prefix: u128,
    record: Record,
}

impl Slot {
    fn new(record: Record) -> Self {
        Self {
            prefix: prefix(record.entry.key()),
            record,
        }
    }
}

/// How many bytes of a key its prefix holds.
const PREFIX_BYTES: usize = size_of::<u128>();

/// The first sixteen bytes of a key, filled up with zeros, as a number. Where
/// two differ they are ordered as the keys are.
fn prefix(key: &[u8]) -> u128 {
    let mut bytes = [0; PREFIX_BYTES];
    let length = key.len().min(bytes.len());
    bytes[..length].copy_from_slice(&key[..length]);
    u128::from_be_bytes(bytes)
}

/// The order of two keys with the same prefix. Where that holds both whole,
/// one is the other with zeros behind it, and nothing has to be looked up.
fn order_of_keys(left: &[u8], right: &[u8]) -> Ordering {
    if left.len() <= PREFIX_BYTES && right.len() <= PREFIX_BYTES {
        left.len().cmp(&right.len())
    } else {
        left.cmp(right)
    }
}

/// A place to seek in the skip list.
struct Seek<'a> {
    prefix: u128,
    place: Place<'a>,
}

impl<'a> Seek<'a> {
    fn to(place: Place<'a>) -> Self {
        Self {
            prefix: prefix(place.key()),
            place,
        }
    }
}

/// A place in the order of records.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// Before every record of the key.
    Before(&'a [u8]),
    /// At the record.
    At(&'a Record),
    /// After every record of the key.
    After(&'a [u8]),
}

impl<'a> Place<'a> {
    fn key(self) -> &'a [u8] {
        match self {
            Self::Before(key) | Self::After(key) => key,
            Self::At(record) => record.entry.key(),
        }
    }

    /// On which side of its key's records it is.
    fn side(self) -> i8 {
        match self {
            Self::Before(_) => -1,
            Self::At(_) => 0,
            Self::After(_) => 1,
        }
    }

    /// The order of two places whose keys have the same prefix.
    fn order(self, other: Self) -> Ordering {
        order_of_keys(self.key(), other.key()).then_with(|| match (self, other) {
            (Self::At(left), Self::At(right)) => left.order_of_versions(right),
            (left, right) => left.side().cmp(&right.side()),
        })
    }
}

/// What has a place: lets the list be searched by a borrowed key, without
/// making a record for it.
trait Placed {
    fn prefix(&self) -> u128;
    fn place(&self) -> Place<'_>;
}

impl Placed for Slot {
    fn prefix(&self) -> u128 {
        self.prefix
    }

    fn place(&self) -> Place<'_> {
        Place::At(&self.record)
    }
}

impl Placed for Seek<'_> {
    fn prefix(&self) -> u128 {
        self.prefix
    }

    fn place(&self) -> Place<'_> {
        self.place
    }
}

fn compare<L: Placed + ?Sized, R: Placed + ?Sized>(left: &L, right: &R) -> Ordering {
    left.prefix()
        .cmp(&right.prefix())
        .then_with(|| left.place().order(right.place()))
}

impl PartialEq for Slot {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Slot {}

impl PartialOrd for Slot {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slot {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self, other)
    }
}

impl<'a> Borrow<dyn Placed + 'a> for Slot {
    fn borrow(&self) -> &(dyn Placed + 'a) {
        self
    }
}

impl PartialEq for dyn Placed + '_ {
    fn eq(&self, other: &Self) -> bool {
        compare(self, other) == Ordering::Equal
    }
}

impl Eq for dyn Placed + '_ {}

impl PartialOrd for dyn Placed + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Placed + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self, other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Expiry;
    use std::collections::BTreeSet;
    use std::sync::atomic::Ordering;

    fn put(key: &str, timestamp: u64, value: &str) -> Entry {
        Entry::value(
            key.as_bytes(),
            Timestamp::from_u64(timestamp),
            value.as_bytes(),
            Expiry::NEVER,
            1,
        )
    }

    fn insert(memtable: &Memtable, arrival: u64, entry: Entry) -> Option<u64> {
        memtable
            .insert(Record { arrival, entry })
            .map(Timestamp::as_u64)
    }

    fn drain(mut source: MemtableSource) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        while let Some(record) = source.next().unwrap() {
            all.push((
                String::from_utf8(record.entry.key().to_vec()).unwrap(),
                record.entry.timestamp().as_u64(),
            ));
        }
        all
    }

    #[test]
    fn the_highest_timestamp_wins_in_any_order_of_arrival() {
        let memtable = Memtable::new(1);
        assert_eq!(insert(&memtable, 1, put("b", 20, "new")), None);
        assert_eq!(insert(&memtable, 2, put("b", 10, "old")), Some(20));
        assert_eq!(insert(&memtable, 3, put("b", 30, "newest")), None);
        assert_eq!(insert(&memtable, 4, put("a", 99, "other key")), None);
        assert_eq!(memtable.newest(b"b").unwrap().value_bytes(), b"newest");
        assert_eq!(memtable.newest(b"ab"), None);
        assert_eq!(memtable.newest(b"c"), None);
        assert_eq!(memtable.least_timestamp().as_u64(), 10);
        assert_eq!(memtable.greatest_timestamp().as_u64(), 99);
    }

    #[test]
    fn the_same_entry_again_is_told_only_of_the_others() {
        let memtable = Memtable::new(1);
        assert_eq!(insert(&memtable, 1, put("k", 10, "v")), None);
        let bytes = memtable.bytes();
        assert_eq!(insert(&memtable, 2, put("k", 10, "v")), None);
        assert_eq!(memtable.bytes(), bytes, "not stored twice");
        assert_eq!(insert(&memtable, 3, put("k", 10, "w")), Some(10));
        assert_eq!(insert(&memtable, 4, put("k", 10, "v")), Some(10));
        assert_eq!(insert(&memtable, 5, put("k", 10, "w")), Some(10));
        assert_eq!(insert(&memtable, 6, put("k", 12, "x")), None);
        assert_eq!(insert(&memtable, 7, put("k", 10, "v")), Some(12));
    }

    #[test]
    fn an_older_write_is_told_of_its_rivals_whatever_other_keys_came_between() {
        let memtable = Memtable::new(1);
        let keys = || (0..3 * NEWEST_PLACES as u64).map(|number| (number, number.to_string()));
        for (number, key) in keys() {
            assert_eq!(insert(&memtable, number, put(&key, 10 + number, "v")), None);
        }
        for (number, key) in keys() {
            let entry = put(&key, 9 + number, "older");
            let newest = 10 + number;
            assert_eq!(insert(&memtable, number, entry), Some(newest), "{key}");
        }
    }

    #[test]
    fn keys_are_in_the_order_of_their_bytes_also_where_their_prefixes_are_equal() {
        let memtable = Arc::new(Memtable::new(1));
        let keys = ["a", "a\0", "a\0\0", "a\0b", "ab"]
            .into_iter()
            .map(str::to_owned)
            .chain((14..20).map(|length| "c".repeat(length)))
            .chain((14..20).map(|length| "c".repeat(13) + &"\0".repeat(length - 13)));
        let mut keys: Vec<String> = keys.collect();
        for (number, key) in (0..).zip(keys.iter().rev()) {
            for version in [1, 2] {
                insert(&memtable, number, put(key, version, "v"));
            }
        }
        keys.sort();
        let sorted = keys
            .iter()
            .flat_map(|key| [(key.clone(), 2), (key.clone(), 1)]);
        assert!(
            drain(memtable.source(Bound::Unbounded))
                .into_iter()
                .eq(sorted)
        );
        for key in &keys {
            let newest = memtable.newest(key.as_bytes()).unwrap();
            assert_eq!(newest.timestamp().as_u64(), 2);
            assert_eq!(newest.key(), key.as_bytes());
        }
    }

    #[test]
    fn a_source_gives_every_record_in_order_from_its_start() {
        let memtable = Arc::new(Memtable::new(1));
        for number in 0..1000_u64 {
            insert(
                &memtable,
                number,
                put(&format!("{:03}", number % 500), number, "v"),
            );
        }
        let all = drain(memtable.source(Bound::Unbounded));
        assert_eq!(all.len(), 1000);
        assert_eq!(all[0], ("000".into(), 500), "the winner comes first");
        assert_eq!(all[1], ("000".into(), 0));
        assert!(all.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        let included = drain(memtable.source(Bound::Included(b"498")));
        assert_eq!(included.len(), 4);
        let excluded = drain(memtable.source(Bound::Excluded(b"498")));
        assert_eq!(excluded, [("499".into(), 999), ("499".into(), 499)]);
    }

    /// Each writer's versions, the i-th with a timestamp that no other has.
    #[test]
    fn threads_that_write_and_read_at_once_miss_nothing() {
        const WRITERS: u64 = 3;
        const VERSIONS: u64 = 1_500;
        const KEYS: u64 = 50;
        let timestamp = |writer, version| version * WRITERS + writer + 1;
        let key = |timestamp: u64| format!("{:02}", timestamp % KEYS);
        let memtable = Arc::new(Memtable::new(1));
        let written: [AtomicU64; WRITERS as usize] = Default::default();
        let floor = || {
            written
                .each_ref()
                .map(|count| count.load(Ordering::Acquire))
        };
        // The greatest timestamp of a key among the first versions of each writer.
        let newest = |floor: &[u64; WRITERS as usize], key: u64| {
            let last = (0..).zip(floor).filter_map(|(writer, count)| {
                let mut timestamps = (0..*count).rev().map(|version| timestamp(writer, version));
                timestamps.find(|timestamp| timestamp % KEYS == key)
            });
            last.max()
        };
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (memtable, written) = (&memtable, &written[writer as usize]);
                scope.spawn(move || {
                    for version in 0..VERSIONS {
                        let own = timestamp(writer, version);
                        let known = newest(&floor(), own % KEYS).filter(|known| *known > own);
                        let found = insert(memtable, own, put(&key(own), own, "v"));
                        assert!(found >= known, "{known:?} was there, {found:?} was found");
                        written.store(version + 1, Ordering::Release);
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let floor = floor();
                        let all = drain(memtable.source(Bound::Unbounded));
                        assert!(all.is_sorted_by_key(|(key, timestamp)| (
                            key.clone(),
                            u64::MAX - timestamp
                        )));
                        let held: BTreeSet<u64> =
                            all.iter().map(|(_, timestamp)| *timestamp).collect();
                        assert_eq!(held.len(), all.len(), "a record came twice");
                        for (writer, count) in (0..).zip(floor) {
                            assert!(
                                (0..count)
                                    .all(|version| held.contains(&timestamp(writer, version)))
                            );
                        }
                        for number in 0..KEYS {
                            let found = memtable.newest(format!("{number:02}").as_bytes());
                            let found = found.map(|entry| entry.timestamp().as_u64());
                            assert!(found >= newest(&floor, number), "key {number}");
                        }
                        if floor == [VERSIONS; WRITERS as usize] {
                            break;
                        }
                    }
                });
            }
        });
        let record_bytes = memory_bytes(&put("00", 1, "v"));
        assert_eq!(
            memtable.bytes(),
            record_bytes * (WRITERS * VERSIONS) as usize
        );
    }
}
