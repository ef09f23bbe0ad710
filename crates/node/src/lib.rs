//! One node's part in the cluster: what a process needs to answer for a store.
//! It knows no HTTP, no sockets, no threads and no admission. Its owner provides the
//! transport, the executor, the runtimes, and the threads of the read pool.
//!
//! - [`Node`] (`node`) is opened and closed; [`NodeConfig`] (`config`) says what
//!   can be configured, [`Resources`] what the node may use.
//! - [`Worker`] (`worker`) answers on one runtime: its coordinator, its links to the other
//!   nodes, its way to this node's own store, and their upkeep. It serves what peers ask for.
//! - `coordinator` asks the replicas of a key, and counts answers; `scans` reads keys in order.
//! - [`MemberChanges`] (`changes`) changes the list of members while the cluster serves.
//! - `handshakes` fills and evaluates the hellos of handshakes with peers, and tells all workers
//!   which peers have come up.
//! - `node_report` reports how this node and the others are doing, for operators.
//! - `orders` is what operators order: backups, and compactions of the whole store.
//! - [`metrics`] counts, `metrics_page` returns the counts as [families of metrics](metric_families).

mod admin_jobs;
mod config;
mod coordinator;
#[doc(hidden)]
pub mod fuzzing;
mod handshakes;
mod member_changes;
pub mod metrics;
mod metrics_page;
mod node;
mod node_report;
mod scans;
#[doc(hidden)]
pub mod simulation;
#[cfg(test)]
mod tests;
mod worker;

pub use admin_jobs::backups::{BackupUsage, EndedBackup, NewestBackup, RunningBackup};
pub use admin_jobs::compactions::{
    CompactionEnd, OrderedCompaction, RunningCompaction, TableContents,
};
pub use backup::{
    BackupContents, BackupError, BackupId, Listed, Listing, NodeSummary, Pruned, TargetPlace,
    Unreadable, Verified,
};
pub use config::{
    BATCH_BYTES_MAX, ConfigError, MemoryParts, NodeConfig, Resources, Secret, Secrets, bounds,
};
pub use coordinator::{
    AskedReplica, Change, ConditionalChange, ConditionalReply, Coordinator, Ended, Expires,
    Failure, Found, HeldByNode, KeyVersions, Operations, Receipt, ReplicaLine, ReplicaTimes, Terms,
    VersionHead, Written,
};
pub use member_changes::{
    ChangeOrder, ChangeRefusal, ChangesStatus, MemberChanges, Plan, WaitingNode,
};
pub use membership::LossReport;
pub use metrics_page::metric_families;
pub use node::{Format, Load, Node, OpenError, Seams, SeeTraced, TracedRequest, formats};
pub use node::{check_data_folder, stored_members};
pub use node_report::{ClientActivity, ExaminedNode, NodeSnapshot, SeeActivity, SeeStatus};
pub use repair::session::{
    EndedSessions, LastEqual, OrderedRepair, RebuildProgress, RepairCounts, RepairStatus,
    RunningSession, SessionProgress, SessionReport,
};
pub use repair::store::{GcStatus, HeldBack};
pub use repair::{NonOwnedStatus, RepairSizes};
pub use replica::background::{ClientsSeen, LatencyCounts, SeeClients};
pub use replica::hints::HintsWaiting;
pub use replica::timestamps::{NoTimestamp, TimestampStatus};
pub use replica::{RangeDigest, before_abort, or_abort};
pub use scans::{
    Batch, BatchFailure, BatchMemory, ClusterScan, ClusterScanPlan, KeyScan, NodeScan, ScanBatch,
    ScanWindow,
};
pub use worker::Worker;
