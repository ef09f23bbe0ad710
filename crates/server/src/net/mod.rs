//! Connections of one runtime: how bytes come and go, and which connections are served.
//!
//! A [`Listener`] has the connections of a runtime, the worker that answers for the store, and
//! what bounds both: its own part of the `admission`, and in [`ListenerShared`] what all
//! runtimes share. Those bounds are separate, so that clients that stall at one of them
//! block no client at another.
//!
//! - [`ConnectionSlots`](connection_slots::ConnectionSlots): open connections.
//! - `channel` moves the bytes of a connection over a `wire`, plain or encrypted by `tls`.
//! - `slow_clients` finds stalled connections; `unsent_answers` bounds the bytes of short answers
//!   whose clients do not read.
//! - `paused_connections` delays the connections of refused requests.
//! - `recorded_steps` is for recordings of spans.

pub(crate) mod channel;
pub(crate) mod connection_slots;
mod counted_since;
pub(crate) mod paused_connections;
mod recorded_steps;
mod shared;
pub(crate) mod slow_clients;
mod start_hold;
pub(crate) mod tls;
pub(crate) mod unsent_answers;
pub(crate) mod wire;

pub(crate) use shared::ListenerShared;

use crate::admission::Uploads;
use crate::admission::batch_streams::BatchStreams;
use crate::admission::page_limiter::PageLimiter;
use crate::admission::wait_sites;
use crate::metrics::ListenerMetrics;
use crate::trust::Trust;
use crate::trust::web_pages::OwnHosts;
use base::{
    Clock, Entry, Expiry, Kind, Permits, Quota, Refused, Reservation, overdue_check_period,
};
use channel::Buffers;
use node::Worker;
use paused_connections::PausedConnections;
use peer::Transport;
use slab::Slab;
use slow_clients::{ConnectionProgress, SlowClientTimeouts};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tls::{Entered, TlsQuotas};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;
use unsent_answers::unsent_answers;
use wire::Wire;

/// The listener of one runtime, and the worker behind it. No other thread uses any of it,
/// except what is behind [`ListenerShared`].
pub(crate) struct Listener {
    shared: Arc<ListenerShared>,
    /// Answers for the store.
    pub(crate) worker: Rc<Worker>,
    /// The names by which clients may address the node.
    pub(crate) own_hosts: OwnHosts,
    /// Admits requests.
    pub(crate) permits: Rc<Permits>,
    /// Limits the time spent on pages.
    pub(crate) page_limiter: PageLimiter,
    /// The connections of requests that were refused.
    pub(crate) paused_connections: Rc<PausedConnections>,
    /// The counters of this listener.
    pub(crate) metrics: Arc<ListenerMetrics>,
    /// The monotonic time of the last check for what is overdue: cheap to read, and
    /// late by at most the period of the checks.
    pub(crate) now: Rc<Cell<Duration>>,
    /// The buffers that all connections share.
    pub(crate) buffers: Rc<Buffers>,
    connections: RefCell<Slab<Rc<ConnectionProgress>>>,
    /// What the TLS connections share.
    tls_quotas: TlsQuotas,
    /// Notified when the last connection has ended.
    emptied: Notify,
    stage: Cell<Stage>,
}

/// How far the node has come with stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// It serves.
    Serving,
    /// It stops, and still reads the requests that arrive: each connection ends with its next answer.
    LastRequests,
    /// It reads what has arrived, and closes connections without a request.
    Closing,
}

/// How long a node that stops waits for requests that are on their way on idle connections.
/// It covers the way from a client to the node. Nothing tells idle clients that the node
/// stops, so those that are idle for all of it would be so for a longer time as well.
pub(crate) const LAST_REQUESTS: Duration = Duration::from_millis(100);

/// A connection's entry in the list of its listener, removed when this is dropped.
pub(crate) struct Registered {
    listener: Rc<Listener>,
    number: usize,
}

impl Listener {
    /// The listener of runtime `number`, whose worker reaches its peers over `transport`.
    pub(crate) fn new(
        shared: Arc<ListenerShared>,
        number: usize,
        transport: &Arc<dyn Transport>,
    ) -> Rc<Self> {
        let config = shared.config();
        let worker = Worker::new(Arc::clone(&shared.node), number, transport);
        let in_flight_max = config.requests_in_flight_max.div_ceil(config.threads);
        let queued_max = config.requests_queued_max.div_ceil(config.threads);
        Rc::new(Self {
            own_hosts: OwnHosts::new(config),
            permits: Permits::with_queue(in_flight_max, queued_max, &wait_sites::ADMISSION),
            page_limiter: PageLimiter::new(),
            paused_connections: Rc::default(),
            metrics: shared.metrics.of_listener(number),
            now: Rc::new(Cell::new(worker.clock().monotonic())),
            buffers: Rc::new(Buffers::new(
                Arc::clone(&shared.heads),
                unsent_answers(config.memory_split().unsent_bytes / config.threads),
            )),
            connections: RefCell::default(),
            tls_quotas: TlsQuotas::new(config),
            emptied: Notify::new(),
            stage: Cell::new(Stage::Serving),
            worker,
            shared,
        })
    }

    /// Starts the background tasks of a runtime, which last until it ends.
    pub(crate) fn spawn_upkeep(self: &Rc<Self>) {
        self.metrics.attach_to_this_thread();
        self.worker.spawn_upkeep();
        let paused_connections = Rc::clone(&self.paused_connections);
        tokio::task::spawn_local(paused_connections.resume_forever(Rc::clone(&self.permits)));
        tokio::task::spawn_local(Rc::clone(self).end_overdue_forever());
        tokio::task::spawn_local(Rc::clone(self).follow_layout());
    }

    /// Has the listener know the nodes of the layout in force, and what all listeners share.
    async fn follow_layout(self: Rc<Self>) {
        let mut changes = self.shared.node.layout_changes();
        let mut next = Some(changes.load());
        while let Some(layout) = next {
            self.own_hosts.follow(layout.members());
            self.shared.follow(layout.members());
            next = changes.changed().await;
        }
    }

    /// Starts to record the history of the node. One runtime does it for all.
    pub(crate) fn spawn_history(self: &Rc<Self>) {
        let listener = Rc::clone(self);
        tokio::task::spawn_local(async move {
            listener
                .shared
                .history
                .record_forever(listener.clock())
                .await;
        });
    }

    /// What the listeners of all runtimes share.
    pub(crate) fn shared(&self) -> &ListenerShared {
        &self.shared
    }

    /// The clock.
    pub(crate) fn clock(&self) -> &dyn Clock {
        &**self.worker.clock()
    }

    /// The quotas for bodies that are being received, in bytes.
    pub(crate) fn uploads(&self) -> &Uploads {
        &self.shared.uploads
    }

    /// Waits until another scan may be streamed, until `deadline` at most.
    ///
    /// # Errors
    /// [`Refused`] at once if too many scans wait, and later when the deadline has passed.
    pub(crate) async fn admit_scan(&self, deadline: Duration) -> Result<Reservation, Refused> {
        let wait_max = deadline.saturating_sub(self.clock().monotonic());
        let admitted = self.shared.scans.reserve(1, &wait_sites::SCAN);
        tokio::time::timeout(wait_max, admitted)
            .await
            .unwrap_or(Err(Refused))
    }

    /// Quota for the groups of the aggregates of all runtimes, in bytes.
    pub(crate) fn groups(&self) -> &Arc<Quota> {
        &self.shared.groups
    }

    /// Quota for the values that the batches of all runtimes have read, in bytes.
    pub(crate) fn batch_answers(&self) -> &Arc<Quota> {
        &self.shared.batch_answers
    }

    /// Quota for the operations that the batches of all runtimes have read and not answered,
    /// in bytes.
    pub(crate) fn batch_windows(&self) -> &Arc<Quota> {
        &self.shared.batch_windows
    }

    /// The chunked batches of all runtimes.
    pub(crate) fn batch_streams(&self) -> &Arc<BatchStreams> {
        &self.shared.batch_streams
    }

    /// Whether `/debug/profile` is served.
    pub(crate) fn has_debug_endpoints(&self) -> bool {
        self.shared.config().debug_endpoints
    }

    /// Who may do what.
    pub(crate) fn trust(&self) -> &Trust {
        &self.shared.trust
    }

    /// The longest value, in bytes.
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.shared.config().node.value_bytes_max
    }

    /// How long an answer may wait for a client that does not read.
    pub(crate) fn stall_timeout(&self) -> Duration {
        self.shared.config().stall_timeout
    }

    /// The deadline of a request that began at `began`.
    pub(crate) fn deadline_after(&self, began: Duration) -> Duration {
        self.worker.deadline_after(began)
    }

    /// Whether this node considers a version to be a live value. It reads the clock only
    /// for versions that can expire.
    pub(crate) fn is_live(&self, entry: &Entry) -> bool {
        match entry.expiry() {
            Expiry::NEVER => entry.kind() == Kind::Value,
            _ => entry.is_live(self.clock().unix_ms()),
        }
    }

    /// Begins a connection: where the node speaks TLS, with a handshake.
    pub(crate) async fn enter(
        &self,
        stream: TcpStream,
        progress: &Rc<ConnectionProgress>,
    ) -> Entered {
        match &self.shared.tls {
            None => Entered::Wire(Wire::Plain(stream)),
            Some(tls) => {
                let quotas = &self.tls_quotas;
                let entering = tls.enter(stream, progress, quotas, &self.metrics.tls, &self.now);
                // As without TLS, one that comes while the node stops has some time.
                let fresh = self
                    .is_stopping()
                    .then(|| tokio::time::sleep(LAST_REQUESTS));
                let mut fresh = pin!(fresh);
                // A node that stops does not wait for long for the first byte of a client, which
                // may never come, but it completes a handshake, behind which a request follows.
                let is_over = |cx: &mut Context<'_>| {
                    if self.is_closing() && progress.is_idle() {
                        match fresh.as_mut().as_pin_mut() {
                            Some(fresh) => fresh.poll(cx),
                            None => Poll::Ready(()),
                        }
                    } else {
                        Poll::Pending
                    }
                };
                tls::enter_unless_over(entering, is_over).await
            }
        }
    }

    /// Notes that a peer has connected.
    pub(crate) fn remember_peer(&self, client: Option<SocketAddr>) {
        if let (Some(tls), Some(client)) = (&self.shared.tls, client) {
            tls.remember_peer(client.ip());
        }
    }

    /// Adds a connection to the list.
    pub(crate) fn register(self: &Rc<Self>, progress: &Rc<ConnectionProgress>) -> Registered {
        Registered {
            number: self.connections.borrow_mut().insert(Rc::clone(progress)),
            listener: Rc::clone(self),
        }
    }

    /// Whether the node is stopping: a connection then ends with its current request, or
    /// with the next one if it has none.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stage.get() > Stage::Serving
    }

    /// Whether the node closes connections that have no request.
    pub(crate) fn is_closing(&self) -> bool {
        self.stage.get() == Stage::Closing
    }

    /// Has each connection end with its next answer.
    pub(crate) fn begin_to_stop(&self) {
        self.shared.begin_to_stop();
        self.paused_connections.resume_all();
        self.reach(Stage::LastRequests);
    }

    /// Answers the requests that have arrived or are about to, closes the other connections,
    /// and waits until all have ended.
    pub(crate) async fn drain(&self) {
        let last_requests = LAST_REQUESTS.min(self.shared.config().drain_timeout / 2);
        // An end before that is as good.
        if tokio::time::timeout(last_requests, self.empty())
            .await
            .is_err()
        {
            self.reach(Stage::Closing);
            self.empty().await;
        }
    }

    fn reach(&self, stage: Stage) {
        self.stage.set(stage);
        // A copy, because waking a connection may borrow the list.
        for connection in self.all_connections() {
            connection.wake();
        }
    }

    /// Waits until all connections have ended.
    async fn empty(&self) {
        while !self.connections.borrow().is_empty() {
            self.emptied.notified().await;
        }
    }

    /// Ends connections that are too slow and waits for permits that have reached
    /// their deadline, and publishes the gauges of this listener.
    fn end_overdue(&self) {
        let now = self.clock().monotonic();
        self.now.set(now);
        self.permits.expire(now);
        let config = self.shared.config();
        let timeouts = SlowClientTimeouts {
            idle: config.idle_timeout,
            head: config.head_timeout,
            body: config.body_timeout,
            stall: config.stall_timeout,
        };
        for connection in self.all_connections() {
            connection.end_if_overdue(now, timeouts);
        }
        self.metrics.publish(
            self.connections.borrow().len(),
            self.permits.in_flight(),
            self.permits.queued(),
            self.buffers.unsent_answers.used(),
        );
        self.tls_quotas.publish(&self.metrics.tls);
    }

    async fn end_overdue_forever(self: Rc<Self>) {
        let config = self.shared.config();
        let shortest = config
            .node
            .timeout
            .min(config.idle_timeout)
            .min(config.head_timeout)
            .min(config.body_timeout)
            .min(config.stall_timeout);
        let mut ticks = tokio::time::interval(overdue_check_period(shortest));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.end_overdue();
        }
    }

    fn all_connections(&self) -> Vec<Rc<ConnectionProgress>> {
        let connections = self.connections.borrow();
        connections
            .iter()
            .map(|(_, connection)| Rc::clone(connection))
            .collect()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut connections = self.listener.connections.borrow_mut();
        let gone = connections.try_remove(self.number);
        if connections.is_empty() {
            self.listener.emptied.notify_one();
        }
        drop(connections);
        drop(gone);
    }
}
