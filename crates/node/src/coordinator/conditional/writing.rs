//! One conditional write, from its first ballot to the last answer.
//!
//! It is a task of its own: whether its client waits or not, what was promised has to be released,
//! and a version that was sent has to be sent to all. It ends at its deadline at the latest.

use super::answers::{ACCEPTED, Answer, BallotBox, HINTED, PREPARED, accepted, prepared};
use super::settling::Settlement;
use super::{ConditionalReply, Coordinator};
use crate::coordinator::ReplicaTimes;
use crate::coordinator::key_turns::Turn;
use crate::coordinator::{Failure, Terms, Written};
use base::{Entry, Kind, Permit, Reservation, Timestamp};
use bytes::Bytes;
use cluster::{
    Base, Condition, ConditionalAction, ConditionalActions, ConditionalEvent, ConditionalOutcome,
    ConditionalWrite, Epoch, Miss, Newest, NodeId, PreferenceList, ReplicaIndex,
};
use peer::{PeerAnswer, Prepare, PromiseRequest};
use replica::pending::AnswerTag;
use replica::timestamps::{AllocatedTimestamp, NoTimestamp};
use replica::{AnswerTime, ReplicaRequest};
use std::future::{Future, pending};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The longest pause before the second ballot; each later one may be twice as long, up to the
/// longest of all.
const PAUSE_MS: u64 = 4;
const PAUSE_MAX_MS: u64 = 64;

/// From this ballot on a pause comes before each, whatever the reason was.
const HASTY_BALLOTS: u32 = 3;

/// What is asked for.
pub(super) struct Asked {
    /// What is written, with any timestamp.
    pub(super) content: Entry,
    pub(super) condition: Condition,
    pub(super) terms: Terms,
    /// The reservation of memory for a long value.
    pub(super) reservation: Option<Reservation>,
    pub(super) turn: Turn,
    pub(super) reply: oneshot::Sender<ConditionalReply>,
}

/// A conditional write under way.
pub(super) struct Writing {
    coordinator: Rc<Coordinator>,
    terms: Terms,
    condition: Condition,
    machine: ConditionalWrite,
    /// The epoch of the list of members by which the replicas were chosen.
    epoch: Epoch,
    preference_list: PreferenceList,
    /// What is written, with any timestamp.
    content: Entry,
    ballots: BallotBox,
    /// The ballot under way: pending until this node's own store takes the version.
    allocated: Option<AllocatedTimestamp>,
    /// How many ballots there were.
    tried: u32,
    /// What the machine waits for besides answers.
    waits: Waits,
    /// Why there was no ballot, or no read.
    failure: Option<Failure>,
    /// Where the client waits, and the turn at the key, which ends with the answer.
    client: Option<(oneshot::Sender<ConditionalReply>, Turn)>,
    is_done: bool,
    reservation: Option<Reservation>,
    permit: Rc<Permit>,
}

/// A wait of the machine for something besides answers.
type Waits = Option<Pin<Box<dyn Future<Output = Waited>>>>;

/// What it has waited for.
enum Waited {
    Ballot(Result<AllocatedTimestamp, NoTimestamp>),
    Read(Result<Newest, Failure>),
    Settled,
    Resumed,
}

/// What comes next.
enum Next {
    Answer(Answer),
    Waited(Waited),
    Deadline,
}

impl Writing {
    /// Begins.
    pub(super) fn new(
        coordinator: &Rc<Coordinator>,
        asked: Asked,
        permit: Rc<Permit>,
    ) -> (Self, ConditionalActions) {
        let Asked {
            content,
            condition,
            terms,
            reservation,
            turn,
            reply,
        } = asked;
        let mut actions = ConditionalActions::new();
        let peers = &coordinator.peers;
        let (preference_list, quorum) = peers.for_request(content.key(), terms.replicas);
        let machine = ConditionalWrite::start(quorum, condition.clone(), &mut actions);
        let writing = Self {
            condition,
            machine,
            epoch: peers.layout().epoch(),
            preference_list,
            ballots: BallotBox::new(&coordinator.pending, terms.deadline),
            coordinator: Rc::clone(coordinator),
            terms,
            content,
            allocated: None,
            tried: 0,
            waits: None,
            failure: None,
            client: Some((reply, turn)),
            is_done: false,
            reservation,
            permit,
        };
        (writing, actions)
    }

    /// Goes on until nothing is left to do, or until the deadline.
    pub(super) async fn run(mut self, mut actions: ConditionalActions) {
        loop {
            self.act(&mut actions);
            actions.clear();
            // A promise that comes after the end is to be released.
            if self.is_done && !self.ballots.is_awaiting() {
                return;
            }
            match self.next().await {
                Next::Answer(answer) => {
                    if let Some(event) = self.event_of(answer) {
                        self.machine.step(event, &mut actions);
                    }
                }
                Next::Waited(waited) => self.waited(waited, &mut actions),
                Next::Deadline => {
                    self.waits = None;
                    self.machine.step(ConditionalEvent::Deadline, &mut actions);
                    self.act(&mut actions);
                    return;
                }
            }
        }
    }

    /// What comes next. A version is never sent after the deadline, even if this node stood still
    /// in between: replicas remember ballots for as long as a request may take.
    async fn next(&mut self) -> Next {
        let now = self.coordinator.clock.monotonic();
        let left = self.terms.deadline.saturating_sub(now);
        if left.is_zero() {
            return Next::Deadline;
        }
        let waits = &mut self.waits;
        let waited = async {
            match waits {
                Some(waits) => waits.await,
                None => pending().await,
            }
        };
        let next = tokio::select! {
            biased;
            answer = self.ballots.next() => Next::Answer(answer),
            waited = waited => Next::Waited(waited),
            () = tokio::time::sleep(left) => Next::Deadline,
        };
        if self.coordinator.clock.monotonic() >= self.terms.deadline {
            return Next::Deadline;
        }
        next
    }

    fn waited(&mut self, waited: Waited, actions: &mut ConditionalActions) {
        self.waits = None;
        match waited {
            Waited::Ballot(Ok(allocated)) => self.prepare(allocated, actions),
            Waited::Ballot(Err(why)) => self.no_ballot(why, actions),
            Waited::Read(Ok(newest)) => {
                let read = ConditionalEvent::Read(Some(newest));
                self.machine.step(read, actions);
            }
            Waited::Read(Err(failure)) => {
                self.failure = Some(failure);
                self.machine.step(ConditionalEvent::Read(None), actions);
            }
            Waited::Settled => self.machine.step(ConditionalEvent::Settled, actions),
            Waited::Resumed if self.coordinator.peers.layout().epoch() != self.epoch => {
                self.begin_again();
            }
            Waited::Resumed => self.machine.step(ConditionalEvent::Resumed, actions),
        }
    }

    /// The members have changed before anything was accepted: the write begins anew, with the
    /// replicas of now. This task only releases what may still be promised to it.
    fn begin_again(&mut self) {
        self.is_done = true;
        let Some((reply, turn)) = self.client.take() else {
            return;
        };
        let asked = Asked {
            content: self.content.clone(),
            condition: self.condition.clone(),
            terms: self.terms.clone(),
            reservation: self.reservation.take(),
            turn,
            reply,
        };
        let (writing, actions) = Self::new(&self.coordinator, asked, Rc::clone(&self.permit));
        // In a box, because the type of its future would contain itself.
        let running: Pin<Box<dyn Future<Output = ()>>> = Box::pin(writing.run(actions));
        tokio::task::spawn_local(running);
    }

    /// Does what the machine says.
    fn act(&mut self, actions: &mut ConditionalActions) {
        let mut next = 0;
        while let Some(action) = actions.get(next).copied() {
            next += 1;
            match action {
                ConditionalAction::Prepare {
                    ballot,
                    replica,
                    base,
                } => {
                    if let Some(event) = self.send_prepare(ballot, replica, base) {
                        self.machine.step(event, actions);
                    }
                }
                ConditionalAction::Accept { ballot, replica } => {
                    if let Some(event) = self.send_version(ballot, replica) {
                        self.machine.step(event, actions);
                    }
                }
                ConditionalAction::Release { ballot, replica } => {
                    let node = self.preference_list.get(replica.as_usize());
                    if let Some(node) = node {
                        self.coordinator.release(*node, self.content.key(), ballot);
                    }
                }
                ConditionalAction::Ballot { above } => self.begin_ballot(above, actions),
                ConditionalAction::Read => self.waits = Some(self.read()),
                ConditionalAction::Settle => {
                    let key = Bytes::copy_from_slice(self.content.key());
                    let settled = Settlement::begin(&self.coordinator, key, self.terms.replicas);
                    self.waits = Some(Box::pin(async move {
                        let _is_settled = settled.await;
                        Waited::Settled
                    }));
                }
                ConditionalAction::Pause => {
                    let pause = self.pause();
                    self.waits = Some(Box::pin(async move {
                        tokio::time::sleep(pause).await;
                        Waited::Resumed
                    }));
                }
                ConditionalAction::Hint { ballot, replica } => self.keep_hint(ballot, replica),
                ConditionalAction::Reply(outcome) => self.answer(outcome),
                ConditionalAction::Done => self.is_done = true,
            }
        }
    }

    /// A random time, longer with each ballot.
    fn pause(&self) -> Duration {
        let doublings = self.tried.saturating_sub(1).min(8);
        let most_ms = (PAUSE_MS << doublings).min(PAUSE_MAX_MS);
        let micros = self.coordinator.random.next_u64() % (most_ms * 1000);
        Duration::from_micros(micros)
    }

    fn begin_ballot(&mut self, above: Timestamp, actions: &mut ConditionalActions) {
        // The last one is given up, if it was not stored.
        self.allocated = None;
        self.tried += 1;
        self.coordinator.metrics.conditional.ballots.add(1);
        let timestamps = Arc::clone(&self.coordinator.timestamps);
        if !timestamps.observe(above) {
            return self.no_ballot(NoTimestamp::Far, actions);
        }
        let pause = (self.tried > HASTY_BALLOTS).then(|| self.pause());
        if pause.is_none()
            && let Ok(allocated) = timestamps.allocate()
        {
            return self.prepare(allocated, actions);
        }
        let deadline = self.terms.deadline;
        self.waits = Some(Box::pin(async move {
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
            Waited::Ballot(timestamps.allocate_by(deadline).await)
        }));
    }

    fn no_ballot(&mut self, why: NoTimestamp, actions: &mut ConditionalActions) {
        self.failure = Some(Failure::NoTimestamp(why));
        self.machine.step(ConditionalEvent::NoBallot, actions);
    }

    fn prepare(&mut self, allocated: AllocatedTimestamp, actions: &mut ConditionalActions) {
        let ballot = allocated.timestamp();
        self.allocated = Some(allocated);
        self.ballots.add(ballot);
        let (coordinator, nodes) = (&self.coordinator, &self.preference_list);
        let down_reason = |replica| coordinator.down_reason(nodes, replica);
        self.machine.prepare(ballot, down_reason, actions);
    }

    fn send_prepare(
        &mut self,
        ballot: Timestamp,
        replica: ReplicaIndex,
        base: Base,
    ) -> Option<ConditionalEvent> {
        let request = PromiseRequest::Prepare(Prepare {
            key: Bytes::copy_from_slice(self.content.key()),
            ballot,
            epoch: self.epoch,
            base: Some(base),
            copies: self.content.copies(),
            is_value: self.content.kind() == Kind::Value,
            unix_ms: self.coordinator.clock.unix_ms(),
        });
        let tag = AnswerTag {
            kind: PREPARED,
            replica,
        };
        let answer = self.ask(ballot, tag, ReplicaRequest::Promise(&request))?;
        Some(prepared(ballot, replica, &answer))
    }

    fn send_version(
        &mut self,
        ballot: Timestamp,
        replica: ReplicaIndex,
    ) -> Option<ConditionalEvent> {
        if self.content.timestamp() != ballot {
            self.content = self.content.pushed(ballot);
        }
        let entry = self.content.clone();
        let mut allocated = self.allocated.take();
        let tag = AnswerTag {
            kind: ACCEPTED,
            replica,
        };
        let request = ReplicaRequest::Accept {
            ballot,
            entry: &entry,
            allocated: &mut allocated,
        };
        let answer = self.ask(ballot, tag, request);
        self.allocated = allocated;
        answer.map(|answer| accepted(ballot, replica, &answer))
    }

    /// Asks a replica; gives its answer if that is clear at once.
    fn ask(
        &self,
        ballot: Timestamp,
        tag: AnswerTag,
        request: ReplicaRequest<'_>,
    ) -> Option<PeerAnswer> {
        let node = self.preference_list.get(tag.replica.as_usize());
        let (Some(node), Some(address)) = (node, self.ballots.address(ballot, tag)) else {
            return Some(PeerAnswer::Missed(Miss::Failed));
        };
        let Terms {
            deadline, trace, ..
        } = self.terms;
        if let Some(times) = self.watch() {
            times.asked(*node, self.coordinator.clock.monotonic());
        }
        let replicas = &self.coordinator.replicas;
        match replicas.ask(*node, request, deadline, address, trace) {
            AnswerTime::Now(answer) => {
                self.note_answer(*node, &answer);
                Some(answer)
            }
            AnswerTime::Later => {
                self.ballots.awaits();
                None
            }
        }
    }

    /// Reads the key, and has enough replicas hold what is found.
    fn read(&self) -> Pin<Box<dyn Future<Output = Waited>>> {
        let coordinator = Rc::clone(&self.coordinator);
        let key = Bytes::copy_from_slice(self.content.key());
        let terms = Terms {
            watch: None,
            ..self.terms.clone()
        };
        Box::pin(async move {
            let found = coordinator.read_for_condition(&key, terms).await;
            Waited::Read(found.map(|found| coordinator.newest_of(found.entry.as_ref())))
        })
    }

    fn keep_hint(&self, ballot: Timestamp, replica: ReplicaIndex) {
        let tag = AnswerTag {
            kind: HINTED,
            replica,
        };
        let node = self.preference_list.get(replica.as_usize());
        let (Some(node), Some(address)) = (node, self.ballots.address(ballot, tag)) else {
            return;
        };
        self.ballots.awaits();
        let hint = self.content.pushed(ballot);
        self.coordinator.keep_hint(*node, hint, address);
    }

    /// Who notes the times of replicas, until the client has its answer.
    fn watch(&self) -> Option<&ReplicaTimes> {
        self.terms
            .watch
            .as_deref()
            .filter(|_| self.client.is_some())
    }

    /// Notes the answer of a node, if anyone watches.
    fn note_answer(&self, node: NodeId, answer: &PeerAnswer) {
        if let Some(times) = self.watch() {
            let is_failed = matches!(answer, PeerAnswer::Missed(_));
            times.answered(node, self.coordinator.clock.monotonic(), is_failed);
        }
    }

    /// What an answer says.
    fn event_of(&self, answer: Answer) -> Option<ConditionalEvent> {
        let Answer {
            ballot,
            tag,
            completion,
        } = answer;
        let replica = tag.replica;
        if tag.kind == HINTED {
            return (ballot == self.machine.ballot())
                .then_some(ConditionalEvent::HintKept { replica });
        }
        let replicas = &self.coordinator.replicas;
        let (answer, _reservation) = replicas.answer_of(self.content.key(), Some(completion));
        if let Some(node) = self.preference_list.get(replica.as_usize()) {
            self.note_answer(*node, &answer);
        }
        match tag.kind {
            PREPARED => Some(prepared(ballot, replica, &answer)),
            ACCEPTED => Some(accepted(ballot, replica, &answer)),
            _ => None,
        }
    }

    /// Tells the client, and leaves the key to the next one.
    fn answer(&mut self, outcome: ConditionalOutcome) {
        let Some((client, turn)) = self.client.take() else {
            return;
        };
        let counts = &self.coordinator.metrics.conditional;
        let (reply, count) = match outcome {
            ConditionalOutcome::Applied { version, acks } => {
                let timestamp = version;
                turn.tell(Newest {
                    timestamp: Some(version),
                    is_value: self.content.kind() == Kind::Value,
                });
                let applied = ConditionalReply::Applied(Written { timestamp, acks });
                (applied, &counts.applied)
            }
            ConditionalOutcome::NotMatched { current } => {
                turn.tell(current);
                let current = current.value();
                (
                    ConditionalReply::NotMatched { current },
                    &counts.not_matched,
                )
            }
            ConditionalOutcome::NotApplied => {
                let failure = self.failure.take().unwrap_or_else(|| {
                    let (nodes, fates) = (&self.preference_list, self.machine.fates());
                    self.coordinator.failure(nodes, fates, 0, None)
                });
                (ConditionalReply::NotApplied(failure), &counts.not_applied)
            }
            ConditionalOutcome::Unknown { version, acks } => {
                let (nodes, fates) = (&self.preference_list, self.machine.fates());
                let receipt = self.coordinator.receipt(nodes, fates, acks, Some(version));
                (ConditionalReply::Unknown(receipt), &counts.unknown)
            }
        };
        count.add(1);
        drop(turn);
        // If the client has gone, nobody is told.
        let _gone = client.send(reply);
    }
}
