//! What the statuses of all nodes say together.

use super::advice;
use super::tombstone_gc::{TombstoneGcOverview, TombstoneGcStatus};
use crate::failure::Failure;
use serde::{Deserialize, Serialize};

/// The status of a node, as far as it is used here.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct NodeStatus {
    pub(super) name: String,
    pub(super) uptime_seconds: u64,
    pub(super) value_bytes_max: Option<u64>,
    pub(super) state: String,
    pub(super) replica_state: String,
    /// Why the last full repair has not filled its store.
    pub(super) learner_because: Option<String>,
    pub(super) cluster: Vec<Member>,
    pub(super) clock: ClockStatus,
    pub(super) hints: HintLimits,
    pub(super) repair: RepairStatus,
    pub(super) tombstone_gc: Option<TombstoneGcStatus>,
    pub(super) non_owned: Option<NonOwnedStatus>,
    pub(super) background: BackgroundStatus,
    pub(super) store: StoreStatus,
    pub(super) may_be_lost: Option<LossStatus>,
}

/// What may be lost with stores that were learners.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct LossStatus {
    /// The names of the nodes of these stores.
    pub(super) nodes: Vec<String>,
    pub(super) writes_max: u64,
    /// Whether there is a part that the node does not know.
    pub(super) incomplete: bool,
    pub(super) text: String,
}

/// A node in the status of another.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) state: String,
    pub(super) down_seconds: Option<u64>,
    pub(super) hints: u64,
    pub(super) hint_bytes: u64,
    pub(super) last_repair_unix_ms: Option<u64>,
    pub(super) last_full_repair_unix_ms: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ClockStatus {
    pub(super) unix_ms: u64,
    pub(super) others_ahead_ms: Option<i64>,
    pub(super) proven: Option<bool>,
    pub(super) refuses_writes: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct HintLimits {
    pub(super) age_max_seconds: u64,
    pub(super) bytes_max: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct RepairStatus {
    pub(super) running: Vec<RunningRepair>,
    pub(super) incremental: RepairsOfKind,
    pub(super) full: RepairsOfKind,
    pub(super) rebuild: Option<RebuildStatus>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct BackgroundStatus {
    pub(super) share: f64,
}

/// How far the filling of a node's store has come.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub(super) struct RebuildStatus {
    pub(super) received_bytes: u64,
    /// 0 to 1.
    pub(super) share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seconds_left: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct RunningRepair {
    pub(super) kind: String,
    pub(super) began_unix_ms: u64,
    pub(super) ranges: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct RepairsOfKind {
    pub(super) interval_seconds: Option<u64>,
    /// The passes that have not found the node equal with every other node.
    pub(super) incomplete: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct StoreStatus {
    pub(super) poisoned: Option<String>,
    /// Left out by older releases.
    #[serde(default)]
    pub(super) failing: Option<String>,
    pub(super) disk_full: bool,
    pub(super) tables_damaged: u64,
    pub(super) damaged_ranges: u64,
    pub(super) compaction: Option<CompactionStatus>,
}

/// The copies on a node that are beyond the replicas of their versions.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub(super) struct NonOwnedStatus {
    /// How many.
    pub(super) copies: u64,
    /// How old the bound is below which they may be dropped; left out while none may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) age_seconds: Option<u64>,
}

/// A compaction that an operator has asked for.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct CompactionStatus {
    began_unix_ms: u64,
    merged_bytes: u64,
}

/// What became of the question for a node's status.
pub(super) struct Asked {
    /// The node's name and URL, as the first node that was asked knows them.
    pub(super) name: String,
    pub(super) url: String,
    /// The status, or why there is none.
    pub(super) status: Result<NodeStatus, NoStatus>,
}

/// Why a node's status is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoStatus {
    /// It has not answered.
    Unreachable(Failure),
    /// It has answered something else.
    NotGiven(Failure),
}

impl NoStatus {
    /// The node's state in an overview.
    fn word(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::NotGiven(_) => "unknown",
        }
    }
}

impl From<NoStatus> for Failure {
    fn from(no_status: NoStatus) -> Self {
        match no_status {
            NoStatus::Unreachable(failure) | NoStatus::NotGiven(failure) => failure,
        }
    }
}

/// All nodes of a cluster.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub(super) struct Overview {
    pub(super) nodes: Vec<NodeOverview>,
    /// The passes that run, as the node that has come furthest sees them.
    pub(super) repair: Vec<RepairOverview>,
    /// How far what was deleted is forgotten; left out for a node alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tombstone_gc: Option<TombstoneGcOverview>,
    /// What an operator has to do, a line each.
    pub(super) advice: Vec<String>,
}

/// A node of a cluster.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub(super) struct NodeOverview {
    pub(super) name: String,
    pub(super) url: String,
    /// `serving`, `stopping`, `unreachable`; `unknown` if it answers without a status.
    pub(super) state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replica_state: Option<String>,
    /// The writes that it missed and that the other nodes keep for it.
    pub(super) hints_waiting: u64,
    /// The share of its time that background work may use: below 1 while clients feel it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) background_share: Option<f64>,
    /// How far the filling of its store has come, while a repair fills it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rebuild: Option<RebuildStatus>,
    /// The compaction that an operator has asked for, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compaction: Option<CompactionOverview>,
    /// The copies that are beyond the replicas of their versions; left out for a node alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) non_owned: Option<NonOwnedStatus>,
    /// For each other node, how long ago a repair found the two equal.
    pub(super) last_clean: Vec<LastCleanOverview>,
}

/// When a node was last found equal with another.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub(super) struct LastCleanOverview {
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

/// A pass that runs.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub(super) struct RepairOverview {
    pub(super) kind: String,
    pub(super) seconds: u64,
    pub(super) ranges: u64,
}

impl Overview {
    /// Puts together what the nodes have answered.
    pub(super) fn of(asked: &[Asked]) -> Self {
        let statuses = || asked.iter().filter_map(|asked| asked.status.as_ref().ok());
        let hints_for = |name: &str| {
            let members = statuses().flat_map(|status| &status.cluster);
            let of_node = members.filter(|member| member.name == name);
            of_node.map(|member| member.hints).sum()
        };
        let nodes = asked.iter().map(|asked| {
            let status = asked.status.as_ref();
            NodeOverview {
                name: asked.name.clone(),
                url: asked.url.clone(),
                state: status
                    .map_or_else(|no_status| no_status.word(), |status| &status.state)
                    .to_owned(),
                replica_state: status.ok().map(|status| status.replica_state.clone()),
                hints_waiting: hints_for(&asked.name),
                background_share: status.ok().map(|status| status.background.share),
                rebuild: status.ok().and_then(|status| status.repair.rebuild.clone()),
                compaction: status.ok().and_then(NodeStatus::compaction),
                non_owned: status.ok().and_then(|status| status.non_owned),
                last_clean: status.map_or_else(|_| Vec::new(), NodeStatus::last_clean),
            }
        });
        // Each node says how far it is itself. They are never more than a range apart.
        let furthest = statuses().max_by_key(|status| {
            let ranges = status.repair.running.iter().map(|sweep| sweep.ranges + 1);
            ranges.sum::<u64>()
        });
        Self {
            nodes: nodes.collect(),
            repair: furthest.map_or_else(Vec::new, NodeStatus::running),
            tombstone_gc: TombstoneGcOverview::of(asked),
            advice: advice::of(asked),
        }
    }
}

impl NodeStatus {
    /// How long ago this node was found equal with another.
    pub(super) fn seconds_since_clean(&self, member: &Member) -> Option<u64> {
        self.seconds_since(member.last_repair_unix_ms)
    }

    /// How long ago something happened, by this node's clock.
    pub(super) fn seconds_since(&self, unix_ms: Option<u64>) -> Option<u64> {
        Some(self.clock.unix_ms.saturating_sub(unix_ms?) / 1000)
    }

    /// The lines of the other nodes.
    pub(super) fn others(&self) -> impl Iterator<Item = &Member> {
        self.cluster
            .iter()
            .filter(|member| member.name != self.name)
    }

    fn compaction(&self) -> Option<CompactionOverview> {
        let running = self.store.compaction.as_ref()?;
        Some(CompactionOverview {
            seconds: self.seconds_since(Some(running.began_unix_ms))?,
            merged_bytes: running.merged_bytes,
        })
    }

    fn last_clean(&self) -> Vec<LastCleanOverview> {
        self.others()
            .map(|member| LastCleanOverview {
                name: member.name.clone(),
                seconds_ago: self.seconds_since_clean(member),
            })
            .collect()
    }

    fn running(&self) -> Vec<RepairOverview> {
        let running = self.repair.running.iter();
        running
            .map(|sweep| RepairOverview {
                kind: sweep.kind.clone(),
                seconds: self.clock.unix_ms.saturating_sub(sweep.began_unix_ms) / 1000,
                ranges: sweep.ranges,
            })
            .collect()
    }
}
