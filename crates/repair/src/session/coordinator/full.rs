//! Leads full sessions: carries out what [`Session`] says.
//!
//! A full session may take hours, so it must survive restarts. From time to time all nodes make
//! durable what it has brought, and the coordinator stores a [`Checkpoint`]. If the coordinator is
//! restarted, or a node that took part comes back, another attempt goes on from there: what was
//! found equal before is durable. A store that has lost something since refuses that, and so does
//! one that took no part; then another session begins.

use super::Ended;
use super::answers::events_of;
use super::comparing::{ComparedRange, Lost};
use super::held_back::{BegunStore, Raising};
use crate::session::checkpoint::Checkpoint;
use crate::session::report::SessionReport;
use crate::session::untold::Over;
use crate::session::worker::RepairWorker;
use base::Timestamp;
use bytes::Bytes;
use cluster::NodeId;
use cluster::comparison::{KeyBounds, Pair};
use cluster::repair::{
    Compared, Next, SESSION_IDLE_MAX, Session, SessionAction, SessionAnswer, SessionEvent,
    SessionId, SessionRequest, Shown, Token,
};
use peer::{RepairAnswer, RepairRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

/// How often a coordinator begins a session at most, before it looks again whether one is due.
const SESSIONS_MAX: u32 = 8;

/// How often it does so while stores refuse that because they take part in another one.
const REFUSALS_MAX: u32 = 3;
/// How long it waits before that, at most as long again at random: two coordinators that begin at
/// the same time may refuse each other.
const REFUSAL_PAUSE: Duration = Duration::from_millis(500);

/// How long a session that has lost a node takes no checkpoint, so that the node can join
/// again from the last one. Until then the others compare on.
const AWAY_MAX: Duration = Duration::from_secs(120);

/// How often a session tries to take nodes in again that it has lost, at most.
const RETURNS_MAX: u32 = 8;
/// How long after that it tries again.
const RETURN_PAUSE: Duration = Duration::from_secs(1);
/// How long a session that has compared everything waits for nodes that it has lost, which are
/// being restarted: without them it raises no GC threshold and rebuilds no store.
const RETURN_MAX: Duration = Duration::from_secs(30);
/// How often it looks whether they are back.
const RETURN_LOOK: Duration = Duration::from_millis(200);

/// A session that this node leads.
struct FullSession {
    worker: Rc<RepairWorker>,
    token: Token,
    /// The first attempt since this node was started, and the last that any node was asked to
    /// begin.
    tried: RangeInclusive<Token>,
    /// The last checkpoint; at first, the beginning of the session.
    checkpoint: Checkpoint,
    /// The ranges since then.
    ranges_since: u32,
    /// When that was, on the monotonic clock.
    checkpoint_time: Duration,
    /// How often it was tried to take lost nodes in again.
    returns: u32,
    /// When last, on the monotonic clock.
    last_return: Option<Duration>,
    attempt: Attempt,
    /// When all nodes were last asked for something, on the monotonic clock.
    all_asked: Duration,
    report: SessionReport,
}

/// What an attempt knows beside its [`Session`].
#[derive(Default)]
struct Attempt {
    cut: Timestamp,
    /// Where the next range begins; [`None`] if the last key was compared.
    next: Option<Bytes>,
    /// The number of the next range.
    number: u32,
    /// The range that is compared, and whether it was before.
    range: Option<(ComparedRange, bool)>,
    stores: Vec<BegunStore>,
    /// Whether all know what they agree on.
    has_agreed: bool,
    raising: Raising,
    /// How many versions each node has of which there is no other copy.
    single_copies: BTreeMap<NodeId, u64>,
    /// The nodes that have said that something has come in behind their scan.
    voided: BTreeSet<NodeId>,
}

/// How an attempt has ended.
enum AttemptEnd {
    Over,
    /// Another one is to begin at the checkpoint.
    GoesBack,
    Preempted(Token),
}

/// What a [`Session`] says is to be done at once.
#[derive(Default)]
struct Actions {
    asks: Vec<NodeId>,
    request: Option<SessionRequest>,
    pairs: Vec<Pair>,
    decides: bool,
    stores_checkpoint: bool,
    preempted: Option<Token>,
    ends: Option<Timestamp>,
}

impl Actions {
    fn of(actions: Vec<SessionAction>) -> Self {
        let mut all = Self::default();
        for action in actions {
            match action {
                SessionAction::Ask { node, request } => {
                    all.asks.push(node);
                    all.request = Some(request);
                }
                SessionAction::Compare(pair) => all.pairs.push(pair),
                SessionAction::Decide => all.decides = true,
                SessionAction::Checkpoint => all.stores_checkpoint = true,
                SessionAction::Preempted { by } => all.preempted = Some(by),
                SessionAction::End { gc_threshold } => all.ends = Some(gc_threshold),
            }
        }
        all
    }
}

impl RepairWorker {
    /// Leads a full session to the last key: from the first one, or from the checkpoint of a
    /// session that was interrupted.
    ///
    /// While a store has to be rebuilt it first lets writes arrive: see `settling`.
    pub(in crate::session) async fn coordinate_full(self: &Rc<Self>) -> Ended {
        let sessions = &self.sessions;
        let (clock, random) = (&sessions.environment.clock, &sessions.environment.random);
        let own = sessions.environment.members.own();
        let mut stored = sessions.checkpoints.take_up(clock.unix_ms());
        if let Some(checkpoint) = stored.take_if(|checkpoint| !self.may_go_on_from(checkpoint)) {
            self.abandon(&checkpoint).await;
        }
        // The greatest token that is known.
        let mut greatest = Token::default();
        let mut refusals = 0;
        for _ in 0..SESSIONS_MAX {
            self.tell_untold().await;
            greatest = greatest.max(sessions.environment.store_side.record().token);
            // Another session may have begun at the own store meanwhile.
            let is_last = |checkpoint: &Checkpoint| greatest.session == checkpoint.token.session;
            let mut session = match stored.take().filter(is_last) {
                Some(checkpoint) => {
                    let token = greatest.max(checkpoint.token).next_attempt();
                    FullSession::new(Rc::clone(self), token, checkpoint)
                }
                None => {
                    self.outlast_writes().await;
                    let token = Token::first_after(greatest, own, random.next_u64() as u32);
                    FullSession::new(Rc::clone(self), token, Checkpoint::at_begin(token))
                }
            };
            let Some(by) = session.lead().await else {
                return Ended::With(session.report);
            };
            sessions.store_checkpoint(None);
            greatest = greatest.max(by);
            let token = session.token;
            if by.session == token.session
                && by.attempt < u32::MAX
                && !session.checkpoint.taking_part.is_empty()
            {
                // It has gone on before this node was restarted.
                stored = Some(session.checkpoint);
            } else if by.session != token.session {
                // A store that took no part in what goes on is included by another session. Any
                // other one takes part in a session, or knows a greater token of one that is over.
                let is_left_out = token.is_resumed() && by < token;
                if !is_left_out && by.is_of(own) {
                    // It has not heard that the session is over.
                    self.release(by).await;
                } else if !is_left_out {
                    refusals += 1;
                    if refusals > REFUSALS_MAX || session.has_begun() {
                        return Ended::Preempted { by };
                    }
                    let random_ms = random.next_u64() % REFUSAL_PAUSE.as_millis() as u64;
                    tokio::time::sleep(REFUSAL_PAUSE + Duration::from_millis(random_ms)).await;
                    if sessions.record.is_other_full_running() {
                        return Ended::Preempted { by };
                    }
                }
            }
        }
        Ended::With(SessionReport {
            pairs: self.all_pairs(),
            is_held_back: true,
            ..SessionReport::default()
        })
    }

    /// Whether a session can go on that was cut short by a restart of this node: unless a node is
    /// up that took no part, which another session includes.
    fn may_go_on_from(&self, checkpoint: &Checkpoint) -> bool {
        let own = self.sessions.environment.store_side.record().token;
        let nodes = self.nodes_up();
        let mut nodes = nodes.iter();
        own.session == checkpoint.token.session
            && nodes.all(|node| checkpoint.taking_part.contains_key(node))
    }
}

impl FullSession {
    /// A session that begins, or goes on, from this checkpoint.
    fn new(worker: Rc<RepairWorker>, token: Token, checkpoint: Checkpoint) -> Self {
        let now = worker.sessions.environment.clock.monotonic();
        let pairs = worker.all_pairs();
        Self {
            worker,
            token,
            tried: token..=token,
            checkpoint,
            ranges_since: 0,
            checkpoint_time: now,
            returns: 0,
            last_return: None,
            attempt: Attempt::default(),
            all_asked: now,
            report: SessionReport {
                pairs,
                ..SessionReport::default()
            },
        }
    }

    /// Leads the session to its end. Gives the token of another one if it was preempted.
    async fn lead(&mut self) -> Option<Token> {
        loop {
            let (machine, actions) = self.begin_attempt();
            match self.carry_out(machine, actions).await {
                AttemptEnd::Over => return None,
                AttemptEnd::Preempted(by) => return Some(by),
                AttemptEnd::GoesBack => self.token = self.next_token(),
            }
        }
    }

    /// The token of another attempt. None is tried twice: its answers may be late.
    fn next_token(&mut self) -> Token {
        let token = self.tried.end().next_attempt();
        self.tried = *self.tried.start()..=token;
        token
    }

    fn begin_attempt(&mut self) -> (Session, Vec<SessionAction>) {
        let is_resumed = self.token.is_resumed();
        let checkpoint = &self.checkpoint;
        self.attempt = Attempt {
            cut: checkpoint.cut,
            next: Some(checkpoint.next.clone()),
            single_copies: checkpoint.taking_part.clone(),
            ..Attempt::default()
        };
        self.report.resumed += u32::from(is_resumed);
        let members = &self.worker.sessions.environment.members;
        let takes_part = |node: NodeId| {
            let took_part = checkpoint.taking_part.contains_key(&node);
            (took_part || !is_resumed) && self.worker.is_up(node)
        };
        let up: Vec<bool> = members.ids().map(takes_part).collect();
        let shown = is_resumed.then(|| checkpoint.shown.clone());
        Session::start(self.token, members.names_hash(), &up, shown)
    }

    /// Carries out what an attempt says, until it has ended.
    async fn carry_out(
        &mut self,
        mut machine: Session,
        mut actions: Vec<SessionAction>,
    ) -> AttemptEnd {
        loop {
            let mut all = Actions::of(std::mem::take(&mut actions));
            if let Some(by) = all.preempted {
                self.worker.tell_over(self.token, all.asks).await;
                self.over(Timestamp::ZERO, self.members());
                return AttemptEnd::Preempted(by);
            }
            if let Some(gc_threshold) = all.ends {
                self.end(&machine, gc_threshold).await;
                return AttemptEnd::Over;
            }
            let mut events = match all.request.take() {
                Some(request) => self.ask(all.asks, request).await,
                None => Vec::new(),
            };
            if !all.pairs.is_empty() {
                events.extend(self.compare(&machine, all.pairs).await);
            }
            if all.decides && !self.attempt.has_agreed {
                events.extend(self.agree(&machine).await);
            }
            if all.stores_checkpoint {
                self.store_checkpoint(&machine);
            }
            if all.decides || all.stores_checkpoint {
                self.leave_range();
                let next = self.next(&machine, all.stores_checkpoint);
                let goes_back = if next == Next::Finish {
                    self.waits_for_lost(&machine).await
                } else {
                    self.goes_back(&machine).await
                };
                if goes_back {
                    return AttemptEnd::GoesBack;
                }
                events.push(SessionEvent::Next(next));
            }
            if events.is_empty() {
                // No node is there that could be asked.
                self.end(&machine, Timestamp::ZERO).await;
                return AttemptEnd::Over;
            }
            for event in events {
                let (stepped, more) = machine.step(event);
                machine = stepped;
                actions.extend(more);
            }
        }
    }

    /// Whether all nodes have begun an attempt, and ranges may have been compared.
    fn has_begun(&self) -> bool {
        self.attempt.has_agreed
    }

    /// Asks nodes for something, at the same time. The own store is the last that begins: if others
    /// take part in a session, that may be about to take it in again.
    async fn ask(&mut self, nodes: Vec<NodeId>, request: SessionRequest) -> Vec<SessionEvent> {
        self.all_asked = self.now();
        let session = SessionId::Full(self.token);
        let members = &self.worker.sessions.environment.members;
        match request {
            SessionRequest::Begin { members: hash } => {
                let own = members.own();
                let begin = |_| RepairRequest::Begin {
                    session,
                    members: hash,
                };
                let (own, others): (Vec<_>, Vec<_>) =
                    nodes.into_iter().partition(|node| *node == own);
                let mut answers = self.worker.ask_all(others, begin).await;
                let refuses =
                    |(_, answer): &Lost| matches!(answer, Some(RepairAnswer::Refused { .. }));
                if !answers.iter().any(refuses) {
                    answers.extend(self.worker.ask_all(own, begin).await);
                }
                self.begun(answers)
            }
            SessionRequest::Close {
                gc_threshold,
                below,
                are_all,
            } => {
                let start = self.attempt.next.clone().unwrap_or_default();
                let close = |_| RepairRequest::Close {
                    session,
                    gc_threshold,
                    below,
                    are_all,
                    start: start.clone(),
                };
                events_of(self.worker.ask_all(nodes, close).await)
            }
            SessionRequest::Open { .. } => self.open(nodes).await,
            SessionRequest::Sync => {
                let sync = |_| RepairRequest::Sync { session };
                let answers = self.worker.ask_all(nodes, sync).await;
                if self.attempt.raising == Raising::Yes {
                    self.note_voided(&answers);
                }
                events_of(answers)
            }
            SessionRequest::Finish { below } => {
                let finish = |_| RepairRequest::Finish { session, below };
                let answers = self.worker.ask_all(nodes, finish).await;
                if below > Timestamp::ZERO {
                    self.note_voided(&answers);
                }
                events_of(answers)
            }
            // It comes with the end.
            SessionRequest::Outcome { .. } => Vec::new(),
        }
    }

    /// Takes note of the nodes that say that something has come in behind their scan.
    fn note_voided(&mut self, answers: &[Lost]) {
        let voided = RepairAnswer::Synced { may_raise: false };
        let is_void = |(_, answer): &&Lost| answer.as_ref() == Some(&voided);
        let nodes = answers.iter().filter(is_void).map(|(node, _)| *node);
        self.attempt.voided.extend(nodes);
    }

    /// Takes note of the nodes that have begun, unless they name a GC threshold or a closed
    /// timestamp that cannot be: they would have the others leave out what is dead.
    fn begun(&mut self, answers: Vec<(NodeId, Option<RepairAnswer>)>) -> Vec<SessionEvent> {
        let worker = Rc::clone(&self.worker);
        let environment = &worker.sessions.environment;
        let mut seen = Vec::new();
        let answers = answers.into_iter().map(|(node, answer)| {
            let Some(RepairAnswer::Begun {
                greatest_seen,
                gc_threshold,
                closed,
                latest,
                ..
            }) = answer
            else {
                return (node, answer);
            };
            let name = environment.members.name(node);
            if !environment.store_side.believes(name, gc_threshold) {
                return (node, None);
            }
            seen.push(greatest_seen);
            self.attempt.stores.push(BegunStore {
                node,
                gc_threshold,
                closed,
                latest,
            });
            (node, answer)
        });
        let events = events_of(answers.collect());
        if !self.token.is_resumed() {
            self.attempt.cut = worker.cut_above(seen.into_iter());
        }
        events
    }

    /// Tells all what they agree on. Then the attempt has a checkpoint, at which it goes on after a
    /// restart: nothing was compared so far that is not in it.
    async fn agree(&mut self, machine: &Session) -> Vec<SessionEvent> {
        self.attempt.has_agreed = true;
        let environment = &self.worker.sessions.environment;
        let below = machine.shown().below;
        let wrong_clocks = environment.timestamps.wrong_clocks(&environment.members);
        let (stores, members) = (&self.attempt.stores, environment.members.ids());
        let known = stores.iter().map(|store| store.gc_threshold);
        let gc_threshold = known.fold(Timestamp::ZERO, Timestamp::max);
        self.attempt.raising = Raising::of(stores, members, below, wrong_clocks);
        let (session, cut) = (SessionId::Full(self.token), self.attempt.cut);
        let bounds_with = |node: NodeId| {
            let with = |other| {
                if other != node && machine.takes_part(other) {
                    KeyBounds::everything()
                } else {
                    // Nothing is compared with a node that does not take part.
                    KeyBounds::constant(Timestamp::MAX)
                }
            };
            environment.members.ids().map(with).collect()
        };
        let request = |node| RepairRequest::Agree {
            session,
            cut,
            gc_threshold,
            // Only incremental sessions offer what is not of full reach.
            reaches: vec![u8::MAX; environment.members.names().len()],
            bounds: bounds_with(node),
        };
        let nodes = self.taking_part(machine);
        let answers = self.worker.ask_all(nodes.clone(), request).await;
        let lost = answers.into_iter();
        let lost = lost.filter(|(_, answer)| *answer != Some(RepairAnswer::Done));
        let events = events_of(lost.collect());
        if !self.token.is_resumed() {
            self.checkpoint = Checkpoint {
                cut,
                taking_part: nodes.into_iter().map(|node| (node, 0)).collect(),
                shown: machine.shown(),
                ..Checkpoint::at_begin(self.token)
            };
        }
        self.checkpoint.token = self.token;
        self.checkpoint.stored_unix_ms = environment.clock.unix_ms();
        let checkpoint = Some(self.checkpoint.clone());
        self.worker.sessions.store_checkpoint(checkpoint);
        events
    }

    /// Has nodes scan the next range.
    async fn open(&mut self, nodes: Vec<NodeId>) -> Vec<SessionEvent> {
        let session = SessionId::Full(self.token);
        let start = self.attempt.next.clone().unwrap_or_default();
        let number = self.attempt.number;
        self.attempt.number += 1;
        let opened = self.worker.open_range(session, number, nodes, start);
        let (range, lost) = opened.await;
        for (node, versions) in &range.single_copies {
            *self.attempt.single_copies.entry(*node).or_default() += versions;
        }
        self.report.ranges += 1;
        self.report.non_owned += range.non_owned;
        let done = range.digests.iter().map(|digests| SessionEvent::Answered {
            node: digests.node,
            answer: SessionAnswer::Done,
        });
        let mut events: Vec<SessionEvent> = done.collect();
        events.extend(events_of(lost));
        self.attempt.range = Some((range, false));
        events
    }

    /// Has pairs compare the range. What they compare once more is all that they have by then.
    async fn compare(&mut self, machine: &Session, pairs: Vec<Pair>) -> Vec<SessionEvent> {
        let Some((mut range, was_compared)) = self.attempt.range.take() else {
            let missing = pairs.into_iter().map(|pair| SessionEvent::Compared {
                pair,
                outcome: Compared::Unequal,
            });
            return missing.collect();
        };
        let session = SessionId::Full(self.token);
        let worker = Rc::clone(&self.worker);
        let announced = if was_compared {
            None
        } else {
            let announcing = range.announcing();
            let taking_part = self.taking_part(machine);
            let announced = worker.have_announced(session, range.number, announcing, &taking_part);
            Some(announced.await)
        };
        let (mut outcomes, mut lost) = (BTreeMap::new(), Vec::new());
        for pair in range.in_turn(pairs) {
            let outcome = if !was_compared && range.is_same(pair) {
                Compared::Equal
            } else {
                worker.have_reconciled(session, &range, pair).await
            };
            let differs = !was_compared && !range.is_same(pair) || outcome != Compared::Equal;
            self.report.differing += u64::from(differs && range.differs(pair));
            outcomes.insert(pair, outcome);
            if self.now().saturating_sub(self.all_asked) > SESSION_IDLE_MAX / 4 {
                // Lest those that have nothing to exchange leave the session. They scan on.
                self.all_asked = self.now();
                let nodes = self.taking_part(machine);
                lost.extend(worker.scan_on(session, nodes, &range.start).await.1);
            }
        }
        let announced = match announced {
            Some(announced) => announced,
            // The non-owned copies may be other ones by now.
            None => {
                let nodes = self.taking_part(machine);
                worker
                    .have_announced(session, range.number, nodes.clone(), &nodes)
                    .await
            }
        };
        for pair in announced.not_told {
            outcomes.insert(pair, Compared::Unequal);
        }
        if announced.has_moved {
            let mut equal = outcomes.values_mut();
            if let Some(outcome) = equal.find(|outcome| **outcome == Compared::Equal) {
                *outcome = Compared::Moved;
            }
        }
        self.attempt.range = Some((range, true));
        let mut events = events_of(lost);
        let compared = outcomes.into_iter();
        events.extend(compared.map(|(pair, outcome)| SessionEvent::Compared { pair, outcome }));
        events
    }

    /// The range is over, if one was compared.
    fn leave_range(&mut self) {
        if let Some((range, _)) = self.attempt.range.take() {
            self.ranges_since += 1;
            self.attempt.next = range.end;
        }
    }

    /// What comes next, between two ranges.
    fn next(&self, machine: &Session, was_stored: bool) -> Next {
        if self.attempt.next.is_none()
            || self.attempt.number == u32::MAX
            || self.taking_part(machine).len() < 2
        {
            return Next::Finish;
        }
        let sizes = self.worker.sessions.environment.sizes;
        let since = self.now().saturating_sub(self.checkpoint_time);
        let is_due =
            self.ranges_since >= sizes.checkpoint_ranges || since >= sizes.checkpoint_period;
        let waits = self.lost(machine).next().is_some() && since < AWAY_MAX;
        if is_due && !waits && !was_stored {
            Next::Checkpoint
        } else {
            Next::Range
        }
    }

    /// Whether nodes are back that took part up to the checkpoint and were lost: another attempt
    /// takes them in, if they begin one. What a store has shown that refuses counts no more.
    async fn goes_back(&mut self, machine: &Session) -> bool {
        let paused_until = self.last_return.map(|last| last + RETURN_PAUSE);
        let is_paused = paused_until.is_some_and(|until| self.now() < until);
        let back = self.lost(machine).filter(|node| self.worker.is_up(*node));
        let back: Vec<NodeId> = back.collect();
        if self.returns == RETURNS_MAX || is_paused || back.is_empty() {
            return false;
        }
        self.returns += 1;
        let token = self.next_token();
        let members = self.worker.sessions.environment.members.names_hash();
        let begin = |_| RepairRequest::Begin {
            session: SessionId::Full(token),
            members,
        };
        let mut is_any_back = false;
        for (node, answer) in self.worker.ask_all(back, begin).await {
            match answer {
                Some(RepairAnswer::Begun { .. }) => is_any_back = true,
                Some(RepairAnswer::Refused { .. }) => {
                    self.checkpoint.taking_part.remove(&node);
                }
                _ => {}
            }
        }
        self.last_return = Some(self.now());
        is_any_back
    }

    /// All ranges were compared. Waits for nodes that are lost; returns whether one is back.
    async fn waits_for_lost(&mut self, machine: &Session) -> bool {
        let until = self.now() + RETURN_MAX;
        while self.lost(machine).next().is_some() {
            if self.goes_back(machine).await {
                return true;
            }
            if self.returns == RETURNS_MAX || self.now() >= until {
                return false;
            }
            tokio::time::sleep(RETURN_LOOK).await;
        }
        false
    }

    /// The nodes that took part up to the checkpoint, and do not any more.
    fn lost(&self, machine: &Session) -> impl Iterator<Item = NodeId> {
        let took_part = self.checkpoint.taking_part.keys().copied();
        took_part.filter(|node| !machine.takes_part(*node))
    }

    /// Stores how far the session has come: all nodes have made durable what it has brought. A node
    /// that was lost meanwhile can take part again from the checkpoint before; from this one it
    /// could not.
    fn store_checkpoint(&mut self, machine: &Session) {
        let since = self.now().saturating_sub(self.checkpoint_time);
        if self.lost(machine).next().is_some() && since < AWAY_MAX {
            return;
        }
        let Some(next) = self.attempt.next.clone() else {
            return;
        };
        self.ranges_since = 0;
        self.checkpoint_time = self.now();
        let single_copies = &self.attempt.single_copies;
        let taking_part = self.taking_part(machine).into_iter();
        self.checkpoint = Checkpoint {
            token: self.token,
            cut: self.attempt.cut,
            stored_unix_ms: self.worker.sessions.environment.clock.unix_ms(),
            next,
            taking_part: taking_part
                .map(|node| (node, single_copies.get(&node).copied().unwrap_or(0)))
                .collect(),
            shown: machine.shown(),
        };
        let checkpoint = Some(self.checkpoint.clone());
        self.worker.sessions.store_checkpoint(checkpoint);
    }

    /// Tells all nodes what the session has shown, and what the GC threshold has risen to.
    async fn end(&mut self, machine: &Session, gc_threshold: Timestamp) {
        let worker = Rc::clone(&self.worker);
        let environment = &worker.sessions.environment;
        let members = &environment.members;
        let session = SessionId::Full(self.token);
        let equal = machine.equal();
        let away: Vec<NodeId> = members
            .ids()
            .filter(|node| !machine.takes_part(*node))
            .collect();
        let Shown { below, unequal } = machine.shown();
        let is_between_present =
            |pair: &Pair| machine.takes_part(pair.lower) && machine.takes_part(pair.upper);
        let unequal = unequal.into_iter().filter(is_between_present).collect();
        let voided = self.attempt.voided.iter().copied().collect();
        let raising = std::mem::take(&mut self.attempt.raising);
        let has_moved = below == Timestamp::ZERO;
        let is_idle = raising == Raising::Idle;
        let held_back = if gc_threshold > Timestamp::ZERO {
            None
        } else {
            raising.held_back(away.clone(), unequal, has_moved, voided)
        };
        self.report.equal_pairs = equal.len() as u64;
        self.report.is_held_back = held_back.is_some();
        if self.report.is_held_back || !self.report.are_all_equal() {
            worker.sessions.record.not_done(session);
        }
        if !is_idle {
            environment.store_side.set_held_back(held_back);
        }
        let counted = |node: NodeId| {
            if machine.takes_part(node) {
                self.attempt.single_copies.get(&node).copied().unwrap_or(0)
            } else {
                u64::MAX
            }
        };
        let single_copies: Vec<u64> = members.ids().map(counted).collect();
        let outcome = |node| RepairRequest::Outcome {
            session,
            gc_threshold,
            single_copies: single_copies.clone(),
            equal_with: equal
                .iter()
                .filter_map(|pair| pair.other_than(node))
                .collect(),
        };
        let answers = worker.ask_all(self.taking_part(machine), outcome).await;
        let untold = answers.into_iter().filter(|(_, answer)| answer.is_none());
        let untold = untold.map(|(node, _)| node).chain(away);
        self.over(gc_threshold, untold.collect());
        worker.tell_untold().await;
        worker.sessions.store_checkpoint(None);
    }

    /// The session is over, and these nodes have yet to hear it.
    fn over(&self, gc_threshold: Timestamp, nodes: BTreeSet<NodeId>) {
        let over = Over {
            token: self.token,
            tried: self.tried.clone(),
            gc_threshold,
        };
        self.worker.sessions.untold.end(over, nodes);
    }

    fn members(&self) -> BTreeSet<NodeId> {
        self.worker.sessions.environment.members.ids().collect()
    }

    fn taking_part(&self, machine: &Session) -> Vec<NodeId> {
        let members = &self.worker.sessions.environment.members;
        let all = members.ids();
        all.filter(|node| machine.takes_part(*node)).collect()
    }

    fn now(&self) -> Duration {
        self.worker.sessions.environment.clock.monotonic()
    }
}
