//! Writes: carries out what [`cluster::Write`] decides. That state machine knows what follows from
//! each answer, and which hints are kept before the reply.

use super::request_life::{PendingReply, Request, Trigger};
use super::{Change, Coordinator, Expires, Failure, ReplicaTimes, Terms, Written};
use base::Reservation;
use base::{Entry, Expiry, Timestamp, TraceId};
use cluster::{
    Decision, Miss, NodeId, PreferenceList, ReplicaIndex, Round, Write, WriteAction, WriteActions,
    WriteEvent,
};
use peer::PeerAnswer;
use replica::Completion;
use replica::pending::{AnswerKind, AnswerTag, Ticket};
use replica::timestamps::{AllocatedTimestamp, NoTimestamp};
use replica::{AnswerTime, ReplicaRequest};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A write, until every replica has answered or has a hint.
pub(super) struct Writing {
    coordinator: Rc<Coordinator>,
    machine: Write,
    preference_list: PreferenceList,
    /// The write with the timestamp of its present round.
    entry: Entry,
    /// Pending until this node's own store takes it with the entry: see `timestamps`.
    allocated: Option<AllocatedTimestamp>,
    /// What the second timestamp must be above, while no timestamp can be issued.
    pushes_timestamp_above: Option<Timestamp>,
    ticket: Ticket,
    deadline: Duration,
    /// When the write stops waiting for others to make up for a replica
    /// that held something newer.
    half_time: Option<Instant>,
    /// Whether the machine has nothing left to do.
    is_done: bool,
    /// The trace that it is part of.
    trace: Option<TraceId>,
    /// Notes when each replica answers, if anyone asks for it.
    watch: Option<Rc<ReplicaTimes>>,
    /// The reservation of memory for a long value.
    _reservation: Option<Reservation>,
}

impl Coordinator {
    /// Writes a key. `reservation` is memory for a long value, which is kept as long
    /// as the value.
    ///
    /// # Errors
    /// See [`Failure`]; the write may still appear later.
    pub async fn write(
        self: &Rc<Self>,
        key: &[u8],
        change: Change,
        reservation: Option<Reservation>,
        terms: Terms,
    ) -> Result<Written, Failure> {
        let (from, deadline) = (terms.replicas.from, terms.deadline);
        self.settled(key, from, deadline).await;
        let allocated = self.timestamps.allocate_by(deadline).await;
        let allocated = allocated.map_err(Failure::NoTimestamp)?;
        match self.begin_write(key, change, reservation, terms, allocated) {
            Ok(reply) => reply,
            Err(pending) => pending.decided(&self.timestamps).await,
        }
    }

    /// Begins a write with this timestamp: asks the replicas. The entry has a copy of the value, so
    /// the value that came is given up here, however long the write takes.
    ///
    /// # Errors
    /// It is not decided; the client waits for the result.
    pub(super) fn begin_write(
        self: &Rc<Self>,
        key: &[u8],
        change: Change,
        reservation: Option<Reservation>,
        terms: Terms,
        allocated: AllocatedTimestamp,
    ) -> Result<Result<Written, Failure>, PendingReply<Writing>> {
        // With peers that is a line of the receipt, because the others may be enough.
        if self.peers.is_single_node()
            && let Some(why) = self.replicas.own().refuses_writes()
        {
            return Ok(Err(Failure::StoreFailed(why)));
        }
        let (replicas, deadline) = (terms.replicas, terms.deadline);
        let registration = self.pending.reserve(deadline);
        let timestamp = allocated.timestamp();
        let expiry = match &change {
            Change::Put { expires, .. } => self.expiry_of(*expires),
            Change::Delete => Expiry::NEVER,
        };
        let entry = match change {
            Change::Put { value, .. } => {
                Entry::value(key, timestamp, &value, expiry, replicas.from)
            }
            Change::Delete => Entry::tombstone(key, timestamp, replicas.from),
        };
        let (preference_list, quorum) = self.peers.for_request(key, replicas);
        let mut actions = WriteActions::new();
        let down_reason = |replica| self.down_reason(&preference_list, replica);
        let machine = Write::start(quorum, timestamp, down_reason, &mut actions);
        let mut writing = Writing {
            coordinator: Rc::clone(self),
            machine,
            preference_list,
            entry,
            allocated: Some(allocated),
            pushes_timestamp_above: None,
            ticket: registration.ticket(),
            deadline,
            half_time: None,
            is_done: false,
            trace: terms.trace,
            watch: terms.watch,
            _reservation: reservation,
        };
        let reply = writing.act(&mut actions);
        self.requests.writes.enter(writing, reply, registration)
    }

    /// One expiry for all timestamps of a write.
    pub(super) fn expiry_of(&self, expires: Expires) -> Expiry {
        match expires {
            Expires::Never => Expiry::NEVER,
            Expires::AfterSeconds(seconds) => seconds
                .checked_mul(1000)
                .and_then(|ttl_ms| ttl_ms.checked_add(self.clock.unix_ms()))
                .map_or(Expiry::NEVER, Expiry::at_unix_ms),
            Expires::AtUnixMs(unix_ms) => Expiry::at_unix_ms(unix_ms),
        }
    }

    /// Keeps a hint for a node; that it is kept comes to `address`.
    pub(super) fn keep_hint(&self, node: NodeId, entry: Entry, address: u64) {
        let completions = Arc::clone(self.pending.completions());
        let done = Box::new(move |_kept| completions.complete(address, Completion::HintKept));
        if self.replicas.may_keep_hint_for(node) {
            self.hints.keep(node, entry, done);
        } else {
            self.hints.refuse(done);
        }
    }

    /// Why a replica of the key is known not to answer, if it is.
    pub(super) fn down_reason(
        &self,
        preference_list: &PreferenceList,
        replica: ReplicaIndex,
    ) -> Option<Miss> {
        match preference_list.get(replica.as_usize()) {
            Some(node) => self.replicas.down_reason(*node),
            None => Some(Miss::Failed),
        }
    }
}

impl Request for Writing {
    type Reply = Result<Written, Failure>;

    fn receive(&mut self, answer: Option<(AnswerTag, Completion)>) -> Option<Self::Reply> {
        // A late answer must not count beside one from a store that was lost since: the
        // repair that fills a lost store waits only as long as a write may take.
        let now = self.coordinator.clock.monotonic();
        let is_late = now > self.deadline;
        let event = match answer.filter(|_| !is_late) {
            None => WriteEvent::Deadline,
            Some((tag, completion)) => self.event_of(tag, completion)?,
        };
        self.note_answer(&event, now);
        self.step(event)
    }

    fn trigger(&self) -> Option<Trigger> {
        if self.pushes_timestamp_above.is_some() {
            return Some(Trigger::TimestampAllocator);
        }
        let half_time = self.half_time.filter(|_| self.machine.awaits_half_time());
        half_time.map(Trigger::At)
    }

    fn fire(&mut self) -> Option<Self::Reply> {
        let Some(above) = self.pushes_timestamp_above.take() else {
            return self.step(WriteEvent::HalfTime);
        };
        let mut actions = WriteActions::new();
        self.push(above, &mut actions);
        self.act(&mut actions)
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    /// Without room the write ends as at the deadline: the replicas that have not
    /// answered get hints.
    fn continue_in_background(&mut self, has_room: bool) -> bool {
        if !has_room {
            self.step(WriteEvent::Deadline);
        }
        has_room && !self.is_done
    }
}

impl Writing {
    fn step(&mut self, event: WriteEvent) -> Option<Result<Written, Failure>> {
        let mut actions = WriteActions::new();
        self.machine.step(event, &mut actions);
        self.act(&mut actions)
    }

    /// Does what the machine says.
    fn act(&mut self, actions: &mut WriteActions) -> Option<Result<Written, Failure>> {
        let mut decision = None;
        let mut next = 0;
        while let Some(action) = actions.get(next).copied() {
            next += 1;
            match action {
                WriteAction::Send { round, replica } => {
                    if let Some(event) = self.send(round, replica) {
                        self.machine.step(event, actions);
                    }
                }
                WriteAction::Hint { round, replica } => self.keep_hint(round, replica),
                WriteAction::Push { above } => self.push(above, actions),
                WriteAction::Reply(reply) => decision = Some(reply),
                WriteAction::Done => self.is_done = true,
            }
        }
        if self.half_time.is_none() && self.machine.awaits_half_time() {
            let now = self.coordinator.clock.monotonic();
            let left = self.deadline.saturating_sub(now);
            self.half_time = Some(Instant::now() + left / 2);
        }
        decision.map(|decision| self.reply(decision))
    }

    /// What the client gets.
    fn reply(&mut self, decision: Decision) -> Result<Written, Failure> {
        self.watch = None;
        let timestamp = self.machine.timestamp();
        match decision {
            Decision::Enough { acks } => Ok(Written { timestamp, acks }),
            Decision::NotEnough { acks } => {
                let fates = self.machine.fates();
                let timestamp = Some(timestamp);
                Err(self
                    .coordinator
                    .failure(&self.preference_list, fates, acks, timestamp))
            }
        }
    }

    /// Sends the entry to a replica; gives what has happened if it is clear at once.
    fn send(&mut self, round: Round, replica: ReplicaIndex) -> Option<WriteEvent> {
        let Some(node) = self.preference_list.get(replica.as_usize()).copied() else {
            let why = Miss::Failed;
            return Some(WriteEvent::Missed {
                round,
                replica,
                why,
            });
        };
        let kind = AnswerKind::Write(round);
        let address = self.ticket.with(AnswerTag { kind, replica });
        let request = ReplicaRequest::Write {
            entry: &self.entry,
            allocated: &mut self.allocated,
        };
        let coordinator = &self.coordinator;
        if let Some(times) = &self.watch {
            times.asked(node, coordinator.clock.monotonic());
        }
        let replicas = &coordinator.replicas;
        match replicas.ask(node, request, self.deadline, address, self.trace) {
            AnswerTime::Now(answer) => {
                let event = event_of(round, replica, &answer);
                if self.watch.is_some() {
                    self.note_answer(&event, self.coordinator.clock.monotonic());
                }
                Some(event)
            }
            AnswerTime::Later => None,
        }
    }

    /// Notes the answer of a replica, if anyone watches and it is one.
    fn note_answer(&self, event: &WriteEvent, now: Duration) {
        let (replica, is_failed) = match event {
            WriteEvent::Stored { replica, .. } => (replica, false),
            WriteEvent::Missed { replica, .. } => (replica, true),
            _ => return,
        };
        if let Some(times) = &self.watch
            && let Some(node) = self.preference_list.get(replica.as_usize())
        {
            times.answered(*node, now, is_failed);
        }
    }

    fn keep_hint(&self, round: Round, replica: ReplicaIndex) {
        let Some(node) = self.preference_list.get(replica.as_usize()).copied() else {
            return;
        };
        let kind = AnswerKind::Hint(round);
        let address = self.ticket.with(AnswerTag { kind, replica });
        self.coordinator
            .keep_hint(node, self.entry.clone(), address);
    }

    /// Timestamps the write once more, above what the replicas held. What was
    /// acknowledged before the write began lies below the second timestamp; what lies
    /// above it is concurrent with the write. Where the timestamp has to wait, the
    /// trigger says so.
    fn push(&mut self, above: Timestamp, actions: &mut WriteActions) {
        let coordinator = &self.coordinator;
        let allocated = if coordinator.timestamps.observe(above) {
            coordinator.timestamps.allocate()
        } else {
            Err(NoTimestamp::Far)
        };
        let allocated = match allocated {
            Ok(allocated) => allocated,
            Err(NoTimestamp::Bound) => {
                self.pushes_timestamp_above = Some(above);
                return;
            }
            Err(_) => {
                // Some replicas may have stored the first timestamp, so this is no
                // refusal: the write may still appear.
                self.machine.step(WriteEvent::NoTimestamp, actions);
                return;
            }
        };
        let timestamp = allocated.timestamp();
        self.entry = self.entry.pushed(timestamp);
        self.allocated = Some(allocated);
        coordinator.metrics.coordination.pushes.add(1);
        let preference_list = &self.preference_list;
        let down_reason = |replica| coordinator.down_reason(preference_list, replica);
        self.machine.pushed(timestamp, down_reason, actions);
    }

    /// What an answer says; nothing if a write does not ask for such an answer.
    fn event_of(&self, tag: AnswerTag, completion: Completion) -> Option<WriteEvent> {
        let replica = tag.replica;
        match tag.kind {
            AnswerKind::Hint(round) => Some(WriteEvent::HintKept { round, replica }),
            AnswerKind::Write(round) => {
                let replicas = &self.coordinator.replicas;
                let (answer, _reservation) = replicas.answer_of(self.entry.key(), Some(completion));
                Some(event_of(round, replica, &answer))
            }
            AnswerKind::Read | AnswerKind::Repair | AnswerKind::Promise => None,
        }
    }
}

/// What the answer of a replica says.
fn event_of(round: Round, replica: ReplicaIndex, answer: &PeerAnswer) -> WriteEvent {
    let missed = |why| WriteEvent::Missed {
        round,
        replica,
        why,
    };
    match answer {
        PeerAnswer::Stored { newer_version } => WriteEvent::Stored {
            round,
            replica,
            newer_version: *newer_version,
        },
        PeerAnswer::Found(_)
        | PeerAnswer::FoundBehind { .. }
        | PeerAnswer::Session(_)
        | PeerAnswer::Streamed(_)
        | PeerAnswer::Paged(_)
        | PeerAnswer::Examined(_)
        | PeerAnswer::List(_)
        | PeerAnswer::Backup(_)
        | PeerAnswer::Promise(_) => missed(Miss::Failed),
        PeerAnswer::Missed(why) => missed(*why),
    }
}
