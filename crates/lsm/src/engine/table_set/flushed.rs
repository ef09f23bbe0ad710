//! What is remembered of memtables that were flushed a moment ago: which versions
//! came with them, and with which sequence numbers.
//!
//! The tables do not know. A flush writes only the newest version of each key, a
//! compaction drops what another table outranks, and neither keeps sequence numbers.
//! So a flush also records the versions that it reads. When one of them arrives
//! again, its writer gets the first newer-version check again, as if the memtable were still
//! there.
//!
//! A version is identified by its whole timestamp and the hash of its key. Two writes
//! never get the same timestamp, so two versions are never confused: keys that were
//! chosen to have the same hash still have different timestamps.
//!
//! This costs a flush a search tree of the versions. It costs a commit nothing
//! unless the store holds a newer version of its key. The memory is bounded, and
//! the newer-version check of a version that is not remembered is unknown.

use crate::error::Error;
use crate::memtable::{Memtable, record_bytes};
use crate::record::{Record, RecordCursor, RecordRef};
use crate::table::KeyHash;
use base::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The most flushes that are remembered separately.
const FLUSHED_MAX: usize = 32;

/// How many sequence numbers are remembered with their versions, of all flushes
/// together; at times up to twice as many, which take three mebibytes. That is
/// two seconds of 32,000 writes a second, and two seconds is for how long a node
/// keeps newer-version checks by default.
const SEQUENCES_MAX: u64 = 64 << 10;

/// A version, by its timestamp and the hash of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    timestamp: Timestamp,
    key: u64,
}

impl Version {
    /// The version of a key with this hash and this timestamp.
    pub(crate) fn new(key: KeyHash, timestamp: Timestamp) -> Self {
        let key = key.as_u64();
        Self { timestamp, key }
    }

    /// Its timestamp.
    pub(crate) fn timestamp(self) -> Timestamp {
        self.timestamp
    }
}

/// A memtable that was flushed, tables that were ingested, or all that a store held when
/// it was opened.
#[derive(Clone, Debug)]
pub(crate) struct Flushed {
    /// When, on the monotonic clock.
    at: Duration,
    /// The least timestamp of its versions.
    least_timestamp: Timestamp,
    /// The greatest timestamp of its versions.
    greatest_timestamp: Timestamp,
    /// The versions that came with it.
    sequences: Arc<VersionSequences>,
}

/// Whether a version came with what was flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// It did not, or so long ago that no request asks for it.
    No,
    /// It did, with this sequence number.
    As(u64),
    /// It may have.
    Perhaps,
}

impl Flushed {
    /// What is remembered of a memtable, with the versions that it held.
    pub(crate) fn new(at: Duration, memtable: &Memtable, sequences: VersionSequences) -> Self {
        Self {
            at,
            least_timestamp: memtable.least_timestamp(),
            greatest_timestamp: memtable.greatest_timestamp(),
            sequences: Arc::new(sequences),
        }
    }

    /// All that a store holds when it is opened.
    pub(crate) fn before_start(at: Duration, greatest_timestamp: Timestamp) -> Self {
        Self {
            at,
            least_timestamp: Timestamp::ZERO,
            greatest_timestamp,
            sequences: Arc::default(),
        }
    }

    /// What is remembered of tables that were ingested: any version between these
    /// timestamps may have come with them.
    pub(crate) fn ingested(at: Duration, least: Timestamp, greatest: Timestamp) -> Self {
        Self {
            at,
            least_timestamp: least,
            greatest_timestamp: greatest,
            sequences: Arc::default(),
        }
    }

    /// Whether a version came with it. No request asks for versions with sequence
    /// numbers below `asked_from`.
    pub(crate) fn came(&self, version: Version, asked_from: u64) -> Came {
        if !(self.least_timestamp..=self.greatest_timestamp).contains(&version.timestamp()) {
            return Came::No;
        }
        match self.sequences.of(version) {
            Some(sequence) => Came::As(sequence),
            None if self.sequences.from <= asked_from => Came::No,
            None => Came::Perhaps,
        }
    }

    /// Whether a request may still ask for a version that came with it.
    pub(crate) fn is_recent(&self, now: Duration, kept: Duration) -> bool {
        now.saturating_sub(self.at) < kept
    }

    /// How many versions are remembered of it.
    pub(crate) fn versions(&self) -> usize {
        self.sequences.versions.len()
    }

    /// Forgets which versions came with it.
    fn forget_sequences(&mut self) {
        self.sequences = Arc::default();
    }

    /// Merges an earlier flush into this one. The merged range of timestamps may
    /// include versions that came with neither.
    fn absorb(&mut self, earlier: &Self) {
        self.least_timestamp = self.least_timestamp.min(earlier.least_timestamp);
        self.greatest_timestamp = self.greatest_timestamp.max(earlier.greatest_timestamp);
        self.forget_sequences();
    }
}

/// Adds the last flush to those that are remembered, and forgets flushes that are
/// old and versions that are too many.
pub(crate) fn remember(flushed: &mut Vec<Flushed>, last: Flushed, kept: Duration) {
    flushed.retain(|flushed| flushed.is_recent(last.at, kept));
    // The sequence numbers of memtables follow each other, so the flushes above the
    // bound hold no more versions than are allowed, beside one that lies across it.
    let bound = last.sequences.last.saturating_sub(SEQUENCES_MAX);
    for flushed in flushed.iter_mut() {
        if flushed.sequences.last <= bound {
            flushed.forget_sequences();
        }
    }
    if flushed.len() == FLUSHED_MAX {
        let oldest = flushed.remove(0);
        if let Some(next) = flushed.first_mut() {
            next.absorb(&oldest);
        }
    }
    flushed.push(last);
}

/// The last sequence numbers of a memtable.
#[derive(Debug)]
pub(crate) struct VersionSequences {
    /// All versions with this sequence number or a greater one are among them.
    from: u64,
    /// The last sequence number.
    last: u64,
    /// The versions and their sequence numbers, sorted. They are one allocation, so
    /// that the thread with the last handle frees them at once.
    versions: Box<[(Version, u64)]>,
}

/// Nothing is remembered: any version may have come.
impl Default for VersionSequences {
    fn default() -> Self {
        Self {
            from: u64::MAX,
            last: 0,
            versions: Box::default(),
        }
    }
}

impl VersionSequences {
    fn of(&self, version: Version) -> Option<u64> {
        let versions = &self.versions;
        let index = versions.binary_search_by_key(&version, |(version, _)| *version);
        let (_, sequence) = versions.get(index.ok()?)?;
        Some(*sequence)
    }
}

/// The records of a memtable; the sequence numbers of those that were read are
/// recorded.
pub(crate) struct RecordedSequences<C> {
    records: C,
    from: u64,
    last: u64,
    /// Whether some records have a sequence number below `from`.
    has_earlier: bool,
    versions: BTreeMap<Version, u64>,
    /// The memory of the records that were read, in bytes.
    read_bytes: u64,
}

impl<C> RecordedSequences<C> {
    /// These records; the last one has the sequence number `last`.
    pub(crate) fn new(records: C, last: u64) -> Self {
        Self {
            records,
            from: (last + 1).saturating_sub(SEQUENCES_MAX),
            last,
            has_earlier: false,
            versions: BTreeMap::new(),
            read_bytes: 0,
        }
    }

    /// The memory that the records take in the memtable which were read, in bytes.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// The versions that were recorded, once all records were read.
    pub(crate) fn sequences(self) -> VersionSequences {
        VersionSequences {
            from: if self.has_earlier { self.from } else { 0 },
            last: self.last,
            versions: self.versions.into_iter().collect(),
        }
    }
}

impl<C: RecordCursor> RecordCursor for RecordedSequences<C> {
    fn advance(&mut self) -> Result<bool, Error> {
        if !self.records.advance()? {
            return Ok(false);
        }
        self.read_bytes += record_bytes(self.records.data_bytes()) as u64;
        let RecordRef { sequence, entry } = self.records.record();
        if sequence < self.from {
            self.has_earlier = true;
        } else {
            let version = Version::new(KeyHash::of(entry.key()), entry.timestamp());
            let first = self.versions.entry(version).or_insert(sequence);
            *first = (*first).min(sequence);
        }
        Ok(true)
    }

    fn record(&self) -> RecordRef<'_> {
        self.records.record()
    }

    fn take(&mut self) -> Record {
        self.records.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Entry, Expiry};

    const KEPT: Duration = Duration::from_secs(10);

    fn version(timestamp: u64) -> Version {
        Version::new(KeyHash::of(b"k"), Timestamp::from_u64(timestamp))
    }

    /// A flush of a memtable whose versions have these timestamps, which are their
    /// sequence numbers, too.
    fn flushed(at: u64, timestamps: std::ops::RangeInclusive<u64>) -> Flushed {
        let memtable = Arc::new(Memtable::new(1, 1 << 10));
        let last = *timestamps.end();
        for timestamp in timestamps {
            let at = Timestamp::from_u64(timestamp);
            let entry = Entry::value(b"k", at, b"", Expiry::NEVER, 1);
            memtable.insert(&Record {
                sequence: timestamp,
                entry,
            });
        }
        assert_eq!(memtable.last_sequence(), last);
        let mut records = RecordedSequences::new(memtable.cursor(std::ops::Bound::Unbounded), last);
        while records.advance().unwrap() {}
        Flushed::new(Duration::from_secs(at), &memtable, records.sequences())
    }

    #[test]
    fn versions_that_came_with_a_flush_are_known() {
        let flushed = flushed(0, 10..=20);
        assert_eq!(flushed.came(version(9), 0), Came::No);
        assert_eq!(flushed.came(version(10), 0), Came::As(10));
        assert_eq!(flushed.came(version(20), 0), Came::As(20));
        assert_eq!(flushed.came(version(21), 0), Came::No);
        let other = Version::new(KeyHash::of(b"j"), Timestamp::from_u64(15));
        assert_eq!(flushed.came(other, 0), Came::No);
    }

    #[test]
    fn of_too_many_versions_the_last_are_known() {
        let flushed = flushed(0, 1..=SEQUENCES_MAX + 5);
        assert_eq!(flushed.versions() as u64, SEQUENCES_MAX);
        assert_eq!(flushed.came(version(6), 0), Came::As(6));
        assert_eq!(flushed.came(version(5), 5), Came::Perhaps);
        assert_eq!(flushed.came(version(5), 6), Came::No, "no request asks");
    }

    #[test]
    fn all_flushes_together_are_bounded() {
        let half = SEQUENCES_MAX / 2;
        let mut all = Vec::new();
        let total = |all: &[Flushed]| all.iter().map(Flushed::versions).sum::<usize>() as u64;
        for number in 0..6 {
            let first = 1 + number * half;
            remember(&mut all, flushed(0, first..=first + half - 1), KEPT);
            assert!(total(&all) <= 2 * SEQUENCES_MAX);
        }
        assert_eq!(total(&all), SEQUENCES_MAX);
        // A forgotten version may have come.
        assert_eq!(all[0].came(version(1), 0), Came::Perhaps);
    }

    #[test]
    fn of_too_many_flushes_the_first_are_merged() {
        let mut all = vec![Flushed::before_start(
            Duration::ZERO,
            Timestamp::from_u64(9),
        )];
        for number in 1..=FLUSHED_MAX as u64 {
            remember(&mut all, flushed(1, number * 10..=number * 10 + 2), KEPT);
        }
        assert_eq!(all.len(), FLUSHED_MAX);
        for timestamp in [0, 5, 10, 11] {
            assert_eq!(
                all[0].came(version(timestamp), 0),
                Came::Perhaps,
                "{timestamp}"
            );
        }
        assert_eq!(all[0].came(version(13), 0), Came::No);
        assert_eq!(all[1].came(version(20), 0), Came::As(20));
        remember(&mut all, flushed(11, 900..=900), KEPT);
        assert_eq!(all.len(), 1, "the others are too old");
    }
}
