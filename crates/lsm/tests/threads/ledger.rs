//! What the threads have done to a store, and what it may show for it.
//!
//! There are two kinds of writers. A *scatterer* writes and deletes random
//! keys, in no order of its timestamps; everything about such an entry follows
//! from its timestamp, so that whatever a read gives can be told from what was
//! never written. A *marcher* writes 1, 2, 3 … to a ring of keys, so that its
//! last number tells what every key of the ring holds: a scan that is no
//! snapshot shows a ring that never was.

use base::{Entry, Expiry, Kind, Timestamp};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// The keys of the scatterers.
pub(crate) const SCATTERED_KEYS: u64 = 300;
/// How many threads scatter, and how many march.
pub(crate) const SCATTERERS: usize = 3;
pub(crate) const MARCHERS: usize = 2;
/// The keys of a marcher's ring.
const RING: u64 = 10;

/// What was done, as the threads know it. A number is raised to "begun" before
/// the engine gets the write, and to "acknowledged" after it has answered.
pub(crate) struct Ledger {
    next_timestamp: AtomicU64,
    /// For each writer a timestamp below which nothing of it is to come.
    floors: [AtomicU64; SCATTERERS + MARCHERS],
    /// For each scattered key the greatest timestamp acknowledged.
    acknowledged: Vec<AtomicU64>,
    /// For each scattered key the greatest timestamp of a tombstone begun.
    deleted: Vec<AtomicU64>,
    /// For each marcher its last number begun, and acknowledged.
    marched_to: [AtomicU64; MARCHERS],
    marched: [AtomicU64; MARCHERS],
}

/// What a store must show that is looked at from now on.
pub(crate) struct Floor {
    scattered: Vec<u64>,
    marched: [u64; MARCHERS],
}

/// What a store may show at most that was looked at before.
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

/// The last number up to `last` that a marcher writes to a key of its ring; 0 for none.
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

    /// Timestamps for the writer's next writes. Those it had before are used up.
    fn reserve(&self, writer: usize, count: u64) -> std::ops::Range<u64> {
        self.floors[writer].store(self.next_timestamp.load(SeqCst), SeqCst);
        let first = self.next_timestamp.fetch_add(count, SeqCst);
        first..first + count
    }

    /// The writer writes no more.
    pub(crate) fn retire(&self, writer: usize) {
        self.floors[writer].store(u64::MAX, SeqCst);
    }

    /// The bound below which no write is to come: what the engine asks for.
    pub(crate) fn drop_bound(&self) -> Timestamp {
        // In this order: a writer that raises its floor after it was read here
        // raises it to a later timestamp than this one.
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

    /// Notes a write that the engine is about to get; gives what the key is
    /// known to hold by then.
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

    pub(crate) fn ceiling(&self) -> Ceiling {
        Ceiling {
            timestamp: self.next_timestamp.load(SeqCst),
            marched: self.marched_to.each_ref().map(|number| number.load(SeqCst)),
        }
    }

    /// What was acknowledged of a scattered key.
    pub(crate) fn acknowledged(&self, key: usize) -> u64 {
        self.acknowledged[key].load(SeqCst)
    }

    /// Checks what was found for a scattered key of which `floor` was known before.
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
            // Once nothing older can come a tombstone may go.
            None => assert!(
                floor == 0 || is_tombstone(floor) || self.deleted[key].load(SeqCst) > floor,
                "version {floor} of key {key} is gone"
            ),
        }
    }

    /// Checks all that a store showed at one moment between `floor` and `ceiling`.
    pub(crate) fn check_all(&self, entries: &[Entry], floor: &Floor, ceiling: &Ceiling) {
        assert!(
            entries.is_sorted_by(|left, right| left.key() < right.key()),
            "the keys do not ascend"
        );
        let by_key: BTreeMap<&[u8], &Entry> =
            entries.iter().map(|entry| (entry.key(), entry)).collect();
        for entry in entries {
            let timestamp = entry.timestamp().as_u64();
            assert!(timestamp < ceiling.timestamp, "{timestamp} came later");
        }
        for (number, floor) in floor.scattered.iter().enumerate() {
            let found = by_key.get(format!("s{number:03}").as_bytes());
            self.check(number, *floor, found.copied());
        }
        self.check_rings(entries, floor, ceiling);
    }

    /// Checks what a store showed of the marchers' rings at one moment between
    /// `floor` and `ceiling`.
    pub(crate) fn check_rings(&self, entries: &[Entry], floor: &Floor, ceiling: &Ceiling) {
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
            let possible = *least..=ceiling.marched[marcher];
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
