//! The nodes of the cluster, as one runtime sees and reaches them.

use crate::config::Secret;
use crate::hints::HintReceiver;
use crate::membership::Introduced;
use crate::node::Node;
use crate::replica::{answer_of, stored};
use crate::waiters::Waiters;
use base::{Clock, Entry};
use cluster::{Miss, NodeNumber, NodeUrl, Ranking};
use cluster::{Remembered, Standing};
use peer::StartWatch;
use peer::{HandshakePolicy, Hello, Identity, Link, LinkStatus, PeerRequest, Protocol};
use std::cell::{OnceCell, RefCell};
use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The links of one runtime, and who is behind them.
pub(crate) struct Peers {
    shared: Arc<Node>,
    /// By node; none for this one.
    links: Vec<Option<Rc<Link>>>,
    /// By node, as of the last sweep.
    were_down: RefCell<Vec<bool>>,
}

impl Peers {
    /// The nodes, reached over the links that `link` makes.
    pub(crate) fn new(shared: &Arc<Node>, link: impl Fn(NodeNumber) -> Rc<Link>) -> Rc<Self> {
        let members = &shared.config.members;
        let links = members
            .numbers()
            .map(|node| (node != members.own()).then(|| link(node)))
            .collect();
        Rc::new(Self {
            were_down: RefCell::new(vec![true; members.names().len()]),
            shared: Arc::clone(shared),
            links,
        })
    }

    /// Whether there are no other nodes.
    pub(crate) fn is_alone(&self) -> bool {
        self.shared.config.members.is_alone()
    }

    /// Whether it is this node.
    pub(crate) fn is_own(&self, node: NodeNumber) -> bool {
        node == self.shared.config.members.own()
    }

    /// The first `from` nodes of a key's ranking.
    pub(crate) fn ranking(&self, key: &[u8], from: u8) -> Ranking {
        self.shared.placement.ranking(key, from)
    }

    /// Whether a node is known not to answer.
    pub(crate) fn is_down(&self, node: NodeNumber) -> bool {
        self.link(node).is_some_and(|link| link.is_down())
    }

    /// Why a node is known not to answer, if it is.
    pub(crate) fn why_down(&self, node: NodeNumber) -> Option<Miss> {
        self.link(node).and_then(|link| link.why_down())
    }

    /// Asks another node; its answer comes under `ticket`.
    ///
    /// # Errors
    /// Why it is not asked.
    pub(crate) fn call(
        &self,
        node: NodeNumber,
        request: PeerRequest,
        deadline: Duration,
        ticket: u64,
    ) -> Result<(), Miss> {
        let link = self.link(node).ok_or(Miss::Failed)?;
        link.call(request, deadline, ticket)
    }

    /// After how long a read is slow at another node.
    pub(crate) fn hedge_delay(&self, node: NodeNumber) -> Option<Duration> {
        self.link(node).map(|link| link.hedge_delay())
    }

    /// What is known of the link to another node.
    pub(crate) fn status(&self, node: NodeNumber) -> Option<LinkStatus> {
        self.link(node).map(|link| link.status())
    }

    /// The URL of a node.
    pub(crate) fn url_of(&self, node: NodeNumber) -> &NodeUrl {
        self.shared.config.members.url(node)
    }

    /// Ends the calls that have lasted too long, looks at the clocks, and
    /// gives the nodes that are up and were down at the last sweep.
    pub(crate) fn sweep(&self, now: Duration) -> Vec<NodeNumber> {
        for link in self.links.iter().flatten() {
            link.expire(now);
        }
        self.look_at_clocks();
        let mut were_down = self.were_down.borrow_mut();
        let peers = self.shared.config.members.peers();
        peers
            .filter(|node| {
                let is_down = self.is_down(*node);
                std::mem::replace(&mut were_down[node.index()], is_down) && !is_down
            })
            .collect()
    }

    /// Tells what the links have heard of the other nodes' clocks.
    fn look_at_clocks(&self) {
        let stamping = &self.shared.stamping;
        for node in self.shared.config.members.peers() {
            let link = self.link(node);
            if let Some(ahead_ms) = link.and_then(|link| link.ahead_of_monotonic_ms()) {
                stamping.heard(node, ahead_ms);
            }
        }
        stamping.watch();
    }

    /// The links, to be kept up.
    pub(crate) fn links(&self) -> impl Iterator<Item = &Rc<Link>> {
        self.links.iter().flatten()
    }

    /// The link to another node.
    pub(crate) fn link(&self, node: NodeNumber) -> Option<&Rc<Link>> {
        self.links.get(node.index())?.as_ref()
    }
}

/// What the handshakes of one runtime know of the node.
pub(crate) struct NodeHandshakes {
    shared: Arc<Node>,
    /// Set once the links exist, which need this to be made.
    peers: OnceCell<Weak<Peers>>,
}

impl NodeHandshakes {
    /// What this node tells.
    pub(crate) fn new(shared: &Arc<Node>) -> Rc<Self> {
        Rc::new(Self {
            shared: Arc::clone(shared),
            peers: OnceCell::new(),
        })
    }

    fn number_of(&self, name: &str) -> Option<NodeNumber> {
        self.shared.config.members.number_of(name)
    }

    /// Whose links are to be told of those who come.
    pub(crate) fn set_peers(&self, peers: &Rc<Peers>) {
        // It is called once, when the runtime is made.
        let _first = self.peers.set(Rc::downgrade(peers)).is_ok();
    }
}

impl HandshakePolicy for NodeHandshakes {
    fn own(&self) -> Identity {
        let members = &self.shared.config.members;
        Identity {
            name: members.own_name().to_owned(),
            members_hash: members.names_hash(),
            store_id: self.shared.engine.store_id(),
            starts: self.shared.membership.starts(),
        }
    }

    fn protocol(&self) -> Protocol {
        self.shared.config.protocol
    }

    fn secret(&self) -> &[u8] {
        let secret = self.shared.config.cluster_secret.as_ref();
        secret.map_or(&[], Secret::as_bytes)
    }

    fn is_member(&self, name: &str) -> bool {
        self.number_of(name).is_some()
    }

    fn hello_to(&self, name: Option<&str>, unix_ms: u64) -> Hello {
        let membership = &self.shared.membership;
        let node = name.and_then(|name| self.number_of(name));
        Hello {
            identity: self.own(),
            is_accepted: node.is_some_and(|node| membership.is_accepted_towards(node)),
            standing: membership.standing(),
            remembered: node.and_then(|node| membership.remembered(node)),
            greatest_seen: self.shared.stamping.greatest(),
            unix_ms,
        }
    }

    fn standing(&self) -> Standing {
        self.shared.membership.standing()
    }

    fn is_early(&self, other: &Hello) -> bool {
        let Identity {
            name,
            store_id,
            starts,
            ..
        } = &other.identity;
        self.number_of(name).is_some_and(|node| {
            let membership = &self.shared.membership;
            membership.is_early(node, *store_id, starts, other.is_accepted)
        })
    }

    fn met(
        &self,
        other: &Hello,
        told: Option<Remembered>,
    ) -> Pin<Box<dyn Future<Output = Option<StartWatch>>>> {
        let Some(node) = self.number_of(&other.identity.name) else {
            return Box::pin(ready(None));
        };
        let peers = self.peers.get().and_then(Weak::upgrade);
        if let Some(link) = peers.as_ref().and_then(|peers| peers.link(node)) {
            link.peer_has_dialled();
        }
        let (sender, noted) = oneshot::channel();
        let introduced = Introduced {
            store_id: other.identity.store_id,
            starts: Arc::clone(&other.identity.starts),
            is_accepted: other.is_accepted,
            remembered: other.remembered,
            told,
        };
        let membership = &self.shared.membership;
        let watch = membership.met(node, &introduced, |may_be_used| {
            // Whoever has given the handshake up does not wait for this.
            let _waits = sender.send(may_be_used).is_ok();
        });
        let stamping = &self.shared.stamping;
        if membership.is_outdated() {
            stamping.stop();
        }
        // After that: it may be what the first stamp waits for.
        stamping.introduced(node, other.unix_ms, other.greatest_seen);
        Box::pin(async { noted.await.unwrap_or(false).then_some(watch).flatten() })
    }

    fn remembered_by(&self, name: &str) {
        if let Some(node) = self.number_of(name) {
            self.shared.membership.remembered_by(node);
        }
    }

    fn unreachable(&self, name: &str) {
        if let Some(node) = self.number_of(name) {
            self.shared.membership.unreachable(node);
        }
    }
}

/// A link as the delivery of hints uses it.
pub(crate) struct HintLink {
    /// The receiver.
    pub(crate) node: NodeNumber,
    /// The way to it.
    pub(crate) peers: Rc<Peers>,
    /// Those who wait for an answer.
    pub(crate) waiters: Rc<Waiters>,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// How long a hint may take.
    pub(crate) timeout: Duration,
}

impl HintReceiver for HintLink {
    fn is_up(&self) -> bool {
        !self.peers.is_down(self.node)
    }

    async fn store(&self, hint: Entry) -> Result<(), Miss> {
        let deadline = self.clock.monotonic().saturating_add(self.timeout);
        let wait = self.waiters.register(deadline);
        let request = PeerRequest::Write(hint);
        self.peers
            .call(self.node, request, deadline, wait.ticket())?;
        stored(&answer_of(wait.only().await))
    }
}
