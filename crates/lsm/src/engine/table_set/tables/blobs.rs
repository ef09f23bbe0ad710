//! The blob tables: where the long values of the other tables lie.
//!
//! A blob table is an SSTable, each of whose records has a block of its own, so that a reference to
//! the block gets the value ([`BlobReference`](crate::record::BlobReference)). It lies on no level,
//! and nobody looks for a key in it. A value is in one blob table, and one record of one other table
//! refers to it. What a table refers to is in its properties, so whoever knows the tables knows how
//! much of each blob table is still referred to, and nothing else has to be kept in step with that.
//!
//! A blob table is removed by the edit after which no table refers to it, live or kept after it was
//! set aside. A table holds the blob tables that it refers to, so what a reader has stays.

use crate::table::Table;
use crate::table_id::TableId;
use rpds::RedBlackTreeMapSync;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A blob table is emptied once this part of it is garbage: one half. What is written anew is then
/// at most as much as what is won, so each byte of a value is written into blob tables twice on the
/// average, and values that are overwritten at random take 1.4 times their bytes: `1 / (0.5 / ln 2)`.
/// With three quarters as the bound it would be 1.33 and 1.8.
const GARBAGE_DIVISOR: u64 = 2;

/// On a full disk at most this many bytes are written for each byte that is freed.
const GARBAGE_DIVISOR_ON_FULL_DISK: u64 = 16;

/// The blob tables of a read state. An edit shares with the read states before it what it does not
/// change.
#[derive(Clone, Default)]
pub(crate) struct Blobs {
    tables: RedBlackTreeMapSync<TableId, Blob>,
    /// Those to which no table refers.
    unreferred: BTreeSet<TableId>,
    /// Of each table that is kept and not live: to which it refers. `None` if nobody knows.
    kept: BTreeMap<TableId, Option<Arc<[TableId]>>>,
    /// The bytes of their files.
    file_bytes: u64,
    /// The bytes of the keys and values in them.
    entry_bytes: u64,
    /// The bytes of those that tables refer to.
    referred_bytes: u64,
    /// The bytes of those that no table refers to, in blob tables that are due.
    due_garbage_bytes: u64,
}

/// A blob table.
#[derive(Clone)]
struct Blob {
    table: Arc<Table>,
    /// The bytes of the keys and values in it that tables refer to.
    referred_bytes: u64,
}

impl Blob {
    fn entry_bytes(&self) -> u64 {
        self.table.properties().entry_bytes
    }

    /// The bytes of the keys and values in it that no table refers to.
    fn garbage_bytes(&self) -> u64 {
        self.entry_bytes().saturating_sub(self.referred_bytes)
    }

    /// Whether what tables refer to in it is to be written to another one.
    fn is_due(&self, is_disk_full: bool) -> bool {
        let divisor = if is_disk_full {
            GARBAGE_DIVISOR_ON_FULL_DISK
        } else {
            GARBAGE_DIVISOR
        };
        self.garbage_bytes() >= self.entry_bytes().div_ceil(divisor)
    }

    /// The garbage in it, if it is due on a disk that is not full.
    fn due_garbage_bytes(&self) -> u64 {
        if self.is_due(false) {
            self.garbage_bytes()
        } else {
            0
        }
    }
}

impl Blobs {
    /// Adds a blob table, to which no table refers yet.
    pub(super) fn insert(&mut self, table: Arc<Table>) {
        let blob = Blob {
            table,
            referred_bytes: 0,
        };
        self.file_bytes += blob.table.file_bytes();
        self.entry_bytes += blob.entry_bytes();
        self.due_garbage_bytes += blob.due_garbage_bytes();
        let id = blob.table.id();
        self.unreferred.insert(id);
        self.tables.insert_mut(id, blob);
    }

    /// Removes a blob table, to which no table refers any more.
    pub(super) fn remove(&mut self, id: TableId) -> Option<Arc<Table>> {
        let blob = self.tables.get(&id)?.clone();
        self.tables.remove_mut(&id);
        self.unreferred.remove(&id);
        self.file_bytes -= blob.table.file_bytes();
        self.entry_bytes -= blob.entry_bytes();
        self.referred_bytes = self.referred_bytes.saturating_sub(blob.referred_bytes);
        self.due_garbage_bytes -= blob.due_garbage_bytes();
        Some(blob.table)
    }

    /// Counts what a table refers to, and lets it hold these blob tables.
    pub(super) fn count(&mut self, table: &Table) {
        self.change(table, u64::saturating_add);
        self.link(table);
    }

    /// Lets a table hold the blob tables that it refers to.
    pub(crate) fn link(&self, table: &Table) {
        table.link_blobs(|id| self.get(id));
    }

    /// Counts no more what a table refers to.
    pub(super) fn discount(&mut self, table: &Table) {
        self.change(table, u64::saturating_sub);
    }

    fn change(&mut self, table: &Table, change: impl Fn(u64, u64) -> u64) {
        for (id, bytes) in &table.properties().blobs {
            let Some(blob) = self.tables.get_mut(id) else {
                continue;
            };
            self.due_garbage_bytes -= blob.due_garbage_bytes();
            blob.referred_bytes = change(blob.referred_bytes, *bytes);
            self.due_garbage_bytes += blob.due_garbage_bytes();
            self.referred_bytes = change(self.referred_bytes, *bytes);
            if blob.referred_bytes == 0 {
                self.unreferred.insert(*id);
            } else {
                self.unreferred.remove(id);
            }
        }
    }

    /// The blob table with this number.
    pub(crate) fn get(&self, id: TableId) -> Option<Arc<Table>> {
        self.tables.get(&id).map(|blob| Arc::clone(&blob.table))
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values().map(|blob| &blob.table)
    }

    /// The bytes of their files.
    pub(crate) fn bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The bytes of the keys and values in them that no table refers to.
    pub(crate) fn garbage_bytes(&self) -> u64 {
        self.entry_bytes.saturating_sub(self.referred_bytes)
    }

    /// Those that no table refers to, live or kept.
    pub(super) fn useless(&self) -> BTreeSet<TableId> {
        let useless = self.unreferred.iter().copied();
        useless.filter(|id| !self.is_kept(*id)).collect()
    }

    /// Those that no live table refers to.
    pub(crate) fn unreferred(&self) -> &BTreeSet<TableId> {
        &self.unreferred
    }

    /// Keeps what a table refers to that is kept and not live. `None` keeps all.
    pub(crate) fn keep(&mut self, table: TableId, blobs: Option<Arc<[TableId]>>) {
        self.kept.insert(table, blobs);
    }

    /// Keeps only what these tables refer to, of those that are kept and not live.
    pub(super) fn retain_kept(&mut self, kept: &BTreeSet<TableId>) {
        self.kept.retain(|table, _| kept.contains(table));
    }

    /// Whether a table refers to it that is kept and not live.
    fn is_kept(&self, id: TableId) -> bool {
        let names =
            |blobs: &Option<Arc<[TableId]>>| blobs.as_ref().is_none_or(|blobs| blobs.contains(&id));
        self.kept.values().any(names)
    }

    /// Those of which so little is referred to that it is to be written elsewhere, or all of them
    /// with `takes_all`: those with the most garbage first, for as long as not more than `bytes_max`
    /// are to be written of what these tables refer to. One that is damaged waits for its repair,
    /// and nothing is won of one that is kept.
    pub(crate) fn due<'a>(
        &self,
        tables: impl Iterator<Item = &'a Arc<Table>>,
        is_disk_full: bool,
        takes_all: bool,
        bytes_max: u64,
    ) -> BTreeMap<TableId, u64> {
        let mut of_blobs: BTreeMap<TableId, u64> = BTreeMap::new();
        let is_due = |blob: &Blob| {
            (blob.is_due(is_disk_full) || takes_all)
                && !blob.table.is_damaged()
                && !self.is_kept(blob.table.id())
        };
        for (id, bytes) in tables.flat_map(|table| &table.properties().blobs) {
            if self.tables.get(id).is_some_and(is_due) {
                *of_blobs.entry(*id).or_default() += bytes;
            }
        }
        let mut due: Vec<_> = of_blobs.into_iter().collect();
        due.sort_by_cached_key(|(id, _)| self.tables.get(id).map_or(0, |it| it.referred_bytes));
        let mut left = bytes_max;
        let fits = |(_, bytes): &(TableId, u64)| match left.checked_sub(*bytes) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        due.into_iter().take_while(fits).collect()
    }

    /// The bytes of the keys and values in those that are due to which no table refers.
    pub(crate) fn due_garbage_bytes(&self) -> u64 {
        self.due_garbage_bytes
    }
}
