//! All nodes of a cluster, as each of them says itself, and what an operator has to do:
//! `/v0/cluster`.

#![expect(
    missing_docs,
    reason = "a field whose name says it all needs no text in the OpenAPI document"
)]

use crate::history::History;
use crate::members::MemberList;
use crate::status::Status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How the nodes of a cluster are.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Cluster {
    /// The node that has asked the others.
    pub asked_by: String,
    /// All nodes, in the order of their names.
    pub nodes: Vec<ClusterNode>,
    /// What an operator has to do, the worst first.
    pub advice: Vec<Advice>,
    /// The list of members and how far a change of it is; left out for a node alone, and until the
    /// nodes of a new cluster have all met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<MemberList>,
}

/// A node, as it says itself.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ClusterNode {
    pub name: String,
    pub url: String,
    /// Why the node has said nothing; left out if it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [
        "timeout", "suspected", "refused", "unsupported", "overloaded", "failed",
    ]))]
    pub missed: Option<String>,
    /// What its clients and its disk are like; left out if it has said nothing, and for tokens
    /// without the right `metrics`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<ReportNumbers>,
    /// Its status; left out if it has said nothing, or none that this node can use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Why there is no status although the node has answered; left out otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["too long", "other release", "other name"]))]
    pub status_missed: Option<String>,
    /// What it did in the last five minutes; left out if it has not said so, and for tokens
    /// without the right `metrics`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent: Option<History>,
}

impl ClusterNode {
    /// Its status is longer than a node report takes.
    pub const STATUS_TOO_LONG: &str = "too long";
    /// Its status is that of another release, or it tells none.
    pub const STATUS_OF_OTHER_RELEASE: &str = "other release";
    /// Its status is that of a node of another name.
    pub const STATUS_OF_OTHER_NAME: &str = "other name";
}

/// The writes that a node missed and that the others keep for it.
#[must_use]
pub fn hints_for(nodes: &[ClusterNode], name: &str) -> u64 {
    let statuses = nodes.iter().filter_map(|node| node.status.as_ref());
    let members = statuses.flat_map(Status::others);
    let hints = members.filter(|member| member.name == name);
    hints
        .map(|member| member.hints)
        .fold(0, u64::saturating_add)
}

/// The numbers that a node reports.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "NodeReport")]
pub struct ReportNumbers {
    /// What the tables and the log of its store take.
    pub data_bytes: u64,
    /// What the disk of its data folder has left for it; left out if the disk did not tell in
    /// time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// What this disk has in all, used space included; left out if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// The writes that it keeps for nodes that missed them.
    pub hints: u64,
    /// The share of its time that background work may use: 1 unless clients feel it.
    pub background_share: f64,
    /// Requests for keys and operations of batches that it answered in the last seconds.
    pub requests_a_second: f64,
    /// How long `GET`s and `HEAD`s of keys took in the last minute; left out if there were
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<Quantiles>,
    /// The same of `PUT`s and `DELETE`s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<Quantiles>,
}

/// What a half, 99% and 99.9% of the requests took at most, about.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "LatencyQuantiles")]
pub struct Quantiles {
    pub p50_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
}

/// Something that an operator has to do or to know.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Advice {
    /// How urgent it is.
    pub severity: Severity,
    /// The node that it is about; left out where it is about the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
    /// The runbook that says more: a heading of docs/how-to/runbooks.md, which each node's
    /// console shows.
    pub runbook: String,
    /// The address of this runbook in the console of the node that was asked.
    pub runbook_url: String,
}

/// How urgent it is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Requests may fail, or data may be missing.
    Bad,
    /// It will be bad, or is slow.
    Warn,
    /// Nothing is to be done now.
    Note,
}

impl Severity {
    /// The word for it in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Warn => "warn",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.node.as_deref().unwrap_or("cluster");
        write!(formatter, "{node}: {}. {}", self.what, self.remedy)
    }
}

impl Advice {
    /// Advice about a node, whose runbook has no address yet.
    pub fn of_node(
        severity: Severity,
        node: &str,
        what: impl Into<String>,
        remedy: impl Into<String>,
        runbook: &str,
    ) -> Self {
        Self {
            node: Some(node.to_owned()),
            ..Self::of_cluster(severity, what, remedy, runbook)
        }
    }

    /// Advice about the cluster, whose runbook has no address yet.
    pub fn of_cluster(
        severity: Severity,
        what: impl Into<String>,
        remedy: impl Into<String>,
        runbook: &str,
    ) -> Self {
        Self {
            severity,
            node: None,
            what: what.into(),
            remedy: remedy.into(),
            runbook: runbook.to_owned(),
            runbook_url: String::new(),
        }
    }
}
