//! What requests work with: [`Shared`] belongs to the node, [`Context`] to one
//! of its runtimes.

use crate::admission::{Budget, Gate, Uploads};
use crate::config::NodeConfig;
use crate::coordinator::{Coordinator, Reading};
use crate::http::ReplicaRules;
use crate::http::connection::{Patience, Progress, SCRATCH_BYTES};
use crate::metrics::{Metrics, RuntimeMetrics};
use crate::outbox::Waiters;
use crate::read_pool::ReadPool;
use crate::stamping::Stamping;
use lsm::{Clock, Engine};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// What all runtimes of a node share.
pub(crate) struct Shared {
    /// The node's configuration.
    pub(crate) config: NodeConfig,
    /// The node's URL, with the port that it really has.
    pub(crate) url: Arc<str>,
    /// The store.
    pub(crate) engine: Engine,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// When the node started, on the monotonic clock.
    pub(crate) started: Duration,
    /// Stamps writes.
    pub(crate) stamping: Arc<Stamping>,
    /// Reads that may block.
    pub(crate) read_pool: Arc<ReadPool>,
    /// Bytes of bodies on their way in.
    pub(crate) uploads: Uploads,
    /// Bytes of what is read, on its way out.
    pub(crate) reading: Reading,
    /// Ranges on their way out.
    pub(crate) scans: Arc<Budget>,
    /// What is counted.
    pub(crate) metrics: Metrics,
}

/// What the requests of one runtime work with. Nothing in it is shared with
/// other threads, the handles of [`Shared`] aside.
pub(crate) struct Context {
    shared: Arc<Shared>,
    /// Asks replicas.
    pub(crate) coordinator: Rc<Coordinator>,
    /// Decides who comes in.
    pub(crate) gate: Rc<Gate>,
    /// What this runtime counts.
    pub(crate) metrics: Arc<RuntimeMetrics>,
    /// The monotonic clock as of the last sweep: cheap, and late by at most its period.
    pub(crate) now: Rc<Cell<Duration>>,
    /// The buffer into which all connections read.
    pub(crate) scratch: Rc<RefCell<Box<[u8]>>>,
    connections: RefCell<Slab<Rc<Progress>>>,
    /// Told when the last connection has ended.
    emptied: Notify,
    is_stopping: Cell<bool>,
}

/// A connection's entry in its runtime's list, until it is dropped.
pub(crate) struct Registered<'a> {
    context: &'a Context,
    number: usize,
}

impl Context {
    /// The context of runtime `number`.
    pub(crate) fn new(shared: Arc<Shared>, number: usize) -> Rc<Self> {
        let waiters = Waiters::new();
        let coordinator = Rc::new(Coordinator::new(
            Arc::clone(&shared.url),
            shared.engine.clone(),
            Arc::clone(&shared.clock),
            Arc::clone(&shared.stamping),
            Arc::clone(&shared.read_pool),
            shared.reading.clone(),
            waiters,
        ));
        let config = &shared.config;
        Rc::new(Self {
            coordinator,
            gate: Gate::new(
                config.requests_in_flight_max.div_ceil(config.threads),
                config.requests_queued_max.div_ceil(config.threads),
            ),
            metrics: shared.metrics.of_runtime(number),
            now: Rc::new(Cell::new(shared.clock.monotonic())),
            scratch: Rc::new(RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice())),
            connections: RefCell::default(),
            emptied: Notify::new(),
            is_stopping: Cell::new(false),
            shared,
        })
    }

    /// What all runtimes share.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The time.
    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.shared.clock
    }

    /// The time, to keep.
    pub(crate) fn clock_handle(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.shared.clock)
    }

    /// Bytes of bodies on their way in.
    pub(crate) fn uploads(&self) -> &Uploads {
        &self.shared.uploads
    }

    /// Ranges on their way.
    pub(crate) fn scans(&self) -> &Arc<Budget> {
        &self.shared.scans
    }

    /// The longest value, in bytes.
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.shared.config.value_bytes_max
    }

    /// How long an answer may make no progress.
    pub(crate) fn stall_timeout(&self) -> Duration {
        self.shared.config.scan_stall_timeout
    }

    /// What `ack` and `from` may be.
    pub(crate) fn replica_rules(&self) -> ReplicaRules {
        ReplicaRules {
            nodes: self.shared.config.members.count(),
            default: self.shared.config.replicas_default,
        }
    }

    /// The deadline of what began at `began`.
    pub(crate) fn deadline_after(&self, began: Duration) -> Duration {
        began.saturating_add(self.shared.config.timeout)
    }

    /// Enters a connection into the list.
    pub(crate) fn register(&self, progress: &Rc<Progress>) -> Registered<'_> {
        Registered {
            number: self.connections.borrow_mut().insert(Rc::clone(progress)),
            context: self,
        }
    }

    /// Whether the node stops: connections end when their requests do.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.get()
    }

    /// Lets connections end when their requests do, and waits for the last.
    pub(crate) async fn drain(&self) {
        self.is_stopping.set(true);
        // Copied: waking a connection must find the list free.
        for connection in self.all_connections() {
            connection.wake();
        }
        while !self.connections.borrow().is_empty() {
            self.emptied.notified().await;
        }
    }

    /// Ends the waits and connections that have lasted too long, and
    /// publishes what the gate counts.
    pub(crate) fn sweep(&self) {
        let now = self.shared.clock.monotonic();
        self.now.set(now);
        self.coordinator.waiters().expire(now);
        self.gate.expire(now);
        let config = &self.shared.config;
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
        );
    }

    /// How often to sweep: an eighth of the shortest time that a sweep ends,
    /// and at least four times a second.
    pub(crate) fn sweep_period(&self) -> Duration {
        let config = &self.shared.config;
        [
            config.timeout,
            config.idle_timeout,
            config.head_timeout,
            config.body_timeout,
            config.scan_stall_timeout,
        ]
        .into_iter()
        .min()
        .map_or(Duration::MAX, |shortest| shortest / 8)
        .clamp(Duration::from_millis(5), Duration::from_millis(250))
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
        let mut connections = self.context.connections.borrow_mut();
        let gone = connections.try_remove(self.number);
        if connections.is_empty() {
            self.context.emptied.notify_one();
        }
        drop(connections);
        drop(gone);
    }
}
