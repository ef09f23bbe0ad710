//! The engine (API; bodies follow).
use crate::{Entry, Environment, Error, Options, Timestamp};
use std::sync::Arc;

/// What a write found when it was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The greatest timestamp among the versions that the key held, the very
    /// same entry aside. Always exact when it is at or above the entry's own;
    /// a lesser one may go unreported, since nothing is read to find it.
    pub newest_held: Option<Timestamp>,
}

/// The end of a submitted write.
#[derive(Debug)]
pub struct Outcome {
    /// The number that the writer gave to [`Engine::submit`].
    pub ticket: u64,
    /// Stored as durably as the options say, or why not.
    pub result: Result<Applied, Error>,
}

/// Where the outcomes of submitted writes go. A writer thread has one of its
/// own, so that a group commit wakes each of them once.
pub trait Outbox: Send + Sync {
    /// Takes the outcomes of this outbox's writes in one group commit. Called
    /// on the commit lane; must not block.
    fn deliver(&self, outcomes: Vec<Outcome>);
}

/// The answer of a read that must not block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The newest version, be it a tombstone or expired; `None` when there is none.
    Found(Option<Entry>),
    /// Only a read of the disk can tell: call [`Engine::get`] where blocking is allowed.
    MayBlock,
}

/// What opening a store found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Entries replayed from the log.
    pub entries_replayed: u64,
    /// Bytes of a torn, never synced tail of the log that were dropped.
    pub torn_bytes: u64,
    /// Files left over from an interrupted write that were removed.
    pub orphans_removed: u64,
}

/// One level of tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelStatistics {
    /// The number of tables.
    pub tables: u64,
    /// Their size on disk, in bytes.
    pub bytes: u64,
}

/// Sizes and counts of a store; counters count since it was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// The levels, level 0 (fresh from memtables, overlapping) first.
    pub levels: Vec<LevelStatistics>,
    /// Entries in all tables: versions, not keys.
    pub table_entries: u64,
    /// Tombstones among them.
    pub table_tombstones: u64,
    /// Memory of the active and the frozen memtables, in bytes.
    pub memtable_bytes: u64,
    /// Frozen memtables that wait for their flush.
    pub memtables_frozen: u64,
    /// Size of the live log segments, in bytes.
    pub log_bytes: u64,
    /// Memory of the block cache, in bytes.
    pub cache_bytes: u64,
    /// Lookups of the block cache that found the block.
    pub cache_hits: u64,
    /// Lookups of the block cache that had to read the disk.
    pub cache_misses: u64,
    /// Filter checks that ruled a table out.
    pub filter_negatives: u64,
    /// Filter checks that admitted a key which the table has.
    pub filter_true_positives: u64,
    /// Filter checks that admitted a key which the table does not have.
    pub filter_false_positives: u64,
    /// Data blocks that point reads and scans fetched, from the cache or the disk.
    pub data_blocks_fetched: u64,
    /// Entries written.
    pub writes: u64,
    /// Bytes of keys and values written.
    pub written_bytes: u64,
    /// Group commits.
    pub commits: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Bytes that went to the log.
    pub log_written_bytes: u64,
    /// Memtables flushed.
    pub flushes: u64,
    /// Bytes that flushes wrote.
    pub flush_written_bytes: u64,
    /// Compactions finished.
    pub compactions: u64,
    /// Bytes that compactions read.
    pub compaction_read_bytes: u64,
    /// Bytes that compactions wrote.
    pub compaction_written_bytes: u64,
    /// Group commits that were slowed because flush or compaction was behind.
    pub slowdowns: u64,
    /// Group commits that had to wait for a flush or a compaction.
    pub stalls: u64,
    /// Writes refused because too many waited.
    pub refused_overloaded: u64,
    /// Writes refused because the disk was full.
    pub refused_disk_full: u64,
    /// Whether the disk is full, so that puts are refused.
    pub disk_full: bool,
    /// Why the store is read-only, if it is.
    pub poisoned: Option<String>,
    /// Scans whose snapshot lives.
    pub snapshots: u64,
}

impl Statistics {
    /// Bytes written to disk for every byte of keys and values written; 0 before the first.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        if self.written_bytes == 0 {
            return 0.0;
        }
        (self.log_written_bytes + self.flush_written_bytes + self.compaction_written_bytes) as f64
            / self.written_bytes as f64
    }

    /// Bytes of tables over the bytes of the last level that has tables: an
    /// estimate, from above, of table bytes for every live byte; 0 for a store without tables.
    #[must_use]
    pub fn space_amplification(&self) -> f64 {
        let all: u64 = self.levels.iter().map(|level| level.bytes).sum();
        match self.levels.iter().rev().find(|level| level.bytes > 0) {
            Some(last) => all as f64 / last.bytes as f64,
            None => 0.0,
        }
    }
}

/// A log-structured store. Cheap to clone; the clones are one store.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<()>,
}

impl Engine {
    /// Opens the store in a folder, or makes one there.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Corrupt`], [`Error::Invalid`], [`Error::Io`].
    pub fn open(
        environment: Environment,
        options: Options,
    ) -> Result<(Self, RecoveryReport), Error> {
        todo!()
    }

    /// Hands a write to the next group commit, without waiting; its end comes
    /// to `outbox` under `ticket`.
    ///
    /// # Errors
    /// [`Error::Overloaded`], [`Error::DiskFull`] (puts only),
    /// [`Error::Poisoned`], [`Error::Closed`], [`Error::Invalid`]: then nothing comes to `outbox`.
    pub fn submit(&self, entry: Entry, outbox: &Arc<dyn Outbox>, ticket: u64) -> Result<(), Error> {
        todo!()
    }

    /// Writes and waits until it is stored.
    ///
    /// # Errors
    /// As [`Engine::submit`], and [`Error::Io`].
    pub fn write(&self, entry: Entry) -> Result<Applied, Error> {
        todo!()
    }

    /// The newest version of a key, if that can be told without reading the disk.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn get_cached(&self, key: &[u8]) -> Result<Lookup, Error> {
        todo!()
    }

    /// The newest version of a key, be it a tombstone or expired. May read the disk.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        todo!()
    }

    /// Starts a scan of the keys from `start` up to, but without, `end` (to the
    /// last key for `None`), as of now.
    #[must_use]
    pub fn scan(&self, start: &[u8], end: Option<&[u8]>) -> Scan {
        todo!()
    }

    /// Writes everything in memory to tables. Blocks.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn flush(&self) -> Result<(), Error> {
        todo!()
    }

    /// Merges all tables into the last level, even when automatic compaction is off. Blocks.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn compact(&self) -> Result<(), Error> {
        todo!()
    }

    /// What the store holds and has done.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        todo!()
    }

    /// The greatest timestamp that was ever written to this store.
    #[must_use]
    pub fn greatest_timestamp(&self) -> Timestamp {
        todo!()
    }

    /// Random number of this store, made when it was created.
    #[must_use]
    pub fn store_id(&self) -> u128 {
        todo!()
    }

    /// Commits what was submitted, refuses what comes after, flushes the
    /// memtables and seals the log. Blocks. A store that is dropped without it
    /// loses nothing either: the log is replayed.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn close(&self) -> Result<(), Error> {
        todo!()
    }
}

/// A scan over a snapshot: it sees each key's newest version among those that
/// had come when it began. Between batches it holds no memory and no table.
pub struct Scan {
    inner: (),
}

impl Scan {
    /// The next entries by key, tombstones and expired versions among them: as
    /// many as fit `bytes_max` bytes of keys and values, but at least one; none
    /// at the end. May read the disk.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn next_batch(&mut self, bytes_max: usize) -> Result<Vec<Entry>, Error> {
        todo!()
    }
}
