//! An incoming connection: a peer asks, this node answers.
//!
//! Requests go to the [`RequestHandler`] as they come; each carries its [`Reply`],
//! which may be used at once or later, in any order. Requests in flight and
//! bytes of answers are bounded: past the first, requests are answered as
//! overloaded without being served; past the second, nothing is read.

use super::assembly::{Assembled, Assembler};
use super::connection::{Connection, End, Side};
use super::frame::{Decoder, Frame, FrameError, PAYLOAD_BYTES_MAX};
use super::handshake::{self, HANDSHAKE_BYTES_MAX, HandshakeError};
use super::log_limiter::Direction;
use super::message::{self, Message};
use super::outgoing::{LongMessage, LongMessageKind, Outgoing};
use super::{
    CALLS_MAX, NegotiatedProtocol, PeerAnswer, PeerEnvironment, PeerRequest, STANDING, Session,
    Stream,
};
use base::Share;
use bytes::Bytes;
use cluster::Miss;
use cluster::Standing;
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// How long a handshake may take on the side that was dialled.
const HANDSHAKE_MAX: Duration = Duration::from_secs(2);

/// A peer pings ten times a second; one that was silent for so long is gone.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// A timer that is so late says that this node itself stood still, and heard
/// nobody for that reason.
const LATE_AFTER: Duration = Duration::from_secs(1);

/// Where the requests of peers go.
pub trait RequestHandler {
    /// Does as asked and replies, now or later.
    fn serve(self: &Rc<Self>, request: PeerRequest, reply: Reply);
}

/// The way back for one answer. Dropped without one it answers that the
/// replica failed, so that nobody waits in vain.
pub struct Reply {
    replies: Rc<ReplyChannel>,
    call: u64,
    deadline: Duration,
    /// What the request counts for, until it is answered.
    _share: Option<Share>,
    is_sent: bool,
}

impl Reply {
    /// Until when the other side waits, on this node's monotonic clock.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Answers.
    pub fn send(self, answer: PeerAnswer) {
        self.send_holding(answer, None);
    }

    /// Answers with a value that counts for `share` until it is written.
    pub fn send_holding(mut self, answer: PeerAnswer, share: Option<Share>) {
        self.is_sent = true;
        self.replies.answer(self.call, answer, self.deadline, share);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_sent {
            let failed = PeerAnswer::Missed(Miss::Failed);
            self.replies.answer(self.call, failed, self.deadline, None);
        }
    }
}

/// The side that asks, as its replies see it.
struct ReplyChannel {
    outgoing: Outgoing,
    in_flight: Cell<usize>,
    /// Whether the connection has ended: answers go nowhere.
    is_closed: Cell<bool>,
}

impl ReplyChannel {
    fn answer(&self, call: u64, answer: PeerAnswer, deadline: Duration, share: Option<Share>) {
        self.in_flight.set(self.in_flight.get() - 1);
        if self.is_closed.get() {
            return;
        }
        let outgoing = &self.outgoing;
        match answer {
            PeerAnswer::Stored { verdict } => {
                outgoing.push(|out| message::put_stored(out, call, verdict));
            }
            PeerAnswer::Found(None) => outgoing.push(|out| message::put_absent(out, call)),
            PeerAnswer::Found(Some(entry)) if !outgoing.has_room_for(&entry) => {
                outgoing.push(|out| message::put_missed(out, call, Miss::Overloaded));
            }
            PeerAnswer::Found(Some(entry)) if message::is_long(&entry) => {
                outgoing.push_long(LongMessage {
                    kind: LongMessageKind::Found,
                    call,
                    deadline,
                    entry,
                    _share: share,
                });
            }
            PeerAnswer::Found(Some(entry)) => {
                outgoing.push(|out| message::put_found(out, call, &entry));
            }
            PeerAnswer::Missed(miss) => outgoing.push(|out| message::put_missed(out, call, miss)),
        }
    }
}

/// Serves a connection until it ends. `leftover` are bytes that were read
/// behind the request to upgrade; `known` is told once the handshake is over.
/// To end it, drop the future.
pub async fn serve<R: RequestHandler>(
    mut stream: Box<dyn Stream>,
    leftover: Bytes,
    environment: PeerEnvironment,
    replica: Rc<R>,
    known: impl FnOnce(),
) {
    let mut decoder = Decoder::new(&leftover, HANDSHAKE_BYTES_MAX);
    drop(leftover);
    let handshake = handshake::accept(&mut *stream, &mut decoder, &environment);
    let Session {
        other,
        negotiated,
        start,
    } = match tokio::time::timeout(HANDSHAKE_MAX, handshake).await {
        Ok(Ok(session)) => session,
        Ok(Err(error)) => return complain(&environment, &error),
        Err(_) => {
            tracing::debug!("a peer's handshake takes too long: closing the connection");
            return;
        }
    };
    known();
    let name = other.identity.name;
    environment.log_limiter.settle(Direction::Incoming, &name);
    tracing::debug!(name, version = negotiated.version, "a peer has connected");
    decoder.allow(PAYLOAD_BYTES_MAX);
    let mut serving = Serving::new(&environment, replica, negotiated);
    let replies = CloseOnDrop(Rc::clone(&serving.replies));
    let connection = Connection {
        stream,
        decoder,
        start,
    };
    let end = connection.run(&*environment.clock, &mut serving).await;
    drop(replies);
    match end {
        End::Malformed(_) => tracing::warn!(name, %end, "a peer talks nonsense"),
        End::Closed | End::Broken(_) | End::Silent | End::Superseded => {
            tracing::debug!(name, %end, "a peer's connection has ended");
        }
    }
}

/// Lets replies that come later go nowhere, also when the connection's task is dropped.
struct CloseOnDrop(Rc<ReplyChannel>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.is_closed.set(true);
        self.0.outgoing.clear();
    }
}

fn complain(environment: &PeerEnvironment, error: &HandshakeError) {
    // What a stranger sends, or a connection that breaks, is no news.
    let (name, what) = match error {
        HandshakeError::Refused { name, .. } => {
            (name.as_deref(), "a node that has connected is no peer")
        }
        HandshakeError::RefusedByOther(_) | HandshakeError::RefusedForNow(_) => {
            (None, "a node that has connected is no peer")
        }
        HandshakeError::OtherOutdated { name } => (
            Some(name.as_str()),
            "a node that has connected is not served",
        ),
        HandshakeError::Broken(_)
        | HandshakeError::Malformed(_)
        | HandshakeError::NotNoted
        | HandshakeError::Outdated => {
            tracing::debug!(%error, "a peer's handshake failed");
            return;
        }
    };
    let complaint = error.to_string();
    let log_limiter = &environment.log_limiter;
    let now = environment.clock.monotonic();
    if log_limiter.should_log(Direction::Incoming, name, &complaint, now) {
        tracing::warn!(name, complaint, "{what}");
    }
}

/// The side that answers.
struct Serving<R> {
    replies: Rc<ReplyChannel>,
    replica: Rc<R>,
    environment: PeerEnvironment,
    /// Writes whose values come in pieces, each with its deadline.
    writes: Assembler<Duration>,
    /// What the two sides speak.
    negotiated: NegotiatedProtocol,
    /// How this node's store stands, as the other side was told on this connection.
    told: Option<Standing>,
    /// Whether something came since `idle` was set.
    is_heard: bool,
    idle: Pin<Box<Sleep>>,
}

impl<R: RequestHandler> Serving<R> {
    fn new(environment: &PeerEnvironment, replica: Rc<R>, negotiated: NegotiatedProtocol) -> Self {
        let budget = &environment.incoming;
        Self {
            replies: Rc::new(ReplyChannel {
                outgoing: Outgoing::default(),
                in_flight: Cell::new(0),
                is_closed: Cell::new(false),
            }),
            replica,
            writes: Assembler::new(budget.clone(), environment.value_bytes_max),
            environment: environment.clone(),
            negotiated,
            told: None,
            is_heard: false,
            idle: Box::pin(tokio::time::sleep(IDLE_MAX)),
        }
    }

    fn serve(&self, request: PeerRequest, call: u64, deadline: Duration, share: Option<Share>) {
        let in_flight = self.replies.in_flight.get();
        if in_flight == CALLS_MAX {
            return self.miss(call, Miss::Overloaded);
        }
        self.replies.in_flight.set(in_flight + 1);
        let reply = Reply {
            replies: Rc::clone(&self.replies),
            call,
            deadline,
            _share: share,
            is_sent: false,
        };
        self.replica.serve(request, reply);
    }

    /// Tells how this node's store stands, if that has changed.
    fn tell_standing(&mut self) {
        let standing = self.environment.policy.standing();
        if self.negotiated.has(STANDING) && self.told.replace(standing) != Some(standing) {
            let outgoing = &self.replies.outgoing;
            outgoing.push_urgent(|out| message::put_standing(out, standing));
        }
    }

    fn miss(&self, call: u64, miss: Miss) {
        let outgoing = &self.replies.outgoing;
        outgoing.push(|out| message::put_missed(out, call, miss));
    }
}

impl<R: RequestHandler> Side for Serving<R> {
    fn outgoing(&self) -> &Outgoing {
        &self.replies.outgoing
    }

    fn can_take(&self) -> bool {
        self.replies.outgoing.is_short_of_full()
    }

    fn heard(&mut self, _now: Duration) {
        self.is_heard = true;
    }

    fn take(&mut self, frame: Frame<'_>, now: Duration) -> Result<(), FrameError> {
        let call = frame.call;
        match Message::decode(frame)? {
            Message::Write { remaining, entry } => {
                let deadline = now.saturating_add(remaining);
                if let Some(entry) = entry.whole() {
                    self.serve(PeerRequest::Write(entry), call, deadline, None);
                } else {
                    self.writes.begin(frame, &entry, deadline)?;
                }
            }
            Message::Read { remaining, key } => {
                let request = PeerRequest::Read(Bytes::copy_from_slice(key));
                self.serve(request, call, now.saturating_add(remaining), None);
            }
            Message::Piece(piece) => match self.writes.piece(frame, piece)? {
                None => {}
                Some(Assembled { entry: None, .. }) => self.miss(call, Miss::Overloaded),
                Some(Assembled {
                    context: deadline,
                    entry: Some((entry, share)),
                }) => self.serve(PeerRequest::Write(entry), call, deadline, Some(share)),
            },
            Message::Ping => {
                self.tell_standing();
                let unix_ms = self.environment.clock.unix_ms();
                let outgoing = &self.replies.outgoing;
                outgoing.push_urgent(|out| message::put_pong(out, call, unix_ms));
            }
            Message::Stored { .. }
            | Message::Standing(_)
            | Message::Found(_)
            | Message::Absent
            | Message::Missed(_)
            | Message::Pong { .. } => return Err(frame.malformed("an answer to nothing")),
        }
        Ok(())
    }

    fn poll_timers(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        loop {
            ready!(self.idle.as_mut().poll(cx));
            let is_late = self.idle.deadline().elapsed() > LATE_AFTER;
            if !std::mem::take(&mut self.is_heard) && !is_late {
                return Poll::Ready(End::Silent);
            }
            self.idle.as_mut().reset(Instant::now() + IDLE_MAX);
        }
    }
}
