//! The table set: the owner of what the store consists of, on disk and for
//! readers.
//!
//! The [`Manifest`] names the live tables durably, and the [`ReadState`] shows
//! them and the memtables to readers. Everything that changes the live tables
//! goes through one function, [`TableSet::apply`]: it makes a [`TableEdit`]
//! durable in the manifest, then visible by replacing the read state,
//! and then removes the files that the edit has made useless, once no reader has their
//! tables. A crash in between leaves files that the next start removes.
//!
//! - [`read_state`](ReadState), [`tables`](Tables), [`level`](Level): what readers see;
//! - [`edit`](TableEdit), [`files`](TableFiles): how it changes;
//! - [`damaged_ranges`](NotedRange): which parts of the tables are damaged;
//! - [`flushed`](Flushed): which versions came with the memtables that were
//!   flushed a moment ago;
//! - `ingest_level`: the level for an ingested table;
//! - [`merges`](MergeRange): what the merges in progress read and write;
//! - [`set_aside`](SetAsideKeys): which parts of the tables are set aside;
//! - [`summaries`](Levels): what a choice of compaction needs to know about the tables;
//! - [`retired`](OverheadBytes): what readers may still hold although it was replaced, and the
//!   files that nobody needs any more, whose space is freed a little at a time;
//! - [`cursors`](LevelCursor): cursors over the tables of a level and over memtables.
//!
//! Locks: `manifest`, held while the manifest is edited, across the disk's
//! syncs, and by an ingest also while it waits for the commit lock; then `merges`, held
//! briefly; then `sealed_segments`, held briefly while the read state is replaced,
//! so that a freeze and an edit do not overwrite each other; then `summaries`, held briefly
//! while they are replaced and while a compaction is chosen; then that of
//! `retired`, held briefly. Readers take none.

pub(super) mod changes;
mod cursors;
pub(super) mod damage;
mod damaged_ranges;
mod edit;
mod files;
mod flushed;
mod ingest_level;
mod merges;
mod read_state;
mod retired;
mod set_aside;
mod summaries;
mod tables;

pub(crate) use cursors::{LevelCursor, StoreCursor};
pub(crate) use damaged_ranges::NotedRange;
use edit::TablesAfter;
pub(crate) use edit::{FlushedMemtable, IngestedRecords, TableEdit};
pub(crate) use files::{BlobOutput, TableFiles, TableOutput};
pub(crate) use flushed::{Came, Flushed, RecordedSequences, Version, VersionSequences};
pub(crate) use merges::MergeRange;
pub(crate) use read_state::ReadState;
pub use retired::OverheadBytes;
pub use set_aside::SetAsideKeys;
pub(crate) use set_aside::tell_tables;
pub(crate) use summaries::{Levels, TableSummary};
pub(crate) use tables::{Beside, Blobs, Level, Tables};

use crate::error::Error;
use crate::locks::lock;
use crate::manifest::{
    BLOB_LEVEL, EditError, KeyBounds, LEVELS, LiveTable, LogClaim, ManifestEdit, ManifestLog,
    Progress,
};
use crate::memtable::Memtable;
use crate::options::{Environment, Options};
use crate::table::Table;
use crate::table_id::TableId;
use crate::wal::{FreeSegments, SegmentSpace};
use arc_swap::{ArcSwap, Guard};
use base::Timestamp;
use flushed::remember;
use ingest_level::{is_free, level_for};
use merges::Merges;
use retired::{Retired, overhead_max};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The owner of the manifest and the read state.
pub(crate) struct TableSet {
    store_id: u64,
    files: TableFiles,
    manifest: Mutex<ManifestLog>,
    /// The merges in progress.
    merges: Merges,
    /// Sealed log segments that are still needed, each with the space of its file.
    sealed_segments: Mutex<BTreeMap<u64, SegmentSpace>>,
    /// Takes over the segments that are not needed any more.
    free_segments: Arc<FreeSegments>,
    read_state: ArcSwap<ReadState>,
    /// What a choice of compaction needs to know about the tables of the read state.
    summaries: Mutex<Levels>,
    greatest_timestamp: AtomicU64,
    /// What a reader may still hold.
    retired: Retired,
    memtable_bytes: usize,
    table_bytes: u64,
    newer_version_checks_kept: Duration,
    /// Whether the read state has damaged ranges.
    is_damaged: AtomicBool,
}

impl TableSet {
    /// The table set of a store that is being opened.
    pub(crate) fn new(
        environment: &Environment,
        options: &Options,
        files: TableFiles,
        manifest: ManifestLog,
        read_state: ReadState,
        sealed_segments: BTreeMap<u64, SegmentSpace>,
        free_segments: Arc<FreeSegments>,
    ) -> Self {
        Self {
            store_id: manifest.manifest().public_id(),
            files,
            greatest_timestamp: AtomicU64::new(
                manifest.manifest().progress.greatest_timestamp.as_u64(),
            ),
            manifest: Mutex::new(manifest),
            merges: Merges::default(),
            sealed_segments: Mutex::new(sealed_segments),
            free_segments,
            is_damaged: AtomicBool::new(!read_state.damaged.is_empty()),
            summaries: Mutex::new(Levels::of(&read_state.tables)),
            read_state: ArcSwap::from_pointee(read_state),
            retired: Retired::new(environment),
            memtable_bytes: options.memtable_bytes,
            table_bytes: options.table_bytes,
            newer_version_checks_kept: options.newer_version_checks_kept,
        }
    }

    /// What readers see now. For short uses: it must not be held while blocking.
    pub(crate) fn load(&self) -> Guard<Arc<ReadState>> {
        self.read_state.load()
    }

    /// What readers see now, to be held for longer.
    pub(crate) fn load_full(&self) -> Arc<ReadState> {
        self.read_state.load_full()
    }

    /// What a choice of compaction needs to know about the tables. Which of those on level 0 are
    /// damaged is looked up now; elsewhere a table was sound when it came.
    pub(crate) fn summaries(&self) -> MutexGuard<'_, Levels> {
        let mut levels = lock(&self.summaries);
        for table in self.load().tables.levels()[0].iter() {
            levels.note_damage(table.id(), table.is_damaged());
        }
        levels
    }

    /// What readers see now, and those of these tables that are live, with their levels.
    pub(crate) fn find(
        &self,
        ids: impl Iterator<Item = TableId>,
    ) -> (Arc<ReadState>, Vec<(usize, Arc<Table>)>) {
        // Both are replaced under this lock.
        let levels = lock(&self.summaries);
        let state = self.load_full();
        let find = |id| {
            let (level, summary) = levels.get(id)?;
            let (_, table) = state.tables.find(level, &summary.least_key, id)?;
            Some((level, Arc::clone(table)))
        };
        let found = ids.filter_map(find).collect();
        (state, found)
    }

    /// The live tables that are damaged, with their levels.
    pub(crate) fn damaged_tables(&self) -> Vec<(usize, Arc<Table>)> {
        let known = self.files.cache().damage_reports().damaged();
        if known.is_empty() {
            return Vec::new();
        }
        let (state, mut found) = self.find(known.iter().copied());
        let blobs = state.tables.blobs();
        let referred = known.iter().filter(|id| !blobs.unreferred().contains(id));
        let blobs = referred.filter_map(|id| blobs.get(*id));
        found.extend(blobs.map(|table| (BLOB_LEVEL, table)));
        found.retain(|(_, table)| table.is_damaged());
        found
    }

    /// Whether a damaged part of a table may have held versions of `key`. Costs
    /// nothing while there is none.
    pub(crate) fn is_damaged(&self, key: &[u8]) -> bool {
        self.is_damaged.load(Relaxed) && self.load().is_damaged(key)
    }

    /// A random number that was chosen when the store was made.
    pub(crate) fn store_id(&self) -> u64 {
        self.store_id
    }

    /// The files of the tables.
    pub(crate) fn files(&self) -> &TableFiles {
        &self.files
    }

    /// The greatest timestamp that was ever written to the store.
    pub(crate) fn greatest_timestamp(&self) -> Timestamp {
        Timestamp::from_u64(self.greatest_timestamp.load(Relaxed))
    }

    /// Notes that a version with this timestamp was written.
    pub(crate) fn note_timestamp(&self, timestamp: Timestamp) {
        self.greatest_timestamp
            .fetch_max(timestamp.as_u64(), Relaxed);
    }

    /// Replaces the greatest timestamp. The next edit makes it durable.
    pub(crate) fn set_greatest_timestamp(&self, timestamp: Timestamp) {
        self.greatest_timestamp.store(timestamp.as_u64(), Relaxed);
    }

    /// The space that the sealed log segments take, in bytes.
    pub(crate) fn sealed_segments_bytes(&self) -> u64 {
        let sealed_segments = lock(&self.sealed_segments);
        sealed_segments.values().map(|space| space.bytes).sum()
    }

    /// Freezes the active memtable. The next one's records are in the log segment
    /// `segment`; `sealed` is the segment of the frozen one, with its space.
    pub(crate) fn freeze_active(&self, segment: u64, sealed: (u64, SegmentSpace)) {
        let mut sealed_segments = lock(&self.sealed_segments);
        sealed_segments.insert(sealed.0, sealed.1);
        let mut state = ReadState::clone(&self.read_state.load());
        state.frozen.push(state.active);
        state.active = Arc::new(Memtable::new(segment, self.memtable_bytes));
        self.read_state.store(Arc::new(state));
    }

    /// Applies an edit: durably, then visibly, and all of it or nothing. Removes
    /// the files that it has made useless, those of tables once no reader has them.
    ///
    /// # Errors
    /// When the manifest could not be stored. Nothing has changed then, and the
    /// files of the added tables are removed, unless a failed sync leaves it
    /// unknown which manifest is in force.
    pub(crate) fn apply(&self, edit: TableEdit) -> Result<(), Error> {
        let manifest = lock(&self.manifest);
        self.apply_to(manifest, edit)
    }

    /// Sets aside what lies in the tables below a timestamp. Nothing is to come below it any
    /// more but to tables that this does not see.
    ///
    /// # Errors
    /// As [`TableSet::apply`].
    pub(crate) fn set_aside(&self, below: Timestamp, keys: SetAsideKeys) -> Result<(), Error> {
        let manifest = lock(&self.manifest);
        let edit = set_aside::edit_of(&self.read_state.load(), below, keys);
        self.apply_to(manifest, edit)
    }

    /// Keeps no more what was set aside below a timestamp of `up_to` or less.
    ///
    /// # Errors
    /// As [`TableSet::apply`].
    pub(crate) fn discard(&self, up_to: Timestamp) -> Result<(), Error> {
        self.apply(TableEdit {
            discarded: Some(up_to),
            ..TableEdit::default()
        })
    }

    fn apply_to(
        &self,
        manifest: MutexGuard<'_, ManifestLog>,
        edit: TableEdit,
    ) -> Result<(), Error> {
        let obsolete = self.store(manifest, edit)?.show();
        for (id, bytes) in obsolete.discarded {
            self.retired.discard(id, bytes);
        }
        for id in obsolete.lost {
            self.files.move_lost_aside(id);
        }
        self.free_retired();
        for (segment, space) in obsolete.segments {
            if let Err(error) = self.free_segments.retire(segment, space) {
                tracing::warn!(%error, "could not remove a log segment; the next start will");
            }
        }
        Ok(())
    }

    /// Adds tables that were ingested, each on the level where it fits, durably. The
    /// caller makes them visible.
    ///
    /// # Errors
    /// As [`TableSet::apply`].
    pub(crate) fn store_ingested(
        &self,
        tables: Vec<Arc<Table>>,
        records: IngestedRecords,
    ) -> Result<StoredEdit<'_>, Error> {
        let manifest = lock(&self.manifest);
        let live = Arc::clone(&self.read_state.load().tables);
        let merges = self.merges.now();
        let place = |table: Arc<Table>| (level_for(&table, &live, &merges), table);
        let edit = TableEdit {
            added: tables.into_iter().map(place).collect(),
            ingested: Some(records),
            ..TableEdit::default()
        };
        self.store(manifest, edit)
    }

    /// Moves tables that overlap no table of `level` down to that level, durably. One that is not
    /// live any more or is being merged stays what it is, and so does one for which there is no
    /// room any more on that level. Of some that overlap each other the first one moves. Returns
    /// those that have moved.
    ///
    /// # Errors
    /// As [`TableSet::apply`].
    pub(crate) fn move_down(
        &self,
        level: usize,
        mut tables: Vec<Arc<Table>>,
    ) -> Result<Vec<Arc<Table>>, Error> {
        let manifest = lock(&self.manifest);
        let live = Arc::clone(&self.read_state.load().tables);
        let merges = self.merges.now();
        tables.retain(|table| {
            let known = manifest.manifest().tables.get(&table.id());
            known.is_some_and(|known| usize::from(known.level) < level)
                && !merges.iter().any(|merge| merge.reads(table.id()))
                && is_free(level, table, &live, &merges)
        });
        let mut moving = Tables::new(std::iter::empty());
        tables.retain(|table| {
            let is_apart = !moving.overlaps(level, table);
            if is_apart {
                moving.insert(level, Arc::clone(table));
            }
            is_apart
        });
        if tables.is_empty() {
            return Ok(tables);
        }
        let edit = TableEdit {
            moved: tables.iter().map(|it| (level, Arc::clone(it))).collect(),
            ..TableEdit::default()
        };
        self.apply_to(manifest, edit)?;
        Ok(tables)
    }

    /// Begins a merge of `inputs` into tables of `level`: nothing else adds a table to that
    /// level in the range that is returned, for as long as the caller keeps it. `None`
    /// if it may not begin, because of another merge, or because an edit has come since the
    /// inputs were chosen.
    pub(crate) fn begin_merge(
        &self,
        level: usize,
        inputs: &[(usize, TableId)],
    ) -> Option<Arc<MergeRange>> {
        // No edit lies between the check and the note.
        let _manifest = lock(&self.manifest);
        let (state, found) = self.find(inputs.iter().map(|(_, id)| *id));
        if found.len() < inputs.len() {
            return None;
        }
        self.merges.begin(&state.tables, level, &found)
    }

    /// Makes an edit durable.
    fn store<'a>(
        &'a self,
        mut manifest: MutexGuard<'a, ManifestLog>,
        edit: TableEdit,
    ) -> Result<StoredEdit<'a>, Error> {
        // A memtable may be frozen meanwhile, which changes neither the tables
        // nor the least segment that is needed.
        let before = self.read_state.load_full();
        let after = edit.tables_after(&before, manifest.manifest());
        let state = edit.apply(&before, &after);
        let change = self.describe(&edit, &after.removed, &state, &manifest);
        if let Err(EditError { error, may_come }) = manifest.edit(change) {
            if !may_come {
                for (_, table) in &edit.added {
                    self.files.remove(table.id());
                }
            }
            return Err(error);
        }
        Ok(StoredEdit {
            set: self,
            manifest,
            edit,
            after,
        })
    }

    /// Tells the tables which of their parts are damaged, before anyone can learn that
    /// the damage is noted: a scan that begins afterwards passes over it.
    fn publish_damage(&self, state: &ReadState) {
        let is_damaged = !state.damaged.is_empty();
        if is_damaged {
            for (_, table) in state.tables.all() {
                table.set_damaged_parts(state.damaged_parts(table.id()));
            }
        }
        self.is_damaged.store(is_damaged, Relaxed);
    }

    /// The edit of the manifest that leads to `state`.
    fn describe(
        &self,
        edit: &TableEdit,
        gone: &[Arc<Table>],
        state: &ReadState,
        manifest: &ManifestLog,
    ) -> ManifestEdit {
        let before = manifest.manifest();
        let known = before.progress;
        // Each earlier segment was sealed before the next one became active.
        let claim = LogClaim {
            segment: state.active.segment(),
            bytes: 0,
        };
        let added = edit.added.iter();
        let added = added.map(|(level, table)| describe_table(*level, table));
        let moved = edit.moved.iter().filter_map(|(level, table)| {
            let known = before.tables.get(&table.id())?.clone();
            let level = *level as u8;
            Some(LiveTable { level, ..known })
        });
        // Blob tables that the edit leaves to nobody go with it.
        let gone = gone.iter().map(|table| table.id());
        let removed = edit.removed.iter().copied().chain(gone);
        let removed = removed.filter(|id| before.tables.contains_key(id));
        let mut change = ManifestEdit {
            tables: added.chain(moved).collect(),
            removed: removed.collect(),
            ..ManifestEdit::of_progress(Progress {
                next_table: self.files.next(),
                least_log_segment: state.least_segment(),
                log_claim: known.log_claim.max(claim),
                greatest_timestamp: self.greatest_timestamp(),
                records_before: known.records_before.saturating_add(edit.records()),
            })
        };
        let damaged = state.damaged.iter().map(|noted| &noted.range);
        change.leave(before, damaged, &state.set_aside);
        change
    }

    /// Writes to the manifest how much of the log is durable. Without that, a
    /// start could take damage at the end of the log for a torn tail.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Sync`], [`Error::Io`].
    pub(crate) fn claim_log(&self, claim: LogClaim) -> Result<(), Error> {
        let mut manifest = lock(&self.manifest);
        let known = manifest.manifest().progress;
        if known.log_claim >= claim {
            return Ok(());
        }
        let claimed = ManifestEdit::of_progress(Progress {
            log_claim: claim,
            ..known
        });
        manifest.edit(claimed).map_err(|failed| failed.error)
    }

    /// Frees what no reader holds any more.
    pub(crate) fn free_retired(&self) {
        let overhead_max = overhead_max(self.load().tables.bytes(), self.table_bytes);
        let waiting_max = overhead_max.saturating_sub(self.merges.written_bytes());
        self.retired.free(waiting_max);
    }

    /// The merges in progress.
    pub(crate) fn merges(&self) -> Vec<Arc<MergeRange>> {
        self.merges.now()
    }

    /// Whether unfinished and removed tables take more than they are to take.
    pub(crate) fn has_much_overhead(&self) -> bool {
        let OverheadBytes {
            unfinished,
            removed,
            ..
        } = self.overhead();
        let live_bytes = self.load().tables.bytes();
        unfinished + removed > overhead_max(live_bytes, self.table_bytes)
    }

    /// What the disk holds of tables that are not live.
    pub(crate) fn overhead(&self) -> OverheadBytes {
        OverheadBytes {
            unfinished: self.merges.written_bytes(),
            ..self.retired.overhead()
        }
    }

    /// Frees what no reader holds any more, and removes no file from then on. The folder is still
    /// the store's.
    pub(crate) fn close(&self) {
        self.free_retired();
        self.retired.close();
    }

    /// Frees at once the space of removed tables that waits for its turn, because the disk is
    /// short of room. Returns whether there was any.
    pub(crate) fn free_removed(&self) -> bool {
        self.retired.free_removed()
    }
}

/// An edit that is durable and not yet visible. No other edit comes in between.
#[must_use]
pub(crate) struct StoredEdit<'a> {
    set: &'a TableSet,
    manifest: MutexGuard<'a, ManifestLog>,
    edit: TableEdit,
    after: TablesAfter,
}

impl StoredEdit<'_> {
    /// Makes the edit of an ingest visible at this time of the monotonic clock.
    pub(crate) fn show_ingested(self, at: Duration) {
        let obsolete = self.show_at(at);
        debug_assert!(
            obsolete.lost.is_empty() && obsolete.segments.is_empty(),
            "an ingest makes nothing useless"
        );
    }

    /// Makes an edit visible that ingests nothing. Returns what it has made useless.
    fn show(self) -> Obsolete {
        debug_assert!(self.edit.ingested.is_none(), "an ingest comes at some time");
        self.show_at(Duration::ZERO)
    }

    /// Makes the edit visible. What is ingested arrives at this time of the monotonic
    /// clock. Returns what the edit has made useless.
    fn show_at(self, at: Duration) -> Obsolete {
        let Self {
            set,
            manifest,
            edit,
            after,
        } = self;
        let mut sealed_segments = lock(&set.sealed_segments);
        let before = set.read_state.load();
        let mut state = edit.apply(&before, &after);
        let live = &manifest.manifest().tables;
        let (useless, discarded) = set_aside::useless_files(&edit, &before, &state, live);
        let mut lost = Vec::new();
        for table in &after.removed {
            let is_blob = !edit.removed.contains(&table.id());
            let mut is_useless = is_blob || useless.contains(&table.id());
            if is_useless && table.is_lost() {
                lost.push(table.id());
                is_useless = false;
            }
            set.retired.add_table(Arc::clone(table), is_useless);
            set.files.cache().damage_reports().note_gone(table.id());
        }
        if let Some(flushed) = edit.flushed {
            let last = Flushed::new(flushed.at, &flushed.memtable, flushed.sequences);
            remember(&mut state.flushed, last, set.newer_version_checks_kept);
            set.retired.add_memtable(flushed.memtable);
        }
        if let Some(ingested) = edit.ingested {
            let (least, greatest) = (ingested.least_timestamp, ingested.greatest_timestamp);
            let last = Flushed::ingested(at, least, greatest);
            remember(&mut state.flushed, last, set.newer_version_checks_kept);
        }
        if before.damaged != state.damaged {
            set.publish_damage(&state);
        }
        if !Arc::ptr_eq(&before.set_aside, &state.set_aside) {
            tell_tables(&state.tables, &state.set_aside);
        }
        {
            let mut levels = lock(&set.summaries);
            for table in &after.removed {
                levels.remove(table.id());
            }
            let others = edit.added.iter().chain(&edit.moved);
            for (level, table) in others.filter(|(level, _)| *level < LEVELS) {
                levels.insert(*level, TableSummary::of(table));
            }
            set.read_state.store(Arc::new(state));
        }
        let kept = sealed_segments.split_off(&manifest.manifest().progress.least_log_segment);
        let segments = std::mem::replace(&mut *sealed_segments, kept);
        Obsolete {
            lost,
            discarded,
            segments,
        }
    }
}

/// A table as the manifest names it.
pub(crate) fn describe_table(level: usize, table: &Table) -> LiveTable {
    let properties = table.properties();
    LiveTable {
        level: level as u8,
        id: table.id(),
        bytes: table.file_bytes(),
        keys: KeyBounds::of(&properties.least_key, &properties.greatest_key),
    }
}

/// The files that an edit has made useless, but for those of tables that readers may still have.
struct Obsolete {
    /// The tables that are live no more, and had not opened.
    lost: Vec<TableId>,
    /// The files of tables that were kept, but not live, and their lengths.
    discarded: Vec<(TableId, u64)>,
    segments: BTreeMap<u64, SegmentSpace>,
}
