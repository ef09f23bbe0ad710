//! The live tables by level, and lookups in them.

mod blobs;
mod level;

pub(crate) use blobs::Blobs;
pub(crate) use level::{Level, LevelSums};

use crate::manifest::{BLOB_LEVEL, LEVELS, LiveTable};
use crate::table::{DiskAccess, Found, Interrupt, KeyHash, Table};
use crate::table_id::TableId;
use base::{Entry, NewerVersion, Timestamp};
use smallvec::SmallVec;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::sync::Arc;

/// The live tables by level.
#[derive(Clone)]
pub(crate) struct Tables {
    /// The tables of level 0 may overlap, and are in descending order of their
    /// greatest timestamp. Those of a level below do not, and are ordered by key.
    levels: [Level; LEVELS],
    /// Where long values lie.
    blobs: Blobs,
}

impl Tables {
    /// Sorts tables, each with its level, into their order. Those of [`BLOB_LEVEL`] are blob tables.
    pub(crate) fn new(tables: impl Iterator<Item = (usize, Arc<Table>)>) -> Self {
        let mut levels = [const { Vec::new() }; LEVELS];
        let mut blobs = Blobs::default();
        for (level, table) in tables {
            match levels.get_mut(level) {
                Some(tables) => tables.push(table),
                None => blobs.insert(table),
            }
        }
        for table in levels.iter().flatten() {
            blobs.count(table);
        }
        for (level, tables) in levels.iter_mut().enumerate() {
            tables.sort_by(|one, other| order(level, one, other));
        }
        Self {
            levels: levels.map(Level::new),
            blobs,
        }
    }

    /// Adds a table to a level, where on all but level 0 it overlaps none. One of [`BLOB_LEVEL`] is a
    /// blob table, and comes before the tables that refer to it.
    pub(super) fn insert(&mut self, level: usize, table: Arc<Table>) {
        if level >= BLOB_LEVEL {
            return self.blobs.insert(table);
        }
        self.blobs.count(&table);
        debug_assert!(
            level == 0 || !self.overlaps(level, &table),
            "tables of a level overlap"
        );
        let tables = &mut self.levels[level];
        let place = tables.partition_point(|other| order(level, other, &table).is_lt());
        tables.insert(place, table);
    }

    /// Removes the tables that the manifest names so, and returns them. Others are not looked at,
    /// except on level 0.
    pub(super) fn remove<'a>(
        &mut self,
        named: impl Iterator<Item = &'a LiveTable>,
    ) -> Vec<Arc<Table>> {
        let keys = |live: &'a LiveTable| (usize::from(live.level), &*live.keys.first, live.id);
        self.take_out(named.map(keys))
    }

    /// All tables but these, each of which is on its level.
    pub(crate) fn without(&self, tables: &[(usize, Arc<Table>)]) -> Self {
        let mut others = self.clone();
        let sought = tables.iter();
        others.take_out(sought.map(|(level, table)| {
            let first_key = &*table.properties().least_key;
            (*level, first_key, table.id())
        }));
        others
    }

    /// Removes the tables that are found so, and returns them.
    fn take_out<'a>(
        &mut self,
        sought: impl Iterator<Item = (usize, &'a [u8], TableId)>,
    ) -> Vec<Arc<Table>> {
        let mut removed = Vec::new();
        let mut places: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (level, first_key, id) in sought {
            if level >= BLOB_LEVEL {
                removed.extend(self.blobs.remove(id));
            } else if let Some((place, table)) = self.find(level, first_key, id) {
                removed.push(Arc::clone(table));
                places.entry(level).or_default().insert(place);
            }
        }
        for table in &removed {
            self.blobs.discount(table);
        }
        for (level, places) in places {
            self.levels[level].remove(&places);
        }
        removed
    }

    /// A table of a level with its place there. It has no key before `first_key`.
    pub(super) fn find(
        &self,
        level: usize,
        first_key: &[u8],
        id: TableId,
    ) -> Option<(usize, &Arc<Table>)> {
        let tables = self.levels.get(level)?;
        let is_before = |table: &Arc<Table>| *table.properties().least_key < *first_key;
        let from = match level {
            0 => 0,
            _ => tables.partition_point(is_before),
        };
        let mut candidates =
            (from..tables.len()).filter_map(|place| Some((place, tables.get(place)?)));
        candidates.find(|(_, table)| table.id() == id)
    }

    /// The tables of each level.
    pub(crate) fn levels(&self) -> &[Level; LEVELS] {
        &self.levels
    }

    /// The places of the tables of a level other than 0 that may have keys from `start` on and
    /// before `end`.
    pub(crate) fn places(
        &self,
        level: usize,
        start: Bound<&[u8]>,
        end: Option<&[u8]>,
    ) -> Range<usize> {
        let tables = &self.levels[level];
        let from = tables.partition_point(|table| {
            let greatest = &*table.properties().greatest_key;
            match start {
                Bound::Included(start) => greatest < start,
                Bound::Excluded(start) => greatest <= start,
                Bound::Unbounded => false,
            }
        });
        let to = match end {
            // Mostly near: scans are short.
            Some(end) => {
                let is_before = |table: &Arc<Table>| *table.properties().least_key < *end;
                tables.partition_point_from(from, is_before)
            }
            None => tables.len(),
        };
        from..to.max(from)
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

    /// The blob tables.
    pub(crate) fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// The blob tables to which no table refers, live or kept. None while a table did not open,
    /// because nobody knows what it refers to.
    pub(super) fn useless_blobs(&self) -> BTreeSet<TableId> {
        let mut tables = self.levels[0].iter();
        // All that did not open are on level 0.
        if tables.any(|table| table.is_lost()) {
            return BTreeSet::new();
        }
        self.blobs.useless()
    }

    /// Keeps the blob tables to which removed tables refer that are kept, for as long as they are
    /// among these.
    pub(super) fn keep_blobs(&mut self, removed: &[Arc<Table>], kept: &BTreeSet<TableId>) {
        for table in removed.iter().filter(|table| kept.contains(&table.id())) {
            let blobs = table.properties().blobs.keys().copied();
            self.blobs.keep(table.id(), Some(blobs.collect()));
        }
        self.blobs.retain_kept(kept);
    }

    /// The blob tables, for the start of a store.
    pub(in crate::engine) fn blobs_mut(&mut self) -> &mut Blobs {
        &mut self.blobs
    }

    /// The bytes of the files of all tables, blob tables among them.
    pub(crate) fn bytes(&self) -> u64 {
        self.sums().bytes + self.blobs.bytes()
    }

    /// Sums over all tables without the blob tables.
    pub(crate) fn sums(&self) -> LevelSums {
        let levels = self.levels.iter().map(Level::sums);
        levels.fold(LevelSums::default(), LevelSums::plus)
    }

    /// All tables with their levels, and the blob tables.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        let blobs = self.blobs.iter().map(|table| (BLOB_LEVEL, table));
        self.iter().chain(blobs)
    }

    /// All tables with their levels, without the blob tables.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)))
    }

    /// Whether a table of a level other than 0 has keys in the range of `table`.
    pub(crate) fn overlaps(&self, level: usize, table: &Table) -> bool {
        let (keys, tables) = (table.properties(), &self.levels[level]);
        let from = tables.partition_point(|other| other.properties().greatest_key < keys.least_key);
        tables
            .get(from)
            .is_some_and(|other| other.properties().least_key <= keys.greatest_key)
    }

    /// The greatest timestamp of all tables. Looks at each of them.
    pub(crate) fn greatest_timestamp(&self) -> Timestamp {
        let tables = self.iter();
        let timestamps = tables.map(|(_, table)| table.properties().greatest_timestamp);
        timestamps.max().unwrap_or(Timestamp::ZERO)
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
        let mut found = newest.as_ref().map_or(Timestamp::ZERO, Entry::timestamp);
        // Of values in blob tables only that of the winner is read, and of those that tie with it.
        let mut referring: SmallVec<[(&Arc<Table>, Found, KeyHash); 1]> = SmallVec::new();
        for table in self.candidates(key) {
            let greatest = table.properties().greatest_timestamp;
            // At equal timestamps the rank decides, so the table must be read.
            if greatest < found {
                break;
            }
            let hash = *hash.get_or_insert_with(|| KeyHash::of(key));
            let Some(version) = table.find_version(key, hash, access)? else {
                continue;
            };
            found = found.max(version.timestamp());
            match version.into_entry() {
                Ok(entry) => newest = newer(newest, Some(entry)),
                Err(version) => referring.push((table, version, hash)),
            }
        }
        for (table, version, hash) in referring {
            if version.timestamp() == found {
                newest = newer(newest, Some(table.fetch(version, hash, access)?));
            }
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
            let held = table.held(key, hash, access)?;
            match held.map(|held| held.timestamp) {
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

/// The order of the tables of a level.
fn order(level: usize, one: &Table, other: &Table) -> Ordering {
    let (left, right) = (one.properties(), other.properties());
    if level == 0 {
        let timestamps = right.greatest_timestamp.cmp(&left.greatest_timestamp);
        timestamps.then(other.id().cmp(&one.id()))
    } else {
        left.least_key.cmp(&right.least_key)
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
