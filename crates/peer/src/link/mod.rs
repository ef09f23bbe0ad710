//! The connection of one runtime to one peer: requests go out, answers come back.
//!
//! A link is set up before anybody needs it, and set up again whenever it is
//! lost, for as long as the runtime lives ([`Link::run_forever`]). What becomes
//! of a call depends on the [`LinkState`]:
//!
//! ```text
//!     connecting -- hands shaken --> up -- silent ---> suspected
//!      |      ^                     ^ |^--- heard ---------|
//!      |      |        hands shaken | | lost               | silent for long,
//!      |      | nudged              | v                    v or nudged
//!      |      '------------------- down <------------------'
//!      '----------- failed -------> dialled again, with backoff, or nudged
//! ```
//!
//! Calls wait, within their deadlines, for a link that never was: the nodes of a
//! cluster are started one after another. Once it has been up, nobody waits for
//! it: when it is suspected or down, calls in flight end at once, and so do new
//! ones, and down it stays until hands are shaken, since a cut network looks
//! like a peer that is slow to answer. A nudge says that the peer has dialled this
//! node, so it is dialled at once; only one that never was is waited for then.

mod dialler_side;

use crate::backoff::{BACKOFF_MAX, Backoff};
use crate::calls::{Call, CallKind, Calls};
use crate::connection::Connection;
use crate::frame::{Decoder, PAYLOAD_BYTES_MAX};
use crate::handshake::{self, HANDSHAKE_BYTES_MAX, HandshakeError};
use crate::health::{self, Latency};
use crate::log_limiter::Direction;
use crate::message;
use crate::outgoing::{LongMessage, LongMessageKind, Outgoing};
use crate::wait_sites;
use crate::{
    CALLS_MAX, NegotiatedProtocol, PeerAnswer, PeerEnvironment, PeerRequest, Session, Transport,
};
use base::Clock;
use cluster::{Miss, NodeUrl, Standing};
use dialler_side::DiallerSide;
use profile::WaitSite;
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long dialling and shaking hands may take.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// For how long nobody is told of a peer that was never there: the nodes of a
/// cluster are started one after another.
pub(super) const START_PATIENCE: Duration = Duration::from_secs(3);

/// Who gets the answers of a link.
pub trait AnswerHandler {
    /// The answer to the call with this ticket; exactly one for each call
    /// that was accepted. It may make calls itself.
    fn answer(&self, ticket: u64, answer: PeerAnswer);
}

/// What a link is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It is being set up for the first time; calls wait for it.
    Connecting,
    /// It works.
    Up,
    /// The peer is silent; calls end at once.
    Suspected,
    /// The peer could not be reached; calls are refused at once.
    Down,
}

/// How far a node's wall clock is ahead of its monotonic one, in milliseconds:
/// it changes when the wall clock is set.
pub(super) fn own_ahead_ms(clock: &dyn Clock) -> i64 {
    let ahead = i128::from(clock.unix_ms()) - clock.monotonic().as_millis() as i128;
    ahead.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

impl LinkState {
    /// The word for it on the status page.
    pub fn word(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Up => "up",
            Self::Suspected => "suspected",
            Self::Down => "down",
        }
    }
}

/// What a link has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Calls that were accepted.
    pub calls: u64,
    /// Of these, those that the peer answered, with whatever.
    pub answered: u64,
    /// Of these, those whose deadline passed, or that a silent peer left.
    pub timeouts: u64,
    /// Of these, those that were lost with a connection, or with the attempt to make one.
    pub lost: u64,
    /// Calls that were not accepted because too many are in flight.
    pub overloaded: u64,
    /// How often hands were shaken.
    pub connects: u64,
    /// How often the peer was suspected.
    pub suspicions: u64,
}

/// What is known of a link.
#[derive(Clone, Copy, Debug)]
pub struct LinkStatus {
    /// What it is about.
    pub state: LinkState,
    /// Calls that wait for an answer.
    pub in_flight: usize,
    /// How the peer's store stands, as it says; known while there is a connection.
    pub standing: Option<Standing>,
    /// How far the peer's clock is ahead of ours, in milliseconds.
    pub drift_ms: Option<i64>,
    /// How long reads take, smoothed.
    pub read_latency: Option<Duration>,
    /// How long writes take, smoothed.
    pub write_latency: Option<Duration>,
    /// What it has done so far.
    pub counts: LinkCounts,
}

/// The connection of one runtime to one peer.
pub struct Link {
    name: String,
    url: NodeUrl,
    transport: Arc<dyn Transport>,
    pub(super) environment: PeerEnvironment,
    answers: Rc<dyn AnswerHandler>,
    state: Cell<LinkState>,
    /// Whether it has been up.
    has_been_up: Cell<bool>,
    calls: RefCell<Calls>,
    pub(super) outgoing: Outgoing,
    reads: Cell<Latency>,
    writes: Cell<Latency>,
    /// How far the peer's wall clock is ahead of our monotonic one: so a step
    /// of our wall clock shows at once, not with the next heartbeat.
    pub(super) ahead_of_monotonic_ms: Cell<Option<i64>>,
    /// How the peer's store stands, as it says; known while there is a connection.
    pub(super) standing: Cell<Option<Standing>>,
    counts: Cell<LinkCounts>,
    /// Where calls that read wait, and where calls that write do.
    read_wait_site: WaitSite,
    write_wait_site: WaitSite,
    redial: Notify,
    /// A nudge that a conversation has yet to see.
    pub(super) is_redial_due: Cell<bool>,
}

/// Why a peer could not be reached.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error("cannot connect: {0}")]
    Dial(std::io::Error),
    #[error("no handshake: {0}")]
    Handshake(#[from] HandshakeError),
    #[error("no connection within {CONNECT_MAX:?}")]
    Late,
}

impl ConnectError {
    /// Whether the peer refuses this node, or is refused, only for now.
    fn may_pass(&self) -> bool {
        matches!(self, Self::Handshake(error) if error.may_pass())
    }
}

impl Link {
    /// A link to the node `name` at `url`, whose answers go to `answers`.
    /// Nothing happens before [`Link::run_forever`] runs; calls wait.
    pub fn new(
        name: String,
        url: NodeUrl,
        transport: Arc<dyn Transport>,
        environment: PeerEnvironment,
        answers: Rc<dyn AnswerHandler>,
    ) -> Rc<Self> {
        Rc::new(Self {
            read_wait_site: wait_sites::peer(&name, "read"),
            write_wait_site: wait_sites::peer(&name, "write"),
            name,
            url,
            transport,
            environment,
            answers,
            state: Cell::new(LinkState::Connecting),
            has_been_up: Cell::new(false),
            calls: RefCell::default(),
            outgoing: Outgoing::default(),
            reads: Cell::default(),
            writes: Cell::default(),
            ahead_of_monotonic_ms: Cell::new(None),
            standing: Cell::new(None),
            counts: Cell::default(),
            redial: Notify::new(),
            is_redial_due: Cell::new(false),
        })
    }

    /// Asks the peer; `deadline` is on the monotonic clock. Its answer comes
    /// under `ticket`, never before this returns.
    ///
    /// # Errors
    /// Why the peer is not asked; then no answer comes.
    pub fn call(&self, request: PeerRequest, deadline: Duration, ticket: u64) -> Result<(), Miss> {
        if let Some(why) = self.why_down() {
            return Err(why);
        }
        let now = self.environment.clock.monotonic();
        if deadline <= now {
            return Err(Miss::Timeout);
        }
        let (asked, has_room) = match &request {
            PeerRequest::Write(entry) => (CallKind::Write, self.outgoing.has_room_for(entry)),
            PeerRequest::Read(key) => (CallKind::Read, self.outgoing.has_room_for_key(key)),
        };
        let mut calls = self.calls.borrow_mut();
        if calls.len() == CALLS_MAX || !has_room {
            self.count(|counts| counts.overloaded += 1);
            return Err(Miss::Overloaded);
        }
        let call = calls.insert(ticket, asked, deadline, now);
        drop(calls);
        self.count(|counts| counts.calls += 1);
        let remaining = deadline.saturating_sub(now);
        match request {
            PeerRequest::Write(entry) if message::is_long(&entry) => {
                self.outgoing.push_long(LongMessage {
                    kind: LongMessageKind::Write,
                    call,
                    deadline,
                    entry,
                    _share: None,
                });
            }
            PeerRequest::Write(entry) => {
                let put = |out: &mut Vec<u8>| message::put_write(out, call, remaining, &entry);
                self.outgoing.push(put);
            }
            PeerRequest::Read(key) => {
                let put = |out: &mut Vec<u8>| message::put_read(out, call, remaining, &key);
                self.outgoing.push(put);
            }
        }
        Ok(())
    }

    /// Whether a call would fail at once.
    pub fn is_down(&self) -> bool {
        self.why_down().is_some()
    }

    /// Why a call would fail at once, if it would: the peer is suspected, or
    /// could not be reached.
    pub fn why_down(&self) -> Option<Miss> {
        match self.state.get() {
            LinkState::Connecting | LinkState::Up => None,
            LinkState::Suspected => Some(Miss::Suspected),
            LinkState::Down => Some(Miss::Refused),
        }
    }

    /// Ends the calls whose deadline is not after `now`, on the monotonic
    /// clock. The runtime's sweep calls this.
    pub fn expire(&self, now: Duration) {
        let expired = self.calls.borrow_mut().take_expired(now);
        self.end(&expired, Miss::Timeout);
    }

    /// The peer has shaken hands with this node: if the link is not up, set it
    /// up now, and let calls wait for that if it never was.
    pub fn peer_has_dialled(&self) {
        match self.state.get() {
            LinkState::Up => {}
            LinkState::Suspected => {
                self.is_redial_due.set(true);
                self.outgoing.wake();
            }
            // Also while connecting: that attempt may have come too early.
            LinkState::Connecting | LinkState::Down => {
                self.wait_if_never_up();
                self.redial.notify_one();
            }
        }
    }

    /// The peer is there, and about to be dialled.
    fn wait_if_never_up(&self) {
        if !self.has_been_up.get() {
            self.state.set(LinkState::Connecting);
        }
    }

    /// After how long a read is slow at this peer, going by the reads before.
    pub fn hedge_delay(&self) -> Duration {
        self.reads.get().slow_after()
    }

    /// How far the peer's wall clock is ahead of our monotonic one, in
    /// milliseconds; [`None`] before the first handshake.
    pub fn ahead_of_monotonic_ms(&self) -> Option<i64> {
        self.ahead_of_monotonic_ms.get()
    }

    /// How far the peer's clock is ahead of ours, in milliseconds, given how
    /// far our wall clock is ahead of our monotonic one; [`None`] before the
    /// first handshake.
    pub(super) fn drift_ms(&self, own_ahead_ms: i64) -> Option<i64> {
        let ahead_ms = self.ahead_of_monotonic_ms.get()?;
        Some(ahead_ms.saturating_sub(own_ahead_ms))
    }

    /// What is known of the link.
    pub fn status(&self) -> LinkStatus {
        LinkStatus {
            state: self.state.get(),
            in_flight: self.calls.borrow().len(),
            standing: self.standing.get(),
            drift_ms: self.drift_ms(own_ahead_ms(&*self.environment.clock)),
            read_latency: self.reads.get().mean(),
            write_latency: self.writes.get().mean(),
            counts: self.counts.get(),
        }
    }

    /// Keeps the link up, for as long as the runtime lives.
    pub async fn run_forever(self: Rc<Self>) {
        let mut backoff = Backoff::new();
        let patient_until = self.environment.clock.monotonic() + START_PATIENCE;
        loop {
            let mut longest = BACKOFF_MAX;
            let connected = tokio::time::timeout(CONNECT_MAX, self.connect()).await;
            match connected.unwrap_or(Err(ConnectError::Late)) {
                Ok((connection, negotiated)) => {
                    let up_since = self.environment.clock.monotonic();
                    self.talk(connection, negotiated).await;
                    let up_for = self.environment.clock.monotonic().saturating_sub(up_since);
                    // One that is lost again and again is as good as down.
                    if up_for >= BACKOFF_MAX {
                        backoff.reset();
                    }
                    self.leave();
                }
                Err(error) => {
                    let may_be_starting = matches!(error, ConnectError::Dial(_))
                        && self.ahead_of_monotonic_ms.get().is_none()
                        && self.environment.clock.monotonic() < patient_until;
                    if !may_be_starting {
                        self.complain("a peer cannot be reached", &error.to_string());
                    }
                    self.leave();
                    if error.may_pass() {
                        // It is there, and has yet to say what it knows.
                        self.wait_if_never_up();
                        longest = health::HEARTBEAT;
                    } else {
                        self.environment.policy.unreachable(&self.name);
                    }
                }
            }
            if self.is_redial_due.take() {
                self.peer_has_dialled();
            }
            let wait = backoff.next(&*self.environment.random).min(longest);
            tokio::select! {
                biased;
                () = self.redial.notified() => {
                    backoff.reset();
                    self.wait_if_never_up();
                }
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn connect(&self) -> Result<(Connection, NegotiatedProtocol), ConnectError> {
        let dialling = self.transport.dial(&self.url);
        let mut stream = dialling.await.map_err(ConnectError::Dial)?;
        let mut decoder = Decoder::new(&[], HANDSHAKE_BYTES_MAX);
        let environment = &self.environment;
        let Session {
            other,
            negotiated,
            start,
        } = handshake::dial(&mut *stream, &mut decoder, environment, &self.name).await?;
        if self.ahead_of_monotonic_ms.get().is_none() {
            // Near enough until the first heartbeat tells better.
            let now = environment.clock.monotonic();
            let ahead_ms = health::ahead_ms(other.unix_ms, now, Duration::ZERO);
            self.ahead_of_monotonic_ms.set(ahead_ms);
        }
        self.standing.set(Some(other.standing));
        decoder.allow(PAYLOAD_BYTES_MAX);
        let connection = Connection {
            stream,
            decoder,
            start,
        };
        Ok((connection, negotiated))
    }

    /// Sends requests and takes answers until the connection ends.
    async fn talk(&self, connection: Connection, negotiated: NegotiatedProtocol) {
        let clock = &*self.environment.clock;
        let log_limiter = &self.environment.log_limiter;
        if log_limiter.settle(Direction::Outgoing, &self.name) {
            tracing::info!(name = self.name, "the peer is reached again");
        }
        self.is_redial_due.set(false);
        // Who has nudged so far has what it wanted.
        pin!(self.redial.notified()).enable();
        self.has_been_up.set(true);
        self.state.set(LinkState::Up);
        self.count(|counts| counts.connects += 1);
        self.calls.borrow_mut().begin_all(clock.monotonic());
        let mut conversation = DiallerSide::new(self, negotiated, connection.start.clone());
        let end = connection.run(clock, &mut conversation).await;
        self.complain("a peer's connection has ended", &end.to_string());
    }

    /// Logs what is wrong, unless it was wrong before.
    fn complain(&self, what: &str, complaint: &str) {
        let PeerEnvironment {
            clock, log_limiter, ..
        } = &self.environment;
        let (name, now) = (self.name.as_str(), clock.monotonic());
        if log_limiter.should_log(Direction::Outgoing, Some(name), complaint, now) {
            tracing::warn!(name, complaint, "{what}");
        }
    }

    /// There is no connection any more: what was asked is lost.
    fn leave(&self) {
        self.state.set(LinkState::Down);
        self.standing.set(None);
        self.outgoing.clear();
        let lost = self.calls.borrow_mut().take_all();
        self.end(&lost, Miss::Refused);
    }

    /// The peer is silent: nobody waits for it any more.
    pub(super) fn suspect(&self) {
        if self.state.replace(LinkState::Suspected) == LinkState::Suspected {
            return;
        }
        tracing::warn!(name = self.name, "a peer is silent: it is not waited for");
        self.count(|counts| counts.suspicions += 1);
        self.outgoing.clear_waiting();
        let left = self.calls.borrow_mut().take_all();
        self.end(&left, Miss::Suspected);
    }

    /// The peer has said something: it is trusted, again or still.
    pub(super) fn trust(&self) {
        if self.state.replace(LinkState::Up) == LinkState::Suspected {
            tracing::info!(name = self.name, "a peer that was silent answers again");
        }
    }

    /// The peer durably remembers this node.
    pub(super) fn remembered(&self) {
        self.environment.policy.remembered_by(&self.name);
    }

    /// Whether the peer is silent.
    pub(super) fn is_suspected(&self) -> bool {
        self.state.get() == LinkState::Suspected
    }

    /// What the call of this number asked for, if it still waits.
    pub(super) fn kind_of(&self, call: u64) -> Option<CallKind> {
        self.calls.borrow().get(call).map(|call| call.kind)
    }

    /// Hands over an answer of the peer. Nobody may wait for it any more.
    pub(super) fn answer(&self, call: u64, answer: PeerAnswer, now: Duration) {
        let Some(call) = self.calls.borrow_mut().remove(call) else {
            return;
        };
        self.stop(&call);
        let latency = match (&answer, call.kind) {
            // What is refused comes soon, and a long value late: neither says
            // how long to wait for an answer.
            (PeerAnswer::Missed(_), _) => None,
            (PeerAnswer::Found(Some(entry)), _) if message::is_long(entry) => None,
            (_, CallKind::Read) => Some(&self.reads),
            (_, CallKind::Write) => Some(&self.writes),
        };
        if let Some(latency) = latency {
            let mut estimate = latency.get();
            estimate.sample(now.saturating_sub(call.began));
            latency.set(estimate);
        }
        self.count(|counts| counts.answered += 1);
        self.answers.answer(call.ticket, answer);
    }

    /// Ends calls that no answer of the peer will come to. What is answered
    /// may call again, so nothing is borrowed.
    fn end(&self, calls: &[Call], miss: Miss) {
        let ended = calls.len() as u64;
        self.count(|counts| match miss {
            Miss::Timeout | Miss::Suspected => counts.timeouts += ended,
            _ => counts.lost += ended,
        });
        for call in calls {
            self.stop(call);
            self.answers.answer(call.ticket, PeerAnswer::Missed(miss));
        }
    }

    /// A call waits no more.
    fn stop(&self, call: &Call) {
        call.stopwatch.stop(match call.kind {
            CallKind::Read => &self.read_wait_site,
            CallKind::Write => &self.write_wait_site,
        });
    }

    fn count(&self, change: impl FnOnce(&mut LinkCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }
}
