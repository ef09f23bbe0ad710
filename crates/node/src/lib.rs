//! One node's part in the cluster: what a process needs to answer for a store.
//! It knows no HTTP, no sockets, no threads and no admission. Its owner provides the
//! transport, the executor, the runtimes, and the threads of the read pool.
//!
//! - [`Node`] (`node`) is opened and closed; [`NodeConfig`] (`config`) says what
//!   can be configured, [`Resources`] what the node may use.
//! - [`Worker`] (`worker`) answers on one runtime: its coordinator, its links to the other
//!   nodes, its way to this node's own store, and their upkeep.
//! - `coordinator` asks the replicas of a key, and counts answers; `scans` reads keys in order.
//! - `peer_requests` serves what peers ask for.
//! - `handshakes` fills and evaluates the hellos of handshakes with peers, and tells all workers
//!   which peers have come up.
//! - `node_report` reports how this node and the others are doing, for operators.
//! - `compactions` compacts the whole store when an operator orders it.
//! - [`metrics`] counts, `metrics_page` returns the counts as [families of metrics](metric_families).

mod compactions;
mod config;
mod coordinator;
#[doc(hidden)]
pub mod fuzzing;
mod handshakes;
pub mod metrics;
mod metrics_page;
mod node;
mod node_report;
mod peer_requests;
mod scans;
#[doc(hidden)]
pub mod simulation;
#[cfg(test)]
mod tests;
mod worker;

pub use compactions::{CompactionEnd, OrderedCompaction, RunningCompaction, TableContents};
pub use config::{
    BATCH_BYTES_MAX, ConfigError, MemoryParts, NodeConfig, Resources, Secret, Secrets, bounds,
};
pub use coordinator::{
    Change, Coordinator, Ended, Expires, Failure, Found, HeldByNode, KeyVersions, Operations,
    Receipt, ReplicaLine, ReplicaTimes, Terms, VersionHead, Written,
};
pub use membership::LossReport;
pub use metrics_page::metric_families;
pub use node::{Format, Load, Node, OpenError, Seams, SeeTraced, TracedRequest, formats};
pub use node_report::{ClientActivity, ExaminedNode, NodeSnapshot, SeeActivity, SeeStatus};
pub use repair::session::{
    EndedSessions, LastEqual, OrderedRepair, RebuildProgress, RepairCounts, RepairStatus,
    RunningSession, SessionReport,
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
