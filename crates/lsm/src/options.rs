//! How a store is opened.

use crate::disk::Disk;
use crate::error::Error;
use crate::executor::{Executor, JobClass};
use base::{Clock, EntryRef, Kind, Random, Timestamp};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// When a write counts as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Once it is synced: it survives a power cut.
    Sync,
    /// Once it is written. It is synced at most this long afterwards. It survives
    /// the end of the process, and a power cut loses at most the last interval.
    Interval(Duration),
    /// Once it is written; the operating system decides when it reaches the disk.
    Os,
}

impl Durability {
    /// Whether a sync is part of each commit.
    pub fn syncs_commits(self) -> bool {
        match self {
            Self::Sync => true,
            Self::Interval(_) | Self::Os => false,
        }
    }
}

/// How data blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4 block format.
    Lz4,
}

/// The settings of a store. [`Options::default`] suits tests and small stores.
#[derive(Clone, Debug)]
pub struct Options {
    /// When a write counts as stored.
    pub durability: Durability,
    /// A memtable that takes this much memory, in bytes, is frozen and flushed.
    pub memtable_bytes: usize,
    /// How many frozen memtables may wait for their flush. When that many wait,
    /// writers are slowed as the active memtable fills, and wait when it is full. As many
    /// log segments are kept to be used again.
    pub memtables_frozen_max: usize,
    /// How much memory the writes that wait for their commit may take, in bytes,
    /// before more are refused.
    pub write_queue_bytes_max: usize,
    /// Memory of the cache for data blocks, filters and index blocks, in bytes.
    pub cache_bytes: usize,
    /// How many files of tables are open at the same time. A table whose file is not is opened
    /// again when it is read from the disk.
    pub open_files_max: usize,
    /// The size at which a data or index block is complete, before compression, in bytes.
    pub block_bytes: usize,
    /// How data blocks are compressed.
    pub compression: Compression,
    /// The share of absent keys that a table's Bloom filter admits, between 0 and 1;
    /// `None` for no filter.
    pub filter_false_positive_rate: Option<f64>,
    /// Whether the tables that compactions write to the last level have filters, too. These are
    /// nine tenths of all filters, and only a read of an absent key gains from them.
    pub last_level_filters: bool,
    /// From how many bytes on a value is kept apart from its key, in a blob table, which compactions
    /// do not write anew with the key; at least 1. `None` for no such values. A store that has some
    /// keeps them apart until compactions come by.
    pub blob_value_bytes_min: Option<usize>,
    /// Whether tables are compacted in the background.
    pub compaction: bool,
    /// How many compactions may run at a time, each on a job class of its own: 1 to 4
    /// ([`JobClass::COMPACTIONS`](crate::JobClass::COMPACTIONS)).
    pub compactions_max: usize,
    /// How fast compaction may write, in bytes a second. Ignored when compaction
    /// falls behind.
    pub compaction_bytes_per_second: u64,
    /// The size at which compaction starts the next table, in bytes.
    pub table_bytes: u64,
    /// How far the GC threshold may be past a tombstone, by their timestamps, before
    /// compaction rewrites a table for a few of them; and how long values may stay that
    /// have expired. Every table is rewritten at most once in that time for this.
    pub purge_wait: Duration,
    /// Space kept free for deletes, flush and compaction when the disk is full, in bytes.
    pub disk_reserve_bytes: u64,
    /// How long the store remembers its newer-version checks: a version that is delivered
    /// twice must get the same answer both times (see `engine/writes/newer_versions.rs`). At
    /// least as long as a request may wait for its answer.
    pub newer_version_checks_kept: Duration,
    /// Versions above this timestamp are dropped for good when the store is opened.
    /// An operator sets it to get rid of versions that a wrong clock has given a timestamp.
    pub drop_versions_above: Option<Timestamp>,
    /// The closed timestamp that was raised last: ordinary writes below it are refused (see
    /// [`Engine::raise_closed_timestamp`](crate::Engine::raise_closed_timestamp)).
    /// [`Timestamp::ZERO`] for none.
    pub closed_timestamp: Timestamp,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Sync,
            memtable_bytes: 8 << 20,
            memtables_frozen_max: 2,
            write_queue_bytes_max: 32 << 20,
            cache_bytes: 32 << 20,
            open_files_max: 256,
            block_bytes: 4 << 10,
            compression: Compression::Lz4,
            filter_false_positive_rate: Some(0.01),
            last_level_filters: true,
            blob_value_bytes_min: None,
            compaction: true,
            compactions_max: 1,
            compaction_bytes_per_second: 64 << 20,
            table_bytes: 32 << 20,
            purge_wait: Duration::from_secs(7 * 86_400),
            disk_reserve_bytes: 64 << 20,
            newer_version_checks_kept: Duration::from_secs(10),
            drop_versions_above: None,
            closed_timestamp: Timestamp::ZERO,
        }
    }
}

impl Options {
    /// Checks that a store can work with these options.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the first option with which it cannot.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let invalid = |what: &str| Err(Error::Invalid(what.to_owned()));
        if self.memtable_bytes < 1024 {
            return invalid("a memtable has at least 1024 bytes");
        }
        if self.memtables_frozen_max == 0 {
            return invalid("at least one memtable may be frozen");
        }
        if self.open_files_max == 0 {
            return invalid("at least one file may be open");
        }
        if !(64..=16 << 20).contains(&self.block_bytes) {
            return invalid("a block has 64 bytes to 16 MiB");
        }
        if !(1..=JobClass::COMPACTIONS.len()).contains(&self.compactions_max) {
            return invalid("1 to 4 compactions run at a time");
        }
        if self.blob_value_bytes_min == Some(0) {
            return invalid("a value in a blob table has at least 1 byte");
        }
        if self.table_bytes == 0 {
            return invalid("a table has at least 1 byte");
        }
        match self.filter_false_positive_rate {
            Some(rate) if !(rate > 0.0 && rate < 1.0) => {
                invalid("a filter's false-positive rate lies between 0 and 1")
            }
            _ => Ok(()),
        }
    }
}

/// Returns the bound below which tombstones may be dropped: no ordinary write with a lower
/// timestamp will be submitted or ingested any more, and no late write with a lower one is
/// admitted (see [`Admission::Late`](crate::Admission::Late)). [`Timestamp::ZERO`] for
/// "never".
pub type GcThreshold = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What a store may hold although it belongs to other stores: **non-owned** versions.
#[derive(Clone)]
pub struct NonOwned {
    /// Whether a version of this key that was written for so many copies belongs to other
    /// stores only. The answer stays the same while the store is open.
    pub is_non_owned: IsNonOwned,
    /// The bound below which non-owned versions may be dropped: every store to which one of them
    /// belongs holds that version or a newer one of its key, and no store holds an older one.
    /// Each compaction calls it, and goes no further than the GC threshold for tombstones. It calls
    /// it again for each version that it is about to drop, and the bound may be lower by then.
    /// [`Timestamp::ZERO`] for "never".
    pub gc_threshold: GcThreshold,
}

/// Returns whether a version of a key, which was written for so many copies, is non-owned.
pub type IsNonOwned = Arc<dyn Fn(&[u8], u8) -> bool + Send + Sync>;

impl NonOwned {
    /// Whether a version is a value that belongs to other stores only. Tombstones are
    /// dropped by their own rule.
    pub(crate) fn includes(&self, entry: EntryRef<'_>) -> bool {
        entry.kind() == Kind::Value && (self.is_non_owned)(entry.key(), entry.copies())
    }

    /// Whether versions up to this timestamp may still be dropped: since a compaction began, a
    /// store may have been lost that one of them belongs to.
    pub(crate) fn may_go(&self, timestamp: Timestamp) -> bool {
        timestamp < (self.gc_threshold)()
    }
}

/// Returns a time in milliseconds since the Unix epoch: a value that expired before
/// it has expired by every clock in the cluster, so compaction keeps only a
/// tombstone of it. 0 while that is unknown, for example because the clock may be
/// wrong: a value that is gone does not come back.
pub type ExpiredBefore = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Returns how long compaction rests after a step that took so long. The number says
/// how urgent compaction is: from 0, not at all, to 1, at which it must not rest because
/// writers would soon have to wait for it.
pub type RestAfter = Arc<dyn Fn(Duration, f64) -> Duration + Send + Sync>;

/// The outside world of a store: everything that is a source of chance.
#[derive(Clone)]
pub struct Environment {
    /// The folder that holds the store. Its owner may keep files of other names there.
    pub folder: PathBuf,
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Random numbers.
    pub random: Arc<dyn Random>,
    /// Runs the jobs of this engine and of no other: see [`Executor::replace`].
    pub executor: Arc<dyn Executor>,
    /// The bound for dropping tombstones. Each compaction calls it.
    pub gc_threshold: GcThreshold,
    /// What the store may hold although it belongs to other stores; `None` if all that it
    /// holds belongs to it.
    pub non_owned: Option<NonOwned>,
    /// The bound for freeing expired values. Each compaction calls it.
    pub expired_before_unix_ms: ExpiredBefore,
    /// The pace of compaction. Each step calls it.
    pub rest_after: RestAfter,
}
