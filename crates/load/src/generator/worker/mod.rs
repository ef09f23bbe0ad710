//! A thread of the generator: one loop over its connections.
//!
//! In an open loop the first free connection takes the next request that is
//! due, and when none is free the next one that becomes so. In a closed loop
//! each connection asks again as soon as it is answered. All times are spans
//! since the start that the threads share, and negative ones do not occur: the
//! connections are opened before it.

mod answering;
mod asking;
mod connecting;

use super::connection::{ClientConnection, ConnectionState};
use super::poller::Poller;
use super::recorder::Recorder;
use super::schedule::ArrivalSchedule;
use super::source::RequestSource;
use crate::http::request::RequestWriter;
use crate::plan::Plan;
use crate::target::Target;
use crate::workload::keys::KeySpace;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

/// How long all connections together have to open before the load begins.
const OPENING_TIME_MAX: Duration = Duration::from_secs(5);

/// How often times that connections wait for are looked at.
const TICK: Duration = Duration::from_millis(10);

/// How many bytes are read at once.
const READ_BYTES: usize = 64 << 10;

/// What the threads of a run share.
pub(super) struct RunContext<'a> {
    pub(super) plan: &'a Plan,
    pub(super) targets: &'a [Target],
    pub(super) keys: KeySpace,
    /// Set by whoever wants the run to end.
    pub(super) stop: &'a AtomicBool,
    /// Set by the run itself when it is of no use to go on.
    pub(super) halt: AtomicBool,
    /// How many connections are open.
    pub(super) open: AtomicUsize,
    /// Reached by all threads and the one that watches when connections are open.
    pub(super) ready: Barrier,
    pub(super) start: OnceLock<Instant>,
    /// How long the run takes, warm-up and all; none for as long as the source gives.
    pub(super) length: Option<Duration>,
    pub(super) warmup: Duration,
}

impl RunContext<'_> {
    /// The moment that times count from: when the first one asks.
    pub(super) fn start(&self) -> Instant {
        *self.start.get_or_init(Instant::now)
    }
}

/// What a thread says at its end.
pub(super) struct WorkerSummary {
    /// Requests that fell due in the counted time; none in a closed loop.
    pub(super) due: Option<u64>,
    /// When it ended, after the start.
    pub(super) at: Duration,
}

/// Thread number `thread` of a run: opens its connections, waits for the other
/// threads, and asks what `source` gives until the run is over.
///
/// # Errors
/// The system fails the generator, not a server.
pub(super) fn work(
    context: &RunContext<'_>,
    thread: usize,
    source: RequestSource<'_>,
    recorder: Recorder,
) -> io::Result<WorkerSummary> {
    Poller::sharpen_timers();
    let opened = Worker::new(context, thread, source, recorder).and_then(|mut worker| {
        worker.open()?;
        Ok(worker)
    });
    // The others must not wait in vain, so errors come after.
    context.ready.wait();
    opened?.run()
}

/// A thread's state.
struct Worker<'a> {
    context: &'a RunContext<'a>,
    source: RequestSource<'a>,
    schedule: Option<ArrivalSchedule>,
    recorder: Recorder,
    random: fastrand::Rng,
    poller: Poller,
    writers: Vec<RequestWriter>,
    connections: Vec<ClientConnection>,
    /// Connections that wait for a request to fall due, the longest first.
    free: VecDeque<usize>,
    /// A key that is being written.
    key: Vec<u8>,
    /// What a read brings, before it is decoded.
    input: Vec<u8>,
    timeout: Duration,
    /// What times count from: the opening of the connections, then the start of
    /// the load.
    started: Instant,
    /// Whether the source has nothing more to ask.
    is_exhausted: bool,
}

impl<'a> Worker<'a> {
    /// Thread number `thread`, with every `threads`th connection.
    fn new(
        context: &'a RunContext<'a>,
        thread: usize,
        source: RequestSource<'a>,
        recorder: Recorder,
    ) -> io::Result<Self> {
        let plan = context.plan;
        let numbers = (thread..plan.connections).step_by(plan.threads);
        let connections: Vec<ClientConnection> = numbers
            .map(|number| ClientConnection::new(number % plan.targets.len()))
            .collect();
        let writers = context.targets.iter();
        let writers = writers.map(|target| RequestWriter::new(plan, &target.authority));
        let seed = plan.seed.wrapping_add(1).wrapping_mul(thread as u64 + 1);
        Ok(Self {
            context,
            schedule: ArrivalSchedule::new(plan.rate, thread, plan.threads),
            source,
            recorder,
            random: fastrand::Rng::with_seed(seed),
            poller: Poller::new()?,
            writers: writers.collect(),
            free: VecDeque::with_capacity(connections.len()),
            connections,
            key: Vec::new(),
            input: vec![0; READ_BYTES],
            timeout: Duration::from_secs_f64(plan.timeout_seconds),
            started: Instant::now(),
            is_exhausted: false,
        })
    }

    /// Works until the run is over.
    fn run(mut self) -> io::Result<WorkerSummary> {
        self.started = self.context.start();
        // Times so far were those of the opening.
        for index in 0..self.connections.len() {
            match &mut self.connections[index].state {
                ConnectionState::Idle => self.go_on(index, Duration::ZERO)?,
                ConnectionState::Closed { until } => *until = Duration::ZERO,
                ConnectionState::Connecting { until } => *until = self.timeout,
                ConnectionState::Busy { .. } | ConnectionState::Paused { .. } => {}
            }
        }
        let end = self.work()?;
        let until = self.context.length.map_or(end, |length| end.min(length));
        self.recorder
            .turn(until.saturating_sub(Duration::from_nanos(1)));
        let due = self.schedule.map(|schedule| {
            let warmup = schedule.due_before(self.context.warmup.min(until));
            schedule.due_before(until) - warmup
        });
        self.recorder.finish(until);
        Ok(WorkerSummary { due, at: until })
    }

    /// Opens the connections, as many as can be in the time that they have.
    fn open(&mut self) -> io::Result<()> {
        let mut next_look = Duration::ZERO;
        loop {
            let now = self.now();
            if now >= next_look {
                self.look_at_times(now)?;
                next_look = now + TICK;
            }
            let is_open = |connection: &ClientConnection| connection.state == ConnectionState::Idle;
            if self.connections.iter().all(is_open) || now >= OPENING_TIME_MAX || self.is_stopped()
            {
                return Ok(());
            }
            for nth in 0..self.poller.wait(TICK)? {
                self.handle(self.poller.ready(nth))?;
            }
        }
    }

    /// The loop; gives when it ended.
    fn work(&mut self) -> io::Result<Duration> {
        let mut next_look = Duration::ZERO;
        loop {
            let now = self.now();
            if self.is_stopped() || self.context.length.is_some_and(|length| now >= length) {
                return Ok(now);
            }
            self.recorder.turn(now);
            if now >= next_look {
                self.look_at_times(now)?;
                next_look = now + TICK;
                if self.is_exhausted && !self.has_requests() {
                    return Ok(now);
                }
            }
            let next_due = self.give_due(now)?;
            let until = next_due.map_or(next_look, |due| due.min(next_look));
            for nth in 0..self.poller.wait(until.saturating_sub(self.now()))? {
                self.handle(self.poller.ready(nth))?;
            }
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn is_stopped(&self) -> bool {
        self.context.stop.load(Relaxed) || self.context.halt.load(Relaxed)
    }

    fn has_requests(&self) -> bool {
        let mut connections = self.connections.iter();
        connections.any(|connection| connection.exchange.is_some())
    }
}
