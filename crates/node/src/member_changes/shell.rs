//! The task that carries changes of the list on: the shell of [`Driver`].

use super::{AskedMember, Introductions, MemberChanges, Ordered, Seen};
use base::Clock;
use cluster::layout::driver::{CommandFailure, Driver, DriverAction, DriverEvent};
use cluster::layout::paxos::{VoteAnswer, VoteRequest};
use cluster::layout::{Change, Lists, MemberList};
use cluster::{Epoch, Layout, Member, NodeId, NodeSet};
use lsm::{Executor, JobClass};
use membership::Membership;
use peer::{LISTS, ListAnswer, ListRequest, PeerAnswer, PeerRequest};
use profile::lock;
use replica::pending::PendingRequests;
use replica::{Completion, Peers};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

/// How often the shell looks what is to be done.
const TICK: Duration = Duration::from_millis(100);
/// How long a peer may take to vote or to hand a list over.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How long an order may take until its first list is decided.
const ORDER_MAX: Duration = Duration::from_secs(10);
/// A store that may have lost its votes does not vote for so long after its start: by then every
/// attempt has ended that it may have voted in.
const VOTES_AFTER: Duration = Duration::from_secs(5);
/// How often a list that was forced is handed to members that are not up.
const FORCED_AGAIN: Duration = Duration::from_secs(2);
/// How many votes may wait for the shell; a vote that is left out counts as missed.
const VOTES_MAX: usize = 512;

/// What the shell works with, on the first runtime.
pub(crate) struct ChangeShell {
    /// The way in for operators.
    pub(crate) changes: MemberChanges,
    /// Puts a layout in force in all of the node. Blocks.
    pub(crate) put_in_force: Arc<dyn Fn(Layout) + Send + Sync>,
    /// Runs the job that does so.
    pub(crate) executor: Arc<dyn Executor>,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// When the node was started, on the monotonic clock.
    pub(crate) started: Duration,
    /// How long a request may take.
    pub(crate) timeout: Duration,
    /// The links to the other nodes.
    pub(crate) peers: Rc<Peers>,
    /// How nodes are asked that have just joined.
    pub(crate) introductions: Rc<Introductions>,
    /// Where answers come to.
    pub(crate) pending: Rc<PendingRequests>,
    /// Whether a layout is being put in force.
    pub(crate) is_following: Cell<bool>,
    /// Whether an exchange with all others is under way.
    pub(crate) is_exchanging: Cell<bool>,
}

/// Where the outcome of an order goes.
type Outcome = oneshot::Sender<Result<(), CommandFailure>>;

/// A vote that has arrived.
type Vote = (u64, NodeId, VoteAnswer);

/// What the shell remembers between two turns.
struct Turns {
    driver: Option<Driver>,
    votes: mpsc::Sender<Vote>,
    /// The orders that wait for their outcome, by number.
    orders: Vec<(u64, Outcome)>,
    /// How many orders there have been.
    ordered: u64,
    /// Since when all runtimes go by this list.
    in_force: Option<(Epoch, Duration)>,
    /// When a list that was forced is handed again to members that are not up.
    forced_again: Duration,
}

impl ChangeShell {
    /// Carries changes on until the runtime ends.
    pub(crate) async fn run_forever(self: Rc<Self>) {
        let Some(mut orders) = lock(&self.changes.inner.ordered).take() else {
            return;
        };
        let (votes_in, mut votes) = mpsc::channel(VOTES_MAX);
        let mut turns = Turns {
            driver: None,
            votes: votes_in,
            orders: Vec::new(),
            ordered: 0,
            in_force: None,
            forced_again: Duration::ZERO,
        };
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let mut events = Vec::new();
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.membership().list_changed() => {}
                Some(ordered) = orders.recv() => match ordered {
                    Ordered::Change { change, done } => {
                        events.push(self.asked(&mut turns, change, done));
                    }
                    Ordered::Ask { joiners, done } => self.ask_members(joiners, done),
                },
                Some((attempt, from, answer)) = votes.recv() => {
                    events.push(DriverEvent::Voted { attempt, from, answer });
                }
            }
            self.turn(&mut turns, events);
        }
    }

    fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    fn membership(&self) -> &Membership {
        &self.changes.inner.membership
    }

    fn asked(&self, turns: &mut Turns, change: Change, done: Outcome) -> DriverEvent {
        turns.ordered += 1;
        let command = turns.ordered;
        turns.orders.push((command, done));
        DriverEvent::Asked {
            command,
            change,
            deadline: self.now() + ORDER_MAX,
        }
    }

    /// Does what there is to do.
    fn turn(self: &Rc<Self>, turns: &mut Turns, events: Vec<DriverEvent>) {
        let membership = self.membership();
        let Some(list) = membership.list() else {
            return;
        };
        if membership.is_removed() {
            // Who waits for an order hears that there is no outcome.
            turns.orders.clear();
            return;
        }
        self.follow(&list);
        lock(&self.changes.inner.waiting).forget_members(&list);
        self.report(turns, list.epoch());
        let up = self.up();
        let own = self.peers.own();
        let driver = turns
            .driver
            .get_or_insert_with(|| Driver::new(own, (*list).clone()));
        let mut all = Vec::new();
        if !driver.has(&list) {
            all.push(DriverEvent::Adopted(Box::new((*list).clone())));
        }
        all.push(DriverEvent::Up(up));
        let reports = membership.reports();
        let members = list.members().iter().map(|member| member.id);
        all.extend(members.map(|node| DriverEvent::Reported(node, reports.of(node))));
        all.extend(events);
        all.push(DriverEvent::Tick);
        let mut actions = Vec::new();
        for event in all {
            driver.step(event, self.now(), &mut actions);
        }
        *lock(&self.changes.inner.seen) = Seen {
            up,
            progress: driver.progress(),
        };
        for action in actions {
            self.act(turns, action);
        }
        if membership
            .list()
            .is_some_and(|now| now.epoch() == list.epoch())
        {
            self.exchange_where_due(&list);
            self.hand_forced(turns, &list);
        }
    }

    /// The members that are up, with this one.
    fn up(&self) -> NodeSet {
        let layout = self.peers.layout();
        let nodes = layout.members().ids();
        let is_up = |node: &NodeId| {
            self.peers.is_own(*node)
                || self
                    .peers
                    .status(*node)
                    .is_some_and(|status| status.state == peer::LinkState::Up)
        };
        nodes.filter(is_up).collect()
    }

    /// Begins to put a list in force that is durable. The shell goes on meanwhile: a job may take long,
    /// and votes do not wait.
    fn follow(self: &Rc<Self>, list: &MemberList) {
        let layouts = &self.changes.inner.layouts;
        if list.epoch() <= layouts.load().epoch() {
            return;
        }
        let Some(layout) = Layout::of(list, layouts.own()) else {
            return;
        };
        if layouts.load().members().is_single_node() && !layout.members().is_single_node() {
            // A node without peers drops tombstones at once, and takes its clock for right.
            self.changes.inner.is_joined.send_replace(true);
            return;
        }
        if self.is_following.replace(true) {
            return;
        }
        let put_in_force = Arc::clone(&self.put_in_force);
        let (done, is_done) = oneshot::channel();
        let job = Box::new(move || {
            put_in_force(layout);
            // It is awaited, unless the runtime has ended.
            let _is_awaited = done.send(()).is_ok();
        });
        let executor = &self.executor;
        executor.spawn(JobClass::Owner, Duration::ZERO, job);
        let (epoch, phase, shell) = (list.epoch().as_u64(), list.phase(), Rc::clone(self));
        tokio::task::spawn_local(async move {
            if is_done.await.is_ok() {
                let phase = phase.word();
                tracing::info!(epoch, phase, "another list of members is in force");
            }
            shell.is_following.set(false);
        });
    }

    /// Reports the list, once no request of an earlier one is left.
    fn report(&self, turns: &mut Turns, epoch: Epoch) {
        if self.changes.adopted_by_all() < epoch {
            return;
        }
        let now = self.now();
        let since = match turns.in_force {
            Some((known, since)) if known == epoch => since,
            _ => now,
        };
        turns.in_force = Some((epoch, since));
        // A request may begin at the very moment at which its runtime adopts the list.
        if now > since + self.timeout {
            self.membership().report_epoch(epoch);
        }
    }

    fn act(self: &Rc<Self>, turns: &mut Turns, action: DriverAction) {
        match action {
            DriverAction::Ask {
                attempt,
                node,
                request,
            } => self.ask(turns.votes.clone(), attempt, node, request),
            DriverAction::Adopt(list) => {
                self.membership().take_list(&list);
                self.hand_to_all(&list);
            }
            DriverAction::Reply { command, outcome } => {
                let place = turns
                    .orders
                    .iter()
                    .position(|(number, _)| *number == command);
                if let Some(place) = place {
                    let (_, done) = turns.orders.swap_remove(place);
                    // Who has ordered it may have gone.
                    let _is_awaited = done.send(outcome).is_ok();
                }
            }
        }
    }

    /// Has a member vote, which may be this node.
    fn ask(
        self: &Rc<Self>,
        votes: mpsc::Sender<Vote>,
        attempt: u64,
        node: NodeId,
        request: VoteRequest,
    ) {
        if self.peers.is_own(node) {
            // A vote that is left out counts as missed at the end of the attempt.
            let vote = move |answer| drop(votes.try_send((attempt, node, answer)));
            self.membership().vote(request, vote);
            return;
        }
        let shell = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let answer = shell.call(node, ListRequest::Vote(Box::new(request))).await;
            let answer = match answer {
                Some(ListAnswer::Voted(answer)) => *answer,
                _ => VoteAnswer::Missed,
            };
            drop(votes.try_send((attempt, node, answer)));
        });
    }

    /// Asks all members that are up what they know of nodes that wait to join.
    fn ask_members(self: &Rc<Self>, joiners: Vec<String>, done: oneshot::Sender<Vec<AskedMember>>) {
        let shell = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let layout = shell.peers.layout();
            let members = shell.up().iter().map(|node| {
                let (shell, joiners) = (Rc::clone(&shell), joiners.clone());
                let name = layout.members().name(node).to_owned();
                tokio::task::spawn_local(
                    async move { shell.ask_member(node, name, &joiners).await },
                )
            });
            let members: Vec<_> = members.collect();
            let mut asked = Vec::new();
            for member in members {
                // It ends with the runtime only.
                asked.extend(member.await);
            }
            // Who has ordered it may have gone.
            let _is_awaited = done.send(asked).is_ok();
        });
    }

    async fn ask_member(&self, node: NodeId, name: String, joiners: &[String]) -> AskedMember {
        let link = self.peers.link(node);
        let has_lists = !link.is_some_and(|link| link.lacks(LISTS));
        let mut known = Vec::new();
        for joiner in joiners {
            if self.peers.is_own(node) {
                known.push(Some(self.changes.knows(joiner)));
                continue;
            }
            let answer = self.call(node, ListRequest::Knows(joiner.clone())).await;
            known.push(match answer {
                Some(ListAnswer::Known(known)) => Some(known),
                _ => None,
            });
        }
        AskedMember {
            name,
            has_lists,
            known,
        }
    }

    /// Asks a peer; `None` without an answer.
    async fn call(&self, node: NodeId, request: ListRequest) -> Option<ListAnswer> {
        let link = self.peers.link(node)?;
        let deadline = self.now() + ANSWER_MAX;
        let wait = self.pending.wait(deadline);
        let called = link.call(PeerRequest::List(request), deadline, wait.address());
        called.ok()?;
        match wait.only().await {
            Some(Completion::Peer(PeerAnswer::List(answer))) => Some(answer),
            _ => None,
        }
    }

    /// Hands a decided list to all others at once, those that join by it included: they start as
    /// members then.
    fn hand_to_all(self: &Rc<Self>, list: &MemberList) {
        let is_begin = list.change() == list.epoch();
        let joiners = list.members().iter();
        for joiner in joiners.filter(|it| is_begin && it.lists == Lists::New) {
            self.introduce(joiner.member.clone(), list.clone());
        }
        for node in self.up().iter().filter(|node| !self.peers.is_own(*node)) {
            let (shell, list) = (Rc::clone(self), list.clone());
            tokio::task::spawn_local(async move {
                shell.exchange(node, &list).await;
            });
        }
    }

    /// Hands a peer a list, and takes its own if that is later.
    async fn exchange(&self, node: NodeId, list: &MemberList) -> Option<ListAnswer> {
        let list = Some(Box::new(list.clone()));
        let answer = self.call(node, ListRequest::Exchange(list)).await;
        if let Some(ListAnswer::Exchanged {
            list: Some(list), ..
        }) = &answer
        {
            self.membership().take_list(list);
        }
        answer
    }

    /// Hands a list that an operator has forced to the members that are not up: they may still be of
    /// the cluster before, which this one refuses.
    fn hand_forced(&self, turns: &mut Turns, list: &MemberList) {
        let now = self.now();
        if list.forced_from().is_none() || now < turns.forced_again {
            return;
        }
        turns.forced_again = now + FORCED_AGAIN;
        for node in list.live().without(self.up()).iter() {
            if let Some(listed) = list.get(node) {
                self.introduce(listed.member.clone(), list.clone());
            }
        }
    }

    /// Hands a list to a node over a connection of its own.
    fn introduce(&self, member: Member, list: MemberList) {
        let introductions = Rc::clone(&self.introductions);
        tokio::task::spawn_local(async move {
            let request = ListRequest::Exchange(Some(Box::new(list)));
            let asked = introductions.ask(member.url(), Some(member.name()), &request);
            if let Err(problem) = asked.await {
                // One that joins asks for the list by itself, too.
                tracing::debug!(name = member.name(), problem, "a node takes no list");
            }
        });
    }

    /// Exchanges lists with the peers that have said that theirs is another one, and with all others
    /// if this store may have lost its votes.
    fn exchange_where_due(self: &Rc<Self>, list: &Arc<MemberList>) {
        let membership = self.membership();
        let is_late = self.now() >= self.started + VOTES_AFTER;
        let takes_over =
            membership.lacks_votes() && membership.is_voter() && is_late && !list.live().is_empty();
        let is_other = |node: &NodeId| {
            membership
                .list_epoch_of(*node)
                .is_some_and(|epoch| epoch != list.epoch())
        };
        let others = self.up().iter().filter(|node| !self.peers.is_own(*node));
        let due: Vec<NodeId> = others.filter(|node| takes_over || is_other(node)).collect();
        if due.is_empty() || self.is_exchanging.replace(true) {
            return;
        }
        let (shell, list) = (Rc::clone(self), Arc::clone(list));
        tokio::task::spawn_local(async move {
            let mut acceptors = Vec::new();
            let mut heard = NodeSet::from_iter([shell.peers.own()]);
            for node in due {
                if let Some(ListAnswer::Exchanged {
                    list: Some(theirs),
                    acceptor,
                }) = shell.exchange(node, &list).await
                    && theirs.epoch() == list.epoch()
                {
                    heard.insert(node);
                    acceptors.push(*acceptor);
                }
            }
            if takes_over && list.voters().without(list.dead()).without(heard).is_empty() {
                let membership = shell.membership();
                membership.take_over_votes(list.epoch(), &acceptors);
            }
            shell.is_exchanging.set(false);
        });
    }
}
