//! What operators order of the list of members, and why not.

use cluster::layout::MemberList;
use cluster::layout::driver::CommandFailure;
use cluster::{NodeId, NodeUrl, Replicas};
use std::sync::Arc;

/// What an operator orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOrder {
    /// Nodes join, others leave, or both at once. One that leaves dead and one that joins: the
    /// second replaces the first.
    Members {
        /// The names of nodes that wait to join.
        join: Vec<String>,
        /// The names of members that leave.
        leave: Vec<String>,
        /// Whether those that leave never come back, so that nothing waits for them.
        are_dead: bool,
    },
    /// A member is reached at another URL from now on, with its store or with an empty one.
    Move {
        /// Its name.
        name: String,
        /// Its new URL.
        url: NodeUrl,
    },
    /// Requests that do not say otherwise have this pair.
    Pair(Replicas),
    /// The change that is under way is undone.
    Abort,
    /// These members go on by themselves, because a majority never comes back: all others are
    /// declared dead without a vote.
    Force(Vec<String>),
}

/// What an order does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The list before.
    pub before: Arc<MemberList>,
    /// The list that follows it: that with which the change begins.
    pub after: Arc<MemberList>,
    /// The members that are not up now and not dead: the change ends once they are back, or are
    /// declared dead.
    pub down: Vec<NodeId>,
    /// Whether it was only planned.
    pub is_dry_run: bool,
}

/// Why an order is refused, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeRefusal {
    /// The list does not allow it.
    #[error(transparent)]
    Refused(#[from] cluster::layout::Refusal),
    /// Too few of those who decide answer. The change may yet be decided.
    #[error(
        "no majority of the members answers in time, so nothing may have changed: see the list of \
         members, start nodes that are down, and try again"
    )]
    NoMajority,
    /// Another order is under way at this node.
    #[error("another order is under way at this node: try again once it has ended")]
    Busy,
    /// This node has no peers.
    #[error(
        "this node is alone: start it anew with --cluster and its own name and URL, and with the \
         --cluster-secret-file that the others will have; then they can join"
    )]
    Alone,
    /// The nodes of a new cluster have not all met.
    #[error("the nodes of the cluster have not all met yet: start all of them, and try again")]
    NotMet,
    /// This node is no member any more.
    #[error("this node was removed from the list of members: ask another one")]
    Removed,
    /// No such node waits to join.
    #[error(
        "no node called {name} waits to join: start it on an empty folder with --join and the URL \
         of a member, and try again once its status says that it waits"
    )]
    NotWaiting {
        /// The name.
        name: String,
    },
    /// The node that is to join cannot be reached.
    #[error(
        "{name} waits to join, but its URL cannot be reached from {}: correct its --url or the \
         network between them", from.join(" and ")
    )]
    Unreachable {
        /// The name of the node that is to join.
        name: String,
        /// The names of the members that cannot reach it.
        from: Vec<String>,
    },
    /// The node that is to join has not reached all members.
    #[error(
        "{name} waits to join, but has not reached {}: correct the network between them",
        members.join(" and ")
    )]
    NotHeard {
        /// The name of the node that is to join.
        name: String,
        /// The names of the members that have not heard of it.
        members: Vec<String>,
    },
    /// The clock of the node that is to join is wrong.
    #[error("the clock of {name} is {ahead_ms} ms ahead of that of this node: correct it first")]
    Clock {
        /// The name.
        name: String,
        /// By how much; negative if it is behind.
        ahead_ms: i64,
    },
    /// The node that is asked to force the list is not to be left.
    #[error(
        "{own} is asked, and has to be one of those that are left: name it, or ask one of them"
    )]
    NotLeft {
        /// Its name.
        own: String,
    },
    /// The list is not durable in time.
    #[error("the list is not durable yet: see the log of this node, and the list of members")]
    NotDurable,
    /// A member's release does not know changes of the list.
    #[error(
        "the release of {} does not know changes of the list of members: upgrade all nodes first",
        names.join(" and ")
    )]
    OldRelease {
        /// The names of the members.
        names: Vec<String>,
    },
}

impl From<CommandFailure> for ChangeRefusal {
    fn from(failure: CommandFailure) -> Self {
        match failure {
            CommandFailure::Refused(refusal) => Self::Refused(refusal),
            CommandFailure::NoMajority => Self::NoMajority,
            CommandFailure::Busy => Self::Busy,
        }
    }
}
