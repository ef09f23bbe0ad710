//! The nodes of the cluster, as one runtime sees and reaches them.

use crate::timestamps::TimestampAllocator;
use cluster::{Layout, Member, Members, NodeId, NodeTable, NodeUrl, PreferenceList};
use peer::{Link, LinkStatus};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The links of one runtime to the other nodes.
pub struct Peers {
    own: NodeId,
    /// The layout that this runtime has adopted.
    layout: RefCell<Arc<Layout>>,
    timestamps: Arc<TimestampAllocator>,
    /// None for this node.
    links: RefCell<NodeTable<PeerLink>>,
}

/// The link to a peer.
struct PeerLink {
    link: Rc<Link>,
    /// Whether it was down at the last check.
    was_down: Cell<bool>,
}

impl Peers {
    /// The nodes of a layout; `link` makes the link to each of the others.
    pub fn new(
        layout: Arc<Layout>,
        timestamps: Arc<TimestampAllocator>,
        link: impl Fn(&Member) -> Rc<Link>,
    ) -> Rc<Self> {
        let peers = Self {
            own: layout.members().own(),
            layout: RefCell::new(Arc::clone(&layout)),
            timestamps,
            links: RefCell::default(),
        };
        peers.adopt(layout, link);
        Rc::new(peers)
    }

    /// Adopts a layout: `link` makes the links to the nodes that have joined or moved, which are
    /// returned, and the calls over the links to those that have left end.
    pub fn adopt(&self, layout: Arc<Layout>, link: impl Fn(&Member) -> Rc<Link>) -> Vec<Rc<Link>> {
        let mut begun = Vec::new();
        let mut ended = Vec::new();
        {
            let mut links = self.links.borrow_mut();
            let is_to = |peer: &PeerLink, node: &Member| {
                peer.link.name() == node.name() && peer.link.url() == node.url()
            };
            links.retain(|node, peer| {
                let stays = layout
                    .members()
                    .get(node)
                    .is_some_and(|node| is_to(peer, node));
                if !stays {
                    ended.push(Rc::clone(&peer.link));
                }
                stays
            });
            for (node, member) in layout.members().others() {
                links.get_or_insert_with(node, || {
                    let link = link(member);
                    begun.push(Rc::clone(&link));
                    PeerLink {
                        link,
                        was_down: Cell::new(true),
                    }
                });
            }
        }
        *self.layout.borrow_mut() = layout;
        for link in ended {
            link.close();
        }
        begun
    }

    /// The layout that this runtime has adopted.
    pub fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout.borrow())
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u8 {
        self.layout.borrow().members().count()
    }

    /// Whether there are no other nodes.
    pub fn is_single_node(&self) -> bool {
        self.layout.borrow().members().is_single_node()
    }

    /// This node.
    pub fn own(&self) -> NodeId {
        self.own
    }

    /// Whether it is this node.
    pub fn is_own(&self, node: NodeId) -> bool {
        node == self.own
    }

    /// The first `from` nodes of a key's preference list.
    pub fn preference_list(&self, key: &[u8], from: u8) -> PreferenceList {
        self.layout.borrow().preference_list(key, from)
    }

    /// Whether a node is one of the first `from` of a key's preference list.
    pub fn is_replica(&self, node: NodeId, key: &[u8], from: u8) -> bool {
        self.layout.borrow().is_replica(node, key, from)
    }

    /// Whether a node is known not to answer.
    pub fn is_down(&self, node: NodeId) -> bool {
        let links = self.links.borrow();
        links.get(node).is_some_and(|peer| peer.link.is_down())
    }

    /// The state of the link to another node.
    pub fn status(&self, node: NodeId) -> Option<LinkStatus> {
        self.link(node).map(|link| link.status())
    }

    /// The states of the links to the other nodes.
    pub fn statuses(&self) -> NodeTable<LinkStatus> {
        let links = self.links.borrow();
        links
            .iter()
            .map(|(node, peer)| (node, peer.link.status()))
            .collect()
    }

    /// The URL of a node, for people.
    pub fn url_of(&self, node: NodeId) -> String {
        let layout = self.layout.borrow();
        let url = layout.members().url(node);
        url.map_or_else(|| Members::NO_NAME.to_owned(), NodeUrl::to_string)
    }

    /// Ends the calls whose time is over, reports the peers' clocks, and returns the nodes
    /// that are up and were down at the last check.
    pub fn end_overdue(&self, now: Duration) -> Vec<NodeId> {
        // An answer may make calls.
        for link in self.links() {
            link.expire(now);
        }
        self.report_clocks();
        let links = self.links.borrow();
        let is_back = |peer: &PeerLink| {
            let is_down = peer.link.is_down();
            peer.was_down.replace(is_down) && !is_down
        };
        let back = links.iter().filter(|(_, peer)| is_back(peer));
        back.map(|(node, _)| node).collect()
    }

    /// Reports to `timestamps` what the links know about the other nodes' clocks.
    fn report_clocks(&self) {
        let timestamps = &self.timestamps;
        for (node, peer) in self.links.borrow().iter() {
            if let Some(ahead_ms) = peer.link.ahead_of_monotonic_ms() {
                timestamps.record_clock(node, ahead_ms);
            }
        }
        timestamps.upkeep();
    }

    /// The links to all other nodes.
    pub fn links(&self) -> Vec<Rc<Link>> {
        let links = self.links.borrow();
        links.values().map(|peer| Rc::clone(&peer.link)).collect()
    }

    /// The link to another node.
    pub fn link(&self, node: NodeId) -> Option<Rc<Link>> {
        Some(Rc::clone(&self.links.borrow().get(node)?.link))
    }
}
