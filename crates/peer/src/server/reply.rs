//! The replies to a peer's requests, and the way back that they share.

use crate::connection::outgoing::{LongMessage, LongMessageKind, Outgoing};
use crate::wire::message;
use crate::wire::page::EncodedPage;
use crate::wire::run::Run;
use crate::wire::same::HeldVersion;
use crate::{CALLS_MAX, PeerAnswer, StartWatch};
use base::{Entry, Expiry, Kind, NewerVersion, Reservation, Timestamp, TraceId};
use cluster::Miss;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::time::Duration;

/// The reply to one request. If it is dropped without an answer, it answers that
/// the replica failed, so that the peer does not wait for its deadline.
pub struct Reply {
    channel: Rc<ReplyChannel>,
    call: u64,
    deadline: Duration,
    /// The request's reservation, until it is answered.
    _reservation: Option<Reservation>,
    /// The trace that the request is part of.
    trace: Option<TraceId>,
    /// Called once it is answered.
    on_answer: Option<Box<dyn FnOnce()>>,
    /// The version that the peer holds, and whose value it need not get.
    held: Option<HeldVersion>,
    is_sent: bool,
}

impl Reply {
    /// Until when the peer waits, on this node's monotonic clock.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The name of the peer that waits.
    pub fn peer(&self) -> &str {
        self.channel.peer.get().map_or("", |name| name)
    }

    /// The trace that the request is part of.
    pub fn trace(&self) -> Option<TraceId> {
        self.trace
    }

    /// Has `tell` called once the request is answered.
    pub fn call_on_answer(&mut self, tell: impl FnOnce() + 'static) {
        self.on_answer = Some(Box::new(tell));
    }

    /// Sends the answer.
    pub fn send(self, answer: PeerAnswer) {
        self.send_holding(answer, None);
    }

    /// Sends an answer whose value takes `reservation` of a quota until it is written.
    pub fn send_holding(mut self, answer: PeerAnswer, reservation: Option<Reservation>) {
        self.is_sent = true;
        let channel = &self.channel;
        if channel.is_withheld(&answer) {
            return channel.answer(
                self.call,
                PeerAnswer::Missed(Miss::OtherEpoch),
                self.deadline,
                None,
            );
        }
        match &self.held {
            Some(held) if is_found(&answer, held) => channel.answer_same(self.call, &answer),
            _ => channel.answer(self.call, answer, self.deadline, reservation),
        }
    }

    /// Answers only that the version is the same if it is `held`.
    pub(crate) fn unless_same(mut self, held: Option<HeldVersion>) -> Self {
        self.held = held;
        self
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_sent {
            let failed = PeerAnswer::Missed(Miss::Failed);
            self.channel.answer(self.call, failed, self.deadline, None);
        }
        if let Some(tell) = self.on_answer.take() {
            tell();
        }
    }
}

/// Whether the answer to a read is this version.
fn is_found(answer: &PeerAnswer, held: &HeldVersion) -> bool {
    match answer {
        PeerAnswer::Found(Some(entry))
        | PeerAnswer::FoundBehind {
            entry: Some(entry), ..
        } => held.is(entry),
        _ => false,
    }
}

/// The way back to the peer, which all replies of a connection share.
#[derive(Default)]
pub(crate) struct ReplyChannel {
    /// What is to be sent to the peer.
    pub(crate) outgoing: Outgoing,
    /// The name of the peer, once it is known.
    pub(crate) peer: OnceCell<String>,
    /// Says whether the peer is only handed lists of members.
    pub(crate) start: OnceCell<StartWatch>,
    in_flight: Cell<usize>,
    /// Whether the connection has ended, so that answers are thrown away.
    is_closed: Cell<bool>,
    /// Whether the peer knows what a store says of tombstone GC.
    pub(crate) knows_thresholds: Cell<bool>,
    /// Whether the peer takes many answers in a frame.
    pub(crate) takes_many: Cell<bool>,
    /// Whether the peer knows of writes that were overtaken.
    pub(crate) knows_promises: Cell<bool>,
    /// The GC threshold that was named last on this connection.
    named: Cell<Option<Timestamp>>,
}

impl ReplyChannel {
    /// The reply to the request with the number `call`; `reservation` is what the
    /// request takes of a quota, `trace` what it is part of. `None` if too many requests
    /// are in flight.
    pub(crate) fn reply_to(
        self: &Rc<Self>,
        call: u64,
        deadline: Duration,
        reservation: Option<Reservation>,
        trace: Option<TraceId>,
    ) -> Option<Reply> {
        let in_flight = self.in_flight.get();
        if in_flight == CALLS_MAX {
            return None;
        }
        self.in_flight.set(in_flight + 1);
        Some(Reply {
            channel: Rc::clone(self),
            call,
            deadline,
            _reservation: reservation,
            trace,
            on_answer: None,
            held: None,
            is_sent: false,
        })
    }

    /// Whether the peer does not get an answer, because its request may go by an earlier list of
    /// members. Once the peer is barred it hears of no write that was taken before and stored since,
    /// so a repair session that begins then sees all that the peer can count on.
    fn is_withheld(&self, answer: &PeerAnswer) -> bool {
        let is_barred = self.start.get().is_some_and(StartWatch::is_barred);
        is_barred && !matches!(answer, PeerAnswer::List(_) | PeerAnswer::Missed(_))
    }

    /// Names the GC threshold of the store, before an answer that was made no later, if that has
    /// changed on this connection.
    fn name(&self, gc_threshold: Timestamp) {
        let is_due = self.knows_thresholds.get();
        if is_due && self.named.replace(Some(gc_threshold)) != Some(gc_threshold) {
            self.outgoing
                .push(|out| message::put_gc_threshold(out, message::ALL_LATER, gc_threshold));
        }
    }

    /// Answers that the version is the one that the peer holds.
    fn answer_same(&self, call: u64, answer: &PeerAnswer) {
        self.in_flight.set(self.in_flight.get() - 1);
        if self.is_closed.get() {
            return;
        }
        if let PeerAnswer::FoundBehind { gc_threshold, .. } = answer {
            self.name(*gc_threshold);
        }
        self.outgoing.push(|out| message::put_same(out, call));
    }

    fn answer(
        &self,
        call: u64,
        answer: PeerAnswer,
        deadline: Duration,
        reservation: Option<Reservation>,
    ) {
        self.in_flight.set(self.in_flight.get() - 1);
        if !self.is_closed.get() {
            self.send_answer(call, answer, deadline, reservation);
        }
    }

    fn send_answer(
        &self,
        call: u64,
        answer: PeerAnswer,
        deadline: Duration,
        reservation: Option<Reservation>,
    ) {
        let outgoing = &self.outgoing;
        match answer {
            PeerAnswer::FoundBehind {
                entry: Some(entry),
                gc_threshold,
            } if message::is_long(&entry) => {
                // Later answers overtake it, so it is named apart.
                let named = self.knows_thresholds.get().then_some(gc_threshold);
                self.send_long(call, entry, named, deadline, reservation);
            }
            PeerAnswer::FoundBehind {
                entry,
                gc_threshold,
            } => {
                self.name(gc_threshold);
                self.send_answer(call, PeerAnswer::Found(entry), deadline, reservation);
            }
            // To an older release this is no ack: it would take it for one.
            PeerAnswer::Stored {
                newer_version: NewerVersion::Overtaken(_),
            } if !self.knows_promises.get() => {
                outgoing.push(|out| message::put_missed(out, call, Miss::Refused));
            }
            PeerAnswer::Stored { newer_version } if self.takes_many.get() => {
                outgoing.push_newer_version(call, newer_version);
            }
            PeerAnswer::Stored { newer_version } => {
                outgoing.push(|out| message::put_stored(out, call, newer_version));
            }
            PeerAnswer::Found(None) => outgoing.push(|out| message::put_absent(out, call)),
            PeerAnswer::Found(Some(entry)) if message::is_long(&entry) => {
                self.send_long(call, entry, None, deadline, reservation);
            }
            PeerAnswer::Found(Some(entry)) if !outgoing.has_room_for(&entry) => {
                outgoing.push(|out| message::put_missed(out, call, Miss::Overloaded));
            }
            PeerAnswer::Found(Some(entry)) => {
                outgoing.push(|out| message::put_found(out, call, &entry));
            }
            PeerAnswer::Streamed(run) => self.send_run(call, &run, deadline),
            PeerAnswer::Paged(page) => self.send_page(call, &page, deadline, reservation),
            PeerAnswer::Examined(report) => {
                outgoing.push(|out| message::put_examined(out, call, &report));
            }
            PeerAnswer::Promise(answer) => {
                outgoing.push(|out| message::put_promise_answer(out, call, answer));
            }
            PeerAnswer::Backup(answer) => {
                outgoing.push(|out| message::put_backup_answer(out, call, &answer));
            }
            PeerAnswer::List(answer) => {
                outgoing.push(|out| message::put_listed(out, call, &answer));
            }
            // To an older release this is a refusal as any other.
            PeerAnswer::Missed(Miss::Obsolete { .. } | Miss::Undecided)
                if !self.knows_thresholds.get() =>
            {
                outgoing.push(|out| message::put_missed(out, call, Miss::Refused));
            }
            PeerAnswer::Missed(miss) => outgoing.push(|out| message::put_missed(out, call, miss)),
            PeerAnswer::Session(answer) => {
                outgoing.push(|out| message::put_session_answer(out, call, &answer));
            }
        }
    }
}

impl ReplyChannel {
    fn send_long(
        &self,
        call: u64,
        entry: Entry,
        named: Option<Timestamp>,
        deadline: Duration,
        reservation: Option<Reservation>,
    ) {
        let outgoing = &self.outgoing;
        if !outgoing.has_room_for(&entry) {
            return outgoing.push(|out| message::put_missed(out, call, Miss::Overloaded));
        }
        outgoing.push_long(LongMessage {
            kind: LongMessageKind::Found { named },
            call,
            deadline,
            entry,
            trace: None,
            _reservation: reservation,
        });
    }

    fn send_page(
        &self,
        call: u64,
        page: &EncodedPage,
        deadline: Duration,
        reservation: Option<Reservation>,
    ) {
        let outgoing = &self.outgoing;
        let (flags, entry) = (page.flags(), page.as_entry());
        if !outgoing.has_room_for(&entry) {
            return outgoing.push(|out| message::put_missed(out, call, Miss::Overloaded));
        }
        if !message::is_long(&entry) {
            return outgoing.push(|out| message::put_paged(out, call, flags, &entry));
        }
        let (has_next, counts) = flags;
        outgoing.push_long(LongMessage {
            kind: LongMessageKind::Page { has_next, counts },
            call,
            deadline,
            entry,
            trace: None,
            _reservation: reservation,
        });
    }

    fn send_run(&self, call: u64, run: &Run, deadline: Duration) {
        let outgoing = &self.outgoing;
        // A long run is sent as the value of an entry without a key.
        let entry = Entry::from_data(
            run.bytes().clone(),
            0,
            Timestamp::ZERO,
            Kind::Value,
            Expiry::NEVER,
            0,
        );
        if !outgoing.has_room_for(&entry) {
            return outgoing.push(|out| message::put_missed(out, call, Miss::Overloaded));
        }
        if !message::is_long(&entry) {
            let (is_last, position) = (run.is_last, run.position_permille);
            return outgoing
                .push(|out| message::put_run(out, call, is_last, position, run.bytes()));
        }
        outgoing.push_long(LongMessage {
            kind: LongMessageKind::Run {
                is_last: run.is_last,
                position_permille: run.position_permille,
            },
            call,
            deadline,
            entry,
            trace: None,
            _reservation: None,
        });
    }
}

/// Closes the channel when the connection ends, or when its task is dropped, so
/// that later replies are thrown away.
pub(crate) struct CloseOnDrop(pub(crate) Rc<ReplyChannel>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.is_closed.set(true);
        self.0.outgoing.clear();
    }
}
