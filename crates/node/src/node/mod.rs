//! The node: everything that its runtimes share, from the opening of the store (`opening`) to its
//! closing.
//!
//! `data_folder` says which folders it opens, and `seams` are its seams to the outside world.
//! `set_aside` reads what the store has set aside. `future_versions` finds versions from the future,
//! which an operator may have dropped. `traced_requests` times what is part of a trace.

mod damage;
mod data_folder;
mod formats;
mod future_versions;
mod opening;
mod seams;
mod set_aside;
mod traced_requests;

pub use data_folder::check_data_folder;
pub use formats::{Format, formats};
pub use opening::stored_members;
pub use seams::{OpenError, Seams};
pub use traced_requests::{SeeTraced, TracedRequest};

use crate::admin_jobs::backups::{BackupUsage, Backups, EndedBackup, NewestBackup, RunningBackup};
use crate::admin_jobs::compactions::{CompactionEnd, Compactions, OrderedCompaction};
use crate::config::{NodeConfig, Resources};
use crate::handshakes::DialledPeers;
use crate::member_changes::MemberChanges;
use crate::metrics::Metrics;
use crate::node_report::{Examiner, NodeSnapshot, OwnReport, SeeActivity, SeeStatus};
use backup::{BackupError, BackupId, Listed, Listing, Pruned, Verified};
use base::{Clock, LimitedLog, Quota, Random};
use cluster::comparison::RepairKind;
use cluster::{Layout, NodeId, ReplicaState};
use lsm::{Engine, Executor, GcThreshold};
use membership::{LayoutChanges, Layouts, Membership};
use peer::PeerLog;
use repair::NonOwnedStatus;
use repair::session::{OrderedRepair, RepairSessions, RepairStatus};
use repair::store::{GcStatus, StoreSide};
use replica::ReadPool;
use replica::background::{Background, SeeClients};
use replica::hints::{HintStore, HintsWaiting};
use replica::timestamps::{TimestampAllocator, TimestampStatus};
use set_aside::SetAside;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use traced_requests::TracedRequests;

/// A node: its store and the files beside it, its replica state, its clock, its hints, and its
/// quotas of memory. All runtimes share it; each has a [`Worker`](crate::Worker).
pub struct Node {
    /// The node's configuration.
    pub(crate) config: NodeConfig,
    /// What the node may use.
    pub(crate) resources: Resources,
    /// The nodes of the cluster, and which of them keep a key.
    pub(crate) layouts: Layouts,
    /// This node's part in changes of them.
    pub(crate) changes: MemberChanges,
    /// Runs jobs.
    pub(crate) executor: Arc<dyn Executor>,
    /// The store.
    pub(crate) engine: Engine,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// Random numbers.
    pub(crate) random: Arc<dyn Random>,
    /// When the node started, on the monotonic clock.
    pub(crate) started: Duration,
    /// Timestamps writes.
    pub(crate) timestamps: Arc<TimestampAllocator>,
    /// Which node this is, and whether its store counts.
    pub(crate) membership: Membership,
    /// The store's side of repair sessions.
    pub(crate) store_side: Arc<StoreSide>,
    /// The number of the cluster that the store was restored for; 0 if it was not restored.
    pub(crate) restored_cluster: u64,
    /// Below which bound non-owned copies are dropped; none for a node alone, which has none.
    non_owned_bound: Option<GcThreshold>,
    /// The budget of hints, repair and compaction.
    pub(crate) background: Arc<Background>,
    /// This node's part in repair.
    pub(crate) repair: Arc<RepairSessions>,
    /// The compactions that operators ask for.
    pub(crate) compactions: Compactions,
    /// This node's part in backups.
    pub(crate) backups: Arc<Backups>,
    /// Reads and discards what was set aside.
    set_aside: SetAside,
    /// Times requests of peers that are part of a trace.
    pub(crate) traced: Arc<TracedRequests>,
    /// Says how this node is.
    pub(crate) report: OwnReport,
    /// Asks the other nodes how they are.
    pub(crate) examiner: Examiner,
    /// Tells all runtimes which peers have dialled this node.
    pub(crate) dialled: Arc<DialledPeers>,
    /// Limits the log lines about each peer.
    pub(crate) peer_log: Arc<PeerLog>,
    /// Limits the log lines that requests cause.
    pub(crate) log: Arc<LimitedLog>,
    /// Writes that peers missed.
    pub(crate) hints: HintStore,
    /// Reads that may block.
    pub(crate) read_pool: Arc<ReadPool>,
    /// Long values on their way in from peers.
    pub(crate) peer_bytes: Arc<Quota>,
    /// Long values on their way out.
    pub(crate) answers: Arc<Quota>,
    /// Batches of scans on their way out.
    pub(crate) scans: Arc<Quota>,
    /// The pages of scans of the whole cluster that wait for clients.
    pub(crate) windows: Arc<Quota>,
    /// The pages that are told to peers.
    pub(crate) peer_pages: Arc<Quota>,
    /// The turns of their reads.
    pub(crate) peer_page_turns: Arc<Quota>,
    /// What is counted.
    pub(crate) metrics: Metrics,
}

/// What a node is working on; its configuration bounds each number.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Reads that wait for a thread.
    pub reads_queued: usize,
    /// Bytes of the requests of other nodes that are being served.
    pub peer_request_bytes: usize,
    /// Bytes of long values on their way out.
    pub answer_bytes: usize,
    /// Bytes of the batches of scans on their way out.
    pub scan_bytes: usize,
}

impl Node {
    /// Limits the log lines that requests cause.
    #[must_use]
    pub fn log(&self) -> &Arc<LimitedLog> {
        &self.log
    }

    /// The nodes of the cluster, and which of them keep a key.
    #[must_use]
    pub fn layout(&self) -> Arc<Layout> {
        self.layouts.load()
    }

    /// Follows the layout from now on.
    #[must_use]
    pub fn layout_changes(&self) -> LayoutChanges {
        self.layouts.changes()
    }

    /// This node's part in changes of the list of members.
    #[must_use]
    pub fn member_changes(&self) -> &MemberChanges {
        &self.changes
    }

    /// Why this node waits to join a cluster, and what to do; `None` if it is a member, or alone. While
    /// it waits, its store must take no writes of clients.
    #[must_use]
    pub fn waits_to_join(&self) -> Option<String> {
        let why = self.changes.waits_because()?;
        Some(format!("this node waits to join a cluster: {why}"))
    }

    /// Puts a layout in force. All that is kept for each node knows those that have joined before
    /// the first request can concern them, and forgets those that have left. The runtimes
    /// follow: see [`Worker`](crate::Worker). Blocks.
    pub fn put_in_force(&self, layout: Layout) {
        let layout = Arc::new(layout);
        let members = layout.members();
        self.timestamps.follow(members);
        self.hints.follow(members);
        self.membership.follow(&layout);
        self.layouts.put_in_force(layout);
        self.store_side.follow_layout();
    }

    /// What the node is like now.
    #[must_use]
    pub fn snapshot(&self) -> NodeSnapshot {
        let store = self.engine.statistics();
        let non_owned = self.non_owned_bound.as_ref().map(|below| NonOwnedStatus {
            copies: store.table_non_owned,
            below: below(),
        });
        let layout = self.layout();
        let nodes = layout.members().ids();
        NodeSnapshot {
            uptime: self.clock.monotonic().saturating_sub(self.started),
            unix_ms: self.clock.unix_ms(),
            store_id: self.engine.store_id(),
            store_created_unix_ms: self.membership.created_unix_ms(),
            store,
            compaction: self.compactions.running(),
            replica_state: self.replica_state(),
            learner_because: self.membership.learner_because(),
            loss: self.membership.loss_report(),
            timestamps: self.timestamp_status(),
            hints: nodes.map(|node| (node, self.hints_waiting(node))).collect(),
            background_share: self.background.status().share,
            repair: self.repair_status(),
            tombstone_gc: self.gc_status(),
            non_owned,
        }
    }

    /// What the store holds and has done.
    #[must_use]
    pub fn statistics(&self) -> lsm::Statistics {
        self.engine.statistics()
    }

    /// How the store stands with the node's peers.
    #[must_use]
    pub fn replica_state(&self) -> ReplicaState {
        self.membership.replica_state()
    }

    /// Whether the node may allocate timestamps, and why not.
    #[must_use]
    pub fn timestamp_status(&self) -> TimestampStatus {
        self.timestamps.status()
    }

    /// The hints that wait for a node.
    #[must_use]
    pub fn hints_waiting(&self, node: NodeId) -> HintsWaiting {
        self.hints.waiting(node)
    }

    /// What the node knows of repair.
    #[must_use]
    pub fn repair_status(&self) -> RepairStatus {
        self.repair.status()
    }

    /// What the node knows of tombstone GC.
    #[must_use]
    pub fn gc_status(&self) -> GcStatus {
        self.store_side.status()
    }

    /// Has the node coordinate a repair session as soon as none of its own is running, or
    /// joins the running one. `None` for a node alone, which has nothing to compare with.
    #[must_use]
    pub fn order_repair(&self, kind: RepairKind) -> Option<OrderedRepair> {
        self.repair.order(kind)
    }

    /// Has the whole store compacted in the background, or joins the compaction that
    /// another order has begun. It works even where compaction is off.
    ///
    /// # Errors
    /// [`lsm::Error::Poisoned`], [`lsm::Error::Closed`].
    pub fn order_compaction(&self) -> Result<OrderedCompaction, lsm::Error> {
        self.compactions.order()
    }

    /// How a compaction that was ordered has ended; `None` while it is under way.
    #[must_use]
    pub fn compaction_end(&self, ordered: &OrderedCompaction) -> Option<CompactionEnd> {
        self.compactions.end(ordered)
    }

    /// The copies that the store has set aside, from the key `start` on: see
    /// [`Engine::copies_set_aside`].
    ///
    /// # Errors
    /// As there, and [`lsm::Error::Overloaded`] while another such job is under way.
    pub async fn copies_set_aside(
        &self,
        start: Vec<u8>,
        bytes_max: usize,
    ) -> Result<lsm::CopiesPage, lsm::Error> {
        self.set_aside.copies(start, bytes_max).await
    }

    /// Discards what the store has set aside: see [`Engine::discard_set_aside`].
    ///
    /// # Errors
    /// As there, and [`lsm::Error::Overloaded`] while another such job is under way.
    pub async fn discard_set_aside(&self, up_to: base::Timestamp) -> Result<(), lsm::Error> {
        self.set_aside.discard(up_to).await
    }

    /// The backups at a target.
    ///
    /// # Errors
    /// Those of the target.
    pub async fn list_backups(&self, target: &str) -> Result<Listing, BackupError> {
        self.backups.list(target).await
    }

    /// Removes all but the newest `keep` backups at a target.
    ///
    /// # Errors
    /// [`BackupError::Busy`] while a backup runs; those of the target.
    pub async fn prune_backups(&self, target: &str, keep: usize) -> Result<Pruned, BackupError> {
        self.backups.prune(target, keep).await
    }

    /// Reads all of a backup at a target, for as long as `goes_on`; the newest one without an `id`.
    ///
    /// # Errors
    /// [`BackupError::Damaged`], [`BackupError::NotFound`]; those of the target.
    pub async fn verify_backup(
        &self,
        target: &str,
        id: Option<BackupId>,
        goes_on: impl AsyncFnMut() -> bool,
    ) -> Result<(Listed, Verified), BackupError> {
        self.backups.verify(target, id, goes_on).await
    }

    /// The backup under way that this node coordinates.
    #[must_use]
    pub fn running_backup(&self) -> Option<RunningBackup> {
        self.backups.running()
    }

    /// How a backup that was ordered of this node has ended; `None` while it is under way, or if
    /// another one has ended since.
    #[must_use]
    pub fn backup_end(&self, number: u64) -> Option<EndedBackup> {
        self.backups.end(number)
    }

    /// The newest backup of each target that this node has looked at.
    #[must_use]
    pub fn newest_backups(&self) -> BTreeMap<String, NewestBackup> {
        self.backups.newest()
    }

    /// What backups cost this node.
    #[must_use]
    pub fn backup_usage(&self) -> BackupUsage {
        self.backups.store.usage()
    }

    /// Says where the node sees what its clients feel: background work rests while they
    /// feel it. Until then only the queueing delay of the runtimes counts.
    pub fn see_clients_by(&self, see: SeeClients) {
        self.background.see_clients_by(see);
    }

    /// Says where the node sees what clients did lately, which it tells those who look at the
    /// cluster. Until then it tells that they did nothing.
    pub fn see_activity_by(&self, see: SeeActivity) {
        self.report.see_activity_by(see);
    }

    /// Says who puts the status of the node into bytes, for its report to other nodes. Until then
    /// it has none.
    pub fn see_status_by(&self, see: SeeStatus) {
        self.report.see_status_by(see);
    }

    /// Says who is told how long this node takes for requests of peers that are part of a
    /// trace. Until then they are not timed.
    pub fn see_traced_by(&self, see: SeeTraced) {
        self.traced.see_by(see);
    }

    /// What the disk of the data folder has left for the node, in bytes. A job asks the disk,
    /// once a second at most; `None` if that takes too long or fails.
    pub async fn disk_free_bytes(&self) -> Option<u64> {
        self.report.disk_free_bytes().await
    }

    /// What the node is working on.
    #[must_use]
    pub fn load(&self) -> Load {
        Load {
            reads_queued: self.read_pool.waiting(),
            peer_request_bytes: self.peer_bytes.used(),
            answer_bytes: self.answers.used(),
            scan_bytes: self.scans.used() + self.windows.used() + self.peer_pages.used(),
        }
    }

    /// Does the reads that may block, until [`Node::close_read_pool`]. The owner of the
    /// node calls this on each thread of the read pool.
    pub fn run_read_pool(&self) {
        self.read_pool.run_until_closed();
    }

    /// Ends the threads of the read pool once the reads under way are done.
    pub fn close_read_pool(&self) {
        self.read_pool.close();
    }

    /// Closes the store and all that is kept beside it: hints, membership, repair,
    /// repair sessions, the timestamp bound. Blocks.
    ///
    /// # Errors
    /// Those of closing the store.
    pub fn close(&self) -> Result<(), lsm::Error> {
        self.close_read_pool();
        self.hints.close();
        let is_first_close = self.membership.close();
        self.repair.close();
        self.store_side.close();
        self.timestamps.close();
        self.engine.close()?;
        // The store closes only once: a second attempt does not tell how the first ended.
        if is_first_close && let Err(error) = self.membership.mark_closed() {
            // The next start takes this one for a crash, which is safe.
            tracing::warn!(%error, "cannot record in the file CLUSTER that the node was stopped");
        }
        Ok(())
    }
}
