//! A thread of the generator: an event loop over its connections.
//!
//! In an open loop the connection that has been free longest sends the next
//! request that is due. If none is free, the next connection that becomes free
//! sends it. If requests go to the owners of their keys, this holds for each node
//! (`pools`). In a closed loop each connection sends its next request as soon as
//! it has a response; with a pipeline (`pipelining`) it sends some batches
//! before the responses to those before them have come. All times are durations since the start that the threads
//! share; the connections are opened before it.

mod answering;
mod asking;
mod connecting;
mod pipelining;
mod pools;

use super::connection::{ClientConnection, ConnectionState};
use super::poller::Poller;
use super::recorder::Recorder;
use super::request_source::RequestSource;
use super::schedule::ArrivalSchedule;
use crate::generator::placement::Placement;
use crate::http::request::RequestWriter;
use crate::plan::Plan;
use crate::results::{SlowRequest, Slowest};
use crate::target::Target;
use crate::workload::keys::KeySpace;
use pools::Pools;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

/// How long opening all connections may take before the load begins anyway.
const OPENING_TIME_MAX: Duration = Duration::from_secs(5);

/// How often the deadlines of connections are checked.
const TICK: Duration = Duration::from_millis(10);

/// The size of a read, in bytes.
const READ_BYTES: usize = 64 << 10;

/// What the threads of a run share.
pub(super) struct RunContext<'a> {
    pub(super) plan: &'a Plan,
    pub(super) targets: &'a [Target],
    /// The places of keys among the targets; none if a request may go to any target.
    pub(super) placement: Option<Placement>,
    pub(super) keys: KeySpace,
    /// Set by the caller to end the run.
    pub(super) stop: &'a AtomicBool,
    /// Set by the watching thread when no target can be reached.
    pub(super) halt: AtomicBool,
    /// How many connections are open.
    pub(super) open: AtomicUsize,
    /// Passed by all threads and the watching one when connections are open.
    pub(super) ready: Barrier,
    pub(super) start: OnceLock<Instant>,
    /// The length of the run with its warm-up; none if the run ends with its
    /// source.
    pub(super) length: Option<Duration>,
    pub(super) warmup: Duration,
    /// How many of the slowest requests are told one by one.
    pub(super) slowest_max: usize,
}

impl RunContext<'_> {
    /// The start of the load, which the first call sets.
    pub(super) fn start(&self) -> Instant {
        *self.start.get_or_init(Instant::now)
    }
}

/// What a thread reports at its end.
pub(super) struct WorkerSummary {
    /// Requests that fell due in the measured time; none in a closed loop.
    pub(super) due: Option<u64>,
    /// When it ended, as a time after the start.
    pub(super) at: Duration,
    /// Its slowest requests.
    pub(super) slowest: Vec<SlowRequest>,
}

/// The time of the system's monotonic clock.
fn monotonic_time() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds)
}

/// Runs thread number `thread` of a run: opens its connections, waits for the
/// other threads, and sends the requests of `source` until the run is over.
///
/// # Errors
/// An error of the system, not of a server.
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
    // All threads must pass the barrier, so errors are returned after it.
    context.ready.wait();
    opened?.run()
}

/// The state of a thread.
struct Worker<'a> {
    context: &'a RunContext<'a>,
    source: RequestSource<'a>,
    schedule: Option<ArrivalSchedule>,
    recorder: Recorder,
    random: fastrand::Rng,
    poller: Poller,
    writers: Vec<RequestWriter>,
    connections: Vec<ClientConnection>,
    /// Free connections that wait for a request to fall due, and requests that wait for a
    /// connection.
    pools: Pools,
    /// The buffer for a key.
    key: Vec<u8>,
    /// The buffers for a value and for the lines of a batch.
    value: Vec<u8>,
    lines: Vec<u8>,
    /// The buffer for a read.
    input: Vec<u8>,
    timeout: Duration,
    /// The moment that times count from: the opening of the connections, later
    /// the start of the load.
    started: Instant,
    /// That moment on the system's monotonic clock.
    started_on_clock: Duration,
    /// When the last wait for sockets ended.
    woke: Duration,
    slowest: Slowest,
    /// Whether the source has no more requests.
    is_exhausted: bool,
}

impl<'a> Worker<'a> {
    /// Thread number `thread`, with its share of the connections.
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
        let pools = match context.placement {
            None => 1,
            Some(_) => context.targets.len(),
        };
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
            pools: Pools::new(pools, connections.len()),
            connections,
            key: Vec::new(),
            value: Vec::new(),
            lines: Vec::new(),
            input: vec![0; READ_BYTES],
            timeout: Duration::from_secs_f64(plan.timeout_seconds),
            started: Instant::now(),
            started_on_clock: Duration::ZERO,
            woke: Duration::ZERO,
            slowest: Slowest::new(context.slowest_max),
            is_exhausted: false,
        })
    }

    /// Runs until the run is over.
    fn run(mut self) -> io::Result<WorkerSummary> {
        self.started = self.context.start();
        self.started_on_clock = monotonic_time().saturating_sub(self.started.elapsed());
        // Deadlines so far counted from the opening.
        for index in 0..self.connections.len() {
            match &mut self.connections[index].state {
                ConnectionState::Idle => self.send_next(index, Duration::ZERO)?,
                ConnectionState::Closed { until } => *until = Duration::ZERO,
                ConnectionState::Connecting { until } | ConnectionState::ShakingHands { until } => {
                    *until = self.timeout;
                }
                ConnectionState::Busy { .. } | ConnectionState::Paused { .. } => {}
            }
        }
        let end = self.work()?;
        let until = self.context.length.map_or(end, |length| end.min(length));
        self.recorder
            .end_intervals(until.saturating_sub(Duration::from_nanos(1)));
        let due = self.schedule.map(|schedule| {
            let warmup = schedule.due_before(self.context.warmup.min(until));
            schedule.due_before(until) - warmup
        });
        self.recorder.finish(until);
        Ok(WorkerSummary {
            due,
            at: until,
            slowest: self.slowest.into_sorted(),
        })
    }

    /// Opens as many connections as possible within [`OPENING_TIME_MAX`].
    fn open(&mut self) -> io::Result<()> {
        let mut next_check = Duration::ZERO;
        loop {
            let now = self.now();
            if now >= next_check {
                self.handle_deadlines(now)?;
                next_check = now + TICK;
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

    /// The event loop. Returns when it ended.
    fn work(&mut self) -> io::Result<Duration> {
        let mut next_check = Duration::ZERO;
        loop {
            let now = self.now();
            if self.is_stopped() || self.context.length.is_some_and(|length| now >= length) {
                return Ok(now);
            }
            self.recorder.end_intervals(now);
            if now >= next_check {
                self.handle_deadlines(now)?;
                self.reroute_stranded(now)?;
                next_check = now + TICK;
                if self.is_exhausted && !self.has_requests() {
                    return Ok(now);
                }
            }
            let next_due = self.send_due(now)?;
            let until = next_due.map_or(next_check, |due| due.min(next_check));
            let ready = self.poller.wait(until.saturating_sub(self.now()))?;
            self.woke = self.now();
            for nth in 0..ready {
                self.handle(self.poller.ready(nth))?;
            }
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// A time after the start, on the system's monotonic clock.
    fn on_clock(&self, time: Duration) -> Duration {
        self.started_on_clock + time
    }

    fn is_stopped(&self) -> bool {
        self.context.stop.load(Relaxed) || self.context.halt.load(Relaxed)
    }

    fn has_requests(&self) -> bool {
        let mut connections = self.connections.iter();
        self.pools.has_waiting() || connections.any(|connection| connection.due_request.is_some())
    }
}
