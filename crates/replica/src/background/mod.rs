//! One budget for background work: hints, repair, rebuilds and compaction share the time that
//! clients leave.
//!
//! ```text
//! clients' latencies, busy runtimes, queueing delay  ->  controller  ->  share
//! work that took a while  ->  rest_after  ->  how long it rests
//! ```
//!
//! No rate is configured. Each kind works in short steps and reports how long each took. Then it
//! rests until its use is no more than the current share of the time. So the share bounds all kinds
//! alike, none waits for another, and even at the floor each kind gets its steps. The floor of a
//! kind whose work is overdue is raised step by step ([`Background::set_overdue`]): at most to
//! eight times the ordinary one, so that the work ends even if clients always leave too little
//! time.
//!
//! - `controller` decides on the share, a pure function.
//! - `latencies` are the requests that it judges.
//! - `probe` measures the queueing delay of the runtimes.
//! - `pacer` makes jobs rest without blocking their thread.
//!
//! Prior art:
//! - CockroachDB's elastic CPU control (`pkg/util/admission`, `scheduler_latency_listener`)
//!   lets background work use a share of the processors that falls while the scheduler's
//!   latency is above a target, with a floor, and charges work for the time that it ran
//!   (`util/grunning`). Here the share falls by a factor rather than by an amount, and
//!   the latency of requests counts as well, against what is normal on this machine.
//! - ScyllaDB's controllers (`backlog_controller.hh`) give compaction more the longer its backlog
//!   is. So the engine says how urgent its compaction is, and urgent compaction does not rest.
//!
//! The budget counts wall time, not CPU time, because work that waits for the disk keeps others
//! from the disk. But a thread that waits for a processor is in nobody's way, so that time does not
//! count: threads of background work have a low priority, and wait most of the time when clients
//! use the processors.

mod controller;
mod latencies;
mod pacer;
mod probe;
#[cfg(test)]
mod rest_tests;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub use rest_tests::overloaded;

pub use latencies::LatencyCounts;
pub use pacer::Pacer;

use base::Clock;
use controller::{Controller, DOUBLINGS_MAX, Measured, SHARE_MIN};
use profile::lock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The longest rest after a step of work, so that no kind starves whose steps are long.
pub const REST_MAX: Duration = Duration::from_millis(250);

/// How long after the last work the probes slow down.
const IDLE_AFTER: Duration = Duration::from_secs(2);

/// The most probes that are kept for a step of the controller.
const DELAYS_MAX: usize = 1024;

/// A kind of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkKind {
    /// Repairs; a rebuild is a full repair.
    Repair,
    /// Delivery of hints.
    Hints,
    /// Compaction.
    Compaction,
    /// Backups.
    Backup,
}

impl WorkKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Repair, Self::Hints, Self::Compaction, Self::Backup];

    /// The kind as metrics name it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Repair => "repair",
            Self::Hints => "hints",
            Self::Compaction => "compaction",
            Self::Backup => "backup",
        }
    }
}

/// What a node's owner sees of its clients, since the start.
#[derive(Clone, Debug, Default)]
pub struct ClientsSeen {
    /// How long the requests of clients took.
    pub latencies: LatencyCounts,
    /// How long each runtime was busy. What waits for a processor is busy, too.
    pub busy: Vec<Duration>,
}

/// Returns what a node's owner sees of its clients.
pub type SeeClients = Box<dyn Fn() -> ClientsSeen + Send + Sync>;

/// How long the work of one kind worked and rested, in nanoseconds.
#[derive(Default)]
struct WorkTimes {
    worked_ns: AtomicU64,
    rested_ns: AtomicU64,
    /// How often its floor is doubled.
    doublings: AtomicU32,
}

/// The state of the budget, for metrics.
#[derive(Clone, Copy, Debug)]
pub struct BackgroundStatus {
    /// The share of its time that each kind of work may use.
    pub share: f64,
    /// The queueing delay of the runtimes, and its baseline.
    pub queueing_delay: (Duration, Duration),
    /// The 99th percentile of the requests, and its baseline.
    pub latency: (Duration, Duration),
    /// The share of their time that the runtimes were busy.
    pub busy: f64,
}

/// The budget of a node's background work. All runtimes and classes share it.
pub struct Background {
    clock: Arc<dyn Clock>,
    /// The share, by the bits of its number: read after each step of work.
    share: AtomicU64,
    times: [WorkTimes; WorkKind::ALL.len()],
    /// When work was last done, on the monotonic clock in nanoseconds.
    last_worked_ns: AtomicU64,
    /// The queueing delays that the probes have measured since the last decision.
    delays: Mutex<Vec<Duration>>,
    see_clients: OnceLock<SeeClients>,
    deciding: Mutex<Deciding>,
}

/// What the controller needs from one decision to the next.
struct Deciding {
    controller: Controller,
    decided: Duration,
    worked: Duration,
    busy: Vec<Duration>,
    busy_share: f64,
}

impl Background {
    /// A budget without work.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        let now = clock.monotonic();
        Arc::new(Self {
            clock,
            share: AtomicU64::new(1.0_f64.to_bits()),
            times: Default::default(),
            last_worked_ns: AtomicU64::new(0),
            delays: Mutex::default(),
            see_clients: OnceLock::new(),
            deciding: Mutex::new(Deciding {
                controller: Controller::new(now),
                decided: now,
                worked: Duration::ZERO,
                busy: Vec::new(),
                busy_share: 0.0,
            }),
        })
    }

    /// Says where to see what clients feel. Without it only the queueing delay counts.
    pub fn see_clients_by(&self, see: SeeClients) {
        // A second one would be a bug, and the first stays in force.
        let _first = self.see_clients.set(see);
    }

    /// The time on the monotonic clock.
    pub fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Charges a kind of work for a step, and says how long it rests: at most
    /// [`REST_MAX`].
    pub fn rest_after(&self, kind: WorkKind, took: Duration) -> Duration {
        self.rest_after_urgent(kind, took, 0.0)
    }

    /// The same for work that has become urgent: from 0, not at all, to 1: it must not
    /// rest.
    pub fn rest_after_urgent(&self, kind: WorkKind, took: Duration, urgency: f64) -> Duration {
        let share = f64::from_bits(self.share.load(Relaxed)).max(self.floor(kind));
        let rest = took.mul_f64((1.0 / share - 1.0).max(0.0)).min(REST_MAX);
        let rest = rest.mul_f64((1.0 - urgency).clamp(0.0, 1.0));
        let times = &self.times[kind as usize];
        times.worked_ns.fetch_add(nanos(took), Relaxed);
        times.rested_ns.fetch_add(nanos(rest), Relaxed);
        self.last_worked_ns.store(nanos(self.now()), Relaxed);
        rest
    }

    /// Says how far work of a kind is overdue: its floor is doubled so often, at most
    /// `DOUBLINGS_MAX` times, until it is said anew.
    pub fn set_overdue(&self, kind: WorkKind, doublings: u32) {
        let doublings = doublings.min(DOUBLINGS_MAX);
        self.times[kind as usize]
            .doublings
            .store(doublings, Relaxed);
    }

    /// The share of its time that a kind of work may always use.
    pub fn floor(&self, kind: WorkKind) -> f64 {
        let doublings = self.times[kind as usize].doublings.load(Relaxed);
        SHARE_MIN * f64::from(1_u32 << doublings.min(DOUBLINGS_MAX))
    }

    /// How long a kind of work has worked and rested.
    pub fn times(&self, kind: WorkKind) -> (Duration, Duration) {
        let times = &self.times[kind as usize];
        let read = |of: &AtomicU64| Duration::from_nanos(of.load(Relaxed));
        (read(&times.worked_ns), read(&times.rested_ns))
    }

    /// The state of the budget.
    pub fn status(&self) -> BackgroundStatus {
        let deciding = lock(&self.deciding);
        BackgroundStatus {
            share: deciding.controller.share(),
            queueing_delay: deciding.controller.queueing_delay(),
            latency: deciding.controller.latency(),
            busy: deciding.busy_share,
        }
    }

    /// Whether no work was done for a while.
    fn is_idle(&self) -> bool {
        let last = Duration::from_nanos(self.last_worked_ns.load(Relaxed));
        self.now().saturating_sub(last) > IDLE_AFTER
    }

    fn note_delay(&self, delay: Duration) {
        let mut delays = lock(&self.delays);
        if delays.len() < DELAYS_MAX {
            delays.push(delay);
        }
    }

    /// Has the controller take a step.
    fn decide(&self) {
        let queueing_delay = without_outlier(std::mem::take(&mut *lock(&self.delays)));
        let seen = self.see_clients.get().map(|see| see()).unwrap_or_default();
        let kinds = WorkKind::ALL.into_iter();
        let worked: Duration = kinds.map(|kind| self.times(kind).0).sum();
        let now = self.now();
        let mut deciding = lock(&self.deciding);
        let elapsed = now.saturating_sub(deciding.decided);
        deciding.busy_share = busy_share(&deciding.busy, &seen.busy, elapsed);
        let measured = Measured {
            now,
            queueing_delay,
            busy: deciding.busy_share,
            latencies: seen.latencies,
            worked: worked.saturating_sub(deciding.worked),
            is_floor_raised: WorkKind::ALL
                .into_iter()
                .any(|kind| self.floor(kind) > SHARE_MIN),
        };
        deciding.decided = now;
        deciding.worked = worked;
        deciding.busy = seen.busy;
        deciding.controller.step(&measured);
        self.share
            .store(deciding.controller.share().to_bits(), Relaxed);
    }
}

/// The greatest delay but one; one late probe is no queue.
fn without_outlier(mut delays: Vec<Duration>) -> Duration {
    delays.sort_unstable();
    delays.pop();
    delays.pop().unwrap_or_default()
}

/// The share of their time that the runtimes were busy on average.
fn busy_share(before: &[Duration], now: &[Duration], elapsed: Duration) -> f64 {
    if elapsed.is_zero() || before.len() != now.len() || now.is_empty() {
        return 0.0;
    }
    let busy = now.iter().zip(before);
    let busy: Duration = busy.map(|(now, before)| now.saturating_sub(*before)).sum();
    (busy.as_secs_f64() / elapsed.as_secs_f64() / now.len() as f64).min(1.0)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
