//! Room on a full disk: tables are rewritten without what deletes hide.
//!
//! A compaction down the levels may write as much as it reads before it can remove
//! anything, and a full disk rarely has room for that. So on a full disk compaction
//! first does something that needs room only for what is left of one table:
//! - it **surveys** each table once: it looks up which other tables hold versions
//!   that the tombstones of this table hide, and adds up their bytes;
//! - it rewrites, on the level where they are, the tables of which enough is
//!   hidden; see [`pick_hidden`].
//!
//! The last level is not surveyed, because most of what its tombstones hid is
//! already gone. Memtables are not searched: a power cut could take an unsynced
//! delete after the version that it hides is gone. So a full store flushes its
//! deletes from time to time.
//!
//! All of this is forgotten once the disk is no longer full.

use super::merging::Replaced;
use super::pick::{Hidden, Pick, Reason, pick_hidden};
use crate::engine::core::Core;
use crate::engine::table_set::Tables;
use crate::error::Error;
use crate::manifest::LEVELS;
use crate::record::RecordCursor;
use crate::table::{DiskAccess, KeyHash, Purpose, Table, TableCursor};
use crate::table_id::TableId;
use base::{Entry, Kind, Timestamp};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// How many tombstones a step of a survey looks up. Each may read the disk.
const STEP_TOMBSTONES: usize = 64;

/// How many bytes a step of a survey reads before it gives the thread back.
const STEP_BYTES: usize = 128 << 10;

/// What is known about the versions in tables that are hidden from every reader.
#[derive(Default)]
pub(super) struct Reclaim {
    /// What surveys found hidden in each table.
    hidden: BTreeMap<TableId, Hidden>,
    /// Live tables whose tombstones were looked up.
    surveyed: BTreeSet<TableId>,
    survey: Option<Survey>,
}

/// A survey of a table under way.
struct Survey {
    table: Arc<Table>,
    records: TableCursor,
    /// The key of the last record.
    key: Vec<u8>,
    /// The tables that were live when it began.
    tables: Arc<Tables>,
    /// What it has found so far, in each table.
    hidden: BTreeMap<TableId, Hidden>,
}

impl Reclaim {
    /// Notes what a compaction has replaced.
    pub(super) fn note_replaced(&mut self, replaced: &Replaced) {
        let Replaced { pick, outputs, .. } = replaced;
        let mut hidden = Hidden::default();
        let mut are_surveyed = true;
        for (_, input) in &pick.inputs {
            hidden.add(self.hidden.remove(input).unwrap_or_default());
            are_surveyed &= self.surveyed.remove(input);
        }
        if are_surveyed {
            self.surveyed.extend(outputs.iter().map(|(id, _)| *id));
        }
        if pick.reason == Reason::Hidden {
            return;
        }
        // What is hidden and was not dropped counts as spread evenly.
        let kept: u64 = outputs.iter().map(|(_, bytes)| bytes).sum();
        let dropped = replaced.input_entry_bytes.saturating_sub(kept);
        let left = hidden.bytes.saturating_sub(dropped);
        if left > 0 {
            let versions = hidden.versions as f64 * left as f64 / hidden.bytes as f64;
            self.hidden.extend(outputs.iter().map(|(id, bytes)| {
                let share = *bytes as f64 / kept.max(1) as f64;
                let hidden = Hidden {
                    versions: (versions * share) as u64,
                    bytes: (left as f64 * share) as u64,
                };
                (*id, hidden)
            }));
        }
    }

    /// Notes that a table could not be rewritten, so that others get their turn.
    pub(super) fn give_up(&mut self, inputs: &[(usize, TableId)]) {
        for (_, input) in inputs {
            self.hidden.remove(input);
        }
    }

    /// On a full disk, surveys a little. Returns about how many bytes that read,
    /// or `None` once all tables are surveyed.
    pub(super) fn survey_part(&mut self, core: &Core) -> Option<u64> {
        if !core.health.is_full() {
            // A survey holds tables that compactions may have replaced meanwhile.
            *self = Self::default();
            return None;
        }
        let mut survey = match self.survey.take() {
            Some(survey) => survey,
            None => self.begin(&core.tables.load().tables)?,
        };
        match survey.step(&self.surveyed) {
            Ok((bytes, true)) => {
                self.survey = Some(survey);
                return Some(bytes);
            }
            Ok((bytes, false)) => {
                self.surveyed.insert(survey.table.id());
                for (table, hidden) in survey.hidden {
                    self.hidden.entry(table).or_default().add(hidden);
                }
                return Some(bytes);
            }
            Err(error) => {
                tracing::warn!(%error, "could not measure what the tombstones of a table hide");
                self.surveyed.insert(survey.table.id());
            }
        }
        Some(0)
    }

    /// On a full disk, the table that is to be rewritten without what is hidden in
    /// it, and the bytes that will be left of it.
    pub(super) fn pick(&self, core: &Core) -> Option<(Pick, u64)> {
        if !core.health.is_full() || self.hidden.is_empty() {
            return None;
        }
        let room_bytes = core.health.full_disk().compaction_bytes_max();
        let pick = pick_hidden(&core.tables.summaries(), &self.hidden, room_bytes)?;
        // What is hidden from a reader may not be hidden from a snapshot.
        (!core.snapshots.defer_compaction()).then_some(pick)
    }

    /// Begins with the first table that was not surveyed. Tables that flushes have
    /// written come first.
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
                records: table.cursor(Bound::Unbounded, Purpose::Compaction),
                key: Vec::new(),
                tables: Arc::clone(tables),
                hidden: BTreeMap::new(),
            });
        }
        None
    }
}

impl Survey {
    /// Takes a step; `surveyed` are the tables whose surveys are complete. Returns
    /// about how many bytes that read, and whether there is more.
    fn step(&mut self, surveyed: &BTreeSet<TableId>) -> Result<(u64, bool), Error> {
        let mut bytes = 0;
        let mut tombstones = 0;
        while tombstones < STEP_TOMBSTONES && bytes < STEP_BYTES {
            if !self.records.advance()? {
                return Ok((bytes as u64, false));
            }
            let entry = self.records.record().entry;
            let entry_bytes = self.records.data_bytes();
            bytes += entry_bytes;
            if entry.key() == self.key {
                // A flush has kept this version for a scan, which ends sooner or later.
                self.count(self.table.id(), entry_bytes);
                continue;
            }
            self.key.clear();
            self.key.extend_from_slice(entry.key());
            if entry.kind() == Kind::Tombstone {
                tombstones += 1;
                let tombstone = entry.to_entry();
                bytes += self.look_up(&tombstone, surveyed);
            }
        }
        Ok((bytes as u64, true))
    }

    /// Counts what `tombstone` hides in other tables, unless another survey has
    /// counted it. Returns how many bytes that read. A table that cannot be read
    /// counts as empty.
    fn look_up(&mut self, tombstone: &Entry, surveyed: &BTreeSet<TableId>) -> usize {
        let hash = KeyHash::of(tombstone.key());
        let mut read_bytes = 0;
        // Only what the second loop needs, because the values may be long.
        let mut older: SmallVec<[(TableId, Timestamp, usize); LEVELS]> = SmallVec::new();
        // The survey of a table has counted everything older than its tombstone for
        // this key.
        let mut counted_below = Timestamp::ZERO;
        for table in self.tables.candidates(tombstone.key()) {
            if table.id() == self.table.id() {
                continue;
            }
            let Ok(Some(held)) = table.held(tombstone.key(), hash, DiskAccess::Compaction) else {
                continue;
            };
            read_bytes += held.data_bytes;
            if held.timestamp < tombstone.timestamp() {
                older.push((table.id(), held.timestamp, held.data_bytes));
            }
            if held.kind == Kind::Tombstone && surveyed.contains(&table.id()) {
                counted_below = counted_below.max(held.timestamp);
            }
        }
        for (table, timestamp, bytes) in older {
            if timestamp >= counted_below {
                self.count(table, bytes);
            }
        }
        read_bytes
    }

    fn count(&mut self, table: TableId, bytes: usize) {
        self.hidden.entry(table).or_default().add(Hidden {
            versions: 1,
            bytes: bytes as u64,
        });
    }
}

impl Hidden {
    fn add(&mut self, more: Self) {
        self.versions += more.versions;
        self.bytes += more.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::compaction::pick::Cuts;
    use crate::testing::{BlockingWrite, MemoryDisk, environment};
    use crate::{Engine, Error, Options};
    use base::{Expiry, Timestamp};

    /// A store with a table for each of these entries, on a disk that is full.
    fn full_store(entries: &[Entry]) -> (Engine, Arc<MemoryDisk>) {
        let disk = Arc::new(MemoryDisk::new());
        let (environment, _executor) = environment(Arc::clone(&disk) as _);
        let options = Options {
            compaction: false,
            ..Options::default()
        };
        let (engine, _) = Engine::open(environment, options).unwrap();
        for entry in entries {
            engine.write(entry.clone()).unwrap();
            engine.flush().unwrap();
        }
        disk.set_capacity(disk.used_bytes());
        let long = value("long", 1, 9 << 20);
        assert!(matches!(engine.write(long), Err(Error::DiskFull)));
        (engine, disk)
    }

    fn value(key: &str, timestamp: u64, bytes: usize) -> Entry {
        let value = vec![7; bytes];
        let timestamp = Timestamp::from_u64(timestamp);
        Entry::value(key.as_bytes(), timestamp, &value, Expiry::NEVER, 1)
    }

    fn tombstone(key: &str, timestamp: u64) -> Entry {
        Entry::tombstone(key.as_bytes(), Timestamp::from_u64(timestamp), 1)
    }

    /// The bytes that are hidden in the tables, the oldest first.
    fn hidden(engine: &Engine, reclaim: &Reclaim) -> Vec<u64> {
        let state = engine.inner.core.tables.load();
        let ids: BTreeSet<_> = state.tables.iter().map(|(_, table)| table.id()).collect();
        ids.iter()
            .map(|id| reclaim.hidden.get(id).map_or(0, |hidden| hidden.bytes))
            .collect()
    }

    #[test]
    fn a_survey_finds_what_is_hidden_once() {
        let (engine, _) = full_store(&[
            value("a", 1, 1000),
            value("b", 2, 500),
            value("c", 9, 100),
            tombstone("a", 3),
            tombstone("a", 4),
            tombstone("b", 5),
            tombstone("c", 6),
        ]);
        let mut reclaim = Reclaim::default();
        while reclaim.survey_part(&engine.inner.core).is_some() {}
        // The older of two tombstones is hidden as well, a newer value is not.
        assert_eq!(hidden(&engine, &reclaim), [1001, 501, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn a_survey_holds_no_tables_once_the_disk_is_not_full() {
        let (engine, disk) = full_store(&[value("a", 1, 200_000), tombstone("a", 3)]);
        let mut reclaim = Reclaim::default();
        assert!(reclaim.survey_part(&engine.inner.core).is_some());
        let tables = Arc::downgrade(&engine.inner.core.tables.load().tables);
        assert_eq!(tables.strong_count(), 2);
        disk.set_capacity(u64::MAX);
        let reserved = engine.inner.core.health.full_disk().try_leave();
        assert!(reserved.unwrap());
        assert_eq!(reclaim.survey_part(&engine.inner.core), None);
        assert_eq!(tables.strong_count(), 1);
    }

    #[test]
    fn hidden_bytes_that_a_compaction_does_not_drop_stay_hidden() {
        let id = TableId;
        let replaced = |reason, outputs: &[(TableId, u64)]| Replaced {
            input_entry_bytes: 1000,
            outputs: outputs.to_vec(),
            pick: Pick {
                inputs: vec![(0, id(1)), (6, id(2))],
                output_level: 6,
                reason,
                cursor: None,
                cuts: Cuts::default(),
            },
        };
        let hidden = |id: TableId, bytes| {
            let versions = bytes / 5;
            (id, Hidden { versions, bytes })
        };
        let reclaim = || Reclaim {
            hidden: [hidden(id(1), 100), hidden(id(2), 300), hidden(id(3), 7)].into(),
            surveyed: [id(1), id(2), id(3)].into(),
            survey: None,
        };
        // 1000 bytes become 600 and 200.
        let mut moved = reclaim();
        let outputs = [(id(4), 600), (id(5), 200)];
        moved.note_replaced(&replaced(Reason::LevelZero, &outputs));
        let left = [hidden(id(3), 7), hidden(id(4), 150), hidden(id(5), 50)];
        assert_eq!(moved.hidden, left.into());
        assert_eq!(moved.surveyed, [id(3), id(4), id(5)].into());
        // A table is not rewritten again for an estimate that was wrong.
        let mut rewritten = reclaim();
        rewritten.note_replaced(&replaced(Reason::Hidden, &[(id(4), 900)]));
        assert_eq!(rewritten.hidden, [hidden(id(3), 7)].into());
    }
}
