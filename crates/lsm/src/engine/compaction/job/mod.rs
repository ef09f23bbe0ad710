//! The compaction job: what is merged when, a step at a time.
//!
//! A compaction is a row of short jobs, each of which reads some blocks. Between
//! them it can be paced, ended, and interleaved with anything else. It rests for
//! as long as its environment says, or for longer if its rate demands that. The
//! further it falls behind, the less it rests.
//!
//! A table that turns out to be damaged is moved to level 0 and left out from
//! then on. That changes only the manifest: a level says nothing about age, and on
//! level 0, where tables may overlap, the table keeps no other from being merged.
//! A table that the system cannot read is tried again once in a while. A damaged table
//! is rewritten once its damaged parts were compared with other stores
//! ([`damage`](crate::engine::table_set::damage)).
//!
//! A compaction that fails because there is no room or because an input is damaged
//! is tried again, less and less often. Writers do not wait for one that cannot work.

pub(super) mod aside;
pub(super) mod begin;
pub(super) mod retry;
pub(super) mod unreadable;

use super::merging::{Compaction, Replaced};
use super::pick::Reason;
use super::pressure::{pace, urgency};
use super::purges::Purges;
use super::quiet::{QuietMemtable, has_dead};
use super::reclaim::Reclaim;
use super::whole::{Orders, Whole, WholeCompaction};
use crate::engine::background::EngineJob;
use crate::engine::core::Core;
use crate::error::Error;
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

/// The owner of the compaction under way.
///
/// Locks: `state`, held while a step runs, comes before all locks but the
/// folder's; then that of `retry` or of `orders`.
#[derive(Default)]
pub(crate) struct Compactor {
    state: Mutex<CompactorState>,
    retry: Retry,
    failures: Mutex<LogLimiter>,
    orders: Orders,
}

/// The compaction under way, and what decides about the next one.
#[derive(Default)]
pub(super) struct CompactorState {
    current: Option<Compaction>,
    /// How long its steps took.
    busy: Duration,
    /// When the next step is due by the configured rate, on the monotonic clock.
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
enum CompactionStep {
    /// There is nothing to compact.
    Idle,
    /// This number of bytes was merged or surveyed, and there is more to do.
    Merged(u64),
    /// Tables have moved down, and there may be more to do.
    Moved,
    /// A compaction is complete.
    Finished,
}

impl Compactor {
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

    /// Schedules a compaction job, if compaction is on or a whole one was ordered.
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

    /// The compaction job: takes one step, and schedules the next job.
    pub(crate) fn run(&self, core: &Core) {
        // A reader may have held a memtable when it was flushed. Nothing waits
        // for this job, so it can free the memtable now.
        core.tables.free_retired();
        if core.health.check_poison().is_err() {
            return;
        }
        let started = core.now();
        let clock = &*core.environment.clock;
        let work = WorkTimer::start(clock);
        let due = self.retry.due();
        if started < due {
            return self.wake_at(due, core);
        }
        let (step, delay, unreadable_due) = {
            let mut state = lock(&self.state);
            // Under the lock: a close has abandoned the compaction that was under
            // way, or will, and none may begin after it.
            if core.health.is_closing() {
                return;
            }
            let delay = state.pacing_delay(core, started);
            if !delay.is_zero() {
                return self.schedule(delay, core);
            }
            let step = state.step(&self.orders, core);
            let now = core.now();
            state.paced_until = match step {
                Ok(CompactionStep::Merged(bytes)) => {
                    let rest = (core.environment.rest_after)(work.worked(clock), urgency(core));
                    let rested = now.saturating_add(rest);
                    rested.max(started.saturating_add(pace(bytes, core)))
                }
                _ => Duration::ZERO,
            };
            (step, state.pacing_delay(core, now), state.unreadable.due)
        };
        self.note_step(&step, core);
        match step {
            Ok(CompactionStep::Idle) => {
                if has_dead(&core.tables.load()) {
                    self.schedule_check(core);
                }
                if let Some(due) = unreadable_due {
                    self.wake_at(due, core);
                }
            }
            Ok(CompactionStep::Merged(_)) => self.schedule(delay, core),
            Ok(CompactionStep::Moved | CompactionStep::Finished) => {
                core.end_stall();
                self.schedule(Duration::ZERO, core);
            }
            Err(error @ Error::Poisoned { .. }) => core.fail_stall(&error),
            Err(_) => {
                // Writers do not wait for a compaction that is stuck.
                core.end_stall();
                // The job that comes finds out when the next attempt is due.
                self.schedule(Duration::ZERO, core);
            }
        }
    }

    /// Notes how a step ended, which decides when the next may be tried.
    fn note_step(&self, step: &Result<CompactionStep, Error>, core: &Core) {
        match step {
            // That tables move says nothing of whether tables can be merged.
            Ok(CompactionStep::Merged(_) | CompactionStep::Moved) => self.retry.note_progress(),
            Err(Error::Poisoned { .. }) => {}
            Ok(CompactionStep::Idle | CompactionStep::Finished) => self.retry.note_success(),
            Err(error) => {
                let failures = self.retry.note_failure(core.now());
                if lock(&self.failures).admits_failure(&error.to_string(), core.now()) {
                    tracing::warn!(%error, failures, "a compaction failed and will be tried again");
                }
            }
        }
    }

    /// Compacts on this thread until the current or next compaction is complete, tables have
    /// moved down, or compaction is stuck.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn compact_once(&self, core: &Core) -> Result<(), Error> {
        let mut state = lock(&self.state);
        let mut result = Ok(());
        // Another thread may have found it stuck while this one waited for the lock.
        while !self.is_stuck() {
            let step = state.step(&self.orders, core);
            self.note_step(&step, core);
            match step {
                Ok(CompactionStep::Merged(_)) => {}
                Ok(CompactionStep::Idle | CompactionStep::Moved | CompactionStep::Finished) => {
                    break;
                }
                Err(error @ Error::Poisoned { .. }) => {
                    result = Err(error);
                    break;
                }
                // It is stuck now, and a job tries again.
                Err(_) => self.schedule(Duration::ZERO, core),
            }
        }
        drop(state);
        core.end_stall();
        result
    }

    /// Orders a whole compaction, or joins the one under way. Returns its number.
    pub(crate) fn order_whole(&self, core: &Core) -> u64 {
        let number = self.orders.order();
        self.schedule(Duration::ZERO, core);
        number
    }

    /// Notes that a flush has failed. A whole compaction that waits for it ends: on a full disk
    /// an operator would wait for ever.
    pub(crate) fn note_flush_failure(&self, error: &Error) {
        let state = lock(&self.state);
        if state.current.is_none() && state.whole.awaits_flush() {
            self.orders.end(Some(error.clone()));
        }
    }

    /// Where whole compactions stand.
    pub(crate) fn whole(&self, core: &Core) -> WholeCompaction {
        if let Err(poisoned) = core.health.check_poison() {
            self.orders.end(Some(poisoned));
        }
        self.orders.get()
    }

    /// Does the work of a whole compaction on this thread. Returns whether it is over;
    /// otherwise it waits for a flush.
    ///
    /// # Errors
    /// Those of merging, and [`Error::Closed`].
    pub(crate) fn drive_whole(&self, number: u64, core: &Core) -> Result<bool, Error> {
        loop {
            let mut state = lock(&self.state);
            check_closing(core)?;
            if let Some(outcome) = self.orders.outcome(number) {
                drop(state);
                core.end_stall();
                return outcome.map(|()| true);
            }
            match state.step(&self.orders, core) {
                Ok(
                    CompactionStep::Merged(_) | CompactionStep::Moved | CompactionStep::Finished,
                ) => {}
                Ok(CompactionStep::Idle) if !self.orders.is_under_way() => {}
                Ok(CompactionStep::Idle) => return Ok(false),
                Err(error) => {
                    self.orders.end(Some(error.clone()));
                    return Err(error);
                }
            }
        }
    }

    /// Gives up the compaction that is under way, and lets none begin before `change` is made.
    pub(crate) fn pause<T>(&self, core: &Core, change: impl FnOnce() -> T) -> T {
        let mut state = lock(&self.state);
        if let Some(compaction) = state.current.take() {
            compaction.abandon(core);
        }
        change()
    }

    /// Abandons the compaction that is under way, and removes its files.
    pub(crate) fn abandon(&self, core: &Core) {
        let mut state = lock(&self.state);
        self.orders.end(Some(Error::Closed));
        state.reclaim = Reclaim::default();
        if let Some(compaction) = state.current.take() {
            compaction.abandon(core);
        }
    }
}

impl CompactorState {
    /// Goes on with the compaction under way, or begins one.
    fn step(&mut self, orders: &Orders, core: &Core) -> Result<CompactionStep, Error> {
        let started = core.now();
        let before = core.tables.load().tables.level_zero_tables();
        let step = self.try_step(orders, core);
        self.busy += core.now().saturating_sub(started);
        if matches!(step, Ok(CompactionStep::Merged(_))) {
            return step;
        }
        let busy = std::mem::take(&mut self.busy);
        // A move takes no time, and says nothing of how long the next merge takes.
        if matches!(step, Ok(CompactionStep::Moved)) {
            return step;
        }
        let after = core.tables.load().tables.level_zero_tables();
        // A flush may have added a table meanwhile, which hardly matters.
        let merged = before.saturating_sub(after) as u64;
        // Work on other levels says nothing of how fast level 0 is emptied. While that takes
        // long, level 0 fills up, and the writers are slowed because their room shrinks.
        if merged > 0 {
            let bytes = merged.saturating_mul(core.options.memtable_bytes as u64);
            core.write_rate.compaction.note(bytes, busy);
        }
        step
    }

    fn try_step(&mut self, orders: &Orders, core: &Core) -> Result<CompactionStep, Error> {
        let mut compaction = match self.current.take() {
            Some(current) => current,
            None => match self.begin(orders, core)? {
                Beginning::Compaction(compaction) => *compaction,
                Beginning::Moved => return Ok(CompactionStep::Moved),
                Beginning::Surveyed(bytes) => return Ok(CompactionStep::Merged(bytes)),
                Beginning::Nothing => {
                    // The flush wakes compaction when it ends.
                    self.quiet.flush_if_due(core);
                    return Ok(CompactionStep::Idle);
                }
            },
        };
        let is_whole = compaction.pick.reason == Reason::Whole;
        let is_rewrite = compaction.pick.reason == Reason::Damaged;
        let result = match compaction.merge_some(core) {
            Ok(Some(bytes)) => {
                self.current = Some(compaction);
                return Ok(CompactionStep::Merged(bytes));
            }
            Ok(None) => compaction
                .complete(core)
                .map(|replaced| self.note_replaced(replaced, orders, core.now())),
            Err(error) => {
                self.note_failure(&compaction, &error, core);
                compaction.abandon(core);
                Err(error)
            }
        };
        match result {
            Ok(()) => Ok(CompactionStep::Finished),
            Err(error) => {
                self.rewrite_failed = is_rewrite;
                // While compaction is behind, ordinary ones go first. Without room they fail
                // again and again, and an operator would wait for a whole one without a word.
                if is_whole || matches!(error, Error::DiskFull) {
                    orders.end(Some(error.clone()));
                }
                Err(core.poison_if_sync(error))
            }
        }
    }

    /// Notes what a compaction has replaced.
    fn note_replaced(&mut self, replaced: Replaced, orders: &Orders, now: Duration) {
        self.purges.note_replaced(&replaced, now);
        self.reclaim.note_replaced(&replaced);
        self.whole.note_replaced(&replaced, orders);
        if let Some((level, key)) = replaced.pick.cursor {
            self.cursors[level] = Some(key);
        }
    }

    /// Notes that a compaction has failed, and which tables it could not read.
    fn note_failure(&mut self, compaction: &Compaction, error: &Error, core: &Core) {
        // If only room was short, there may be more of it the next time.
        if compaction.exceeds_estimate() || !matches!(error, Error::DiskFull) {
            self.reclaim.give_up(&compaction.pick.inputs);
        }
        let state = core.tables.load();
        for (_, table) in state.tables.iter() {
            if table.note_failure(error) {
                self.unreadable.note(core.now());
            }
        }
    }

    /// How long the next step is put off now: not at all if compaction is behind.
    /// The delay is short, because compaction may fall behind meanwhile.
    fn pacing_delay(&self, core: &Core, now: Duration) -> Duration {
        if urgency(core) >= 1.0 {
            return Duration::ZERO;
        }
        let left = self.paced_until.saturating_sub(now);
        left.min(PACE_DELAY_MAX)
    }
}

/// Checks that the engine is not being closed: the close abandons what is under way.
///
/// # Errors
/// [`Error::Closed`].
fn check_closing(core: &Core) -> Result<(), Error> {
    if core.health.is_closing() {
        Err(Error::Closed)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
