//! One node's part in the cluster: what a process needs to answer for a store.
//! It knows no HTTP, no sockets, no threads and no admission. Its owner provides the
//! transport, the executor, the runtimes, and the threads of the read pool.
//!
//! - [`Node`] (`node`) is opened and closed; [`NodeConfig`] (`config`) says what
//!   can be configured, [`Resources`] what the node may use.
//! - [`Worker`] (`worker`) answers on one runtime: its coordinator, its links to the
//!   other nodes (`peers`), its way to this node's own store, and their upkeep.
//!   `dialled_peers` tells all workers which peers have come up.
//! - `coordinator` asks the replicas of a key (`replicas`) and counts answers; a request
//!   waits for them in `pending`. `timestamps` allocates the timestamps that order writes.
//! - `completion_queue` brings answers of other threads back to the pending request:
//!   those of group commits, and of `read_pool`, where reads may block.
//! - `handshakes` says in handshakes with peers which node of which cluster this is.
//! - `traced_requests` times what peers ask for that is part of a trace.
//! - `forgetting` remembers below which bound the dead may be dropped.
//! - `hints` keeps writes that peers missed, and delivers them.
//! - `background` gives hints, sweeps and compaction what clients leave.
//! - `node_report` says how this node and the others are, for those who look at the cluster;
//!   `reporting` tells it the others.
//! - `compactions` compacts the whole store when an operator asks for it.
//! - [`metrics`] counts, [`families`] returns the counts, and `wait_sites` names for
//!   profiles where requests wait.

mod compactions;
mod config;
mod coordinator;
mod dialled_peers;
mod families;
mod forgetting;
mod future_versions;
#[doc(hidden)]
pub mod fuzzing;
mod handshakes;
pub mod metrics;
mod node;
mod node_report;
mod range_memory;
#[cfg(test)]
mod replica_tests;
mod reporting;
mod seams;
#[doc(hidden)]
pub mod simulation;
mod surplus;
mod sweep;
#[cfg(test)]
mod testing;
mod traced_requests;
mod worker;

pub use compactions::{CompactionEnd, OrderedCompaction, RunningCompaction, TableContents};
pub use config::{
    BATCH_BYTES_MAX, ConfigError, MemoryParts, NodeConfig, Resources, Secret, Secrets, SweepSizes,
    bounds,
};
pub use coordinator::{
    Batch, BatchFailure, BatchMemory, Change, ClusterRange, ClusterRangePlan, Coordinator, Ended,
    Expires, Failure, Found, Held, KeyVersions, Operations, OwnRange, Range, RangeBatch,
    RangeWindow, Receipt, ReplicaLine, ReplicaTimes, Terms, VersionHead, Written,
};
pub use families::families;
pub use forgetting::{ForgettingStatus, HeldBack};
pub use membership::LossReport;
pub use node::{Load, Node};
pub use node_report::{ClientActivity, ExaminedNode, NodeSnapshot, SeeActivity, SeeStatus};
pub use replica::background::{ClientsSeen, LatencyCounts, SeeClients};
pub use replica::hints::HintsWaiting;
pub use replica::timestamps::{NoTimestamp, TimestampStatus};
pub use replica::{RangeDigest, before_abort, or_abort};
pub use seams::{OpenError, Seams};
pub use surplus::SurplusStatus;
pub use sweep::{
    EndedPasses, LastClean, OrderedSweep, PassReport, RefillProgress, RunningPass, SweepCounts,
    SweepStatus,
};
pub use traced_requests::{SeeTraced, TracedRequest};
pub use worker::Worker;
