//! What a store holds and has done.

use super::backpressure::LEVEL_0_TABLES_STOP;
use super::set_aside::SetAsideStatus;
use crate::engine::core::Core;
use crate::engine::counters::sync_times::SyncTimeStatistics;
use crate::engine::table_set::OverheadBytes;
use std::sync::atomic::Ordering::Relaxed;

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
    /// The files of blob tables, in which long values lie, in bytes.
    pub blob_bytes: u64,
    /// The keys and values in them to which no table refers any more, in bytes.
    pub blob_garbage_bytes: u64,
    /// Entries in all tables: versions, not keys.
    pub table_entries: u64,
    /// Tombstones among them.
    pub table_tombstones: u64,
    /// Versions in tables that belong to other stores only, as far as the tables say.
    pub table_non_owned: u64,
    /// Entries in the active and the frozen memtables: versions, not keys.
    pub memtable_entries: u64,
    /// Tables of which some part was damaged or unreadable since the store was
    /// opened. Their other parts are served, and compaction leaves them out.
    pub tables_damaged: u64,
    /// Key ranges that damaged parts of tables may have held, until they are rewritten.
    pub damaged_ranges: u64,
    /// What is kept of what was set aside.
    pub set_aside: SetAsideStatus,
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
    /// Filter checks that excluded a table.
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
    /// How long they took.
    pub sync_times: SyncTimeStatistics,
    /// Bytes that went to the log.
    pub log_written_bytes: u64,
    /// Memtables flushed.
    pub flushes: u64,
    /// Bytes that flushes wrote.
    pub flush_written_bytes: u64,
    /// Compactions finished.
    pub compactions: u64,
    /// Compactions that run now.
    pub compactions_running: u64,
    /// Tables that moved down a level without being rewritten.
    pub moved_tables: u64,
    /// Bytes that compactions read.
    pub compaction_read_bytes: u64,
    /// Bytes that compactions wrote.
    pub compaction_written_bytes: u64,
    /// What the disk holds of tables that are not live.
    pub overhead: OverheadBytes,
    /// Versions that compactions dropped because they belong to other stores only.
    pub non_owned_dropped: u64,
    /// Of the bytes that compactions moved to the last level, the share that replaced
    /// older versions there: 1 if all were overwrites, 0 if all keys were new.
    pub hidden_share: f64,
    /// Group commits that were slowed because flush or compaction was behind.
    pub slowdowns: u64,
    /// Group commits that had to wait for a flush or a compaction.
    pub stalls: u64,
    /// Memory of the writes that wait for their commit, in bytes.
    pub write_queue_bytes: u64,
    /// The number of tables on level 0, not counting damaged ones, at which writers
    /// wait.
    pub level_zero_tables_max: u64,
    /// Writes refused because too many waited.
    pub refused_overloaded: u64,
    /// Writes refused because the disk was full.
    pub refused_disk_full: u64,
    /// Whether the disk is full, so that puts are refused.
    pub disk_full: bool,
    /// How many free bytes the store wants before it takes again what it refuses for lack of room:
    /// puts if the disk is full, otherwise what is ingested, which leaves the room that writes
    /// need.
    pub room_wanted_bytes: Option<u64>,
    /// Why the store cannot write files now, if it cannot. It tries again by itself.
    pub failing: Option<String>,
    /// Why the store is read-only, if it is.
    pub poisoned: Option<String>,
    /// Scans whose snapshot lives.
    pub snapshots: u64,
    /// Versions of flushed memtables that are remembered; see
    /// [`Options::newer_version_checks_kept`](crate::Options::newer_version_checks_kept).
    pub flushed_versions: u64,
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

    /// The bytes of the files of all tables, blob tables among them.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        let levels = self.levels.iter().map(|level| level.bytes);
        levels.sum::<u64>() + self.blob_bytes
    }

    /// An estimate: bytes of tables for every byte of them that is not hidden by
    /// newer versions; 0 without tables. It assumes that the tables above the last
    /// level hide as large a share as compactions have found so far, so a store that
    /// has compacted nothing yet counts as 1.
    #[must_use]
    pub fn space_amplification(&self) -> f64 {
        let tables = self.table_bytes() - self.blob_bytes;
        match self.levels.iter().rev().find(|level| level.bytes > 0) {
            Some(last) => {
                let hidden = (tables - last.bytes) as f64 * self.hidden_share.clamp(0.0, 1.0);
                let all = (tables + self.blob_bytes) as f64;
                all / (all - hidden - self.blob_garbage_bytes.min(self.blob_bytes) as f64)
            }
            None => 0.0,
        }
    }
}

impl Core {
    /// How many free bytes the store wants, if it refuses something for lack of room.
    fn room_wanted_bytes(&self) -> Option<u64> {
        if self.health.is_full() {
            Some(self.health.full_disk().room_to_leave_bytes())
        } else {
            self.ingests.room_wanted_bytes()
        }
    }

    /// What the store holds and has done.
    pub(in crate::engine) fn statistics(&self) -> Statistics {
        let state = self.tables.load();
        let memtables = || state.memtables();
        let levels = state
            .tables
            .levels()
            .iter()
            .map(|tables| LevelStatistics {
                tables: tables.len() as u64,
                bytes: tables.bytes(),
            })
            .collect();
        let sums = state.tables.sums();
        let cache = self.tables.files().cache();
        let reads = cache.counters().sum();
        let counters = &self.counters;
        let sync_times = counters.sync_times.statistics();
        Statistics {
            levels,
            blob_bytes: state.tables.blobs().bytes(),
            blob_garbage_bytes: state.tables.blobs().garbage_bytes(),
            table_entries: sums.entries,
            table_tombstones: sums.tombstones,
            table_non_owned: sums.non_owned,
            memtable_entries: memtables().map(|memtable| memtable.entries() as u64).sum(),
            tables_damaged: self.tables.damaged_tables().len() as u64,
            damaged_ranges: state.damaged.len() as u64,
            set_aside: SetAsideStatus::of(&state.set_aside),
            memtable_bytes: memtables().map(|memtable| memtable.bytes() as u64).sum(),
            memtables_frozen: state.frozen.len() as u64,
            log_bytes: self.tables.sealed_segments_bytes() + self.log.segment_bytes(),
            cache_bytes: cache.used_bytes(),
            cache_hits: reads.cache_hits,
            cache_misses: reads.cache_misses,
            filter_negatives: reads.filter_negatives,
            filter_true_positives: reads.filter_true_positives,
            filter_false_positives: reads.filter_false_positives,
            data_blocks_fetched: reads.data_blocks_fetched,
            writes: counters.writes.load(Relaxed),
            written_bytes: counters.written_bytes.load(Relaxed),
            commits: counters.commits.load(Relaxed),
            log_syncs: sync_times.count(),
            sync_times,
            log_written_bytes: counters.log_written_bytes.load(Relaxed),
            flushes: counters.flushes.load(Relaxed),
            flush_written_bytes: counters.flush_written_bytes.load(Relaxed),
            compactions: counters.compactions.load(Relaxed),
            compactions_running: self.tables.merges().len() as u64,
            moved_tables: counters.moved_tables.load(Relaxed),
            compaction_read_bytes: counters.compaction_read_bytes.load(Relaxed),
            compaction_written_bytes: counters.compaction_written_bytes.load(Relaxed),
            overhead: self.tables.overhead(),
            non_owned_dropped: counters.non_owned_dropped.load(Relaxed),
            hidden_share: counters.hidden.share(),
            slowdowns: counters.slowdowns.load(Relaxed),
            stalls: counters.stalls.load(Relaxed),
            write_queue_bytes: self.queue.lock().bytes() as u64,
            level_zero_tables_max: LEVEL_0_TABLES_STOP as u64,
            refused_overloaded: counters.refused_overloaded.load(Relaxed),
            refused_disk_full: counters.refused_disk_full.load(Relaxed),
            disk_full: self.health.is_full(),
            room_wanted_bytes: self.room_wanted_bytes(),
            failing: self.health.failing().cause(),
            poisoned: self.health.poison_cause().map(ToString::to_string),
            snapshots: self.snapshots.count(),
            flushed_versions: state.flushed.iter().map(|it| it.versions() as u64).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_levels(bytes: &[u64]) -> Statistics {
        let level = |&bytes: &u64| LevelStatistics {
            tables: bytes.min(1),
            bytes,
        };
        Statistics {
            levels: bytes.iter().map(level).collect(),
            ..Statistics::default()
        }
    }

    #[test]
    fn space_amplification_counts_hidden_bytes_on_top() {
        for (levels, hidden_share, expected) in [
            (&[0, 0, 0][..], 1.0, 0.0),
            (&[0, 0, 100], 1.0, 1.0),
            (&[30, 20, 100], 1.0, 1.5),
            (&[30, 20, 100], 0.0, 1.0),
            (&[60, 40, 100], 0.5, 200.0 / 150.0),
            (&[30, 20, 0], 1.0, 2.5),
            (&[30, 0, 0], 1.0, 1.0),
        ] {
            let statistics = Statistics {
                hidden_share,
                ..with_levels(levels)
            };
            assert_eq!(statistics.space_amplification(), expected, "{levels:?}");
        }
    }

    #[test]
    fn write_amplification_compares_written_bytes_with_submitted_ones() {
        let mut statistics = Statistics {
            log_written_bytes: 11,
            flush_written_bytes: 10,
            compaction_written_bytes: 29,
            ..Statistics::default()
        };
        assert_eq!(statistics.write_amplification(), 0.0);
        statistics.written_bytes = 10;
        assert_eq!(statistics.write_amplification(), 5.0);
    }
}
