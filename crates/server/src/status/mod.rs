//! What an operator sees of a node and of its cluster.
//!
//! ```text
//! node's snapshot, links -> status -> /v0/status, and with the node report to the other nodes
//! the reports of all nodes -> advice -> /v0/cluster -> console, kvorum admin status
//! ```
//!
//! - This file makes the status, which `api` defines; `tombstone_gc` is the part of it that says
//!   why deleted data stays.
//! - `members` is the list of members and a plan of its change.
//! - `reports` is what all nodes have reported, with the advice on it.
//! - `advice` says what an operator has to do: the only place that judges.

mod advice;
mod members;
mod reports;
mod tombstone_gc;

use reports::{Account, RECENT_SAMPLES};

pub(crate) use members::{add_joiners, full_disk, plan as plan_of_members};
pub(crate) use reports::{cluster, numbers_of};
pub(crate) use tombstone_gc::held_back;

use crate::net::ListenerShared;
use crate::net::tls::ListenerTls;
use api::status::{
    BackgroundWork, Clock, Compaction, EndedRepairs, Hints, MayBeLost, Member, RebuildOverview,
    Repair, RunningRepair, SetAside, Status, Store, Tls, TlsFailure, TokensFile,
};
use cluster::comparison::RepairKind;
use cluster::{NodeId, NodeTable, ReplicaState};
use lsm::Statistics;
use node::{NoTimestamp, NodeSnapshot};
use peer::{LinkProblem, LinkState, LinkStatus};
use std::sync::Arc;
use std::time::Duration;

/// Has the node tell the other nodes its status and what it did lately with its reports.
pub(crate) fn report_by(shared: &Arc<ListenerShared>, clock: &Arc<dyn base::Clock>) {
    let (weak, clock) = (Arc::downgrade(shared), Arc::clone(clock));
    let account = move |snapshot: &NodeSnapshot, links: &NodeTable<LinkStatus>| {
        weak.upgrade().map_or_else(Vec::new, |shared| {
            let recent = shared.history.told(RECENT_SAMPLES, &*clock);
            Account::new(of(&shared, snapshot, links), recent).into_bytes()
        })
    };
    shared.node.see_status_by(Box::new(account));
}

/// The status of a node. `links` are those of one runtime to the other nodes, by node.
pub(crate) fn of(
    shared: &ListenerShared,
    snapshot: &NodeSnapshot,
    links: &NodeTable<LinkStatus>,
) -> Status {
    let config = shared.config();
    Status {
        name: config.node.name().to_owned(),
        url: config.node.url().to_string(),
        version: config.version.clone(),
        uptime_seconds: snapshot.uptime.as_secs(),
        state: if shared.is_stopping() {
            "stopping"
        } else if shared.node.member_changes().waits() {
            "waiting to join"
        } else {
            "serving"
        }
        .to_owned(),
        waits_because: shared.node.member_changes().waits_because(),
        replica_state: snapshot.replica_state.word().to_owned(),
        learner_because: snapshot.learner_because.clone(),
        may_be_lost: may_be_lost(config.node.name(), snapshot),
        cluster: members_of(shared, snapshot, links),
        value_bytes_max: config.node.value_bytes_max as u64,
        clock: clock(snapshot),
        tls: shared.tls.as_deref().map(tls),
        tokens: shared
            .trust
            .is_file_unusable()
            .map(|unusable| TokensFile { unusable }),
        hints: Hints {
            age_max_seconds: config.node.hint_age_max.as_secs(),
            bytes_max: config.node.hint_bytes_max,
        },
        repair: repair(shared, snapshot),
        tombstone_gc: tombstone_gc::tombstone_gc(shared, snapshot),
        non_owned: tombstone_gc::non_owned(snapshot),
        background: BackgroundWork {
            share: snapshot.background_share,
        },
        store: store(snapshot),
    }
}

/// What may be lost with learners, and what this node has set aside: that counts until an operator
/// decides about it.
fn may_be_lost(name: &str, snapshot: &NodeSnapshot) -> Option<MayBeLost> {
    let set_aside = snapshot.store.set_aside.versions_max;
    if let Some(report) = &snapshot.loss {
        return Some(MayBeLost {
            text: report.to_string(),
            writes_max: report.loss.writes_max().saturating_add(set_aside),
            single_copies: report.loss.single_copies,
            since_full_repair: report.loss.since_full_session,
            set_aside,
            incomplete: report.loss.has_unknown,
            rebuilt: report.is_over,
            nodes: report.nodes.clone(),
        });
    }
    (set_aside > 0).then(|| MayBeLost {
        text: format!(
            "up to {set_aside} versions may be lost that {name} has set aside, until an operator \
             restores or discards them"
        ),
        writes_max: set_aside,
        single_copies: 0,
        since_full_repair: 0,
        set_aside,
        incomplete: false,
        rebuilt: snapshot.replica_state.is_voter(),
        nodes: vec![name.to_owned()],
    })
}

fn clock(snapshot: &NodeSnapshot) -> Clock {
    let timestamps = &snapshot.timestamps;
    Clock {
        unix_ms: snapshot.unix_ms,
        greatest_timestamp: timestamps.greatest.to_string(),
        timestamp_ahead_ms: timestamps.timestamp_ahead_ms,
        timestamp_bound: timestamps.bound.to_string(),
        others_ahead_ms: timestamps.peers_ahead_ms,
        proven: timestamps.is_proven,
        refuses_writes: timestamps.refusal.map(|why| why.to_string()),
        refuses_because: timestamps.refusal.map(|why| refusal_word(why).to_owned()),
    }
}

fn refusal_word(why: NoTimestamp) -> &'static str {
    match why {
        NoTimestamp::Closed => "stopping",
        NoTimestamp::Far => "far",
        NoTimestamp::Unmet => "unmet",
        NoTimestamp::NoneNear => "none near",
        NoTimestamp::Unheard { .. } => "new store",
        NoTimestamp::Ahead { .. } => "timestamps ahead",
        NoTimestamp::Bound => "disk",
        NoTimestamp::Outdated => "restored store",
        NoTimestamp::NoTime => "no time",
        NoTimestamp::End => "no timestamps left",
    }
}

fn set_aside(status: lsm::SetAsideStatus) -> Option<SetAside> {
    (status.tables > 0).then(|| SetAside {
        tables: status.tables,
        bytes: status.bytes,
        copies_max: status.versions_max,
        below: status.below.to_string(),
    })
}

fn store(snapshot: &NodeSnapshot) -> Store {
    let statistics = &snapshot.store;
    let state = if statistics.poisoned.is_some() {
        "read-only until it is restarted"
    } else if statistics.failing.is_some() {
        "cannot write files"
    } else if statistics.disk_full {
        "disk full"
    } else {
        "open"
    };
    let table_bytes = snapshot.table_bytes();
    Store {
        id: format!("{:032x}", snapshot.store_id),
        created_unix_ms: snapshot.store_created_unix_ms,
        state: state.to_owned(),
        entries: statistics.table_entries + statistics.memtable_entries,
        tombstones: statistics.table_tombstones,
        tables_damaged: statistics.tables_damaged,
        damaged_ranges: statistics.damaged_ranges,
        set_aside: set_aside(statistics.set_aside),
        compaction: snapshot.compaction.as_ref().map(|running| Compaction {
            began_unix_ms: running.began_unix_ms,
            merged_bytes: running.merged_bytes,
        }),
        table_bytes,
        overhead_bytes: statistics.overhead.all(),
        memtable_bytes: statistics.memtable_bytes,
        log_bytes: statistics.log_bytes,
        cache_bytes: statistics.cache_bytes,
        disk_full: statistics.disk_full,
        room_wanted_bytes: statistics.room_wanted_bytes,
        write_amplification: (statistics.flushes > 0).then(|| statistics.write_amplification()),
        space_amplification: (table_bytes > 0).then(|| statistics.space_amplification()),
        failing: statistics.failing.clone(),
        poisoned: statistics.poisoned.clone(),
    }
}

fn tls(tls: &ListenerTls) -> Tls {
    let status = tls.node_tls.status();
    Tls {
        optional: tls.is_optional(),
        verifies_peers: tls.node_tls.verifies_peers(),
        certificate_expires_unix_ms: status.expires_unix_s.saturating_mul(1000),
        reloads: status.reloads,
        problem: status.problem,
    }
}

fn tls_failure(failure: &tls::TlsFailure) -> TlsFailure {
    TlsFailure {
        reason: failure.kind.word().to_owned(),
        cause: failure.cause.clone(),
        remedy: failure.remedy.clone(),
    }
}

/// The nodes of the cluster, by their IDs.
fn members_of(
    shared: &ListenerShared,
    snapshot: &NodeSnapshot,
    links: &NodeTable<LinkStatus>,
) -> Vec<Member> {
    let layout = shared.node.layout();
    let members = layout.members();
    let member = |(node, known): (NodeId, &cluster::Member)| {
        let link = links.get(node);
        let is_own = node == members.own();
        let replica_state = match link {
            Some(link) => link.replica_state,
            None => is_own.then_some(snapshot.replica_state),
        };
        let waiting = snapshot.hints.get(node).copied();
        let waiting = waiting.unwrap_or_default();
        let last_equal = snapshot.repair.last_equal.get(node);
        let problem = link.and_then(|link| link.problem.as_ref());
        Member {
            name: known.name().to_owned(),
            url: known.url().to_string(),
            state: match link {
                Some(link) => link.state.word(),
                None if is_own => "this node",
                // It has joined a moment ago.
                None => LinkState::Connecting.word(),
            }
            .to_owned(),
            replica_state: replica_state.map(ReplicaState::word).map(str::to_owned),
            clock_ahead_ms: link.and_then(|link| link.drift_ms),
            down_seconds: link
                .and_then(|link| link.down_for)
                .map(|down_for| down_for.as_secs()),
            problem: problem.map(|problem| problem.word().to_owned()),
            tls_failure: problem.and_then(LinkProblem::tls_failure).map(tls_failure),
            hints: waiting.hints,
            hint_bytes: waiting.bytes,
            last_repair_unix_ms: last_equal.and_then(|equal| equal.any_unix_ms),
            last_full_repair_unix_ms: last_equal.and_then(|equal| equal.full_unix_ms),
        }
    };
    members.iter().map(member).collect()
}

fn repair(shared: &ListenerShared, snapshot: &NodeSnapshot) -> Repair {
    let status = &snapshot.repair;
    let config = &shared.config().node;
    let counts = status.counts;
    let ended = |kind: RepairKind, interval: Option<Duration>| {
        let ended = status.ended[kind as usize];
        let duration = u64::try_from(ended.last_duration.as_millis()).unwrap_or(u64::MAX);
        EndedRepairs {
            interval_seconds: interval.map(|interval| interval.as_secs()),
            succeeded: ended.equal,
            incomplete: ended.incomplete,
            last_end_unix_ms: ended.last_end_unix_ms,
            last_duration_ms: ended.last_end_unix_ms.map(|_| duration),
        }
    };
    let running = status.running.iter().map(|session| {
        let progress = session.progress;
        let left = progress.and_then(|progress| progress.time_left);
        RunningRepair {
            kind: session.kind.word().to_owned(),
            began_unix_ms: session.began_unix_ms,
            ranges: session.ranges,
            share: progress.map(|progress| f64::from(progress.position_permille) / 1e3),
            bytes_per_second: progress.and_then(|progress| progress.bytes_per_second),
            seconds_left: left.map(|left| left.as_secs()),
        }
    });
    Repair {
        running: running.collect(),
        incremental: ended(RepairKind::Incremental, config.repair_interval),
        full: ended(RepairKind::Full, config.full_repair_interval),
        repair_writes_sent: counts.repair_writes_sent,
        repair_writes_received: counts.repair_writes_received,
        ranges_compared: counts.ranges_compared,
        ranges_differing: counts.ranges_differing,
        non_owned_offered: counts.non_owned_offered,
        rebuild: status.rebuild.as_ref().map(|rebuild| {
            let stalled_because = stalled_because(&snapshot.store);
            let left = rebuild.time_left.filter(|_| stalled_because.is_none());
            RebuildOverview {
                received_bytes: rebuild.received_bytes,
                received_keys: rebuild.received_keys,
                share: f64::from(rebuild.position_permille) / 1e3,
                bytes_per_second: rebuild.bytes_per_second,
                seconds_left: left.map(|left| left.as_secs()),
                stalled_because: stalled_because.map(str::to_owned),
            }
        }),
    }
}

/// Why a store takes nothing that a rebuild brings.
fn stalled_because(store: &Statistics) -> Option<&'static str> {
    if store.poisoned.is_some() {
        Some("its store is read-only")
    } else if store.failing.is_some() {
        Some("its store cannot write files")
    } else if store.room_wanted_bytes.is_some() {
        Some("its disk has no room")
    } else {
        None
    }
}
