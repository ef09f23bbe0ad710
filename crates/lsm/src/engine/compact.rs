//! The compaction job: what is merged when, a step at a time.
//!
//! What to merge is decided by a pure function, [`pick`]. A compaction is a
//! row of short jobs, each of which reads some blocks: between them it can be
//! paced, ended, and interleaved with anything else. It rests as long as it
//! works, or longer, as its rate demands, unless it falls behind.
//!
//! A table that turns out to be damaged is moved to level 0 and left out from
//! then on. That is a change of the manifest only: levels say nothing of age,
//! and on level 0 the table is in nobody's way. One that the system cannot read
//! is tried again once in a while.
//!
//! A compaction that fails, for want of room or because an input is damaged, is
//! tried again, less and less often. Writers do not wait for one that cannot work.

use super::Inner;
use super::flush::{Change, REST_MAX};
use super::merging::{Compaction, Replaced};
use super::reclaim::Reclaim;
use crate::compaction::LEVELS;
use crate::compaction::pick::{Pick, PickSettings, may_become_due, pick, pick_all};
use crate::error::Error;
use crate::executor::Lane;
use crate::sync::lock;
use base::Timestamp;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// With so many level-0 tables their compaction is due.
const LEVEL_0_TABLES_DUE: usize = 4;

/// With so many level-0 tables compaction is no longer held to its rate.
const LEVEL_0_TABLES_HURRY: usize = 8;

/// The longest that a step is put off before it is asked again whether
/// compaction has fallen behind: a stalled writer waits for that.
const PACE_DELAY_MAX: Duration = Duration::from_millis(100);

/// How long compaction rests before it looks for what time alone has made due.
const REST: Duration = Duration::from_secs(60);

/// How long tables that could not be read are left out at first, and at most.
/// Each try may read much before it fails.
const UNREADABLE_PAUSE_MIN: Duration = Duration::from_secs(60);
const UNREADABLE_PAUSE_MAX: Duration = Duration::from_secs(3600);

/// The compaction under way, and where each level's next one begins.
#[derive(Default)]
pub(super) struct Compacting {
    current: Option<Compaction>,
    /// When the next step is due by the configured rate, on the monotonic clock.
    paced_until: Duration,
    /// For each level the key after which the next pick starts.
    cursors: [Option<Bytes>; LEVELS],
    reclaim: Reclaim,
    unreadable: Unreadable,
}

/// When tables that could not be read are tried again.
#[derive(Default)]
struct Unreadable {
    /// On the monotonic clock, if there are such tables.
    due: Option<Duration>,
    /// How long the last pause was.
    pause: Duration,
}

impl Unreadable {
    /// Takes note that a table could not be read.
    fn note(&mut self, now: Duration) {
        self.pause = (self.pause * 2).clamp(UNREADABLE_PAUSE_MIN, UNREADABLE_PAUSE_MAX);
        self.due = Some(now.saturating_add(self.pause));
    }

    /// Whether it is time, which it is once only.
    fn is_due(&mut self, now: Duration) -> bool {
        self.due.take_if(|due| now >= *due).is_some()
    }
}

impl Compacting {
    /// Takes note of what a compaction has replaced.
    fn note(&mut self, replaced: Replaced) {
        self.reclaim.replace(&replaced);
        if let Some((level, key)) = replaced.pick.cursor {
            self.cursors[level] = Some(key);
        }
    }
}

/// How a step ended.
enum Step {
    /// There is nothing to compact.
    Idle,
    /// So many bytes were merged or surveyed; more are to come.
    Merged(u64),
    /// A compaction is complete.
    Finished,
}

impl Inner {
    /// Makes sure that a compaction job comes, if compaction is on.
    pub(super) fn schedule_compaction(self: &Arc<Self>, delay: Duration) {
        if self.options.compaction && !self.compaction_scheduled.swap(true, Relaxed) {
            self.spawn(Lane::Compaction, delay, Self::run_compaction);
        }
    }

    /// The compaction job: one step, and the next job.
    fn run_compaction(self: &Arc<Self>) {
        self.compaction_scheduled.store(false, Relaxed);
        // A reader may have held one when it was flushed: here nobody waits.
        self.free_retired();
        if self.check_poison().is_err() {
            return;
        }
        let started = self.environment.clock.monotonic();
        let due = self.compaction_retry.due();
        if started < due {
            return self.wake_compaction_at(due);
        }
        let (step, delay, unreadable_due) = {
            let mut compacting = lock(&self.compacting);
            // Under the lock: a close has given up the compaction that was
            // under way, or will, and none may begin after it.
            if self.is_closing() {
                return;
            }
            let delay = self.pacing_delay(&compacting, started);
            if !delay.is_zero() {
                return self.schedule_compaction(delay);
            }
            let step = self.compact_step(&mut compacting);
            let now = self.environment.clock.monotonic();
            compacting.paced_until = match step {
                Ok(Step::Merged(bytes)) => {
                    let took = now.saturating_sub(started);
                    let rest = now.saturating_add(took.min(REST_MAX));
                    rest.max(started.saturating_add(self.pace(bytes)))
                }
                _ => Duration::ZERO,
            };
            let delay = self.pacing_delay(&compacting, now);
            (step, delay, compacting.unreadable.due)
        };
        self.note_step(&step);
        match step {
            Ok(Step::Idle) => {
                if may_become_due(&self.state.load().tables.summaries()) {
                    self.wake_compaction_at(started.saturating_add(REST));
                }
                if let Some(due) = unreadable_due {
                    self.wake_compaction_at(due);
                }
            }
            Ok(Step::Merged(_)) => self.schedule_compaction(delay),
            Ok(Step::Finished) => {
                self.end_stall();
                self.schedule_compaction(Duration::ZERO);
            }
            Err(error @ Error::Poisoned { .. }) => self.fail_stall(&error),
            Err(_) => {
                // Nothing waits for a compaction that is stuck.
                self.end_stall();
                // At its time.
                self.schedule_compaction(Duration::ZERO);
            }
        }
    }

    /// Takes note of how a step ended, for when the next may be tried.
    fn note_step(&self, step: &Result<Step, Error>) {
        match step {
            Ok(Step::Merged(_)) | Err(Error::Poisoned { .. }) => {}
            Ok(Step::Idle | Step::Finished) => self.compaction_retry.succeed(),
            Err(error) => {
                let failures = self
                    .compaction_retry
                    .fail(self.environment.clock.monotonic());
                tracing::warn!(%error, failures, "a compaction failed and will be tried again");
            }
        }
    }

    /// How long `bytes` may take at the configured rate.
    fn pace(&self, bytes: u64) -> Duration {
        let rate = self.options.compaction_bytes_per_second.max(1);
        Duration::from_secs_f64(bytes as f64 / rate as f64)
    }

    /// How long the next step is put off now; no time when compaction is
    /// behind. Asked again soon, since it may fall behind meanwhile.
    fn pacing_delay(&self, compacting: &Compacting, now: Duration) -> Duration {
        if self
            .state
            .load()
            .tables
            .are_level_zero(LEVEL_0_TABLES_HURRY)
        {
            return Duration::ZERO;
        }
        let left = compacting.paced_until.saturating_sub(now);
        left.min(PACE_DELAY_MAX)
    }

    /// Compacts until the current or next compaction is complete, or compaction is stuck.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(super) fn compact_once(self: &Arc<Self>) -> Result<(), Error> {
        let mut compacting = lock(&self.compacting);
        let mut result = Ok(());
        // Another thread may have found it stuck while this waited for the lock.
        while !self.is_compaction_stuck() {
            let step = self.compact_step(&mut compacting);
            self.note_step(&step);
            match step {
                Ok(Step::Merged(_)) => {}
                Ok(Step::Idle | Step::Finished) => break,
                Err(error @ Error::Poisoned { .. }) => {
                    result = Err(error);
                    break;
                }
                // It is stuck now.
                Err(_) => self.schedule_compaction(Duration::ZERO),
            }
        }
        drop(compacting);
        self.end_stall();
        result
    }

    /// Merges all tables into the last level.
    pub(super) fn compact_all(self: &Arc<Self>) -> Result<(), Error> {
        self.flush_all()?;
        let mut compacting = lock(&self.compacting);
        while compacting.current.is_some() {
            self.check_closing()?;
            self.compact_step(&mut compacting)?;
        }
        self.check_closing()?;
        // What it learned is of tables that are about to go.
        compacting.reclaim = Reclaim::default();
        self.set_damaged_aside()?;
        if let Some(pick) = pick_all(&self.state.load().tables.summaries()) {
            compacting.current = Some(self.start_compaction(pick, None));
            while let Step::Merged(_) = self.compact_step(&mut compacting)? {
                self.check_closing()?;
            }
        }
        drop(compacting);
        self.end_stall();
        Ok(())
    }

    /// Refuses to begin or go on with a compaction while the engine is closed:
    /// the close gives up what is under way.
    fn check_closing(&self) -> Result<(), Error> {
        if self.is_closing() {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// Gives up a compaction that is under way; its files go.
    pub(super) fn abandon_compaction(&self) {
        let mut compacting = lock(&self.compacting);
        compacting.reclaim = Reclaim::default();
        if let Some(compaction) = compacting.current.take() {
            self.abandon(compaction);
        }
    }

    fn compact_step(self: &Arc<Self>, compacting: &mut Compacting) -> Result<Step, Error> {
        let mut compaction = match compacting.current.take() {
            Some(current) => current,
            None => {
                self.try_unreadable_again(&mut compacting.unreadable);
                self.set_damaged_aside()?;
                if let Some(compaction) = self.begin_hidden(&compacting.reclaim) {
                    compaction
                } else if let Some(bytes) = self.survey_some(&mut compacting.reclaim) {
                    return Ok(Step::Merged(bytes));
                } else if let Some(pick) = self.pick(&compacting.cursors) {
                    self.start_compaction(pick, None)
                } else {
                    return Ok(Step::Idle);
                }
            }
        };
        let result = match self.merge_some(&mut compaction) {
            Ok(Some(bytes)) => {
                compacting.current = Some(compaction);
                return Ok(Step::Merged(bytes));
            }
            Ok(None) => self
                .complete(compaction)
                .map(|replaced| compacting.note(replaced)),
            Err(error) => {
                // Where only the room was short there may be more the next time.
                if compaction.is_larger_than_thought() || !matches!(error, Error::DiskFull) {
                    compacting.reclaim.give_up(&compaction.pick.inputs);
                }
                let state = self.state.load();
                for (_, table) in state.tables.iter() {
                    if table.note_failure(&error) {
                        compacting
                            .unreadable
                            .note(self.environment.clock.monotonic());
                    }
                }
                self.abandon(compaction);
                Err(error)
            }
        };
        match result {
            Ok(()) => Ok(Step::Finished),
            Err(error) => Err(self.poison_if_sync(error)),
        }
    }

    /// Has tables that could not be read tried once more when it is time.
    fn try_unreadable_again(&self, unreadable: &mut Unreadable) {
        if unreadable.is_due(self.environment.clock.monotonic()) {
            for (_, table) in self.state.load().tables.iter() {
                table.try_again();
            }
        }
    }

    /// Moves the tables that are known to be damaged to level 0.
    fn set_damaged_aside(self: &Arc<Self>) -> Result<(), Error> {
        let state = self.state.load();
        let damaged = state.tables.iter();
        let damaged = damaged.filter(|(level, table)| *level > 0 && table.is_damaged());
        let moved: Vec<_> = damaged.map(|(_, table)| Arc::clone(table)).collect();
        if moved.is_empty() {
            return Ok(());
        }
        let change = Change {
            moved: moved.into_iter().map(|table| (0, table)).collect(),
            ..Change::default()
        };
        self.install(change)
            .map_err(|error| self.poison_if_sync(error))
    }

    /// On a full disk, begins to rewrite a table without what is hidden in it,
    /// if one is worth it.
    fn begin_hidden(&self, reclaim: &Reclaim) -> Option<Compaction> {
        let (pick, left) = self.pick_hidden(reclaim)?;
        let compaction = self.start_compaction(pick, Some(left));
        // A scan that has begun since the pick sees what was to go.
        (!compaction.has_snapshots()).then_some(compaction)
    }

    /// What is due, room or not.
    fn pick(&self, cursors: &[Option<Bytes>; LEVELS]) -> Option<Pick> {
        let settings = PickSettings {
            level_zero_tables: LEVEL_0_TABLES_DUE,
            base_bytes: (LEVEL_0_TABLES_DUE * self.options.memtable_bytes) as u64,
            table_bytes: self.options.table_bytes,
            room_bytes: self.room_bytes(),
        };
        // What a compaction could not drop now must not be picked for it.
        let (bound, expired_before_unix_ms) = if self.snapshots.hold_compaction_back() {
            (Timestamp::ZERO, 0)
        } else {
            let bound = (self.environment.drop_bound)();
            let expired_before_unix_ms = (self.environment.expired_before_unix_ms)();
            let bound = bound.min(self.least_timestamp_in_memory());
            (bound, expired_before_unix_ms)
        };
        pick(
            &self.state.load().tables.summaries(),
            &settings,
            cursors,
            expired_before_unix_ms,
            bound,
        )
    }
}
