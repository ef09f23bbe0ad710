//! Compaction: merges tables down the levels, a step at a time.
//!
//! What to merge is decided by a pure function, [`pick`]. A compaction is a
//! row of short jobs, each of which reads some blocks: between them it can be
//! paced, ended, and interleaved with anything else. It rests as long as it
//! works, or longer, as its rate demands, unless it falls behind.
//!
//! A compaction that fails, for want of room or because an input is damaged, is
//! tried again, less and less often. Writers do not wait for one that cannot work.

use super::Inner;
use super::flush::{Change, Output, REST_MAX};
use super::reclaim::{Reclaim, newer_in};
use super::scan::LevelSource;
use super::state::Tables;
use crate::compaction::LEVELS;
use crate::compaction::pick::{Pick, PickSettings, Reason, may_become_due, pick, pick_all};
use crate::compaction::retention::{Advance, Retained, Retention};
use crate::entry::RecordSource;
use crate::error::Error;
use crate::executor::Lane;
use crate::merge::Merge;
use crate::sync::lock;
use crate::table::{Purpose, Table};
use crate::timestamp::Timestamp;
use bytes::Bytes;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How many bytes a step reads before it gives the lane back.
/// About a millisecond's work: a core is not kept from a request for longer.
const STEP_BYTES: u64 = 128 << 10;

/// With so many level-0 tables their compaction is due.
const LEVEL_0_TABLES_DUE: usize = 4;

/// With so many level-0 tables compaction is no longer held to its rate.
const LEVEL_0_TABLES_HURRY: usize = 8;

/// The longest that a step is put off before it is asked again whether
/// compaction has fallen behind: a stalled writer waits for that.
const PACE_DELAY_MAX: Duration = Duration::from_millis(100);

/// How long compaction rests before it looks for what time alone has made due.
const REST: Duration = Duration::from_secs(60);

/// The compaction under way, and where each level's next one begins.
#[derive(Default)]
pub(super) struct Compacting {
    current: Option<Compaction>,
    /// When the next step is due by the configured rate, on the monotonic clock.
    paced_until: Duration,
    /// For each level the key after which the next pick starts.
    cursors: [Option<Bytes>; LEVELS],
    reclaim: Reclaim,
}

/// A compaction under way.
struct Compaction {
    pick: Pick,
    records: Retained<Merge>,
    output: Option<Output>,
    last_key: Vec<u8>,
    outputs: Vec<Arc<Table>>,
    /// The bytes of its inputs' files.
    read_bytes: u64,
    /// The bytes of the keys and values in them.
    entry_bytes: u64,
    /// What it is thought to write at most, in bytes.
    write_bytes_max: u64,
}

impl Compaction {
    /// What it has written so far, in bytes.
    fn written_bytes(&self) -> u64 {
        let complete: u64 = self.outputs.iter().map(|table| table.file_bytes()).sum();
        let current = self.output.as_ref();
        complete + current.map_or(0, |output| output.writer.file_bytes())
    }

    /// What it may still write, in bytes: as much as it has not read once it
    /// has turned out that less is dropped than was thought.
    fn left_bytes(&self) -> u64 {
        let written = self.written_bytes();
        match self.write_bytes_max.checked_sub(written) {
            Some(left) => left,
            None => self.read_bytes.saturating_sub(written),
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
        let (step, delay) = {
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
            (step, self.pacing_delay(&compacting, now))
        };
        self.note_step(&step);
        match step {
            Ok(Step::Idle) => {
                if may_become_due(&self.state.load().tables.summaries()) {
                    self.wake_compaction_at(started.saturating_add(REST));
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
        if self.state.load().tables.levels()[0].len() >= LEVEL_0_TABLES_HURRY {
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
        if let Some(pick) = pick_all(&self.state.load().tables.summaries()) {
            compacting.current = Some(self.start(pick, None));
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
                if let Some(compaction) = self.begin_hidden(&compacting.reclaim) {
                    compaction
                } else if let Some(bytes) = self.survey_some(&mut compacting.reclaim) {
                    return Ok(Step::Merged(bytes));
                } else if let Some(pick) = self.pick(&compacting.cursors) {
                    self.start(pick, None)
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
            Ok(None) => self.complete(compaction, compacting),
            Err(error) => {
                // Where only the room was short there may be more the next time.
                let has_tried = compaction.written_bytes() > compaction.write_bytes_max;
                if has_tried || !matches!(error, Error::DiskFull) {
                    compacting.reclaim.give_up(&compaction.pick.inputs);
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

    /// On a full disk, begins to rewrite a table without what is hidden in it,
    /// if one is worth it.
    fn begin_hidden(&self, reclaim: &Reclaim) -> Option<Compaction> {
        let (pick, left) = self.pick_hidden(reclaim)?;
        let compaction = self.start(pick, Some(left));
        // A scan that has begun since the pick sees what was to go.
        (!compaction.records.has_snapshots()).then_some(compaction)
    }

    /// What is due, room or not.
    fn pick(&self, cursors: &[Option<Bytes>; LEVELS]) -> Option<Pick> {
        let settings = PickSettings {
            level_zero_tables: LEVEL_0_TABLES_DUE,
            base_bytes: (LEVEL_0_TABLES_DUE * self.options.memtable_bytes) as u64,
            room_bytes: self.room_bytes(),
        };
        // What a compaction could not drop now must not be picked for it.
        let bound = if self.snapshots.hold_compaction_back() {
            Timestamp::ZERO
        } else {
            let bound = (self.environment.drop_bound)();
            bound.min(self.least_timestamp_in_memory())
        };
        pick(
            &self.state.load().tables.summaries(),
            &settings,
            cursors,
            self.environment.clock.unix_ms(),
            bound,
        )
    }

    /// The least timestamp of all that no table has yet: what waits for its
    /// commit or is under way to a memtable, and the memtables. A write that was
    /// handed to the engine before this is called is in it, or in a table.
    fn least_timestamp_in_memory(&self) -> Timestamp {
        let waiting = lock(&self.queue).least_timestamp();
        // Loaded after: what has left the queue by then is in a memtable.
        let state = self.state.load();
        let memtables = state.frozen.iter().chain([&state.active]);
        memtables
            .map(|memtable| memtable.least_timestamp())
            .fold(waiting, Timestamp::min)
    }

    /// Starts a compaction, of which so many bytes will be `left`; as many as
    /// it reads where nothing is known.
    fn start(&self, pick: Pick, left: Option<u64>) -> Compaction {
        // In this order: what is older than the bound was handed to the engine
        // before the bound was given, so it is found in memory or in a table.
        let drop_bound = (self.environment.drop_bound)();
        let memory_least = self.least_timestamp_in_memory();
        // Before the snapshots are asked for below: one taken later sees all
        // that these tables hold, so it misses nothing that they outrank.
        let state = self.state.load_full();

        let is_input = |table: &Table| pick.inputs.iter().any(|(_, id)| *id == table.id());
        let mut sources: Vec<Box<dyn RecordSource>> = Vec::new();
        let (mut read_bytes, mut entry_bytes) = (0, 0);
        let mut others = Vec::new();
        for (level, tables) in state.tables.levels().iter().enumerate() {
            let (inputs, rest): (Vec<_>, Vec<_>) =
                tables.iter().cloned().partition(|table| is_input(table));
            others.extend(rest.into_iter().map(|table| (level, table)));
            for table in &inputs {
                read_bytes += table.file_bytes();
                entry_bytes += table.properties().entry_bytes();
            }
            if level == 0 {
                for table in inputs {
                    sources.push(Box::new(table.iter(Bound::Unbounded, Purpose::Compaction)));
                }
            } else if !inputs.is_empty() {
                sources.push(Box::new(LevelSource::new(
                    inputs,
                    Bound::Unbounded,
                    Purpose::Compaction,
                )));
            }
        }
        let others = Arc::new(Tables::new(others.into_iter()));
        let newer_elsewhere =
            (pick.reason == Reason::Hidden).then(|| newer_in(Arc::clone(&others)));
        let older_elsewhere = move |key: &[u8], timestamp: Timestamp| {
            memory_least <= timestamp
                || others.iter().any(|(_, table)| {
                    table.properties().timestamp_least <= timestamp && table.admits(key)
                })
        };
        let retention = Retention {
            snapshots: self.snapshots.living(),
            now_unix_ms: self.environment.clock.unix_ms(),
            drop_bound,
            older_elsewhere: Box::new(older_elsewhere),
            newer_elsewhere,
        };
        tracing::debug!(?pick, read_bytes, "compaction starts");
        Compaction {
            records: Retained::new(Merge::new(sources), retention),
            pick,
            output: None,
            last_key: Vec::new(),
            outputs: Vec::new(),
            read_bytes,
            entry_bytes,
            write_bytes_max: left.unwrap_or(read_bytes),
        }
    }

    /// Checks that a compaction leaves to the log and the flushes what they need.
    ///
    /// # Errors
    /// [`Error::DiskFull`].
    fn check_room(&self, compaction: &Compaction) -> Result<(), Error> {
        let left = compaction.left_bytes();
        let wanted = match (self.space.is_full(), compaction.pick.reason) {
            // Who asks for it makes room himself, with the reserve to help.
            (true, Reason::Manual) => return Ok(()),
            (true, _) => left,
            // It may keep less than it reads, so it goes on as long as it can.
            (false, _) => left.min(self.options.table_bytes),
        };
        if wanted <= self.room_bytes() {
            Ok(())
        } else {
            Err(Error::DiskFull)
        }
    }

    /// The room that a compaction may take, in bytes.
    pub(super) fn room_bytes(&self) -> u64 {
        let environment = &self.environment;
        self.space
            .compaction_bytes_max(&*environment.disk, &environment.folder)
    }

    /// Reads about [`STEP_BYTES`] and merges them. Returns how many bytes it
    /// kept; `None` when all is merged.
    fn merge_some(&self, compaction: &mut Compaction) -> Result<Option<u64>, Error> {
        self.check_room(compaction)?;
        let end = compaction.records.read_bytes() + STEP_BYTES;
        let mut bytes = 0;
        while compaction.records.read_bytes() < end {
            let record = match compaction.records.advance()? {
                Advance::Kept(record) => record,
                Advance::Passed => continue,
                Advance::Ended => {
                    if let Some(output) = compaction.output.take() {
                        let table = self.finish_table(output, compaction.pick.output_level)?;
                        compaction.outputs.push(table);
                    }
                    return Ok(None);
                }
            };
            let key = record.entry.key();
            // The versions of a key stay in one table: tables of a level do not overlap.
            let full = compaction
                .output
                .as_ref()
                .is_some_and(|output| output.writer.file_bytes() >= self.options.table_bytes);
            if full
                && *key != *compaction.last_key
                && let Some(output) = compaction.output.take()
            {
                let table = self.finish_table(output, compaction.pick.output_level)?;
                compaction.outputs.push(table);
            }
            if compaction.output.is_none() {
                self.check_room(compaction)?;
            }
            let output = match &mut compaction.output {
                Some(output) => output,
                None => compaction.output.insert(self.create_table()?),
            };
            output.writer.add(&record)?;
            compaction.last_key.clear();
            compaction.last_key.extend_from_slice(key);
            bytes += record.entry.data_bytes() as u64;
        }
        Ok(Some(bytes))
    }

    fn complete(
        self: &Arc<Self>,
        compaction: Compaction,
        compacting: &mut Compacting,
    ) -> Result<(), Error> {
        let Compaction { pick, outputs, .. } = compaction;
        let written: u64 = outputs.iter().map(|table| table.file_bytes()).sum();
        let entry_bytes = |table: &Arc<Table>| (table.id(), table.properties().entry_bytes());
        let replacing: Vec<_> = outputs.iter().map(entry_bytes).collect();
        self.install(Change {
            added: outputs
                .into_iter()
                .map(|table| (pick.output_level, table))
                .collect(),
            removed: pick.inputs.iter().map(|(_, id)| *id).collect(),
            flushed: None,
        })?;
        compacting
            .reclaim
            .replace(&pick, compaction.entry_bytes, &replacing);
        if let Some((level, key)) = pick.cursor {
            compacting.cursors[level] = Some(key);
        }
        self.counters.compactions.fetch_add(1, Relaxed);
        self.counters
            .compaction_read_bytes
            .fetch_add(compaction.read_bytes, Relaxed);
        self.counters
            .compaction_written_bytes
            .fetch_add(written, Relaxed);
        tracing::debug!(
            written,
            dropped_versions = compaction.records.dropped_versions(),
            dropped_tombstones = compaction.records.dropped_tombstones(),
            "compaction ends"
        );
        Ok(())
    }

    fn abandon(&self, compaction: Compaction) {
        if let Some(output) = &compaction.output {
            self.abandon_table(output);
        }
        for table in compaction.outputs {
            self.remove_table_file(table.id());
        }
    }
}
