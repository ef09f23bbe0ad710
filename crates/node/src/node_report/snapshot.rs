//! What a node is like at one moment: status, metrics and node report all say what is here.

use crate::admin_jobs::compactions::RunningCompaction;
use cluster::{NodeTable, ReplicaState};
use membership::LossReport;
use repair::NonOwnedStatus;
use repair::session::RepairStatus;
use repair::store::GcStatus;
use replica::hints::HintsWaiting;
use replica::timestamps::TimestampStatus;
use std::time::Duration;

/// A node at one moment.
pub struct NodeSnapshot {
    /// How long ago the node was started.
    pub uptime: Duration,
    /// The node's clock, in milliseconds since the Unix epoch.
    pub unix_ms: u64,
    /// The store's random number, drawn when the store was created.
    pub store_id: u64,
    /// When the store was created, in milliseconds since the Unix epoch; `None` if an earlier
    /// release created it.
    pub store_created_unix_ms: Option<u64>,
    /// What the store holds and has done.
    pub store: lsm::Statistics,
    /// The compaction that was ordered and is under way.
    pub compaction: Option<RunningCompaction>,
    /// How the store stands with the node's peers.
    pub replica_state: ReplicaState,
    /// Why the last full repair has not rebuilt the store, if one has ended and the store is still
    /// a learner.
    pub learner_because: Option<String>,
    /// What may be lost, if stores were learners since the node was started.
    pub loss: Option<LossReport>,
    /// Whether the node may allocate timestamps, and why not.
    pub timestamps: TimestampStatus,
    /// The hints that wait, for each node.
    pub hints: NodeTable<HintsWaiting>,
    /// The share of its time that each kind of background work may use.
    pub background_share: f64,
    /// What the node knows of repairs.
    pub repair: RepairStatus,
    /// Below which bound the node drops what is dead.
    pub tombstone_gc: GcStatus,
    /// The non-owned copies of the store; `None` for a node alone, which has none.
    pub non_owned: Option<NonOwnedStatus>,
}

impl NodeSnapshot {
    /// What the tables and the log of the store take, in bytes.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.table_bytes().saturating_add(self.store.log_bytes)
    }

    /// What the tables of the store take, in bytes.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        self.store.table_bytes()
    }
}
