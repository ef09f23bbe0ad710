//! The picker drives a model store, in which tables are lists of keys and every entry is
//! one byte. This shows the effect of many choices in a row.

use super::*;
use base::Timestamp;
use std::collections::BTreeSet;

const MEMTABLE_ENTRIES: usize = 64;
const TABLE_ENTRIES: usize = 4 * MEMTABLE_ENTRIES;

const SETTINGS: PickSettings = PickSettings {
    level_zero_tables: 4,
    base_bytes: 4 * MEMTABLE_ENTRIES as u64,
    table_bytes: TABLE_ENTRIES as u64,
    room_bytes: u64::MAX,
};

struct Model {
    levels: Levels,
    /// The keys of each table, by its number.
    keys: Vec<Vec<u32>>,
    cursors: [Option<Bytes>; LEVELS],
    memtable: BTreeSet<u32>,
    live: BTreeSet<u32>,
    written: usize,
    compacted: usize,
    /// The greatest space amplification seen while no compaction was due.
    space_worst: f64,
}

impl Model {
    fn new() -> Self {
        Self {
            levels: Levels::default(),
            keys: Vec::new(),
            cursors: Default::default(),
            memtable: BTreeSet::new(),
            live: BTreeSet::new(),
            written: 0,
            compacted: 0,
            space_worst: 0.0,
        }
    }

    fn put(&mut self, key: u32) {
        self.written += 1;
        self.live.insert(key);
        self.memtable.insert(key);
        if self.memtable.len() == MEMTABLE_ENTRIES {
            let keys = std::mem::take(&mut self.memtable).into_iter().collect();
            self.add(0, keys);
            self.compact();
        }
    }

    fn add(&mut self, level: usize, keys: Vec<u32>) {
        let key = |key: &u32| Bytes::copy_from_slice(&key.to_be_bytes());
        let table = TableSummary {
            id: TableId(self.keys.len() as u64),
            bytes: keys.len() as u64,
            entry_bytes: keys.len() as u64,
            least_key: keys.first().map(key).unwrap(),
            greatest_key: keys.last().map(key).unwrap(),
            least_timestamp: Timestamp::ZERO,
            greatest_timestamp: Timestamp::MAX,
            entries: keys.len() as u64,
            tombstones: 0,
            half_expired: Expiry::NEVER,
            oldest_tombstone: Timestamp::MAX,
            least_expiry: Expiry::NEVER,
            non_owned: 0,
            oldest_non_owned: Timestamp::MAX,
            is_damaged: false,
        };
        self.keys.push(keys);
        self.levels[level].push(table);
        if level > 0 {
            let tables = &mut self.levels[level];
            tables.sort_by(|a, b| a.least_key.cmp(&b.least_key));
            assert!(
                tables
                    .windows(2)
                    .all(|pair| pair[0].greatest_key < pair[1].least_key),
                "tables of level {level} overlap"
            );
        }
    }

    fn compact(&mut self) {
        let mut rounds = 0;
        while let Some(pick) = pick(
            &self.levels,
            &SETTINGS,
            &self.cursors,
            0,
            GcThresholds::NONE,
        ) {
            rounds += 1;
            assert!(rounds < 1000, "compactions never end: {pick:?}");
            let mut merged = BTreeSet::new();
            for (level, id) in &pick.inputs {
                let tables = &mut self.levels[*level];
                let index = tables.iter().position(|table| table.id == *id).unwrap();
                tables.remove(index);
                merged.extend(std::mem::take(&mut self.keys[id.0 as usize]));
            }
            self.compacted += merged.len();
            let merged: Vec<u32> = merged.into_iter().collect();
            for part in merged.chunks(TABLE_ENTRIES) {
                self.add(pick.output_level, part.to_vec());
            }
            if let Some((level, key)) = pick.cursor {
                self.cursors[level] = Some(key);
            }
        }
        let stored: u64 = self.levels.iter().map(|tables| bytes_of(tables)).sum();
        self.space_worst = self.space_worst.max(stored as f64 / self.live.len() as f64);
    }

    fn write_amplification(&self) -> f64 {
        self.compacted as f64 / self.written as f64
    }
}

/// Loads `keys` keys and overwrites as many again `times` times, by `next`.
fn run(keys: u32, times: u32, mut next: impl FnMut(u32) -> u32) -> Model {
    let mut model = Model::new();
    (0..keys).for_each(|key| model.put(key));
    model.written = 0;
    model.compacted = 0;
    for write in 0..keys * times {
        model.put(next(write) % keys);
    }
    model
}

#[test]
fn steady_overwrites_take_less_than_twice_the_space() {
    fastrand::seed(3);
    // From a store of a few memtables to one with three sorted levels.
    for (keys, times) in [(180, 40), (750, 20), (2_500, 10), (7_500, 5), (38_000, 2)] {
        let uniform = run(keys, times, |_| fastrand::u32(..));
        let in_order = run(keys, times, |write| write);
        let skewed = run(keys, times, |_| {
            let share = fastrand::f64().powi(4);
            (share * f64::from(keys)) as u32
        });
        for (name, model) in [
            ("uniform", uniform),
            ("in order", in_order),
            ("skewed", skewed),
        ] {
            let (space, write) = (model.space_worst, model.write_amplification());
            println!("{keys} keys, {name}: space {space:.2}, write {write:.1}");
            assert!(
                space < 2.0,
                "{keys} keys, {name}: space amplification {space}"
            );
            assert!(
                write < 20.0,
                "{keys} keys, {name}: write amplification {write}"
            );
        }
    }
}
