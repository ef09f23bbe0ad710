//! What readers see: memtables and tables, as one immutable value that is
//! replaced as a whole.

use super::flushed::Flushed;
use crate::compaction::LEVELS;
use crate::compaction::pick::{Levels, TableSummary};
use crate::memtable::Memtable;
use crate::table::{Access, Interrupt, KeyHash, Table};
use base::{Entry, Timestamp, Verdict};
use bytes::Bytes;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::sync::Arc;

/// The memtables and tables of one moment.
#[derive(Clone)]
pub(super) struct State {
    /// The memtable that takes the writes.
    pub(super) active: Arc<Memtable>,
    /// Those that wait for their flush, the oldest first.
    pub(super) frozen: Vec<Arc<Memtable>>,
    /// The live tables.
    pub(super) tables: Arc<Tables>,
    /// What was flushed a moment ago, and may still be asked for.
    pub(super) flushed: Vec<Flushed>,
}

impl State {
    /// The winning version of a key.
    pub(super) fn newest(&self, key: &[u8], access: Access) -> Result<Option<Entry>, Interrupt> {
        let mut newest = self.active.newest(key);
        for memtable in &self.frozen {
            newest = newer(newest, memtable.newest(key));
        }
        self.tables.newest(key, newest, access)
    }

    /// The least log segment that holds records which no table has.
    pub(super) fn least_segment(&self) -> u64 {
        self.frozen.first().unwrap_or(&self.active).segment()
    }
}

/// The live tables by level.
pub(super) struct Tables {
    /// Level 0, where tables overlap, by descending greatest timestamp; the
    /// levels below by key, without overlap within a level.
    levels: [Vec<Arc<Table>>; LEVELS],
    greatest_timestamp: Timestamp,
}

impl Tables {
    /// Sorts tables, each with its level, into their order. A level past the
    /// last counts as the last.
    pub(super) fn new(tables: impl Iterator<Item = (usize, Arc<Table>)>) -> Self {
        let mut levels = [const { Vec::new() }; LEVELS];
        let mut greatest_timestamp = Timestamp::ZERO;
        for (level, table) in tables {
            greatest_timestamp = greatest_timestamp.max(table.properties().timestamp_greatest);
            levels[level.min(LEVELS - 1)].push(table);
        }
        for (level, tables) in levels.iter_mut().enumerate() {
            if level == 0 {
                tables.sort_by_key(|table: &Arc<Table>| {
                    Reverse((table.properties().timestamp_greatest, table.id()))
                });
            } else {
                tables.sort_by(|left: &Arc<Table>, right| {
                    left.properties()
                        .key_least
                        .cmp(&right.properties().key_least)
                });
            }
        }
        Self {
            levels,
            greatest_timestamp,
        }
    }

    /// The tables of each level.
    pub(super) fn levels(&self) -> &[Vec<Arc<Table>>; LEVELS] {
        &self.levels
    }

    /// Whether level 0 has at least so many tables that compaction can merge.
    pub(super) fn are_level_zero(&self, tables: usize) -> bool {
        // Of few it is not worth asking each.
        self.levels[0].len() >= tables && self.level_zero_tables() >= tables
    }

    /// The tables of level 0 that compaction can merge.
    pub(super) fn level_zero_tables(&self) -> usize {
        let is_sound = |table: &&Arc<Table>| !table.is_damaged();
        self.levels[0].iter().filter(is_sound).count()
    }

    /// All tables with their levels.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)))
    }

    /// The greatest timestamp of all tables.
    pub(super) fn greatest_timestamp(&self) -> Timestamp {
        self.greatest_timestamp
    }

    /// What the picker needs to know of the tables.
    pub(super) fn summaries(&self) -> Box<Levels> {
        let summarize =
            |tables: &Vec<Arc<Table>>| tables.iter().map(|table| summary(table)).collect();
        Box::new(self.levels.each_ref().map(summarize))
    }

    /// The winner among `newest` and the versions of a key in the tables.
    ///
    /// Tables are asked in descending order of their greatest timestamp, and
    /// no further once none can hold anything newer than what was found.
    pub(super) fn newest(
        &self,
        key: &[u8],
        mut newest: Option<Entry>,
        access: Access,
    ) -> Result<Option<Entry>, Interrupt> {
        let mut hash = None;
        for table in self.candidates(key) {
            let greatest = table.properties().timestamp_greatest;
            let found = newest.as_ref().map_or(Timestamp::ZERO, Entry::timestamp);
            // At equal timestamps the rank decides, so the table must be asked.
            if greatest < found {
                break;
            }
            let hash = *hash.get_or_insert_with(|| KeyHash::of(key));
            newest = newer(newest, table.get(key, hash, access)?);
        }
        Ok(newest)
    }

    /// What the tables hold of a key at this timestamp and above. Asks only
    /// tables that may hold such.
    pub(super) fn beside(
        &self,
        key: &[u8],
        timestamp: Timestamp,
        access: Access,
    ) -> Result<Beside, Interrupt> {
        let mut beside = Beside::default();
        let mut hash = None;
        for table in self.candidates(key) {
            if table.properties().timestamp_greatest < timestamp {
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
    pub(super) fn candidates<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a Arc<Table>> {
        let mut sorted: SmallVec<[&Arc<Table>; LEVELS]> = self.levels[1..]
            .iter()
            .filter_map(|tables| {
                let after = tables.partition_point(|table| *table.properties().key_least <= *key);
                let table = tables.get(after.checked_sub(1)?)?;
                table.admits(key).then_some(table)
            })
            .collect();
        sorted.sort_unstable_by_key(|table| Reverse(table.properties().timestamp_greatest));
        let mut sorted = sorted.into_iter().peekable();
        let mut fresh = self.levels[0]
            .iter()
            .filter(|table| table.admits(key))
            .peekable();
        std::iter::from_fn(move || match (fresh.peek(), sorted.peek()) {
            (Some(left), Some(right))
                if left.properties().timestamp_greatest < right.properties().timestamp_greatest =>
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
pub(super) struct Beside {
    /// The greatest timestamp that is above.
    pub(super) newer: Option<Timestamp>,
    /// Whether a version has the very timestamp.
    pub(super) has_same: bool,
}

impl Beside {
    /// What was held when a version of this timestamp first arrived, which is
    /// now, unless that is in doubt. `newer` is what the memtables hold above it.
    pub(super) fn verdict(self, newer: Option<Timestamp>, is_doubtful: bool) -> Verdict {
        match newer.max(self.newer) {
            None => Verdict::Clean,
            Some(newest) if is_doubtful || self.has_same => Verdict::Unknown(newest),
            Some(newest) => Verdict::Newer(newest),
        }
    }
}

/// The winner of two versions of a key.
fn newer(left: Option<Entry>, right: Option<Entry>) -> Option<Entry> {
    match (left, right) {
        (Some(left), Some(right)) if right.rank() > left.rank() => Some(right),
        (Some(left), _) => Some(left),
        (None, right) => right,
    }
}

fn summary(table: &Table) -> TableSummary {
    let properties = table.properties();
    TableSummary {
        id: table.id(),
        bytes: table.file_bytes(),
        entry_bytes: properties.entry_bytes,
        least_key: Bytes::copy_from_slice(&properties.key_least),
        greatest_key: Bytes::copy_from_slice(&properties.key_greatest),
        least_timestamp: properties.timestamp_least,
        greatest_timestamp: properties.timestamp_greatest,
        entries: properties.entries,
        tombstones: properties.tombstones,
        half_expired: properties.half_expired,
        is_damaged: table.is_damaged(),
    }
}
