//! Opens a node: the store first, then what lies beside it and needs it.

use super::Node;
use super::damage::DamageRemedy;
use super::data_folder::check_folder;
use super::future_versions::end_of_present;
use super::seams::{OpenError, Seams};
use super::set_aside::SetAside;
use super::traced_requests::TracedRequests;
use crate::admin_jobs::backups::{BackupEnvironment, Backups, StoreBackups};
use crate::admin_jobs::compactions::Compactions;
use crate::config::{NodeConfig, Resources};
use crate::handshakes::DialledPeers;
use crate::member_changes::MemberChanges;
use crate::metrics::Metrics;
use crate::node_report::{Examiner, OwnReport};
use crate::scans::ScanMemory;
use base::{LimitedLog, LogBounds, Quota, Timestamp};
use cluster::layout::{ChangeProgress, WaitsFor};
use cluster::{Layout, Members};
use lsm::{Disk, Engine, Executor};
use membership::{
    Layouts, Membership, MembershipEnvironment, MembershipError, StoreCount, stored_list,
};
use peer::PeerLog;
use repair::NonOwnedRule;
use repair::session::{ChangeView, CheckpointEnvironment, RepairEnvironment, RepairSessions};
use repair::store::{StoreFile, StoreSide, StoreSideEnvironment};
use replica::SharedBounds;
use replica::background::{Background, WorkKind};
use replica::hints::{HintEnvironment, HintOptions, HintStore};
use replica::timestamps::TimestampAllocator;
use replica::{ExpiryBound, OwnClock};
use replica::{ReadPool, ReadsRun};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Hints that wait to be written, in bytes.
const HINT_QUEUE_BYTES_MAX: usize = 4 << 20;

/// What repair sees of changes of the list of members.
fn change_view(membership: &Membership) -> ChangeView {
    let [waiting, raising, telling] = [(); 3].map(|()| membership.clone());
    ChangeView {
        waits_for: Box::new(move || {
            let progress = waiting.list().map(|list| list.progress(&waiting.reports()));
            match progress {
                Some(ChangeProgress::Waits(waits_for)) => waits_for,
                _ => WaitsFor::default(),
            }
        }),
        raise_floor: Box::new(move || raising.raise_floor()),
        set_facts: Box::new(move |change, equal_with| telling.set_facts(change, equal_with)),
    }
}

/// The layout of the list of members in the folder, if the list has changed since the cluster was
/// formed; `None` if the configuration says who the members are.
///
/// # Errors
/// Those of reading the file.
fn stored_layout(config: &NodeConfig, disk: &dyn Disk) -> Result<Option<Layout>, MembershipError> {
    let Some((name, list)) = stored_list(disk, &config.data)? else {
        return Ok(None);
    };
    let own = list.named(&name).map(|member| member.id);
    let layout = own.and_then(|own| Layout::of(&list, own));
    if let Some(layout) = &layout
        && layout.members().own_url() != config.url()
    {
        tracing::warn!(
            listed = %layout.members().own_url(),
            own = %config.url(),
            "the list of members has another URL for this node than its options: peers use that of \
             the list"
        );
    }
    let listed = own.and_then(|own| list.get(own));
    if let (Some(zone), Some(listed)) = (&config.zone, listed)
        && listed.zone.as_ref() != Some(zone)
    {
        tracing::warn!(
            listed = listed.zone,
            own = zone,
            "the list of members has another zone for this node than its options: that of the list \
             counts. To change it, let the node leave, and join again with an empty folder"
        );
    }
    Ok(layout)
}

/// The members, as the list in the folder has them, if it has changed since the cluster was formed.
/// What is wrong with the folder is said when it is opened.
#[must_use]
pub fn stored_members(config: &NodeConfig, disk: &dyn Disk) -> Option<Members> {
    let (name, list) = stored_list(disk, &config.data).ok()??;
    let own = list.named(&name)?.id;
    Some(Layout::of(&list, own)?.members().clone())
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
        mut config: NodeConfig,
        resources: Resources,
        seams: Seams,
        executor: &Arc<dyn Executor>,
        reads_run: ReadsRun,
    ) -> Result<Self, OpenError> {
        let restored = check_folder(&config, &*seams.disk)?;
        let restored_cluster = restored.map_or(0, |restored| restored.cluster);
        let damage = DamageRemedy::of(&config);
        let mut waits = config.join.is_some();
        let layout = match stored_layout(&config, &*seams.disk) {
            Ok(None) => Layout::founding(config.members.clone()),
            Ok(Some(layout)) => {
                waits = false;
                if config.is_alone() && !layout.members().is_single_node() {
                    return Err(OpenError::MemberOfCluster(config.data));
                }
                layout
            }
            Err(error) => return Err(damage.explain(error)),
        };
        // From the first change on, the folder says who the members are.
        config.members = layout.members().clone();
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
        let collected = Arc::clone(&bounds);
        let is_single_node = config.members.is_single_node();
        let layouts = Layouts::new(layout);
        let are_all_whole = Arc::<AtomicBool>::default();
        let non_owned = NonOwnedRule {
            layouts: layouts.clone(),
            bounds: Arc::clone(&bounds),
            are_all_whole: Arc::clone(&are_all_whole),
        };
        let non_owned = (!is_single_node).then(|| non_owned.for_engine());
        let non_owned_bound = non_owned.as_ref().map(|of| Arc::clone(&of.gc_threshold));
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
                    collected.gc_threshold()
                }
            }),
            non_owned,
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
        let threshold = restored.map_or(Timestamp::ZERO, |restored| restored.gc_threshold);
        let stored = StoreFile::load_restored(&*seams.disk, &config.data, threshold);
        let stored = stored.map_err(|error| damage.explain(error))?;
        let mut closed = stored.record.closed;
        if drop_above.is_some() {
            closed = closed.min(present());
        }
        let options = lsm::Options {
            drop_versions_above: drop_above,
            closed_timestamp: closed,
            ..config.store_options(&memory)
        };
        let opened = Engine::open(environment, options);
        let (engine, recovery) = opened.map_err(|error| damage.explain(error))?;
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
        let was_used = engine.acknowledged().total > 0 || greatest_stored != Timestamp::ZERO;
        if waits && (was_used || restored_cluster != 0) {
            return Err(OpenError::NotEmpty(config.data));
        }
        let (trusted, trusted_clock) = (Arc::clone(&timestamps), Arc::clone(&clock));
        let cluster_time = Arc::clone(&timestamps);
        let named_age_ms = config.named_bound_age().as_millis();
        let named_age_ms = u64::try_from(named_age_ms).unwrap_or(u64::MAX);
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
                default_pair: config.default_pair(),
                restored_for: restored_cluster,
                waits,
                is_cluster_of_one: config.is_cluster_of_one(),
                zone: config.zone.clone(),
                is_outdated: timestamps.outdated_flag(),
                are_all_whole,
            },
            layouts.clone(),
            engine.store_id(),
            config.accept_data_loss,
        );
        let membership = membership.map_err(|error| damage.explain(error))?;
        let store_side = StoreSide::open(
            StoreSideEnvironment {
                folder: config.data.clone(),
                disk: Arc::clone(&seams.disk),
                executor: Arc::clone(executor),
                engine: engine.clone(),
                membership: membership.clone(),
                gc_grace: config.gc_grace,
                layouts: layouts.clone(),
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
            &config.members,
        )?;
        let metrics = Metrics::new(resources.runtimes);
        let dialled = DialledPeers::new(resources.runtimes);
        let read_pool = ReadPool::new(&engine, config.read_queue, reads_run);
        let repair_files = CheckpointEnvironment {
            folder: config.data.clone(),
            disk: Arc::clone(&seams.disk),
        };
        let repair_environment = RepairEnvironment {
            layouts: layouts.clone(),
            engine: engine.clone(),
            clock: Arc::clone(&clock),
            random: Arc::clone(&seams.random),
            executor: Arc::clone(executor),
            timestamps: Arc::clone(&timestamps),
            membership: membership.clone(),
            store_side: Arc::clone(&store_side),
            background: Arc::clone(&background),
            ingest_bytes_max: resources.memory.ingest_bytes_max(),
            expiry,
            timeout: config.timeout,
            interval: config.repair_interval,
            full_interval: config.full_repair_interval,
            gc_grace: config.gc_grace,
            sizes: config.repair_sizes.within(memory.repair_range_bytes_max()),
            change: change_view(&membership),
        };
        let scan_memory = ScanMemory::of(memory.scans_bytes, config.scan_batch_bytes());
        let repair = RepairSessions::open(repair_environment, repair_files);
        let compactions = Compactions::new(engine.clone(), Arc::clone(&clock));
        let backup_environment = Arc::new(BackupEnvironment {
            watches: config
                .backup_targets
                .keys()
                .map(|name| (name.clone(), Arc::default()))
                .collect(),
            targets: config.backup_targets.clone(),
            jobs: Arc::default(),
            owner: backup::Owner {
                node: config.name().to_owned(),
                start: seams.random.next_u64(),
            },
            disk: Arc::clone(&seams.disk),
            clock: Arc::clone(&clock),
            random: Arc::clone(&seams.random),
            executor: Arc::clone(executor),
            background: Arc::clone(&background),
        });
        let shared_bounds = Arc::clone(store_side.shared());
        let store_backups = Arc::new(StoreBackups::new(
            Arc::clone(&backup_environment),
            engine.clone(),
            membership.clone(),
            layouts.clone(),
            Box::new(move || shared_bounds.gc_threshold()),
            config.name().to_owned(),
        ));
        let backups = Arc::new(Backups::new(backup_environment, store_backups));
        let set_aside = SetAside::new(engine.clone(), Arc::clone(executor));
        let report = OwnReport::new(engine.clone(), Arc::clone(&clock), Arc::clone(executor));
        let changes = MemberChanges::new(
            layouts.clone(),
            membership.clone(),
            Arc::clone(&clock),
            config.clock_drift_max,
            resources.runtimes,
        );
        Ok(Self {
            layouts,
            changes,
            executor: Arc::clone(executor),
            background,
            store_side,
            restored_cluster,
            non_owned_bound,
            repair,
            compactions,
            backups,
            set_aside,
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
            scans: Quota::new(scan_memory.batches_bytes),
            windows: Quota::new(scan_memory.windows_bytes),
            peer_pages: Quota::new(scan_memory.peer_pages_bytes),
            peer_page_turns: Quota::new(1),
            metrics,
            config,
            resources,
        })
    }
}
