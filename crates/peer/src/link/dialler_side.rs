//! The dialler's side of a connection: takes answers, and sends heartbeats.

use super::Link;
use super::calls::CallKind;
use super::clock_offset;
use super::failure_detector::{FailureDetector, HEARTBEAT, Liveness};
use crate::connection::assembly::Assembler;
use crate::connection::outgoing::Outgoing;
use crate::connection::{End, Side};
use crate::wire::backup_message::BackupAnswer;
use crate::wire::frame::{Frame, FrameError, HEADER_BYTES};
use crate::wire::list_message::ListAnswer;
use crate::wire::message::{self, Message};
use crate::wire::node_report::NodeReport;
use crate::wire::page::EncodedPage;
use crate::wire::promise_message::PromiseAnswer;
use crate::wire::repair_message::RepairAnswer;
use crate::wire::run::Run;
use crate::{
    CONTACT, GC_THRESHOLD, LiveLink, NegotiatedProtocol, PeerAnswer, REPLICA_STATE, REPORT,
    StartWatch,
};
use base::{Entry, NewerVersion, Timestamp};
use bytes::Bytes;
use cluster::{Miss, ReplicaState};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior};

/// What a link does on one connection.
pub(super) struct DiallerSide<'a> {
    link: &'a Link,
    failure_detector: FailureDetector,
    start: StartWatch,
    /// Kept while the peer is not suspected.
    live_link: Option<LiveLink>,
    /// Whether the peer's store was a learner on this connection.
    was_learner: bool,
    /// Whether the peer's store was rebuilt since.
    is_rebuilt: bool,
    heartbeat: Interval,
    /// What the two sides have negotiated.
    negotiated: NegotiatedProtocol,
    /// The GC threshold that the peer's store names with its answers.
    named: Option<Timestamp>,
    /// What it names with the long value that is next to answer a call.
    named_apart: Option<(u64, Timestamp)>,
    /// Whether the peer has answered anything yet.
    has_answered: bool,
    /// Answers whose long values arrive in pieces.
    answers: Assembler<LongAnswer>,
}

/// What a long value on its way in answers.
enum LongAnswer {
    /// A read.
    Found {
        /// What the store named with it: with later answers, which overtake the pieces, it may
        /// name a threshold of which it did not know when it read the key.
        named: Option<Timestamp>,
    },
    /// A request for a streamed range; the fields are those of the [`Run`].
    Run {
        is_last: bool,
        position_permille: u16,
    },
    /// A request for a page of a scan.
    Page {
        /// Whether more follows.
        has_next: bool,
        /// Whether the answer counts.
        counts: bool,
    },
}

/// The answer to a read.
fn found(entry: Option<Entry>, named: Option<Timestamp>) -> PeerAnswer {
    match named {
        Some(gc_threshold) => PeerAnswer::FoundBehind {
            entry,
            gc_threshold,
        },
        None => PeerAnswer::Found(entry),
    }
}

impl LongAnswer {
    /// The kind of the call, and the answer; [`None`] for a value without room.
    fn with(self, entry: Option<Entry>) -> (CallKind, PeerAnswer) {
        let overloaded = PeerAnswer::Missed(Miss::Overloaded);
        match self {
            Self::Found { named } => {
                let found = entry.map(|entry| found(Some(entry), named));
                (CallKind::Read, found.unwrap_or(overloaded))
            }
            Self::Run {
                is_last,
                position_permille,
            } => {
                let run = entry.map(|entry| {
                    let run = Run::new(entry.value_handle(), is_last, position_permille);
                    PeerAnswer::Streamed(run)
                });
                (CallKind::Repair, run.unwrap_or(overloaded))
            }
            Self::Page { has_next, counts } => {
                let page = entry.map(|entry| {
                    let next = Bytes::copy_from_slice(entry.key());
                    let page = EncodedPage::new(has_next, counts, next, entry.value_handle());
                    PeerAnswer::Paged(page)
                });
                (CallKind::Page, page.unwrap_or(overloaded))
            }
        }
    }
}

impl<'a> DiallerSide<'a> {
    /// The side of a connection that begins now.
    pub(super) fn new(link: &'a Link, negotiated: NegotiatedProtocol, start: StartWatch) -> Self {
        let environment = &link.environment;
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let quota = environment.incoming.clone();
        Self {
            link,
            failure_detector: FailureDetector::new(environment.clock.monotonic()),
            live_link: Some(start.mark_live()),
            was_learner: link.replica_state.get() == Some(ReplicaState::Learner),
            is_rebuilt: false,
            start,
            heartbeat,
            negotiated,
            named: None,
            named_apart: None,
            has_answered: false,
            answers: Assembler::new(quota),
        }
    }

    /// The GC threshold that a store has named, if it is believed.
    fn believed(&self, gc_threshold: Timestamp) -> Timestamp {
        let policy = &self.link.environment.policy;
        if policy.believes_threshold(&self.link.name, gc_threshold) {
            gc_threshold
        } else {
            Timestamp::ZERO
        }
    }

    fn ping(&self, now: Duration) {
        let token = now.as_micros() as u64;
        let outgoing = &self.link.outgoing;
        outgoing.push_urgent(|out| message::put_ping(out, token));
    }

    /// Measures the peer's clock; `token` is when the ping was sent, on the
    /// monotonic clock.
    fn take_pong(&self, token: u64, unix_ms: u64, now: Duration) {
        let took = now.saturating_sub(Duration::from_micros(token));
        if let Some(ahead_ms) = clock_offset::peer_ahead_ms(unix_ms, now, took) {
            self.link.ahead_of_monotonic_ms.set(Some(ahead_ms));
        }
    }

    /// Delivers an answer if it fits its call. The link forgets a call that it has
    /// given up, so the answer to such a call may be of any kind.
    fn answer(
        &self,
        frame: Frame<'_>,
        kind: CallKind,
        answer: PeerAnswer,
        now: Duration,
    ) -> Result<(), FrameError> {
        self.answer_call(frame, frame.call, kind, answer, now)
    }

    /// The same for one of many calls that a frame answers.
    fn answer_call(
        &self,
        frame: Frame<'_>,
        call: u64,
        kind: CallKind,
        answer: PeerAnswer,
        now: Duration,
    ) -> Result<(), FrameError> {
        if self.link.kind_of(call).is_some_and(|asked| asked != kind) {
            return Err(frame.malformed("an answer of another kind than its call"));
        }
        self.link.answer(call, answer, now);
        Ok(())
    }

    /// Delivers the answer that a version is stored.
    fn stored(
        &self,
        frame: Frame<'_>,
        call: u64,
        newer_version: NewerVersion,
        now: Duration,
    ) -> Result<(), FrameError> {
        let kind = match self.link.kind_of(call) {
            // Repair writes are stored, too, and what is accepted.
            Some(kind @ (CallKind::Repair | CallKind::Accept)) => kind,
            _ => CallKind::Write,
        };
        self.answer_call(frame, call, kind, PeerAnswer::Stored { newer_version }, now)
    }
}

impl Side for DiallerSide<'_> {
    fn outgoing(&self) -> &Outgoing {
        &self.link.outgoing
    }

    fn can_take(&self) -> bool {
        // All that arrives are answers to calls in flight, which are bounded.
        true
    }

    fn heard(&mut self, bytes: usize, now: Duration) {
        let sent_bytes = self.link.outgoing.written_bytes();
        self.link.count(|counts| {
            counts.received_bytes += bytes as u64;
            counts.sent_bytes = sent_bytes;
        });
        self.failure_detector.heard(now);
        if self.live_link.is_none() {
            self.live_link = Some(self.start.mark_live());
        }
        self.link.trust();
    }

    fn take(&mut self, frame: Frame<'_>, now: Duration) -> Result<(), FrameError> {
        if !std::mem::replace(&mut self.has_answered, true) {
            // The acceptor serves only nodes that it durably remembers.
            self.link.report_remembered();
        }
        if self.link.kind_of(frame.call) == Some(CallKind::Repair) {
            let bytes = (HEADER_BYTES + frame.payload.len()) as u64;
            self.link
                .count(|counts| counts.repair_received_bytes += bytes);
        }
        match Message::decode(frame)? {
            Message::Stored { newer_version } => {
                self.stored(frame, frame.call, newer_version, now)?;
            }
            Message::NewerVersions(newer_versions) => {
                for newer_version in newer_versions {
                    let (call, newer_version) = newer_version?;
                    self.stored(frame, call, newer_version, now)?;
                }
            }
            Message::Found(head) => match head.whole() {
                Some(entry) => {
                    let found = found(Some(entry), self.named);
                    self.answer(frame, CallKind::Read, found, now)?;
                }
                None => {
                    let apart = self.named_apart.take();
                    let apart = apart.filter(|(call, _)| *call == frame.call);
                    let named = apart.map(|(_, named)| named).or(self.named);
                    self.answers
                        .begin(frame, &head, LongAnswer::Found { named })?;
                }
            },
            Message::Same => {
                // A call that was given up may get any answer.
                if let Some(kind) = self.link.kind_of(frame.call) {
                    let held = self.link.held_by(frame.call);
                    let held = held.filter(|_| kind == CallKind::Read);
                    let what = "the same as a call that holds nothing";
                    let held = held.ok_or(frame.malformed(what))?;
                    self.answer(frame, kind, found(Some(held), self.named), now)?;
                }
            }
            Message::Absent => {
                let absent = found(None, self.named);
                self.answer(frame, CallKind::Read, absent, now)?;
            }
            Message::GcThreshold(named) if self.negotiated.has(GC_THRESHOLD) => {
                let named = self.believed(named);
                match frame.call {
                    message::ALL_LATER => self.named = Some(named),
                    call => self.named_apart = Some((call, named)),
                }
            }
            Message::Missed(miss) => {
                let missed = PeerAnswer::Missed(miss);
                self.link.answer(frame.call, missed, now);
            }
            Message::Piece(piece) => {
                if let Some(assembled) = self.answers.piece(frame, piece)? {
                    // From here on the request that waits for the value counts its bytes.
                    let entry = assembled.entry.map(|(entry, _reservation)| entry);
                    let (kind, answer) = assembled.context.with(entry);
                    self.answer(frame, kind, answer, now)?;
                }
            }
            Message::ReplicaState(replica_state) if self.negotiated.has(REPLICA_STATE) => {
                self.link.replica_state.set(Some(replica_state));
                self.was_learner |= replica_state == ReplicaState::Learner;
                self.is_rebuilt = self.was_learner && replica_state.is_voter();
            }
            Message::Report(report) if self.negotiated.has(REPORT) => {
                let policy = &self.link.environment.policy;
                policy.heard_report(&self.link.name, &self.start, report);
            }
            Message::Contact(contact) if self.negotiated.has(CONTACT) => {
                self.link.contact.set(Some(contact));
            }
            Message::SessionAnswer(answer) => {
                let answer = RepairAnswer::decode(answer).map_err(|what| frame.malformed(what))?;
                self.answer(frame, CallKind::Repair, PeerAnswer::Session(answer), now)?;
            }
            Message::Run(head) => {
                let (is_last, position_permille) = (head.is_last, head.position_permille);
                if head.bytes.len() == head.run_bytes {
                    let bytes = Bytes::copy_from_slice(head.bytes);
                    let run = Run::new(bytes, is_last, position_permille);
                    self.answer(frame, CallKind::Repair, PeerAnswer::Streamed(run), now)?;
                } else {
                    let run = LongAnswer::Run {
                        is_last,
                        position_permille,
                    };
                    self.answers.begin_run(frame, &head, run)?;
                }
            }
            Message::Paged(head) => {
                let (has_next, counts) = (head.has_next, head.counts);
                if head.items.len() == head.items_bytes {
                    let next = Bytes::copy_from_slice(head.next);
                    let items = Bytes::copy_from_slice(head.items);
                    let page = EncodedPage::new(has_next, counts, next, items);
                    self.answer(frame, CallKind::Page, PeerAnswer::Paged(page), now)?;
                } else {
                    let page = LongAnswer::Page { has_next, counts };
                    self.answers.begin_page(frame, &head, page)?;
                }
            }
            Message::Examined(bytes) => {
                let report = NodeReport::decode(bytes)
                    .ok_or_else(|| frame.malformed("a node report that is cut off"))?;
                let report = Box::new(report);
                self.answer(frame, CallKind::Examine, PeerAnswer::Examined(report), now)?;
            }
            Message::BackupAnswer(answer) => {
                let answer = BackupAnswer::decode(answer).map_err(|what| frame.malformed(what))?;
                self.answer(frame, CallKind::Backup, PeerAnswer::Backup(answer), now)?;
            }
            Message::Listed(bytes) => {
                let answer = ListAnswer::decode(bytes).map_err(|what| frame.malformed(what))?;
                self.answer(frame, CallKind::List, PeerAnswer::List(answer), now)?;
            }
            Message::PromiseAnswer(answer) => {
                let answer = PromiseAnswer::decode(answer).map_err(|what| frame.malformed(what))?;
                let kind = match answer {
                    PromiseAnswer::NotKept => CallKind::Accept,
                    _ => CallKind::Promise,
                };
                self.answer(frame, kind, PeerAnswer::Promise(answer), now)?;
            }
            Message::Pong { unix_ms } => self.take_pong(frame.call, unix_ms, now),
            Message::Write { .. }
            | Message::Writes { .. }
            | Message::Read { .. }
            | Message::ReadUnlessSame { .. }
            | Message::Trace(_)
            | Message::RepairWrite { .. }
            | Message::Repair { .. }
            | Message::GcThreshold(_)
            | Message::Session { .. }
            | Message::Page { .. }
            | Message::Examine { .. }
            | Message::Backup { .. }
            | Message::List { .. }
            | Message::Promise { .. }
            | Message::Accept { .. }
            | Message::Ping
            | Message::ReplicaState(_)
            | Message::Report(_)
            | Message::Contact(_) => {
                return Err(frame.malformed("a message that only the dialler sends"));
            }
        }
        Ok(())
    }

    fn poll_timers(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.link.is_suspected() && self.link.is_redial_due.get() {
            // The peer has dialled, so it is up; it may not know of this connection.
            return Poll::Ready(End::Silent);
        }
        if self.is_rebuilt {
            // A handshake tells which starts the store includes now. The answers that are
            // on their way were none of a store that counts.
            return Poll::Ready(End::Rebuilt);
        }
        while self.heartbeat.poll_tick(cx).is_ready() {
            let now = self.link.environment.clock.monotonic();
            let is_blocked = self.outgoing().is_blocked();
            match self.failure_detector.heartbeat(now, is_blocked) {
                Liveness::Alive => {}
                Liveness::Suspected => {
                    self.live_link = None;
                    self.link.suspect();
                }
                Liveness::Dead => return Poll::Ready(End::Silent),
            }
            self.ping(now);
        }
        Poll::Pending
    }
}
