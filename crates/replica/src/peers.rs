//! The nodes of the cluster, as one runtime sees and reaches them.

use crate::timestamps::TimestampAllocator;
use cluster::{
    Epoch, Layout, Member, Members, NodeId, NodeTable, NodeUrl, PreferenceList, Quorum, Replicas,
};
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
    /// The links to nodes that have left, until no request of an earlier list is left that may need
    /// them.
    ended: RefCell<Vec<(NodeId, Rc<Link>)>>,
}

/// What a runtime has to do with its links after it has adopted a layout.
pub struct AdoptedLinks {
    /// Those that it is to keep connected.
    pub begun: Vec<Rc<Link>>,
    /// How many are to be [closed](Peers::close_ended) once the timeout of requests has passed.
    pub ended: usize,
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
            ended: RefCell::default(),
        };
        peers.adopt(layout, link);
        Rc::new(peers)
    }

    /// Adopts a layout: `link` makes the links to the nodes that have joined or moved. Those to nodes
    /// that have left work on for the requests that are under way; those to dead members, and to where
    /// a node was that has moved, are closed.
    pub fn adopt(&self, layout: Arc<Layout>, link: impl Fn(&Member) -> Rc<Link>) -> AdoptedLinks {
        let (mut begun, mut closed) = (Vec::new(), Vec::new());
        let mut ended = self.ended.borrow_mut();
        let ended_before = ended.len();
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
                if !stays && layout.placements().contains(node) {
                    // It has moved, or is dead, and nobody asks it.
                    closed.push(Rc::clone(&peer.link));
                } else if !stays {
                    ended.push((node, Rc::clone(&peer.link)));
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
        let ended_now = ended.len() - ended_before;
        drop(ended);
        for link in closed {
            link.close();
        }
        AdoptedLinks {
            begun,
            ended: ended_now,
        }
    }

    /// Closes the first so many of the links that have ended: their calls end.
    pub fn close_ended(&self, count: usize) {
        let mut ended = self.ended.borrow_mut();
        let count = count.min(ended.len());
        let closed: Vec<_> = ended.drain(..count).collect();
        drop(ended);
        for (_, link) in closed {
            link.close();
        }
    }

    /// The layout that this runtime has adopted.
    pub fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout.borrow())
    }

    /// The number of its list of members.
    pub fn epoch(&self) -> Epoch {
        self.layout.borrow().epoch()
    }

    /// The most that `from` can be: how many nodes there are, in a change of the members those of the
    /// smaller list.
    pub fn nodes(&self) -> u8 {
        self.layout.borrow().from_max()
    }

    /// [`Layout::default_pair`] of the layout that this runtime has adopted.
    pub fn default_pair(&self) -> Option<Replicas> {
        self.layout.borrow().default_pair()
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

    /// The nodes to ask for a request of a key, and how many of them must answer.
    pub fn for_request(&self, key: &[u8], replicas: Replicas) -> (PreferenceList, Quorum) {
        self.layout.borrow().placements().for_request(key, replicas)
    }

    /// Whether this node is the first of a key's preference list, in a change of the members in both
    /// lists.
    pub fn has_alone(&self, key: &[u8]) -> bool {
        let layout = self.layout.borrow();
        layout.placements().is_first(self.own, key)
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
        let ended: Vec<_> = self.ended.borrow().clone();
        for link in self
            .links()
            .iter()
            .chain(ended.iter().map(|(_, link)| link))
        {
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

    /// The link to another node; also to one that has left, for the requests that are under way.
    pub fn link(&self, node: NodeId) -> Option<Rc<Link>> {
        if let Some(peer) = self.links.borrow().get(node) {
            return Some(Rc::clone(&peer.link));
        }
        let ended = self.ended.borrow();
        let link = ended.iter().rev().find(|(left, _)| *left == node);
        link.map(|(_, link)| Rc::clone(link))
    }
}
