//! Generates the load: threads with an epoll loop each, and one that watches
//! them.
//!
//! ```text
//! source ──▶ worker ──▶ connection ──▶ a node
//! (what)     (when:     (one request   │
//!            schedule)   at a time)    │
//!               ▲                      │
//!               └── recorder ◀─────────┘
//!                      │ an interval per second
//!                      ▼
//!                   collector ──▶ watch, Run
//! ```

mod batch;
mod collector;
mod connection;
mod file_limit;
mod owners;
mod placement;
mod poller;
mod recorder;
mod request_source;
mod schedule;
mod worker;

#[cfg(test)]
mod tests;

use crate::Error;
use crate::plan::{Ask, Plan, Rate};
use crate::results::{MachineInfo, Run, Second, SlowRequest, Slowest};
use crate::target::Target;
use crate::workload::choice::KeyCounters;
use crate::workload::keys::KeySpace;
use collector::Collector;
use recorder::{Interval, Recorder};
use request_source::RequestSource;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Barrier, OnceLock};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant, SystemTime};
use worker::{RunContext, WorkerSummary};

/// How long all connections may be closed before the run ends early.
const UNREACHED_TIME_MAX: Duration = Duration::from_secs(3);

/// How often the watching thread checks the run.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// How many intervals of a thread may wait to be collected.
const INTERVALS_MAX: usize = 16;

/// How many empty intervals a thread keeps.
const SPARE_INTERVALS_MAX: usize = 2;

/// The version of the format of [`Run`].
const FORMAT: u32 = 1;

/// Generates the load that `plan` describes and waits for its end. `watch` is
/// called with each second after the warm-up. When `stop` is set, the run ends
/// and returns what it has measured.
///
/// # Errors
/// [`Error::Plan`], and [`Error::Unreachable`] if a target accepts no
/// connection before the load. What fails later is part of the run.
pub fn run(plan: &Plan, stop: &AtomicBool, watch: &mut dyn FnMut(&Second)) -> Result<Run, Error> {
    Ok(run_with_slowest(plan, 0, stop, watch)?.0)
}

/// The same, and tells of the slowest of the requests that succeeded in the measured time
/// one by one, at most `slowest_max` of them, the slowest first.
///
/// # Errors
/// As for [`run`].
pub fn run_with_slowest(
    plan: &Plan,
    slowest_max: usize,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Second),
) -> Result<(Run, Vec<SlowRequest>), Error> {
    let warmup = Duration::from_secs_f64(plan.warmup_seconds);
    let length = warmup + Duration::from_secs_f64(plan.seconds);
    let counters = KeyCounters::new(plan.keys);
    let source = || RequestSource::load(plan, &counters);
    generate(plan, source, Some(length), slowest_max, stop, watch)
}

/// Puts each key of the plan once, as fast as its connections can: in sequence
/// if the plan chooses keys in sequence, otherwise in random order. A failed
/// request is repeated a few times. The plan's operations, rate and times are
/// ignored.
///
/// # Errors
/// As for [`run`].
pub fn fill(plan: &Plan, stop: &AtomicBool, watch: &mut dyn FnMut(&Second)) -> Result<Run, Error> {
    let plan = Plan {
        rate: Rate::Max,
        warmup_seconds: 0.0,
        operations: vec![(crate::plan::Operation::Put, 1.0)],
        ..plan.clone()
    };
    let counters = KeyCounters::new(plan.keys);
    let source = || RequestSource::fill(&plan, &counters);
    Ok(generate(&plan, source, None, 0, stop, watch)?.0)
}

fn generate<'a>(
    plan: &'a Plan,
    source: impl Fn() -> RequestSource<'a>,
    length: Option<Duration>,
    slowest_max: usize,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Second),
) -> Result<(Run, Vec<SlowRequest>), Error> {
    plan.check()?;
    file_limit::raise_for(plan.connections)?;
    let targets: Result<Vec<Target>, Error> = plan
        .targets
        .iter()
        .map(|url| Target::reach(url, &plan.access))
        .collect();
    let targets = targets?;
    let placement = match plan.ask {
        Ask::Any => None,
        Ask::Owner => Some(owners::placement_of(&targets, &plan.access)?),
    };
    let warmup = Duration::from_secs_f64(plan.warmup_seconds);
    let context = RunContext {
        plan,
        targets: &targets,
        placement,
        keys: KeySpace::new(plan.key_bytes, plan.keys)?,
        stop,
        halt: AtomicBool::new(false),
        open: AtomicUsize::new(0),
        ready: Barrier::new(plan.threads + 1),
        start: OnceLock::new(),
        length,
        warmup,
        slowest_max,
    };
    let (full, intervals) = sync_channel(plan.threads * INTERVALS_MAX);
    let mut empty = Vec::new();
    let mut workers = Vec::new();
    for thread in 0..plan.threads {
        let (sender, receiver) = sync_channel(SPARE_INTERVALS_MAX);
        empty.push(sender);
        let recorder = Recorder::new(thread, warmup, full.clone(), receiver);
        workers.push((source(), recorder));
    }
    // The channel closes when the threads have ended.
    drop(full);

    let mut collector = Collector::new(warmup, empty);
    let (ended, gave_up, started_unix_ms) = std::thread::scope(|scope| {
        let threads: Vec<ScopedJoinHandle<'_, io::Result<WorkerSummary>>> = workers
            .into_iter()
            .enumerate()
            .map(|(thread, (source, recorder))| {
                let context = &context;
                scope.spawn(move || worker::work(context, thread, source, recorder))
            })
            .collect();
        context.ready.wait();
        context.start();
        let started_unix_ms = unix_ms();
        let gave_up = gather(&context, &intervals, &mut collector, watch);
        let ended: Vec<io::Result<WorkerSummary>> = threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
            })
            .collect();
        (ended, gave_up, started_unix_ms)
    });
    let mut ended: Vec<WorkerSummary> = ended.into_iter().collect::<io::Result<_>>()?;
    let mut slowest = Slowest::new(slowest_max);
    for request in ended.iter_mut().flat_map(|ended| ended.slowest.drain(..)) {
        slowest.add(request);
    }
    let end = ended.iter().map(|ended| ended.at).max().unwrap_or_default();
    let was_stopped = stop.load(Relaxed) && length.is_none_or(|length| end < length);
    let total = &collector.total;
    let run = Run {
        format: FORMAT,
        label: label(plan, length),
        plan: plan.clone(),
        machine: MachineInfo::read(),
        started_unix_ms,
        version: crate::VERSION.to_owned(),
        measured_seconds: end.saturating_sub(warmup).as_secs_f64(),
        cut_short: gave_up.or_else(|| was_stopped.then(|| "it was stopped".to_owned())),
        due: ended.iter().map(|ended| ended.due).sum(),
        succeeded: total.latency.len(),
        failed: total
            .failed
            .iter()
            .map(|(why, count)| (why.label(), *count))
            .collect(),
        missing: total.missing,
        entities: total.entities,
        operations: total.operations,
        body_bytes: total.body_bytes,
        latency: collector::latency(total),
        timeline: collector.timeline,
        marks: Vec::new(),
    };
    Ok((run, slowest.into_sorted()))
}

/// Collects intervals until the threads end. Returns why the run ended early,
/// if it did.
fn gather(
    context: &RunContext<'_>,
    intervals: &Receiver<Interval>,
    collector: &mut Collector,
    watch: &mut dyn FnMut(&Second),
) -> Option<String> {
    let mut unreached_since = None;
    let mut gave_up = None;
    loop {
        match intervals.recv_timeout(CHECK_INTERVAL) {
            Ok(interval) => collector.take(interval, &mut *watch),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if context.open.load(Relaxed) > 0 {
            unreached_since = None;
            continue;
        }
        let since: &mut Instant = unreached_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= UNREACHED_TIME_MAX && gave_up.is_none() {
            let seconds = UNREACHED_TIME_MAX.as_secs();
            gave_up = Some(format!("no target could be reached for {seconds} s"));
            context.halt.store(true, Relaxed);
        }
    }
    collector.finish(&mut *watch);
    gave_up
}

/// The default label of a run.
fn label(plan: &Plan, length: Option<Duration>) -> String {
    let operations = plan.operations_label();
    match (length, plan.rate) {
        (None, _) => "fill".to_owned(),
        (Some(_), Rate::Max) => format!("{operations} at full speed"),
        // A search computes rates with many digits.
        (Some(_), Rate::PerSecond(rate)) if rate >= 100.0 => {
            format!("{operations} at {}/s", rate.round())
        }
        (Some(_), Rate::PerSecond(rate)) => format!("{operations} at {rate}/s"),
    }
}

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
