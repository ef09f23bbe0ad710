//! The status of a node as JSON: `/v0/status`, what a node tells the others of itself, and what
//! advice is computed of.
//!
//! Nodes of two releases read each other's: a field that a release adds is an `Option`.

#![expect(
    missing_docs,
    reason = "a field whose name says it all needs no text in the OpenAPI document"
)]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A node, and its cluster as it sees it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Status {
    pub name: String,
    pub url: String,
    pub version: String,
    pub uptime_seconds: u64,
    #[schemars(extend("enum" = ["serving", "stopping", "waiting to join"]))]
    pub state: String,
    /// Why the node waits to join, and what to do; left out unless it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_because: Option<String>,
    /// The replica state of this node's store.
    #[schemars(extend("enum" = ["starting", "voter", "forced_voter", "learner"]))]
    pub replica_state: String,
    /// Why the last full repair has not rebuilt this node's store; left out unless one has ended
    /// and the store is still a learner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learner_because: Option<String>,
    /// What may be lost, if stores were learners since this node was started or this node has set
    /// something aside; left out otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub may_be_lost: Option<MayBeLost>,
    pub cluster: Vec<Member>,
    /// The longest value that clients may send, in bytes.
    pub value_bytes_max: u64,
    pub clock: Clock,
    /// Left out where the node does not speak TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Left out where clients need no tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokensFile>,
    pub hints: Hints,
    pub repair: Repair,
    pub tombstone_gc: TombstoneGc,
    /// Left out for a node alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub non_owned: Option<NonOwnedCopies>,
    pub background: BackgroundWork,
    pub store: Store,
}

/// What may be lost with stores that were learners at one time, and what this node has set aside.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct MayBeLost {
    /// The names of their nodes; this node, if it has only set something aside.
    pub nodes: Vec<String>,
    /// How many acknowledged writes that may be, as far as this node knows.
    pub writes_max: u64,
    /// Those of them that had no second copy at the last full repair.
    pub single_copies: u64,
    /// Those that several of the stores acknowledged since the last full repair.
    pub since_full_repair: u64,
    /// Those that this node has set aside, at most, until an operator decides about them.
    pub set_aside: u64,
    /// Whether there may be more, because this node does not know all of it.
    pub incomplete: bool,
    /// Whether all of the stores have been rebuilt since.
    pub rebuilt: bool,
    /// The same for people.
    pub text: String,
}

/// A node of the cluster, as this one sees it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Member {
    pub name: String,
    pub url: String,
    #[schemars(extend("enum" = ["this node", "connecting", "up", "suspected", "down"]))]
    pub state: String,
    /// The replica state that its store reports; left out while there is no connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_state: Option<String>,
    /// How far its clock is ahead of this node's; left out while that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_ahead_ms: Option<i64>,
    /// For how long this node has had no connection to it, or at least since this node
    /// started; left out while there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down_seconds: Option<u64>,
    /// What keeps the two nodes apart, if one of them has told the other, or TLS shows it; left out
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [
        "other members", "other secret", "other protocol", "other name", "tls",
        "other cluster",
    ]))]
    pub problem: Option<String>,
    /// Why they share no TLS connection, if the problem is `tls`; left out otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_failure: Option<TlsFailure>,
    /// Writes that it missed and that this node keeps for it.
    pub hints: u64,
    pub hint_bytes: u64,
    /// When a repair last found this node equal with it; left out until one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_repair_unix_ms: Option<u64>,
    /// When a full repair did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_full_repair_unix_ms: Option<u64>,
}

/// Why a node has no TLS connection to another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
pub struct TlsFailure {
    /// As `reason` of `kvorum_tls_handshakes_failed_total`.
    #[schemars(extend("enum" = [
        "closed", "plain", "incompatible", "certificate", "refused", "malformed",
    ]))]
    pub reason: String,
    /// What happened, for people; "it" is the other node.
    pub cause: String,
    /// What to do about it.
    pub remedy: String,
}

/// TLS at this node.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Tls {
    /// Whether the node also accepts connections without it.
    pub optional: bool,
    /// Whether nodes verify each other.
    pub verifies_peers: bool,
    /// When the certificate in force, or one of its chain, expires.
    pub certificate_expires_unix_ms: u64,
    /// How often changed files were put in force since the start.
    pub reloads: u64,
    /// Why the files have changed and are not in force; left out unless that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The file of tokens.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct TokensFile {
    /// Whether it cannot be used now, so that what was read before it stays in force.
    pub unusable: bool,
}

/// The limits of hints.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Hints {
    pub age_max_seconds: u64,
    /// For all nodes together.
    pub bytes_max: u64,
}

/// What background work may use.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct BackgroundWork {
    /// Of its time, for each kind: 1 unless clients feel it.
    pub share: f64,
}

/// What the node knows of repairs. All counts begin with the start of the node.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Repair {
    /// The sessions that this node takes part in now.
    pub running: Vec<RunningRepair>,
    pub incremental: EndedRepairs,
    pub full: EndedRepairs,
    pub repair_writes_sent: u64,
    pub repair_writes_received: u64,
    pub ranges_compared: u64,
    pub ranges_differing: u64,
    pub non_owned_offered: u64,
    /// How far the rebuild of this node's store has come; left out while none runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<RebuildOverview>,
}

/// What a running session has streamed to this node.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct RebuildOverview {
    pub received_bytes: u64,
    pub received_keys: u64,
    /// How far the session has come in the bytes of the sender, about: 0 to 1.
    pub share: f64,
    /// About; left out as long as it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// About; left out as long as it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
    /// Why it stands still; left out while it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_because: Option<String>,
}

/// A session that runs.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct RunningRepair {
    #[schemars(extend("enum" = ["incremental", "full"]))]
    pub kind: String,
    pub began_unix_ms: u64,
    pub ranges: u64,
    /// How far a full session has come in the bytes of this node's store, about: 0 to 1. Left out as
    /// long as it cannot be told, and on the node whose store it rebuilds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// How many bytes of the store it comes past in a second; left out as long as it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// About; left out as long as it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
}

/// The sessions of a kind that have ended.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct EndedRepairs {
    /// How often they begin; left out if they do not by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<u64>,
    /// Those that found the node equal with every other node, or made it so.
    pub succeeded: u64,
    /// All others.
    pub incomplete: u64,
    /// Left out until one has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_end_unix_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_duration_ms: Option<u64>,
}

/// The node's clock and its timestamps.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Clock {
    pub unix_ms: u64,
    /// The greatest timestamp issued, as a string, because many JSON readers round
    /// long numbers.
    pub greatest_timestamp: String,
    /// How far the greatest timestamp that was issued or seen is ahead of the clock.
    pub timestamp_ahead_ms: u64,
    /// This node has issued no timestamp above it.
    pub timestamp_bound: String,
    /// How far the other nodes' clocks are ahead: the median of the known ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_ahead_ms: Option<i64>,
    /// Whether the clock is near those of a majority of the other nodes.
    pub proven: bool,
    /// Why this node refuses writes, if it allocates no timestamps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuses_writes: Option<String>,
    /// The same as a word; left out if it refuses none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [
        "stopping", "far", "unmet", "none near", "new store", "timestamps ahead", "disk",
        "restored store", "no time", "no timestamps left",
    ]))]
    pub refuses_because: Option<String>,
}

/// Copies that are not part of the store any more, because they may have been deleted.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct SetAside {
    /// The tables that hold them.
    pub tables: u64,
    /// The bytes of these tables.
    pub bytes: u64,
    /// At most so many copies were set aside.
    pub copies_max: u64,
    /// All of them are below this version, a decimal number.
    pub below: String,
}

/// What the store holds.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Store {
    pub id: String,
    /// When the store was created, by the node's clock; left out if an earlier release did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_unix_ms: Option<u64>,
    #[schemars(extend("enum" = ["open", "disk full", "cannot write files", "read-only until it is restarted"]))]
    pub state: String,
    /// The number of versions, not of keys, in tables and memtables.
    pub entries: u64,
    /// The number of tombstones in tables.
    pub tombstones: u64,
    /// Tables with a damaged block. Compaction does not merge them.
    pub tables_damaged: u64,
    /// Key ranges that damaged blocks may have held, until the other nodes have repaired them.
    pub damaged_ranges: u64,
    /// What was set aside until an operator decides about it; left out if there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<SetAside>,
    /// The compaction of everything that is under way; left out while none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    pub table_bytes: u64,
    /// Tables on the disk that are not part of the store: what compactions under way have written,
    /// and replaced tables that are read or not freed yet.
    #[serde(default)]
    pub overhead_bytes: u64,
    pub memtable_bytes: u64,
    pub log_bytes: u64,
    pub cache_bytes: u64,
    /// Whether the node refuses puts because its disk is full.
    pub disk_full: bool,
    /// How many free bytes the store wants before it takes again what it refuses for lack of room:
    /// puts if its disk is full, otherwise what a rebuild brings. Left out if it refuses nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room_wanted_bytes: Option<u64>,
    /// Why the store cannot write files in its folder, if it cannot. It tries again each second.
    pub failing: Option<String>,
    /// Why the store is read-only, if it is.
    pub poisoned: Option<String>,
    /// Left out until the first table is written, because there is nothing to compare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space_amplification: Option<f64>,
}

/// A compaction that an operator has asked for.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "RunningCompaction")]
pub struct Compaction {
    pub began_unix_ms: u64,
    /// Of keys and values.
    pub merged_bytes: u64,
}

/// Below which bound the node drops what is dead.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct TombstoneGc {
    pub gc_grace_seconds: u64,
    /// The GC threshold as a version, in a string; missing before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gc_threshold: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gc_threshold_unix_ms: Option<u64>,
    /// How old it is by this node's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_timestamp_unix_ms: Option<u64>,
    /// Why the last full repair that this node led has not raised the bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_back: Option<HeldBackBy>,
}

/// The copies on this node that are beyond the replicas of their versions.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct NonOwnedCopies {
    /// How many its tables hold.
    pub copies: u64,
    /// Those of versions before it may be dropped; left out while none may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_unix_ms: Option<u64>,
    /// How old that bound is by this node's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
}

/// Who kept the bound from rising.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct HeldBackBy {
    /// The names of the nodes; none where it was no node's fault.
    pub nodes: Vec<String>,
    /// The same for people.
    pub text: String,
}

impl Status {
    /// The other nodes of the cluster.
    pub fn others(&self) -> impl Iterator<Item = &Member> {
        let others = self.cluster.iter();
        others.filter(|member| member.name != self.name)
    }

    /// How long ago something happened, by this node's clock.
    #[must_use]
    pub fn seconds_since(&self, unix_ms: Option<u64>) -> Option<u64> {
        Some(self.clock.unix_ms.saturating_sub(unix_ms?) / 1000)
    }
}
