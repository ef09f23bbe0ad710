//! Scans: merges over a snapshot, a batch at a time.

use super::Inner;
use super::table_set::LevelSource;
use crate::error::Error;
use crate::merge::Merge;
use crate::record::{Record, RecordSource};
use crate::table::{Purpose, Table};
use base::{Entry, Timestamp};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// A scan over a snapshot: of each key it sees the newest version that was
/// committed when the scan began.
///
/// Between batches it holds only its sequence number and its next key, but no
/// memtable, table or block: each batch seeks in what is live then. So a scan that
/// stalls costs no memory. It only keeps the disk space of versions that it sees
/// and that were overwritten meanwhile. A scan for a sweep holds all of these until it
/// is dropped, so it is to be used for a moment.
pub struct Scan {
    inner: Arc<Inner>,
    /// The greatest sequence number that it sees.
    snapshot: u64,
    start: Bound<Vec<u8>>,
    end: Option<Vec<u8>>,
    /// How it reads tables.
    purpose: Purpose,
    /// The records from `start` on, of a scan for a sweep after its first batch.
    records: Option<Merge>,
}

impl Scan {
    pub(super) fn new(inner: Arc<Inner>, start: &[u8], end: Option<&[u8]>) -> Self {
        let snapshot = inner.core.snapshots.take();
        Self {
            inner,
            snapshot,
            start: Bound::Included(start.to_vec()),
            end: end.map(<[u8]>::to_vec),
            purpose: Purpose::Scan { keep_data: true },
            records: None,
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
    pub fn for_sweep(mut self, least_timestamp: Timestamp) -> Self {
        self.purpose = Purpose::Sweep {
            least_timestamp,
            checks_disk: false,
        };
        self
    }

    /// The same, but every block is read from the disk and checked, whether the cache
    /// has it or not; and so are the parts of tables that hold no records.
    #[must_use]
    pub fn for_full_sweep(mut self) -> Self {
        self.purpose = Purpose::Sweep {
            least_timestamp: Timestamp::ZERO,
            checks_disk: true,
        };
        self
    }

    /// The next entries by key, including tombstones and expired versions: as many
    /// as fit `bytes_max` bytes of keys and values, but at least one. Empty at the
    /// end. May read the disk.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`]. The scan stays where it was.
    pub fn next_batch(&mut self, bytes_max: usize) -> Result<Vec<Entry>, Error> {
        let mut records = self.records.take().unwrap_or_else(|| self.merge());
        let mut batch: Vec<Entry> = Vec::new();
        let mut bytes = 0;
        while let Some((Record { sequence, entry }, entry_bytes)) = records.peek()? {
            if self.end.as_deref().is_some_and(|end| entry.key() >= end) {
                break;
            }
            // The winner of a key is the first of its records that the snapshot sees.
            let last_key = batch.last().map(Entry::key).or_else(|| self.last_key());
            let is_winner = *sequence <= self.snapshot && last_key != Some(entry.key());
            if is_winner {
                bytes += entry_bytes;
                if bytes > bytes_max && !batch.is_empty() {
                    break;
                }
            }
            let record = records.next()?;
            batch.extend(record.filter(|_| is_winner).map(|record| record.entry));
        }
        if let Some(last) = batch.last() {
            self.start = Bound::Excluded(last.key().to_vec());
            match &mut self.purpose {
                Purpose::Scan { keep_data } => *keep_data = false,
                // To seek once more would read a block of each table again.
                _ => self.records = Some(records),
            }
        }
        Ok(batch)
    }

    /// The last key of the batches so far.
    fn last_key(&self) -> Option<&[u8]> {
        match &self.start {
            Bound::Excluded(last) => Some(last),
            Bound::Included(_) | Bound::Unbounded => None,
        }
    }

    /// All records from the scan's next key on.
    fn merge(&self) -> Merge {
        let state = self.inner.core.tables.load();
        let start = self.start.as_ref().map(Vec::as_slice);
        let purpose = self.purpose;
        let mut sources: Vec<Box<dyn RecordSource>> = Vec::new();
        for memtable in state.memtables() {
            sources.push(Box::new(memtable.source(start)));
        }
        for (level, tables) in state.tables.levels().iter().enumerate() {
            let from_start = tables.iter().filter(|table| self.reaches(table));
            if level == 0 {
                for table in from_start {
                    sources.push(Box::new(table.iter(start, purpose)));
                }
            } else {
                let tables: Vec<_> = from_start.cloned().collect();
                if !tables.is_empty() {
                    sources.push(Box::new(LevelSource::new(tables, start, purpose)));
                }
            }
        }
        Merge::new(sources)
    }

    /// Whether a table may have keys that the scan has not returned yet.
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

impl Drop for Scan {
    fn drop(&mut self) {
        if self.inner.core.snapshots.release(self.snapshot) {
            self.inner.core.schedule_compaction(Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{BlockingWrite, environment};
    use crate::{Engine, MemoryDisk, Options};
    use base::{Entry, Expiry, Timestamp};
    use std::sync::Arc;

    #[test]
    fn a_scan_for_a_sweep_passes_over_what_is_older() {
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
            let mut scan = scan.for_sweep(Timestamp::from_u64(least));
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
    fn a_scan_for_a_sweep_keeps_nothing_in_the_cache_and_returns_each_key_once() {
        let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
        let options = Options {
            block_bytes: 256,
            compaction: false,
            ..Options::default()
        };
        let (engine, _) = Engine::open(environment, options).unwrap();
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
            let mut scan = match is_full {
                true => scan.for_full_sweep(),
                false => scan.for_sweep(Timestamp::ZERO),
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
