//! The compaction jobs: what is merged when, a step at a time.
//!
//! A compaction is a row of short jobs, each of which reads some blocks. Between
//! them it can be paced, ended, and interleaved with anything else. It rests for
//! as long as its environment says, or for longer if its rate demands that. The
//! further it falls behind, the less it rests.
//!
//! Several compactions run beside each other, each in a **slot** with a job class of its own. What
//! decides what is merged next is shared ([`CompactorState`]): compactions begin and end under its
//! lock, one after another, and merge without it. Which ones may run beside which says [`beside`].
//!
//! A table that turns out to be damaged is moved to level 0 and left out from
//! then on. That changes only the manifest: a level says nothing about age, and on
//! level 0, where tables may overlap, the table keeps no other from being merged.
//! A table that the system cannot read is tried again once in a while. A damaged table
//! is rewritten once its damaged parts were compared with other stores
//! ([`damage`](crate::engine::table_set::damage)).
//!
//! A compaction that fails because there is no room or because an input is damaged
//! is tried again, less and less often; those that run beside it go on. Writers do not wait for
//! one that cannot work.

pub(super) mod aside;
pub(super) mod begin;
pub(super) mod beside;
pub(super) mod calls;
pub(super) mod garbage;
pub(super) mod retry;
pub(super) mod unreadable;

use super::merging::{Compaction, Replaced};
use super::pick::{Pick, Reason};
use super::pressure::{pace, urgency};
use super::purges::Purges;
use super::quiet::{QuietMemtable, has_dead};
use super::reclaim::Reclaim;
use super::whole::{Orders, Whole};
use crate::engine::background::EngineJob;
use crate::engine::core::Core;
use crate::error::Error;
use crate::executor::JobClass;
use crate::locks::lock;
use crate::manifest::LEVELS;
use base::{LogLimiter, WorkTimer};
use begin::Beginning;
use bytes::Bytes;
use retry::Retry;
use std::sync::Mutex;
use std::time::Duration;
use unreadable::Unreadable;

/// The longest pause before the job checks again whether compaction has fallen behind
/// and has to hurry.
const PACE_DELAY_MAX: Duration = Duration::from_millis(100);

/// How long compaction rests before it checks what time alone has made due.
const IDLE_DELAY: Duration = Duration::from_secs(60);

/// The owner of the compactions under way.
///
/// Locks: that of a slot, held while a step of its compaction runs, comes before all locks but the
/// folder's. Who takes several takes them in their order. Then comes `state`; then that of
/// `retry` or of `orders`.
pub(crate) struct Compactor {
    slots: Vec<Mutex<Slot>>,
    state: Mutex<CompactorState>,
    retry: Retry,
    failures: Mutex<LogLimiter>,
    orders: Orders,
}

/// Where a compaction runs.
#[derive(Default)]
struct Slot {
    current: Option<Compaction>,
    /// The number of failures when it began.
    attempt: u64,
    /// How long its steps took.
    busy: Duration,
    /// When the next step is due by the configured rate, on the monotonic clock.
    paced_until: Duration,
}

/// What decides about the next compaction.
#[derive(Default)]
pub(super) struct CompactorState {
    /// Why the compaction in each slot runs.
    running: Vec<Option<Reason>>,
    /// When the next survey is due by the configured rate, on the monotonic clock.
    paced_until: Duration,
    /// For each level the key after which the next pick starts.
    pub(super) cursors: [Option<Bytes>; LEVELS],
    pub(super) reclaim: Reclaim,
    pub(super) unreadable: Unreadable,
    pub(super) purges: Purges,
    quiet: QuietMemtable,
    pub(super) whole: Whole,
    /// Whether the last attempt was to rewrite a table and has failed, in its merging or at
    /// its end, so that others come first.
    pub(super) rewrite_failed: bool,
}

/// How a step of compaction ended.
#[derive(Debug)]
enum CompactionStep {
    /// There is nothing to compact.
    Idle,
    /// Nothing more may begin beside the compactions that run.
    Busy,
    /// A compaction begins.
    Begun,
    /// This number of bytes was merged or surveyed, and there is more to do.
    Merged(u64),
    /// Tables have moved down, and there may be more to do.
    Moved,
    /// A compaction is complete.
    Finished,
}

impl Compactor {
    /// The owner of at most so many compactions at a time.
    pub(crate) fn new(compactions_max: usize) -> Self {
        let slots = compactions_max.clamp(1, JobClass::COMPACTIONS.len());
        Self {
            slots: (0..slots).map(|_| Mutex::default()).collect(),
            state: Mutex::new(CompactorState {
                running: vec![None; slots],
                ..CompactorState::default()
            }),
            retry: Retry::default(),
            failures: Mutex::default(),
            orders: Orders::default(),
        }
    }

    /// Whether the last attempt to compact has failed and none has made progress
    /// since, so that nothing is gained by waiting for compaction.
    pub(crate) fn is_stuck(&self) -> bool {
        self.retry.is_stuck()
    }

    /// Schedules compaction after a flush, which has changed what there is to
    /// compact.
    pub(crate) fn schedule_after_flush(&self, core: &Core) {
        self.retry.note_flush();
        self.schedule(Duration::ZERO, core);
    }

    /// Schedules a job that begins compactions, if compaction is on or a whole one was ordered.
    fn schedule(&self, delay: Duration, core: &Core) {
        if core.options.compaction || self.orders.is_under_way() {
            core.background.schedule(EngineJob::Compact, delay);
        }
    }

    /// Schedules a compaction job for a time of the monotonic clock.
    fn wake_at(&self, due: Duration, core: &Core) {
        if self.retry.set_timer(due) {
            let delay = due.saturating_sub(core.now());
            core.background
                .schedule(EngineJob::WakeCompaction(due), delay);
        }
    }

    /// Schedules a job that looks after a while at what time alone has made due.
    pub(crate) fn schedule_check(&self, core: &Core) {
        if core.options.compaction {
            self.wake_at(core.now().saturating_add(IDLE_DELAY), core);
        }
    }

    /// The job of the timer for `due`.
    pub(crate) fn wake(&self, due: Duration, core: &Core) {
        if self.retry.fire_timer(due) {
            self.schedule(Duration::ZERO, core);
        }
    }

    /// The job that begins compactions: begins one if it may, and schedules the next job.
    pub(crate) fn run(&self, core: &Core) {
        // A reader may have held a memtable when it was flushed. Nothing waits
        // for this job, so it can free the memtable now.
        core.tables.free_retired();
        if core.health.check_poison().is_err() {
            return;
        }
        let started = core.now();
        let due = self.retry.due();
        if started < due {
            return self.wake_at(due, core);
        }
        let delay = pacing_delay(lock(&self.state).paced_until, started, core);
        if !delay.is_zero() {
            return self.schedule(delay, core);
        }
        let clock = &*core.environment.clock;
        let work = WorkTimer::start(clock);
        let Some(step) = self.begin(core) else {
            return;
        };
        let (delay, unreadable_due) = {
            let mut state = lock(&self.state);
            if let Ok(CompactionStep::Merged(bytes)) = step {
                let worked = work.worked(clock);
                state.paced_until = paced_until(started, worked, bytes, 1, core);
            }
            let delay = pacing_delay(state.paced_until, core.now(), core);
            (delay, state.unreadable.due)
        };
        self.note_step(&step, self.retry.attempt(), core);
        match step {
            Ok(CompactionStep::Idle) => {
                if has_dead(core) {
                    self.schedule_check(core);
                }
                if let Some(due) = unreadable_due {
                    self.wake_at(due, core);
                }
            }
            // The end of one of those that run schedules the next job.
            Ok(CompactionStep::Busy) => {}
            // Another one may begin beside it.
            Ok(CompactionStep::Begun) => self.schedule(Duration::ZERO, core),
            Ok(CompactionStep::Merged(_)) => self.schedule(delay, core),
            step => self.after_end(&step, core),
        }
    }

    /// The job of a slot: takes one step of its compaction, and schedules the next job.
    pub(crate) fn merge(&self, slot: usize, core: &Core) {
        core.tables.free_retired();
        if core.health.check_poison().is_err() {
            return;
        }
        let started = core.now();
        let clock = &*core.environment.clock;
        let work = WorkTimer::start(clock);
        let Some(mut current) = self.slots.get(slot).map(lock) else {
            return;
        };
        let delay = pacing_delay(current.paced_until, started, core);
        if !delay.is_zero() {
            drop(current);
            return core.background.schedule(EngineJob::Merge(slot), delay);
        }
        // `None` if a call has done the rest meanwhile, or has given it up.
        let Some(step) = self.step(slot, &mut current, core) else {
            return;
        };
        self.note_step(&step, current.attempt, core);
        if let Ok(CompactionStep::Merged(bytes)) = step {
            // The rate and the rests are those of all compactions together.
            let running = lock(&self.state).running() as u32;
            let worked = work.worked(clock);
            current.paced_until = paced_until(started, worked, bytes, running, core);
            let delay = pacing_delay(current.paced_until, core.now(), core);
            core.background.schedule(EngineJob::Merge(slot), delay);
        } else {
            drop(current);
            self.after_end(&step, core);
        }
    }

    /// Wakes what waits for the end of a compaction.
    fn after_end(&self, step: &Result<CompactionStep, Error>, core: &Core) {
        if let Err(error @ Error::Poisoned { .. }) = step {
            return core.fail_stall(error);
        }
        // Writers do not wait for a compaction that is stuck.
        core.end_stall();
        // After a failure the job that comes finds out when the next attempt is due.
        self.schedule(Duration::ZERO, core);
    }

    /// Notes how a step ended, which decides when the next may be tried. `attempt` is the number of
    /// failures when its compaction began.
    fn note_step(&self, step: &Result<CompactionStep, Error>, attempt: u64, core: &Core) {
        match step {
            // That tables move says nothing of whether tables can be merged.
            Ok(CompactionStep::Merged(_) | CompactionStep::Moved) => {
                self.retry.note_progress(attempt);
            }
            Ok(CompactionStep::Busy | CompactionStep::Begun) | Err(Error::Poisoned { .. }) => {}
            Ok(CompactionStep::Idle | CompactionStep::Finished) => self.retry.note_success(attempt),
            Err(error) => {
                let failures = self.retry.note_failure(core.now());
                if lock(&self.failures).admits_failure(&error.to_string(), core.now()) {
                    tracing::warn!(%error, failures, "a compaction failed and will be tried again");
                }
            }
        }
    }

    /// Begins the next compaction in a free slot, or does what comes before that. `None` if the
    /// engine is being closed.
    fn begin(&self, core: &Core) -> Option<Result<CompactionStep, Error>> {
        loop {
            let free = lock(&self.state).running.iter().position(Option::is_none);
            let Some(number) = free else {
                return Some(Ok(CompactionStep::Busy));
            };
            let mut slot = lock(&self.slots[number]);
            // Under the lock: a close has abandoned the compactions that were under
            // way, or will, and none may begin after it.
            if core.health.is_closing() {
                return None;
            }
            if slot.current.is_some() {
                // Another thread has taken the slot.
                continue;
            }
            let mut state = lock(&self.state);
            return Some(match state.begin(&self.orders, core) {
                Ok(Beginning::Compaction(compaction)) => {
                    state.running[number] = Some(compaction.pick.reason);
                    *slot = Slot {
                        current: Some(*compaction),
                        attempt: self.retry.attempt(),
                        ..Slot::default()
                    };
                    core.background
                        .schedule(EngineJob::Merge(number), Duration::ZERO);
                    Ok(CompactionStep::Begun)
                }
                Ok(Beginning::Moved) => Ok(CompactionStep::Moved),
                Ok(Beginning::Surveyed(bytes)) => Ok(CompactionStep::Merged(bytes)),
                Ok(Beginning::Busy) => Ok(CompactionStep::Busy),
                Ok(Beginning::Nothing) => {
                    // The flush wakes compaction when it ends.
                    state.quiet.flush_if_due(core);
                    Ok(CompactionStep::Idle)
                }
                Err(error) => Err(error),
            });
        }
    }

    /// Takes a step of the compaction in a slot; `None` if there is none.
    fn step(
        &self,
        number: usize,
        slot: &mut Slot,
        core: &Core,
    ) -> Option<Result<CompactionStep, Error>> {
        let mut compaction = slot.current.take()?;
        let started = core.now();
        let merged = compaction.merge_some(core);
        slot.busy += core.now().saturating_sub(started);
        let step = if let Ok(Some(bytes)) = merged {
            slot.current = Some(compaction);
            Ok(CompactionStep::Merged(bytes))
        } else {
            let mut state = lock(&self.state);
            let ending = core.now();
            let ended = state.end(compaction, merged.map(|_| ()), &self.orders, core);
            slot.busy += core.now().saturating_sub(ending);
            state.running[number] = None;
            ended.map(|memtables| {
                // Work on other levels says nothing of how fast level 0 is emptied. While that
                // takes long, level 0 fills up, and the writers are slowed because their room
                // shrinks.
                if memtables > 0 {
                    let bytes = memtables.saturating_mul(core.options.memtable_bytes as u64);
                    core.write_rate.compaction.note(bytes, slot.busy);
                }
                CompactionStep::Finished
            })
        };
        Some(step)
    }
}

impl CompactorState {
    /// How many compactions run.
    fn running(&self) -> usize {
        self.running.iter().flatten().count()
    }

    /// Ends a compaction that has merged all, or has failed. Returns by how many tables level 0
    /// has become shorter.
    fn end(
        &mut self,
        compaction: Compaction,
        merged: Result<(), Error>,
        orders: &Orders,
        core: &Core,
    ) -> Result<u64, Error> {
        let is_whole = compaction.pick.reason == Reason::Whole;
        let is_rewrite = compaction.pick.reason == Reason::Damaged;
        let result = match merged {
            Ok(()) => compaction
                .complete(core)
                .map(|replaced| self.note_replaced(replaced, orders, core.now())),
            Err(error) => {
                self.note_failure(&compaction, &error, core);
                compaction.abandon(core);
                Err(error)
            }
        };
        result.map_err(|error| {
            self.rewrite_failed = is_rewrite;
            // While compaction is behind, ordinary ones go first. Without room they fail
            // again and again, and an operator would wait for a whole one without a word.
            if is_whole || matches!(error, Error::DiskFull) {
                orders.end(Some(error.clone()));
            }
            core.poison_if_sync(error)
        })
    }

    /// Notes what a compaction has replaced. Returns by how many tables level 0 has become shorter.
    fn note_replaced(&mut self, replaced: Replaced, orders: &Orders, now: Duration) -> u64 {
        self.purges.note_replaced(&replaced, now);
        self.reclaim.note_replaced(&replaced);
        self.whole.note_replaced(&replaced, orders);
        let Pick {
            inputs,
            output_level,
            cursor,
            ..
        } = replaced.pick;
        if let Some((level, key)) = cursor {
            self.cursors[level] = Some(key);
        }
        let merged = inputs.iter().filter(|(level, _)| *level == 0).count();
        let left = match output_level {
            0 => replaced.outputs.len(),
            _ => 0,
        };
        merged.saturating_sub(left) as u64
    }

    /// Notes that a compaction has failed, and which tables it could not read.
    fn note_failure(&mut self, compaction: &Compaction, error: &Error, core: &Core) {
        // If only room was short, there may be more of it the next time.
        if compaction.exceeds_estimate() || !matches!(error, Error::DiskFull) {
            self.reclaim.give_up(&compaction.pick.inputs);
        }
        let state = core.tables.load();
        for (_, table) in state.tables.all() {
            if table.note_failure(error) {
                self.unreadable.note(core.now());
            }
        }
    }
}

/// How long the next step is put off now: not at all if compaction is behind.
/// The delay is short, because compaction may fall behind meanwhile.
fn pacing_delay(paced_until: Duration, now: Duration, core: &Core) -> Duration {
    if urgency(core) >= 1.0 {
        return Duration::ZERO;
    }
    let left = paced_until.saturating_sub(now);
    left.min(PACE_DELAY_MAX)
}

/// When the next step is due after one that began at `started` and has kept so many bytes, on the
/// monotonic clock, if so many compactions run.
fn paced_until(
    started: Duration,
    worked: Duration,
    bytes: u64,
    running: u32,
    core: &Core,
) -> Duration {
    let rest = (core.environment.rest_after)(worked, urgency(core));
    let rested = core.now().saturating_add(rest.saturating_mul(running));
    rested.max(started.saturating_add(pace(bytes, core).saturating_mul(running)))
}

#[cfg(test)]
mod tests;
