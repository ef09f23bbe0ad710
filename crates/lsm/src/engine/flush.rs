//! Flush: frozen memtables become level-0 tables.

use super::Inner;
use super::state::{State, Tables};
use crate::compaction::retention::{Retained, Retention};
use crate::entry::RecordSource;
use crate::error::Error;
use crate::executor::Lane;
use crate::manifest::{LiveTable, Manifest};
use crate::memtable::Memtable;
use crate::sync::lock;
use crate::table::{Table, TableId, TableSettings, TableWriter, table_file_name};
use crate::timestamp::Timestamp;
use crate::wal::remove_segment;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How long a failed flush or compaction waits before it is tried again.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A change of the set of live tables.
#[derive(Default)]
pub(super) struct Change {
    pub(super) added: Vec<(usize, Arc<Table>)>,
    pub(super) removed: Vec<TableId>,
    /// The memtable that `added` took the place of.
    pub(super) flushed: Option<Arc<Memtable>>,
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
            .map(|(level, table)| (level, Arc::clone(table)));
        State {
            active: Arc::clone(&state.active),
            frozen: state
                .frozen
                .iter()
                .filter(|memtable| !is_flushed(memtable))
                .cloned()
                .collect(),
            tables: Arc::new(Tables::new(kept.chain(self.added.iter().cloned()))),
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
            self.spawn(Lane::Flush, delay, Self::run_flushes);
        }
    }

    /// The flush job: flushes until no memtable waits.
    fn run_flushes(self: &Arc<Self>) {
        self.flush_scheduled.store(false, Relaxed);
        loop {
            match self.flush_oldest() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    self.fail_stall(&error);
                    if !matches!(error, Error::Poisoned { .. }) {
                        tracing::warn!(%error, "a flush failed and will be tried again");
                        self.schedule_flush(RETRY_DELAY);
                    }
                    return;
                }
            }
        }
    }

    /// Flushes the memtable that has waited longest; `false` when none waits.
    pub(super) fn flush_oldest(self: &Arc<Self>) -> Result<bool, Error> {
        let flushing = lock(&self.flushing);
        let Some(memtable) = self.state.load().frozen.first().cloned() else {
            return Ok(false);
        };
        self.check_poison()?;
        let mut flushed = self.flush(&memtable);
        if matches!(flushed, Err(Error::DiskFull)) && self.enter_full() {
            // That has just set the reserve free, which is for this.
            flushed = self.flush(&memtable);
        }
        flushed.map_err(|error| self.poison_if_sync(error))?;
        self.retire(memtable);
        drop(flushing);
        self.end_stall();
        self.compact_after_flush();
        Ok(true)
    }

    fn flush(self: &Arc<Self>, memtable: &Arc<Memtable>) -> Result<(), Error> {
        // Older versions that no snapshot sees end here; tombstones stay.
        let retention = Retention {
            snapshots: self.snapshots.living(),
            now_unix_ms: 0,
            drop_bound: Timestamp::ZERO,
            older_elsewhere: Box::new(|_, _| true),
        };
        let mut records = Retained::new(memtable.source(Bound::Unbounded), retention);
        let mut output = self.create_table()?;
        let written = (|| {
            while let Some(record) = records.next()? {
                output.writer.add(&record)?;
            }
            Ok(())
        })();
        let table = match written {
            Ok(()) => self.finish_table(output)?,
            Err(error) => {
                self.abandon_table(&output);
                return Err(error);
            }
        };
        self.counters.flushes.fetch_add(1, Relaxed);
        self.counters
            .flush_written_bytes
            .fetch_add(table.file_bytes(), Relaxed);
        let change = Change {
            added: vec![(0, table)],
            removed: Vec::new(),
            flushed: Some(Arc::clone(memtable)),
        };
        self.install(change)
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
            let state = change.apply(&self.state.load());
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

    /// Completes a table, durably, and opens it. Its file is removed on an error.
    pub(super) fn finish_table(&self, output: Output) -> Result<Arc<Table>, Error> {
        let id = output.id;
        let finish = || {
            output.writer.finish()?;
            let folder = &self.environment.folder;
            self.environment
                .disk
                .sync_folder(folder)
                .map_err(|error| Error::sync(folder, error))?;
            self.open_table(id)
        };
        finish().inspect_err(|_| self.remove_table_file(id))
    }

    /// Gives up a table that is being written.
    pub(super) fn abandon_table(&self, output: &Output) {
        self.remove_table_file(output.id);
    }

    /// Opens a table's file.
    pub(super) fn open_table(&self, id: TableId) -> Result<Arc<Table>, Error> {
        let path = self.environment.folder.join(table_file_name(id));
        let file = self
            .environment
            .disk
            .open(&path)
            .map_err(|error| Error::io("open", &path, error))?;
        Table::open(file, &path, id, Arc::clone(&self.cache)).map(Arc::new)
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
