//! What readers see: memtables and tables, as one immutable value that is
//! replaced as a whole.

use super::damaged_ranges::NotedRange;
use super::flushed::Flushed;
use super::tables::{Tables, newer};
use crate::error::Error;
use crate::manifest::SetAsidePart;
use crate::memtable::Memtable;
use crate::table::{DiskAccess, Interrupt, KeyHash, Table};
use crate::table_id::TableId;
use base::Entry;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// The memtables and tables of one moment.
#[derive(Clone)]
pub(crate) struct ReadState {
    /// The memtable that takes the writes.
    pub(crate) active: Arc<Memtable>,
    /// The memtables that wait for their flush, the oldest first.
    pub(crate) frozen: Vec<Arc<Memtable>>,
    /// The live tables.
    pub(crate) tables: Arc<Tables>,
    /// The memtables that were flushed a moment ago, because versions that came with
    /// them may arrive again.
    pub(crate) flushed: Vec<Flushed>,
    /// The parts of the tables that are damaged.
    pub(crate) damaged: Arc<[NotedRange]>,
    /// The parts of tables that are set aside.
    pub(crate) set_aside: Arc<[SetAsidePart]>,
}

impl ReadState {
    /// The winning version of a key.
    pub(crate) fn newest(
        &self,
        key: &[u8],
        access: DiskAccess,
    ) -> Result<Option<Entry>, Interrupt> {
        let mut newest = self.active.newest(key);
        for memtable in &self.frozen {
            newest = newer(newest, memtable.newest(key));
        }
        self.tables.newest(key, newest, access)
    }

    /// The winning version of a key without what damaged parts hold of it.
    pub(crate) fn newest_skipping_damage(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        let mut newest = None;
        for memtable in self.memtables() {
            newest = newer(newest, memtable.newest(key));
        }
        let hash = KeyHash::of(key);
        for table in self.tables.candidates(key) {
            let greatest = table.properties().greatest_timestamp;
            if newest
                .as_ref()
                .is_some_and(|newest| greatest < newest.timestamp())
            {
                // So have all others: they come by descending greatest timestamp.
                break;
            }
            match table.get(key, hash, DiskAccess::MayRead) {
                Ok(found) => newest = newer(newest, found),
                Err(_) if self.is_damaged_in(key, table.id()) => {}
                Err(_) if self.is_value_damaged(key, table) => {}
                Err(Interrupt::Failed(error)) => return Err(error),
                Err(Interrupt::WouldBlock) => unreachable!("the get may read"),
            }
        }
        Ok(newest)
    }

    /// Whether a damaged part may have held versions of `key`.
    pub(crate) fn is_damaged(&self, key: &[u8]) -> bool {
        self.damaged.iter().any(|noted| noted.range.admits(key))
    }

    /// The first damaged part that may have held keys from `start` on: its first and last
    /// key. Parts that touch each other come one after the other.
    pub(crate) fn damage_from(&self, start: &[u8]) -> Option<(Bytes, Option<Bytes>)> {
        let ranges = self.damaged.iter().map(|noted| &noted.range);
        let reaching =
            ranges.filter(|range| range.last_key.as_ref().is_none_or(|last| **last >= *start));
        let first = reaching.min_by(|one, other| one.first_key.cmp(&other.first_key))?;
        Some((first.first_key.clone(), first.last_key.clone()))
    }

    /// The damaged parts of a table's file, in bytes.
    pub(crate) fn damaged_parts(&self, table: TableId) -> Vec<Range<u64>> {
        let ranges = self.damaged.iter().map(|noted| &noted.range);
        let own = ranges.filter(|range| range.table == table);
        own.map(|range| range.bytes.clone()).collect()
    }

    fn is_damaged_in(&self, key: &[u8], table: TableId) -> bool {
        let mut ranges = self.damaged.iter().map(|noted| &noted.range);
        ranges.any(|range| range.table == table && range.admits(key))
    }

    fn is_value_damaged(&self, key: &[u8], table: &Table) -> bool {
        let mut blobs = table.blobs().iter();
        blobs.any(|blob| self.is_damaged_in(key, blob.id()))
    }

    /// All memtables.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        self.frozen.iter().chain([&self.active])
    }

    /// The last key of all, or one behind it where parts are lost.
    pub(crate) fn last_key(&self) -> Option<Vec<u8>> {
        let in_memory = self.memtables().filter_map(|memtable| memtable.last_key());
        let tables = self.tables.iter();
        let in_tables = tables.map(|(_, table)| table.properties().greatest_key.to_vec());
        in_memory.chain(in_tables).max()
    }

    /// The bytes of keys and values of all versions in tables: of those whose keys are below `key`,
    /// about, and of all. Half of a table that has keys on both sides is below.
    pub(crate) fn table_bytes_below(&self, key: &[u8]) -> (u64, u64) {
        let (mut below, mut all) = (0, 0);
        for (_, table) in self.tables.iter() {
            let properties = table.properties();
            all += properties.entry_bytes;
            if *properties.greatest_key < *key {
                below += properties.entry_bytes;
            } else if *properties.least_key < *key {
                below += properties.entry_bytes / 2;
            }
        }
        (below, all)
    }

    /// The least log segment that holds records which are in no table.
    pub(crate) fn least_segment(&self) -> u64 {
        self.frozen.first().unwrap_or(&self.active).segment()
    }
}
