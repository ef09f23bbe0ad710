//! The live tables by level, and lookups in them.

use crate::manifest::LEVELS;
use crate::table::{DiskAccess, Interrupt, KeyHash, Table};
use base::{Entry, NewerVersion, Timestamp};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::sync::Arc;

/// The live tables by level.
pub(crate) struct Tables {
    /// The tables of level 0 may overlap, and are in descending order of their
    /// greatest timestamp. Those of a level below do not, and are ordered by key.
    levels: [Vec<Arc<Table>>; LEVELS],
    greatest_timestamp: Timestamp,
}

impl Tables {
    /// Sorts tables, each with its level, into their order. A level past the
    /// last counts as the last.
    pub(crate) fn new(tables: impl Iterator<Item = (usize, Arc<Table>)>) -> Self {
        let mut levels = [const { Vec::new() }; LEVELS];
        let mut greatest_timestamp = Timestamp::ZERO;
        for (level, table) in tables {
            greatest_timestamp = greatest_timestamp.max(table.properties().greatest_timestamp);
            levels[level.min(LEVELS - 1)].push(table);
        }
        for (level, tables) in levels.iter_mut().enumerate() {
            if level == 0 {
                tables.sort_by_key(|table: &Arc<Table>| {
                    Reverse((table.properties().greatest_timestamp, table.id()))
                });
            } else {
                tables.sort_by(|left: &Arc<Table>, right| {
                    left.properties()
                        .least_key
                        .cmp(&right.properties().least_key)
                });
            }
        }
        Self {
            levels,
            greatest_timestamp,
        }
    }

    /// The tables of each level.
    pub(crate) fn levels(&self) -> &[Vec<Arc<Table>>; LEVELS] {
        &self.levels
    }

    /// Whether level 0 has at least this number of tables that compaction can merge.
    pub(crate) fn has_level_zero_tables(&self, tables: usize) -> bool {
        // Each table is inspected only if there are enough of them.
        self.levels[0].len() >= tables && self.level_zero_tables() >= tables
    }

    /// The tables of level 0 that compaction can merge.
    pub(crate) fn level_zero_tables(&self) -> usize {
        let is_sound = |table: &&Arc<Table>| !table.is_damaged();
        self.levels[0].iter().filter(is_sound).count()
    }

    /// All tables with their levels.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)))
    }

    /// Whether a table of a level other than 0 has keys in the range of `table`.
    pub(super) fn overlaps(&self, level: usize, table: &Table) -> bool {
        let (keys, tables) = (table.properties(), &self.levels[level]);
        let from = tables.partition_point(|other| other.properties().greatest_key < keys.least_key);
        tables
            .get(from)
            .is_some_and(|other| other.properties().least_key <= keys.greatest_key)
    }

    /// Whether no two tables of a level other than 0 overlap.
    pub(super) fn are_sorted(&self) -> bool {
        self.levels[1..].iter().all(|tables| {
            tables.windows(2).all(|pair| match pair {
                [before, after] => before.properties().greatest_key < after.properties().least_key,
                _ => true,
            })
        })
    }

    /// The greatest timestamp of all tables.
    pub(crate) fn greatest_timestamp(&self) -> Timestamp {
        self.greatest_timestamp
    }

    /// The winner among `newest` and the versions of a key in the tables.
    ///
    /// Reads the tables in descending order of their greatest timestamp, and ends
    /// once no table can hold anything newer than what was found.
    pub(crate) fn newest(
        &self,
        key: &[u8],
        mut newest: Option<Entry>,
        access: DiskAccess,
    ) -> Result<Option<Entry>, Interrupt> {
        let mut hash = None;
        for table in self.candidates(key) {
            let greatest = table.properties().greatest_timestamp;
            let found = newest.as_ref().map_or(Timestamp::ZERO, Entry::timestamp);
            // At equal timestamps the rank decides, so the table must be read.
            if greatest < found {
                break;
            }
            let hash = *hash.get_or_insert_with(|| KeyHash::of(key));
            newest = newer(newest, table.get(key, hash, access)?);
        }
        Ok(newest)
    }

    /// What the tables hold of a key at this timestamp and above. Reads only tables
    /// that may hold such versions.
    pub(crate) fn beside(
        &self,
        key: &[u8],
        timestamp: Timestamp,
        access: DiskAccess,
    ) -> Result<Beside, Interrupt> {
        let mut beside = Beside::default();
        let mut hash = None;
        for table in self.candidates(key) {
            if table.properties().greatest_timestamp < timestamp {
                break;
            }
            let hash = *hash.get_or_insert_with(|| KeyHash::of(key));
            let held = table.get(key, hash, access)?;
            match held.map(|held| held.timestamp()) {
                Some(held) if held > timestamp => beside.newer = beside.newer.max(Some(held)),
                Some(held) if held == timestamp => beside.has_same = true,
                _ => {}
            }
        }
        Ok(beside)
    }

    /// The tables whose key range admits `key`, by descending greatest timestamp.
    pub(crate) fn candidates<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a Arc<Table>> {
        let mut sorted: SmallVec<[&Arc<Table>; LEVELS]> = self.levels[1..]
            .iter()
            .filter_map(|tables| {
                let after = tables.partition_point(|table| *table.properties().least_key <= *key);
                let table = tables.get(after.checked_sub(1)?)?;
                table.admits(key).then_some(table)
            })
            .collect();
        sorted.sort_unstable_by_key(|table| Reverse(table.properties().greatest_timestamp));
        let mut sorted = sorted.into_iter().peekable();
        let mut fresh = self.levels[0]
            .iter()
            .filter(|table| table.admits(key))
            .peekable();
        std::iter::from_fn(move || match (fresh.peek(), sorted.peek()) {
            (Some(left), Some(right))
                if left.properties().greatest_timestamp < right.properties().greatest_timestamp =>
            {
                sorted.next()
            }
            (Some(_), _) => fresh.next(),
            (None, _) => sorted.next(),
        })
    }
}

/// What the tables hold of a key, from a timestamp on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beside {
    /// The greatest timestamp that is above.
    pub(crate) newer: Option<Timestamp>,
    /// Whether a version has exactly this timestamp.
    pub(crate) has_same: bool,
}

impl Beside {
    /// The newer-version check of a version with this timestamp that arrives now for the first
    /// time, unless that is doubtful. `newer` is the greatest timestamp above it in
    /// the memtables.
    pub(crate) fn newer_version(self, newer: Option<Timestamp>, is_doubtful: bool) -> NewerVersion {
        match newer.max(self.newer) {
            None => NewerVersion::None,
            Some(newest) if is_doubtful || self.has_same => NewerVersion::Unknown(newest),
            Some(newest) => NewerVersion::At(newest),
        }
    }
}

/// The winner of two versions of a key.
pub(super) fn newer(left: Option<Entry>, right: Option<Entry>) -> Option<Entry> {
    match (left, right) {
        (Some(left), Some(right)) if right.rank() > left.rank() => Some(right),
        (Some(left), _) => Some(left),
        (None, right) => right,
    }
}
