//! The records of a memtable in their order: a tree of two levels whose leaves are sorted when
//! somebody reads them, or when they are full.
//!
//! A sorted insertion visits nodes of a tree from its root to a leaf, and the deeper half of
//! these come from memory, one after another. Here an insertion appends to a leaf instead. The
//! leaves are long, so that the index above them stays in the processor's cache, and records
//! are given to their leaves a few dozen at a time: the ends of those leaves are read first,
//! and come from memory at the same time. (To hand records down in batches is the idea of
//! Arge's buffer tree, 1995.)

use super::order::{HasPosition, OrderedRecord, Position, SearchKey};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::iter::once;
use std::ops::Bound;

/// The most records of a leaf.
const LEAF_RECORDS_MAX: usize = 128;

/// How many records wait to be given to their leaves together.
const RECENT_MAX: usize = 64;

/// The number of the leaf that has no key in the index.
const FIRST: usize = 0;

/// Records in their order.
pub(super) struct Tree {
    /// That of number [`FIRST`] holds the records before the first key of `index`.
    leaves: Vec<Leaf>,
    /// The leaf of this number holds the records from the key on, up to the next key.
    index: BTreeMap<OrderedRecord, usize>,
    /// Records that are in no leaf yet.
    recent: Vec<OrderedRecord>,
    length: usize,
}

impl Default for Tree {
    fn default() -> Self {
        Self {
            leaves: vec![Leaf::default()],
            index: BTreeMap::new(),
            recent: Vec::new(),
            length: 0,
        }
    }
}

/// Records between two keys of the tree.
#[derive(Default)]
struct Leaf {
    records: Vec<OrderedRecord>,
    /// How many of the first records are in their order.
    sorted: usize,
}

impl Tree {
    /// Adds a record that it does not hold.
    pub(super) fn insert(&mut self, ordered: OrderedRecord) {
        self.length += 1;
        self.recent.push(ordered);
        if self.recent.len() >= RECENT_MAX {
            self.settle();
        }
    }

    /// How many records it holds.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Calls `visit` with the records behind a position, in their order, some at a time, until
    /// it returns `false`.
    pub(super) fn visit_after(
        &mut self,
        position: Position<'_>,
        mut visit: impl FnMut(&[OrderedRecord]) -> bool,
    ) {
        self.settle();
        let position: &dyn HasPosition = &SearchKey::from(position);
        let first = self.last_leaf(Bound::Included(position));
        let from = (Bound::Excluded(position), Bound::Unbounded);
        let others = self.index.range::<dyn HasPosition, _>(from);
        for number in once(first).chain(others.map(|(_, number)| *number)) {
            if !visit(self.leaves[number].after(position)) {
                return;
            }
        }
    }

    /// The last record before a position.
    pub(super) fn last_before(&mut self, position: Position<'_>) -> Option<&OrderedRecord> {
        self.settle();
        let position: &dyn HasPosition = &SearchKey::from(position);
        // A leaf holds its key, so if there is a leaf with a lesser key, the record is in it.
        let number = self.last_leaf(Bound::Excluded(position));
        self.leaves[number].before(position).last()
    }

    /// The last record of all.
    pub(super) fn last(&mut self) -> Option<&OrderedRecord> {
        self.settle();
        let number = self.index.values().next_back();
        self.leaves[number.copied().unwrap_or(FIRST)].all().last()
    }

    /// Its records, in no particular order, and those by which it finds them.
    pub(super) fn into_records(self) -> impl Iterator<Item = OrderedRecord> + Send {
        let leaves = self.leaves.into_iter().flat_map(|leaf| leaf.records);
        self.recent
            .into_iter()
            .chain(leaves)
            .chain(self.index.into_keys())
    }

    /// Gives all records to their leaves.
    fn settle(&mut self) {
        let mut recent = std::mem::take(&mut self.recent);
        // The searches come first: between two of these reads the processor would not be far
        // enough ahead to do both at the same time.
        let numbers = recent.iter().map(|ordered| self.leaf_of(ordered));
        let numbers: SmallVec<[usize; RECENT_MAX]> = numbers.collect();
        for number in &numbers {
            self.leaves[*number].prefetch();
        }
        let mut has_split = false;
        for (ordered, mut number) in recent.drain(..).zip(numbers) {
            if has_split {
                number = self.leaf_of(&ordered);
            }
            let leaf = &mut self.leaves[number];
            if leaf.records.len() + 1 < LEAF_RECORDS_MAX {
                leaf.push(ordered);
                continue;
            }
            let keys = self.index.last_key_value();
            let is_last = keys.is_none_or(|(last, _)| *last <= ordered);
            leaf.push(ordered);
            let (key, upper) = leaf.split(is_last);
            self.index.insert(key, self.leaves.len());
            self.leaves.push(upper);
            has_split = true;
        }
        self.recent = recent;
    }

    /// The number of a record's leaf.
    fn leaf_of(&self, ordered: &OrderedRecord) -> usize {
        let mut keys = self.index.range::<OrderedRecord, _>(..=ordered);
        keys.next_back().map_or(FIRST, |(_, number)| *number)
    }

    /// The number of the last leaf whose key does not lie behind a position.
    fn last_leaf<'a>(&self, to: Bound<&'a (dyn HasPosition + 'a)>) -> usize {
        let to = (Bound::Unbounded, to);
        let mut keys = self.index.range::<dyn HasPosition, _>(to);
        keys.next_back().map_or(FIRST, |(_, number)| *number)
    }
}

impl Leaf {
    fn push(&mut self, ordered: OrderedRecord) {
        let is_in_order = self.records.last().is_none_or(|last| *last < ordered);
        if is_in_order && self.sorted == self.records.len() {
            self.sorted += 1;
        }
        self.records.push(ordered);
    }

    /// Reads the end of the leaf, where the next record will be, and does not wait for it.
    fn prefetch(&self) {
        if let Some(last) = self.records.last() {
            last.prefetch();
        }
    }

    fn sort(&mut self) {
        match self.records.split_last() {
            Some((last, others)) if self.sorted == others.len() => {
                let place = others.partition_point(|other| other < last);
                self.records[place..].rotate_right(1);
            }
            _ if self.sorted < self.records.len() => self.records.sort(),
            _ => {}
        }
        self.sorted = self.records.len();
    }

    /// Its records, in their order.
    fn all(&mut self) -> &[OrderedRecord] {
        self.sort();
        &self.records
    }

    /// The records behind a position.
    fn after(&mut self, position: &dyn HasPosition) -> &[OrderedRecord] {
        let all = self.all();
        let is_not_after = |ordered: &OrderedRecord| (ordered as &dyn HasPosition) <= position;
        &all[all.partition_point(is_not_after)..]
    }

    /// The records before a position.
    fn before(&mut self, position: &dyn HasPosition) -> &[OrderedRecord] {
        let all = self.all();
        let is_before = |ordered: &OrderedRecord| (ordered as &dyn HasPosition) < position;
        &all[..all.partition_point(is_before)]
    }

    /// Moves the upper half to a leaf of its own, and returns that with its key. If this is the
    /// last leaf, and its last record came behind all others, the next ones may do so as well:
    /// then this leaf stays full.
    fn split(&mut self, is_last: bool) -> (OrderedRecord, Self) {
        let lower = if is_last && self.sorted == self.records.len() {
            self.records.len() - 1
        } else {
            self.records.len() / 2
        };
        self.sort();
        let key = self.records[lower].clone();
        let mut records = Vec::with_capacity(LEAF_RECORDS_MAX);
        records.extend(self.records.drain(lower..));
        self.sorted = lower;
        let sorted = records.len();
        (key, Self { records, sorted })
    }
}

#[cfg(test)]
mod tests;
