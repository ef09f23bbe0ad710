//! The tables of a level, as read states share them.
//!
//! A store of a terabyte has some ten thousand tables on its last level. They lie in chunks, as the
//! entries of a B+ tree lie in its leaves: an edit copies the chunks that change and shares the
//! others with the read states before it. So it costs a few hundred pointers, however many tables
//! there are.

use crate::table::Table;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A chunk that has more tables is divided.
const CHUNK_TABLES_MAX: usize = 256;

/// Two neighbours that have no more tables together become one chunk.
const NEIGHBOURS_TABLES_MIN: usize = CHUNK_TABLES_MAX / 2;

type Chunk = Arc<Vec<Arc<Table>>>;

/// The tables of a level. A table is known by its place among them.
#[derive(Clone, Default)]
pub(crate) struct Level(Arc<Chunks>);

#[derive(Clone, Default)]
struct Chunks {
    /// None of them is empty.
    chunks: Vec<Chunk>,
    /// The place of the first table of each chunk.
    starts: Vec<usize>,
    tables: usize,
    sums: LevelSums,
}

/// Sums over the tables of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LevelSums {
    /// The bytes of their files.
    pub(crate) bytes: u64,
    /// Their entries.
    pub(crate) entries: u64,
    /// Tombstones among them.
    pub(crate) tombstones: u64,
    /// Non-owned versions among them.
    pub(crate) non_owned: u64,
}

impl LevelSums {
    fn of(table: &Table) -> Self {
        let properties = table.properties();
        Self {
            bytes: table.file_bytes(),
            entries: properties.entries,
            tombstones: properties.tombstones,
            non_owned: properties.non_owned,
        }
    }

    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            entries: self.entries + other.entries,
            tombstones: self.tombstones + other.tombstones,
            non_owned: self.non_owned + other.non_owned,
        }
    }

    /// What is left without a part of it.
    fn minus(self, part: Self) -> Self {
        Self {
            bytes: self.bytes - part.bytes,
            entries: self.entries - part.entries,
            tombstones: self.tombstones - part.tombstones,
            non_owned: self.non_owned - part.non_owned,
        }
    }
}

impl Level {
    /// A level of these tables, in this order.
    pub(crate) fn new(tables: Vec<Arc<Table>>) -> Self {
        let sums = tables.iter().map(|table| LevelSums::of(table));
        let mut level = Chunks {
            sums: sums.fold(LevelSums::default(), LevelSums::plus),
            ..Chunks::default()
        };
        let mut tables = tables.into_iter();
        while tables.len() > 0 {
            let chunk = tables.by_ref().take(NEIGHBOURS_TABLES_MIN);
            level.chunks.push(Arc::new(chunk.collect()));
        }
        level.count();
        Self(Arc::new(level))
    }

    /// How many tables it has.
    pub(crate) fn len(&self) -> usize {
        self.0.tables
    }

    /// The bytes of the tables' files.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.sums.bytes
    }

    /// Sums over the tables.
    pub(crate) fn sums(&self) -> LevelSums {
        self.0.sums
    }

    /// The tables in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Table>> {
        let tables = self.0.chunks.iter().flat_map(|chunk| chunk.iter());
        #[cfg(test)]
        let tables = tables.inspect(|_| crate::table::tests::touched::note());
        tables
    }

    /// The table at a place.
    pub(crate) fn get(&self, place: usize) -> Option<&Arc<Table>> {
        let (chunk, within) = self.0.find(place)?;
        self.0.chunks.get(chunk)?.get(within)
    }

    /// The place of the first table of which `is_before` does not hold. It holds of all tables
    /// before that one, and of none behind it.
    pub(crate) fn partition_point(&self, is_before: impl Fn(&Arc<Table>) -> bool) -> usize {
        let Chunks { chunks, starts, .. } = &*self.0;
        let is_whole = |chunk: &Chunk| chunk.last().is_none_or(&is_before);
        let first = chunks.partition_point(is_whole);
        match (chunks.get(first), starts.get(first)) {
            (Some(chunk), Some(start)) => start + chunk.partition_point(is_before),
            _ => self.len(),
        }
    }

    /// The same from a place on, if it holds of all tables before that. Looks at few tables if it
    /// holds of few behind it.
    pub(crate) fn partition_point_from(
        &self,
        from: usize,
        is_before: impl Fn(&Arc<Table>) -> bool,
    ) -> usize {
        let holds_at = |place| self.get(place).is_some_and(&is_before);
        let (mut low, mut step) = (from, 1);
        while holds_at(low + step - 1) {
            low += step;
            step *= 2;
        }
        let mut high = (low + step - 1).min(self.len()).max(low);
        while low < high {
            let middle = low.midpoint(high);
            if holds_at(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Puts a table at a place; those from there on come behind it.
    pub(super) fn insert(&mut self, place: usize, table: Arc<Table>) {
        let level = Arc::make_mut(&mut self.0);
        level.sums = level.sums.plus(LevelSums::of(&table));
        // Behind all others it goes to the end of the last chunk.
        let last = level.chunks.len().checked_sub(1);
        let behind = last.map(|last| (last, level.chunks[last].len()));
        match level.find(place).or(behind) {
            Some((chunk, within)) => {
                let tables = Arc::make_mut(&mut level.chunks[chunk]);
                tables.insert(within, table);
                if tables.len() > CHUNK_TABLES_MAX {
                    let rest = tables.split_off(tables.len() / 2);
                    level.chunks.insert(chunk + 1, Arc::new(rest));
                }
            }
            None => level.chunks.push(Arc::new(vec![table])),
        }
        level.count();
    }

    /// Takes out the tables at these places.
    pub(super) fn remove(&mut self, places: &BTreeSet<usize>) {
        let level = Arc::make_mut(&mut self.0);
        // From the last one on, so that no place changes before its table goes.
        for place in places.iter().rev() {
            if let Some((chunk, within)) = level.find(*place) {
                let removed = Arc::make_mut(&mut level.chunks[chunk]).remove(within);
                level.sums = level.sums.minus(LevelSums::of(&removed));
            }
        }
        level.join_neighbours();
        level.count();
    }
}

impl Chunks {
    /// The chunk of a place, and where in it that is.
    fn find(&self, place: usize) -> Option<(usize, usize)> {
        if place >= self.tables {
            return None;
        }
        let after = self.starts.partition_point(|start| *start <= place);
        let chunk = after.checked_sub(1)?;
        Some((chunk, place - self.starts.get(chunk)?))
    }

    /// Joins chunks that have become short, and drops those that are empty.
    fn join_neighbours(&mut self) {
        let before = std::mem::take(&mut self.chunks);
        for chunk in before {
            match self.chunks.last_mut() {
                _ if chunk.is_empty() => {}
                Some(last) if last.len() + chunk.len() <= NEIGHBOURS_TABLES_MIN => {
                    Arc::make_mut(last).extend(chunk.iter().cloned());
                }
                _ => self.chunks.push(chunk),
            }
        }
    }

    /// Counts the tables anew.
    fn count(&mut self) {
        self.tables = 0;
        self.starts.clear();
        for chunk in &self.chunks {
            self.starts.push(self.tables);
            self.tables += chunk.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::BlockCache;
    use crate::disk::FileCache;
    use crate::manifest::DamagedRange;
    use crate::table_id::TableId;
    use crate::testing::MemoryDisk;
    use base::Timestamp;
    use std::path::Path;

    /// Tables with these numbers. Each says that its file has so many bytes.
    fn tables(numbers: impl Iterator<Item = u64>) -> Vec<Arc<Table>> {
        let files = FileCache::new(Arc::new(MemoryDisk::new()), 1);
        let cache = Arc::new(BlockCache::new(1 << 20));
        let table = |number: u64| {
            let range = DamagedRange {
                table: TableId(number),
                bytes: 0..number,
                first_key: number.to_be_bytes().to_vec().into(),
                last_key: None,
                is_set_aside: false,
            };
            let why = crate::Error::Invalid("a test".to_owned());
            let (path, cache) = (Path::new("/file"), Arc::clone(&cache));
            let file = files.closed(path);
            Arc::new(Table::lost(file, path, &range, Timestamp::ZERO, cache, why))
        };
        numbers.map(table).collect()
    }

    fn numbers(level: &Level) -> Vec<u64> {
        level.iter().map(|table| table.id().0).collect()
    }

    /// Checks a level against a list of the numbers of its tables.
    fn check(level: &Level, expected: &[u64]) {
        assert_eq!(numbers(level), expected);
        assert_eq!(level.len(), expected.len());
        assert_eq!(level.bytes(), expected.iter().sum::<u64>());
        for place in 0..=expected.len() {
            let found = level.get(place).map(|table| table.id().0);
            assert_eq!(found, expected.get(place).copied());
        }
        let lengths: Vec<_> = level.0.chunks.iter().map(|chunk| chunk.len()).collect();
        assert!(lengths.iter().all(|it| (1..=CHUNK_TABLES_MAX).contains(it)));
    }

    #[test]
    fn a_level_is_what_a_list_would_be() {
        let all = tables(0..2_000);
        let mut random = fastrand::Rng::with_seed(3);
        let mut level = Level::new(all.iter().step_by(2).cloned().collect());
        let mut list: Vec<u64> = (0..2_000).step_by(2).collect();
        check(&level, &list);
        for round in 0..60 {
            let before = (level.clone(), list.clone());
            for _ in 0..random.usize(0..100) {
                let number = random.u64(0..2_000);
                let is_before = |table: &Arc<Table>| table.id().0 < number;
                let place = level.partition_point(is_before);
                assert_eq!(place, list.partition_point(|it| *it < number));
                for from in [0, place / 2, place.saturating_sub(1), place] {
                    assert_eq!(level.partition_point_from(from, is_before), place);
                }
                if list.get(place) != Some(&number) {
                    level.insert(place, Arc::clone(&all[number as usize]));
                    list.insert(place, number);
                }
            }
            // At times nearly all of them go.
            let share = if round % 10 == 9 { 0.9 } else { 0.05 };
            let places = 0..list.len();
            let places: BTreeSet<_> = places.filter(|_| random.f64() < share).collect();
            level.remove(&places);
            let mut at = 0..;
            list.retain(|_| at.next().is_none_or(|place| !places.contains(&place)));
            check(&level, &list);
            check(&before.0, &before.1);
        }
        level.remove(&(0..list.len()).collect());
        check(&level, &[]);
        assert!(level.0.chunks.is_empty());
        level.insert(0, Arc::clone(&all[7]));
        check(&level, &[7]);
    }

    #[test]
    fn an_edit_copies_what_changes_and_shares_the_rest() {
        let level = Level::new(tables(0..20_000));
        let copied = |after: &Level| {
            let is_shared = |chunk: &&Chunk| level.0.chunks.iter().any(|it| Arc::ptr_eq(it, chunk));
            let chunks = after.0.chunks.iter();
            let copies = chunks.filter(|chunk| !is_shared(chunk));
            copies.map(|chunk| chunk.len()).sum::<usize>()
        };
        for place in [0, 9_999, 20_000] {
            let mut after = level.clone();
            after.insert(place, Arc::clone(level.get(5).unwrap()));
            assert!(copied(&after) <= CHUNK_TABLES_MAX, "{place}");
        }
        let mut after = level.clone();
        after.remove(&(9_990..10_010).collect());
        assert!(copied(&after) <= 2 * CHUNK_TABLES_MAX);
        assert_eq!(after.len(), 19_980);
    }

    #[test]
    fn chunks_stay_few_while_tables_come_and_go() {
        let all = tables(0..10_000);
        let mut level = Level::new(all.clone());
        // What is left is scattered over all chunks.
        level.remove(&(0..10_000).filter(|place| place % 50 > 0).collect());
        assert_eq!(level.len(), 200);
        assert!(level.0.chunks.len() <= 2 * (1 + 200 / NEIGHBOURS_TABLES_MIN));
        for table in &all {
            let place = level.len();
            level.insert(place, Arc::clone(table));
        }
        assert!(level.0.chunks.len() <= 2 * (1 + level.len() / NEIGHBOURS_TABLES_MIN));
    }
}
