//! Flush: frozen memtables become level-0 tables.
//!
//! A flush is a row of short jobs, each of which writes a few blocks: in one
//! piece it would hold a core for long enough that requests feel it. Between
//! them it rests as long as it worked, so that it takes half of a core at most,
//! unless writers may soon have to wait for it.

use super::Inner;
use super::flushed::{Flushed, Gathering, VersionSequences, remember};
use super::state::{State, Tables};
use crate::compaction::retention::{Retained, Retention};
use crate::error::Error;
use crate::executor::Lane;
use crate::manifest::{LiveTable, LogClaim, Manifest};
use crate::memtable::{Memtable, MemtableSource};
use crate::record::RecordSource;
use crate::sync::lock;
use crate::table::{Table, TableSettings, TableWriter};
use crate::table_id::{TableId, table_file_name};
use crate::wal::remove_segment;
use base::Timestamp;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How long a failed flush or compaction waits before it is tried again.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How many bytes of keys and values a step of a flush takes: about a
/// millisecond's work where they are short.
const STEP_BYTES: usize = 64 << 10;

/// The longest rest between two steps, where a step took longer because the
/// disk was slow or others had the cores.
pub(super) const REST_MAX: Duration = Duration::from_millis(20);

/// The flush under way.
#[derive(Default)]
pub(super) struct Flushing {
    current: Option<Flush>,
}

/// A memtable on its way to a table.
struct Flush {
    memtable: Arc<Memtable>,
    records: Retained<Gathering<MemtableSource>>,
    output: Output,
}

/// How a step ended.
enum Step {
    /// No memtable waits.
    Idle,
    /// There is more to write.
    Written,
    /// A table has taken a memtable's place.
    Finished,
}

/// A change of the set of live tables.
#[derive(Default)]
pub(super) struct Change {
    pub(super) added: Vec<(usize, Arc<Table>)>,
    pub(super) removed: Vec<TableId>,
    /// Live tables that change their level.
    pub(super) moved: Vec<(usize, Arc<Table>)>,
    /// The memtable that `added` took the place of.
    pub(super) flushed: Option<Arc<Memtable>>,
    /// What is to be remembered of it.
    pub(super) sequences: VersionSequences,
}

impl Change {
    /// The state after the change.
    fn apply(&self, state: &State) -> State {
        let is_flushed = |memtable: &Arc<Memtable>| {
            self.flushed
                .as_ref()
                .is_some_and(|flushed| Arc::ptr_eq(memtable, flushed))
        };
        let kept = state
            .tables
            .iter()
            .filter(|(_, table)| !self.removed.contains(&table.id()))
            .map(|(level, table)| {
                let mut moved = self.moved.iter();
                let moved = moved.find(|(_, moved)| moved.id() == table.id());
                (moved.map_or(level, |(level, _)| *level), Arc::clone(table))
            });
        State {
            active: Arc::clone(&state.active),
            frozen: state
                .frozen
                .iter()
                .filter(|memtable| !is_flushed(memtable))
                .cloned()
                .collect(),
            tables: Arc::new(Tables::new(kept.chain(self.added.iter().cloned()))),
            flushed: state.flushed.clone(),
        }
    }
}

/// A table that is being written.
pub(super) struct Output {
    id: TableId,
    pub(super) writer: TableWriter,
}

impl Inner {
    /// Makes sure that a flush job comes.
    pub(super) fn schedule_flush(self: &Arc<Self>, delay: Duration) {
        if !self.flush_scheduled.swap(true, Relaxed) {
            self.spawn(Lane::Flush, delay, Self::run_flush);
        }
    }

    /// The flush job: one step, and the next job.
    fn run_flush(self: &Arc<Self>) {
        self.flush_scheduled.store(false, Relaxed);
        let started = self.environment.clock.monotonic();
        let step = self.flush_step(&mut lock(&self.flushing));
        match step {
            Ok(Step::Idle) => {}
            Ok(Step::Written) => {
                let took = self.environment.clock.monotonic().saturating_sub(started);
                self.schedule_flush(self.rest(took));
            }
            Ok(Step::Finished) => {
                self.after_flush();
                self.schedule_flush(Duration::ZERO);
            }
            Err(error) => {
                self.fail_stall(&error);
                if !matches!(error, Error::Poisoned { .. }) {
                    tracing::warn!(%error, "a flush failed and will be tried again");
                    self.schedule_flush(RETRY_DELAY);
                }
            }
        }
    }

    /// How long a flush rests after a step that took so long.
    fn rest(&self, took: Duration) -> Duration {
        let state = self.state.load();
        let is_next_near = state.active.bytes() > self.options.memtable_bytes / 2;
        if is_next_near || state.frozen.len() > 1 || self.is_closing() {
            Duration::ZERO
        } else {
            took.min(REST_MAX)
        }
    }

    /// Flushes the memtable that has waited longest, on this thread; `false`
    /// when none waits.
    pub(super) fn flush_oldest(self: &Arc<Self>) -> Result<bool, Error> {
        let mut flushing = lock(&self.flushing);
        loop {
            match self.flush_step(&mut flushing)? {
                Step::Idle => return Ok(false),
                Step::Written => {}
                Step::Finished => break,
            }
        }
        drop(flushing);
        self.after_flush();
        Ok(true)
    }

    fn after_flush(self: &Arc<Self>) {
        self.end_stall();
        self.compact_after_flush();
    }

    /// Goes on with the flush under way, or begins one. After an error the
    /// memtable waits as before, and its flush begins anew.
    fn flush_step(self: &Arc<Self>, flushing: &mut Flushing) -> Result<Step, Error> {
        let step = self.try_flush_step(flushing);
        if step.is_err()
            && let Some(flush) = flushing.current.take()
        {
            self.abandon_table(&flush.output);
        }
        match step {
            // That has just set the reserve free, which is for this.
            Err(Error::DiskFull) if self.enter_full() => Ok(Step::Written),
            step => step.map_err(|error| self.poison_if_sync(error)),
        }
    }

    fn try_flush_step(self: &Arc<Self>, flushing: &mut Flushing) -> Result<Step, Error> {
        let flush = match &mut flushing.current {
            Some(flush) => flush,
            None => match self.begin_flush()? {
                Some(flush) => flushing.current.insert(flush),
                None => return Ok(Step::Idle),
            },
        };
        self.check_poison()?;
        let mut bytes = 0;
        while let Some(record) = flush.records.next()? {
            flush.output.writer.add(&record)?;
            bytes += record.entry.data_bytes();
            if bytes >= STEP_BYTES {
                return Ok(Step::Written);
            }
        }
        match flushing.current.take() {
            Some(flush) => self.complete_flush(flush).map(|()| Step::Finished),
            None => Ok(Step::Idle),
        }
    }

    /// Begins to flush the memtable that has waited longest, if one waits.
    fn begin_flush(&self) -> Result<Option<Flush>, Error> {
        let Some(memtable) = self.state.load().frozen.first().cloned() else {
            return Ok(None);
        };
        self.check_poison()?;
        let source = memtable.source(Bound::Unbounded);
        let source = Gathering::new(source, memtable.last_sequence());
        Ok(Some(Flush {
            records: Retained::new(source, self.flush_retention()),
            output: self.create_table()?,
            memtable,
        }))
    }

    /// Older versions that no snapshot sees end at a flush; tombstones stay. A
    /// snapshot taken from now on sees all that a frozen memtable holds.
    pub(super) fn flush_retention(&self) -> Retention {
        Retention {
            snapshots: self.snapshots.living(),
            expired_before_unix_ms: 0,
            drop_bound: Timestamp::ZERO,
            older_elsewhere: Box::new(|_, _| true),
            newer_elsewhere: None,
        }
    }

    fn complete_flush(self: &Arc<Self>, flush: Flush) -> Result<(), Error> {
        let Flush {
            memtable,
            output,
            records,
        } = flush;
        // The source holds the memtable as well, which is to be freed below.
        let sequences = records.into_source().sequences();
        let table = self.finish_table(output, 0)?;
        let written = table.file_bytes();
        self.install(Change {
            added: vec![(0, table)],
            flushed: Some(Arc::clone(&memtable)),
            sequences,
            ..Change::default()
        })?;
        self.counters.flushes.fetch_add(1, Relaxed);
        self.counters
            .flush_written_bytes
            .fetch_add(written, Relaxed);
        self.retire(memtable);
        Ok(())
    }

    /// Makes a change of the tables durable, then visible, and removes what it made useless.
    ///
    /// # Errors
    /// When the manifest could not be stored: then nothing has changed, and the
    /// added tables are removed, unless a failed sync leaves it unknown which
    /// manifest is in force.
    pub(super) fn install(self: &Arc<Self>, change: Change) -> Result<(), Error> {
        let mut manifest = lock(&self.manifest);
        // A memtable may be frozen meanwhile; that changes neither the tables
        // nor which segment is the least that is needed.
        let mut next = manifest.clone();
        self.describe(&change.apply(&self.state.load()), &mut next);
        let folder = &self.environment.folder;
        if let Err(error) = next.store(&*self.environment.disk, folder) {
            if !error.is_sync() {
                for (_, table) in &change.added {
                    self.remove_table_file(table.id());
                }
            }
            return Err(error);
        }
        let least_segment = next.log_segment_least;
        *manifest = next;
        let obsolete = {
            let mut sealed_segments = lock(&self.sealed_segments);
            let mut state = change.apply(&self.state.load());
            if let Some(memtable) = &change.flushed {
                let now = self.environment.clock.monotonic();
                let last = Flushed::new(now, memtable, change.sequences);
                remember(&mut state.flushed, last, self.options.verdicts_kept);
            }
            self.state.store(Arc::new(state));
            let kept = sealed_segments.split_off(&least_segment);
            std::mem::replace(&mut *sealed_segments, kept)
        };
        drop(manifest);

        for id in change.removed {
            self.remove_table_file(id);
        }
        for segment in obsolete.into_keys() {
            if let Err(error) = remove_segment(&*self.environment.disk, folder, segment) {
                tracing::warn!(%error, "could not remove a log segment; the next start will");
            }
        }
        Ok(())
    }

    /// Fills a manifest with what `state` holds.
    pub(super) fn describe(&self, state: &State, manifest: &mut Manifest) {
        manifest.next_table = TableId(self.next_table.load(Relaxed));
        manifest.log_segment_least = state.least_segment();
        // The segments before it were sealed before this one took its place.
        let claim = LogClaim {
            segment: state.active.segment(),
            bytes: 0,
        };
        manifest.log_claim = manifest.log_claim.max(claim);
        manifest.greatest_timestamp = self.greatest_timestamp();
        manifest.tables = state
            .tables
            .iter()
            .map(|(level, table)| LiveTable {
                level: level as u8,
                id: table.id(),
                bytes: table.file_bytes(),
            })
            .collect();
    }

    /// Starts the file of a new table.
    pub(super) fn create_table(&self) -> Result<Output, Error> {
        let id = TableId(self.next_table.fetch_add(1, Relaxed));
        let path = self.environment.folder.join(table_file_name(id));
        let file = self
            .environment
            .disk
            .create(&path)
            .map_err(|error| Error::io("create", &path, error))?;
        let settings = TableSettings::from(&self.options);
        Ok(Output {
            id,
            writer: TableWriter::create(file, &path, &settings),
        })
    }

    /// Completes a table of a level, durably, and opens it. Its file is removed on an error.
    pub(super) fn finish_table(&self, output: Output, level: usize) -> Result<Arc<Table>, Error> {
        let id = output.id;
        let finish = || {
            output.writer.finish()?;
            let folder = &self.environment.folder;
            self.environment
                .disk
                .sync_folder(folder)
                .map_err(|error| Error::sync(folder, error))?;
            self.open_table(id, level)
        };
        finish().inspect_err(|_| self.remove_table_file(id))
    }

    /// Gives up a table that is being written.
    pub(super) fn abandon_table(&self, output: &Output) {
        self.remove_table_file(output.id);
    }

    /// Opens the file of a table of a level.
    fn open_table(&self, id: TableId, level: usize) -> Result<Arc<Table>, Error> {
        let path = self.environment.folder.join(table_file_name(id));
        let file = self
            .environment
            .disk
            .open(&path)
            .map_err(|error| Error::io("open", &path, error))?;
        let mut table = Table::open(file, &path, id, Arc::clone(&self.cache))?;
        table.pin_filter(level);
        Ok(Arc::new(table))
    }

    pub(super) fn remove_table_file(&self, id: TableId) {
        let path = self.environment.folder.join(table_file_name(id));
        if let Err(error) = self.environment.disk.remove(&path) {
            // It is an orphan then, which the next start removes.
            tracing::warn!(%error, file = %path.display(), "could not remove a table");
        }
    }

    /// Lets a flushed memtable go, on this thread: to free so many records at
    /// once would hold a reader up that happened to have the last handle.
    fn retire(&self, memtable: Arc<Memtable>) {
        lock(&self.retired).push(memtable);
        self.free_retired();
    }

    /// Frees the flushed memtables that no reader holds any more.
    pub(super) fn free_retired(&self) {
        lock(&self.retired).retain(|memtable| Arc::strong_count(memtable) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BlockingWrite, environment};
    use crate::{Engine, MemoryDisk, Options};
    use base::{Entry, Expiry};

    #[test]
    fn a_flushed_memtable_is_freed_with_its_flush() {
        let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
        let (engine, _) = Engine::open(environment, Options::default()).unwrap();
        let entry = Entry::value(b"k", Timestamp::from_u64(1), b"v", Expiry::NEVER, 1);
        engine.write(entry).unwrap();
        let memtable = Arc::downgrade(&engine.inner.state.load().active);
        engine.flush().unwrap();
        assert_eq!(memtable.strong_count(), 0);
    }
}
