//! The connection of one runtime to one peer: requests go out, answers come back.
//!
//! A link connects before there is a request for it, and connects again whenever
//! the connection is lost, until the peer leaves the cluster ([`Link::run`], in
//! `upkeep`). What happens to a call depends on the [`LinkState`]:
//!
//! ```text
//!     connecting --- handshake ---> up -- silent ---> suspected
//!      |      ^                    ^ |^--- heard ---------|
//!      |      |          handshake | | lost               | silent for long, or
//!      |      | peer dials         | v                    v peer dials
//!      |      '------------------- down <-----------------'
//!      '----------- failed ------> dials again, with backoff or when the peer dials
//! ```
//!
//! - **A link that has never been up**: calls wait for it, within their
//!   deadlines, because the nodes of a cluster are started one after another.
//!   A node that has just joined may even be out of reach for a while
//!   ([`Link::wait_for_joiner`]), because it starts as a member then.
//! - **A link that has been up**: when the peer is suspected or the link is down,
//!   calls in flight end at once, and so do new calls. The link stays down until
//!   the peer is heard of again, because a network that is cut looks like a peer
//!   that is slow to answer.
//! - **The peer dials any runtime of this node** ([`Link::note_peer_dial`]), as
//!   after its restart: the link dials at once, and calls wait for that. If the link
//!   has been up, they wait no longer than for a peer that falls silent: the
//!   network may have been cut since.
//!
//! `upkeep` dials and dials again, `dialler_side` is the connection, `calls` what waits for
//! answers; `failure_detector`, `latency` and `clock_offset` judge the peer, and `status` is what
//! others see.

mod calls;
pub(crate) mod clock_offset;
mod dialler_side;
pub(crate) mod failure_detector;
mod latency;
mod status;
mod upkeep;

use crate::connection::outgoing::{LongMessage, LongMessageKind, Outgoing};
use crate::wire::contact::Contact;
use crate::wire::message;
use crate::{
    CALLS_MAX, GC_THRESHOLD, LinkProblem, MANY, NegotiatedProtocol, PeerAnswer, PeerEnvironment,
    PeerRequest, SAME, TRACES, Transport,
};
use base::{Entry, TraceId};
use calls::{Call, CallKind, Calls};
use clock_offset::own_ahead_ms;
use cluster::{Miss, NodeUrl, ReplicaState};
use failure_detector::SUSPECT_AFTER;
use latency::Latency;
use profile::WaitSite;
use status::LinkCounts;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

pub use status::{LinkState, LinkStatus};
#[cfg(test)]
pub(super) use upkeep::{BACKOFF_MAX, START_PATIENCE};

/// How long a node that has joined may take until it serves as a member.
const JOINS_WITHIN: Duration = Duration::from_secs(3);

/// Receives the answers of a link.
pub trait AnswerHandler {
    /// Takes the answer to the call with this ticket. Each accepted call gets
    /// exactly one answer. The handler may make calls itself.
    fn answer(&self, ticket: u64, answer: PeerAnswer);
}

/// The connection of one runtime to one peer.
pub struct Link {
    name: String,
    url: NodeUrl,
    transport: Arc<dyn Transport>,
    environment: PeerEnvironment,
    answers: Rc<dyn AnswerHandler>,
    state: Cell<LinkState>,
    /// Whether it has been up.
    has_been_up: Cell<bool>,
    /// Since when there is no connection, on the monotonic clock; `None` while there is
    /// one.
    down_since: Cell<Option<Duration>>,
    /// Why the last attempt to connect has failed, if one of the two nodes has said so, or TLS
    /// shows it.
    problem: RefCell<Option<LinkProblem>>,
    /// Since when there is one; `None` while there is none.
    up_since: Cell<Option<Duration>>,
    /// Until when calls wait for a link that has been up.
    calls_wait_until: Cell<Instant>,
    /// Until when calls wait for a link that has never been up, although the peer cannot be reached.
    joins_until: Cell<Option<Instant>>,
    calls: RefCell<Calls>,
    outgoing: Outgoing,
    read_latency: Cell<Latency>,
    write_latency: Cell<Latency>,
    /// How far the peer's wall clock is ahead of this node's monotonic clock; see
    /// `clock_offset`.
    ahead_of_monotonic_ms: Cell<Option<i64>>,
    /// How the peer's store stands, as the peer says; `None` while there is no
    /// connection.
    replica_state: Cell<Option<ReplicaState>>,
    /// How the peer deals with this node, as the peer says; `None` while there is no
    /// connection.
    contact: Cell<Option<Contact>>,
    /// The seed of hashes of values on this connection.
    seed: Cell<u64>,
    /// What the two sides of the connection have negotiated; `None` while there is none.
    negotiated: Cell<Option<NegotiatedProtocol>>,
    counts: Cell<LinkCounts>,
    read_wait_site: WaitSite,
    write_wait_site: WaitSite,
    repair_wait_site: WaitSite,
    scan_wait_site: WaitSite,
    examine_wait_site: WaitSite,
    backup_wait_site: WaitSite,
    list_wait_site: WaitSite,
    promise_wait_site: WaitSite,
    accept_wait_site: WaitSite,
    /// Notified to dial at once.
    redial: Notify,
    /// Whether the present connection is to be closed and the peer dialled again.
    is_redial_due: Cell<bool>,
    /// Notified when the peer has left the cluster.
    closed: Notify,
    is_closed: Cell<bool>,
    /// Whether the present connection was closed because the peer's store was rebuilt.
    is_peer_filled: Cell<bool>,
}

impl Link {
    /// A link to the node `name` at `url`, which passes answers to `answers`. It
    /// connects once [`Link::run`] runs; until then, calls wait.
    pub fn new(
        name: String,
        url: NodeUrl,
        transport: Arc<dyn Transport>,
        environment: PeerEnvironment,
        answers: Rc<dyn AnswerHandler>,
    ) -> Rc<Self> {
        let now = environment.clock.monotonic();
        Rc::new(Self {
            read_wait_site: calls::wait_site(&name, "read"),
            write_wait_site: calls::wait_site(&name, "write"),
            repair_wait_site: calls::wait_site(&name, "repair"),
            scan_wait_site: calls::wait_site(&name, "scan"),
            examine_wait_site: calls::wait_site(&name, "examine"),
            backup_wait_site: calls::wait_site(&name, "backup"),
            list_wait_site: calls::wait_site(&name, "list"),
            promise_wait_site: calls::wait_site(&name, "promise"),
            accept_wait_site: calls::wait_site(&name, "accept"),
            name,
            url,
            transport,
            environment,
            answers,
            state: Cell::new(LinkState::Connecting),
            has_been_up: Cell::new(false),
            down_since: Cell::new(Some(now)),
            problem: RefCell::default(),
            up_since: Cell::new(None),
            calls_wait_until: Cell::new(Instant::now()),
            joins_until: Cell::default(),
            calls: RefCell::default(),
            outgoing: Outgoing::default(),
            read_latency: Cell::default(),
            write_latency: Cell::default(),
            ahead_of_monotonic_ms: Cell::new(None),
            replica_state: Cell::new(None),
            contact: Cell::new(None),
            seed: Cell::new(0),
            negotiated: Cell::new(None),
            counts: Cell::default(),
            redial: Notify::new(),
            closed: Notify::new(),
            is_closed: Cell::new(false),
            is_redial_due: Cell::new(false),
            is_peer_filled: Cell::new(false),
        })
    }

    /// Has calls wait for a peer that has just joined: it starts as a member now.
    pub fn wait_for_joiner(&self) {
        self.joins_until.set(Some(Instant::now() + JOINS_WITHIN));
    }

    /// Whether calls wait for it although it cannot be reached yet.
    fn is_joining(&self) -> bool {
        let joins_until = self.joins_until.get();
        !self.has_been_up.get() && joins_until.is_some_and(|until| Instant::now() < until)
    }

    /// The name of the peer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the peer is.
    pub fn url(&self) -> &NodeUrl {
        &self.url
    }

    /// Sends a request to the peer; `deadline` is on the monotonic clock. The
    /// answer comes with `ticket`, and never before this method returns.
    ///
    /// # Errors
    /// Why the request is not sent; then no answer comes.
    pub fn call(&self, request: PeerRequest, deadline: Duration, ticket: u64) -> Result<(), Miss> {
        self.call_in_trace(request, deadline, ticket, None)
    }

    /// The same, for a request that is part of a trace. The trace is not sent to a peer of an
    /// older release, nor to one to which there is no connection yet.
    ///
    /// # Errors
    /// As [`Link::call`].
    pub fn call_in_trace(
        &self,
        request: PeerRequest,
        deadline: Duration,
        ticket: u64,
        trace: Option<TraceId>,
    ) -> Result<(), Miss> {
        if let Some(why) = self.down_reason() {
            return Err(why);
        }
        let now = self.environment.clock.monotonic();
        if deadline <= now {
            return Err(Miss::Timeout);
        }
        if !self.has(request.features()) {
            // What the peer knows is known once there is a connection.
            let is_told = matches!(
                request,
                PeerRequest::Page(_)
                    | PeerRequest::Examine
                    | PeerRequest::Backup(_)
                    | PeerRequest::List(_)
                    | PeerRequest::Promise(_)
                    | PeerRequest::Accept { .. }
            );
            return Err(match self.negotiated.get() {
                Some(_) if is_told => Miss::Unsupported,
                _ => Miss::Refused,
            });
        }
        let request = match request {
            PeerRequest::Repair { entry, .. } if !self.has(GC_THRESHOLD) => {
                PeerRequest::Write(entry)
            }
            PeerRequest::ReadUnlessSame { key, .. } if !self.has(SAME) => PeerRequest::Read(key),
            request => request,
        };
        let (kind, has_room) = match &request {
            PeerRequest::Write(entry) | PeerRequest::Repair { entry, .. } => {
                (CallKind::Write, self.outgoing.has_room_for(entry))
            }
            PeerRequest::Read(key) => (CallKind::Read, self.outgoing.has_room_for_key(key)),
            PeerRequest::ReadUnlessSame { .. } => {
                (CallKind::Read, self.outgoing.has_room_for_frame())
            }
            PeerRequest::RepairWrite { entry, .. } => {
                (CallKind::Repair, self.outgoing.has_room_for(entry))
            }
            PeerRequest::Session(_) => (CallKind::Repair, self.outgoing.has_room_for_frame()),
            PeerRequest::Page(_) => (CallKind::Page, self.outgoing.has_room_for_frame()),
            PeerRequest::Examine => (CallKind::Examine, self.outgoing.has_room_for_frame()),
            PeerRequest::Backup(_) => (CallKind::Backup, self.outgoing.has_room_for_frame()),
            PeerRequest::List(_) => (CallKind::List, self.outgoing.has_room_for_frame()),
            PeerRequest::Promise(_) => (CallKind::Promise, self.outgoing.has_room_for_frame()),
            PeerRequest::Accept { entry, .. } => {
                (CallKind::Accept, self.outgoing.has_room_for(entry))
            }
        };
        let mut calls = self.calls.borrow_mut();
        if calls.len() == CALLS_MAX || !has_room {
            self.count(|counts| counts.overloaded += 1);
            return Err(Miss::Overloaded);
        }
        let held = match &request {
            PeerRequest::ReadUnlessSame { held, .. } => Some(held.clone()),
            _ => None,
        };
        let call = calls.insert(ticket, (kind, held), deadline, now);
        drop(calls);
        self.count(|counts| counts.calls += 1);
        let remaining = deadline.saturating_sub(now);
        let trace = trace.filter(|_| self.has(TRACES));
        if let Some(trace) = trace
            && !request.is_long()
        {
            self.outgoing
                .push(|out| message::put_trace(out, call, trace));
        }
        match request {
            PeerRequest::Write(entry) if message::is_long(&entry) => {
                self.outgoing.push_long(LongMessage {
                    kind: LongMessageKind::Write,
                    call,
                    deadline,
                    entry,
                    trace,
                    _reservation: None,
                });
            }
            PeerRequest::Write(entry) if self.has(MANY) => {
                self.outgoing.push_write(call, remaining, &entry);
            }
            PeerRequest::Write(entry) => {
                let put = |out: &mut Vec<u8>| message::put_write(out, call, remaining, &entry);
                self.outgoing.push(put);
            }
            PeerRequest::Repair {
                gc_threshold,
                entry,
            } if message::is_long(&entry) => {
                self.outgoing.push_long(LongMessage {
                    kind: LongMessageKind::Repair(gc_threshold),
                    call,
                    deadline,
                    entry,
                    trace,
                    _reservation: None,
                });
            }
            PeerRequest::Repair {
                gc_threshold,
                entry,
            } => {
                let put = |out: &mut Vec<u8>| {
                    message::put_repair(out, call, remaining, gc_threshold, &entry);
                };
                self.outgoing.push(put);
            }
            PeerRequest::Read(key) => {
                let put = |out: &mut Vec<u8>| message::put_read(out, call, remaining, &key);
                self.outgoing.push(put);
            }
            PeerRequest::ReadUnlessSame { held, .. } => self.outgoing.push(|out| {
                let seed = self.seed.get();
                message::put_read_unless_same(out, call, remaining, &held, seed);
            }),
            PeerRequest::RepairWrite { session, entry } if message::is_long(&entry) => {
                let bytes = entry.data_bytes() as u64;
                self.count(|counts| counts.repair_sent_bytes += bytes);
                self.outgoing.push_long(LongMessage {
                    kind: LongMessageKind::RepairWrite(session),
                    call,
                    deadline,
                    entry,
                    trace,
                    _reservation: None,
                });
            }
            PeerRequest::RepairWrite { session, entry } => {
                self.push_for_repair(|out| {
                    message::put_repair_write(out, call, remaining, session, &entry);
                });
            }
            PeerRequest::Session(request) => {
                self.push_for_repair(|out| message::put_session(out, call, remaining, &request));
            }
            PeerRequest::Page(request) => {
                let put = |out: &mut Vec<u8>| message::put_page(out, call, remaining, &request);
                self.outgoing.push(put);
            }
            PeerRequest::Examine => {
                self.outgoing
                    .push(|out| message::put_examine(out, call, remaining));
            }
            PeerRequest::Backup(request) => {
                let put = |out: &mut Vec<u8>| message::put_backup(out, call, remaining, &request);
                self.outgoing.push(put);
            }
            PeerRequest::List(request) => {
                let put = |out: &mut Vec<u8>| message::put_list(out, call, remaining, &request);
                self.outgoing.push(put);
            }
            PeerRequest::Promise(request) => {
                let put = |out: &mut Vec<u8>| message::put_promise(out, call, remaining, &request);
                self.outgoing.push(put);
            }
            PeerRequest::Accept { ballot, entry } if message::is_long(&entry) => {
                self.outgoing.push_long(LongMessage {
                    kind: LongMessageKind::Accept(ballot),
                    call,
                    deadline,
                    entry,
                    trace,
                    _reservation: None,
                });
            }
            PeerRequest::Accept { ballot, entry } => {
                let put =
                    |out: &mut Vec<u8>| message::put_accept(out, call, remaining, ballot, &entry);
                self.outgoing.push(put);
            }
        }
        Ok(())
    }

    /// Sends a frame of a repair session, and counts its bytes.
    fn push_for_repair(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        self.outgoing.push(|out| {
            let before = out.len();
            encode(out);
            let bytes = (out.len() - before) as u64;
            self.count(|counts| counts.repair_sent_bytes += bytes);
        });
    }

    /// Whether the features are none, or there is a connection on which both sides have
    /// them.
    fn has(&self, features: u64) -> bool {
        let negotiated = self.negotiated.get();
        features == 0 || negotiated.is_some_and(|negotiated| negotiated.has(features))
    }

    /// Whether the peer is known not to have one of these features.
    pub fn lacks(&self, features: u64) -> bool {
        let negotiated = self.negotiated.get();
        negotiated.is_some_and(|negotiated| !negotiated.has(features))
    }

    /// Whether a call would fail at once.
    pub fn is_down(&self) -> bool {
        self.down_reason().is_some()
    }

    /// The reason for which a call would fail at once: the peer is suspected, or could not be
    /// reached. `None` if a call would be sent.
    pub fn down_reason(&self) -> Option<Miss> {
        match self.state.get() {
            LinkState::Connecting | LinkState::Up => None,
            LinkState::Suspected => Some(Miss::Suspected),
            LinkState::Down => Some(Miss::Refused),
        }
    }

    /// Ends the calls whose deadline is not after `now`, on the monotonic clock.
    /// The runtime calls this from time to time.
    pub fn expire(&self, now: Duration) {
        let expired = self.calls.borrow_mut().remove_expired(now);
        self.end(&expired, Miss::Timeout);
    }

    /// Notes that the peer has dialled this node, so it can be reached. If the
    /// link is not up, it dials at once, and calls wait for that.
    pub fn note_peer_dial(&self) {
        match self.state.get() {
            _ if self.is_closed.get() => {}
            LinkState::Up => {}
            LinkState::Suspected => {
                self.is_redial_due.set(true);
                self.outgoing.wake();
            }
            // While connecting too: that attempt may have been too early.
            LinkState::Connecting | LinkState::Down => {
                self.let_calls_wait();
                self.redial.notify_one();
            }
        }
    }

    /// Lets calls wait for the next handshake, because the peer has just shown that it is
    /// up.
    fn let_calls_wait(&self) {
        self.calls_wait_until.set(Instant::now() + SUSPECT_AFTER);
        self.state.set(LinkState::Connecting);
    }

    /// After how long a read at this peer is slow, judged by earlier reads.
    pub fn hedge_delay(&self) -> Duration {
        self.read_latency.get().slow_after()
    }

    /// How far the peer's wall clock is ahead of this node's monotonic clock, in
    /// milliseconds; `None` before the first handshake.
    pub fn ahead_of_monotonic_ms(&self) -> Option<i64> {
        self.ahead_of_monotonic_ms.get()
    }

    /// How far the peer's wall clock is ahead of this node's, in milliseconds,
    /// given how far this node's wall clock is ahead of its monotonic clock;
    /// `None` before the first handshake.
    pub(super) fn drift_ms(&self, own_ahead_ms: i64) -> Option<i64> {
        let ahead_ms = self.ahead_of_monotonic_ms.get()?;
        Some(ahead_ms.saturating_sub(own_ahead_ms))
    }

    /// What is known of the link.
    pub fn status(&self) -> LinkStatus {
        let now = self.environment.clock.monotonic();
        LinkStatus {
            state: self.state.get(),
            down_for: self.down_since.get().map(|since| now.saturating_sub(since)),
            up_for: self.up_since.get().map(|since| now.saturating_sub(since)),
            problem: self.problem.borrow().clone(),
            contact: self.contact.get(),
            in_flight: self.calls.borrow().len(),
            replica_state: self.replica_state.get(),
            drift_ms: self.drift_ms(own_ahead_ms(&*self.environment.clock)),
            read_latency: self.read_latency.get().mean(),
            write_latency: self.write_latency.get().mean(),
            counts: self.counts.get(),
        }
    }

    /// Suspects the peer, because it is silent: ends the calls that wait for it.
    fn suspect(&self) {
        if self.state.replace(LinkState::Suspected) == LinkState::Suspected {
            return;
        }
        tracing::warn!(
            name = self.name,
            "a peer is suspected: it is silent, so no request waits for it"
        );
        self.count(|counts| counts.suspicions += 1);
        self.outgoing.clear_waiting();
        let waiting = self.calls.borrow_mut().remove_all();
        self.end(&waiting, Miss::Suspected);
    }

    /// Notes that the peer has sent something, so it is not suspected any more.
    fn trust(&self) {
        if self.state.replace(LinkState::Up) == LinkState::Suspected {
            tracing::info!(name = self.name, "a suspected peer answers again");
        }
    }

    /// Reports that the peer durably remembers this node.
    fn report_remembered(&self) {
        self.environment.policy.remembered_by(&self.name);
    }

    fn is_suspected(&self) -> bool {
        self.state.get() == LinkState::Suspected
    }

    /// The version that the read with this number holds, if it still waits.
    fn held_by(&self, call: u64) -> Option<Entry> {
        self.calls.borrow().get(call)?.held.clone()
    }

    /// What the call with this number asks for, if it still waits.
    fn kind_of(&self, call: u64) -> Option<CallKind> {
        self.calls.borrow().get(call).map(|call| call.kind)
    }

    /// Delivers an answer of the peer, unless its call does not wait any more.
    fn answer(&self, call: u64, answer: PeerAnswer, now: Duration) {
        let Some(call) = self.calls.borrow_mut().remove(call) else {
            return;
        };
        self.stop_waiting(&call);
        let latency = match (&answer, call.kind) {
            // A refusal comes early and a long value comes late, so neither says
            // how long to wait for an answer.
            (PeerAnswer::Missed(_), _) => None,
            (
                PeerAnswer::Found(Some(entry))
                | PeerAnswer::FoundBehind {
                    entry: Some(entry), ..
                },
                _,
            ) if message::is_long(entry) => None,
            // A request of a repair session takes as long as the session makes it, and a promise may
            // take a read and a sync.
            (
                _,
                CallKind::Repair
                | CallKind::Page
                | CallKind::Examine
                | CallKind::Backup
                | CallKind::List
                | CallKind::Promise
                | CallKind::Accept,
            ) => None,
            (_, CallKind::Read) => Some(&self.read_latency),
            (_, CallKind::Write) => Some(&self.write_latency),
        };
        if let Some(latency) = latency {
            let mut estimate = latency.get();
            estimate.sample(now.saturating_sub(call.began));
            latency.set(estimate);
        }
        self.count(|counts| counts.answered += 1);
        self.answers.answer(call.ticket, answer);
    }

    /// Ends calls that the peer will not answer. The handler may call again, so
    /// nothing may be borrowed here.
    fn end(&self, calls: &[Call], miss: Miss) {
        let ended = calls.len() as u64;
        self.count(|counts| match miss {
            Miss::Timeout | Miss::Suspected => counts.timeouts += ended,
            _ => counts.lost += ended,
        });
        for call in calls {
            self.stop_waiting(call);
            self.answers.answer(call.ticket, PeerAnswer::Missed(miss));
        }
    }

    /// Reports how long a call has waited.
    fn stop_waiting(&self, call: &Call) {
        call.stopwatch.stop(match call.kind {
            CallKind::Read => &self.read_wait_site,
            CallKind::Write => &self.write_wait_site,
            CallKind::Repair => &self.repair_wait_site,
            CallKind::Page => &self.scan_wait_site,
            CallKind::Examine => &self.examine_wait_site,
            CallKind::Backup => &self.backup_wait_site,
            CallKind::List => &self.list_wait_site,
            CallKind::Promise => &self.promise_wait_site,
            CallKind::Accept => &self.accept_wait_site,
        });
    }

    fn count(&self, change: impl FnOnce(&mut LinkCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }
}
