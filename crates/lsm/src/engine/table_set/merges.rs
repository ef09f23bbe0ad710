//! The merges in progress: which tables they read, what they have written, and the keys that each
//! keeps for itself.
//!
//! A merge in progress will add tables to its output level, anywhere between the least
//! and the greatest key of its inputs. So its [`MergeRange`] counts as a table of that
//! level where an ingested or a moved table is to go. A merge begins only if
//! - all its inputs are live, and no merge in progress has one of them;
//! - no table of its output level lies in its range that is not among its inputs, so that the
//!   outputs overlap none that stays there, whether or not a merge in progress reads that table;
//! - the range of no merge in progress into the same level overlaps its own.
//!
//! All of this is decided under the manifest's lock.

use super::tables::Tables;
use crate::locks::lock;
use crate::table::Table;
use crate::table_id::TableId;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

/// The keys between which a merge in progress may write tables. It holds for as long as
/// the merge keeps it.
pub(crate) struct MergeRange {
    inputs: BTreeSet<TableId>,
    level: usize,
    least_key: Bytes,
    greatest_key: Bytes,
    /// What the merge has written, in bytes.
    written_bytes: AtomicU64,
}

impl MergeRange {
    /// The range of a merge of `inputs` into `level` beside the merges in progress; `None` if it
    /// may not begin.
    fn of(
        tables: &Tables,
        level: usize,
        inputs: &[(usize, TableId)],
        others: &[Arc<Self>],
    ) -> Option<Self> {
        let inputs: BTreeSet<TableId> = inputs.iter().map(|(_, id)| *id).collect();
        let merged = || tables.iter().filter(|(_, it)| inputs.contains(&it.id()));
        let least_key = merged().map(|(_, table)| &table.properties().least_key);
        let greatest_key = merged().map(|(_, table)| &table.properties().greatest_key);
        let range = Self {
            level,
            least_key: least_key.min()?.clone(),
            greatest_key: greatest_key.max()?.clone(),
            written_bytes: AtomicU64::new(0),
            inputs: inputs.clone(),
        };
        let is_beside = |other: &Arc<Self>| {
            let overlaps = other.overlaps(level, &range.least_key, &range.greatest_key);
            !overlaps && other.inputs.is_disjoint(&inputs)
        };
        let are_live = merged().count() == inputs.len();
        let is_free = are_live && others.iter().all(is_beside) && !range.is_crossed(tables);
        is_free.then_some(range)
    }

    /// Whether a table of its level lies in it, even in part, that is not an input. On level 0
    /// tables may overlap.
    fn is_crossed(&self, tables: &Tables) -> bool {
        if self.level == 0 {
            return false;
        }
        let places = tables.places(self.level, Bound::Included(&self.least_key), None);
        let mut crossing = places
            .map_while(|place| tables.levels()[self.level].get(place))
            .take_while(|table| table.properties().least_key <= self.greatest_key);
        crossing.any(|table| !self.inputs.contains(&table.id()))
    }

    fn overlaps(&self, level: usize, least_key: &[u8], greatest_key: &[u8]) -> bool {
        level > 0
            && self.level == level
            && *greatest_key >= *self.least_key
            && *least_key <= *self.greatest_key
    }

    /// Whether a table may lie between what the merge will write to this level.
    pub(super) fn admits(&self, level: usize, table: &Table) -> bool {
        let keys = table.properties();
        self.overlaps(level, &keys.least_key, &keys.greatest_key)
    }

    /// Notes how many bytes the merge has written.
    pub(crate) fn note_written(&self, bytes: u64) {
        self.written_bytes.store(bytes, Relaxed);
    }
}

/// The merges in progress. Its lock is held briefly.
#[derive(Default)]
pub(super) struct Merges(Mutex<Vec<Weak<MergeRange>>>);

impl Merges {
    /// Those that are in progress now.
    pub(super) fn now(&self) -> Vec<Arc<MergeRange>> {
        let merges = lock(&self.0);
        merges.iter().filter_map(Weak::upgrade).collect()
    }

    /// Begins a merge of `inputs` into `level`, beside those in progress; `None` if it may not.
    pub(super) fn begin(
        &self,
        tables: &Tables,
        level: usize,
        inputs: &[(usize, TableId)],
    ) -> Option<Arc<MergeRange>> {
        let range = Arc::new(MergeRange::of(tables, level, inputs, &self.now())?);
        let mut merges = lock(&self.0);
        merges.retain(|merge| merge.strong_count() > 0);
        merges.push(Arc::downgrade(&range));
        Some(range)
    }

    /// What they have written that is not live yet, in bytes.
    pub(super) fn written_bytes(&self) -> u64 {
        let merges = self.now();
        let written = merges.iter().map(|it| it.written_bytes.load(Relaxed));
        written.sum()
    }
}
