//! `/v0/status`: the node and its cluster, as this node sees them. Outside admission,
//! so that an operator can inspect an overloaded node.

use super::tombstone_gc::{NonOwnedCopies, TombstoneGc, non_owned, tombstone_gc};
use crate::http::exchange::{Answer, Exchange};
use crate::http::page;
use crate::http::query;
use crate::net::Listener;
use crate::net::tls::ListenerTls;
use cluster::sweep::PassKind;
use cluster::{NodeNumber, ReplicaState};
use node::SweepStatus;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;
use tokens::RequestedKeys;
use tokio::time::sleep;

/// How often a status that is held looks whether the node has started.
const START_CHECK: Duration = Duration::from_millis(5);

/// A node, and its cluster as it sees it.
#[derive(Serialize, JsonSchema)]
pub(super) struct Status<'a> {
    name: &'a str,
    url: String,
    version: &'a str,
    uptime_seconds: u64,
    #[schemars(extend("enum" = ["serving", "stopping"]))]
    state: &'static str,
    /// The replica state of this node's store.
    #[schemars(extend("enum" = ["starting", "voter", "forced_voter", "learner"]))]
    replica_state: &'static str,
    /// Why the last full repair has not filled this node's store; left out unless one has ended
    /// and the store is still a learner.
    #[serde(skip_serializing_if = "Option::is_none")]
    learner_because: Option<String>,
    /// What may be lost, if stores were learners since this node was started; left out if
    /// none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    may_be_lost: Option<MayBeLost>,
    cluster: Vec<Member<'a>>,
    /// The longest value that clients may send, in bytes.
    value_bytes_max: usize,
    clock: Clock,
    /// Left out where the node does not speak TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<Tls>,
    hints: Hints,
    repair: Repair,
    tombstone_gc: TombstoneGc,
    /// Left out for a node alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    non_owned: Option<NonOwnedCopies>,
    background: BackgroundWork,
    store: Store,
}

/// What may be lost with stores that were learners at one time.
#[derive(Serialize, JsonSchema)]
struct MayBeLost {
    /// The names of their nodes.
    nodes: Vec<String>,
    /// How many acknowledged writes that may be, as far as this node knows.
    writes_max: u64,
    /// Those of them that had no second copy at the last full repair.
    single_copies: u64,
    /// Those that several of the stores acknowledged since the last full repair.
    since_full_repair: u64,
    /// Whether there may be more, because this node does not know all of it.
    incomplete: bool,
    /// Whether all of the stores have been filled since.
    filled: bool,
    /// The same for people.
    text: String,
}

/// A node of the cluster, as this one sees it.
#[derive(Serialize, JsonSchema)]
struct Member<'a> {
    name: &'a str,
    url: String,
    #[schemars(extend("enum" = ["this node", "connecting", "up", "suspected", "down"]))]
    state: &'static str,
    /// The replica state that its store reports; left out while there is no connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    replica_state: Option<&'static str>,
    /// How far its clock is ahead of this node's; left out while that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_ahead_ms: Option<i64>,
    /// For how long this node has had no connection to it, or at least since this node
    /// started; left out while there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    down_seconds: Option<u64>,
    /// Writes that it missed and that this node keeps for it.
    hints: u64,
    hint_bytes: u64,
    /// When a repair last found this node equal with it; left out until one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_repair_unix_ms: Option<u64>,
    /// When a full repair did.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_full_repair_unix_ms: Option<u64>,
}

/// TLS at this node.
#[derive(Serialize, JsonSchema)]
struct Tls {
    /// Whether the node also accepts connections without it.
    optional: bool,
    /// Whether nodes verify each other.
    verifies_peers: bool,
    /// When the certificate in force, or one of its chain, expires.
    certificate_expires_unix_ms: u64,
    /// How often changed files were put in force since the start.
    reloads: u64,
    /// Why the files have changed and are not in force; left out unless that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// The limits of hints.
#[derive(Serialize, JsonSchema)]
struct Hints {
    age_max_seconds: u64,
    /// For all nodes together.
    bytes_max: u64,
}

/// What background work may use.
#[derive(Serialize, JsonSchema)]
struct BackgroundWork {
    /// Of its time, for each kind: 1 unless clients feel it.
    share: f64,
}

/// What the node knows of repairs. All counts begin with the start of the node.
#[derive(Serialize, JsonSchema)]
struct Repair {
    /// The passes that this node takes part in now.
    running: Vec<RunningRepair>,
    incremental: EndedRepairs,
    full: EndedRepairs,
    repair_writes_sent: u64,
    repair_writes_received: u64,
    ranges_compared: u64,
    ranges_differing: u64,
    non_owned_offered: u64,
    /// How far the filling of this node's store has come; left out while nothing fills it.
    #[serde(skip_serializing_if = "Option::is_none")]
    rebuild: Option<RebuildOverview>,
}

/// What a running pass has brought to this node in bulk.
#[derive(Serialize, JsonSchema)]
struct RebuildOverview {
    received_bytes: u64,
    received_keys: u64,
    /// How far the pass has come, about: 0 to 1.
    share: f64,
    /// About; left out as long as it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_left: Option<u64>,
}

/// A pass that runs.
#[derive(Serialize, JsonSchema)]
struct RunningRepair {
    #[schemars(extend("enum" = ["incremental", "full"]))]
    kind: &'static str,
    began_unix_ms: u64,
    ranges: u64,
}

/// The passes of a kind that have ended.
#[derive(Serialize, JsonSchema)]
struct EndedRepairs {
    /// How often they begin; left out if they do not by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_seconds: Option<u64>,
    clean: u64,
    incomplete: u64,
    /// Left out until one has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_end_unix_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_duration_ms: Option<u64>,
}

/// The node's clock and its timestamps.
#[derive(Serialize, JsonSchema)]
struct Clock {
    unix_ms: u64,
    /// The greatest timestamp issued, as a string, because many JSON readers round
    /// long numbers.
    greatest_timestamp: String,
    /// How far the greatest timestamp that was issued or seen is ahead of the clock.
    timestamp_ahead_ms: u64,
    /// This node has issued no timestamp above it.
    timestamp_bound: String,
    /// How far the other nodes' clocks are ahead: the median of the known ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    others_ahead_ms: Option<i64>,
    /// Whether the clock is near those of a majority of the other nodes.
    proven: bool,
    /// Why this node refuses writes, if it allocates no timestamps.
    #[serde(skip_serializing_if = "Option::is_none")]
    refuses_writes: Option<String>,
}

/// What the store holds.
#[derive(Serialize, JsonSchema)]
struct Store {
    id: String,
    /// When the store was created, by the node's clock; left out if an earlier release did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_unix_ms: Option<u64>,
    #[schemars(extend("enum" = ["open", "disk full", "cannot write files", "read-only until it is restarted"]))]
    state: &'static str,
    /// The number of versions, not of keys, in tables and memtables.
    entries: u64,
    /// The number of tombstones in tables.
    tombstones: u64,
    /// Tables with a damaged block. Compaction does not merge them.
    tables_damaged: u64,
    /// Key ranges that damaged blocks may have held, until the other nodes have repaired them.
    damaged_ranges: u64,
    /// The compaction of everything that is under way; left out while none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    compaction: Option<Compaction>,
    table_bytes: u64,
    memtable_bytes: u64,
    log_bytes: u64,
    cache_bytes: u64,
    /// Whether the node refuses puts because its disk is full.
    disk_full: bool,
    /// Why the store cannot write files in its folder, if it cannot. It tries again each second.
    failing: Option<String>,
    /// Why the store is read-only, if it is.
    poisoned: Option<String>,
    /// Left out until the first table is written, because there is nothing to compare.
    #[serde(skip_serializing_if = "Option::is_none")]
    write_amplification: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    space_amplification: Option<f64>,
}

/// A compaction that an operator has asked for.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RunningCompaction")]
struct Compaction {
    began_unix_ms: u64,
    /// Of keys and values.
    merged_bytes: u64,
}

/// `GET` and `HEAD`.
pub(super) async fn answer(exchange: Exchange<'_>) -> Answer {
    query::none(exchange.query())?;
    exchange.authorize(RequestedKeys::NoKey)?;
    exchange.check_body_limit()?;
    let listener = exchange.listener;
    while !has_started(listener) {
        sleep(START_CHECK).await;
    }
    exchange.render(|| page::json(&status(listener))).await
}

/// Whether the node has started, for those who wait for that; it has within two seconds.
fn has_started(listener: &Listener) -> bool {
    let peers = listener.shared().config().node.members.peers();
    let links = peers.filter_map(|node| listener.worker.link_status(node));
    let (now, own) = (
        listener.clock().monotonic(),
        listener.worker.node().replica_state(),
    );
    listener.is_stopping() || listener.shared().start_hold.is_over(now, own, links)
}

fn status(listener: &Listener) -> Status<'_> {
    let node = listener.worker.node();
    let config = listener.shared().config();
    let statistics = node.statistics();
    let timestamps = node.timestamp_status();
    let sweep_status = node.sweep_status();
    let state = if listener.is_stopping() {
        "stopping"
    } else {
        "serving"
    };
    Status {
        name: config.node.name(),
        url: config.node.url().to_string(),
        version: &config.version,
        uptime_seconds: node.uptime().as_secs(),
        state,
        replica_state: node.replica_state().word(),
        learner_because: node.learner_because(),
        may_be_lost: node.loss_report().map(|report| MayBeLost {
            text: report.to_string(),
            writes_max: report.loss.writes_max(),
            single_copies: report.loss.single_copies,
            since_full_repair: report.loss.since_full_pass,
            incomplete: report.loss.has_unknown,
            filled: report.is_over,
            nodes: report.nodes,
        }),
        cluster: members(listener, &sweep_status),
        value_bytes_max: config.node.value_bytes_max,
        tls: listener.shared().tls.as_deref().map(tls_status),
        hints: Hints {
            age_max_seconds: config.node.hint_age_max.as_secs(),
            bytes_max: config.node.hint_bytes_max,
        },
        repair: repair(listener, &sweep_status),
        tombstone_gc: tombstone_gc(listener),
        non_owned: non_owned(listener),
        background: BackgroundWork {
            share: node.background_share(),
        },
        clock: Clock {
            unix_ms: listener.clock().unix_ms(),
            greatest_timestamp: timestamps.greatest.to_string(),
            timestamp_ahead_ms: timestamps.timestamp_ahead_ms,
            timestamp_bound: timestamps.bound.to_string(),
            others_ahead_ms: timestamps.peers_ahead_ms,
            proven: timestamps.is_proven,
            refuses_writes: timestamps.refusal.map(|why| why.to_string()),
        },
        store: Store {
            id: format!("{:032x}", node.store_id()),
            created_unix_ms: node.store_created_unix_ms(),
            state: if statistics.poisoned.is_some() {
                "read-only until it is restarted"
            } else if statistics.failing.is_some() {
                "cannot write files"
            } else if statistics.disk_full {
                "disk full"
            } else {
                "open"
            },
            entries: statistics.table_entries + statistics.memtable_entries,
            tombstones: statistics.table_tombstones,
            tables_damaged: statistics.tables_damaged,
            damaged_ranges: statistics.damaged_ranges,
            compaction: node.running_compaction().map(|running| Compaction {
                began_unix_ms: running.began_unix_ms,
                merged_bytes: running.merged_bytes,
            }),
            table_bytes: statistics.levels.iter().map(|level| level.bytes).sum(),
            memtable_bytes: statistics.memtable_bytes,
            log_bytes: statistics.log_bytes,
            cache_bytes: statistics.cache_bytes,
            disk_full: statistics.disk_full,
            write_amplification: (statistics.flushes > 0).then(|| statistics.write_amplification()),
            space_amplification: statistics
                .levels
                .iter()
                .any(|level| level.bytes > 0)
                .then(|| statistics.space_amplification()),
            failing: statistics.failing,
            poisoned: statistics.poisoned,
        },
    }
}

fn tls_status(tls: &ListenerTls) -> Tls {
    let status = tls.node_tls.status();
    Tls {
        optional: tls.is_optional(),
        verifies_peers: tls.node_tls.verifies_peers(),
        certificate_expires_unix_ms: status.expires_unix_s.saturating_mul(1000),
        reloads: status.reloads,
        problem: status.problem,
    }
}

/// The nodes of the cluster, in the order of their names.
fn members<'a>(listener: &'a Listener, repair: &SweepStatus) -> Vec<Member<'a>> {
    let own = listener.worker.node();
    let members = &listener.shared().config().node.members;
    let last_clean = |node: NodeNumber| repair.last_clean.get(node.index());
    members
        .numbers()
        .map(|node| {
            let link = listener.worker.link_status(node);
            let waiting = own.hints_waiting(node);
            Member {
                name: members.name(node),
                url: members.url(node).to_string(),
                state: match &link {
                    None => "this node",
                    Some(link) => link.state.word(),
                },
                replica_state: match &link {
                    None => Some(own.replica_state()),
                    Some(link) => link.replica_state,
                }
                .map(ReplicaState::word),
                clock_ahead_ms: link.and_then(|link| link.drift_ms),
                down_seconds: link
                    .and_then(|link| link.down_for)
                    .map(|down_for| down_for.as_secs()),
                hints: waiting.hints,
                hint_bytes: waiting.bytes,
                last_repair_unix_ms: last_clean(node).and_then(|clean| clean.any_unix_ms),
                last_full_repair_unix_ms: last_clean(node).and_then(|clean| clean.full_unix_ms),
            }
        })
        .collect()
}

fn repair(listener: &Listener, status: &SweepStatus) -> Repair {
    let config = &listener.shared().config().node;
    let counts = status.counts;
    let ended = |kind: PassKind, interval: Option<Duration>| {
        let ended = status.ended[kind as usize];
        let duration = u64::try_from(ended.last_duration.as_millis()).unwrap_or(u64::MAX);
        EndedRepairs {
            interval_seconds: interval.map(|interval| interval.as_secs()),
            clean: ended.clean,
            incomplete: ended.incomplete,
            last_end_unix_ms: ended.last_end_unix_ms,
            last_duration_ms: ended.last_end_unix_ms.map(|_| duration),
        }
    };
    let running = status.running.iter().map(|pass| RunningRepair {
        kind: pass.kind.word(),
        began_unix_ms: pass.began_unix_ms,
        ranges: pass.ranges,
    });
    Repair {
        running: running.collect(),
        incremental: ended(PassKind::Recent, config.repair_interval),
        full: ended(PassKind::Full, config.full_repair_interval),
        repair_writes_sent: counts.repair_writes_sent,
        repair_writes_received: counts.repair_writes_received,
        ranges_compared: counts.ranges_compared,
        ranges_differing: counts.ranges_differing,
        non_owned_offered: counts.non_owned_offered,
        rebuild: status.refill.as_ref().map(|rebuild| RebuildOverview {
            received_bytes: rebuild.received_bytes,
            received_keys: rebuild.received_keys,
            share: f64::from(rebuild.position_permille) / 1e3,
            seconds_left: rebuild.time_left.map(|left| left.as_secs()),
        }),
    }
}
