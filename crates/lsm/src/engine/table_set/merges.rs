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
    /// What it may still write, in bytes.
    left_bytes: AtomicU64,
}

impl MergeRange {
    /// The range of a merge of live tables into `level` beside the merges in progress; `None` if
    /// it may not begin.
    fn of(
        tables: &Tables,
        level: usize,
        merged: &[(usize, Arc<Table>)],
        others: &[Arc<Self>],
    ) -> Option<Self> {
        let inputs: BTreeSet<TableId> = merged.iter().map(|(_, table)| table.id()).collect();
        let merged = || merged.iter().map(|(_, table)| table.properties());
        let least_key = merged().map(|properties| &properties.least_key);
        let greatest_key = merged().map(|properties| &properties.greatest_key);
        let range = Self {
            level,
            least_key: least_key.min()?.clone(),
            greatest_key: greatest_key.max()?.clone(),
            written_bytes: AtomicU64::new(0),
            left_bytes: AtomicU64::new(0),
            inputs: inputs.clone(),
        };
        let is_beside = |other: &Arc<Self>| {
            let overlaps = other.overlaps(level, &range.least_key, &range.greatest_key);
            !overlaps && other.inputs.is_disjoint(&inputs)
        };
        let is_free = others.iter().all(is_beside) && !range.is_crossed(tables);
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

    /// Whether it overlaps these keys on this level, if tables do not overlap there.
    pub(crate) fn overlaps(&self, level: usize, least_key: &[u8], greatest_key: &[u8]) -> bool {
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

    /// Whether the merge reads a table.
    pub(crate) fn reads(&self, table: TableId) -> bool {
        self.inputs.contains(&table)
    }

    /// The tables that the merge reads.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = TableId> {
        self.inputs.iter().copied()
    }

    /// Notes how many bytes the merge has written, and how many it may still write.
    pub(crate) fn note_written(&self, bytes: u64, left_bytes: u64) {
        self.written_bytes.store(bytes, Relaxed);
        self.left_bytes.store(left_bytes, Relaxed);
    }

    /// How many bytes the merge may still write.
    pub(crate) fn left_bytes(&self) -> u64 {
        self.left_bytes.load(Relaxed)
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

    /// Begins a merge of live tables into `level`, beside those in progress; `None` if it may
    /// not.
    pub(super) fn begin(
        &self,
        tables: &Tables,
        level: usize,
        merged: &[(usize, Arc<Table>)],
    ) -> Option<Arc<MergeRange>> {
        let range = Arc::new(MergeRange::of(tables, level, merged, &self.now())?);
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

#[cfg(test)]
impl MergeRange {
    /// One that reads these tables, and may write between these keys of a level.
    pub(crate) fn between(level: usize, keys: (&str, &str), inputs: &[u64]) -> Arc<Self> {
        Arc::new(Self {
            inputs: inputs.iter().map(|id| TableId(*id)).collect(),
            level,
            least_key: Bytes::copy_from_slice(keys.0.as_bytes()),
            greatest_key: Bytes::copy_from_slice(keys.1.as_bytes()),
            written_bytes: AtomicU64::new(0),
            left_bytes: AtomicU64::new(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BlockingWrite, MemoryDisk, environment};
    use crate::{Engine, Options};
    use base::{Entry, Expiry, Timestamp};

    /// Whether two merges may run beside each other, in either order. Each has its level and the
    /// first keys of its tables: those with one letter are on level 6, the others on level 5.
    #[track_caller]
    fn assert_beside(expected: bool, one: (usize, &[&str]), other: (usize, &[&str])) {
        let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
        let options = Options {
            compaction: false,
            ..Options::default()
        };
        let (engine, _) = Engine::open(environment, options).unwrap();
        let tables = &engine.inner.core.tables;
        let mut by_key = std::collections::BTreeMap::new();
        for first in ["a", "c", "e", "g", "aa", "cc", "ee", "gg"] {
            let level = if first.len() == 1 { 6 } else { 5 };
            for key in [first.to_owned(), format!("{first}~")] {
                let at = Timestamp::from_u64(1);
                let entry = Entry::value(key.as_bytes(), at, b"v", Expiry::NEVER, 1);
                engine.write(entry).unwrap();
            }
            engine.flush().unwrap();
            let table = Arc::clone(tables.load().tables.levels()[0].get(0).unwrap());
            by_key.insert(first, (level, table.id()));
            let moved = tables.move_down(level, vec![table]).unwrap();
            assert_eq!(moved.len(), 1, "{first}");
        }
        let inputs = |keys: &[&str]| keys.iter().map(|key| by_key[*key]).collect::<Vec<_>>();
        for (first, second) in [(one, other), (other, one)] {
            let range = tables.begin_merge(first.0, &inputs(first.1));
            assert!(range.is_some(), "{first:?} alone");
            let beside = tables.begin_merge(second.0, &inputs(second.1));
            assert_eq!(beside.is_some(), expected, "{first:?} and {second:?}");
            drop((range, beside));
        }
    }

    #[test]
    fn merges_run_beside_each_other_if_their_tables_and_outputs_are_apart() {
        let merges: [(usize, &[&str]); 5] = [
            (6, &["aa", "a"]),
            (6, &["cc", "c"]),
            (6, &["aa", "a", "c"]),
            (6, &["e"]),
            (5, &["ee"]),
        ];
        let [of_a, of_c, of_both, of_e, upper] = merges;
        assert_beside(true, of_a, of_c);
        assert_beside(false, of_a, of_both);
        assert_beside(false, of_c, of_both);
        assert_beside(true, of_e, of_a);
        assert_beside(true, of_e, upper);
    }

    #[test]
    fn a_merge_does_not_begin_where_another_may_write() {
        assert_beside(true, (5, &["aa"]), (5, &["cc"]));
        // Between the keys of its tables, too.
        assert_beside(false, (4, &["aa", "ee"]), (4, &["cc"]));
        assert_beside(true, (4, &["aa", "cc"]), (4, &["ee"]));
    }

    #[test]
    fn a_merge_needs_all_its_tables_and_nothing_between_them() {
        let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
        let (engine, _) = Engine::open(environment, Options::default()).unwrap();
        let tables = &engine.inner.core.tables;
        assert!(tables.begin_merge(6, &[(0, TableId(9))]).is_none());
        assert!(tables.merges().is_empty());
    }
}
