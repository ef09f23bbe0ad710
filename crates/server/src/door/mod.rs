//! The door of one runtime: who comes in, and what connections may hold.
//!
//! Admission is what a node takes on at a time, decided here:
//! - [`Gate`]: requests in flight and requests that wait for that.
//! - [`Uploads`]: bytes of bodies on their way in, counted as they arrive.
//! - [`Common`]: the budgets of all runtimes, of uploads, of long heads and of
//!   ranges. Each is one of its own, so that clients that stall in one of them
//!   hold up nobody in another; so are the node's, of long answers and of
//!   ranges' batches.
//! - [`Places`](places::Places): connections.
//!
//! A connection has a `channel`, its bytes, and a `progress`, which the sweep
//! looks at; `unsent` bounds short answers that wait for their clients,
//! `refusals` leaves unread for a while whom the gate sent away, `page_turns`
//! has one page made at a time, and `web_pages` tells what pages of other sites
//! send.

pub(crate) mod channel;
mod common;
mod gate;
pub(crate) mod page_turns;
pub(crate) mod places;
pub(crate) mod progress;
pub(crate) mod refusals;
pub(crate) mod unsent;
mod uploads;
pub(crate) mod web_pages;

pub(crate) use common::Common;
pub(crate) use gate::{Entrance, Gate, Place};
pub(crate) use uploads::Uploads;

use crate::metrics::DoorMetrics;
use base::{Budget, Clock};
use channel::Buffers;
use node::{Worker, sweep_period};
use page_turns::PageTurns;
use peer::Transport;
use progress::{Patience, Progress};
use refusals::Refusals;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;
use unsent::Unsent;
use web_pages::OwnHosts;

/// The door of one runtime, and who answers behind it. Nothing in it is shared
/// with other threads, the handles of [`Common`] aside.
pub(crate) struct Door {
    common: Arc<Common>,
    /// Answers for the store.
    pub(crate) worker: Rc<Worker>,
    /// By which names the node is known.
    pub(crate) own_hosts: OwnHosts,
    /// Decides who comes in.
    pub(crate) gate: Rc<Gate>,
    /// Decides whose page is made.
    pub(crate) page_turns: PageTurns,
    /// Those who were not let in.
    pub(crate) refusals: Rc<Refusals>,
    /// What this door counts.
    pub(crate) metrics: Arc<DoorMetrics>,
    /// The monotonic clock as of the last sweep: cheap, and late by at most its period.
    pub(crate) now: Rc<Cell<Duration>>,
    /// The buffers that all connections share.
    pub(crate) buffers: Rc<Buffers>,
    connections: RefCell<Slab<Rc<Progress>>>,
    /// Told when the last connection has ended.
    emptied: Notify,
    is_stopping: Cell<bool>,
}

/// A connection's entry in its runtime's list, until it is dropped.
pub(crate) struct Registered<'a> {
    door: &'a Door,
    number: usize,
}

impl Door {
    /// The door of runtime `number`, whose worker reaches its peers over `transport`.
    pub(crate) fn new(
        common: Arc<Common>,
        number: usize,
        transport: &Arc<dyn Transport>,
    ) -> Rc<Self> {
        let config = common.config();
        let worker = Worker::new(Arc::clone(&common.node), number, transport);
        let in_flight_max = config.requests_in_flight_max.div_ceil(config.threads);
        let queued_max = config.requests_queued_max.div_ceil(config.threads);
        Rc::new(Self {
            own_hosts: OwnHosts::new(config),
            gate: Gate::new(in_flight_max, queued_max),
            page_turns: PageTurns::new(),
            refusals: Rc::default(),
            metrics: common.metrics.of_door(number),
            now: Rc::new(Cell::new(worker.clock().monotonic())),
            buffers: Rc::new(Buffers::new(
                Arc::clone(&common.heads),
                Unsent::new(config.memory_split().unsent_bytes / config.threads),
            )),
            connections: RefCell::default(),
            emptied: Notify::new(),
            is_stopping: Cell::new(false),
            worker,
            common,
        })
    }

    /// Starts what a runtime does beside answering, until it ends.
    pub(crate) fn spawn_upkeep(self: &Rc<Self>) {
        self.worker.spawn_upkeep();
        let refusals = Rc::clone(&self.refusals);
        tokio::task::spawn_local(refusals.let_go_on_forever(Rc::clone(&self.gate)));
        tokio::task::spawn_local(Rc::clone(self).sweep_forever());
    }

    /// What all doors share.
    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    /// The time.
    pub(crate) fn clock(&self) -> &dyn Clock {
        &**self.worker.clock()
    }

    /// The time, to keep.
    pub(crate) fn clock_handle(&self) -> Arc<dyn Clock> {
        Arc::clone(self.worker.clock())
    }

    /// Bytes of bodies on their way in.
    pub(crate) fn uploads(&self) -> &Uploads {
        &self.common.uploads
    }

    /// Ranges on their way.
    pub(crate) fn scans(&self) -> &Arc<Budget> {
        &self.common.scans
    }

    /// Whether `/debug/profile` is served.
    pub(crate) fn has_debug_endpoints(&self) -> bool {
        self.common.config().debug_endpoints
    }

    /// The longest value, in bytes.
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.common.config().node.value_bytes_max
    }

    /// How long an answer may make no progress.
    pub(crate) fn stall_timeout(&self) -> Duration {
        self.common.config().scan_stall_timeout
    }

    /// The deadline of what began at `began`.
    pub(crate) fn deadline_after(&self, began: Duration) -> Duration {
        self.worker.deadline_after(began)
    }

    /// Enters a connection into the list.
    pub(crate) fn register(&self, progress: &Rc<Progress>) -> Registered<'_> {
        Registered {
            number: self.connections.borrow_mut().insert(Rc::clone(progress)),
            door: self,
        }
    }

    /// Whether the node stops: connections end when their requests do.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.get()
    }

    /// Lets connections end when their requests do, and waits for the last.
    pub(crate) async fn drain(&self) {
        self.is_stopping.set(true);
        self.refusals.let_all_go_on();
        // Copied: waking a connection must find the list free.
        for connection in self.all_connections() {
            connection.wake();
        }
        while !self.connections.borrow().is_empty() {
            self.emptied.notified().await;
        }
    }

    /// Ends the connections and the waits at the gate that have lasted too
    /// long, and publishes what the gate counts.
    fn sweep(&self) {
        let now = self.clock().monotonic();
        self.now.set(now);
        self.gate.expire(now);
        let config = self.common.config();
        let patience = Patience {
            idle: config.idle_timeout,
            head: config.head_timeout,
            body: config.body_timeout,
            stall: config.scan_stall_timeout,
        };
        for connection in self.all_connections() {
            connection.sweep(now, patience);
        }
        self.metrics.publish(
            self.connections.borrow().len(),
            self.gate.in_flight(),
            self.gate.queued(),
            self.buffers.unsent.bytes(),
        );
    }

    async fn sweep_forever(self: Rc<Self>) {
        let config = self.common.config();
        let shortest = config
            .node
            .timeout
            .min(config.idle_timeout)
            .min(config.head_timeout)
            .min(config.body_timeout)
            .min(config.scan_stall_timeout);
        let mut ticks = tokio::time::interval(sweep_period(shortest));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.sweep();
        }
    }

    fn all_connections(&self) -> Vec<Rc<Progress>> {
        let connections = self.connections.borrow();
        connections
            .iter()
            .map(|(_, connection)| Rc::clone(connection))
            .collect()
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut connections = self.door.connections.borrow_mut();
        let gone = connections.try_remove(self.number);
        if connections.is_empty() {
            self.door.emptied.notify_one();
        }
        drop(connections);
        drop(gone);
    }
}
