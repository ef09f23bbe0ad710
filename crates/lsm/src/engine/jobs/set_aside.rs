//! Setting aside: what lies in the store below a timestamp stops being a part of it, and is kept
//! for the operator.
//!
//! The owner of the store has found out that what is below the timestamp may have been deleted,
//! with tombstones that are gone. To drop it could lose the only copy of something. So:
//!
//! 1. The store refuses from now on what is below and was admitted under a lower GC threshold, so
//!    nothing slips in behind this.
//! 2. What is in memory is flushed. Now all that is below lies in tables.
//! 3. One edit of the manifest notes of each table which keys are set aside, and below which
//!    timestamp ([`SetAsidePart`]). From then on reads, scans and merges pass over that, and
//!    compactions drop it with the tables that they replace. A table that has nothing else goes
//!    at once.
//! 4. The file of a table with such a part stays when the table goes, because the manifest names
//!    it. From these files the operator reads the copies, until he discards them.
//!
//! Nothing is written but the manifest, so a disk that is full takes it, if the flush fits; a
//! crash finds all of it done or nothing; and to repeat it changes nothing. Each table is kept
//! once, however often it is set aside, so the files that are kept are no more than the store has
//! ever held at those moments. They take room on the disk until they are discarded: the
//! owner tells the operator of them ([`Statistics`](super::statistics::Statistics)).
//!
//! Of a **damaged range** the keys alone are set aside ([`SetAsideKeys::Damaged`]): the damaged
//! block may have held the tombstone of what other tables hold of these keys. That is done once
//! for each range, because a comparison brings back what the others have of it.

use crate::engine::store::Store;
use crate::engine::table_set::{Level, LevelCursor, ReadState, SetAsideKeys};
use crate::error::Error;
use crate::manifest::{SetAsidePart, kept_tables};
use crate::record::RecordCursor;
use crate::record::merge::Merge;
use crate::table::Purpose;
use crate::table_id::TableId;
use base::{Entry, Kind, Timestamp};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// The most tables that a page opens, but for those that may hold its first key.
const PAGE_TABLES_MAX: usize = 32;

/// The most records that a page reads, of which it may give few or none.
const PAGE_RECORDS_MAX: usize = 10_000;

/// What is kept of what was set aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAsideStatus {
    /// How many tables hold it.
    pub tables: u64,
    /// The bytes of their files.
    pub bytes: u64,
    /// How many versions they hold. At most so many are set aside.
    pub versions_max: u64,
    /// All of it is below this timestamp; [`Timestamp::ZERO`] if there is nothing.
    pub below: Timestamp,
}

impl SetAsideStatus {
    /// What of these parts is kept.
    pub(super) fn of(parts: &[SetAsidePart]) -> Self {
        let kept = parts.iter().filter(|part| part.is_kept);
        let of_tables: BTreeMap<_, _> = kept.clone().map(|part| (part.table, part)).collect();
        Self {
            tables: of_tables.len() as u64,
            bytes: of_tables.values().map(|part| part.file_bytes).sum(),
            versions_max: of_tables.values().map(|part| part.versions).sum(),
            below: kept.map(|part| part.below).max().unwrap_or_default(),
        }
    }
}

/// Some of the copies that are set aside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopiesPage {
    /// The copies, by key.
    pub copies: Vec<Entry>,
    /// From which key on there may be more; `None` at the end.
    pub next: Option<Bytes>,
}

impl Store {
    /// As [`Engine::set_aside`](crate::Engine::set_aside).
    pub(in crate::engine) fn set_aside(
        &self,
        below: Timestamp,
        keys: SetAsideKeys,
    ) -> Result<(), Error> {
        let core = &self.core;
        let _folder_lock = core.background.folder_lock().hold()?;
        if keys == SetAsideKeys::All {
            let held = core.closed_timestamp.hold();
            let mut committer = core.log.lock();
            core.health.check_poison()?;
            core.closed_timestamp
                .set_aside(below, &held, &mut committer);
        }
        self.flush_all()?;
        // A compaction under way has read what is set aside.
        let set_aside = || core.tables.set_aside(below, keys);
        let done = self.compactor.pause(core, set_aside);
        core.schedule_compaction(Duration::ZERO);
        done.map_err(|error| core.poison_if_sync(error))
    }

    /// As [`Engine::has_damage_to_set_aside`](crate::Engine::has_damage_to_set_aside).
    pub(in crate::engine) fn has_damage_to_set_aside(&self) -> bool {
        let state = self.core.tables.load();
        state.damaged.iter().any(|noted| !noted.range.is_set_aside)
    }

    /// As [`Engine::copies_set_aside`](crate::Engine::copies_set_aside).
    pub(in crate::engine) fn copies_set_aside(
        &self,
        start: &[u8],
        bytes_max: usize,
    ) -> Result<CopiesPage, Error> {
        let state = self.core.tables.load_full();
        let kept = Kept::from(&state.set_aside, start);
        let mut records = Merge::new(self.open_kept(&state, &kept, start)?);
        let is_in_page = |key: &[u8]| kept.end.as_ref().is_none_or(|end| *key < **end);
        let mut page = CopiesPage::default();
        let (mut bytes, mut read) = (0, 0);
        let mut last_key: Option<Vec<u8>> = None;
        while records.advance()? && is_in_page(records.key()) {
            read += 1;
            if last_key.as_deref() == Some(records.key()) {
                continue;
            }
            if read > PAGE_RECORDS_MAX || bytes > bytes_max {
                page.next = Some(Bytes::copy_from_slice(records.key()));
                return Ok(page);
            }
            last_key = Some(records.key().to_vec());
            let entry = records.record().entry;
            let is_missing = entry.kind() == Kind::Value && {
                let held = state.newest_skipping_damage(entry.key())?;
                held.is_none_or(|held| held.timestamp() < entry.timestamp())
            };
            if is_missing {
                bytes += records.data_bytes();
                if bytes > bytes_max && !page.copies.is_empty() {
                    page.next = last_key.map(Bytes::from);
                    return Ok(page);
                }
                records.fetch_value()?;
                page.copies.push(records.take().entry);
            }
        }
        page.next = kept.end;
        Ok(page)
    }

    /// Opens the tables of a page.
    fn open_kept(
        &self,
        state: &ReadState,
        kept: &Kept,
        start: &[u8],
    ) -> Result<Vec<LevelCursor>, Error> {
        let core = &self.core;
        let mut cursors = Vec::new();
        for (id, parts) in &kept.tables {
            let table = match core.tables.files().open_kept(*id, parts.clone()) {
                Ok(table) => {
                    state.tables.blobs().link(&table);
                    Arc::new(table)
                }
                Err(Error::Io { source, .. }) if is_gone(&source) && !self.is_kept(*id) => continue,
                Err(error) => return Err(error),
            };
            let purpose = Purpose::Comparison {
                least_timestamp: Timestamp::ZERO,
                checks_disk: false,
            };
            let tables = Level::new(vec![table]);
            let start = Bound::Included(start);
            cursors.push(LevelCursor::new(&tables, 0..tables.len(), start, purpose));
        }
        Ok(cursors)
    }

    /// Whether parts of a table are still kept.
    fn is_kept(&self, table: TableId) -> bool {
        kept_tables(&self.core.tables.load().set_aside).contains(&table)
    }

    /// As [`Engine::discard_set_aside`](crate::Engine::discard_set_aside).
    pub(in crate::engine) fn discard_set_aside(&self, up_to: Timestamp) -> Result<(), Error> {
        let core = &self.core;
        let _folder_lock = core.background.folder_lock().hold()?;
        core.health.check_poison()?;
        core.tables
            .discard(up_to)
            .map_err(|error| core.poison_if_sync(error))
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// The tables of a page, with all their parts that are set aside.
struct Kept {
    tables: BTreeMap<TableId, Vec<SetAsidePart>>,
    /// The key at which the page ends; `None` at the end of the key space.
    end: Option<Bytes>,
}

impl Kept {
    fn from(parts: &[SetAsidePart], start: &[u8]) -> Self {
        let kept = parts.iter();
        let kept = kept.filter(|part| part.is_kept && *part.last_key >= *start);
        let mut kept: Vec<_> = kept.collect();
        kept.sort_by(|one, other| one.first_key.cmp(&other.first_key));
        let mut end = None;
        let mut tables: BTreeMap<TableId, Vec<SetAsidePart>> = BTreeMap::new();
        for part in kept {
            let is_new = !tables.contains_key(&part.table);
            if is_new && tables.len() >= PAGE_TABLES_MAX && *part.first_key > *start {
                end = Some(part.first_key.clone());
                break;
            }
            tables.entry(part.table).or_default();
        }
        for part in parts {
            if let Some(parts) = tables.get_mut(&part.table) {
                parts.push(part.clone());
            }
        }
        Self { tables, end }
    }
}
