//! Metrics about the store and its disk.

use crate::config::MemoryParts;
use crate::metrics::{Distribution, Family, Labels};
use crate::node::Node;
use lsm::Statistics;
use std::time::Duration;

/// The metrics about the store and its disk.
pub(super) fn families(
    node: &Node,
    store: &Statistics,
    disk_free_bytes: Option<u64>,
) -> Vec<Family> {
    let mut families = counters(store);
    families.extend(gauges(store, node));
    families.push(sync_times(store));
    families.extend(levels(store));
    families.extend(disk(node, disk_free_bytes));
    families
}

fn counters(store: &Statistics) -> Vec<Family> {
    [
        ("kvorum_store_writes", "Entries written", store.writes),
        (
            "kvorum_store_written_bytes",
            "Bytes of keys and values written",
            store.written_bytes,
        ),
        ("kvorum_store_commits", "Group commits", store.commits),
        (
            "kvorum_store_log_syncs",
            "Syncs of the log",
            store.log_syncs,
        ),
        (
            "kvorum_store_log_written_bytes",
            "Bytes written to the log",
            store.log_written_bytes,
        ),
        ("kvorum_store_flushes", "Memtables flushed", store.flushes),
        (
            "kvorum_store_flush_written_bytes",
            "Bytes written by flushes",
            store.flush_written_bytes,
        ),
        (
            "kvorum_store_compactions",
            "Compactions finished",
            store.compactions,
        ),
        (
            "kvorum_store_moved_tables",
            "Tables that moved down a level without being rewritten",
            store.moved_tables,
        ),
        (
            "kvorum_store_compaction_read_bytes",
            "Bytes read by compactions",
            store.compaction_read_bytes,
        ),
        (
            "kvorum_store_compaction_written_bytes",
            "Bytes written by compactions",
            store.compaction_written_bytes,
        ),
        (
            "kvorum_store_cache_hits",
            "Block cache lookups that found the block",
            store.cache_hits,
        ),
        (
            "kvorum_store_cache_misses",
            "Block cache lookups that read the disk",
            store.cache_misses,
        ),
        (
            "kvorum_store_filter_negatives",
            "Filter checks that ruled a table out",
            store.filter_negatives,
        ),
        (
            "kvorum_store_filter_true_positives",
            "Filter checks that admitted a present key",
            store.filter_true_positives,
        ),
        (
            "kvorum_store_filter_false_positives",
            "Filter checks that admitted an absent key",
            store.filter_false_positives,
        ),
        (
            "kvorum_store_data_blocks_fetched",
            "Data blocks fetched by reads and scans",
            store.data_blocks_fetched,
        ),
        (
            "kvorum_store_non_owned_dropped",
            "Non-owned copies that compaction dropped",
            store.non_owned_dropped,
        ),
        (
            "kvorum_store_slowdowns",
            "Group commits that were slowed",
            store.slowdowns,
        ),
        (
            "kvorum_store_stalls",
            "Group commits that waited for a flush or a compaction",
            store.stalls,
        ),
        (
            "kvorum_store_refused_overloaded",
            "Writes refused because too many waited",
            store.refused_overloaded,
        ),
        (
            "kvorum_store_refused_disk_full",
            "Writes refused because the disk was full",
            store.refused_disk_full,
        ),
    ]
    .into_iter()
    .map(|(name, help, number)| Family::counter(name, help, number))
    .collect()
}

fn gauges(store: &Statistics, node: &Node) -> Vec<Family> {
    let memory = &node.resources.memory;
    let frozen_max = MemoryParts::MEMTABLES_FROZEN_MAX;
    [
        (
            "kvorum_store_write_queue_bytes",
            "Memory of the writes that wait for their commit",
            store.write_queue_bytes as f64,
        ),
        (
            "kvorum_store_write_queue_max_bytes",
            "Memory that waiting writes may take",
            memory.write_queue_bytes as f64,
        ),
        (
            "kvorum_store_level_zero_tables_max",
            "Tables on level 0 at which writers wait",
            store.level_zero_tables_max as f64,
        ),
        (
            "kvorum_store_memtable_bytes",
            "Memory of the memtables",
            store.memtable_bytes as f64,
        ),
        (
            "kvorum_store_memtable_max_bytes",
            "Memory of the memtables at which writers wait",
            memory.memtables_bytes() as f64,
        ),
        (
            "kvorum_store_memtables_frozen",
            "Memtables that wait for their flush",
            store.memtables_frozen as f64,
        ),
        (
            "kvorum_store_memtables_frozen_max",
            "Memtables that may wait for their flush",
            frozen_max as f64,
        ),
        (
            "kvorum_store_log_bytes",
            "Size of the live log segments",
            store.log_bytes as f64,
        ),
        (
            "kvorum_store_cache_bytes",
            "Memory of the block cache",
            store.cache_bytes as f64,
        ),
        (
            "kvorum_store_cache_max_bytes",
            "Memory that the block cache may take",
            memory.cache_bytes as f64,
        ),
        (
            "kvorum_store_snapshots",
            "Snapshots that scans hold open",
            store.snapshots as f64,
        ),
        (
            "kvorum_store_flushed_versions",
            "Versions whose newer-version checks are remembered after their flush",
            store.flushed_versions as f64,
        ),
        (
            "kvorum_store_memtable_entries",
            "Versions in the memtables",
            store.memtable_entries as f64,
        ),
        (
            "kvorum_store_table_entries",
            "Versions in all tables",
            store.table_entries as f64,
        ),
        (
            "kvorum_store_table_tombstones",
            "Tombstones in all tables",
            store.table_tombstones as f64,
        ),
        (
            "kvorum_store_table_non_owned",
            "Non-owned values in all tables",
            store.table_non_owned as f64,
        ),
        (
            "kvorum_store_tables_damaged",
            "Tables with a damaged block, which compaction leaves out",
            store.tables_damaged as f64,
        ),
        (
            "kvorum_store_damaged_ranges",
            "Key ranges that damaged blocks may have held, until they are repaired",
            store.damaged_ranges as f64,
        ),
        (
            "kvorum_store_set_aside_bytes",
            "Bytes of the tables with copies that were set aside for an operator",
            store.set_aside.bytes as f64,
        ),
        (
            "kvorum_store_compactions_running",
            "Compactions that run now",
            store.compactions_running as f64,
        ),
        (
            "kvorum_store_unfinished_bytes",
            "Bytes that compactions under way have written",
            store.overhead.unfinished as f64,
        ),
        (
            "kvorum_store_held_bytes",
            "Bytes of replaced tables that scans or backups still read",
            store.overhead.held as f64,
        ),
        (
            "kvorum_store_removed_bytes",
            "Bytes of removed tables whose space is not freed yet",
            store.overhead.removed as f64,
        ),
        (
            "kvorum_store_blob_bytes",
            "Bytes of blob tables, in which long values lie",
            store.blob_bytes as f64,
        ),
        (
            "kvorum_store_blob_garbage_bytes",
            "Bytes of keys and values in blob tables that are not live any more",
            store.blob_garbage_bytes as f64,
        ),
        (
            "kvorum_store_write_amplification",
            "Bytes written to disk for each byte of keys and values",
            store.write_amplification(),
        ),
        (
            "kvorum_store_space_amplification",
            "Bytes of tables for each byte of live data, as measured by compactions",
            store.space_amplification(),
        ),
        (
            "kvorum_store_disk_full",
            "Whether puts are refused because the disk is full",
            f64::from(u8::from(store.disk_full)),
        ),
        (
            "kvorum_store_failing",
            "Whether the store fails to write files in its folder",
            f64::from(u8::from(store.failing.is_some())),
        ),
        (
            "kvorum_store_poisoned",
            "Whether the store is read-only until it is restarted",
            f64::from(u8::from(store.poisoned.is_some())),
        ),
    ]
    .into_iter()
    .map(|(name, help, number)| Family::gauge(name, help, number))
    .collect()
}

fn sync_times(store: &Statistics) -> Family {
    let buckets = store.sync_times.buckets.iter().map(|(bound, count)| {
        let bound = match *bound {
            Duration::MAX => f64::INFINITY,
            bound => bound.as_secs_f64(),
        };
        (bound, *count)
    });
    let times = Distribution {
        sum_seconds: store.sync_times.sum.as_secs_f64(),
        buckets: buckets.collect(),
    };
    Family::histograms(
        "kvorum_store_log_sync_duration_seconds",
        "How long syncs of the log take",
        [(Labels::new(), times)],
    )
}

fn levels(store: &Statistics) -> [Family; 2] {
    let by_level = |of: fn(&lsm::LevelStatistics) -> u64| {
        let levels = store.levels.iter().enumerate();
        let series = levels.map(move |(number, level)| {
            let labels: Labels = vec![("level", number.to_string())];
            (labels, of(level) as f64)
        });
        series.collect::<Vec<_>>()
    };
    [
        Family::gauges(
            "kvorum_store_level_tables",
            "Tables by level",
            by_level(|level| level.tables),
        ),
        Family::gauges(
            "kvorum_store_level_bytes",
            "Size of the tables by level",
            by_level(|level| level.bytes),
        ),
    ]
}

/// The metrics about the disk of the data folder, as far as the system reports them.
fn disk(node: &Node, free_bytes: Option<u64>) -> Vec<Family> {
    let free = free_bytes.map(|bytes| {
        Family::gauge(
            "kvorum_disk_free_bytes",
            "Free space for the node on the disk of the data folder",
            bytes as f64,
        )
    });
    free.into_iter()
        .chain([Family::gauge(
            "kvorum_disk_reserve_bytes",
            "Space that the node keeps free, so that deletes still work when the disk is full",
            node.config.disk_reserve_bytes as f64,
        )])
        .collect()
}
