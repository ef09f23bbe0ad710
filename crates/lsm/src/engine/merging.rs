//! A compaction under way: its inputs merged into new tables, a step at a time.
//!
//! Nothing that it has written counts before it is complete; then its tables
//! take the place of the inputs at once.

use super::Inner;
use super::flush::{Change, Output};
use super::reclaim::newer_in;
use super::scan::LevelSource;
use super::state::Tables;
use crate::compaction::pick::{Pick, Reason};
use crate::compaction::retention::{Advance, Retained, Retention};
use crate::error::Error;
use crate::merge::Merge;
use crate::record::RecordSource;
use crate::sync::lock;
use crate::table::{Purpose, Table};
use crate::table_id::TableId;
use base::Timestamp;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// How many bytes a step reads before it gives the lane back.
/// About a millisecond's work: a core is not kept from a request for longer.
const STEP_BYTES: u64 = 128 << 10;

/// A compaction under way.
pub(super) struct Compaction {
    /// What it is.
    pub(super) pick: Pick,
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
    /// Whether snapshots lived when it began that may see more than the winners.
    pub(super) fn has_snapshots(&self) -> bool {
        self.records.has_snapshots()
    }

    /// Whether it has turned out to write more than was thought.
    pub(super) fn is_larger_than_thought(&self) -> bool {
        self.written_bytes() > self.write_bytes_max
    }

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

/// What a complete compaction has put in the place of its inputs.
pub(super) struct Replaced {
    /// What it was.
    pub(super) pick: Pick,
    /// The bytes of the keys and values in its inputs.
    pub(super) input_entry_bytes: u64,
    /// The new tables, and the bytes of the keys and values in each.
    pub(super) outputs: Vec<(TableId, u64)>,
}

impl Inner {
    /// The least timestamp of all that no table has yet: what waits for its
    /// commit or is under way to a memtable, and the memtables. A write that was
    /// handed to the engine before this is called is in it, or in a table.
    pub(super) fn least_timestamp_in_memory(&self) -> Timestamp {
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
    pub(super) fn start_compaction(&self, pick: Pick, left: Option<u64>) -> Compaction {
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
                entry_bytes += table.properties().entry_bytes;
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
            expired_before_unix_ms: (self.environment.expired_before_unix_ms)(),
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
    pub(super) fn merge_some(&self, compaction: &mut Compaction) -> Result<Option<u64>, Error> {
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

    /// Puts what a compaction has written in the place of its inputs.
    ///
    /// # Errors
    /// Those of [`Inner::install`].
    pub(super) fn complete(self: &Arc<Self>, compaction: Compaction) -> Result<Replaced, Error> {
        let Compaction { pick, outputs, .. } = compaction;
        let written: u64 = outputs.iter().map(|table| table.file_bytes()).sum();
        self.note_hidden(&pick, compaction.read_bytes.saturating_sub(written));
        let entry_bytes = |table: &Arc<Table>| (table.id(), table.properties().entry_bytes);
        let replacing: Vec<_> = outputs.iter().map(entry_bytes).collect();
        self.install(Change {
            added: outputs
                .into_iter()
                .map(|table| (pick.output_level, table))
                .collect(),
            removed: pick.inputs.iter().map(|(_, id)| *id).collect(),
            ..Change::default()
        })?;
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
        Ok(Replaced {
            pick,
            input_entry_bytes: compaction.entry_bytes,
            outputs: replacing,
        })
    }

    /// Notes how much of its inputs a compaction has dropped, if it has moved
    /// any of them down to the last level. Before it is installed, while they
    /// are there.
    fn note_hidden(&self, pick: &Pick, dropped_bytes: u64) {
        let state = self.state.load();
        let is_input = |id| pick.inputs.iter().any(|(_, input)| *input == id);
        let (mut all_bytes, mut moved_bytes) = (0, 0);
        for (level, table) in state.tables.iter() {
            if level > pick.output_level {
                return;
            }
            all_bytes += table.file_bytes();
            if level < pick.output_level && is_input(table.id()) {
                moved_bytes += table.file_bytes();
            }
        }
        if moved_bytes > 0 {
            let hidden = &self.counters.hidden;
            hidden.note(moved_bytes, dropped_bytes, all_bytes);
        }
    }

    /// Gives up a compaction; its files go.
    pub(super) fn abandon(&self, compaction: Compaction) {
        if let Some(output) = &compaction.output {
            self.abandon_table(output);
        }
        for table in compaction.outputs {
            self.remove_table_file(table.id());
        }
    }
}
