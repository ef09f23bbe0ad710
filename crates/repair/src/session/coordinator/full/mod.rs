//! Leads full sessions: carries out what [`Session`] says.
//!
//! A full session may take hours, so it must survive restarts. From time to time all nodes make
//! durable what it has brought, and the coordinator stores a [`Checkpoint`]. If the coordinator is
//! restarted, or a node that took part comes back, another attempt goes on from there: what was
//! found equal before is durable. A store that has lost something since refuses that, and so does
//! one that took no part; then another session begins.
//!
//! - `requests`: what all nodes are asked for; `answers`: what their answers mean;
//! - `ranges`: has them compare range after range;
//! - `checkpoints`: takes nodes in again from the last checkpoint;
//! - `outcome`: how the session ends; `held_back`: why it has not raised the GC threshold; `over`:
//!   has stores leave it.

mod answers;
mod checkpoints;
mod held_back;
mod outcome;
mod over;
mod ranges;
mod requests;

use super::Ended;
use super::comparing::ComparedRange;
use crate::session::checkpoint::Checkpoint;
use crate::session::orders::SessionReport;
use crate::session::worker::RepairWorker;
use base::Timestamp;
use bytes::Bytes;
use cluster::comparison::Pair;
use cluster::repair::{Next, Session, SessionAction, SessionEvent, SessionRequest, Token};
use cluster::{Layout, NodeId};
use held_back::{BegunStore, Raising};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How often a coordinator begins a session at most, before it looks again whether one is due.
const SESSIONS_MAX: u32 = 8;

/// How often it does so while stores refuse that because they take part in another one.
const REFUSALS_MAX: u32 = 3;
/// How long it waits before that, at most as long again at random: two coordinators that begin at
/// the same time may refuse each other.
const REFUSAL_PAUSE: Duration = Duration::from_millis(500);

/// A session that this node leads.
struct FullSession {
    worker: Rc<RepairWorker>,
    /// The layout that it began with.
    layout: Arc<Layout>,
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
        let own = self.peers.own();
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
                    let epoch = self.peers.layout().epoch();
                    let begin = Checkpoint::at_begin(token, epoch);
                    FullSession::new(Rc::clone(self), token, begin)
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

    /// Whether a session can go on that was cut short by a restart of this node: unless the list of
    /// members has changed, or a node is up that took no part, which another session includes.
    fn may_go_on_from(&self, checkpoint: &Checkpoint) -> bool {
        let own = self.sessions.environment.store_side.record().token;
        let nodes = self.nodes_up();
        let mut nodes = nodes.iter();
        own.session == checkpoint.token.session
            && checkpoint.epoch == self.peers.layout().epoch()
            && nodes.all(|node| checkpoint.taking_part.contains_key(node))
    }
}

impl FullSession {
    /// A session that begins, or goes on, from this checkpoint.
    fn new(worker: Rc<RepairWorker>, token: Token, checkpoint: Checkpoint) -> Self {
        let now = worker.sessions.environment.clock.monotonic();
        let pairs = worker.all_pairs();
        Self {
            layout: worker.peers.layout(),
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
        let members = self.layout.members();
        let takes_part = |node: NodeId| {
            let took_part = checkpoint.taking_part.contains_key(&node);
            (took_part || !is_resumed) && self.worker.is_up(node)
        };
        let up: Vec<_> = members.ids().map(|node| (node, takes_part(node))).collect();
        let shown = is_resumed.then(|| checkpoint.shown.clone());
        Session::start(self.token, self.layout.epoch(), up, shown)
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
            if self.has_other_members() {
                return self.give_up(&machine).await;
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

    fn members(&self) -> BTreeSet<NodeId> {
        self.layout.members().ids().collect()
    }

    fn taking_part(&self, machine: &Session) -> Vec<NodeId> {
        let all = self.layout.members().ids();
        all.filter(|node| machine.takes_part(*node)).collect()
    }

    fn now(&self) -> Duration {
        self.worker.sessions.environment.clock.monotonic()
    }
}
