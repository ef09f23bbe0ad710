//! Where ingested tables go, and the keys that a merge in progress keeps for itself.
//!
//! An ingested table goes to the deepest level on which it overlaps nothing, because
//! what lies deep is rewritten least. Other stores also ask that it overlap nothing on
//! the levels above, because there a level says how old a version is. Here the rank of
//! versions decides wherever they lie (see [`compaction`](crate::engine::compaction)),
//! so tables above need not be asked: a store that takes writes while it is filled has
//! tables on level 0 that span all keys, and would otherwise rewrite all that it takes.
//!
//! A merge in progress will add tables to its output level, anywhere between the least
//! and the greatest key of its inputs. So its [`MergeRange`] counts as a table of that
//! level, and a merge begins only if no table that came after its inputs were chosen
//! lies in its range. Both are decided under the manifest's lock.

use super::tables::Tables;
use crate::manifest::LEVELS;
use crate::table::Table;
use crate::table_id::TableId;
use bytes::Bytes;
use std::sync::Arc;

/// The keys between which a merge in progress may write tables. It holds for as long as
/// the merge keeps it.
pub(crate) struct MergeRange {
    level: usize,
    least_key: Bytes,
    greatest_key: Bytes,
}

impl MergeRange {
    /// The range of a merge of `inputs` into `level`; `None` if a table lies in it that
    /// is not among the inputs, so that the outputs could overlap it.
    pub(super) fn of(tables: &Tables, level: usize, inputs: &[(usize, TableId)]) -> Option<Self> {
        let is_input = |table: &Table| inputs.iter().any(|(_, id)| *id == table.id());
        let merged = || tables.iter().filter(|(_, table)| is_input(table));
        let least_key = merged().map(|(_, table)| &table.properties().least_key);
        let greatest_key = merged().map(|(_, table)| &table.properties().greatest_key);
        let range = Self {
            level,
            least_key: least_key.min().cloned().unwrap_or_default(),
            greatest_key: greatest_key.max().cloned().unwrap_or_default(),
        };
        let is_in_the_way = |table: &Arc<Table>| range.overlaps(level, table) && !is_input(table);
        let is_free = level == 0 || !tables.levels()[level].iter().any(is_in_the_way);
        is_free.then_some(range)
    }

    fn overlaps(&self, level: usize, table: &Table) -> bool {
        let properties = table.properties();
        self.level == level
            && properties.greatest_key >= self.least_key
            && properties.least_key <= self.greatest_key
    }
}

/// The level for an ingested table beside `tables` and a merge in progress.
pub(super) fn level_for(table: &Table, tables: &Tables, merge: Option<&MergeRange>) -> usize {
    let is_free = |level: &usize| {
        !tables.overlaps(*level, table) && !merge.is_some_and(|merge| merge.overlaps(*level, table))
    };
    (1..LEVELS).rev().find(is_free).unwrap_or(0)
}
