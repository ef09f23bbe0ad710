//! Slow clients: what each connection is doing and since when ([`ConnectionProgress`]). One task
//! a runtime reads it to close connections that make no progress, so no connection
//! needs a timer of its own.

use crate::admission::shedding::Shed;
use crate::net::connection_slots::ConnectionScope;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

/// The least rate of a body, in bytes a second over each span of the body timeout:
/// a body holds memory while it is received, so it must not take hours.
const BODY_BYTES_PER_SECOND: u64 = 64 << 10;

/// The least rate at which a client reads an answer, in bytes a second over each span
/// of the stall timeout during which the node waits for the client. Every network is
/// far faster: the rate only keeps a client from holding an answer for hours.
const ANSWER_BYTES_PER_SECOND: u64 = 8 << 10;

/// How long the node still reads a connection whose body it refused, so that the
/// client receives the answer rather than a reset.
const LINGER: Duration = Duration::from_secs(2);

/// How long a connection may take in each of its phases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowClientTimeouts {
    /// Between requests.
    pub(crate) idle: Duration,
    /// From the first byte of a head, or of a TLS handshake, to the last.
    pub(crate) head: Duration,
    /// The span over which a body must keep its least rate.
    pub(crate) body: Duration,
    /// The span over which the client must read an answer at its least rate.
    pub(crate) stall: Duration,
}

/// How long a connection of [`ConnectionScope::PeerOrProbe`] may take to ask for the
/// upgrade, or for health.
const PEER_OR_PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It waits for the next request.
    Idle,
    /// It does the handshake of TLS.
    Handshake,
    /// It has received a part of a head.
    Head,
    /// Its request is being served or answered.
    Request,
    /// It receives the body of a request.
    Body,
    /// It waits for the next line of a batch, and has nothing else to do. Only a line that
    /// is answered ends that: an empty one or a part of a line does not.
    Lines,
    /// It receives a line of a batch that is so long that its memory counts.
    LongLine,
    /// It is closed for writing, and discards what it still receives.
    Lingering,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Idle => "a pause between requests",
            Self::Handshake => "a TLS handshake",
            Self::Head => "the head of a request",
            Self::Request => "a request",
            Self::Body => "the body of a request",
            Self::Lines => "a pause between the lines of a batch",
            Self::LongLine => "a long line of a batch",
            Self::Lingering => "the end of the connection",
        }
    }
}

/// How many bytes must move in a span.
fn bytes_min(span: Duration, bytes_per_second: u64) -> u128 {
    span.as_millis() * u128::from(bytes_per_second) / 1000
}

/// What a connection is doing, and since when.
pub(crate) struct ConnectionProgress {
    /// The runtime's coarse clock.
    now: Rc<Cell<Duration>>,
    scope: ConnectionScope,
    phase: Cell<Phase>,
    since: Cell<Duration>,
    received_bytes: Cell<u64>,
    /// The length of the head that is being received, so far.
    head_bytes: Cell<usize>,
    /// `received_bytes` when the current span of a body began.
    span_began_at_bytes: Cell<u64>,
    /// Since when the answer has waited for the client to read, if it does.
    blocked_since: Cell<Option<Duration>>,
    /// For how long answers waited for the client in this span, before `blocked_since`.
    blocked_for: Cell<Duration>,
    /// The part of the time since `blocked_since` that counted in earlier spans.
    blocked_before: Cell<Duration>,
    /// How many bytes of answers the client has read in this span.
    sent_bytes: Cell<u64>,
    /// How many bytes the current answer holds that no quota counts.
    answer_bytes: Cell<usize>,
    /// Whether the body is too slow. Its reader answers that.
    is_body_late: Cell<bool>,
    /// Whether the connection lingers before it is closed.
    lingers: Cell<bool>,
    /// Whether the connection becomes a peer's once the answer is sent.
    is_upgraded: Cell<bool>,
    /// Whether that peer is only handed lists of members.
    is_for_lists: Cell<bool>,
    /// Whether the node has given the connection up.
    is_cut: Cell<bool>,
    /// Wakes the connection's task.
    waker: RefCell<Option<Waker>>,
}

impl ConnectionProgress {
    /// The progress of a connection that was just opened, by the coarse clock `now`.
    pub(crate) fn new(now: Rc<Cell<Duration>>, scope: ConnectionScope) -> Self {
        Self {
            scope,
            since: Cell::new(now.get()),
            now,
            phase: Cell::new(Phase::Idle),
            received_bytes: Cell::new(0),
            head_bytes: Cell::new(0),
            span_began_at_bytes: Cell::new(0),
            blocked_since: Cell::new(None),
            blocked_for: Cell::default(),
            blocked_before: Cell::default(),
            sent_bytes: Cell::new(0),
            answer_bytes: Cell::new(0),
            is_body_late: Cell::new(false),
            lingers: Cell::new(false),
            is_upgraded: Cell::new(false),
            is_for_lists: Cell::new(false),
            is_cut: Cell::new(false),
            waker: RefCell::new(None),
        }
    }

    /// Which requests the connection may send.
    pub(crate) fn scope(&self) -> ConnectionScope {
        self.scope
    }

    /// A phase begins.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(self.now.get());
    }

    /// The head of a request is complete.
    pub(crate) fn request_begins(&self) {
        self.enter(Phase::Request);
    }

    /// Hyper has taken the whole answer.
    pub(crate) fn request_ends(&self) {
        self.enter(Phase::Idle);
    }

    /// The node begins to receive a body.
    pub(crate) fn body_begins(&self) {
        self.span_began_at_bytes.set(self.received_bytes.get());
        self.enter(Phase::Body);
    }

    /// The body is complete.
    pub(crate) fn body_ends(&self) {
        self.enter(Phase::Request);
    }

    /// What the node does with a batch: it waits for lines ([`Phase::Lines`] or
    /// [`Phase::LongLine`]), or works on them ([`Phase::Request`]).
    pub(crate) fn continue_batch(&self, phase: Phase) {
        if self.phase.get() != phase {
            self.span_began_at_bytes.set(self.received_bytes.get());
            self.enter(phase);
        }
    }

    /// Whether the body is too slow.
    pub(crate) fn is_body_late(&self) -> bool {
        self.is_body_late.get()
    }

    /// Makes the connection linger: it will be closed with a part of a request unread.
    pub(crate) fn linger(&self) {
        self.lingers.set(true);
    }

    /// Whether the connection will linger.
    pub(crate) fn is_lingering(&self) -> bool {
        self.lingers.get()
    }

    /// Turns the connection into a peer's once the answer is sent, for lists of members only or for
    /// all that peers do.
    pub(crate) fn upgrade(&self, is_for_lists: bool) {
        self.is_upgraded.set(true);
        self.is_for_lists.set(is_for_lists);
    }

    /// Whether the peer of an upgraded connection is only handed lists of members.
    pub(crate) fn is_for_lists(&self) -> bool {
        self.is_for_lists.get()
    }

    /// Whether the connection becomes a peer's once the answer is sent.
    pub(crate) fn is_upgraded(&self) -> bool {
        self.is_upgraded.get()
    }

    /// Whether the node has given the connection up.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.get()
    }

    /// Whether an answer waits for the client to read.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked_since.get().is_some()
    }

    /// Bytes were received.
    pub(crate) fn received(&self, bytes: usize) {
        self.received_bytes
            .set(self.received_bytes.get().wrapping_add(bytes as u64));
        match self.phase.get() {
            Phase::Idle => {
                self.enter(Phase::Head);
                self.head_bytes.set(bytes);
            }
            Phase::Head => self.head_bytes.set(self.head_bytes.get() + bytes),
            _ => {}
        }
    }

    /// A part of a TLS record was received: the first part of a head may be in it.
    pub(crate) fn receives_record(&self) {
        if self.phase.get() == Phase::Idle {
            self.enter(Phase::Head);
            self.head_bytes.set(0);
        }
    }

    /// How many bytes were received of a head that is not complete. `None`: the
    /// connection is not waiting for a head.
    pub(crate) fn head_bytes(&self) -> Option<usize> {
        match self.phase.get() {
            Phase::Idle => Some(0),
            Phase::Head => Some(self.head_bytes.get()),
            _ => None,
        }
    }

    /// Whether the connection waits for the next request, of which nothing is here.
    pub(crate) fn is_idle(&self) -> bool {
        self.phase.get() == Phase::Idle
    }

    /// The current answer holds so many bytes that no quota counts.
    pub(crate) fn set_answer_bytes(&self, bytes: usize) {
        self.answer_bytes.set(bytes);
    }

    /// How many bytes the current answer holds that no quota counts.
    pub(crate) fn answer_bytes(&self) -> usize {
        self.answer_bytes.get()
    }

    /// The kernel took nothing of the answer, because the client does not read.
    pub(crate) fn blocked(&self) {
        if self.blocked_since.get().is_none() {
            self.blocked_since.set(Some(self.now.get()));
        }
    }

    /// The kernel took a part of the answer.
    pub(crate) fn sent(&self, bytes: usize) {
        let sum = self.sent_bytes.get().saturating_add(bytes as u64);
        self.sent_bytes.set(sum);
        if self.blocked_since.get().is_some() {
            self.blocked_for.set(self.blocked_in_span(self.now.get()));
            self.blocked_before.set(Duration::ZERO);
            self.blocked_since.set(None);
        }
    }

    /// For how long answers have waited for the client in this span.
    fn blocked_in_span(&self, now: Duration) -> Duration {
        let lasts = match self.blocked_since.get() {
            Some(since) => now.saturating_sub(since),
            None => Duration::ZERO,
        };
        self.blocked_for.get() + lasts.saturating_sub(self.blocked_before.get())
    }

    /// Whether the client reads answers too slowly: nothing for the whole of `stall`,
    /// or less than the least rate. Begins a new span if the current one is over.
    fn is_answer_late(&self, now: Duration, stall: Duration) -> bool {
        let lasts = match self.blocked_since.get() {
            Some(since) => now.saturating_sub(since),
            None => Duration::ZERO,
        };
        if lasts >= stall {
            return true;
        }
        let waited = self.blocked_in_span(now);
        if waited < stall {
            return false;
        }
        self.blocked_for.set(Duration::ZERO);
        self.blocked_before.set(lasts);
        let sent = self.sent_bytes.replace(0);
        u128::from(sent) < bytes_min(waited, ANSWER_BYTES_PER_SECOND)
    }

    /// Whether the connection has taken too long in its phase.
    fn is_overdue(&self, now: Duration, timeouts: SlowClientTimeouts) -> bool {
        if self.is_answer_late(now, timeouts.stall) {
            return true;
        }
        if self.is_blocked() {
            return false;
        }
        let lasts = now.saturating_sub(self.since.get());
        match self.phase.get() {
            Phase::Idle | Phase::Handshake | Phase::Head
                if self.scope == ConnectionScope::PeerOrProbe =>
            {
                lasts >= PEER_OR_PROBE_TIMEOUT
            }
            Phase::Idle => lasts >= timeouts.idle,
            Phase::Handshake | Phase::Head => lasts >= timeouts.head,
            // The request's own deadline bounds it.
            Phase::Request => false,
            Phase::Lines => lasts >= timeouts.stall,
            Phase::Body if lasts < timeouts.body => false,
            Phase::LongLine if lasts < timeouts.stall => false,
            Phase::Body | Phase::LongLine => {
                let received = self.received_bytes.get();
                let in_span = received.wrapping_sub(self.span_began_at_bytes.get());
                self.span_began_at_bytes.set(received);
                self.since.set(now);
                u128::from(in_span) < bytes_min(lasts, BODY_BYTES_PER_SECOND)
            }
            Phase::Lingering => lasts >= LINGER,
        }
    }

    /// Ends the connection if it is overdue.
    pub(crate) fn end_if_overdue(&self, now: Duration, timeouts: SlowClientTimeouts) {
        if !self.is_overdue(now, timeouts) {
            return;
        }
        let phase = self.phase.get();
        tracing::debug!(
            during = phase.name(),
            "closing a connection that makes no progress"
        );
        if phase == Phase::Body && self.blocked_since.get().is_none() {
            // The reader of the body answers the request.
            self.is_body_late.set(true);
            self.enter(Phase::Request);
            self.wake();
        } else {
            self.cut();
        }
    }

    /// Ends the connection, whatever it is doing.
    pub(crate) fn cut(&self) {
        self.is_cut.set(true);
        self.wake();
    }

    /// Wakes the connection's task.
    pub(crate) fn wake(&self) {
        let waker = self.waker.borrow().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Stores what wakes the connection's task.
    pub(crate) fn remember(&self, waker: &Waker) {
        let mut remembered = self.waker.borrow_mut();
        match &*remembered {
            Some(known) if known.will_wake(waker) => {}
            _ => *remembered = Some(waker.clone()),
        }
    }
}

impl Shed for ConnectionProgress {
    fn shed(&self) {
        self.cut();
    }
}

#[cfg(test)]
mod tests;
