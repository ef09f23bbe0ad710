//! What a connection is about and since when, so that one task a runtime can
//! close the ones that hold a place and do nothing: no connection has a timer
//! of its own.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

/// The least rate of a body, in bytes a second over each span of the body
/// timeout: what holds memory must not take hours to come.
const BODY_BYTES_PER_SECOND: u64 = 64 << 10;

/// The least rate at which a client takes an answer, in bytes a second over
/// each span of the stall timeout that it keeps the node waiting. Far below what
/// any network brings: it is only there so that nobody holds an answer for hours.
const ANSWER_BYTES_PER_SECOND: u64 = 8 << 10;

/// How long a connection whose body was refused is still read, so that the
/// client sees the answer rather than a reset.
const LINGER: Duration = Duration::from_secs(2);

/// How long a connection may take for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Between requests.
    pub(crate) idle: Duration,
    /// For a head, first byte to last.
    pub(crate) head: Duration,
    /// For each span of a body.
    pub(crate) body: Duration,
    /// To take anything of an answer.
    pub(crate) stall: Duration,
}

/// How long a connection that is kept for a peer may take to ask for that.
const PEER_PATIENCE: Duration = Duration::from_secs(1);

/// Whom a connection's place is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admits {
    /// Anybody.
    All,
    /// Peers: all other places are taken.
    Peers,
}

/// What a connection is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Between requests.
    Idle,
    /// Some bytes of a head have come.
    Head,
    /// A request is worked on or answered.
    Request,
    /// The body of a request is being read.
    Body,
    /// Closed for writing; what still comes is thrown away.
    Lingering,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Idle => "a pause between requests",
            Self::Head => "the head of a request",
            Self::Request => "a request",
            Self::Body => "the body of a request",
            Self::Lingering => "the end of the connection",
        }
    }
}

/// What must have come or gone in a span.
fn bytes_min(span: Duration, bytes_per_second: u64) -> u128 {
    span.as_millis() * u128::from(bytes_per_second) / 1000
}

/// What a connection is about, and since when.
pub(crate) struct Progress {
    /// The runtime's coarse time.
    now: Rc<Cell<Duration>>,
    admits: Admits,
    phase: Cell<Phase>,
    since: Cell<Duration>,
    received_bytes: Cell<u64>,
    /// Of the head under way.
    head_bytes: Cell<usize>,
    /// `received_bytes` when the span of a body began.
    span_began_at_bytes: Cell<u64>,
    /// Since when nothing of the answer was taken, if something waits.
    blocked_since: Cell<Option<Duration>>,
    /// For how long answers waited to be taken in this span, before `blocked_since`.
    blocked_for: Cell<Duration>,
    /// How much of the time since `blocked_since` counted in earlier spans.
    blocked_before: Cell<Duration>,
    /// What was taken of answers in this span, in bytes.
    taken_bytes: Cell<u64>,
    /// What the answer under way holds that counts nowhere else, in bytes.
    answer_bytes: Cell<usize>,
    /// Whether a body came too slowly; its reader is to say so.
    is_body_late: Cell<bool>,
    /// Whether to linger before the connection is closed.
    lingers: Cell<bool>,
    /// Whether the connection is a peer's once the answer is out.
    is_upgraded: Cell<bool>,
    /// Whether the sweeper has given up on it.
    is_cut: Cell<bool>,
    /// What wakes the connection's task.
    waker: RefCell<Option<Waker>>,
}

impl Progress {
    /// A connection that was just opened, under the clock `now`.
    pub(crate) fn new(now: Rc<Cell<Duration>>, admits: Admits) -> Self {
        Self {
            admits,
            since: Cell::new(now.get()),
            now,
            phase: Cell::new(Phase::Idle),
            received_bytes: Cell::new(0),
            head_bytes: Cell::new(0),
            span_began_at_bytes: Cell::new(0),
            blocked_since: Cell::new(None),
            blocked_for: Cell::default(),
            blocked_before: Cell::default(),
            taken_bytes: Cell::new(0),
            answer_bytes: Cell::new(0),
            is_body_late: Cell::new(false),
            lingers: Cell::new(false),
            is_upgraded: Cell::new(false),
            is_cut: Cell::new(false),
            waker: RefCell::new(None),
        }
    }

    /// Whom the connection's place is for.
    pub(crate) fn admits(&self) -> Admits {
        self.admits
    }

    /// Something begins.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(self.now.get());
    }

    /// A request's head is complete.
    pub(crate) fn request_begins(&self) {
        self.enter(Phase::Request);
    }

    /// The answer was handed over.
    pub(crate) fn request_ends(&self) {
        self.enter(Phase::Idle);
    }

    /// A body is waited for.
    pub(crate) fn body_begins(&self) {
        self.span_began_at_bytes.set(self.received_bytes.get());
        self.enter(Phase::Body);
    }

    /// The body is complete.
    pub(crate) fn body_ends(&self) {
        self.enter(Phase::Request);
    }

    /// Whether the body came too slowly.
    pub(crate) fn is_body_late(&self) -> bool {
        self.is_body_late.get()
    }

    /// The connection will be closed with part of a request unread.
    pub(crate) fn linger(&self) {
        self.lingers.set(true);
    }

    /// Whether it will.
    pub(crate) fn lingers(&self) -> bool {
        self.lingers.get()
    }

    /// The connection is a peer's as soon as the answer is out.
    pub(crate) fn upgrade(&self) {
        self.is_upgraded.set(true);
    }

    /// Whether it is.
    pub(crate) fn is_upgraded(&self) -> bool {
        self.is_upgraded.get()
    }

    /// Whether the sweeper has given up on the connection.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.get()
    }

    /// Whether something of an answer waits to be taken.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked_since.get().is_some()
    }

    /// Bytes have come.
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

    /// How much has come of a head that is not complete; `None`: none is waited for.
    pub(crate) fn head_bytes(&self) -> Option<usize> {
        match self.phase.get() {
            Phase::Idle => Some(0),
            Phase::Head => Some(self.head_bytes.get()),
            _ => None,
        }
    }

    /// An answer is about to be written, which holds so many bytes that count
    /// nowhere else.
    pub(crate) fn answers(&self, bytes: usize) {
        self.answer_bytes.set(bytes);
    }

    /// What the answer under way holds.
    pub(crate) fn answer_bytes(&self) -> usize {
        self.answer_bytes.get()
    }

    /// Nothing of the answer was taken.
    pub(crate) fn blocked(&self) {
        if self.blocked_since.get().is_none() {
            self.blocked_since.set(Some(self.now.get()));
        }
    }

    /// Something of the answer was taken.
    pub(crate) fn taken(&self, bytes: usize) {
        let sum = self.taken_bytes.get().saturating_add(bytes as u64);
        self.taken_bytes.set(sum);
        if self.blocked_since.get().is_some() {
            self.blocked_for.set(self.blocked_in_span(self.now.get()));
            self.blocked_before.set(Duration::ZERO);
            self.blocked_since.set(None);
        }
    }

    /// For how long answers have waited in this span.
    fn blocked_in_span(&self, now: Duration) -> Duration {
        let lasts = match self.blocked_since.get() {
            Some(since) => now.saturating_sub(since),
            None => Duration::ZERO,
        };
        self.blocked_for.get() + lasts.saturating_sub(self.blocked_before.get())
    }

    /// Whether answers are taken too slowly: nothing of them for the whole of
    /// `stall`, or less than their least rate. Ends the span that is over.
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
        let taken = self.taken_bytes.replace(0);
        u128::from(taken) < bytes_min(waited, ANSWER_BYTES_PER_SECOND)
    }

    /// Whether the connection has used up the patience for what it is about.
    fn is_overdue(&self, now: Duration, patience: Patience) -> bool {
        if self.is_answer_late(now, patience.stall) {
            return true;
        }
        if self.is_blocked() {
            return false;
        }
        let taken = now.saturating_sub(self.since.get());
        match self.phase.get() {
            Phase::Idle | Phase::Head if self.admits == Admits::Peers => taken >= PEER_PATIENCE,
            Phase::Idle => taken >= patience.idle,
            Phase::Head => taken >= patience.head,
            // Bounded by the request's own deadline.
            Phase::Request => false,
            Phase::Body if taken < patience.body => false,
            Phase::Body => {
                let received = self.received_bytes.get();
                let in_span = received.wrapping_sub(self.span_began_at_bytes.get());
                self.span_began_at_bytes.set(received);
                self.since.set(now);
                u128::from(in_span) < bytes_min(taken, BODY_BYTES_PER_SECOND)
            }
            Phase::Lingering => taken >= LINGER,
        }
    }

    /// Ends the connection if it is overdue.
    pub(crate) fn sweep(&self, now: Duration, patience: Patience) {
        if !self.is_overdue(now, patience) {
            return;
        }
        let phase = self.phase.get();
        tracing::debug!(
            during = phase.name(),
            "a connection makes no progress: closing it"
        );
        if phase == Phase::Body && self.blocked_since.get().is_none() {
            // There is a request to answer.
            self.is_body_late.set(true);
            self.enter(Phase::Request);
            self.wake();
        } else {
            self.cut();
        }
    }

    /// Ends the connection, whatever it is about.
    pub(crate) fn cut(&self) {
        self.is_cut.set(true);
        self.wake();
    }

    /// Lets the connection's task look at the world again.
    pub(crate) fn wake(&self) {
        let waker = self.waker.borrow().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes note of what wakes the connection's task.
    pub(crate) fn remember(&self, waker: &Waker) {
        let mut remembered = self.waker.borrow_mut();
        match &*remembered {
            Some(known) if known.will_wake(waker) => {}
            _ => *remembered = Some(waker.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        idle: Duration::from_secs(75),
        head: Duration::from_secs(10),
        body: Duration::from_secs(5),
        stall: Duration::from_secs(30),
    };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn progress() -> Progress {
        Progress::new(Rc::new(Cell::new(at(100))), Admits::All)
    }

    #[test]
    fn an_idle_connection_may_be_idle_for_so_long() {
        let progress = progress();
        assert!(!progress.is_overdue(at(174), PATIENCE));
        assert!(progress.is_overdue(at(175), PATIENCE));
    }

    #[test]
    fn a_head_must_be_whole_in_time_however_it_trickles() {
        let progress = progress();
        progress.received(1);
        progress.now.set(at(105));
        progress.received(1);
        assert!(!progress.is_overdue(at(109), PATIENCE));
        assert!(progress.is_overdue(at(110), PATIENCE));
        progress.request_begins();
        assert!(!progress.is_overdue(at(110), PATIENCE));
        progress.request_ends();
        assert!(!progress.is_overdue(at(110), PATIENCE));
    }

    #[test]
    fn a_body_must_bring_its_least_in_each_span() {
        let progress = progress();
        progress.request_begins();
        progress.body_begins();
        let least = 5 * BODY_BYTES_PER_SECOND as usize;
        progress.received(least);
        assert!(!progress.is_overdue(at(105), PATIENCE));
        progress.received(least - 1);
        assert!(!progress.is_overdue(at(109), PATIENCE));
        assert!(progress.is_overdue(at(110), PATIENCE));
    }

    #[test]
    fn a_late_body_is_told_to_its_reader_and_other_delays_end_the_connection() {
        let progress = progress();
        progress.request_begins();
        progress.body_begins();
        progress.sweep(at(105), PATIENCE);
        assert_eq!(
            (progress.is_body_late(), progress.is_cut.get()),
            (true, false)
        );
        progress.blocked();
        progress.sweep(at(130), PATIENCE);
        assert!(progress.is_cut.get(), "the answer is not taken either");
    }

    #[test]
    fn an_answer_must_be_taken_whatever_the_phase() {
        let progress = progress();
        progress.request_begins();
        progress.blocked();
        progress.now.set(at(120));
        progress.blocked();
        assert!(!progress.is_overdue(at(129), PATIENCE));
        assert!(progress.is_overdue(at(130), PATIENCE));
        progress.blocked_since.set(None);
        assert!(!progress.is_overdue(at(130), PATIENCE));
    }

    #[test]
    fn an_answer_must_be_taken_at_its_least_rate_while_it_keeps_the_node_waiting() {
        let least = 30 * ANSWER_BYTES_PER_SECOND as usize;
        // Each is cut, or not, 30 s of waiting after it began: it waits every
        // other second, and takes a thirtieth of `bytes` in between.
        for (bytes, is_cut) in [(30, true), (least - 30, true), (least, false)] {
            let progress = progress();
            progress.request_begins();
            let mut was_cut = false;
            for second in 0..60 {
                progress.now.set(at(100 + second));
                match second % 2 {
                    0 => progress.blocked(),
                    _ => progress.taken(bytes / 30),
                }
                was_cut |= progress.is_overdue(at(100 + second), PATIENCE);
            }
            assert_eq!(was_cut, is_cut, "{bytes}");
        }
        // What was taken before does not excuse that nothing is taken now.
        let progress = progress();
        progress.request_begins();
        progress.taken(1 << 30);
        progress.blocked();
        assert!(!progress.is_overdue(at(129), PATIENCE));
        assert!(progress.is_overdue(at(130), PATIENCE));
    }

    #[test]
    fn the_bytes_of_a_head_are_those_since_the_last_request() {
        let progress = progress();
        assert_eq!(progress.head_bytes(), Some(0));
        progress.received(5);
        progress.received(7);
        assert_eq!(progress.head_bytes(), Some(12));
        progress.request_begins();
        progress.body_begins();
        progress.received(9);
        assert_eq!(progress.head_bytes(), None);
        progress.request_ends();
        progress.received(1);
        assert_eq!(progress.head_bytes(), Some(1));
    }
}
