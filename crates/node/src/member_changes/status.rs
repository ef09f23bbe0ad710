//! What a node knows of the list of members and of its change.

use cluster::layout::{ChangeProgress, MemberList, MemberReport, WaitsFor};
use cluster::{Member, NodeId, NodeSet, NodeTable};
use peer::JoinerDisk;
use std::sync::Arc;
use std::time::Duration;

/// The list of members as this node knows it, and how far a change has come.
#[derive(Clone, Debug)]
pub struct ChangesStatus {
    /// This node.
    pub own: NodeId,
    /// The list: epoch, phase, the members with the lists that they are in, who is dead, the default
    /// pair. `None` for a node alone, and until the nodes of a new cluster have all met once.
    pub list: Option<Arc<MemberList>>,
    /// Whether this node was removed from the list, or is declared dead in it: it serves nothing.
    pub is_removed: bool,
    /// What each member has reported, as far as this node has heard: its epoch and its facts.
    pub reported: NodeTable<MemberReport>,
    /// The members that are up, with this one.
    pub up: NodeSet,
    /// Whether nothing is under way, or what the change waits for.
    pub progress: ChangeProgress,
    /// The nodes that wait to join, as far as they have told this node.
    pub waiting: Vec<WaitingNode>,
}

/// A node that waits to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingNode {
    /// Its name and its URL.
    pub member: Member,
    /// Its zone.
    pub zone: Option<String>,
    /// How far its wall clock is ahead of that of this node, in milliseconds.
    pub ahead_ms: i64,
    /// The disk of its data folder.
    pub disk: JoinerDisk,
    /// How long ago it was heard last.
    pub heard_ago: Duration,
}

impl ChangesStatus {
    /// That of a node which has no list.
    pub(crate) fn without_list(own: NodeId) -> Self {
        Self {
            own,
            list: None,
            is_removed: false,
            reported: NodeTable::default(),
            up: NodeSet::from_iter([own]),
            progress: ChangeProgress::Stable,
            waiting: Vec::new(),
        }
    }

    /// What the change waits for, if it waits.
    #[must_use]
    pub fn waits_for(&self) -> Option<&WaitsFor> {
        match &self.progress {
            ChangeProgress::Waits(waits_for) => Some(waits_for),
            ChangeProgress::Stable | ChangeProgress::Ready(_) => None,
        }
    }
}
