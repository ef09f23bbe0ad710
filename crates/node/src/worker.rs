//! What answers for the store on one runtime.

use crate::coordinator::{Coordinator, HedgeBudget};
use crate::hints::{Delivery, HintReceiver};
use crate::membership::NodeHandshakes;
use crate::metrics::WorkerMetrics;
use crate::node::Node;
use crate::peers::{HintLink, Peers};
use crate::replica::{LocalReplica, OwnHints};
use crate::submissions::Submissions;
use crate::waiters::Waiters;
use base::Clock;
use bytes::Bytes;
use cluster::{NodeNumber, Ranking};
use peer::{AnswerHandler, HandshakePolicy, Link, LinkStatus, PeerEnvironment, Stream, Transport};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;

/// For each request in flight, so many that were answered may still have
/// something to do: a write whose last replica is slow, or a repair.
const STRAGGLERS_A_REQUEST: usize = 4;

/// What answers for the store on one runtime: the coordinator of requests, the
/// links to the other nodes, this node's own replica, and their upkeep. Nothing
/// in it is shared with other threads, the handles of [`Node`] aside.
pub struct Worker {
    shared: Arc<Node>,
    /// Which runtime it is.
    number: usize,
    coordinator: Rc<Coordinator>,
    peers: Rc<Peers>,
    peer_environment: PeerEnvironment,
    /// This node's own copy.
    replica: Rc<LocalReplica>,
    metrics: Arc<WorkerMetrics>,
}

impl Worker {
    /// The worker of runtime `number`, which reaches its peers over `transport`.
    #[must_use]
    pub fn new(shared: Arc<Node>, number: usize, transport: &Arc<dyn Transport>) -> Rc<Self> {
        let config = &shared.config;
        let waiters = Waiters::new();
        let submissions = Rc::new(Submissions::new(
            shared.engine.clone(),
            Arc::clone(waiters.writes()),
        ));
        let handshakes = NodeHandshakes::new(
            shared.membership.clone(),
            Arc::clone(&shared.stamping),
            config.protocol,
            config.cluster_secret.clone(),
        );
        let peer_environment = PeerEnvironment {
            clock: Arc::clone(&shared.clock),
            random: Arc::clone(&shared.random),
            policy: Rc::clone(&handshakes) as Rc<dyn HandshakePolicy>,
            log_limiter: Arc::clone(&shared.log_limiter),
            incoming: Arc::clone(&shared.peer_bytes),
            value_bytes_max: config.value_bytes_max,
        };
        let peers = Peers::new(&shared, |node| {
            Link::new(
                config.members.name(node).to_owned(),
                config.members.url(node).clone(),
                Arc::clone(transport),
                peer_environment.clone(),
                Rc::clone(&waiters) as Rc<dyn AnswerHandler>,
            )
        });
        let weak_peers = Rc::downgrade(&peers);
        handshakes.call_on_peer(move |node| {
            let peers = weak_peers.upgrade();
            if let Some(link) = peers.as_ref().and_then(|peers| peers.link(node)) {
                link.peer_has_dialled();
            }
        });
        let replica = Rc::new(LocalReplica {
            engine: shared.engine.clone(),
            stamping: Arc::clone(&shared.stamping),
            membership: shared.membership.clone(),
            read_pool: Arc::clone(&shared.read_pool),
            answers: Arc::clone(&shared.answers),
            submissions,
            waiters: Rc::clone(&waiters),
            clock: Arc::clone(&shared.clock),
        });
        let metrics = shared.metrics.of_worker(number);
        let resources = &shared.resources;
        let requests_max = resources.requests_max.div_ceil(resources.runtimes);
        let coordinator = Rc::new(Coordinator {
            clock: Arc::clone(&shared.clock),
            stamping: Arc::clone(&shared.stamping),
            replica: Rc::clone(&replica),
            peers: Rc::clone(&peers),
            hints: shared.hints.clone(),
            waiters,
            ranges: Arc::clone(&shared.ranges),
            range_batch_bytes: config.range_batch_bytes(),
            metrics: Arc::clone(&metrics),
            stragglers: Cell::new(0),
            stragglers_max: requests_max.saturating_mul(STRAGGLERS_A_REQUEST),
            hedging: HedgeBudget::default(),
        });
        Rc::new(Self {
            shared,
            number,
            coordinator,
            peers,
            peer_environment,
            replica,
            metrics,
        })
    }

    /// Starts what a worker does beside answering, until its runtime ends.
    pub fn spawn_upkeep(self: &Rc<Self>) {
        let waiters = Rc::clone(&self.coordinator.waiters);
        let replica = Rc::clone(&self.replica);
        let look = move |ticket, completion| replica.look(ticket, completion);
        tokio::task::spawn_local(waiters.deliver_forever(look));
        let submissions = Rc::clone(&self.replica.submissions);
        tokio::task::spawn_local(submissions.submit_forever());
        tokio::task::spawn_local(Rc::clone(self).sweep_forever());
        for link in self.peers.links() {
            tokio::task::spawn_local(Rc::clone(link).run_forever());
        }
        if self.number == 0 {
            self.spawn_hint_deliveries();
        }
    }

    /// The first runtime hands over the hints of all.
    fn spawn_hint_deliveries(&self) {
        let reading = Arc::new(Semaphore::new(1));
        let members = &self.shared.config.members;
        for node in members.peers() {
            let receiver = HintLink {
                node,
                peers: Rc::clone(&self.peers),
                waiters: Rc::clone(&self.coordinator.waiters),
                clock: Arc::clone(&self.shared.clock),
                timeout: self.shared.config.timeout,
            };
            self.spawn_hint_delivery(node, receiver, &reading);
        }
        let own = OwnHints {
            replica: Rc::clone(&self.replica),
            clock: Arc::clone(&self.shared.clock),
            timeout: self.shared.config.timeout,
        };
        self.spawn_hint_delivery(members.own(), own, &reading);
    }

    fn spawn_hint_delivery(
        &self,
        node: NodeNumber,
        receiver: impl HintReceiver,
        reading: &Arc<Semaphore>,
    ) {
        let delivery = Delivery::new(
            self.shared.hints.clone(),
            node,
            Rc::new(receiver),
            Arc::clone(reading),
            Arc::clone(&self.shared.random),
        );
        tokio::task::spawn_local(delivery.run());
    }

    /// Serves a peer's connection until it ends; `received` came behind the
    /// upgrade, and `known` is told once it has proved to be a peer's.
    pub async fn welcome(&self, stream: Box<dyn Stream>, received: Bytes, known: impl FnOnce()) {
        let environment = self.peer_environment.clone();
        let replica = Rc::clone(&self.replica);
        peer::serve(stream, received, environment, replica, known).await;
    }

    /// The node that it works for.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.shared
    }

    /// Asks replicas.
    #[must_use]
    pub fn coordinator(&self) -> &Rc<Coordinator> {
        &self.coordinator
    }

    /// The time.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    /// The deadline of what began at `began`.
    #[must_use]
    pub fn deadline_after(&self, began: Duration) -> Duration {
        began.saturating_add(self.shared.config.timeout)
    }

    /// The first `from` nodes of a key's ranking.
    #[must_use]
    pub fn ranking(&self, key: &[u8], from: u8) -> Ranking {
        self.peers.ranking(key, from)
    }

    /// What is known of the link to another node.
    #[must_use]
    pub fn link_status(&self, node: NodeNumber) -> Option<LinkStatus> {
        self.peers.status(node)
    }

    /// Ends the waits and calls that have lasted too long, and publishes what
    /// the links count.
    fn sweep(&self) {
        let now = self.shared.clock.monotonic();
        self.coordinator.waiters.expire(now);
        for node in self.peers.sweep(now) {
            self.shared.hints.wake(node);
        }
        for node in self.shared.config.members.peers() {
            if let (Some(status), Some(metrics)) = (
                self.peers.status(node),
                self.metrics.links.get(node.index()),
            ) {
                metrics.publish(&status);
            }
        }
    }

    async fn sweep_forever(self: Rc<Self>) {
        let mut ticks = tokio::time::interval(sweep_period(self.shared.config.timeout));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.sweep();
        }
    }
}

/// How often to sweep where `shortest` is the shortest time that a sweep ends:
/// eight times in it, and at least four times a second.
#[must_use]
pub fn sweep_period(shortest: Duration) -> Duration {
    (shortest / 8).clamp(Duration::from_millis(5), Duration::from_millis(250))
}
