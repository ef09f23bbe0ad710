//! The configuration of a node, and the resources that it works with.
//!
//! [`NodeConfig`] is plain data; [`NodeConfig::validate`] (`validation`, `bounds`) says
//! what is wrong with it. [`Resources`] (`resources`) is the node's share of the
//! process: memory and runtimes.

pub mod bounds;
mod resources;
mod secret;
mod validation;

pub use resources::{MemoryParts, Resources};
pub use secret::{Secret, Secrets};

use backup::TargetPlace;
use cluster::{Members, NodeUrl, Replicas};
use lsm::{Compression, Durability};
use peer::Protocol;
use repair::RepairSizes;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How many bytes of keys and values a scan reads from the store at a time, unless it is long
/// and memory is free.
pub const BATCH_BYTES_MAX: usize = 64 << 10;

/// The configuration of a node. All sizes are in bytes.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// All nodes of the cluster, including this one. A node alone may have port 0, for
    /// any free port, which tests use.
    pub members: Members,
    /// Whether `members` is a list of a cluster even if it has this node alone: then others may join
    /// it. Default: no.
    pub is_listed: bool,
    /// A member of the cluster that this node joins, which is told of no other node in `members`. Its
    /// folder is empty, or knows the list of members already. Default: none.
    pub join: Option<NodeUrl>,
    /// What the node fails together with, for example a rack: its replicas of a key are in different
    /// zones, as far as there are so many. Only a node that joins a cluster, or the only one of a
    /// cluster, can have one. Default: none, so that it fails alone.
    pub zone: Option<String>,
    /// The folder that holds the store and nothing else.
    pub data: PathBuf,
    /// Whether to refuse a folder without a store, which may be one whose disk is not mounted.
    /// Default: no.
    pub expect_data: bool,
    /// When a write counts as stored. Default: [`Durability::Sync`].
    pub durability: Durability,
    /// Reads that may wait for a thread of the read pool; more are refused. Default: 1024.
    pub read_queue: usize,
    /// The longest value that clients may send. Longer ones come from other nodes, and from the
    /// store, if these have them. Default: 16 MiB.
    pub value_bytes_max: usize,
    /// How long the replicas have to answer before a request ends in `504`. Default: 1 s.
    pub timeout: Duration,
    /// The share of absent keys for which the filter of a table wrongly says that the
    /// table may have them; `None` for no filters. Default: 0.01.
    pub filter_false_positive_rate: Option<f64>,
    /// Whether tables of the last level have filters, too. Default: yes.
    pub last_level_filters: bool,
    /// How data blocks are compressed. Default: LZ4.
    pub compression: Compression,
    /// From how many bytes on a value is kept apart from its key, in a blob table; at least 1. `None` for
    /// no such values. Default: none.
    pub blob_value_bytes_min: Option<usize>,
    /// Whether tables are compacted in the background. Default: yes.
    pub compaction: bool,
    /// How many compactions may run at a time. Default: 1.
    pub compactions_max: usize,
    /// How fast compaction may write, in bytes a second. Default: 64 MiB.
    pub compaction_bytes_per_second: u64,
    /// Space kept free for deletes and compaction when the disk is full. Default: 64 MiB.
    pub disk_reserve_bytes: u64,
    /// How many files of tables are open at the same time.
    pub tables_open_max: usize,
    /// The secrets by which the nodes of the cluster recognise each other. It may be `None`
    /// only if all nodes are on this machine, or this node is alone.
    pub cluster_secret: Option<Secrets>,
    /// Whether the reads and acks of this store count although it is not the store that
    /// the peers knew, or an older state of it, so that acknowledged writes may be
    /// missing in it. Default: no.
    pub accept_data_loss: bool,
    /// Whether this start permanently drops versions and hints that are given a timestamp further
    /// ahead of the clock than twice [`NodeConfig::clock_drift_max`]. Default: no.
    pub drop_future_versions: bool,
    /// How far the clock may be from the clocks of most peers. Beyond that the node timestamps
    /// no writes. Default: 1 h.
    pub clock_drift_max: Duration,
    /// How many bytes the hints for all peers may take on the disk. The oldest are
    /// dropped first. Default: 1 GiB.
    pub hint_bytes_max: u64,
    /// How long a hint is kept. Default: 3 h.
    pub hint_age_max: Duration,
    /// How often the nodes compare what has changed since they were last found
    /// equal. `None`: never. Default: 10 min.
    pub repair_interval: Option<Duration>,
    /// How often the nodes compare everything. `None`: never. Default: 7 days.
    pub full_repair_interval: Option<Duration>,
    /// How long the dead are kept at least: a tombstone is dropped only once a full repair,
    /// behind closed timestamps that are so far in the past, has found all nodes equal. Default: 10 days.
    pub gc_grace: Duration,
    /// The places where backups may lie, by the names that requests give. All nodes of the cluster
    /// share them. Default: none.
    pub backup_targets: BTreeMap<String, TargetPlace>,
    /// How many bytes of keys and values a page of a scan of the cluster has at most. Tests
    /// with little data set less. Default: 256 KiB.
    #[doc(hidden)]
    pub page_bytes_max: u32,
    /// How long the snapshot of a scan may live, because it keeps the disk space of what it
    /// sees. Tests set less. Default: 10 min.
    #[doc(hidden)]
    pub snapshot_age_max: Duration,
    /// How many replicas a request has that does not say so, and how many must answer: the pair of
    /// the first list of members. Default: a quorum of all nodes.
    pub default_pair: Option<Replicas>,
    /// How much repair does at a time. Tests with little data set less.
    #[doc(hidden)]
    pub repair_sizes: RepairSizes,
    /// The protocol that the node speaks with its peers. Tests of two releases side by
    /// side set that of another release. Default: [`Protocol::OWN`].
    #[doc(hidden)]
    pub protocol: Protocol,
}

/// Why a configuration is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ConfigError {
    /// The field.
    pub field: &'static str,
    /// What is wrong with it and what to do.
    pub problem: String,
}

impl ConfigError {
    /// What is wrong with a field and what to do.
    pub fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self {
            field,
            problem: problem.into(),
        }
    }
}

impl NodeConfig {
    /// A configuration with all defaults for a node of `members`, with its store in
    /// `data`. A [`NodeUrl`] stands for a node alone.
    #[must_use]
    pub fn new(members: impl Into<Members>, data: impl Into<PathBuf>) -> Self {
        Self {
            members: members.into(),
            is_listed: false,
            join: None,
            zone: None,
            data: data.into(),
            expect_data: false,
            durability: Durability::Sync,
            read_queue: 1024,
            value_bytes_max: 16 << 20,
            timeout: Duration::from_secs(1),
            filter_false_positive_rate: Some(0.01),
            last_level_filters: true,
            compression: Compression::Lz4,
            blob_value_bytes_min: None,
            compaction: true,
            compactions_max: 1,
            compaction_bytes_per_second: 64 << 20,
            disk_reserve_bytes: 64 << 20,
            tables_open_max: lsm::Options::default().open_files_max,
            cluster_secret: None,
            accept_data_loss: false,
            drop_future_versions: false,
            clock_drift_max: Duration::from_secs(3600),
            hint_bytes_max: 1 << 30,
            hint_age_max: Duration::from_secs(3 * 3600),
            repair_interval: Some(Duration::from_secs(600)),
            full_repair_interval: Some(Duration::from_secs(7 * 24 * 3600)),
            gc_grace: Duration::from_secs(10 * 24 * 3600),
            backup_targets: BTreeMap::new(),
            page_bytes_max: 256 << 10,
            snapshot_age_max: Duration::from_secs(600),
            default_pair: None,
            repair_sizes: RepairSizes::default(),
            protocol: Protocol::OWN,
        }
    }

    /// The pair of the first list of members.
    pub(crate) fn default_pair(&self) -> Replicas {
        let quorum = || Replicas::quorum(self.members.count());
        self.default_pair.unwrap_or_else(quorum)
    }

    /// Whether this node has no other nodes, and never will.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.members.is_single_node() && !self.is_cluster_of_one() && self.join.is_none()
    }

    /// Whether this node is the only one of a cluster, which others may join.
    pub(crate) fn is_cluster_of_one(&self) -> bool {
        self.members.is_single_node() && self.is_listed
    }

    /// The node's own URL.
    #[must_use]
    pub fn url(&self) -> &NodeUrl {
        self.members.own_url()
    }

    /// The node's name, which determines the keys that it replicates.
    #[must_use]
    pub fn name(&self) -> &str {
        self.members.own_name()
    }

    /// How far in the past each closed timestamp and GC threshold is that another member names
    /// truthfully, however far clocks may differ: at least [`NodeConfig::hint_age_max`], as
    /// [`NodeConfig::validate`] wants.
    #[must_use]
    pub fn named_bound_age(&self) -> Duration {
        let clocks = self.clock_drift_max.saturating_mul(2);
        // A grace of tests may be shorter than is valid.
        self.hint_age_max.min(self.gc_grace.saturating_sub(clocks))
    }

    /// How many bytes a batch of a scan may take while it is read. A value may be read
    /// on top of a batch that is nearly full, and is then left for the next batch.
    #[must_use]
    pub fn scan_batch_bytes(&self) -> usize {
        self.value_bytes_max.saturating_add(2 * BATCH_BYTES_MAX)
    }

    /// The options of the store with these parts of the memory.
    #[must_use]
    pub fn store_options(&self, memory: &MemoryParts) -> lsm::Options {
        let store = lsm::Options::default();
        lsm::Options {
            durability: self.durability,
            memtable_bytes: memory.memtable_bytes,
            memtables_frozen_max: MemoryParts::MEMTABLES_FROZEN_MAX,
            write_queue_bytes_max: memory.write_queue_bytes,
            cache_bytes: memory.cache_bytes,
            compression: self.compression,
            filter_false_positive_rate: self.filter_false_positive_rate,
            last_level_filters: self.last_level_filters,
            blob_value_bytes_min: self.blob_value_bytes_min,
            compaction: self.compaction,
            compactions_max: self.compactions_max,
            compaction_bytes_per_second: self.compaction_bytes_per_second,
            disk_reserve_bytes: self.disk_reserve_bytes,
            open_files_max: self.tables_open_max,
            // A write may arrive again as long as its request runs, and the request
            // may have started late. All nodes of a cluster have the same timeout.
            newer_version_checks_kept: self.timeout.saturating_mul(2),
            // The GC threshold rises by about one interval with each full repair. What it has
            // passed goes with the next one at the latest, however unevenly they come.
            purge_wait: self
                .full_repair_interval
                .map_or(store.purge_wait, |it| it / 2),
            ..store
        }
    }
}

#[cfg(test)]
mod tests;
