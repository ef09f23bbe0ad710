//! An edit of the live tables.

use super::damaged_ranges::{self, NotedRange};
use super::flushed::VersionSequences;
use super::read_state::ReadState;
use super::set_aside;
use super::tables::Tables;
use crate::manifest::{BLOB_LEVEL, Manifest, SetAsidePart, kept_tables};
use crate::memtable::Memtable;
use crate::table::Table;
use crate::table_id::TableId;
use base::Timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Tables that take the place of others, all at once.
///
/// A flush adds a table and names the memtable whose records are in it. A compaction
/// adds its outputs and removes its inputs. An ingest adds tables whose records the store
/// did not have. A damaged table moves to level 0, and one that overlaps nothing where it goes
/// moves down.
#[derive(Default)]
pub(crate) struct TableEdit {
    /// New tables, each with its level. Their files are complete and durable.
    pub(crate) added: Vec<(usize, Arc<Table>)>,
    /// Live tables that go, with their files.
    pub(crate) removed: Vec<TableId>,
    /// Live tables that change their level, each with the new one.
    pub(crate) moved: Vec<(usize, Arc<Table>)>,
    /// The memtable that the added tables take the place of.
    pub(crate) flushed: Option<FlushedMemtable>,
    /// What arrives with the added tables, if they are ingested.
    pub(crate) ingested: Option<IngestedRecords>,
    /// Parts of live tables that were found damaged. Those of tables that go are gone.
    pub(crate) damaged: Vec<NotedRange>,
    /// Parts of live tables that are set aside. If such a table goes, its file is kept.
    pub(crate) set_aside: Vec<SetAsidePart>,
    /// Whether what the store held of damaged keys is set aside.
    pub(crate) sets_damage_aside: bool,
    /// Below which timestamp what is set aside is kept no more.
    pub(crate) discarded: Option<Timestamp>,
}

/// What an edit makes of the tables of a read state.
pub(super) struct TablesAfter {
    pub(super) tables: Arc<Tables>,
    pub(super) damaged: Arc<[NotedRange]>,
    pub(super) set_aside: Arc<[SetAsidePart]>,
    /// The tables that go.
    pub(super) removed: Vec<Arc<Table>>,
}

/// What arrives with ingested tables.
#[derive(Clone, Copy)]
pub(crate) struct IngestedRecords {
    /// How many records.
    pub(crate) records: u64,
    /// The least timestamp among them.
    pub(crate) least_timestamp: Timestamp,
    /// The greatest timestamp among them.
    pub(crate) greatest_timestamp: Timestamp,
}

/// A memtable whose records are in a table now.
pub(crate) struct FlushedMemtable {
    /// The memtable.
    pub(crate) memtable: Arc<Memtable>,
    /// The versions in it, for newer-version checks of versions that come again.
    pub(crate) sequences: VersionSequences,
    /// When it was flushed, on the monotonic clock.
    pub(crate) at: Duration,
}

impl TableEdit {
    /// How many committed records this edit moves out of the live log, or ingests.
    pub(super) fn records(&self) -> u64 {
        let flushed = self.flushed.as_ref();
        let flushed = flushed.map_or(0, |flushed| flushed.memtable.committed());
        flushed + self.ingested.map_or(0, |ingested| ingested.records)
    }

    /// What the edit makes of a read state's tables. No other edit comes before it is shown.
    pub(super) fn tables_after(&self, state: &ReadState, manifest: &Manifest) -> TablesAfter {
        let mut tables = Tables::clone(&state.tables);
        let live = |id| manifest.tables.get(&id);
        let added = self.added.iter().map(|(_, table)| table.id());
        let (added, mut gone): (BTreeSet<_>, BTreeSet<_>) =
            (added.collect(), self.removed.iter().copied().collect());
        let mut removed = tables.remove(self.removed.iter().filter_map(|id| live(*id)));
        tables.remove(self.moved.iter().filter_map(|(_, table)| live(table.id())));
        // A blob table comes before those that refer to it.
        let is_blob = |added: &&(usize, Arc<Table>)| added.0 == BLOB_LEVEL;
        let others = self.added.iter().filter(|added| !is_blob(added));
        let blobs = self.added.iter().filter(is_blob);
        for (level, table) in blobs.chain(others).chain(&self.moved) {
            tables.insert(*level, Arc::clone(table));
        }
        let is_live = |id, gone: &BTreeSet<TableId>| {
            !gone.contains(&id) && (added.contains(&id) || manifest.tables.contains_key(&id))
        };
        let set_aside = set_aside::after(self, state, |id| is_live(id, &gone));
        let mut kept = kept_tables(&set_aside);
        kept.retain(|id| !is_live(*id, &gone));
        tables.keep_blobs(&removed, &kept);
        // An ingest removes nothing; the next edit does.
        let useless = match self.ingested {
            Some(_) => BTreeSet::new(),
            None => tables.useless_blobs(),
        };
        removed.extend(tables.remove(useless.iter().filter_map(|id| live(*id))));
        gone.extend(useless);
        // What is kept is no part of the store, so it is not damaged either.
        gone.extend(tables.blobs().unreferred());
        TablesAfter {
            damaged: self.damaged_after(state, |id| is_live(id, &gone)),
            set_aside,
            tables: Arc::new(tables),
            removed,
        }
    }

    /// The read state after the edit, which made this of the tables. Memtables may have been
    /// frozen meanwhile.
    pub(super) fn apply(&self, state: &ReadState, after: &TablesAfter) -> ReadState {
        let is_flushed = |memtable: &Arc<Memtable>| {
            let flushed = self.flushed.as_ref();
            flushed.is_some_and(|flushed| Arc::ptr_eq(memtable, &flushed.memtable))
        };
        ReadState {
            damaged: Arc::clone(&after.damaged),
            set_aside: Arc::clone(&after.set_aside),
            active: Arc::clone(&state.active),
            frozen: state
                .frozen
                .iter()
                .filter(|memtable| !is_flushed(memtable))
                .cloned()
                .collect(),
            tables: Arc::clone(&after.tables),
            flushed: state.flushed.clone(),
        }
    }

    /// The damaged parts of the tables that are live after the edit.
    fn damaged_after(
        &self,
        state: &ReadState,
        is_live: impl Fn(TableId) -> bool,
    ) -> Arc<[NotedRange]> {
        if self.damaged.is_empty() && state.damaged.is_empty() {
            return Arc::clone(&state.damaged);
        }
        let mut ranges = Vec::new();
        let noted = state.damaged.iter().chain(&self.damaged);
        for noted in noted.filter(|noted| is_live(noted.range.table)) {
            damaged_ranges::add(&mut ranges, noted.clone());
        }
        for noted in &mut ranges {
            noted.range.is_set_aside |= self.sets_damage_aside;
        }
        ranges.into()
    }
}
