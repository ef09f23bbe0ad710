//! The node: everything that its runtimes share, from the opening of the store to its closing.

use crate::compactions::{CompactionEnd, Compactions, OrderedCompaction};
use crate::config::{NodeConfig, Resources};
use crate::dialled_peers::DialledPeers;
use crate::future_versions::end_of_present;
use crate::metrics::Metrics;
use crate::node_report::{Examiner, NodeSnapshot, OwnReport, SeeActivity, SeeStatus};
use crate::range_memory::RangeMemory;
use crate::seams::{OpenError, Seams};
use crate::traced_requests::{SeeTraced, TracedRequests};
use base::{Clock, LimitedLog, LogBounds, Quota, Random, Timestamp};
use cluster::sweep::PassKind;
use cluster::{NodeNumber, Placement, ReplicaState};
use lsm::{Disk, Engine, Executor, GcThreshold};
use membership::{Membership, MembershipEnvironment, StoreCount};
use peer::PeerLog;
use repair::forgetting::{ForgetFile, Forgetting, ForgettingEnvironment, ForgettingStatus};
use repair::sweep::{JournalEnvironment, OrderedSweep, SweepEnvironment, SweepStatus, Sweeps};
use repair::{SurplusRule, SurplusStatus};
use replica::SharedBounds;
use replica::background::{Background, SeeClients, WorkKind};
use replica::hints::{HintEnvironment, HintOptions, HintStore, HintsWaiting};
use replica::timestamps::{TimestampAllocator, TimestampStatus};
use replica::{ExpiryBound, OwnClock};
use replica::{ReadPool, ReadsRun};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Hints that wait to be written, in bytes.
const HINT_QUEUE_BYTES_MAX: usize = 4 << 20;

/// A node: its store and the files beside it, its replica state, its clock, its hints, and its
/// budgets of memory. All runtimes share it; each has a [`Worker`](crate::Worker).
pub struct Node {
    /// The node's configuration.
    pub(crate) config: NodeConfig,
    /// What the node may use.
    pub(crate) resources: Resources,
    /// Which nodes are the replicas of a key.
    pub(crate) placement: Arc<Placement>,
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
    /// Below which bound the dead are dropped.
    pub(crate) forgetting: Arc<Forgetting>,
    /// Below which bound surplus copies are dropped; none for a node alone, which has none.
    surplus_bound: Option<GcThreshold>,
    /// The budget of hints, sweeps and compaction.
    pub(crate) background: Arc<Background>,
    /// This node's part in sweeps.
    pub(crate) sweeps: Arc<Sweeps>,
    /// The compactions that operators ask for.
    pub(crate) compactions: Compactions,
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
    /// Batches of ranges on their way out.
    pub(crate) ranges: Arc<Quota>,
    /// The pages of ranges of the whole cluster that wait for clients.
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
    /// Bytes of the batches of ranges on their way out.
    pub range_bytes: usize,
}

/// Checks whether the folder holds a store, if it should, and tells the operator if it does not.
///
/// # Errors
/// [`OpenError::NoStore`], and those of the disk.
fn check_data(config: &NodeConfig, disk: &dyn Disk) -> Result<(), OpenError> {
    if lsm::holds_store(disk, &config.data)? {
        return Ok(());
    }
    if config.expect_data {
        return Err(OpenError::NoStore(config.data.clone()));
    }
    // The other nodes of a cluster would notice that it lost its data.
    if config.members.count() == 1 {
        tracing::warn!(
            folder = %config.data.display(),
            "the data folder holds no store: this node begins with an empty one. If it had data, \
             stop it: its disk may not be mounted. With --expect-data it would refuse to start"
        );
    } else {
        tracing::info!(
            folder = %config.data.display(),
            "the data folder holds no store: this node begins with an empty one"
        );
    }
    Ok(())
}

impl Node {
    /// Opens the store and what lies beside it. Blocks.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(
        config: NodeConfig,
        resources: Resources,
        seams: Seams,
        executor: &Arc<dyn Executor>,
    ) -> Result<Self, OpenError> {
        Self::open_with(config, resources, seams, executor, ReadsRun::OnThreads)
    }

    /// Opens a node whose reads run as `reads_run` says.
    pub(crate) fn open_with(
        config: NodeConfig,
        resources: Resources,
        seams: Seams,
        executor: &Arc<dyn Executor>,
        reads_run: ReadsRun,
    ) -> Result<Self, OpenError> {
        // Before anything in the folder is read, so that what is wrong with the folder is not
        // said of a file in it.
        seams
            .disk
            .check_folder(&config.data)
            .map_err(|error| lsm::Error::io("use", &config.data, error))?;
        check_data(&config, &*seams.disk)?;
        let memory = resources.memory;
        let clock = seams.clock;
        let started = clock.monotonic();
        let timestamps = TimestampAllocator::new(
            Arc::clone(&clock),
            Arc::clone(executor),
            &config.members,
            config.clock_drift_max,
        );
        let (own_drop_bound, bounds) = (Arc::clone(&timestamps), Arc::<SharedBounds>::default());
        let forgotten = Arc::clone(&bounds);
        let is_single_node = config.members.is_single_node();
        let placement = Arc::new(Placement::new(config.members.names()));
        let are_all_whole = Arc::<AtomicBool>::default();
        let surplus = SurplusRule {
            placement: Arc::clone(&placement),
            own: config.members.own(),
            bounds: Arc::clone(&bounds),
            are_all_whole: Arc::clone(&are_all_whole),
        };
        let surplus = (!is_single_node).then(|| surplus.for_engine());
        let surplus_bound = surplus
            .as_ref()
            .map(|surplus| Arc::clone(&surplus.gc_threshold));
        let proven = Arc::clone(&timestamps);
        let own_clock = if is_single_node {
            OwnClock::alone(Arc::clone(&clock))
        } else {
            OwnClock::ByPeers(Box::new(move || proven.proven_unix_ms()))
        };
        let expiry = Arc::new(ExpiryBound::new(own_clock, config.clock_drift_max));
        let freed = Arc::clone(&expiry);
        let background = Background::new(Arc::clone(&clock));
        let pace = Arc::clone(&background);
        let environment = lsm::Environment {
            folder: config.data.clone(),
            disk: Arc::clone(&seams.disk),
            clock: Arc::clone(&clock),
            random: Arc::clone(&seams.random),
            executor: Arc::clone(executor),
            // With peers, an older write may still wait at one of them, unless all have
            // shown that they are equal below the bound.
            gc_threshold: Arc::new(move || {
                if is_single_node {
                    own_drop_bound.drop_bound()
                } else {
                    forgotten.forgotten()
                }
            }),
            non_owned: surplus,
            expired_before_unix_ms: Arc::new(move || freed.expired_before_unix_ms()),
            rest_after: Arc::new(move |took, urgency| {
                pace.rest_after_urgent(WorkKind::Compaction, took, urgency)
            }),
        };
        let drop_above = if config.drop_future_versions {
            Some(end_of_present(&*clock, config.clock_drift_max)?)
        } else {
            None
        };
        let present_clock = Arc::clone(&clock);
        let present = move || Timestamp::from_unix_ms(present_clock.unix_ms());
        let mut fence = ForgetFile::load(&*seams.disk, &config.data)?.bounds.fence;
        if drop_above.is_some() {
            fence = fence.min(present());
        }
        let options = lsm::Options {
            drop_versions_above: drop_above,
            closed_timestamp: fence,
            ..config.store_options(&memory)
        };
        let (engine, recovery) = Engine::open(environment, options)?;
        tracing::info!(
            entries_replayed = recovery.entries_replayed,
            torn_bytes = recovery.torn_bytes,
            orphans_removed = recovery.orphans_removed,
            tables_lost = recovery.tables_lost,
            "the store is open"
        );
        if let Some(drop_above) = drop_above {
            tracing::warn!(
                versions = recovery.versions_dropped,
                %drop_above,
                "the versions from the future were dropped"
            );
        }
        let greatest_stored = engine.greatest_timestamp();
        timestamps.open(
            &*seams.disk,
            &config.data,
            greatest_stored,
            drop_above,
            config.accept_data_loss,
        )?;
        let (trusted, trusted_clock) = (Arc::clone(&timestamps), Arc::clone(&clock));
        let cluster_time = Arc::clone(&timestamps);
        let named_age_ms = config.named_bound_age().as_millis();
        let named_age_ms = u64::try_from(named_age_ms).unwrap_or(u64::MAX);
        let forgetting = Forgetting::open(
            ForgettingEnvironment {
                folder: config.data.clone(),
                disk: Arc::clone(&seams.disk),
                executor: Arc::clone(executor),
                engine: engine.clone(),
                grace: config.gc_grace,
                members_hash: config.members.names_hash(),
                present: drop_above.map(|_| Box::new(present) as _),
                trusted_unix_ms: Box::new(move || {
                    let status = trusted.status();
                    let is_trusted = status.refusal.is_none() && status.is_proven;
                    is_trusted.then(|| trusted_clock.unix_ms())
                }),
                latest_named: Box::new(move || {
                    let now_ms = cluster_time.cluster_unix_ms();
                    Timestamp::from_unix_ms(now_ms.saturating_sub(named_age_ms))
                }),
                clock: Arc::clone(&clock),
            },
            bounds,
        )?;
        let counted = engine.clone();
        let membership = Membership::open(
            MembershipEnvironment {
                folder: config.data.clone(),
                disk: Arc::clone(&seams.disk),
                random: Arc::clone(&seams.random),
                executor: Arc::clone(executor),
                boot_id: seams.boot_id,
                syncs_commits: config.durability.syncs_commits(),
                now_unix_ms: clock.unix_ms(),
                acknowledged: StoreCount {
                    at_open: engine.acknowledged().total,
                    now: Box::new(move || counted.acknowledged().durable),
                },
                is_outdated: timestamps.outdated_flag(),
                are_all_whole,
            },
            config.members.clone(),
            engine.store_id(),
            config.accept_data_loss,
        )?;
        forgetting.set_replica_state(membership.replica_state())?;
        let hints = HintStore::open(
            HintEnvironment {
                folder: config.data.join("hints"),
                disk: Arc::clone(&seams.disk),
                clock: Arc::clone(&clock),
                executor: Arc::clone(executor),
                secret: engine.derive_secret("hints"),
            },
            HintOptions {
                bytes_max: config.hint_bytes_max,
                age_max: config.hint_age_max,
                queue_bytes_max: HINT_QUEUE_BYTES_MAX,
                disk_spare_bytes: config.disk_reserve_bytes,
                drop_above,
            },
            config.members.names(),
        )?;
        let metrics = Metrics::new(resources.runtimes, config.members.names().len());
        let dialled = DialledPeers::new(resources.runtimes, config.members.names().len());
        let read_pool = ReadPool::new(&engine, config.read_queue, reads_run);
        let journal = JournalEnvironment {
            folder: config.data.clone(),
            disk: Arc::clone(&seams.disk),
        };
        let sweep_environment = SweepEnvironment {
            members: config.members.clone(),
            placement: Arc::clone(&placement),
            engine: engine.clone(),
            clock: Arc::clone(&clock),
            random: Arc::clone(&seams.random),
            executor: Arc::clone(executor),
            timestamps: Arc::clone(&timestamps),
            membership: membership.clone(),
            forgetting: Arc::clone(&forgetting),
            background: Arc::clone(&background),
            ingest_bytes_max: resources.memory.ingest_bytes_max(),
            expiry,
            timeout: config.timeout,
            interval: config.repair_interval,
            full_interval: config.full_repair_interval,
            grace: config.gc_grace,
            sizes: config.sweep_sizes.within(memory.sweep_range_bytes_max()),
        };
        let ranges = RangeMemory::of(memory.ranges_bytes, config.range_batch_bytes());
        let sweeps = Sweeps::open(sweep_environment, journal);
        let compactions = Compactions::new(engine.clone(), Arc::clone(&clock));
        let report = OwnReport::new(
            seams.disk,
            config.data.clone(),
            Arc::clone(&clock),
            Arc::clone(executor),
        );
        Ok(Self {
            placement,
            background,
            forgetting,
            surplus_bound,
            sweeps,
            compactions,
            report,
            examiner: Examiner::default(),
            engine,
            traced: TracedRequests::new(Arc::clone(&clock)),
            log: Arc::new(LimitedLog::new(Arc::clone(&clock), LogBounds::REQUESTS)),
            peer_log: Arc::new(PeerLog::new(Arc::clone(&clock))),
            clock,
            random: seams.random,
            started,
            timestamps,
            membership,
            dialled: Arc::new(dialled),
            hints,
            read_pool: Arc::new(read_pool),
            peer_bytes: Quota::new(memory.peer_bytes),
            answers: Quota::new(memory.answers_bytes),
            ranges: Quota::new(ranges.batches_bytes),
            windows: Quota::new(ranges.windows_bytes),
            peer_pages: Quota::new(ranges.peer_pages_bytes),
            peer_page_turns: Quota::new(1),
            metrics,
            config,
            resources,
        })
    }

    /// Limits the log lines that requests cause.
    #[must_use]
    pub fn log(&self) -> &Arc<LimitedLog> {
        &self.log
    }

    /// What the node is like now.
    #[must_use]
    pub fn snapshot(&self) -> NodeSnapshot {
        let store = self.engine.statistics();
        let non_owned = self.surplus_bound.as_ref().map(|below| SurplusStatus {
            copies: store.table_non_owned,
            below: below(),
        });
        let nodes = self.config.members.numbers();
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
            hints: nodes.map(|node| self.hints_waiting(node)).collect(),
            background_share: self.background.status().share,
            repair: self.sweep_status(),
            tombstone_gc: self.forgetting_status(),
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
    pub fn hints_waiting(&self, node: NodeNumber) -> HintsWaiting {
        self.hints.waiting(node)
    }

    /// What the node knows of sweeps.
    #[must_use]
    pub fn sweep_status(&self) -> SweepStatus {
        self.sweeps.status()
    }

    /// Below which bound the node drops what is dead.
    #[must_use]
    pub fn forgetting_status(&self) -> ForgettingStatus {
        self.forgetting.status()
    }

    /// Has the node drive a pass of a sweep as soon as none of its own is running, or
    /// joins the running one. `None` for a node alone, which has nothing to compare with.
    #[must_use]
    pub fn order_sweep(&self, kind: PassKind) -> Option<OrderedSweep> {
        self.sweeps.order(kind)
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
            range_bytes: self.ranges.used() + self.windows.used() + self.peer_pages.used(),
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

    /// Closes the store and all that is kept beside it: hints, membership, sweeps,
    /// forgetting, the timestamp bound. Blocks.
    ///
    /// # Errors
    /// Those of closing the store.
    pub fn close(&self) -> Result<(), lsm::Error> {
        self.close_read_pool();
        self.hints.close();
        let is_first_close = self.membership.close();
        self.sweeps.close();
        self.forgetting.close();
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
