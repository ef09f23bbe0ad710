//! Where ingested and moved tables go.
//!
//! An ingested table goes to the deepest level on which it overlaps nothing, because
//! what lies deep is rewritten least. Other stores also ask that it overlap nothing on
//! the levels above, because there a level says how old a version is. Here the rank of
//! versions decides wherever they lie (see [`compaction`](crate::engine::compaction)),
//! so tables above need not be asked: a store that takes writes while it is filled has
//! tables on level 0 that span all keys, and would otherwise rewrite all that it takes.
//! What a merge in progress may write counts as a table
//! ([`merges`](super::MergeRange)).

use super::merges::MergeRange;
use super::tables::Tables;
use crate::manifest::LEVELS;
use crate::table::Table;
use std::sync::Arc;

/// Whether a table may go to a level other than 0 beside `tables` and the merges in progress.
pub(super) fn is_free(
    level: usize,
    table: &Table,
    tables: &Tables,
    merges: &[Arc<MergeRange>],
) -> bool {
    !tables.overlaps(level, table) && !merges.iter().any(|merge| merge.admits(level, table))
}

/// The level for an ingested table beside `tables` and the merges in progress.
pub(super) fn level_for(table: &Table, tables: &Tables, merges: &[Arc<MergeRange>]) -> usize {
    let mut levels = (1..LEVELS).rev();
    levels
        .find(|level| is_free(*level, table, tables, merges))
        .unwrap_or(0)
}
