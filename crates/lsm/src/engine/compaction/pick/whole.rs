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

use super::pick_level_zero;
use super::summary::{ids, overlapped};
use super::{Levels, Pick, PickSettings, Reason, TableSummary, Targets};
use crate::engine::compaction::gc_thresholds::GcThresholds;
use crate::manifest::LEVELS;
use crate::table_id::TableId;
use bytes::Bytes;
use std::collections::BTreeSet;

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
            level_zero: levels[0].iter().map(|table| table.id).collect(),
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
        let base = Targets::new(&levels[1..], settings).base;
        if self.level == 0 {
            let mut left = levels.clone();
            left[0].retain(|table| self.level_zero.contains(&table.id) && !table.is_damaged);
            if !left[0].is_empty() {
                return Some(Pick {
                    reason: Reason::Whole,
                    ..pick_level_zero(&left, base, settings.room_bytes)
                });
            }
            self.level = 1;
        }
        while self.level < LEVELS - 1 {
            let output_level = base.max(self.level + 1);
            if let Some(table) = self.left(levels).next() {
                let mut inputs = vec![(self.level, table.id)];
                inputs.extend(ids(overlapped(&[table], levels, output_level)));
                return Some(self.piece(inputs, output_level, table));
            }
            self.level += 1;
            self.after = None;
        }
        let is_done = |table: &&TableSummary| {
            let may_drop = table.has_tombstone_below(gc_thresholds)
                || table.has_non_owned_below(gc_thresholds);
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
    fn left<'a>(&self, levels: &'a Levels) -> impl Iterator<Item = &'a TableSummary> + use<'a> {
        let after = self.after.clone();
        levels[self.level].iter().filter(move |table| {
            let is_next = after
                .as_ref()
                .is_none_or(|after| table.greatest_key > *after);
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
        }
    }
}
