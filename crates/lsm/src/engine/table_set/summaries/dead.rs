//! Tables half of which may be dead, found by the bound that decides it.

use super::TableSummary;
use crate::table_id::TableId;
use base::{Expiry, Timestamp};
use std::collections::BTreeSet;

/// Tables half of which may be dead.
#[derive(Default)]
pub(super) struct Dead {
    /// By the time at which half of them has expired.
    half_expired: BTreeSet<(Expiry, TableId)>,
    /// Those of which half are tombstones, by their greatest timestamps.
    tombstones: BTreeSet<(Timestamp, TableId)>,
    /// Those of which half are tombstones and non-owned versions, and fewer are tombstones, by
    /// their greatest timestamps.
    non_owned: BTreeSet<(Timestamp, TableId)>,
    /// Tables that were in one of these two, each after the table that keeps what is dead in it.
    kept: BTreeSet<(TableId, TableId)>,
}

impl Dead {
    pub(super) fn insert(&mut self, table: &TableSummary) {
        if table.half_expired != Expiry::NEVER {
            self.half_expired.insert((table.half_expired, table.id));
        }
        self.note_droppable(table);
    }

    /// Removes a table, which another one may have kept. Returns the tables that this one has
    /// kept.
    pub(super) fn remove(
        &mut self,
        table: &TableSummary,
        kept_by: Option<TableId>,
    ) -> Vec<TableId> {
        let id = table.id;
        self.half_expired.remove(&(table.half_expired, id));
        if let Some(droppable) = self.droppable_like(table) {
            droppable.remove(&(table.greatest_timestamp, id));
        }
        if let Some(other) = kept_by {
            self.kept.remove(&(other, id));
        }
        let kept = self.kept.range((id, TableId(0))..=(id, TableId(u64::MAX)));
        let kept: Vec<_> = kept.map(|(_, kept)| *kept).collect();
        for released in &kept {
            self.kept.remove(&(id, *released));
        }
        kept
    }

    /// Finds a table from now on if half of it may be dropped.
    pub(super) fn note_droppable(&mut self, table: &TableSummary) {
        if let Some(droppable) = self.droppable_like(table) {
            droppable.insert((table.greatest_timestamp, table.id));
        }
    }

    /// Finds a table no more before another one is removed.
    pub(super) fn keep(&mut self, table: &TableSummary, by: TableId) {
        if let Some(droppable) = self.droppable_like(table) {
            droppable.remove(&(table.greatest_timestamp, table.id));
            self.kept.insert((by, table.id));
        }
    }

    /// The tables half of which has expired before this time.
    pub(super) fn expired(&self, before: Expiry) -> impl Iterator<Item = TableId> {
        ids_below(&self.half_expired, before)
    }

    /// The tables half of which may be dropped below these bounds.
    pub(super) fn droppable(
        &self,
        tombstones: Timestamp,
        non_owned: Timestamp,
    ) -> impl Iterator<Item = TableId> {
        ids_below(&self.tombstones, tombstones).chain(ids_below(&self.non_owned, non_owned))
    }

    /// Where a table is found for what may be dropped of it.
    fn droppable_like(
        &mut self,
        table: &TableSummary,
    ) -> Option<&mut BTreeSet<(Timestamp, TableId)>> {
        let half = table.entries.div_ceil(2);
        if table.tombstones >= half {
            Some(&mut self.tombstones)
        } else if table.tombstones + table.non_owned >= half {
            Some(&mut self.non_owned)
        } else {
            None
        }
    }
}

/// The tables below a bound.
fn ids_below<T: Ord + Copy>(
    set: &BTreeSet<(T, TableId)>,
    bound: T,
) -> impl Iterator<Item = TableId> {
    set.range(..(bound, TableId(0))).map(|(_, id)| *id)
}
