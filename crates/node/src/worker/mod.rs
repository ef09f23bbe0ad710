//! A worker: answers for the store on one runtime. `hint_deliveries` are those of the first one,
//! `peer_requests` serves what peers ask for.

mod hint_deliveries;
mod peer_requests;

use crate::admin_jobs::backups::{BackupCoordinator, BackupOrder};
use crate::coordinator::{
    ConditionalWrites, Coordinator, HedgeBudget, RunningRequests, settle_stale_forever,
};
use crate::handshakes::NodeHandshakes;
use crate::member_changes::{ChangeShell, Introductions, Joining};
use crate::metrics::WorkerMetrics;
use crate::node::Node;
use crate::node_report::ExaminedNode;
use backup::BackupError;
use base::{Clock, overdue_check_period};
use bytes::Bytes;
use cluster::{Layout, Member, NodeId, NodeTable, Replicas};
use hint_deliveries::HintDeliveries;
use peer::{AnswerHandler, HandshakePolicy, Link, LinkStatus, PeerEnvironment, Stream, Transport};
use peer_requests::{PeerRequests, report};
use repair::session::RepairWorker;
use replica::Submissions;
use replica::hints::HintDelivery;
use replica::pending::PendingRequests;
use replica::{AdoptedLinks, Peers};
use replica::{LocalReplica, PageTelling, ReplicaHints, ReplicaSet};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;

/// For each request in flight, this many may go on after their answer: writes
/// whose last replica is slow, and repairs.
const BACKGROUND_A_REQUEST: usize = 4;

/// How often the store looks at its folder.
const FOLDER_LOOK_PERIOD: Duration = Duration::from_secs(1);

/// What answers for the store on one runtime: the coordinator of requests, the links to
/// the other nodes, the way to this node's own store, and their upkeep. It shares nothing
/// with other threads but the handles of [`Node`].
pub struct Worker {
    node: Arc<Node>,
    /// Which runtime it is.
    number: usize,
    coordinator: Rc<Coordinator>,
    peers: Rc<Peers>,
    /// Makes the links to peers.
    links: LinkMaker,
    /// The replicas of keys, this node's own store among them.
    replicas: Rc<ReplicaSet>,
    /// This runtime's part in repair.
    repair: Rc<RepairWorker>,
    /// Makes backups of the cluster.
    backups: Rc<BackupCoordinator>,
    metrics: Arc<WorkerMetrics>,
}

/// Makes the links of one runtime.
struct LinkMaker {
    transport: Arc<dyn Transport>,
    environment: PeerEnvironment,
    pending: Rc<PendingRequests>,
}

impl LinkMaker {
    fn link_to(&self, member: &Member) -> Rc<Link> {
        Link::new(
            member.name().to_owned(),
            member.url().clone(),
            Arc::clone(&self.transport),
            self.environment.clone(),
            Rc::clone(&self.pending) as Rc<dyn AnswerHandler>,
        )
    }
}

/// How often a node looks at its targets of backups.
const TARGETS_LOOK_PERIOD: Duration = Duration::from_secs(600);

/// Has the metrics say how old the newest backups are.
async fn look_at_targets_forever(node: Arc<Node>) {
    loop {
        node.backups.look_at_targets().await;
        tokio::time::sleep(TARGETS_LOOK_PERIOD).await;
    }
}

impl Worker {
    /// The worker of runtime `number`, which reaches its peers over `transport`.
    #[must_use]
    pub fn new(node: Arc<Node>, number: usize, transport: &Arc<dyn Transport>) -> Rc<Self> {
        let config = &node.config;
        let pending = PendingRequests::new();
        let submissions = Rc::new(Submissions::new(
            node.engine.clone(),
            Arc::clone(pending.completions()),
            Arc::clone(&node.read_pool),
        ));
        let handshakes = NodeHandshakes::new(
            node.membership.clone(),
            Arc::clone(&node.timestamps),
            Arc::clone(&node.store_side),
            Arc::clone(&node.dialled),
            config.protocol,
            config.cluster_secret.clone(),
            node.restored_cluster,
        );
        let peer_environment = PeerEnvironment {
            clock: Arc::clone(&node.clock),
            random: Arc::clone(&node.random),
            policy: handshakes as Rc<dyn HandshakePolicy>,
            log: Arc::clone(&node.peer_log),
            incoming: Arc::clone(&node.peer_bytes),
            runtimes: node.resources.runtimes,
            only_lists: false,
        };
        let links = LinkMaker {
            transport: Arc::clone(transport),
            environment: peer_environment,
            pending: Rc::clone(&pending),
        };
        let link_to = |member: &Member| links.link_to(member);
        let peers = Peers::new(node.layouts.load(), Arc::clone(&node.timestamps), link_to);
        let replica = Rc::new(LocalReplica {
            engine: node.engine.clone(),
            timestamps: Arc::clone(&node.timestamps),
            membership: node.membership.clone(),
            read_pool: Arc::clone(&node.read_pool),
            answers: Arc::clone(&node.answers),
            submissions,
            pending: Rc::clone(&pending),
            bounds: Arc::clone(node.store_side.shared()),
            void_session: {
                let store_side = Arc::clone(&node.store_side);
                Rc::new(move || store_side.void_session())
            },
            clock: Arc::clone(&node.clock),
            log: Arc::clone(&node.log),
            telling: PageTelling {
                layouts: node.layouts.clone(),
                turns_of_peers: Arc::clone(&node.peer_page_turns),
                bytes_of_peers: Arc::clone(&node.peer_pages),
            },
        });
        let replicas = Rc::new(ReplicaSet::new(replica, Rc::clone(&peers)));
        let repair = Rc::new(RepairWorker {
            sessions: Arc::clone(&node.repair),
            peers: Rc::clone(&peers),
            replicas: Rc::clone(&replicas),
            pending: Rc::clone(&pending),
        });
        let backups = Rc::new(BackupCoordinator {
            backups: Arc::clone(&node.backups),
            layouts: node.layouts.clone(),
            peers: Rc::clone(&peers),
            pending: Rc::clone(&pending),
        });
        let metrics = node.metrics.of_worker(number);
        let resources = &node.resources;
        let requests_max = resources.requests_max.div_ceil(resources.runtimes);
        let coordinator = Rc::new(Coordinator {
            clock: Arc::clone(&node.clock),
            timestamps: Arc::clone(&node.timestamps),
            replicas: Rc::clone(&replicas),
            peers: Rc::clone(&peers),
            hints: node.hints.clone(),
            pending,
            requests: RunningRequests::new(requests_max.saturating_mul(BACKGROUND_A_REQUEST)),
            answers: Arc::clone(&node.answers),
            scans: Arc::clone(&node.scans),
            scan_batch_bytes: config.scan_batch_bytes(),
            windows: Arc::clone(&node.windows),
            timeout: config.timeout,
            page_bytes_max: config.page_bytes_max,
            snapshot_age_max: config.snapshot_age_max,
            metrics: Arc::clone(&metrics),
            hedging: HedgeBudget::default(),
            conditional: ConditionalWrites::new(requests_max.saturating_mul(BACKGROUND_A_REQUEST)),
            random: Arc::clone(&node.random),
        });
        Rc::new(Self {
            node,
            number,
            coordinator,
            peers,
            links,
            replicas,
            repair,
            backups,
            metrics,
        })
    }

    /// Starts the tasks of the worker; they run until its runtime ends.
    pub fn spawn_upkeep(self: &Rc<Self>) {
        let pending = Rc::clone(&self.coordinator.pending);
        tokio::task::spawn_local(pending.deliver_forever());
        let submissions = Rc::clone(&self.replicas.own().submissions);
        tokio::task::spawn_local(submissions.submit_forever());
        tokio::task::spawn_local(Rc::clone(self).end_overdue_forever());
        let background = Arc::clone(&self.node.background);
        tokio::task::spawn_local(background.probe_forever(self.number == 0));
        for link in self.peers.links() {
            tokio::task::spawn_local(link.run());
        }
        tokio::task::spawn_local(Rc::clone(self).follow_layout());
        tokio::task::spawn_local(Rc::clone(self).follow_dialled_peers());
        if self.number == 0 {
            tokio::task::spawn_local(Rc::clone(&self.repair).coordinate_forever());
            tokio::task::spawn_local(Rc::clone(self).look_at_folder_forever());
            let node = Arc::clone(&self.node);
            if self.node.changes.waits() {
                self.wait_to_join();
                return;
            }
            let shell = Rc::new(ChangeShell {
                changes: node.changes.clone(),
                executor: Arc::clone(&node.executor),
                clock: Arc::clone(&node.clock),
                started: node.started,
                timeout: node.config.timeout,
                put_in_force: Arc::new(move |layout| node.put_in_force(layout)),
                introductions: self.introductions(),
                peers: Rc::clone(&self.peers),
                pending: Rc::clone(&self.coordinator.pending),
                is_following: Cell::default(),
                is_exchanging: Cell::default(),
            });
            tokio::task::spawn_local(shell.run_forever());
            let coordinator = Rc::clone(&self.coordinator);
            let executor = Arc::clone(&self.node.backups.environment.executor);
            tokio::task::spawn_local(settle_stale_forever(coordinator, executor));
            if !self.node.config.backup_targets.is_empty() {
                tokio::task::spawn_local(look_at_targets_forever(Arc::clone(&self.node)));
            }
        }
    }

    /// How this runtime asks nodes to which it has no link.
    fn introductions(&self) -> Rc<Introductions> {
        Rc::new(Introductions {
            transport: Arc::clone(&self.links.transport),
            environment: self.links.environment.clone(),
        })
    }

    /// Has the node join a cluster.
    fn wait_to_join(&self) {
        let layout = self.node.layouts.load();
        let members = layout.members();
        let own = members.iter().next().map(|(_, own)| own.clone());
        let (Some(by), Some(own)) = (self.node.config.join.clone(), own) else {
            return;
        };
        let joining = Joining {
            changes: self.node.changes.clone(),
            introductions: self.introductions(),
            by,
            own,
            zone: self.node.config.zone.clone(),
            space: self.node.report.free_space(),
        };
        tokio::task::spawn_local(joining.run());
    }

    /// Keeps the links and the deliveries of hints as the layout in force wants them.
    async fn follow_layout(self: Rc<Self>) {
        let mut changes = self.node.layouts.changes();
        // The first runtime delivers the hints of the whole node.
        let mut deliveries = (self.number == 0).then(HintDeliveries::default);
        let mut next = Some(changes.load());
        while let Some(layout) = next {
            let link_to = |member: &Member| self.links.link_to(member);
            let AdoptedLinks { begun, ended } = self.peers.adopt(Arc::clone(&layout), link_to);
            for link in begun {
                link.wait_for_joiner();
                tokio::task::spawn_local(link.run());
            }
            if ended > 0 {
                let (peers, timeout) = (Rc::clone(&self.peers), self.node.config.timeout);
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(timeout).await;
                    peers.close_ended(ended);
                });
            }
            if let Some(deliveries) = &mut deliveries {
                let delivery_to = |node, reading| self.delivery_to(node, reading);
                deliveries.follow(layout.members(), delivery_to);
            }
            self.node.changes.adopted(self.number, layout.epoch());
            next = changes.changed().await;
        }
    }

    /// Delivers the hints for a node.
    fn delivery_to(&self, node: NodeId, reading: Arc<Semaphore>) -> HintDelivery<ReplicaHints> {
        let receiver = ReplicaHints {
            node,
            replicas: Rc::clone(&self.replicas),
            pending: Rc::clone(&self.coordinator.pending),
            clock: Arc::clone(&self.node.clock),
            timeout: self.node.config.timeout,
        };
        HintDelivery::new(
            self.node.hints.clone(),
            node,
            Rc::new(receiver),
            reading,
            Arc::clone(&self.node.random),
            Arc::clone(&self.node.background),
        )
    }

    /// Serves a peer's connection until it ends. `received` are the bytes that came after
    /// the upgrade; `known` is called once the connection has proved to be a peer's. With `only_lists`
    /// the peer is handed lists of members, and nothing else.
    pub async fn welcome(
        &self,
        stream: Box<dyn Stream>,
        received: Bytes,
        only_lists: bool,
        known: impl FnOnce(),
    ) {
        let environment = PeerEnvironment {
            only_lists,
            ..self.links.environment.clone()
        };
        let handler = Rc::new(PeerRequests {
            replicas: Rc::clone(&self.replicas),
            repair: Rc::clone(&self.repair),
            node: Arc::clone(&self.node),
            peers: Rc::clone(&self.peers),
            introductions: self.introductions(),
        });
        let stream = self.links.transport.accept(stream);
        peer::serve(stream, received, environment, handler, known).await;
    }

    /// Takes part in repair.
    pub(crate) fn repair(&self) -> &Rc<RepairWorker> {
        &self.repair
    }

    /// The node that it works for.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Asks replicas.
    #[must_use]
    pub fn coordinator(&self) -> &Rc<Coordinator> {
        &self.coordinator
    }

    /// The time.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.node.clock
    }

    /// The deadline of a request that began at `began`.
    #[must_use]
    pub fn deadline_after(&self, began: Duration) -> Duration {
        began.saturating_add(self.node.config.timeout)
    }

    /// The layout that this runtime has adopted.
    #[must_use]
    pub fn layout(&self) -> Arc<Layout> {
        self.peers.layout()
    }

    /// How many nodes there are: the most that `from` can be.
    #[must_use]
    pub fn nodes(&self) -> u8 {
        self.peers.nodes()
    }

    /// How many replicas a request has that does not say so, and how many must answer, once the
    /// members have changed.
    #[must_use]
    pub fn default_pair(&self) -> Option<Replicas> {
        self.peers.default_pair()
    }

    /// The state of the link to another node.
    #[must_use]
    pub fn link_status(&self, node: NodeId) -> Option<LinkStatus> {
        self.peers.status(node)
    }

    /// The states of the links to the other nodes.
    #[must_use]
    pub fn links(&self) -> NodeTable<LinkStatus> {
        self.peers.statuses()
    }

    /// Begins a backup of the cluster at a target, from which at most `missing_max` stores may be
    /// missing, or joins one like it that is under way there. If it `adopts`, the target becomes one
    /// of this cluster. Returns its number on this node, and whether it is new.
    ///
    /// # Errors
    /// [`BackupError::NoTarget`], [`BackupError::Busy`] while it makes another backup.
    pub fn order_backup(
        &self,
        target: &str,
        missing_max: usize,
        adopts: bool,
    ) -> Result<(u64, bool), BackupError> {
        let target = target.to_owned();
        self.backups.order(BackupOrder {
            target,
            missing_max,
            adopts,
        })
    }

    /// How each node is, in the order of their names: as they said within the last second, or
    /// say now. Waits for those that are silent, but no longer than a second.
    pub async fn examine(&self) -> Arc<[ExaminedNode]> {
        let (node, peers) = (&*self.node, &*self.peers);
        let own = async |deadline| report(node, peers, deadline).await;
        node.examiner
            .examine(own, peers, &self.coordinator.pending, &*node.clock)
            .await
    }

    /// Ends the requests and the calls whose time is over, and publishes the counts of
    /// the links.
    fn end_overdue(&self) {
        let now = self.node.clock.monotonic();
        self.coordinator.pending.expire(now);
        for node in self.peers.end_overdue(now) {
            self.node.hints.wake(node);
        }
        for (node, status) in self.peers.statuses().iter() {
            self.metrics.publish_link(node, status);
        }
    }

    /// Has the links dial the peers that have dialled this node.
    async fn follow_dialled_peers(self: Rc<Self>) {
        let dial = |peer| {
            if let Some(link) = self.peers.link(peer) {
                link.note_peer_dial();
            }
        };
        self.node.dialled.follow(self.number, dial).await;
    }

    /// Has the store notice within seconds that its folder was moved or removed.
    async fn look_at_folder_forever(self: Rc<Self>) {
        loop {
            tokio::time::sleep(FOLDER_LOOK_PERIOD).await;
            let _told = self.node.disk_free_bytes().await;
        }
    }

    async fn end_overdue_forever(self: Rc<Self>) {
        let mut ticks = tokio::time::interval(overdue_check_period(self.node.config.timeout));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.end_overdue();
        }
    }
}
