//! What a choice of compaction needs to know about the live tables, kept from one choice to the
//! next.
//!
//! Each edit of the live tables adds and removes here what it changes, so that no choice has to
//! look at all tables: it finds tables by key, those that are dead by their bounds, and those
//! whose turn it is to be looked at.

mod dead;
mod summary;
#[cfg(test)]
mod tests;

pub(crate) use summary::TableSummary;

use super::tables::Tables;
use crate::manifest::LEVELS;
use crate::table_id::TableId;
use base::{Expiry, Timestamp};
use bytes::Bytes;
use dead::Dead;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// The summaries of the tables of each level.
#[derive(Default)]
pub(crate) struct Levels {
    /// Those of level 0, in the order in which they came. They may overlap.
    level_zero: Vec<Arc<TableSummary>>,
    /// Those of the levels below.
    sorted: [SortedLevel; LEVELS - 1],
    /// Where each table is found.
    places: BTreeMap<TableId, Place>,
    /// What may be dead.
    dead: Dead,
    /// Tables of which time may make something droppable, by their next turn to be looked at.
    turns: BTreeSet<(u64, TableId)>,
}

/// The tables of a level other than 0.
#[derive(Default)]
struct SortedLevel {
    /// By their least keys. A table that did not open may have the same one as another.
    tables: BTreeMap<(Bytes, TableId), Arc<TableSummary>>,
    /// The sum of their files, in bytes.
    bytes: u64,
}

/// Where a table is found.
struct Place {
    level: usize,
    table: Arc<TableSummary>,
    /// Its next turn, if it has any.
    turn: Option<u64>,
    /// The table that keeps what is dead in this one.
    kept_by: Option<TableId>,
}

impl Levels {
    /// The summaries of all tables.
    pub(super) fn of(tables: &Tables) -> Self {
        let mut levels = Self::default();
        // The newest comes first there.
        let level_zero: Vec<_> = tables.levels()[0].iter().collect();
        for table in level_zero.into_iter().rev() {
            levels.insert(0, TableSummary::of(table));
        }
        for (level, table) in tables.iter().filter(|(level, _)| *level > 0) {
            levels.insert(level, TableSummary::of(table));
        }
        levels
    }

    /// Adds a table. A level past the last counts as the last.
    pub(crate) fn insert(&mut self, level: usize, table: TableSummary) {
        let level = level.min(LEVELS - 1);
        let table = Arc::new(table);
        self.remove(table.id);
        match level.checked_sub(1) {
            None => self.level_zero.push(Arc::clone(&table)),
            Some(sorted) => {
                let sorted = &mut self.sorted[sorted];
                sorted.bytes += table.bytes;
                sorted.tables.insert(table.place_key(), Arc::clone(&table));
            }
        }
        self.dead.insert(&table);
        let turn = table.is_mortal().then_some(0);
        if let Some(turn) = turn {
            self.turns.insert((turn, table.id));
        }
        let place = Place {
            level,
            turn,
            kept_by: None,
            table: Arc::clone(&table),
        };
        self.places.insert(table.id, place);
    }

    /// Removes a table, if it is there.
    pub(crate) fn remove(&mut self, id: TableId) {
        let Some(place) = self.places.remove(&id) else {
            return;
        };
        match place.level.checked_sub(1) {
            None => self.level_zero.retain(|table| table.id != id),
            Some(sorted) => {
                let sorted = &mut self.sorted[sorted];
                sorted.bytes -= place.table.bytes;
                sorted.tables.remove(&place.table.place_key());
            }
        }
        if let Some(turn) = place.turn {
            self.turns.remove(&(turn, id));
        }
        let released = self.dead.remove(&place.table, place.kept_by);
        for id in released {
            if let Some(place) = self.places.get_mut(&id) {
                place.kept_by = None;
                self.dead.note_droppable(&place.table);
            }
        }
    }

    /// Notes whether a table is damaged.
    pub(crate) fn note_damage(&mut self, id: TableId, is_damaged: bool) {
        let Some(place) = self.places.get_mut(&id) else {
            return;
        };
        if place.table.is_damaged == is_damaged {
            return;
        }
        let table = Arc::new(TableSummary {
            is_damaged,
            ..TableSummary::clone(&place.table)
        });
        place.table = Arc::clone(&table);
        match place.level.checked_sub(1) {
            None => {
                let mut tables = self.level_zero.iter_mut();
                if let Some(same) = tables.find(|same| same.id == id) {
                    *same = table;
                }
            }
            Some(sorted) => {
                let tables = &mut self.sorted[sorted].tables;
                tables.insert(table.place_key(), table);
            }
        }
    }

    /// A table with its level.
    pub(crate) fn get(&self, id: TableId) -> Option<(usize, &Arc<TableSummary>)> {
        let place = self.places.get(&id)?;
        Some((place.level, look(&place.table)))
    }

    /// How many tables there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// How many tables a level has.
    pub(crate) fn len_of(&self, level: usize) -> usize {
        match level.checked_sub(1) {
            None => self.level_zero.len(),
            Some(sorted) => self.sorted[sorted].tables.len(),
        }
    }

    /// The tables of level 0 that are not damaged.
    pub(crate) fn level_zero(&self) -> impl Iterator<Item = &Arc<TableSummary>> {
        let tables = self.level_zero.iter().map(look);
        tables.filter(|table| !table.is_damaged)
    }

    /// The bytes of the files of a level; of level 0 those of damaged tables do not count.
    pub(crate) fn bytes(&self, level: usize) -> u64 {
        match level.checked_sub(1) {
            None => self.level_zero().map(|table| table.bytes).sum(),
            Some(sorted) => self.sorted[sorted].bytes,
        }
    }

    /// The bytes of the files of all levels below 0.
    pub(crate) fn sorted_bytes(&self) -> u64 {
        self.sorted.iter().map(|level| level.bytes).sum()
    }

    /// The tables of a level other than 0 that begin after a key, by their keys.
    pub(crate) fn after<'a>(
        &'a self,
        level: usize,
        key: Option<&Bytes>,
    ) -> impl Iterator<Item = &'a Arc<TableSummary>> + use<'a> {
        let sorted = level.checked_sub(1).map(|sorted| &self.sorted[sorted]);
        let start = match key {
            Some(key) => Bound::Excluded(behind(key)),
            None => Bound::Unbounded,
        };
        let tables = sorted.map(|sorted| sorted.tables.range((start, Bound::Unbounded)));
        tables.into_iter().flatten().map(|(_, table)| look(table))
    }

    /// The tables of a level that lie, even in part, between two keys.
    pub(crate) fn between<'a>(
        &'a self,
        level: usize,
        least: &Bytes,
        greatest: &Bytes,
    ) -> impl Iterator<Item = &'a Arc<TableSummary>> + use<'a> {
        let sorted = level
            .checked_sub(1)
            .map(|sorted| &self.sorted[sorted].tables);
        let any = match sorted {
            Some(_) => &[][..],
            None => self.level_zero.as_slice(),
        };
        let overlaps = |table: &&Arc<TableSummary>| {
            table.greatest_key >= *least && table.least_key <= *greatest
        };
        // Those of level 0 are not sorted by key.
        let any: Vec<_> = any.iter().map(look).filter(overlaps).collect();
        let at = sorted.and_then(|tables| tables.range(..=behind(least)).next_back());
        let at = at.map(|(_, table)| look(table)).filter(overlaps);
        let behind_least = Bound::Excluded(behind(least));
        let to_greatest = Bound::Excluded(behind(greatest.max(least)));
        let further = sorted
            .filter(|_| greatest > least)
            .map(|tables| tables.range((behind_least, to_greatest)));
        let further = further.into_iter().flatten().map(|(_, table)| look(table));
        any.into_iter().chain(at).chain(further)
    }

    /// The tables that are not damaged, half of which has expired before this time.
    pub(crate) fn expired(
        &self,
        before: Expiry,
    ) -> impl Iterator<Item = (usize, &Arc<TableSummary>)> {
        let expired = self.dead.expired(before).filter_map(|id| self.get(id));
        expired.filter(|(_, table)| !table.is_damaged)
    }

    /// The tables that are not damaged, half of which are tombstones, all below the bound for
    /// them, or tombstones and non-owned versions, all below the bound for those. Not those that
    /// are [kept](Levels::keep) by others.
    pub(crate) fn droppable(
        &self,
        tombstones: Timestamp,
        non_owned: Timestamp,
    ) -> impl Iterator<Item = (usize, &Arc<TableSummary>)> {
        let droppable = self.dead.droppable(tombstones, non_owned);
        let droppable = droppable.filter_map(|id| self.get(id));
        droppable.filter(|(_, table)| !table.is_damaged)
    }

    /// Notes that another table keeps what is dead in a table. Neither changes, so nobody needs
    /// to look again before the other one goes.
    pub(crate) fn keep(&mut self, id: TableId, by: TableId) {
        if let Some(place) = self.places.get_mut(&id) {
            place.kept_by = Some(by);
            self.dead.keep(&place.table, by);
        }
    }

    /// The tables whose turn has come by now. Their next turn is `next`. The first turn of a table
    /// is at 0.
    pub(crate) fn take_turns(&mut self, now: u64, next: u64) -> Vec<Arc<TableSummary>> {
        let next = next.max(now.saturating_add(1));
        let mut tables = Vec::new();
        while let Some((turn, id)) = self.turns.pop_first() {
            if turn > now {
                self.turns.insert((turn, id));
                break;
            }
            if let Some(place) = self.places.get_mut(&id) {
                place.turn = Some(next);
                self.turns.insert((next, id));
                tables.push(Arc::clone(look(&place.table)));
            }
        }
        tables
    }

    /// Whether time alone may make a compaction due: one of the tables could be rewritten once
    /// more of it has expired or the GC threshold has advanced.
    pub(crate) fn may_become_due(&self) -> bool {
        let level_zero = self.level_zero.iter().map(look);
        let damaged = level_zero.filter(|table| table.is_damaged && table.is_mortal());
        self.turns.len() > damaged.count()
    }
}

/// What lies behind all tables that begin at a key, and before all that begin later.
fn behind(key: &Bytes) -> (Bytes, TableId) {
    (key.clone(), TableId(u64::MAX))
}

/// Looks at a table.
fn look(table: &Arc<TableSummary>) -> &Arc<TableSummary> {
    #[cfg(test)]
    crate::table::tests::touched::note();
    table
}
