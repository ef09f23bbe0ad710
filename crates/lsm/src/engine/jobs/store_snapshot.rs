//! A snapshot of the whole store: the files of its tables at one moment, for a backup.
//!
//! 1. Under the commit lock the active memtable is frozen, the read state is taken, and commits
//!    are held off, so that the owner can freeze other stores at the same moment.
//! 2. The frozen memtables are flushed as always. What they become is noted: compaction may
//!    have merged it with later tables before anybody looks.
//! 3. Tables are immutable, and when compaction has replaced one, its file stays for as long as
//!    somebody has the table. So the snapshot only holds the tables, and pins what they take on the
//!    disk until it lets go of them. The first start after a crash frees all of it: nothing in the
//!    folder says that there was a snapshot.
//!
//! There is one at a time, so what it pins is at most the store as it was.

use crate::engine::store::Store;
use crate::engine::table_set::{ReadState, describe_table};
use crate::error::Error;
use crate::manifest::{BLOB_LEVEL, LiveTable, LogClaim, Manifest, Progress, SetAsidePart};
use crate::record::RecordCursor;
use crate::table::{Purpose, Table};
use crate::table_id::{SnapshotTable, TableId};
use base::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a store held at one moment. It pins the space of its tables until it is dropped.
pub struct StoreSnapshot {
    inner: Arc<Store>,
    /// The tables by number, each with its level.
    tables: BTreeMap<TableId, (usize, Arc<Table>)>,
    /// The descriptions of all tables, also of those it has let go of.
    described: Vec<LiveTable>,
    set_aside: Vec<SetAsidePart>,
    greatest_timestamp: Timestamp,
    hold: u64,
}

/// What a store that is made of a snapshot claims of its log.
const FIRST_SEGMENT: LogClaim = LogClaim {
    segment: 1,
    bytes: 0,
};

impl StoreSnapshot {
    /// As [`Engine::freeze`](crate::Engine::freeze).
    pub(in crate::engine) fn freeze(
        inner: Arc<Store>,
        number: u64,
        hold_max: Duration,
    ) -> Result<Self, Error> {
        let core = &inner.core;
        let state = {
            let _folder_lock = core.background.folder_lock().hold()?;
            let mut committer = core.log.lock();
            core.health.check_poison()?;
            check_sound(&core.tables.load())?;
            let now = core.now();
            let is_held = committer.hold.left(now).is_some();
            if is_held || core.frozen.lock().is_some() {
                return Err(Error::Overloaded);
            }
            if !core.tables.load().active.is_empty() {
                if inner.stall(&core.tables.load()).is_some() {
                    return Err(Error::Overloaded);
                }
                core.log.freeze(&mut committer, core)?;
            }
            let _begun = committer
                .hold
                .begin(number, core.now().saturating_add(hold_max));
            // No flush can be noted between the look at what waits and the note of it.
            let mut awaited = core.frozen.lock();
            let state = core.tables.load_full();
            let segments = state
                .frozen
                .iter()
                .map(|memtable| (memtable.segment(), None));
            *awaited = Some(segments.collect());
            state
        };
        let mut tables = BTreeMap::new();
        for (level, table) in state.tables.iter() {
            hold(&mut tables, level, table);
        }
        Ok(Self {
            greatest_timestamp: core.tables.greatest_timestamp(),
            set_aside: state.set_aside.to_vec(),
            described: Vec::new(),
            tables,
            inner,
            hold: number,
        })
    }

    /// The greatest timestamp that was ever written to the store. It may be one of a write that
    /// the snapshot has not.
    #[must_use]
    pub fn greatest_timestamp(&self) -> Timestamp {
        self.greatest_timestamp
    }

    /// Writes to tables what was in memory. Blocks.
    ///
    /// # Errors
    /// As [`Engine::flush`](crate::Engine::flush).
    pub fn flush(&mut self) -> Result<(), Error> {
        let inner = Arc::clone(&self.inner);
        let core = &inner.core;
        while self.take_flushed() {
            let _folder_lock = core.background.folder_lock().hold()?;
            core.health.check_poison()?;
            // What another thread has just flushed is noted before this begins.
            if !inner.flush_oldest()? && self.take_flushed() {
                let what = "a memtable is gone that was not flushed";
                return Err(Error::Invalid(what.to_owned()));
            }
        }
        let tables = self.tables.values();
        let described = tables.map(|(level, table)| describe_table(*level, table));
        self.described = described.collect();
        Ok(())
    }

    /// Takes over what the memtables became. Returns whether it waits for others.
    fn take_flushed(&mut self) -> bool {
        let inner = Arc::clone(&self.inner);
        let mut awaited = inner.core.frozen.lock();
        let Some(flushes) = awaited.as_mut() else {
            return false;
        };
        flushes.retain(|_, table| match table.take() {
            Some(table) => {
                hold(&mut self.tables, 0, &table);
                false
            }
            None => true,
        });
        !flushes.is_empty()
    }

    /// Its tables, once it was flushed.
    #[must_use]
    pub fn tables(&self) -> Vec<SnapshotTable> {
        let tables = self.described.iter().map(|table| SnapshotTable {
            number: table.id.0,
            bytes: table.bytes,
        });
        tables.collect()
    }

    /// Reads a part of a table. Blocks.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Invalid`] for a table that it has not or has let go of.
    pub fn read(&self, table: SnapshotTable, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.table(table)?.read_file(offset, buffer)
    }

    /// Reads all blocks of a table from the disk, and compares them with their checksums. What is
    /// damaged is reported as by any reader. Blocks.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`], [`Error::Invalid`] for a table that it has not or has let
    /// go of.
    pub fn check(&self, table: SnapshotTable) -> Result<(), Error> {
        let table = self.table(table)?;
        let purpose = Purpose::Comparison {
            least_timestamp: Timestamp::ZERO,
            checks_disk: true,
        };
        let mut cursor = table.cursor(Bound::Unbounded, purpose);
        while cursor.advance()? {}
        if table.is_damaged() {
            return Err(Error::corrupt(
                table.path(),
                0,
                "a part of the table is damaged",
            ));
        }
        Ok(())
    }

    fn table(&self, table: SnapshotTable) -> Result<&Arc<Table>, Error> {
        let found = self.tables.get(&TableId(table.number));
        let found = found.map(|(_, table)| table);
        found.ok_or_else(|| Error::Invalid("the snapshot has no such table".to_owned()))
    }

    /// Lets go of a table.
    pub fn let_go(&mut self, table: SnapshotTable) {
        self.tables.remove(&TableId(table.number));
    }

    /// How many bytes of removed tables it keeps on the disk.
    #[must_use]
    pub fn pinned_bytes(&self) -> u64 {
        let state = self.inner.core.tables.load();
        let live: BTreeSet<TableId> = state.tables.all().map(|(_, it)| it.id()).collect();
        let gone = self.tables.iter().filter(|(id, _)| !live.contains(id));
        gone.map(|(_, (_, table))| table.file_bytes()).sum()
    }

    /// What the tables are, in bytes: for [`RestoredStore`](crate::RestoredStore).
    #[must_use]
    pub fn description(&self) -> Vec<u8> {
        let next = self.described.iter().map(|table| table.id.0 + 1).max();
        let is_here = |part: &&SetAsidePart| {
            let mut tables = self.described.iter();
            tables.any(|table| table.id == part.table)
        };
        let set_aside = self.set_aside.iter().filter(is_here);
        // That of the store that is restored is another.
        let store_id = 0;
        let tables = self.described.iter().cloned();
        let manifest = Manifest {
            progress: Progress {
                next_table: TableId(next.unwrap_or(1)),
                // As of a store that was never written: its first segment is made with it.
                log_claim: FIRST_SEGMENT,
                greatest_timestamp: self.greatest_timestamp,
                ..Progress::NEW
            },
            tables: tables.map(|table| (table.id, table)).collect(),
            set_aside: set_aside
                .map(|part| SetAsidePart {
                    is_kept: false,
                    ..part.clone()
                })
                .collect(),
            ..Manifest::new(store_id)
        };
        manifest.encode()
    }
}

impl Drop for StoreSnapshot {
    fn drop(&mut self) {
        self.tables.clear();
        let core = &self.inner.core;
        *core.frozen.lock() = None;
        let was_held = core.log.lock().hold.end(self.hold);
        if was_held {
            core.schedule_commits(Duration::ZERO);
        }
        core.tables.free_retired();
    }
}

/// Holds a table, and the blob tables that its values lie in.
fn hold(held: &mut BTreeMap<TableId, (usize, Arc<Table>)>, level: usize, table: &Arc<Table>) {
    for blob in table.blobs() {
        held.insert(blob.id(), (BLOB_LEVEL, Arc::clone(blob)));
    }
    held.insert(table.id(), (level, Arc::clone(table)));
}

/// A store of which a part is damaged has lost something, so its snapshot would be no backup.
fn check_sound(state: &ReadState) -> Result<(), Error> {
    let lost = state.tables.all().find(|(_, table)| table.is_lost());
    let damaged = state.damaged.first().map(|noted| noted.range.table);
    let damaged = damaged.or_else(|| lost.map(|(_, table)| table.id()));
    let Some(id) = damaged else {
        return Ok(());
    };
    let found = state.tables.all().find(|(_, table)| table.id() == id);
    let file = found.map_or_else(PathBuf::new, |(_, table)| table.path().to_owned());
    Err(Error::corrupt(&file, 0, "a part of the store is damaged"))
}
