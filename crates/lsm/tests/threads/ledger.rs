//! What the threads have written to a store, and what reads may therefore return.
//!
//! There are two kinds of writers. A *scatterer* writes and deletes random keys, in no
//! order of its timestamps. Everything in its entries follows from the timestamp, so a
//! reader recognizes an entry that was never written. A *marcher* writes 1, 2, 3 … to a
//! ring of keys, so its last number says what each key of the ring holds. A scan that
//! is not a snapshot finds a ring that never existed.

use base::{Entry, Expiry, Kind, Timestamp};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// The keys of the scatterers.
pub(crate) const SCATTERED_KEYS: u64 = 300;
/// The numbers of scatterers and of marchers.
pub(crate) const SCATTERERS: usize = 3;
pub(crate) const MARCHERS: usize = 2;
/// The keys of a marcher's ring.
const RING: u64 = 10;

/// What the threads have done. A write counts as begun before the engine gets it, and
/// as acknowledged after the engine has answered.
pub(crate) struct Ledger {
    next_timestamp: AtomicU64,
    /// For each writer a timestamp below which it writes no more.
    floors: [AtomicU64; SCATTERERS + MARCHERS],
    /// For each scattered key the greatest acknowledged timestamp.
    acknowledged: Vec<AtomicU64>,
    /// For each scattered key the greatest timestamp of a tombstone that was begun.
    deleted: Vec<AtomicU64>,
    /// For each marcher the last number that was begun, and the last acknowledged.
    marched_to: [AtomicU64; MARCHERS],
    marched: [AtomicU64; MARCHERS],
}

/// The least that later reads have to find.
pub(crate) struct Floor {
    scattered: Vec<u64>,
    marched: [u64; MARCHERS],
}

/// The most that earlier reads may have found.
pub(crate) struct Ceiling {
    timestamp: u64,
    marched: [u64; MARCHERS],
}

/// The entry that a scatterer writes with a timestamp.
pub(crate) fn scattered(timestamp: u64) -> Entry {
    let hash = timestamp.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let key = format!("s{:03}", hash % SCATTERED_KEYS);
    if is_tombstone(timestamp) {
        return Entry::tombstone(key.as_bytes(), Timestamp::from_u64(timestamp), 3);
    }
    let value = format!("{timestamp:>width$}", width = (hash % 151) as usize);
    entry(&key, timestamp, &value)
}

fn is_tombstone(timestamp: u64) -> bool {
    timestamp.is_multiple_of(5)
}

fn entry(key: &str, timestamp: u64, value: &str) -> Entry {
    let (key, value) = (key.as_bytes(), value.as_bytes());
    Entry::value(key, Timestamp::from_u64(timestamp), value, Expiry::NEVER, 3)
}

/// The number of a scattered key.
fn number_of(key: &[u8]) -> usize {
    let digits = key.strip_prefix(b"s").expect("a scattered key");
    std::str::from_utf8(digits).unwrap().parse().unwrap()
}

/// The last number up to `last` that a marcher writes to a key of its ring; 0 if there
/// is none.
fn last_on_ring(place: u64, last: u64) -> u64 {
    last.saturating_sub((last + RING - place) % RING)
}

impl Ledger {
    pub(crate) fn new() -> Self {
        let zeros = || (0..SCATTERED_KEYS).map(|_| AtomicU64::new(0)).collect();
        Self {
            next_timestamp: AtomicU64::new(1),
            floors: Default::default(),
            acknowledged: zeros(),
            deleted: zeros(),
            marched_to: Default::default(),
            marched: Default::default(),
        }
    }

    /// Timestamps for the writer's next writes. It has used all earlier ones.
    fn reserve(&self, writer: usize, count: u64) -> std::ops::Range<u64> {
        self.floors[writer].store(self.next_timestamp.load(SeqCst), SeqCst);
        let first = self.next_timestamp.fetch_add(count, SeqCst);
        first..first + count
    }

    /// The writer writes no more.
    pub(crate) fn retire(&self, writer: usize) {
        self.floors[writer].store(u64::MAX, SeqCst);
    }

    /// The bound below which no thread writes any more; the engine's GC threshold.
    pub(crate) fn gc_threshold(&self) -> Timestamp {
        // In this order: a writer that raises its floor after this read raises it above
        // this timestamp.
        let next = self.next_timestamp.load(SeqCst);
        let floors = self.floors.iter().map(|floor| floor.load(SeqCst));
        Timestamp::from_u64(floors.fold(next, u64::min))
    }

    /// Entries for a scatterer, shuffled.
    pub(crate) fn scatter(&self, writer: usize, random: &mut fastrand::Rng) -> Vec<Entry> {
        let mut timestamps: Vec<u64> = self.reserve(writer, 8).collect();
        random.shuffle(&mut timestamps);
        timestamps.into_iter().map(scattered).collect()
    }

    /// The next entries for a marcher.
    pub(crate) fn march(&self, marcher: usize, count: u64) -> Vec<Entry> {
        let numbers = self.marched_to[marcher].load(SeqCst) + 1..;
        let timestamps = self.reserve(SCATTERERS + marcher, count);
        timestamps
            .zip(numbers)
            .map(|(timestamp, number)| {
                let key = format!("m{marcher}-{}", number % RING);
                entry(&key, timestamp, &number.to_string())
            })
            .collect()
    }

    /// Notes a write before the engine gets it. Returns the least that the key holds
    /// then.
    pub(crate) fn begin(&self, entry: &Entry) -> u64 {
        if let Some(marcher) = marcher_of(entry.key()) {
            self.marched_to[marcher].fetch_max(number_in(entry), SeqCst);
            return 0;
        }
        let key = number_of(entry.key());
        if entry.kind() == Kind::Tombstone {
            self.deleted[key].fetch_max(entry.timestamp().as_u64(), SeqCst);
        }
        self.acknowledged[key].load(SeqCst)
    }

    /// Notes a write that the engine has acknowledged.
    pub(crate) fn end(&self, entry: &Entry) {
        match marcher_of(entry.key()) {
            Some(marcher) => self.marched[marcher].fetch_max(number_in(entry), SeqCst),
            None => self.acknowledged[number_of(entry.key())]
                .fetch_max(entry.timestamp().as_u64(), SeqCst),
        };
    }

    pub(crate) fn floor(&self) -> Floor {
        Floor {
            scattered: self
                .acknowledged
                .iter()
                .map(|timestamp| timestamp.load(SeqCst))
                .collect(),
            marched: self.marched.each_ref().map(|number| number.load(SeqCst)),
        }
    }

    pub(crate) fn bound(&self) -> Ceiling {
        Ceiling {
            timestamp: self.next_timestamp.load(SeqCst),
            marched: self.marched_to.each_ref().map(|number| number.load(SeqCst)),
        }
    }

    /// The greatest acknowledged timestamp of a scattered key.
    pub(crate) fn acknowledged(&self, key: usize) -> u64 {
        self.acknowledged[key].load(SeqCst)
    }

    /// Checks what a read found for a scattered key, for which `floor` was acknowledged
    /// before the read.
    pub(crate) fn check(&self, key: usize, floor: u64, found: Option<&Entry>) {
        match found {
            Some(found) => {
                let timestamp = found.timestamp().as_u64();
                assert_eq!(*found, scattered(timestamp), "nobody wrote this");
                assert_eq!(number_of(found.key()), key, "the entry of another key");
                assert!(
                    timestamp >= floor,
                    "key {key} went back from {floor} to {timestamp}"
                );
            }
            // A tombstone may be dropped when no older write can follow.
            None => assert!(
                floor == 0 || is_tombstone(floor) || self.deleted[key].load(SeqCst) > floor,
                "version {floor} of key {key} is gone"
            ),
        }
    }

    /// Checks all entries that a store held at one moment between `floor` and `timestamp_bound`.
    pub(crate) fn check_all(&self, entries: &[Entry], floor: &Floor, bound: &Ceiling) {
        assert!(
            entries.is_sorted_by(|left, right| left.key() < right.key()),
            "the keys do not ascend"
        );
        let by_key: BTreeMap<&[u8], &Entry> =
            entries.iter().map(|entry| (entry.key(), entry)).collect();
        for entry in entries {
            let timestamp = entry.timestamp().as_u64();
            assert!(timestamp < bound.timestamp, "{timestamp} came later");
        }
        for (number, floor) in floor.scattered.iter().enumerate() {
            let found = by_key.get(format!("s{number:03}").as_bytes());
            self.check(number, *floor, found.copied());
        }
        self.check_rings(entries, floor, bound);
    }

    /// Checks the marchers' rings that a store held at one moment between `floor` and
    /// `timestamp_bound`.
    pub(crate) fn check_rings(&self, entries: &[Entry], floor: &Floor, bound: &Ceiling) {
        let by_key: BTreeMap<&[u8], &Entry> =
            entries.iter().map(|entry| (entry.key(), entry)).collect();
        for (marcher, least) in floor.marched.iter().enumerate() {
            let ring: Vec<u64> = (0..RING)
                .map(|place| {
                    let found = by_key.get(format!("m{marcher}-{place}").as_bytes());
                    found.map_or(0, |entry| number_in(entry))
                })
                .collect();
            let last = ring.iter().copied().max().unwrap_or(0);
            let expected: Vec<u64> = (0..RING).map(|place| last_on_ring(place, last)).collect();
            assert_eq!(ring, expected, "the ring was never like this");
            let possible = *least..=bound.marched[marcher];
            assert!(possible.contains(&last), "{last} is not in {possible:?}");
        }
    }
}

fn marcher_of(key: &[u8]) -> Option<usize> {
    let marcher = key.strip_prefix(b"m")?.first()?;
    Some(usize::from(marcher - b'0'))
}

fn number_in(entry: &Entry) -> u64 {
    std::str::from_utf8(entry.value_bytes())
        .unwrap()
        .parse()
        .unwrap()
}
