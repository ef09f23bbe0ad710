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
//! ([`damage`](crate::engine::damage)).
//!
//! A compaction that fails because there is no room or because an input is damaged
//! is tried again, less and less often. Writers do not wait for one that cannot work.

use super::merging::{Compaction, Replaced};
use super::pick::{Pick, PickSettings, Reason, may_become_due, pick, pick_all, summarize};
use super::purges::Purges;
use super::reclaim::Reclaim;
use super::retry::Retry;
use super::unreadable::Unreadable;
use crate::engine::background::EngineJob;
use crate::engine::core::Core;
use crate::engine::table_set::TableEdit;
use crate::error::Error;
use crate::manifest::LEVELS;
use crate::sync::lock;
use base::Timestamp;
use bytes::Bytes;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// From this many level-0 tables on, their compaction is due.
const LEVEL_0_TABLES_DUE: usize = 4;

/// From this many level-0 tables on, compaction does not rest: writers are slowed from
/// a few more on.
const LEVEL_0_TABLES_HURRY: usize = 8;

/// The longest pause before the job checks again whether compaction has fallen behind
/// and has to hurry.
const PACE_DELAY_MAX: Duration = Duration::from_millis(100);

/// How long compaction rests before it checks what time alone has made due.
const IDLE_DELAY: Duration = Duration::from_secs(60);

/// The owner of the compaction under way.
///
/// Locks: `state`, held while a step runs, comes before all locks but the
/// folder's; then that of `retry`.
#[derive(Default)]
pub(crate) struct Compactor {
    state: Mutex<CompactorState>,
    retry: Retry,
}

/// The compaction under way, and what decides about the next one.
#[derive(Default)]
struct CompactorState {
    current: Option<Compaction>,
    /// When the next step is due by the configured rate, on the monotonic clock.
    paced_until: Duration,
    /// For each level the key after which the next pick starts.
    cursors: [Option<Bytes>; LEVELS],
    reclaim: Reclaim,
    unreadable: Unreadable,
    purges: Purges,
    /// Whether the last attempt to mend a table has failed, so that others come first.
    mend_failed: bool,
}

/// How a step of compaction ended.
enum CompactionStep {
    /// There is nothing to compact.
    Idle,
    /// This number of bytes was merged or surveyed, and there is more to do.
    Merged(u64),
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
        core.schedule_compaction(Duration::ZERO);
    }

    /// Schedules a compaction job for a time of the monotonic clock.
    fn wake_at(&self, due: Duration, core: &Core) {
        if self.retry.set_timer(due) {
            let delay = due.saturating_sub(core.now());
            core.background
                .schedule(EngineJob::WakeCompaction(due), delay);
        }
    }

    /// The job of the timer for `due`.
    pub(crate) fn wake(&self, due: Duration, core: &Core) {
        if self.retry.fire_timer(due) {
            core.schedule_compaction(Duration::ZERO);
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
                return core.schedule_compaction(delay);
            }
            let step = state.step(core);
            let now = core.now();
            state.paced_until = match step {
                Ok(CompactionStep::Merged(bytes)) => {
                    let took = now.saturating_sub(started);
                    let rest = (core.environment.rest_after)(took, urgency(core));
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
                if may_become_due(&summarize(&core.tables.load().tables)) {
                    self.wake_at(started.saturating_add(IDLE_DELAY), core);
                }
                if let Some(due) = unreadable_due {
                    self.wake_at(due, core);
                }
            }
            Ok(CompactionStep::Merged(_)) => core.schedule_compaction(delay),
            Ok(CompactionStep::Finished) => {
                core.end_stall();
                core.schedule_compaction(Duration::ZERO);
            }
            Err(error @ Error::Poisoned { .. }) => core.fail_stall(&error),
            Err(_) => {
                // Writers do not wait for a compaction that is stuck.
                core.end_stall();
                // The job that comes finds out when the next attempt is due.
                core.schedule_compaction(Duration::ZERO);
            }
        }
    }

    /// Notes how a step ended, which decides when the next may be tried.
    fn note_step(&self, step: &Result<CompactionStep, Error>, core: &Core) {
        match step {
            Ok(CompactionStep::Merged(_)) => self.retry.note_progress(),
            Err(Error::Poisoned { .. }) => {}
            Ok(CompactionStep::Idle | CompactionStep::Finished) => self.retry.note_success(),
            Err(error) => {
                let failures = self.retry.note_failure(core.now());
                tracing::warn!(%error, failures, "a compaction failed and will be tried again");
            }
        }
    }

    /// Compacts on this thread until the current or next compaction is complete,
    /// or compaction is stuck.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn compact_once(&self, core: &Core) -> Result<(), Error> {
        let mut state = lock(&self.state);
        let mut result = Ok(());
        // Another thread may have found it stuck while this one waited for the lock.
        while !self.is_stuck() {
            let step = state.step(core);
            self.note_step(&step, core);
            match step {
                Ok(CompactionStep::Merged(_)) => {}
                Ok(CompactionStep::Idle | CompactionStep::Finished) => break,
                Err(error @ Error::Poisoned { .. }) => {
                    result = Err(error);
                    break;
                }
                // It is stuck now, and a job tries again.
                Err(_) => core.schedule_compaction(Duration::ZERO),
            }
        }
        drop(state);
        core.end_stall();
        result
    }

    /// Merges all tables into the last level, on this thread.
    ///
    /// # Errors
    /// Those of merging, and [`Error::Closed`].
    pub(crate) fn compact_all(&self, core: &Core) -> Result<(), Error> {
        let mut state = lock(&self.state);
        while state.current.is_some() {
            check_closing(core)?;
            state.step(core)?;
        }
        check_closing(core)?;
        // Its surveys describe tables that this compaction replaces.
        state.reclaim = Reclaim::default();
        set_damaged_aside(core)?;
        while let Some(mend) = state.begin_mend(core) {
            state.current = Some(mend);
            while let CompactionStep::Merged(_) = state.step(core)? {
                check_closing(core)?;
            }
        }
        let pick = || pick_all(&summarize(&core.tables.load().tables));
        while let Some(pick) = pick() {
            state.current = Compaction::start(pick, None, core);
            if state.current.is_none() {
                // An ingest has come in between.
                continue;
            }
            while let CompactionStep::Merged(_) = state.step(core)? {
                check_closing(core)?;
            }
            break;
        }
        drop(state);
        core.end_stall();
        Ok(())
    }

    /// Abandons the compaction that is under way, and removes its files.
    pub(crate) fn abandon(&self, core: &Core) {
        let mut state = lock(&self.state);
        state.reclaim = Reclaim::default();
        if let Some(compaction) = state.current.take() {
            compaction.abandon(core);
        }
    }
}

impl CompactorState {
    /// Goes on with the compaction under way, or begins one.
    fn step(&mut self, core: &Core) -> Result<CompactionStep, Error> {
        let mut compaction = match self.current.take() {
            Some(current) => current,
            None => {
                self.try_unreadable_again(core);
                set_damaged_aside(core)?;
                if let Some(compaction) = self.begin_mend(core) {
                    compaction
                } else if let Some(compaction) = self.begin_hidden(core) {
                    compaction
                } else if let Some(bytes) = self.reclaim.survey_some(core) {
                    return Ok(CompactionStep::Merged(bytes));
                } else if let Some(pick) = self.pick(core) {
                    match Compaction::start(pick, None, core) {
                        Some(compaction) => compaction,
                        // The next step picks again.
                        None => return Ok(CompactionStep::Merged(0)),
                    }
                } else {
                    return Ok(CompactionStep::Idle);
                }
            }
        };
        let result = match compaction.merge_some(core) {
            Ok(Some(bytes)) => {
                self.current = Some(compaction);
                return Ok(CompactionStep::Merged(bytes));
            }
            Ok(None) => compaction
                .complete(core)
                .map(|replaced| self.note_replaced(replaced, core.now())),
            Err(error) => {
                self.note_failure(&compaction, &error, core);
                compaction.abandon(core);
                Err(error)
            }
        };
        match result {
            Ok(()) => Ok(CompactionStep::Finished),
            Err(error) => Err(core.poison_if_sync(error)),
        }
    }

    /// Notes what a compaction has replaced.
    fn note_replaced(&mut self, replaced: Replaced, now: Duration) {
        self.purges.note_replaced(&replaced, now);
        self.reclaim.note_replaced(&replaced);
        if let Some((level, key)) = replaced.pick.cursor {
            self.cursors[level] = Some(key);
        }
    }

    /// Notes that a compaction has failed, and which tables it could not read.
    fn note_failure(&mut self, compaction: &Compaction, error: &Error, core: &Core) {
        self.mend_failed = compaction.pick.reason == Reason::Damaged;
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

    /// Allows another try of the tables that could not be read, when it is time.
    fn try_unreadable_again(&mut self, core: &Core) {
        if self.unreadable.is_due(core.now()) {
            for (_, table) in core.tables.load().tables.iter() {
                table.try_again();
            }
        }
    }

    /// Begins to rewrite a table without its damaged parts, if one was compared.
    fn begin_mend(&mut self, core: &Core) -> Option<Compaction> {
        if std::mem::take(&mut self.mend_failed) {
            return None;
        }
        let (level, table) = core.damage.mendable(&core.tables.load())?;
        let pick = Pick {
            inputs: vec![(level, table)],
            output_level: level,
            reason: Reason::Damaged,
            cursor: None,
        };
        Compaction::start(pick, None, core)
    }

    /// On a full disk, begins to rewrite a table without what is hidden in it, if
    /// one is worth it.
    fn begin_hidden(&self, core: &Core) -> Option<Compaction> {
        let (pick, left_bytes) = self.reclaim.pick(core)?;
        let compaction = Compaction::start(pick, Some(left_bytes), core)?;
        // A scan that has begun since the pick sees what the compaction would drop.
        (!compaction.has_snapshots()).then_some(compaction)
    }

    /// What is due, whether or not there is room for it.
    fn pick(&mut self, core: &Core) -> Option<Pick> {
        let settings = PickSettings {
            level_zero_tables: LEVEL_0_TABLES_DUE,
            base_bytes: (LEVEL_0_TABLES_DUE * core.options.memtable_bytes) as u64,
            table_bytes: core.options.table_bytes,
            room_bytes: core.health.full_disk().compaction_bytes_max(),
        };
        // A table must not be picked for what its compaction could not drop now.
        let (bound, expired_before_unix_ms) = if core.snapshots.hold_compaction_back() {
            (Timestamp::ZERO, 0)
        } else {
            let bound = (core.environment.drop_bound)();
            let expired_before_unix_ms = (core.environment.expired_before_unix_ms)();
            let bound = bound.min(core.least_timestamp_in_memory());
            (bound, expired_before_unix_ms)
        };
        pick(
            &summarize(&core.tables.load().tables),
            &settings,
            &self.cursors,
            expired_before_unix_ms,
            bound,
        )
        .or_else(|| self.purges.pick(core, &settings, bound))
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

/// How urgent compaction is: from 0 to 1, at which writers will soon wait for it.
fn urgency(core: &Core) -> f64 {
    let tables = core.tables.load().tables.level_zero_tables() as f64;
    let (due, hurry) = (LEVEL_0_TABLES_DUE as f64, LEVEL_0_TABLES_HURRY as f64);
    ((tables - due) / (hurry - due)).clamp(0.0, 1.0)
}

/// How long `bytes` may take at the configured rate.
fn pace(bytes: u64, core: &Core) -> Duration {
    let rate = core.options.compaction_bytes_per_second.max(1);
    Duration::from_secs_f64(bytes as f64 / rate as f64)
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

/// Moves the tables that are damaged to level 0.
fn set_damaged_aside(core: &Core) -> Result<(), Error> {
    let state = core.tables.load_full();
    let damaged = state.tables.iter();
    let damaged = damaged.filter(|(level, table)| *level > 0 && table.is_damaged());
    let moved: Vec<_> = damaged.map(|(_, table)| (0, Arc::clone(table))).collect();
    if moved.is_empty() {
        return Ok(());
    }
    let edit = TableEdit {
        moved,
        ..TableEdit::default()
    };
    core.tables
        .apply(edit)
        .map_err(|error| core.poison_if_sync(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BlockingWrite, environment};
    use crate::{Engine, MemoryDisk, Options};
    use base::{Entry, Expiry};

    #[test]
    fn a_closing_engine_begins_no_compaction() {
        for closing in [false, true] {
            let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
            let (engine, _) = Engine::open(environment, Options::default()).unwrap();
            for timestamp in 1..=LEVEL_0_TABLES_DUE as u64 {
                let timestamp = Timestamp::from_u64(timestamp);
                engine
                    .write(Entry::value(b"k", timestamp, b"v", Expiry::NEVER, 1))
                    .unwrap();
                engine.flush().unwrap();
            }
            let core = &engine.inner.core;
            if closing {
                core.health.close();
            }
            engine.inner.compactor.run(core);
            let state = lock(&engine.inner.compactor.state);
            let compactions = engine.statistics().compactions;
            assert_eq!(state.current.is_none() && compactions == 0, closing);
        }
    }
}
