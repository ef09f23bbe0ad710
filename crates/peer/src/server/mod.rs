//! An incoming connection: a peer sends requests, and this node answers.
//!
//! Each request goes to the [`RequestHandler`] as soon as it is complete, with a
//! [`Reply`] that can be used at once or later, in any order. Two things are
//! bounded: if too many requests are in flight, further ones are answered as
//! overloaded without reaching the handler; if too many bytes of answers are
//! waiting, nothing more is read.

mod reply;

pub use reply::Reply;

use crate::connection::assembly::{Assembled, Assembler};
use crate::connection::outgoing::Outgoing;
use crate::connection::{Connection, End, Side};
use crate::handshake::{self, HANDSHAKE_BYTES_MAX, HandshakeError, Session};
use crate::log_limiter::Direction;
use crate::wire::backup_message::BackupRequest;
use crate::wire::contact::Contact;
use crate::wire::frame::{Decoder, Frame, FrameError, PAYLOAD_BYTES_MAX};
use crate::wire::list_message::ListRequest;
use crate::wire::message::{self, EntryHead, Message};
use crate::wire::page;
use crate::wire::promise_message::PromiseRequest;
use crate::wire::repair_message::RepairRequest;
use crate::wire::same::HeldVersion;
use crate::{
    CONTACT, GC_THRESHOLD, LiveLink, MANY, NegotiatedProtocol, PROMISES, PeerEnvironment,
    PeerRequest, REPLICA_STATE, REPORT, StartWatch, StoreReport, Stream,
};
use base::{Entry, Reservation, Timestamp, TraceId};
use bytes::Bytes;
use cluster::repair::SessionId;
use cluster::{Miss, ReplicaState};
use reply::{CloseOnDrop, ReplyChannel};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// How long a handshake may take on the acceptor's side.
const HANDSHAKE_MAX: Duration = Duration::from_secs(2);

/// A peer pings ten times a second, so one that was silent for this long is gone.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// How often this node looks whether a peer was heard.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// For how many looks a peer counts as live that is silent.
const LIVE_LOOKS: u32 = 2;

/// A timer that is later than this shows that this node itself was paused, and
/// could not hear its peers.
const LATE_AFTER: Duration = Duration::from_secs(1);

/// Handles the requests of peers.
pub trait RequestHandler {
    /// Handles a request and replies to it, now or later.
    fn serve(self: &Rc<Self>, request: PeerRequest, reply: Reply);
}

/// Serves a connection until it ends. `rest` are the bytes that were read
/// after the request to upgrade. `on_handshake` is called when the handshake has
/// succeeded. To end the connection, drop the future.
pub async fn serve<R: RequestHandler>(
    mut stream: Box<dyn Stream>,
    rest: Bytes,
    environment: PeerEnvironment,
    handler: Rc<R>,
    on_handshake: impl FnOnce(),
) {
    let mut decoder = Decoder::new(&rest, HANDSHAKE_BYTES_MAX);
    drop(rest);
    let handshake = handshake::accept(&mut *stream, &mut decoder, environment.handshake());
    let Session {
        peer,
        negotiated,
        start,
        is_dialler_outdated,
        is_for_lists,
    } = match tokio::time::timeout(HANDSHAKE_MAX, handshake).await {
        Ok(Ok(session)) => session,
        Ok(Err(error)) => return log_failure(&environment, &error),
        Err(_) => {
            tracing::debug!("a peer's handshake takes too long: closing the connection");
            return;
        }
    };
    on_handshake();
    let name = peer.name;
    environment.log.clear(Direction::Incoming, &name);
    tracing::debug!(name, version = negotiated.version, "a peer has connected");
    decoder.allow(PAYLOAD_BYTES_MAX);
    let mut side = AcceptorSide::new(&environment, handler, negotiated, start.clone());
    side.is_outdated = is_dialler_outdated;
    side.is_outsider = is_for_lists;
    // The side has just been made.
    let _is_first = side.replies.peer.set(name.clone()).is_ok();
    let close_replies = CloseOnDrop(Rc::clone(&side.replies));
    let connection = Connection {
        stream,
        decoder,
        start,
    };
    let end = connection.run(&*environment.clock, &mut side).await;
    drop(close_replies);
    match end {
        End::Malformed(_) => {
            let (log, problem) = (&environment.log, end.to_string());
            log.line(Direction::Incoming, Some(&name), &problem, |left_out| {
                tracing::warn!(name, problem, left_out, "a peer has sent malformed bytes");
            });
        }
        End::Closed | End::Broken(_) | End::Silent | End::Superseded | End::Rebuilt => {
            tracing::debug!(name, %end, "the connection of a peer has ended");
        }
    }
}

/// Logs why a handshake failed. Anybody can send malformed bytes or break a
/// connection, so these are only logged for debugging.
fn log_failure(environment: &PeerEnvironment, error: &HandshakeError) {
    let (name, what) = match error {
        HandshakeError::Refused { name, .. } => {
            (name.as_deref(), "refused the connection of a node")
        }
        HandshakeError::RefusedByOther(_) => (None, "a node that has connected refuses this node"),
        HandshakeError::OtherOutdated { name } => (
            Some(name.as_str()),
            "a node that has connected is not served",
        ),
        HandshakeError::Broken(_)
        | HandshakeError::Malformed(_)
        | HandshakeError::NotRecorded
        | HandshakeError::Outdated => {
            tracing::debug!(%error, "a peer's handshake failed");
            return;
        }
    };
    let problem = error.to_string();
    let log = &environment.log;
    log.line(Direction::Incoming, name, &problem, |left_out| {
        tracing::warn!(name, problem, left_out, "{what}");
    });
}

/// What brings a version.
#[derive(Clone, Copy)]
enum WriteSource {
    /// A write, a hint, or a repair that names no store.
    Write,
    /// A repair session.
    RepairWrite(SessionId),
    /// A repair with what a store has answered that has named this GC threshold.
    Repair(Timestamp),
    /// A conditional write whose ballot this is.
    Accept(Timestamp),
}

/// What a long write on its way in is for.
struct LongWrite {
    deadline: Duration,
    source: WriteSource,
    trace: Option<TraceId>,
}

impl LongWrite {
    fn request(&self, entry: Entry) -> PeerRequest {
        match self.source {
            WriteSource::RepairWrite(session) => PeerRequest::RepairWrite { session, entry },
            WriteSource::Repair(gc_threshold) => PeerRequest::Repair {
                gc_threshold,
                entry,
            },
            WriteSource::Accept(ballot) => PeerRequest::Accept { ballot, entry },
            WriteSource::Write => PeerRequest::Write(entry),
        }
    }
}

/// The acceptor's side of a connection: takes requests, and sends answers.
struct AcceptorSide<R> {
    replies: Rc<ReplyChannel>,
    handler: Rc<R>,
    environment: PeerEnvironment,
    /// Writes and repair writes whose long values arrive in pieces.
    writes: Assembler<LongWrite>,
    /// The trace that came last, and the call whose request is part of it.
    trace: Cell<Option<(u64, TraceId)>>,
    /// What the two sides have negotiated.
    negotiated: NegotiatedProtocol,
    /// How this node's store stands, as last sent on this connection.
    sent_replica_state: Option<ReplicaState>,
    /// What this node reports of itself, as last sent on this connection.
    sent_report: Option<StoreReport>,
    /// How this node deals with the peer, as last sent on this connection.
    sent_contact: Option<Contact>,
    start: StartWatch,
    /// Whether the peer's store was outdated when it connected.
    is_outdated: bool,
    /// Whether the peer is no member, and is only handed lists of members.
    is_outsider: bool,
    /// Whether it has become a member since, so that it should connect again.
    has_joined: bool,
    /// Whether the peer has sent something since the last look.
    is_heard: bool,
    /// For how many looks the peer has been silent.
    silent_looks: u32,
    /// Kept while the peer is heard.
    live: Option<LiveLink>,
    look: Pin<Box<Sleep>>,
}

impl<R: RequestHandler> AcceptorSide<R> {
    fn new(
        environment: &PeerEnvironment,
        handler: Rc<R>,
        negotiated: NegotiatedProtocol,
        start: StartWatch,
    ) -> Self {
        let quota = &environment.incoming;
        let replies = Rc::<ReplyChannel>::default();
        replies.knows_thresholds.set(negotiated.has(GC_THRESHOLD));
        replies.takes_many.set(negotiated.has(MANY));
        replies.knows_promises.set(negotiated.has(PROMISES));
        // The channel has just been made.
        let _is_first = replies.start.set(start.clone()).is_ok();
        Self {
            replies,
            handler,
            writes: Assembler::new(quota.clone()),
            environment: environment.clone(),
            trace: Cell::new(None),
            negotiated,
            sent_replica_state: None,
            sent_report: None,
            sent_contact: None,
            live: Some(start.mark_heard()),
            start,
            is_outdated: false,
            is_outsider: false,
            has_joined: false,
            is_heard: false,
            silent_looks: 0,
            look: Box::pin(tokio::time::sleep(LOOK_PERIOD)),
        }
    }

    fn serve(
        &self,
        request: PeerRequest,
        call: u64,
        deadline: Duration,
        reservation: Option<Reservation>,
    ) {
        let trace = self.take_trace(call);
        self.serve_in_trace(request, call, deadline, reservation, trace, None);
    }

    /// Serves a request that is part of `trace`. The peer holds the version `held`, which it
    /// need not get.
    fn serve_in_trace(
        &self,
        request: PeerRequest,
        call: u64,
        deadline: Duration,
        reservation: Option<Reservation>,
        trace: Option<TraceId>,
        held: Option<HeldVersion>,
    ) {
        let is_for_lists = self.is_outsider || self.start.is_barred();
        if is_for_lists && !matches!(request, PeerRequest::List(_)) {
            return self.miss(call, Miss::OtherEpoch);
        }
        if self.may_only_fill() && !request.is_of_repair() {
            return self.miss(call, Miss::Refused);
        }
        match self.replies.reply_to(call, deadline, reservation, trace) {
            Some(reply) => self.handler.serve(request, reply.unless_same(held)),
            None => self.miss(call, Miss::Overloaded),
        }
    }

    /// The trace that the request of this call is part of, if it was named.
    fn take_trace(&self, call: u64) -> Option<TraceId> {
        let (named, trace) = self.trace.get()?;
        (named == call).then(|| {
            self.trace.set(None);
            trace
        })
    }

    /// Serves a write whose value is all here, or waits for the rest of it.
    fn take_write(
        &mut self,
        frame: Frame<'_>,
        entry: &EntryHead<'_>,
        mut write: LongWrite,
    ) -> Result<(), FrameError> {
        match entry.whole() {
            Some(entry) => self.serve(write.request(entry), frame.call, write.deadline, None),
            None => {
                write.trace = self.take_trace(frame.call);
                self.writes.begin(frame, entry, write)?;
            }
        }
        Ok(())
    }

    /// Whether the peer is served only what fills its store: the store is outdated, so
    /// another process may issue the same timestamps.
    fn may_only_fill(&self) -> bool {
        self.is_outdated && !self.start.is_remembered()
    }

    /// How this node deals with the peer now.
    fn contact(&self) -> Contact {
        Contact {
            serves: !self.is_outsider && !self.start.is_barred() && !self.may_only_fill(),
            reaches: self.start.live_links() >= self.environment.runtimes,
        }
    }

    /// Answers a ping, and tells what has changed since this side last could: how this
    /// node's store stands, what it has, and how this node deals with the peer.
    fn send_pong(&mut self, token: u64) {
        let environment = &self.environment;
        if let Some(name) = self.replies.peer.get().filter(|_| self.is_outsider) {
            self.has_joined = environment.policy.is_member(name);
        }
        let unix_ms = environment.clock.unix_ms();
        let replica_state = Some(environment.policy.replica_state());
        let report = Some(environment.policy.report());
        let contact = Some(self.contact());
        let replica_state = replica_state.filter(|_| self.negotiated.has(REPLICA_STATE));
        let report = report.filter(|_| self.negotiated.has(REPORT));
        let contact = contact.filter(|_| self.negotiated.has(CONTACT));
        let is_sent = self.replies.outgoing.push_urgent(|out| {
            if let Some(replica_state) =
                replica_state.filter(|now| self.sent_replica_state != Some(*now))
            {
                message::put_replica_state(out, replica_state);
            }
            if let Some(report) = report.filter(|now| self.sent_report != Some(*now)) {
                message::put_report(out, report);
            }
            if let Some(contact) = contact.filter(|now| self.sent_contact != Some(*now)) {
                message::put_contact(out, contact);
            }
            message::put_pong(out, token, unix_ms);
        });
        if is_sent {
            (self.sent_replica_state, self.sent_report) = (replica_state, report);
            self.sent_contact = contact;
        }
    }

    fn miss(&self, call: u64, miss: Miss) {
        let outgoing = &self.replies.outgoing;
        outgoing.push(|out| message::put_missed(out, call, miss));
    }
}

impl<R: RequestHandler> Side for AcceptorSide<R> {
    fn outgoing(&self) -> &Outgoing {
        &self.replies.outgoing
    }

    fn can_take(&self) -> bool {
        self.replies.outgoing.has_room_for_answers()
    }

    fn heard(&mut self, _bytes: usize, _now: Duration) {
        self.is_heard = true;
        if self.live.is_none() {
            self.live = Some(self.start.mark_heard());
        }
    }

    fn take(&mut self, frame: Frame<'_>, now: Duration) -> Result<(), FrameError> {
        let call = frame.call;
        match Message::decode(frame)? {
            Message::Write { remaining, entry } => {
                let deadline = now.saturating_add(remaining);
                let write = LongWrite {
                    deadline,
                    source: WriteSource::Write,
                    trace: None,
                };
                self.take_write(frame, &entry, write)?;
            }
            Message::Writes { remaining, writes } => {
                let deadline = now.saturating_add(remaining);
                for write in writes {
                    let (call, entry) = write?;
                    self.serve(PeerRequest::Write(entry), call, deadline, None);
                }
            }
            Message::RepairWrite {
                remaining,
                session,
                entry,
            } => {
                let deadline = now.saturating_add(remaining);
                let write = LongWrite {
                    deadline,
                    source: WriteSource::RepairWrite(session),
                    trace: None,
                };
                self.take_write(frame, &entry, write)?;
            }
            Message::Repair {
                remaining,
                gc_threshold,
                entry,
            } => {
                let deadline = now.saturating_add(remaining);
                let repair = LongWrite {
                    deadline,
                    source: WriteSource::Repair(gc_threshold),
                    trace: None,
                };
                self.take_write(frame, &entry, repair)?;
            }
            Message::Session { remaining, request } => {
                let request =
                    RepairRequest::decode(request).map_err(|what| frame.malformed(what))?;
                let deadline = now.saturating_add(remaining);
                self.serve(PeerRequest::Session(request), call, deadline, None);
            }
            Message::Page { remaining, request } => {
                let request = page::decode_request(request);
                let request = request.map_err(|what| frame.malformed(what))?;
                let deadline = now.saturating_add(remaining);
                self.serve(PeerRequest::Page(request), call, deadline, None);
            }
            Message::Read { remaining, key } => {
                let request = PeerRequest::Read(Bytes::copy_from_slice(key));
                self.serve(request, call, now.saturating_add(remaining), None);
            }
            Message::ReadUnlessSame {
                remaining,
                held,
                hash,
            } => {
                let request = PeerRequest::Read(Bytes::copy_from_slice(held.key));
                let deadline = now.saturating_add(remaining);
                let held = Some(held.with_hash(hash));
                let trace = self.take_trace(call);
                self.serve_in_trace(request, call, deadline, None, trace, held);
            }
            Message::Piece(piece) => match self.writes.piece(frame, piece)? {
                None => {}
                Some(Assembled { entry: None, .. }) => self.miss(call, Miss::Overloaded),
                Some(Assembled {
                    context: write,
                    entry: Some((entry, reservation)),
                }) => {
                    let (request, reservation) = (write.request(entry), Some(reservation));
                    self.serve_in_trace(
                        request,
                        call,
                        write.deadline,
                        reservation,
                        write.trace,
                        None,
                    );
                }
            },
            Message::Examine { remaining } => {
                let deadline = now.saturating_add(remaining);
                self.serve(PeerRequest::Examine, call, deadline, None);
            }
            Message::Backup { remaining, request } => {
                let request =
                    BackupRequest::decode(request).map_err(|what| frame.malformed(what))?;
                let deadline = now.saturating_add(remaining);
                self.serve(PeerRequest::Backup(request), call, deadline, None);
            }
            Message::List { remaining, request } => {
                let request = ListRequest::decode(request).map_err(|what| frame.malformed(what))?;
                let deadline = now.saturating_add(remaining);
                self.serve(PeerRequest::List(request), call, deadline, None);
            }
            Message::Promise { remaining, request } => {
                let request =
                    PromiseRequest::decode(request).map_err(|what| frame.malformed(what))?;
                let deadline = now.saturating_add(remaining);
                self.serve(PeerRequest::Promise(request), call, deadline, None);
            }
            Message::Accept {
                remaining,
                ballot,
                entry,
            } => {
                let accept = LongWrite {
                    deadline: now.saturating_add(remaining),
                    source: WriteSource::Accept(ballot),
                    trace: None,
                };
                self.take_write(frame, &entry, accept)?;
            }
            Message::Trace(trace) => self.trace.set(Some((call, trace))),
            Message::Ping => self.send_pong(call),
            Message::Stored { .. }
            | Message::NewerVersions(_)
            | Message::SessionAnswer(_)
            | Message::Run(_)
            | Message::Paged(_)
            | Message::Examined(_)
            | Message::BackupAnswer(_)
            | Message::Listed(_)
            | Message::PromiseAnswer(_)
            | Message::ReplicaState(_)
            | Message::Report(_)
            | Message::Contact(_)
            | Message::GcThreshold(_)
            | Message::Found(_)
            | Message::Absent
            | Message::Same
            | Message::Missed(_)
            | Message::Pong { .. } => {
                return Err(frame.malformed("a message that only the acceptor sends"));
            }
        }
        Ok(())
    }

    fn poll_timers(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.has_joined {
            return Poll::Ready(End::Superseded);
        }
        loop {
            ready!(self.look.as_mut().poll(cx));
            let is_late = self.look.deadline().elapsed() > LATE_AFTER;
            if std::mem::take(&mut self.is_heard) {
                self.silent_looks = 0;
            } else if !is_late {
                self.silent_looks += 1;
            }
            if self.silent_looks >= LIVE_LOOKS {
                self.live = None;
            }
            if LOOK_PERIOD * self.silent_looks >= IDLE_MAX {
                return Poll::Ready(End::Silent);
            }
            self.look.as_mut().reset(Instant::now() + LOOK_PERIOD);
        }
    }
}
