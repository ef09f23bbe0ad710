//! The manifest in memory, and its snapshot.

use super::damaged::{DamagedRange, check_damaged};
use super::encoding::{put_list, take_list};
use super::progress::Progress;
use super::set_aside::{SetAsidePart, check_set_aside};
use super::table::LiveTable;
use crate::table_id::TableId;
use base::ByteReader;
use std::collections::BTreeMap;

/// What a store consists of, besides its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// A random number that was drawn when the store was created. The upper 64 bits are
    /// the store's public id, the lower 64 bits are the secret that tags its log.
    pub(crate) store_id: u128,
    /// How far the store has come.
    pub(crate) progress: Progress,
    /// The live tables. The file of any other table is obsolete.
    pub(crate) tables: BTreeMap<TableId, LiveTable>,
    /// The parts of live tables that are damaged.
    pub(crate) damaged: Vec<DamagedRange>,
    /// What is set aside. A table whose part is kept has a file, even if it is not live.
    pub(crate) set_aside: Vec<SetAsidePart>,
}

impl Manifest {
    /// That of a store that holds nothing.
    pub(crate) fn new(store_id: u128) -> Self {
        Self {
            store_id,
            progress: Progress::NEW,
            tables: BTreeMap::new(),
            damaged: Vec::new(),
            set_aside: Vec::new(),
        }
    }

    /// The public half of the store's id, which its owner and other nodes may know.
    pub(crate) fn public_id(&self) -> u64 {
        (self.store_id >> 64) as u64
    }

    /// The secret half of the store's id, which tags the groups of the log (see
    /// [`crate::wal`]).
    pub(crate) fn log_secret(&self) -> u64 {
        self.store_id as u64
    }

    /// Encodes a snapshot.
    pub(super) fn put_snapshot(&self) -> Vec<u8> {
        let mut payload = self.store_id.to_le_bytes().to_vec();
        self.progress.put(&mut payload);
        put_list(&mut payload, self.tables.values(), LiveTable::put);
        put_list(&mut payload, &self.damaged, DamagedRange::put);
        put_list(&mut payload, &self.set_aside, SetAsidePart::put);
        payload
    }

    /// Decodes a snapshot.
    ///
    /// # Errors
    /// What no store wrote.
    pub(super) fn take_snapshot(payload: &[u8]) -> Result<Self, String> {
        let mut reader = ByteReader::new(payload);
        let short = || "the manifest is too short".to_owned();
        let store_id = reader.u128().ok_or_else(short)?;
        let progress = Progress::take(&mut reader).ok_or_else(short)?;
        let listed = take_list(&mut reader, LiveTable::take).ok_or("the tables are malformed")?;
        progress.check(!listed.is_empty())?;
        if !listed.is_sorted_by_key(|table| table.id) {
            return Err("the tables are not in their order".to_owned());
        }
        let mut tables = BTreeMap::new();
        for table in listed {
            table.check(progress.next_table)?;
            let id = table.id;
            if tables.insert(id, table).is_some() {
                return Err(format!("table {} is there twice", id.0));
            }
        }
        let is_live = |id: TableId| tables.contains_key(&id);
        let damaged =
            take_list(&mut reader, DamagedRange::take).ok_or("the damaged ranges are malformed")?;
        check_damaged(&damaged, is_live)?;
        let set_aside = take_list(&mut reader, SetAsidePart::take)
            .filter(|_| reader.rest().is_empty())
            .ok_or("the parts that are set aside are malformed")?;
        check_set_aside(&set_aside, is_live, progress.next_table)?;
        Ok(Self {
            store_id,
            progress,
            tables,
            damaged,
            set_aside,
        })
    }
}
