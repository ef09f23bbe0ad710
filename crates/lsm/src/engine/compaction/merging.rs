//! A compaction under way: its inputs merged into new tables, a step at a time.
//!
//! Nothing that it has written counts before it is complete. Then its tables
//! take the place of the inputs, all at once.

use super::gc_thresholds::GcThresholds;
use super::moves::note_moved_down;
use super::pick::{Cutter, Pick, Reason};
use super::reread::Reread;
use super::retention::{NewerElsewhere, OlderElsewhere, Retained, Retention, Step};
use crate::engine::core::Core;
use crate::engine::table_set::{
    BlobOutput, Level, LevelCursor, MergeRange, ReadState, TableEdit, TableOutput, Tables,
};
use crate::error::Error;
use crate::options::NonOwned;
use crate::record::merge::Merge;
use crate::record::{EitherCursor, RecordCursor};
use crate::table::{DiskAccess, Purpose, Table};
use crate::table_id::TableId;
use base::Timestamp;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// How many bytes a step reads before it gives the thread back: about a
/// millisecond's work, so that no request waits longer for a core.
const STEP_BYTES: u64 = 128 << 10;

/// After so many written bytes the room on the disk is asked for again. To ask at each step
/// would take a noticeable part of a compaction's time.
const ROOM_CHECK_BYTES: u64 = 1 << 20;

/// A compaction writes at most so many full tables of values that it takes out of blob tables, so that
/// their files go soon.
const EMPTIED_TABLES_MAX: u64 = 8;

/// A compaction under way.
pub(super) struct Compaction {
    /// Which tables it merges, and what for.
    pub(super) pick: Pick,
    records: Retained<Merge<InputCursor>>,
    output: Option<TableOutput>,
    outputs: Vec<Arc<Table>>,
    blobs: BlobOutput,
    /// Where outputs end.
    cutter: Cutter,
    /// The bytes of the files of its inputs, and of what it takes out of blob tables.
    read_bytes: u64,
    /// Of these, those above the level of its outputs.
    upper_bytes: u64,
    /// The bytes of the keys and values in its inputs.
    entry_bytes: u64,
    /// The versions in its inputs.
    entries: u64,
    /// The most that it is expected to write, in bytes.
    write_bytes_max: u64,
    /// What it had written when the room on the disk was asked for last, in bytes.
    room_checked_at: Option<u64>,
    /// The closed timestamp of the store when it began.
    closed_timestamp: Timestamp,
    /// The tables that it rewrites, and which parts of each were noted as damaged when it began.
    rewritten: Vec<(Arc<Table>, Vec<Range<u64>>)>,
    /// Keeps other tables out of its way.
    range: Arc<MergeRange>,
}

/// A cursor over inputs: over tables, or over a damaged one that is rewritten.
type InputCursor = EitherCursor<LevelCursor, Reread>;

/// What a complete compaction has put in the place of its inputs.
pub(super) struct Replaced {
    /// Which tables it has merged, and what for.
    pub(super) pick: Pick,
    /// The bytes of the keys and values in its inputs.
    pub(super) input_entry_bytes: u64,
    /// The new tables, and the bytes of the keys and values in each.
    pub(super) outputs: Vec<(TableId, u64)>,
}

/// The tables of a read state, divided into those that a compaction merges and
/// the others.
struct Inputs {
    cursors: Vec<InputCursor>,
    file_bytes: u64,
    upper_bytes: u64,
    entry_bytes: u64,
    entries: u64,
    rewritten: Vec<(Arc<Table>, Vec<Range<u64>>)>,
    others: Tables,
}

impl Inputs {
    fn divide(
        tables: &Tables,
        merged: Vec<(usize, Arc<Table>)>,
        pick: &Pick,
        closed_timestamp: Timestamp,
        non_owned: Option<&NonOwned>,
    ) -> Self {
        let mut cursors = Vec::new();
        let cursor = |tables: &Level| {
            let places = 0..tables.len();
            let cursor = LevelCursor::new(tables, places, Bound::Unbounded, Purpose::Compaction);
            InputCursor::First(cursor)
        };
        let others = tables.without(&merged);
        let inputs = Tables::new(merged.into_iter());
        let mut entry_bytes = 0;
        let mut rewritten = Vec::new();
        for (level, tables) in inputs.levels().iter().enumerate() {
            for table in tables.iter() {
                entry_bytes += table.properties().entry_bytes;
            }
            if pick.reason == Reason::Damaged {
                let blobs = tables.iter().flat_map(|table| table.blobs());
                let parts = |table: &Arc<Table>| (Arc::clone(table), table.noted_parts());
                rewritten.extend(tables.iter().chain(blobs).map(parts));
                let reread = |table| {
                    InputCursor::Second(Reread::new(table, closed_timestamp, non_owned.cloned()))
                };
                cursors.extend(tables.iter().map(reread));
            } else if level == 0 {
                let alone = |table: &Arc<Table>| cursor(&Level::new(vec![Arc::clone(table)]));
                cursors.extend(tables.iter().map(alone));
            } else if tables.len() > 0 {
                cursors.push(cursor(tables));
            }
        }
        let sums = inputs.sums();
        let upper = inputs.levels().iter().take(pick.output_level);
        Self {
            cursors,
            file_bytes: sums.bytes,
            upper_bytes: upper.map(Level::bytes).sum(),
            entry_bytes,
            entries: sums.entries,
            rewritten,
            others,
        }
    }
}

impl Compaction {
    /// Starts a compaction. `left_bytes` is what is expected to be left of its
    /// inputs, if that is known; otherwise it may write as much as it reads. `None` if a table has
    /// come in its way since the pick, or another compaction is.
    pub(super) fn start(pick: Pick, left_bytes: Option<u64>, core: &Core) -> Option<Self> {
        let range = core.tables.begin_merge(pick.output_level, &pick.inputs)?;
        // Raise the GC threshold first. Every write below it has reached the engine by
        // then, so the reads of memory and tables that follow find it; or it comes later
        // and is refused ([`closed_timestamp`](crate::engine::closed timestamp)).
        let gc_thresholds = GcThresholds::of(&core.environment);
        let gc_thresholds = GcThresholds {
            tombstones: core
                .closed_timestamp
                .raise_gc_threshold(gc_thresholds.tombstones),
            ..gc_thresholds
        };
        let least_in_memory = core.least_timestamp_in_memory();
        // Read the tables before the snapshots: a snapshot taken after these tables
        // were read sees all that they hold, so it misses nothing that they outrank.
        let (state, merged) = core.tables.find(pick.inputs.iter().map(|(_, id)| *id));
        if merged.len() < pick.inputs.len() {
            // What is removed in the end has to have been merged.
            return None;
        }
        let closed_timestamp = core.closed_timestamp.bound();
        let emptied = emptied_blobs(&state, &pick, merged.iter().map(|(_, it)| it), core);
        let inputs = Inputs::divide(
            &state.tables,
            merged,
            &pick,
            closed_timestamp,
            core.environment.non_owned.as_ref(),
        );
        let read_bytes = inputs.file_bytes + emptied.values().sum::<u64>();
        let others = Arc::new(inputs.others);
        let newer_elsewhere =
            (pick.reason == Reason::Hidden).then(|| newer_in(Arc::clone(&others)));
        let older_in_tables = older_in(others);
        let older_elsewhere = move |key: &[u8], timestamp: Timestamp| {
            least_in_memory <= timestamp || older_in_tables(key, timestamp)
        };
        let retention = Retention {
            snapshots: core.snapshots.living(),
            expired_before_unix_ms: (core.environment.expired_before_unix_ms)(),
            gc_thresholds,
            non_owned: core.environment.non_owned.clone(),
            older_elsewhere: Box::new(older_elsewhere),
            newer_elsewhere,
            emptied_blobs: emptied.into_keys().collect(),
        };
        tracing::debug!(?pick, read_bytes, "compaction starts");
        let write_bytes_max = left_bytes.unwrap_or(read_bytes);
        range.note_written(0, write_bytes_max);
        Some(Self {
            range,
            records: Retained::new(Merge::new(inputs.cursors), retention),
            cutter: pick.cuts.clone().start(),
            pick,
            output: None,
            outputs: Vec::new(),
            blobs: BlobOutput::new(false),
            read_bytes,
            upper_bytes: inputs.upper_bytes,
            entry_bytes: inputs.entry_bytes,
            entries: inputs.entries,
            write_bytes_max,
            room_checked_at: None,
            closed_timestamp,
            rewritten: inputs.rewritten,
        })
    }

    /// Whether snapshots lived when it began that may see more than the winners.
    pub(super) fn has_snapshots(&self) -> bool {
        self.records.has_snapshots()
    }

    /// Whether it has turned out to write more than was expected.
    pub(super) fn exceeds_estimate(&self) -> bool {
        self.written_bytes() > self.write_bytes_max
    }

    /// What it has written so far, in bytes.
    fn written_bytes(&self) -> u64 {
        let complete: u64 = self.outputs.iter().map(|table| table.file_bytes()).sum();
        let output = self.output.as_ref().map_or(0, TableOutput::file_bytes);
        complete + output + self.blobs.file_bytes()
    }

    /// What it may still write, in bytes. Once it has written more than expected: the
    /// size of its inputs minus what it has written.
    fn left_bytes(&self) -> u64 {
        let written = self.written_bytes();
        match self.write_bytes_max.checked_sub(written) {
            Some(left) => left,
            None => self.read_bytes.saturating_sub(written),
        }
    }

    /// Whether the room on the disk is to be asked for: while it is short at each step,
    /// otherwise once in a while.
    fn is_room_check_due(&self, core: &Core) -> bool {
        let next = self.room_checked_at.map(|at| at + ROOM_CHECK_BYTES);
        core.health.is_full() || next.is_none_or(|next| next <= self.written_bytes())
    }

    /// Checks that it leaves to the log and the flushes the room that they need.
    ///
    /// # Errors
    /// [`Error::DiskFull`].
    fn check_room(&mut self, core: &Core) -> Result<(), Error> {
        self.room_checked_at = Some(self.written_bytes());
        let left = self.left_bytes();
        let wanted = match (core.health.is_full(), self.pick.reason) {
            // An operator has ordered it; it may use the reserve.
            (true, Reason::Whole) => return Ok(()),
            (true, _) => left,
            // It may keep less than it reads, so it goes on until room is really short.
            (false, _) => left.min(core.options.table_bytes),
        };
        core.check_compaction_room(wanted)
    }

    /// Reads about [`STEP_BYTES`] and merges them. Returns how many bytes it
    /// kept, or `None` when everything is merged.
    ///
    /// # Errors
    /// Those of reading the inputs and of writing the outputs.
    pub(super) fn merge_some(&mut self, core: &Core) -> Result<Option<u64>, Error> {
        if self.is_room_check_due(core) {
            self.check_room(core)?;
        }
        let end = self.records.read_bytes() + STEP_BYTES;
        let mut bytes = 0;
        while self.records.read_bytes() < end {
            match self.records.step()? {
                Step::Kept => {}
                Step::Passed => continue,
                Step::Ended => {
                    self.finish_output(core)?;
                    self.blobs.finish(core.tables.files())?;
                    return Ok(None);
                }
            }
            let key = self.records.record().entry.key();
            let output_bytes = self.output.as_ref().map(TableOutput::file_bytes);
            let is_cut = self.cutter.ends_before(key, output_bytes);
            // All versions of a key go to one table: tables of a level do not overlap.
            let is_full = self.output.as_ref().is_some_and(|output| {
                output.file_bytes() >= core.options.table_bytes && output.last_key() != key
            });
            if is_cut || is_full {
                self.cutter.begin();
                self.finish_output(core)?;
            }
            if self.output.is_none() {
                self.check_room(core)?;
            }
            let output = match &mut self.output {
                Some(output) => output,
                None => {
                    let output = core.tables.files().create_on(self.pick.output_level)?;
                    self.output.insert(output)
                }
            };
            // Straight from the block that was read to the one that is built.
            let record = self.records.record();
            let (reference, files) = (self.records.reference(), core.tables.files());
            self.blobs.add(record, reference, output, files)?;
            bytes += record.entry.data_bytes() as u64;
        }
        self.range
            .note_written(self.written_bytes(), self.left_bytes());
        Ok(Some(bytes))
    }

    /// Completes the table that is being written, if there is one.
    fn finish_output(&mut self, core: &Core) -> Result<(), Error> {
        if let Some(output) = self.output.take() {
            let table = core.tables.files().finish(output, self.pick.output_level)?;
            self.outputs.push(table);
        }
        Ok(())
    }

    /// Puts what it has written in the place of its inputs.
    ///
    /// # Errors
    /// Those of [`TableSet::apply`](crate::engine::table_set::TableSet::apply), and
    /// [`Error::Obsolete`] for a rewrite if the closed timestamp has risen since it began:
    /// what it has read again would come in behind the scan of a session. [`Error::Invalid`] if
    /// further damage of its inputs was noted meanwhile: it may have passed over what no
    /// comparison has compared, and the note of that would go with the table; and if a store
    /// was lost meanwhile, whose last copies may be among the non-owned versions that it has
    /// dropped.
    pub(super) fn complete(self, core: &Core) -> Result<Replaced, Error> {
        let is_rewrite = self.pick.reason == Reason::Damaged;
        let _held = is_rewrite.then(|| core.closed_timestamp.hold());
        let closed_timestamp = core.closed_timestamp.bound();
        if is_rewrite && closed_timestamp > self.closed_timestamp {
            self.abandon(core);
            return Err(Error::Obsolete {
                below: closed_timestamp,
            });
        }
        if let Some((table, _)) = self
            .rewritten
            .iter()
            .find(|(table, noted)| table.noted_parts() != *noted)
        {
            let error = Error::Invalid(format!(
                "{} was found damaged in another place during its repair: it is repaired once \
                 that place was compared, too",
                table.path().display()
            ));
            self.abandon(core);
            return Err(error);
        }
        if !self.records.may_drop_non_owned() {
            self.abandon(core);
            return Err(Error::Invalid(
                "a node lost data while non-owned copies were dropped, which may be the last \
                 ones: merging the tables again, and keeping those copies"
                    .to_owned(),
            ));
        }
        let written = self.written_bytes();
        self.note_hidden(self.read_bytes.saturating_sub(written), core);
        let damaged_versions = self.damaged_versions();
        let dropped_versions = self.records.dropped_versions();
        let dropped_tombstones = self.records.dropped_tombstones();
        let dropped_non_owned = self.records.dropped_non_owned();
        let Self {
            pick,
            outputs,
            blobs,
            records,
            rewritten,
            read_bytes,
            entry_bytes: input_entry_bytes,
            ..
        } = self;
        // They hold the inputs, which the edit frees if nobody reads them any more.
        drop((records, rewritten));
        let entry_bytes = |table: &Arc<Table>| (table.id(), table.properties().entry_bytes);
        let replacing: Vec<_> = outputs.iter().map(entry_bytes).collect();
        let least = outputs
            .iter()
            .map(|table| table.properties().least_timestamp);
        let least = least.min().map(|least| (Vec::new(), least));
        // A part that was noted as damaged may be read now, and no comparison has compared
        // what it holds: to comparisons it has just come, later than all that is committed.
        let note_arrival = || {
            if is_rewrite {
                let sequence = core.snapshots.visible() + 1;
                core.changes
                    .flushed(sequence, least.iter().cloned().collect());
            }
        };
        note_arrival();
        let outputs = outputs
            .into_iter()
            .map(|table| (pick.output_level, table))
            .collect();
        core.tables.apply(TableEdit {
            added: blobs.beside(outputs),
            removed: pick.inputs.iter().map(|(_, id)| *id).collect(),
            ..TableEdit::default()
        })?;
        // And to a session that has begun since, whose scan may have come before the edit.
        note_arrival();
        if pick.reason == Reason::Damaged {
            tracing::warn!(
                table = ?pick.inputs,
                damaged_versions,
                "a damaged table was rewritten without its damaged parts: the other nodes have \
                 sent the versions in them, except those of which this was the only copy"
            );
        }
        let counters = &core.counters;
        counters.compactions.fetch_add(1, Relaxed);
        counters
            .compaction_read_bytes
            .fetch_add(read_bytes, Relaxed);
        counters
            .compaction_written_bytes
            .fetch_add(written, Relaxed);
        counters
            .non_owned_dropped
            .fetch_add(dropped_non_owned, Relaxed);
        tracing::debug!(
            written,
            dropped_versions,
            dropped_tombstones,
            dropped_non_owned,
            "compaction ends"
        );
        Ok(Replaced {
            pick,
            input_entry_bytes,
            outputs: replacing,
        })
    }

    /// How many versions of its inputs it could not read.
    fn damaged_versions(&self) -> u64 {
        let written: u64 = self
            .outputs
            .iter()
            .map(|table| table.properties().entries)
            .sum();
        let dropped = self.records.dropped_versions()
            + self.records.dropped_tombstones()
            + self.records.dropped_non_owned();
        self.entries.saturating_sub(written + dropped)
    }

    /// Notes how much of its inputs it has dropped, and what it has moved down. It does so
    /// before the edit, while the inputs are still live.
    fn note_hidden(&self, dropped_bytes: u64, core: &Core) {
        note_moved_down(
            self.pick.output_level,
            self.upper_bytes,
            dropped_bytes,
            core,
        );
    }

    /// Gives it up, and removes its files.
    pub(super) fn abandon(self, core: &Core) {
        let files = core.tables.files();
        if let Some(output) = &self.output {
            files.abandon(output);
        }
        for table in self.outputs {
            files.remove(table.id());
        }
        self.blobs.abandon(files);
    }
}

/// The blob tables whose values a compaction of these tables writes to others, and how many bytes of
/// each it does at most: so many that there is room for them, and that it ends soon.
pub(super) fn emptied_blobs<'a>(
    state: &ReadState,
    pick: &Pick,
    inputs: impl Iterator<Item = &'a Arc<Table>> + Clone,
    core: &Core,
) -> BTreeMap<TableId, u64> {
    let blobs = state.tables.blobs();
    if blobs.is_empty() || pick.reason == Reason::Hidden {
        return BTreeMap::new();
    }
    let tables_bytes: u64 = inputs.clone().map(|table| table.file_bytes()).sum();
    let room = core.health.full_disk().compaction_bytes_max();
    let room = room.saturating_sub(tables_bytes);
    let takes_all = core.options.blob_value_bytes_min.is_none();
    let bytes_max = if takes_all && pick.reason == Reason::Whole {
        u64::MAX
    } else {
        EMPTIED_TABLES_MAX.saturating_mul(core.options.table_bytes)
    };
    let is_full = core.health.is_full();
    let mut emptied = blobs.due(inputs.clone(), is_full, takes_all, bytes_max.min(room));
    if pick.reason == Reason::Damaged {
        let damaged = inputs.flat_map(|table| &table.properties().blobs);
        let damaged = damaged.filter(|(id, _)| core.damage.is_compared(state, **id));
        emptied.extend(damaged.map(|(id, bytes)| (*id, *bytes)));
    }
    emptied
}

/// Says of a key and a timestamp whether one of these tables may hold a version at or below.
pub(super) fn older_in(tables: Arc<Tables>) -> OlderElsewhere {
    Box::new(move |key, timestamp| {
        let mut tables = tables.candidates(key);
        tables.any(|table| table.properties().least_timestamp <= timestamp)
    })
}

/// Says of a version whether one of these tables holds one of a later timestamp. A table that
/// cannot be read counts as one that holds none.
fn newer_in(tables: Arc<Tables>) -> NewerElsewhere {
    Box::new(move |key, timestamp| {
        let beside = tables.beside(key, timestamp, DiskAccess::Compaction);
        beside.is_ok_and(|beside| beside.newer.is_some())
    })
}
