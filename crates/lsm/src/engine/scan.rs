//! Scans: merges over a snapshot, a batch at a time.

use super::snapshots::held_scans::HeldRecords;
use super::store::Store;
use super::table_set::{Level, LevelCursor, StoreCursor};
use crate::error::Error;
use crate::record::merge::Merge;
use crate::record::{RecordCursor, RecordRef};
use crate::table::{Purpose, ScanAhead, Table};
use base::{Entry, EntryRef, Timestamp};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// A scan over a snapshot: of each key it sees the newest version that was
/// committed when the scan began.
///
/// A scan that stalls between batches holds only its sequence number and its next key, but no
/// memtable, table or block: the next batch seeks in what is live then. So it costs no memory.
/// It only keeps the disk space of versions that it sees and that were overwritten
/// meanwhile. Batches of a long range that follow each other at once do not seek: for a tenth
/// of a second the scan may hold all of these. A scan for a comparison, and one that lends its
/// entries ([`Scan::advance`]), holds them until it is dropped, so it is to be used for a moment.
pub struct Scan {
    inner: Arc<Store>,
    /// The number under which the engine holds its records between batches.
    number: u64,
    /// The greatest sequence number that it sees.
    snapshot: u64,
    start: Bound<Vec<u8>>,
    /// Where the last batch began.
    batch_start: Bound<Vec<u8>>,
    end: Option<Vec<u8>>,
    /// How it reads tables.
    purpose: Purpose,
    /// What it reads ahead, where another scan goes on with it.
    ahead: Option<ScanAhead>,
    /// The records from `start` on, once they were needed. Between batches only a scan
    /// for a comparison keeps them here.
    records: Option<Merge<StoreCursor>>,
    /// Whether the records stand at the next entry already: it did not fit the batch before.
    is_pending: bool,
    /// Whether the engine may hold the records.
    may_be_held: bool,
    /// Where a comparison could not read a value last.
    failed_at: Option<String>,
}

impl Scan {
    pub(super) fn new(inner: Arc<Store>, start: &[u8], end: Option<&[u8]>) -> Self {
        let snapshot = inner.core.snapshots.take();
        Self {
            number: inner.core.held_scans.number(),
            inner,
            snapshot,
            start: Bound::Included(start.to_vec()),
            batch_start: Bound::Unbounded,
            end: end.map(<[u8]>::to_vec),
            purpose: Purpose::Scan { keep_data: true },
            ahead: None,
            records: None,
            is_pending: false,
            may_be_held: false,
            failed_at: None,
        }
    }

    /// The scan, for one who reads one part of a long range after the other: the cache keeps
    /// no data blocks of it.
    #[must_use]
    pub fn of_long_range(mut self) -> Self {
        self.purpose = Purpose::Scan { keep_data: false };
        self
    }

    /// The scan, for one who reads everything once: the cache keeps nothing of it.
    /// Blocks that hold only versions below `least_timestamp` are not read, so of a
    /// key whose newest version is below it the scan may return an older one, or none.
    /// It passes over damaged blocks; the engine notes them.
    #[must_use]
    pub fn for_comparison(mut self, least_timestamp: Timestamp) -> Self {
        self.purpose = Purpose::Comparison {
            least_timestamp,
            checks_disk: false,
        };
        self
    }

    /// The same, but every block is read from the disk and checked, whether the cache
    /// has it or not; and so are the parts of tables that hold no records.
    #[must_use]
    pub fn for_full_comparison(mut self) -> Self {
        self.purpose = Purpose::Comparison {
            least_timestamp: Timestamp::ZERO,
            checks_disk: true,
        };
        self
    }

    /// The scan, for one who goes on where another ended that was given the same `ahead`: what
    /// that one has read ahead is not read again. It should be for a comparison, because others
    /// hardly read ahead.
    #[must_use]
    pub fn with_read_ahead(mut self, ahead: &ScanAhead) -> Self {
        self.ahead = Some(ahead.clone());
        self
    }

    /// The next entries by key, including tombstones and expired versions: as many
    /// as fit `bytes_max` bytes of keys and values, but at least one. Empty at the
    /// end. May read the disk.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`]. The scan stays where it was.
    pub fn next_batch(&mut self, bytes_max: usize) -> Result<Vec<Entry>, Error> {
        self.batch_start = self.start.clone();
        let batch = self.read_batch(bytes_max);
        if batch.is_err() {
            self.start = self.batch_start.clone();
        }
        if let Purpose::Scan { keep_data } = &mut self.purpose {
            let is_long = !std::mem::replace(keep_data, false);
            let goes_on = batch.as_ref().is_ok_and(|batch| !batch.is_empty());
            if let Some(records) = self.records.take()
                && is_long
                && goes_on
            {
                self.hold(records);
            }
            self.is_pending = false;
        }
        batch
    }

    /// Takes the last batch back: the next one begins where it began.
    pub fn take_back(&mut self) {
        drop(self.take_held());
        self.give_up_records();
        self.start = self.batch_start.clone();
    }

    /// Passes over all keys before this one, which lies behind the last one that was returned.
    pub fn skip_to(&mut self, key: &[u8]) {
        drop(self.take_held());
        self.give_up_records();
        self.start = Bound::Included(key.to_vec());
    }

    /// Has the engine hold the records until the next batch, but not for long.
    fn hold(&mut self, records: Merge<StoreCursor>) {
        let held = HeldRecords {
            records,
            is_pending: self.is_pending,
        };
        let core = &self.inner.core;
        if core.health.is_closing() {
            return;
        }
        core.held_scans
            .hold(self.number, held, core.now(), &core.background);
        self.may_be_held = true;
    }

    /// The records that the engine still holds since the last batch.
    fn take_held(&mut self) -> Option<HeldRecords> {
        let may_be_held = std::mem::take(&mut self.may_be_held);
        let held_scans = &self.inner.core.held_scans;
        may_be_held.then(|| held_scans.take(self.number)).flatten()
    }

    fn read_batch(&mut self, bytes_max: usize) -> Result<Vec<Entry>, Error> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while self.move_to_next()? {
            bytes += self.records.as_ref().map_or(0, Merge::data_bytes);
            if bytes > bytes_max && !batch.is_empty() {
                self.is_pending = true;
                break;
            }
            match self.enter() {
                Ok(()) => {}
                Err(error) if self.goes_on_behind(&error) => continue,
                Err(error) => return Err(error),
            }
            if let Some(records) = &mut self.records {
                batch.push(records.take().entry);
            }
        }
        Ok(batch)
    }

    /// Moves to the next entry by key, which may be a tombstone or have expired. Returns
    /// whether there is one. From then on the scan holds what it reads, until it is dropped
    /// or [`Scan::next_batch`] is called. May read the disk.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`]. The next call tries again.
    pub fn advance(&mut self) -> Result<bool, Error> {
        while self.move_to_next()? {
            match self.enter() {
                Ok(()) => return Ok(true),
                Err(error) if self.goes_on_behind(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Whether a comparison goes on although it could not read a value. The part is noted as damaged,
    /// so the next walk passes over the version; one that fails in the same place twice does not.
    fn goes_on_behind(&mut self, error: &Error) -> bool {
        let is_comparison = matches!(self.purpose, Purpose::Comparison { .. });
        let place = match error {
            Error::Corrupt { .. } | Error::Io { action: "read", .. } => error.to_string(),
            _ => return false,
        };
        let is_new = self.failed_at.as_ref() != Some(&place);
        self.failed_at = Some(place);
        is_comparison && is_new
    }

    /// The entry to which [`Scan::advance`] has moved, lent by what holds it.
    #[must_use]
    pub fn entry(&self) -> EntryRef<'_> {
        let record = self.records.as_ref().map(Merge::record);
        record.unwrap_or(RecordRef::NONE).entry
    }

    /// The key of the last entry that the scan has returned or moved to.
    #[must_use]
    pub fn last_key(&self) -> Option<&[u8]> {
        last_key(&self.start)
    }

    /// Moves the records to the next entry, whose value may have to be fetched. Returns
    /// whether there is one.
    fn move_to_next(&mut self) -> Result<bool, Error> {
        if self.records.is_none() {
            let held = self.take_held().unwrap_or_else(|| HeldRecords {
                records: self.merge(),
                is_pending: false,
            });
            self.records = Some(held.records);
            self.is_pending = held.is_pending;
        }
        while let Some(records) = &mut self.records {
            if !std::mem::take(&mut self.is_pending) {
                match records.advance() {
                    Ok(true) => {}
                    Ok(false) => return Ok(false),
                    Err(error) => {
                        self.give_up_records();
                        return Err(error);
                    }
                }
            }
            let record = records.record();
            let key = record.entry.key();
            if self.end.as_deref().is_some_and(|end| key >= end) {
                self.is_pending = true;
                return Ok(false);
            }
            // The winner of a key is the first of its records that the snapshot sees.
            if record.sequence <= self.snapshot && last_key(&self.start) != Some(key) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes the records' entry for the scan's own: its value is there, and the scan goes on
    /// behind its key.
    fn enter(&mut self) -> Result<(), Error> {
        let Some(records) = &mut self.records else {
            return Ok(());
        };
        if let Err(error) = records.fetch_value() {
            self.give_up_records();
            return Err(error);
        }
        let key = records.record().entry.key();
        match &mut self.start {
            Bound::Excluded(last) => {
                last.clear();
                last.extend_from_slice(key);
            }
            Bound::Included(_) | Bound::Unbounded => self.start = Bound::Excluded(key.to_vec()),
        }
        Ok(())
    }

    /// Holds no memtable, table or block any more.
    fn give_up_records(&mut self) {
        self.records = None;
        self.is_pending = false;
    }

    /// All records from the scan's next key on.
    fn merge(&self) -> Merge<StoreCursor> {
        let state = self.inner.core.tables.load();
        let start = self.start.as_ref().map(Vec::as_slice);
        let purpose = self.purpose;
        let mut cursors = Vec::new();
        for memtable in state.memtables() {
            cursors.push(StoreCursor::First(memtable.cursor(start)));
        }
        if let Some(ahead) = &self.ahead {
            ahead.retain(|id, least_key| {
                let mut tables = state.tables.candidates(least_key);
                tables.any(|table| table.id() == id)
            });
        }
        let cursor = |tables: &Level, places| {
            let tables = LevelCursor::new(tables, places, start, purpose);
            StoreCursor::Second(tables.with_read_ahead(self.ahead.as_ref()))
        };
        for (level, tables) in state.tables.levels().iter().enumerate() {
            if level == 0 {
                let from_start = tables.iter().filter(|table| self.reaches(table)).cloned();
                cursors.extend(from_start.map(|table| cursor(&Level::new(vec![table]), 0..1)));
                continue;
            }
            let places = state.tables.places(level, start, self.end.as_deref());
            if !places.is_empty() {
                cursors.push(cursor(tables, places));
            }
        }
        Merge::new(cursors)
    }

    /// Whether a table of level 0 may have keys that the scan has not returned yet.
    fn reaches(&self, table: &Table) -> bool {
        let properties = table.properties();
        if self.purpose.passes_over(properties.greatest_timestamp) {
            return false;
        }
        let starts = match &self.start {
            Bound::Included(start) => *properties.greatest_key >= **start,
            Bound::Excluded(start) => *properties.greatest_key > **start,
            Bound::Unbounded => true,
        };
        let ends = self
            .end
            .as_deref()
            .is_none_or(|end| *properties.least_key < *end);
        starts && ends
    }
}

/// The last key before `start`.
fn last_key(start: &Bound<Vec<u8>>) -> Option<&[u8]> {
    match start {
        Bound::Excluded(last) => Some(last),
        Bound::Included(_) | Bound::Unbounded => None,
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        drop(self.take_held());
        if self.inner.core.snapshots.release(self.snapshot) {
            self.inner.core.schedule_compaction(Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Scan;
    use crate::testing::{BlockingWrite, MemoryDisk, environment};
    use crate::{Engine, Options, ScanAhead};
    use base::{Entry, Expiry, Timestamp};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    #[test]
    fn a_scan_for_a_comparison_passes_over_what_is_older() {
        let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
        let (engine, _) = Engine::open(environment, Options::default()).unwrap();
        for (from, timestamp) in [("a", 10), ("b", 100)] {
            for number in 0..100 {
                let key = format!("{from}{number:02}");
                let timestamp = Timestamp::from_u64(timestamp);
                let entry = Entry::value(key.as_bytes(), timestamp, b"v", Expiry::NEVER, 1);
                engine.write(entry).unwrap();
            }
            engine.flush().unwrap();
        }
        let keys = |least: u64| {
            let scan = engine.scan(b"", None);
            let mut scan = scan.for_comparison(Timestamp::from_u64(least));
            let batch = scan.next_batch(1 << 20).unwrap();
            batch
                .iter()
                .map(|entry| entry.key()[0])
                .collect::<Vec<u8>>()
        };
        let reads = || engine.statistics().data_blocks_fetched;
        assert_eq!(keys(0).len(), 200);
        assert_eq!(keys(50), [b'b'; 100]);
        let before = reads();
        assert_eq!(keys(101), []);
        assert_eq!(
            reads(),
            before,
            "nothing is newer, so no data block is read"
        );
    }

    /// What a scan lends from where it stands.
    fn lent(scan: &mut Scan, entries_max: usize) -> Vec<Entry> {
        let mut entries = Vec::new();
        while entries.len() < entries_max && scan.advance().unwrap() {
            entries.push(scan.entry().to_entry());
            assert_eq!(scan.last_key(), Some(scan.entry().key()));
        }
        entries
    }

    /// A store whose tables stay as they are flushed.
    fn engine_of_small_blocks() -> Engine {
        let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
        let options = Options {
            block_bytes: 256,
            compaction: false,
            ..Options::default()
        };
        Engine::open(environment, options).unwrap().0
    }

    #[test]
    fn a_batch_that_was_taken_back_comes_again() {
        let engine = engine_of_small_blocks();
        for number in 0..100_u64 {
            let key = format!("{number:02}");
            let timestamp = Timestamp::from_u64(1 + number);
            let entry = Entry::value(key.as_bytes(), timestamp, &[7; 100], Expiry::NEVER, 1);
            engine.write(entry).unwrap();
        }
        engine.flush().unwrap();
        let mut scan = engine.scan(b"", None);
        let mut seen = Vec::new();
        loop {
            let first = scan.next_batch(1_000).unwrap();
            scan.take_back();
            assert_eq!(scan.next_batch(1_000).unwrap(), first);
            if first.is_empty() {
                break;
            }
            seen.extend(first);
        }
        assert_eq!(seen.len(), 100);
    }

    #[test]
    fn a_scan_lends_the_entries_of_its_batches() {
        let engine = engine_of_small_blocks();
        let mut expected = BTreeMap::new();
        let mut random = fastrand::Rng::with_seed(5);
        for timestamp in 1..=600 {
            let key = vec![random.u8(b'a'..=b'e'), random.u8(b'a'..=b'z')];
            let timestamp = Timestamp::from_u64(timestamp);
            // Some values are alone in a long block.
            let value = vec![7; [3, 300, 70_000][random.usize(..3)]];
            let entry = match random.u8(..4) {
                0 => Entry::tombstone(&key, timestamp, 1),
                _ => Entry::value(&key, timestamp, &value, Expiry::NEVER, 1),
            };
            engine.write(entry.clone()).unwrap();
            expected.insert(key, entry);
            if random.u8(..100) == 0 {
                engine.flush().unwrap();
            }
        }
        assert!(engine.statistics().levels[0].tables > 2);
        let expected: Vec<_> = expected.range(b"b".to_vec()..b"d".to_vec()).collect();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(_, entry)| entry.clone())
            .collect();
        for kind in [|scan| scan, Scan::of_long_range, Scan::for_full_comparison] {
            let begin = || kind(engine.scan(b"b", Some(b"d")));
            assert_eq!(lent(&mut begin(), usize::MAX), expected);
            // In turns with batches, which end within bytes that do not fit.
            let (mut scan, mut found) = (begin(), Vec::new());
            loop {
                let before = found.len();
                found.extend(lent(&mut scan, random.usize(..4)));
                found.extend(scan.next_batch(random.usize(..2_000)).unwrap());
                if found.len() == before {
                    break;
                }
            }
            assert_eq!(found, expected);
            assert!(!scan.advance().unwrap(), "the end stays the end");
        }
    }

    #[test]
    fn scans_that_go_on_see_the_store_as_it_is_then() {
        const KEYS: u32 = 4_000;
        let engine = engine_of_small_blocks();
        let key = |number: u32| format!("{number:04}").into_bytes();
        let mut random = fastrand::Rng::with_seed(3);
        let mut expected = BTreeMap::new();
        let mut put = |number: u32| {
            let at = Timestamp::from_u64(1 + expected.len() as u64);
            let entry = Entry::value(&key(number), at, &[7; 30], Expiry::NEVER, 1);
            engine.write(entry.clone()).unwrap();
            expected.insert(at, entry);
        };
        for number in 1..=8_000 {
            put(random.u32(..KEYS));
            if number % 1_000 == 0 {
                engine.flush().unwrap();
            }
        }
        let ahead = ScanAhead::default();
        let (mut found, mut goes_on) = (Vec::<Entry>::new(), false);
        for round in 0.. {
            let last = found.last().map_or(Vec::new(), |last| last.key().to_vec());
            let start = [&last[..], &[0]].concat();
            let scan = engine.scan(&start, None).for_full_comparison();
            let mut scan = scan.with_read_ahead(&ahead);
            let part = lent(&mut scan, random.usize(1..200));
            drop(scan);
            let Some(last) = part.last() else {
                break;
            };
            goes_on |= ahead.tables() > 0;
            let levels = engine.statistics().levels;
            let live: u64 = levels.iter().map(|level| level.tables).sum();
            assert!(ahead.tables() as u64 <= live, "nothing of removed tables");
            // What comes behind a scan is seen by the next, also once tables were merged.
            let next = (0..=KEYS).find(|number| key(*number).as_slice() > last.key());
            found.extend(part);
            for _ in 0..20 {
                put(random.u32(next.unwrap_or(KEYS)..=KEYS));
            }
            match round % 7 {
                2 => engine.flush().unwrap(),
                5 => engine.compact().unwrap(),
                _ => {}
            }
        }
        assert!(goes_on);
        let newest: BTreeMap<_, _> = expected
            .into_values()
            .map(|entry| (entry.key().to_vec(), entry))
            .collect();
        found.retain(|entry| entry.key() < key(KEYS).as_slice());
        let mut newest: Vec<_> = newest.into_values().collect();
        newest.retain(|entry| entry.key() < key(KEYS).as_slice());
        assert_eq!(found, newest);
    }

    #[test]
    fn no_key_of_the_store_is_behind_its_last_one() {
        let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
        let (engine, _) = Engine::open(environment, Options::default()).unwrap();
        assert_eq!(engine.last_key(), None);
        for (key, last) in [("m", "m"), ("x", "x"), ("c", "x"), ("y", "y")] {
            let timestamp = Timestamp::from_u64(1);
            let entry = Entry::value(key.as_bytes(), timestamp, b"v", Expiry::NEVER, 1);
            engine.write(entry).unwrap();
            for _ in ["memtable", "table"] {
                assert_eq!(engine.last_key().unwrap(), last.as_bytes());
                engine.flush().unwrap();
            }
        }
    }

    #[test]
    fn a_scan_for_a_comparison_keeps_nothing_in_the_cache_and_returns_each_key_once() {
        let engine = engine_of_small_blocks();
        for round in 1..=3 {
            for number in 0..100 {
                let timestamp = Timestamp::from_u64(round);
                let key = format!("{number:03}");
                let entry = Entry::value(key.as_bytes(), timestamp, b"v", Expiry::NEVER, 1);
                engine.write(entry).unwrap();
            }
            engine.flush().unwrap();
        }
        let before = engine.statistics().cache_bytes;
        for is_full in [false, true] {
            let scan = engine.scan(b"", None);
            let mut scan = if is_full {
                scan.for_full_comparison()
            } else {
                scan.for_comparison(Timestamp::ZERO)
            };
            let mut found = Vec::new();
            loop {
                let batch = scan.next_batch(30).unwrap();
                if batch.is_empty() {
                    break;
                }
                found.extend(batch);
            }
            assert_eq!(found.len(), 100);
            assert!(found.iter().all(|entry| entry.timestamp().as_u64() == 3));
            assert_eq!(engine.statistics().cache_bytes, before, "{is_full}");
        }
        drop(engine);
    }
}
