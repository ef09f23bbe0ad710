//! Damage: parts of tables that are not what was written, from the moment they are
//! found until they are rewritten.
//!
//! 1. A read, a scan or a compaction meets a damaged block. It fails, or a scan for a
//!    comparison passes over it, and the table reports where it is.
//! 2. A job finds out which keys the block may have held, and notes that as a
//!    **damaged range**, durably in the manifest. Compaction leaves the table alone
//!    from now on, and scans for comparisons pass over the part whether it can be read or
//!    not. The owner of the store can ask whether a key lies in such a range: what
//!    the store says about it may be wrong.
//! 3. The owner compares the store with others, and writes what it lacks. A
//!    comparison counts if it began after the range was noted ([`DamageMark`]).
//! 4. A compaction rewrites the table without its damaged parts, or with what it can read of
//!    them by then ([`compaction`](crate::engine::compaction)). The edit that removes the
//!    table also removes its ranges.
//!
//! The damaged block may have held the tombstone that hid an older version, and the other
//! stores may have dropped that tombstone. So the owner sets aside what the store still holds of
//! the keys of the range below the GC threshold ([`set_aside`](crate::engine::jobs::set_aside)):
//! the range does not count before, so no read sees it.
//!
//! A table that does not open when the store is opened is damaged as a whole
//! ([`recovery::tables`](crate::engine::recovery::tables)).
//!
//! A range belongs to its table: an edit that removes the table for any other reason has
//! read the table whole, so the range goes with it.

use super::{NotedRange, ReadState};
use crate::table_id::TableId;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The damage that was noted up to some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DamageMark(u64);

/// The owner of the numbers of damaged ranges. The ranges themselves are a part of the
/// read state. It has no lock.
pub(in crate::engine) struct Damage {
    /// The number of the next range.
    next: AtomicU64,
    /// The ranges up to this number were compared with all other stores.
    compared: AtomicU64,
}

impl Damage {
    /// The owner for a store with these ranges.
    pub(in crate::engine) fn new(damaged: &[NotedRange]) -> Self {
        Self {
            next: AtomicU64::new(mark_of(damaged).0 + 1),
            compared: AtomicU64::new(0),
        }
    }

    /// The number of a range that is noted now.
    pub(in crate::engine) fn next_number(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// Takes note that the ranges up to a mark were compared. Returns whether a table
    /// can be rewritten.
    pub(in crate::engine) fn compared(&self, up_to: DamageMark, state: &ReadState) -> bool {
        self.compared.fetch_max(up_to.0, Relaxed);
        self.rewritable(state).is_some()
    }

    /// A table whose damaged parts were all compared, with its level.
    pub(in crate::engine) fn rewritable(&self, state: &ReadState) -> Option<(usize, TableId)> {
        let damaged = state.damaged.iter().map(|noted| noted.range.table);
        let mut rewritable = damaged.filter(|id| self.is_compared(state, *id));
        rewritable.find_map(|id| {
            // Of a blob table that is a table which refers to it. It goes with the last of these.
            let mut tables = state.tables.iter();
            tables
                .find(|(_, table)| {
                    let blobs = &table.properties().blobs;
                    (table.id() == id || blobs.contains_key(&id))
                        && self.may_rewrite(state, table.id())
                        && blobs.keys().all(|blob| self.may_rewrite(state, *blob))
                })
                .map(|(level, table)| (level, table.id()))
        })
    }

    /// Whether a table is damaged, and all its damaged parts were compared.
    pub(in crate::engine) fn is_compared(&self, state: &ReadState, table: TableId) -> bool {
        let mut ranges = state.damaged.iter().map(|noted| noted.range.table);
        ranges.any(|damaged| damaged == table) && self.may_rewrite(state, table)
    }

    /// Whether no part of a table is damaged that was not compared.
    fn may_rewrite(&self, state: &ReadState, table: TableId) -> bool {
        let compared = self.compared.load(Relaxed);
        let mut ranges = state.damaged.iter();
        ranges.all(|noted| noted.range.table != table || noted.number <= compared)
    }

    /// Whether a range has not been compared since it was noted.
    pub(in crate::engine) fn needs_comparison(&self, state: &ReadState) -> bool {
        let compared = self.compared.load(Relaxed);
        state.damaged.iter().any(|noted| noted.number > compared)
    }
}

/// The mark of what is noted in a read state.
pub(in crate::engine) fn mark_of(damaged: &[NotedRange]) -> DamageMark {
    let numbers = damaged.iter().map(|noted| noted.number);
    DamageMark(numbers.max().unwrap_or(0))
}
