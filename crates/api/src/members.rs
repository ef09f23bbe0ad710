//! The list of members of a cluster, and a change of it: a part of `/v0/cluster`, and what
//! `POST /v0/admin/members` answers.

#![expect(
    missing_docs,
    reason = "a field whose name says it all needs no text in the OpenAPI document"
)]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The list of members, as the node knows it that was asked, and how far a change of it is.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct MemberList {
    /// Which cluster: a random number, in hexadecimal digits.
    pub cluster_id: String,
    /// The number of the list. Each change has several.
    pub epoch: u64,
    #[schemars(extend("enum" = ["stable", "copying", "settling", "aborting"]))]
    pub phase: String,
    /// How many replicas have to answer requests that do not say it, and of how many, as 2/3.
    pub default_pair: String,
    /// The members of the old and of the new list.
    pub members: Vec<ListedMember>,
    /// The members that have not reported this epoch; the change waits for them.
    pub missing_reports: Vec<String>,
    /// The data that has not been brought; the change waits for it.
    pub missing_facts: Vec<MissingFact>,
    /// The nodes that wait to join.
    pub waiting: Vec<WaitingNode>,
    /// Whether the node that was asked is a member no more.
    pub removed: bool,
}

/// A member of the list.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ListedMember {
    pub name: String,
    pub url: String,
    /// What it fails together with; left out if it was not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// In which lists it is: one of the old list alone leaves, and one of the new list alone joins.
    #[schemars(extend("enum" = ["both", "old", "new"]))]
    pub lists: String,
    /// Whether an operator has declared it dead.
    pub dead: bool,
    /// Whether the node that was asked is connected with it.
    pub up: bool,
    /// The last epoch that it has reported: no request of it goes by an earlier list.
    pub reported: u64,
    /// The old members whose data it has, as it has reported in this change.
    pub has_data_of: Vec<String>,
}

/// What a change waits for: a node that gains keys has yet to be made equal with an old member.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct MissingFact {
    /// The name of the node that gains keys.
    pub node: String,
    /// The name of the old member.
    pub data_of: String,
}

/// A node that waits to join.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct WaitingNode {
    pub name: String,
    pub url: String,
    /// What it fails together with; left out if it was not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// How long ago it was heard last.
    pub heard_seconds_ago: u64,
    /// How far its clock is ahead of that of the node that was asked.
    pub clock_ahead_ms: i64,
}

/// What a change of the members does.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct MembersPlan {
    /// Whether it was only planned.
    pub dry_run: bool,
    /// The epoch of the list with which the change begins.
    pub epoch: u64,
    #[schemars(extend("enum" = ["stable", "copying", "settling", "aborting"]))]
    pub phase: String,
    /// About how many bytes move, if all members have said what they hold; left out if not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_bytes: Option<u64>,
    /// How long that takes at least, about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_min: Option<u64>,
    /// How long it takes if requests leave as little time for it as they do now, about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_max: Option<u64>,
    /// The members that are down. The change ends once they are back, or are declared dead.
    pub down: Vec<String>,
    /// The plan for people, a sentence or several a line.
    pub text: Vec<String>,
}
