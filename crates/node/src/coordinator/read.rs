//! Reads.

use super::hedging::{Hedge, HedgeReason};
use super::request_life::{Request, Trigger};
use super::{Coordinator, Failure, Found, ReplicaTimes, Terms};
use base::{Entry, Timestamp, TraceId};
use base::{LONG_VALUE_BYTES, Quota, Refused, Reservation};
use bytes::Bytes;
use cluster::{
    Decision, Miss, NodeId, PreferenceList, Quorum, Read, ReadAction, ReadActions, ReadEvent,
    ReplicaIndex, Replicas,
};
use peer::{PeerAnswer, SAME_BYTES_MIN};
use replica::Completion;
use replica::pending::{AnswerKind, AnswerTag, Ticket};
use replica::{AnswerTime, ReplicaRequest};
use smallvec::SmallVec;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a read pauses the first time that it waits for a replica to hear of the GC
/// threshold, and the longest pause. Heartbeats tell of the threshold several times a second.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// How often a read asks replicas again for lack of memory.
const ASKS_AGAIN_MAX: u8 = 3;

/// A read, until the stale replicas are repaired.
pub(super) struct Reading {
    coordinator: Rc<Coordinator>,
    machine: Read,
    preference_list: PreferenceList,
    key: Bytes,
    ticket: Ticket,
    deadline: Duration,
    /// When to ask one replica more, for each that is waited for before the reply.
    hedges: SmallVec<[Hedge; 2]>,
    /// When to go on after a pause, and how long the next pause is.
    resumes: Option<Instant>,
    pause: Duration,
    /// The greatest GC threshold that a store has named with the freshest version.
    named_with_freshest: Option<Timestamp>,
    /// The reservation of memory for the freshest version, if its value is long.
    reservation: Option<Reservation>,
    /// How often a replica may still be asked again because there was no memory for its answer.
    asks_again: u8,
    decision: Option<Decision>,
    /// What the client is told, and when.
    reply: ReplyTime,
    /// Whether the machine has nothing left to do.
    is_done: bool,
    /// The trace that it is part of.
    trace: Option<TraceId>,
    /// Notes when each replica answers, if anyone asks for it.
    watch: Option<Rc<ReplicaTimes>>,
}

/// When a read is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyTime {
    /// As soon as it is decided.
    AtDecision,
    /// As soon as a conditional write can be built on what it has found.
    AtCondition,
    /// Once all that are stale were repaired, or have missed that.
    AfterRepairs {
        /// The decision, if there is one.
        decided: Option<Decision>,
    },
}

impl Coordinator {
    /// Reads a key from all of its replicas, and answers once those that are stale are
    /// repaired, or could not be.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(crate) async fn read_from_all(
        self: &Rc<Self>,
        key: &[u8],
        replicas: Replicas,
        deadline: Duration,
    ) -> Result<Found, Failure> {
        let reply = ReplyTime::AfterRepairs { decided: None };
        self.read_with(key, Terms::new(replicas, deadline), reply)
            .await
    }

    /// Reads a key. Answers at once if this node's own store suffices and its disk is not
    /// needed.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn read(self: &Rc<Self>, key: &[u8], terms: Terms) -> Result<Found, Failure> {
        if self.wants_own_store(key, terms.replicas) {
            return self.read_own(key, terms).await;
        }
        self.read_with(key, terms, ReplyTime::AtDecision).await
    }

    /// Reads a key for a conditional write, which can be built on what is found.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(super) async fn read_for_condition(
        self: &Rc<Self>,
        key: &[u8],
        terms: Terms,
    ) -> Result<Found, Failure> {
        self.read_with(key, terms, ReplyTime::AtCondition).await
    }

    async fn read_with(
        self: &Rc<Self>,
        key: &[u8],
        terms: Terms,
        reply_time: ReplyTime,
    ) -> Result<Found, Failure> {
        let (replicas, deadline) = (terms.replicas, terms.deadline);
        self.settled(key, replicas.from, deadline).await;
        let registration = self.pending.reserve(deadline);
        let (preference_list, quorum) = self.peers.for_request(key, replicas);
        if replicas.from > replicas.ack {
            self.hedging.earn();
        }
        let mut actions = ReadActions::new();
        let preference = self.preference(&preference_list, &quorum);
        let machine = match reply_time {
            ReplyTime::AtDecision => Read::start(quorum, preference, &mut actions),
            ReplyTime::AtCondition => Read::start_for_condition(quorum, preference, &mut actions),
            ReplyTime::AfterRepairs { .. } => {
                Read::start_asking_all(quorum, preference, &mut actions)
            }
        };
        let mut reading = Reading {
            coordinator: Rc::clone(self),
            machine,
            preference_list,
            key: Bytes::copy_from_slice(key),
            ticket: registration.ticket(),
            deadline,
            hedges: SmallVec::new(),
            resumes: None,
            pause: PAUSE_MIN,
            named_with_freshest: None,
            reservation: None,
            asks_again: ASKS_AGAIN_MAX,
            decision: None,
            reply: reply_time,
            is_done: false,
            trace: terms.trace,
            watch: terms.watch,
        };
        let reply = reading.act(&mut actions);
        match self.requests.reads.enter(reading, reply, registration) {
            Ok(reply) => reply,
            Err(pending) => pending.decided(&self.timestamps).await,
        }
    }

    /// The replicas of a key in the order in which to ask them.
    fn preference(
        &self,
        preference_list: &PreferenceList,
        quorum: &Quorum,
    ) -> SmallVec<[ReplicaIndex; 8]> {
        let indexes = (0..preference_list.len()).map(|index| ReplicaIndex::new(index as u8));
        let mut replicas: SmallVec<[ReplicaIndex; 8]> = indexes.collect();
        replicas.sort_by_key(|replica| {
            self.replicas.preference(
                preference_list[replica.as_usize()],
                quorum.counts_in_all(*replica),
            )
        });
        replicas
    }
}

impl Request for Reading {
    type Reply = Result<Found, Failure>;

    fn receive(&mut self, answer: Option<(AnswerTag, Completion)>) -> Option<Self::Reply> {
        let event = match answer {
            None => ReadEvent::Deadline,
            Some((tag, completion)) => {
                self.hedges.retain(|hedge| hedge.replica != tag.replica);
                let replicas = &self.coordinator.replicas;
                let (answer, reservation) = replicas.answer_of(&self.key, Some(completion));
                self.note_answer(tag.replica, &answer);
                match tag.kind {
                    AnswerKind::Read if self.may_ask_again(&answer) => {
                        self.asks_again -= 1;
                        self.ask(tag.replica)?
                    }
                    AnswerKind::Read => self.answered(tag.replica, answer, reservation),
                    AnswerKind::Repair => repaired(tag.replica, &answer),
                    AnswerKind::Write(_) | AnswerKind::Hint(_) | AnswerKind::Promise => {
                        return None;
                    }
                }
            }
        };
        self.step(event)
    }

    fn trigger(&self) -> Option<Trigger> {
        let hedges = self.hedges.iter().map(|hedge| hedge.at);
        hedges.chain(self.resumes).min().map(Trigger::At)
    }

    fn fire(&mut self) -> Option<Self::Reply> {
        // Nothing is under way during a pause, so no hedge is left.
        if self.resumes.take().is_some() {
            return self.step(ReadEvent::Resumed);
        }
        let hedge = self.hedges.iter().min_by_key(|hedge| hedge.at).copied()?;
        let replica = hedge.replica;
        self.hedges.retain(|hedge| hedge.replica != replica);
        if hedge.reason == HedgeReason::Slow && !self.coordinator.hedging.spend() {
            self.hedge_at_half_time(replica);
            return None;
        }
        let mut actions = ReadActions::new();
        self.machine.step(ReadEvent::Slow { replica }, &mut actions);
        let asks = |action: &ReadAction| matches!(action, ReadAction::Ask { .. });
        if actions.iter().any(asks) {
            // No replica may be left to ask.
            self.coordinator.metrics.coordination.hedges.add(1);
        }
        self.act(&mut actions)
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    /// Without room, or without memory for a long value, the repairs are left to a
    /// later read; so are those of a read that failed.
    fn continue_in_background(&mut self, has_room: bool) -> bool {
        if !has_room || !matches!(self.decision, Some(Decision::Enough { .. })) {
            return false;
        }
        let freshest = self.machine.freshest();
        let value_bytes = freshest.map_or(0, |entry| entry.value_bytes().len());
        match share_for_repairs(&self.coordinator.answers, value_bytes) {
            Ok(reservation) => self.reservation = reservation,
            Err(Refused) => return false,
        }
        true
    }
}

/// The reservation of a value that is kept for repairs after the reply, which counts for itself; a
/// short one has none. As much again is left: a client that reads on, values like this one, is
/// not refused because of a read that was answered. It need not be the memory for the longest
/// value: where that is all there is, no long value would ever be repaired then.
///
/// # Errors
/// [`Refused`] if less is left.
fn share_for_repairs(
    answers: &Arc<Quota>,
    value_bytes: usize,
) -> Result<Option<Reservation>, Refused> {
    let reservation = answers.try_reserve_for_value(value_bytes)?;
    let left = answers.max().saturating_sub(answers.used());
    if reservation.is_some() && left < value_bytes {
        Err(Refused)
    } else {
        Ok(reservation)
    }
}

impl Reading {
    fn step(&mut self, event: ReadEvent) -> Option<Result<Found, Failure>> {
        let mut actions = ReadActions::new();
        self.machine.step(event, &mut actions);
        self.act(&mut actions)
    }

    /// Does what the machine says.
    fn act(&mut self, actions: &mut ReadActions) -> Option<Result<Found, Failure>> {
        let mut decision = None;
        let mut next = 0;
        while let Some(action) = actions.get(next).copied() {
            next += 1;
            match action {
                ReadAction::Ask { replica } => {
                    if let Some(event) = self.ask(replica) {
                        self.machine.step(event, actions);
                    }
                }
                ReadAction::Repair { replica } => {
                    if let Some(event) = self.repair(replica) {
                        self.machine.step(event, actions);
                    }
                }
                ReadAction::Pause => {
                    self.resumes = Some(Instant::now() + self.pause);
                    self.pause = PAUSE_MAX.min(2 * self.pause);
                }
                ReadAction::Reply(reply) => decision = Some(reply),
                ReadAction::Done => self.is_done = true,
            }
        }
        if let ReplyTime::AfterRepairs { decided } = &mut self.reply {
            *decided = decided.or(decision.take());
            decision = decided.filter(|_| self.is_done);
        }
        decision.map(|decision| self.reply(decision))
    }

    /// What the client gets.
    fn reply(&mut self, decision: Decision) -> Result<Found, Failure> {
        self.decision = Some(decision);
        self.watch = None;
        self.hedges.clear();
        self.resumes = None;
        match decision {
            Decision::Enough { acks } => Ok(Found {
                entry: self.machine.answer().cloned(),
                acks,
                reservation: self.reservation.take(),
            }),
            Decision::NotEnough { acks } => {
                let fates = self.machine.fates();
                Err(self
                    .coordinator
                    .failure(&self.preference_list, fates, acks, None))
            }
        }
    }

    /// Asks a replica; gives what has happened if it is clear at once.
    fn ask(&mut self, replica: ReplicaIndex) -> Option<ReadEvent> {
        let Some(node) = self.preference_list.get(replica.as_usize()).copied() else {
            let why = Miss::Failed;
            return Some(ReadEvent::Missed { replica, why });
        };
        let kind = AnswerKind::Read;
        let address = self.ticket.with(AnswerTag { kind, replica });
        let request = match self.machine.freshest() {
            Some(held) if held.value_bytes().len() >= SAME_BYTES_MIN => {
                ReplicaRequest::ReadUnlessSame(&self.key, held)
            }
            _ => ReplicaRequest::Read(&self.key),
        };
        self.note_question(node);
        let replicas = &self.coordinator.replicas;
        match replicas.ask(node, request, self.deadline, address, self.trace) {
            AnswerTime::Now(answer) => {
                self.note_answer(replica, &answer);
                return Some(self.answered(replica, answer, None));
            }
            AnswerTime::Later => {}
        }
        match replicas.slow_after(node) {
            Some(delay) => self.hedges.push(Hedge {
                at: Instant::now() + delay,
                replica,
                reason: HedgeReason::Slow,
            }),
            None => self.hedge_at_half_time(replica),
        }
        None
    }

    /// Whether to ask a replica again that has answered so. Replicas that are asked at the same
    /// time send their values at the same time, and there may be memory for one of them. Once
    /// that is here, the others need not send the same.
    fn may_ask_again(&self, answer: &PeerAnswer) -> bool {
        let is_long = |entry: &Entry| entry.value_bytes().len() > LONG_VALUE_BYTES;
        matches!(answer, PeerAnswer::Missed(Miss::Overloaded))
            && self.asks_again > 0
            && self.decision.is_none()
            && self.machine.freshest().is_some_and(is_long)
    }

    /// Writes the freshest version to a replica that has an older one or none;
    /// gives what has happened if it is clear at once.
    fn repair(&mut self, replica: ReplicaIndex) -> Option<ReadEvent> {
        let node = self.preference_list.get(replica.as_usize()).copied();
        let (Some(node), Some(entry)) = (node, self.machine.freshest()) else {
            let why = Miss::Failed;
            return Some(ReadEvent::RepairMissed { replica, why });
        };
        let kind = AnswerKind::Repair;
        let address = self.ticket.with(AnswerTag { kind, replica });
        let request = ReplicaRequest::Repair {
            entry,
            named: self.named_with_freshest,
        };
        self.note_question(node);
        let coordinator = &self.coordinator;
        coordinator.metrics.coordination.repairs.add(1);
        let asked = coordinator
            .replicas
            .ask(node, request, self.deadline, address, self.trace);
        match asked {
            AnswerTime::Now(answer) => {
                self.note_answer(replica, &answer);
                Some(repaired(replica, &answer))
            }
            AnswerTime::Later => {
                self.hedge_at_half_time(replica);
                None
            }
        }
    }

    /// Notes that a node is asked, if anyone watches.
    fn note_question(&self, node: NodeId) {
        if let Some(times) = &self.watch {
            times.asked(node, self.coordinator.clock.monotonic());
        }
    }

    /// Notes the answer of a replica, if anyone watches.
    fn note_answer(&self, replica: ReplicaIndex, answer: &PeerAnswer) {
        if let Some(times) = &self.watch
            && let Some(node) = self.preference_list.get(replica.as_usize())
        {
            let is_failed = matches!(answer, PeerAnswer::Missed(_));
            times.answered(*node, self.coordinator.clock.monotonic(), is_failed);
        }
    }

    /// Makes the client's future ask another replica at half time, unless the client has
    /// its reply.
    fn hedge_at_half_time(&mut self, replica: ReplicaIndex) {
        if self.decision.is_some() {
            return;
        }
        let now = self.coordinator.clock.monotonic();
        let left = self.deadline.saturating_sub(now);
        self.hedges.push(Hedge {
            at: Instant::now() + left / 2,
            replica,
            reason: HedgeReason::HalfTime,
        });
    }

    /// What the answer of a replica says. A long value counts from here on, wherever
    /// it comes from, so the values that wait for further answers are bounded.
    fn answered(
        &mut self,
        replica: ReplicaIndex,
        answer: PeerAnswer,
        reservation: Option<Reservation>,
    ) -> ReadEvent {
        let missed = |why| ReadEvent::Missed { replica, why };
        let (entry, named) = match answer {
            PeerAnswer::Found(entry) => (entry, None),
            PeerAnswer::FoundBehind {
                entry,
                gc_threshold,
            } => (entry, Some(gc_threshold)),
            PeerAnswer::Stored { .. }
            | PeerAnswer::Session(_)
            | PeerAnswer::Streamed(_)
            | PeerAnswer::Paged(_)
            | PeerAnswer::Examined(_)
            | PeerAnswer::List(_)
            | PeerAnswer::Backup(_)
            | PeerAnswer::Promise(_) => {
                return missed(Miss::Failed);
            }
            PeerAnswer::Missed(why) => return missed(why),
        };
        let rank = entry.as_ref().map(Entry::rank);
        if rank > self.machine.freshest().map(Entry::rank) {
            let value_bytes = entry.as_ref().map_or(0, |entry| entry.value_bytes().len());
            let answers = &self.coordinator.answers;
            let counted = match reservation {
                Some(reservation) => Ok(Some(reservation)),
                None => answers
                    .try_reserve_for_value(value_bytes)
                    .or_else(|Refused| {
                        // The version that it replaces may have what it needs.
                        self.reservation = None;
                        answers.try_reserve_for_value(value_bytes)
                    }),
            };
            match counted {
                Ok(reservation) => self.reservation = reservation,
                Err(Refused) => return missed(Miss::Overloaded),
            }
            self.named_with_freshest = named;
        } else if rank == self.machine.freshest().map(Entry::rank) {
            // Stores with a greater threshold take a repair with it only by one that has it, too.
            self.named_with_freshest = self.named_with_freshest.max(named);
        }
        ReadEvent::Answered {
            replica,
            is_dead: entry
                .as_ref()
                .is_none_or(|entry| self.coordinator.is_dead(entry)),
            entry,
            gc_threshold: named.unwrap_or(Timestamp::ZERO),
        }
    }
}

/// What the answer of a replica to its repair says.
fn repaired(replica: ReplicaIndex, answer: &PeerAnswer) -> ReadEvent {
    match answer {
        PeerAnswer::Stored { newer_version } => ReadEvent::Repaired {
            replica,
            newer_version: *newer_version,
        },
        PeerAnswer::Missed(why) => ReadEvent::RepairMissed { replica, why: *why },
        PeerAnswer::Found(_)
        | PeerAnswer::FoundBehind { .. }
        | PeerAnswer::Session(_)
        | PeerAnswer::Streamed(_)
        | PeerAnswer::Paged(_)
        | PeerAnswer::Examined(_)
        | PeerAnswer::List(_)
        | PeerAnswer::Backup(_)
        | PeerAnswer::Promise(_) => ReadEvent::RepairMissed {
            replica,
            why: Miss::Failed,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a node with 256 MiB has for long answers: as much as one longest value takes.
    const ANSWERS_BYTES: usize = 16 << 20;

    #[test]
    fn long_values_are_kept_for_repairs_where_as_much_again_is_left() {
        let answers = Quota::new(ANSWERS_BYTES);
        for (value_bytes, is_kept) in [
            (LONG_VALUE_BYTES + 1, true),
            (5 << 20, true),
            (6 << 20, false),
        ] {
            let reply = answers.try_reserve_for_value(value_bytes).unwrap();
            let kept = share_for_repairs(&answers, value_bytes);
            assert_eq!(kept.is_ok(), is_kept, "{value_bytes}");
            let next = answers.try_reserve_for_value(value_bytes);
            assert!(next.is_ok(), "{value_bytes}: the client reads on");
            drop((reply, kept, next));
            assert_eq!(answers.used(), 0);
        }
        // One that is longer than all of it has the place beside it, and leaves nothing.
        assert!(share_for_repairs(&answers, ANSWERS_BYTES + 1).is_err());
        // A short one takes none.
        let all = answers.try_reserve(ANSWERS_BYTES).unwrap();
        assert!(matches!(
            share_for_repairs(&answers, LONG_VALUE_BYTES),
            Ok(None)
        ));
        drop(all);
    }
}
