//! The nodes of the cluster, as one runtime sees and reaches them.

use crate::timestamps::TimestampAllocator;
use cluster::{Members, NodeId, NodeUrl, Placement, PreferenceList};
use peer::{Link, LinkStatus};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The links of one runtime to the other nodes.
pub struct Peers {
    members: Members,
    placement: Arc<Placement>,
    timestamps: Arc<TimestampAllocator>,
    /// By node; none for this node.
    links: Vec<Option<Rc<Link>>>,
    /// By node: whether its link was down at the last check.
    were_down: RefCell<Vec<bool>>,
}

impl Peers {
    /// All nodes; `link` makes the link to each of the others.
    pub fn new(
        members: Members,
        placement: Arc<Placement>,
        timestamps: Arc<TimestampAllocator>,
        link: impl Fn(NodeId) -> Rc<Link>,
    ) -> Rc<Self> {
        let nodes = members.names().len();
        let links = members
            .ids()
            .map(|node| (node != members.own()).then(|| link(node)))
            .collect();
        Rc::new(Self {
            were_down: RefCell::new(vec![true; nodes]),
            members,
            placement,
            timestamps,
            links,
        })
    }

    /// Whether there are no other nodes.
    pub fn is_single_node(&self) -> bool {
        self.members.is_single_node()
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.links.len()
    }

    /// All nodes.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        self.members.ids()
    }

    /// This node.
    pub fn own(&self) -> NodeId {
        self.members.own()
    }

    /// Whether it is this node.
    pub fn is_own(&self, node: NodeId) -> bool {
        node == self.members.own()
    }

    /// The first `from` nodes of a key's preference list.
    pub fn preference_list(&self, key: &[u8], from: u8) -> PreferenceList {
        self.placement.preference_list(key, from)
    }

    /// Whether a node is known not to answer.
    pub fn is_down(&self, node: NodeId) -> bool {
        self.link(node).is_some_and(|link| link.is_down())
    }

    /// The state of the link to another node.
    pub fn status(&self, node: NodeId) -> Option<LinkStatus> {
        self.link(node).map(|link| link.status())
    }

    /// The URL of a node.
    pub fn url_of(&self, node: NodeId) -> &NodeUrl {
        self.members.url(node)
    }

    /// Ends the calls whose time is over, reports the peers' clocks, and returns the nodes
    /// that are up and were down at the last check.
    pub fn end_overdue(&self, now: Duration) -> Vec<NodeId> {
        for link in self.links.iter().flatten() {
            link.expire(now);
        }
        self.report_clocks();
        let mut were_down = self.were_down.borrow_mut();
        let peers = self.members.peers();
        peers
            .filter(|node| {
                let is_down = self.is_down(*node);
                std::mem::replace(&mut were_down[node.index()], is_down) && !is_down
            })
            .collect()
    }

    /// Reports to `timestamps` what the links know about the other nodes' clocks.
    fn report_clocks(&self) {
        let timestamps = &self.timestamps;
        for node in self.members.peers() {
            let link = self.link(node);
            if let Some(ahead_ms) = link.and_then(|link| link.ahead_of_monotonic_ms()) {
                timestamps.record_clock(node, ahead_ms);
            }
        }
        timestamps.upkeep();
    }

    /// The links to all other nodes.
    pub fn links(&self) -> impl Iterator<Item = &Rc<Link>> {
        self.links.iter().flatten()
    }

    /// The link to another node.
    pub fn link(&self, node: NodeId) -> Option<&Rc<Link>> {
        self.links.get(node.index())?.as_ref()
    }
}
