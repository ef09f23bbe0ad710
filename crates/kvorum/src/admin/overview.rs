//! What `kvorum admin status` prints of all nodes.

use super::tombstone_gc::TombstoneGcOverview;
use api::cluster::{Advice, Cluster, ClusterNode, ReportNumbers, hints_for};
use api::status::{NonOwnedCopies, RebuildOverview, Status};
use serde::Serialize;

/// All nodes of a cluster.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Overview {
    pub(super) quorum: QuorumOverview,
    pub(super) nodes: Vec<NodeOverview>,
    /// The sessions that run, as the node that has come furthest sees them.
    pub(super) repair: Vec<RepairOverview>,
    /// How far tombstone GC has come; left out for a node alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tombstone_gc: Option<TombstoneGcOverview>,
    /// What an operator has to do, as the node says that was asked.
    pub(super) advice: Vec<Advice>,
}

/// What quorums of all nodes can bear: the requests that choose no `ack` and `from`.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub(super) struct QuorumOverview {
    pub(super) nodes: usize,
    /// The nodes that serve and whose answers count.
    pub(super) voters: usize,
    /// Those of them whose stores take puts: their disks are not full, and files can be written.
    pub(super) writers: usize,
    /// How many of these may fail and leave a quorum for puts; left out if there is none now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failures_tolerated: Option<usize>,
}

impl QuorumOverview {
    pub(super) fn of(nodes: &[NodeOverview]) -> Self {
        let counts = |node: &&NodeOverview| {
            node.state == "serving"
                && matches!(
                    node.replica_state.as_deref(),
                    Some("voter" | "forced_voter")
                )
        };
        let voters = nodes.iter().filter(counts);
        let takes_puts =
            |node: &&NodeOverview| matches!(node.store.as_deref(), None | Some("open"));
        let writers = voters.clone().filter(takes_puts).count();
        let majority = nodes.len() / 2 + 1;
        Self {
            nodes: nodes.len(),
            voters: voters.count(),
            writers,
            failures_tolerated: writers.checked_sub(majority),
        }
    }
}

/// A node of a cluster.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct NodeOverview {
    pub(super) name: String,
    pub(super) url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    /// `serving`, `stopping`, `unreachable`; `unknown` if it answers without a status.
    pub(super) state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replica_state: Option<String>,
    /// Whether its store takes puts: `open`, or why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) store: Option<String>,
    /// Its load and its disk; left out if it has said nothing, and for tokens without the right
    /// `metrics`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) report: Option<ReportNumbers>,
    /// How far its clock is ahead of the median of the others; left out while that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) clock_ahead_ms: Option<i64>,
    /// How long its certificate is valid: 0 if it has expired. Left out without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) certificate_seconds_left: Option<u64>,
    /// The writes that it missed and that the other nodes keep for it.
    pub(super) hints_waiting: u64,
    /// The share of its time that background work may use: below 1 while clients feel it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) background_share: Option<f64>,
    /// How far the rebuild of its store has come, while a repair rebuilds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rebuild: Option<RebuildOverview>,
    /// The compaction that an operator has asked for, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compaction: Option<CompactionOverview>,
    /// The copies that are beyond the replicas of their versions; left out for a node alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) non_owned: Option<NonOwnedCopies>,
    /// For each other node, how long ago a repair found the two equal.
    pub(super) last_equal: Vec<LastEqualOverview>,
}

/// When a node was last found equal with another.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub(super) struct LastEqualOverview {
    pub(super) name: String,
    /// Left out if no repair ever did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seconds_ago: Option<u64>,
}

/// A compaction that runs.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub(super) struct CompactionOverview {
    pub(super) seconds: u64,
    /// Of keys and values.
    pub(super) merged_bytes: u64,
}

/// A session that runs.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub(super) struct RepairOverview {
    pub(super) kind: String,
    pub(super) seconds: u64,
    pub(super) ranges: u64,
    /// How far it has come in the bytes of the store, from 0 to 1; left out while that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes_per_second: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seconds_left: Option<u64>,
}

impl Overview {
    /// Puts together what the nodes have said.
    pub(super) fn of(cluster: &Cluster) -> Self {
        let statuses = || cluster.nodes.iter().filter_map(|node| node.status.as_ref());
        let nodes: Vec<NodeOverview> = cluster
            .nodes
            .iter()
            .map(|node| {
                let status = node.status.as_ref();
                NodeOverview {
                    name: node.name.clone(),
                    url: node.url.clone(),
                    version: status.map(|status| status.version.clone()),
                    report: node.report.clone(),
                    clock_ahead_ms: status
                        .and_then(|status| status.clock.others_ahead_ms)
                        .map(i64::wrapping_neg),
                    certificate_seconds_left: status.and_then(certificate_seconds_left),
                    state: state_of(node).to_owned(),
                    replica_state: replica_state_of(node, &cluster.nodes),
                    store: status.map(|status| status.store.state.clone()),
                    hints_waiting: hints_for(&cluster.nodes, &node.name),
                    background_share: status.map(|status| status.background.share),
                    rebuild: status.and_then(|status| status.repair.rebuild.clone()),
                    compaction: status.and_then(compaction),
                    non_owned: status.and_then(|status| status.non_owned.clone()),
                    last_equal: status.map_or_else(Vec::new, last_equal),
                }
            })
            .collect();
        let all: Vec<&Status> = statuses().collect();
        // Each node says how far it is itself. They are never more than a range apart.
        let furthest = statuses().max_by_key(|status| {
            let running = status.repair.running.iter();
            let ranges = running.map(|repair| repair.ranges.saturating_add(1));
            ranges.fold(0, u64::saturating_add)
        });
        Self {
            quorum: QuorumOverview::of(&nodes),
            nodes,
            repair: furthest.map_or_else(Vec::new, |status| running(status, &all)),
            tombstone_gc: TombstoneGcOverview::of(&cluster.nodes),
            advice: cluster.advice.clone(),
        }
    }
}

/// The node's state in an overview. The status of a node with very many members does not travel.
fn state_of(node: &ClusterNode) -> &str {
    let is_too_long = node.status_missed.as_deref() == Some(ClusterNode::STATUS_TOO_LONG);
    match (&node.status, node.missed.as_deref()) {
        (Some(status), _) => &status.state,
        (None, None) if is_too_long => "serving",
        (None, Some("refused" | "suspected" | "timeout")) => "unreachable",
        (None, _) => "unknown",
    }
}

/// The replica state that a node says, or else another one of it.
fn replica_state_of(node: &ClusterNode, nodes: &[ClusterNode]) -> Option<String> {
    if let Some(status) = &node.status {
        return Some(status.replica_state.clone());
    }
    let statuses = nodes.iter().filter_map(|other| other.status.as_ref());
    let mut members = statuses.flat_map(|status| &status.cluster);
    let member = members.find(|member| member.name == node.name && member.replica_state.is_some());
    member?.replica_state.clone()
}

fn certificate_seconds_left(status: &Status) -> Option<u64> {
    let expires_unix_ms = status.tls.as_ref()?.certificate_expires_unix_ms;
    Some(expires_unix_ms.saturating_sub(status.clock.unix_ms) / 1000)
}

fn compaction(status: &Status) -> Option<CompactionOverview> {
    let running = status.store.compaction.as_ref()?;
    Some(CompactionOverview {
        seconds: status.seconds_since(Some(running.began_unix_ms))?,
        merged_bytes: running.merged_bytes,
    })
}

fn last_equal(status: &Status) -> Vec<LastEqualOverview> {
    let others = status.others();
    let last = others.map(|member| LastEqualOverview {
        name: member.name.clone(),
        seconds_ago: status.seconds_since(member.last_repair_unix_ms),
    });
    last.collect()
}

/// The sessions that a node runs. The one that comes last through the bytes of its store says how far
/// they are: a node whose store is rebuilt does not.
fn running(status: &Status, all: &[&Status]) -> Vec<RepairOverview> {
    let running = status.repair.running.iter();
    let running = running.map(|repair| {
        let of_kind = all.iter().flat_map(|status| &status.repair.running);
        let of_kind = of_kind.filter(|other| other.kind == repair.kind);
        let known = of_kind.filter_map(|other| Some((other.share?, other)));
        let last = known.min_by(|(one, _), (other, _)| one.total_cmp(other));
        let last = last.map(|(_, last)| last);
        RepairOverview {
            kind: repair.kind.clone(),
            seconds: status.clock.unix_ms.saturating_sub(repair.began_unix_ms) / 1000,
            ranges: repair.ranges,
            share: last.and_then(|last| last.share),
            bytes_per_second: last.and_then(|last| last.bytes_per_second),
            seconds_left: last.and_then(|last| last.seconds_left),
        }
    });
    running.collect()
}
