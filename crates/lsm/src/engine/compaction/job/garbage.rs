//! Which table is rewritten so that blob tables with much garbage go.
//!
//! Each compaction takes the values that its inputs refer to out of the blob tables that are due
//! (`table_set/tables/blobs.rs`). Where none comes by, a table is rewritten
//! on its own level for that reason alone, the one first that refers to most in these.

use crate::engine::compaction::merging::emptied_blobs;
use crate::engine::compaction::pick::{Pick, Reason};
use crate::engine::core::Core;

/// The table that is to be rewritten, if the garbage in the blob tables that are due is worth it: it
/// is at least as much as the other tables, each of which is rewritten once at most until these blob
/// tables are gone. So that writes at most one byte for each byte of garbage, beside the values. On
/// a full disk more blob tables are due, and their garbage is always worth it.
pub(in crate::engine::compaction) fn pick_garbage(core: &Core) -> Option<Pick> {
    let state = core.tables.load();
    let blobs = state.tables.blobs();
    if blobs.is_empty() {
        return None;
    }
    let others = state.tables.bytes() - blobs.bytes();
    if blobs.due_garbage_bytes() < others && !core.health.is_full() {
        return None;
    }
    let candidates = state.tables.iter().filter(|(_, table)| !table.is_damaged());
    let picks = candidates.filter_map(|(level, table)| {
        let pick = Pick::rewrite(level, table.id(), Reason::Garbage);
        let bytes: u64 = emptied_blobs(&state, &pick, [table].into_iter(), core)
            .values()
            .sum();
        (bytes > 0).then_some((bytes, pick))
    });
    picks.max_by_key(|(bytes, _)| *bytes).map(|(_, pick)| pick)
}
