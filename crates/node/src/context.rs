//! What the requests of one runtime work with.

use crate::admission::{Gate, Uploads};
use crate::coordinator::{Coordinator, HedgeBudget};
use crate::hints::{Delivery, HintReceiver};
use crate::http::channel::Buffers;
use crate::http::page_turns::PageTurns;
use crate::http::progress::{Patience, Progress};
use crate::http::refusals::Refusals;
use crate::http::unsent::Unsent;
use crate::http::{OwnHosts, ReplicaRules};
use crate::metrics::RuntimeMetrics;
use crate::peers::{Acquaintance, HintLink, Peers};
use crate::replica::{OwnHints, Replica};
use crate::shared::Shared;
use crate::submissions::Submissions;
use crate::waiters::Waiters;
use base::Budget;
use base::Clock;
use bytes::Bytes;
use cluster::NodeNumber;
use peer::{Answers, Introductions, Link, PeerEnvironment, Stream, Transport};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::time::MissedTickBehavior;

/// For each request in flight, so many that were answered may still have
/// something to do: a write whose last replica is slow, or a repair.
const STRAGGLERS_A_REQUEST: usize = 4;

/// What the requests of one runtime work with. Nothing in it is shared with
/// other threads, the handles of [`Shared`] aside.
pub(crate) struct Context {
    shared: Arc<Shared>,
    /// Which runtime it is.
    number: usize,
    /// Asks replicas.
    pub(crate) coordinator: Rc<Coordinator>,
    /// The nodes of the cluster.
    pub(crate) peers: Rc<Peers>,
    peer_environment: PeerEnvironment,
    /// This node's own copy.
    replica: Rc<Replica>,
    /// By which names the node is known.
    pub(crate) own_hosts: OwnHosts,
    /// Decides who comes in.
    pub(crate) gate: Rc<Gate>,
    /// Decides whose page is made.
    pub(crate) page_turns: PageTurns,
    /// Those who were not let in.
    pub(crate) refusals: Rc<Refusals>,
    /// What this runtime counts.
    pub(crate) metrics: Arc<RuntimeMetrics>,
    /// The monotonic clock as of the last sweep: cheap, and late by at most its period.
    pub(crate) now: Rc<Cell<Duration>>,
    /// The buffers that all connections share.
    pub(crate) buffers: Rc<Buffers>,
    connections: RefCell<Slab<Rc<Progress>>>,
    /// Told when the last connection has ended.
    emptied: Notify,
    is_stopping: Cell<bool>,
}

/// A connection's entry in its runtime's list, until it is dropped.
pub(crate) struct Registered<'a> {
    context: &'a Context,
    number: usize,
}

impl Context {
    /// The context of runtime `number`, which reaches its peers over `transport`.
    pub(crate) fn new(
        shared: Arc<Shared>,
        number: usize,
        transport: &Arc<dyn Transport>,
    ) -> Rc<Self> {
        let config = &shared.config;
        let waiters = Waiters::new();
        let submissions = Rc::new(Submissions::new(
            shared.engine.clone(),
            Arc::clone(waiters.writes()),
        ));
        let acquaintance = Acquaintance::new(&shared);
        let peer_environment = PeerEnvironment {
            clock: Arc::clone(&shared.clock),
            random: Arc::clone(&shared.random),
            introductions: Rc::clone(&acquaintance) as Rc<dyn Introductions>,
            complaints: Arc::clone(&shared.complaints),
            incoming: Arc::clone(&shared.peer_bytes),
            value_bytes_max: config.value_bytes_max,
        };
        let peers = Peers::new(&shared, |node| {
            Link::new(
                config.members.name(node).to_owned(),
                config.members.url(node).clone(),
                Arc::clone(transport),
                peer_environment.clone(),
                Rc::clone(&waiters) as Rc<dyn Answers>,
            )
        });
        acquaintance.introduce(&peers);
        let replica = Rc::new(Replica {
            engine: shared.engine.clone(),
            stamping: Arc::clone(&shared.stamping),
            membership: shared.membership.clone(),
            read_pool: Arc::clone(&shared.read_pool),
            answers: Arc::clone(&shared.answers),
            submissions,
            waiters: Rc::clone(&waiters),
            clock: Arc::clone(&shared.clock),
        });
        let metrics = shared.metrics.of_runtime(number);
        let in_flight_max = config.requests_in_flight_max.div_ceil(config.threads);
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
            stragglers_max: in_flight_max.saturating_mul(STRAGGLERS_A_REQUEST),
            hedging: HedgeBudget::default(),
        });
        let queued_max = config.requests_queued_max.div_ceil(config.threads);
        Rc::new(Self {
            number,
            coordinator,
            peers,
            peer_environment,
            replica,
            own_hosts: OwnHosts::new(&shared.config),
            gate: Gate::new(in_flight_max, queued_max),
            page_turns: PageTurns::new(),
            refusals: Rc::default(),
            metrics,
            now: Rc::new(Cell::new(shared.clock.monotonic())),
            buffers: Rc::new(Buffers::new(
                Arc::clone(&shared.heads),
                Unsent::new(config.memory_split().unsent_bytes / config.threads),
            )),
            connections: RefCell::default(),
            emptied: Notify::new(),
            is_stopping: Cell::new(false),
            shared,
        })
    }

    /// Starts what a runtime does beside answering, until it ends.
    pub(crate) fn spawn_upkeep(self: &Rc<Self>) {
        let waiters = Rc::clone(&self.coordinator.waiters);
        let replica = Rc::clone(&self.replica);
        let look = move |ticket, completion| replica.look(ticket, completion);
        tokio::task::spawn_local(waiters.deliver_forever(look));
        let submissions = Rc::clone(&self.replica.submissions);
        tokio::task::spawn_local(submissions.submit_forever());
        let refusals = Rc::clone(&self.refusals);
        tokio::task::spawn_local(refusals.let_go_on_forever(Rc::clone(&self.gate)));
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
    pub(crate) async fn welcome(
        &self,
        stream: Box<dyn Stream>,
        received: Bytes,
        known: impl FnOnce(),
    ) {
        let environment = self.peer_environment.clone();
        let replica = Rc::clone(&self.replica);
        peer::serve(stream, received, environment, replica, known).await;
    }

    /// What all runtimes share.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The time.
    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.shared.clock
    }

    /// The time, to keep.
    pub(crate) fn clock_handle(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.shared.clock)
    }

    /// Bytes of bodies on their way in.
    pub(crate) fn uploads(&self) -> &Uploads {
        &self.shared.uploads
    }

    /// Ranges on their way.
    pub(crate) fn scans(&self) -> &Arc<Budget> {
        &self.shared.scans
    }

    /// Whether `/debug/profile` is served.
    pub(crate) fn has_debug_endpoints(&self) -> bool {
        self.shared.config.debug_endpoints
    }

    /// The longest value, in bytes.
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.shared.config.value_bytes_max
    }

    /// How long an answer may make no progress.
    pub(crate) fn stall_timeout(&self) -> Duration {
        self.shared.config.scan_stall_timeout
    }

    /// What `ack` and `from` may be.
    pub(crate) fn replica_rules(&self) -> ReplicaRules {
        ReplicaRules {
            nodes: self.shared.config.members.count(),
            default: self.shared.config.replicas_default,
        }
    }

    /// The deadline of what began at `began`.
    pub(crate) fn deadline_after(&self, began: Duration) -> Duration {
        began.saturating_add(self.shared.config.timeout)
    }

    /// Enters a connection into the list.
    pub(crate) fn register(&self, progress: &Rc<Progress>) -> Registered<'_> {
        Registered {
            number: self.connections.borrow_mut().insert(Rc::clone(progress)),
            context: self,
        }
    }

    /// Whether the node stops: connections end when their requests do.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.get()
    }

    /// Lets connections end when their requests do, and waits for the last.
    pub(crate) async fn drain(&self) {
        self.is_stopping.set(true);
        self.refusals.let_all_go_on();
        // Copied: waking a connection must find the list free.
        for connection in self.all_connections() {
            connection.wake();
        }
        while !self.connections.borrow().is_empty() {
            self.emptied.notified().await;
        }
    }

    /// Ends the waits and connections that have lasted too long, and
    /// publishes what the gate counts.
    fn sweep(&self) {
        let now = self.shared.clock.monotonic();
        self.now.set(now);
        self.coordinator.waiters.expire(now);
        self.gate.expire(now);
        for node in self.peers.sweep(now) {
            self.shared.hints.wake(node);
        }
        let config = &self.shared.config;
        let patience = Patience {
            idle: config.idle_timeout,
            head: config.head_timeout,
            body: config.body_timeout,
            stall: config.scan_stall_timeout,
        };
        for connection in self.all_connections() {
            connection.sweep(now, patience);
        }
        for node in self.shared.config.members.peers() {
            if let (Some(status), Some(metrics)) = (
                self.peers.status(node),
                self.metrics.links.get(node.index()),
            ) {
                metrics.publish(&status);
            }
        }
        self.metrics.publish(
            self.connections.borrow().len(),
            self.gate.in_flight(),
            self.gate.queued(),
            self.buffers.unsent.bytes(),
        );
    }

    /// How often to sweep: an eighth of the shortest time that a sweep ends,
    /// and at least four times a second.
    fn sweep_period(&self) -> Duration {
        let config = &self.shared.config;
        [
            config.timeout,
            config.idle_timeout,
            config.head_timeout,
            config.body_timeout,
            config.scan_stall_timeout,
        ]
        .into_iter()
        .min()
        .map_or(Duration::MAX, |shortest| shortest / 8)
        .clamp(Duration::from_millis(5), Duration::from_millis(250))
    }

    async fn sweep_forever(self: Rc<Self>) {
        let mut ticks = tokio::time::interval(self.sweep_period());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.sweep();
        }
    }

    fn all_connections(&self) -> Vec<Rc<Progress>> {
        let connections = self.connections.borrow();
        connections
            .iter()
            .map(|(_, connection)| Rc::clone(connection))
            .collect()
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut connections = self.context.connections.borrow_mut();
        let gone = connections.try_remove(self.number);
        if connections.is_empty() {
            self.context.emptied.notify_one();
        }
        drop(connections);
        drop(gone);
    }
}
