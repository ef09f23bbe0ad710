//! Choosing the pieces of a whole compaction: a walk over all tables, from the top level
//! to the last, and on each level in the order of the keys.
//!
//! Each piece brings tables of one level down, merged with what they overlap, as an
//! ordinary compaction does. So a piece is no larger than one, and ordinary compactions
//! may come between two pieces: they move versions only down, and what they bring to a
//! level behind the walk has come after it began. Whatever lay on a level when the walk
//! came there is therefore below it when the walk leaves, and the walk ends, however
//! much is written meanwhile.
//!
//! On the last level it rewrites what no piece has written yet, and what holds a
//! tombstone or a non-owned version that could not go earlier, because what it hides lay above.

use super::choice::{Pick, PickSettings, Reason};
use super::cuts::Cuts;
use super::level_zero::pick_level_zero;
use super::targets::Targets;
use crate::engine::compaction::gc_thresholds::GcThresholds;
use crate::engine::table_set::{Levels, TableSummary};
use crate::manifest::LEVELS;
use crate::table_id::TableId;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How far a whole compaction has come.
#[derive(Debug)]
pub(crate) struct Walk {
    level: usize,
    /// The key up to which the tables of the level had their turn.
    after: Option<Bytes>,
    /// The tables of level 0 that are to go down.
    level_zero: BTreeSet<TableId>,
    /// The tables of the last level that the walk has written.
    written: BTreeSet<TableId>,
}

impl Walk {
    /// A walk over these tables.
    pub(crate) fn new(levels: &Levels) -> Self {
        Self {
            level: 0,
            after: None,
            level_zero: levels.level_zero().map(|table| table.id).collect(),
            written: BTreeSet::new(),
        }
    }

    /// The next piece; `None` once the walk is over. Damaged tables are left out.
    pub(crate) fn next(
        &mut self,
        levels: &Levels,
        settings: &PickSettings,
        gc_thresholds: GcThresholds,
    ) -> Option<Pick> {
        let base = Targets::new(levels, settings).base;
        if self.level == 0 {
            let left = || {
                let tables = levels.level_zero();
                tables.filter(|table| self.level_zero.contains(&table.id))
            };
            if left().next().is_some() {
                let pick = Pick {
                    reason: Reason::Whole,
                    ..pick_level_zero(levels, left(), base, settings)
                };
                return Some(pick.cut(levels, base, settings));
            }
            self.level = 1;
        }
        while self.level < LEVELS - 1 {
            let output_level = base.max(self.level + 1);
            if let Some(table) = self.left(levels).next() {
                let mut inputs = vec![(self.level, table.id)];
                let below = levels.between(output_level, &table.least_key, &table.greatest_key);
                inputs.extend(below.map(|table| (output_level, table.id)));
                let piece = self.piece(inputs, output_level, table);
                return Some(piece.cut(levels, base, settings));
            }
            self.level += 1;
            self.after = None;
        }
        let is_done = |table: &&Arc<TableSummary>| {
            let may_drop = table.has_tombstone_below(gc_thresholds.tombstones)
                || table.has_non_owned_below(gc_thresholds.non_owned);
            self.written.contains(&table.id) && !may_drop
        };
        let mut left = self.left(levels).skip_while(is_done);
        let mut last = left.next()?;
        let mut inputs = vec![(self.level, last.id)];
        let mut bytes = last.bytes;
        // Small tables that lie side by side become one.
        for table in left {
            bytes += table.bytes;
            if bytes > settings.table_bytes || is_done(&table) {
                break;
            }
            inputs.push((self.level, table.id));
            last = table;
        }
        Some(self.piece(inputs, self.level, last))
    }

    /// Notes what a piece has written.
    pub(crate) fn note_replaced(&mut self, pick: &Pick, outputs: impl Iterator<Item = TableId>) {
        if pick.output_level == LEVELS - 1 {
            self.written.extend(outputs);
        }
        if let Some((_, key)) = &pick.cursor {
            self.after = Some(key.clone());
        }
    }

    /// The tables of the level that had no turn yet.
    fn left<'a>(
        &self,
        levels: &'a Levels,
    ) -> impl Iterator<Item = &'a Arc<TableSummary>> + use<'a> {
        let after = self.after.clone();
        // What an ordinary compaction has written since may begin before and end behind.
        let at = after
            .as_ref()
            .map(|key| levels.between(self.level, key, key));
        let tables = at.into_iter().flatten();
        let tables = tables.chain(levels.after(self.level, after.as_ref()));
        tables.filter(move |table| {
            let is_next = after.as_ref().is_none_or(|key| table.greatest_key > *key);
            is_next && !table.is_damaged
        })
    }

    fn piece(
        &self,
        inputs: Vec<(usize, TableId)>,
        output_level: usize,
        last: &TableSummary,
    ) -> Pick {
        Pick {
            inputs,
            output_level,
            reason: Reason::Whole,
            cursor: Some((self.level, last.greatest_key.clone())),
            cuts: Cuts::default(),
        }
    }
}
