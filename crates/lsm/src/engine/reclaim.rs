//! Room on a full disk: what deletes hide is taken out of the tables.
//!
//! A compaction down the levels may write as much as it reads before it can
//! remove anything, and a full disk seldom has room for that. So there
//! compaction does something else first, for which the rest of one table has to
//! fit:
//! - it **surveys** each table once: looks up which other tables hold what the
//!   tombstones of this one hide, and adds up how much that is;
//! - it rewrites, where they are, the tables of which enough is hidden; see
//!   [`pick_hidden`].
//!
//! The last level is not surveyed: what its tombstones hide has gone into them.
//! What memtables hold is not looked at: it could be lost in a power cut that
//! what it hides would have survived. So a full store flushes its deletes once
//! in a while.

use super::Inner;
use super::state::Tables;
use crate::compaction::LEVELS;
use crate::compaction::pick::{Pick, pick_hidden};
use crate::compaction::retention::NewerElsewhere;
use crate::entry::{Entry, Kind, RecordSource};
use crate::error::Error;
use crate::sync::lock;
use crate::table::{Access, KeyHash, Purpose, Table, TableId, TableIterator};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// How many tombstones a step of a survey looks up: each may read the disk.
const STEP_TOMBSTONES: usize = 64;

/// How many bytes a step of a survey reads before it gives the lane back.
const STEP_BYTES: usize = 128 << 10;

/// What is known of the versions in tables that nobody can see.
#[derive(Default)]
pub(super) struct Reclaim {
    /// For each table the bytes of keys and values that surveys found hidden.
    hidden_bytes: BTreeMap<TableId, u64>,
    /// Live tables whose tombstones were looked up.
    surveyed: BTreeSet<TableId>,
    survey: Option<Survey>,
}

/// A survey of a table under way.
struct Survey {
    table: Arc<Table>,
    records: TableIterator,
    /// The tables of when it began.
    tables: Arc<Tables>,
}

impl Reclaim {
    /// Takes note that a compaction has replaced tables by others.
    pub(super) fn replace(
        &mut self,
        inputs: &[(usize, TableId)],
        outputs: impl Iterator<Item = TableId>,
    ) {
        let mut are_surveyed = true;
        for (_, input) in inputs {
            self.hidden_bytes.remove(input);
            are_surveyed &= self.surveyed.remove(input);
        }
        if are_surveyed {
            self.surveyed.extend(outputs);
        }
    }

    /// Takes note that a table could not be rewritten, so that it does not
    /// keep others from their turn.
    pub(super) fn give_up(&mut self, inputs: &[(usize, TableId)]) {
        for (_, input) in inputs {
            self.hidden_bytes.remove(input);
        }
    }

    /// Surveys a little. Returns about how many bytes that read; `None` once
    /// all of `tables` are surveyed.
    fn survey_some(&mut self, tables: &Arc<Tables>) -> Option<u64> {
        let mut survey = match self.survey.take() {
            Some(survey) => survey,
            None => self.begin(tables)?,
        };
        match survey.look_some_up(&mut self.hidden_bytes) {
            Ok((bytes, true)) => {
                self.survey = Some(survey);
                Some(bytes)
            }
            Ok((bytes, false)) => {
                self.surveyed.insert(survey.table.id());
                Some(bytes)
            }
            Err(error) => {
                tracing::warn!(%error, "what a table's deletes hide could not be told");
                self.surveyed.insert(survey.table.id());
                Some(0)
            }
        }
    }

    /// Begins with the first table that was not surveyed.
    fn begin(&mut self, tables: &Arc<Tables>) -> Option<Survey> {
        for (level, table) in tables.iter() {
            if self.surveyed.contains(&table.id()) {
                continue;
            }
            if level == LEVELS - 1 || table.properties().tombstones == 0 {
                self.surveyed.insert(table.id());
                continue;
            }
            return Some(Survey {
                table: Arc::clone(table),
                records: table.iter(Bound::Unbounded, Purpose::Compaction),
                tables: Arc::clone(tables),
            });
        }
        None
    }
}

impl Survey {
    /// Goes on for a step. Returns about how many bytes that read, and whether
    /// there is more.
    fn look_some_up(
        &mut self,
        hidden_bytes: &mut BTreeMap<TableId, u64>,
    ) -> Result<(u64, bool), Error> {
        let mut bytes = 0;
        let mut tombstones = 0;
        while tombstones < STEP_TOMBSTONES && bytes < STEP_BYTES {
            let Some(record) = self.records.next()? else {
                return Ok((bytes as u64, false));
            };
            bytes += record.entry.data_bytes();
            if record.entry.kind() == Kind::Tombstone {
                tombstones += 1;
                for (table, hidden) in self.hidden_by(&record.entry) {
                    bytes += hidden;
                    *hidden_bytes.entry(table).or_default() += hidden as u64;
                }
            }
        }
        Ok((bytes as u64, true))
    }

    /// The other tables that hold a version which `tombstone` outranks, and the
    /// bytes of it. A table that cannot be read counts as one that holds none.
    fn hidden_by<'a>(
        &'a self,
        tombstone: &'a Entry,
    ) -> impl Iterator<Item = (TableId, usize)> + use<'a> {
        let hash = KeyHash::of(tombstone.key());
        self.tables.iter().filter_map(move |(_, table)| {
            let may_hold = table.id() != self.table.id()
                && table.properties().timestamp_least <= tombstone.timestamp();
            if !may_hold {
                return None;
            }
            let held = table.get(tombstone.key(), hash, Access::MayRead).ok()??;
            (held.rank() < tombstone.rank()).then(|| (table.id(), held.data_bytes()))
        })
    }
}

/// Tells of versions whether one of these tables holds a newer one. A table that
/// cannot be read counts as one that does not.
pub(super) fn newer_in(tables: Arc<Tables>) -> NewerElsewhere {
    Box::new(move |entry| {
        let newest = tables.newest(entry.key(), Some(entry.clone()), Access::MayRead);
        matches!(newest, Ok(Some(newest)) if newest.rank() > entry.rank())
    })
}

impl Inner {
    /// On a full disk, surveys a little. Returns about how many bytes that
    /// read; `None` where there is nothing to survey.
    pub(super) fn survey_some(&self, reclaim: &mut Reclaim) -> Option<u64> {
        if !self.space.is_full() {
            return None;
        }
        let tables = Arc::clone(&self.state.load().tables);
        reclaim.survey_some(&tables)
    }

    /// On a full disk, the table that is to be rewritten without what is
    /// hidden in it, and the bytes that will be left of it.
    pub(super) fn pick_hidden(&self, reclaim: &Reclaim) -> Option<(Pick, u64)> {
        // What is hidden from a reader may not be from a snapshot.
        if !self.space.is_full() || self.snapshots.hold_compaction_back() {
            return None;
        }
        let levels = self.state.load().tables.summaries();
        pick_hidden(&levels, &reclaim.hidden_bytes, self.room_bytes())
    }

    /// Ends the active memtable so that the deletes in it reach a table, unless
    /// another waits for its flush already. Returns whether there was anything to end.
    pub(super) fn freeze_deletes(self: &Arc<Self>) -> bool {
        let mut committer = lock(&self.committer);
        let state = self.state.load();
        if state.active.is_empty() || !state.frozen.is_empty() {
            return false;
        }
        if let Err(error) = self.freeze(&mut committer) {
            tracing::debug!(%error, "could not flush for room");
        }
        true
    }
}
