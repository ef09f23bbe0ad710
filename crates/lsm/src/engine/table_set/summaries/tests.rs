//! The summaries beside a list of tables that is looked through.

use super::*;
use crate::engine::table_set::Level;
use crate::testing::{BlockingWrite, MemoryDisk, environment};
use crate::{Compression, Engine, Options};
use base::Entry;
use std::time::Duration;

const SLOTS: u64 = 60;
/// Of bounds and turns.
const TIMES: u64 = 20;

/// A table as the list has it.
struct Listed {
    level: usize,
    table: TableSummary,
    turn: Option<u64>,
    kept_by: Option<TableId>,
}

impl Listed {
    fn lies_between(&self, least: &Bytes, greatest: &Bytes) -> bool {
        self.table.greatest_key >= *least && self.table.least_key <= *greatest
    }

    /// Whether half of it may be dropped below these bounds, if no other keeps it.
    fn is_droppable(&self, tombstones: u64, non_owned: u64) -> bool {
        let table = &self.table;
        let bound = if 2 * table.tombstones >= table.entries {
            tombstones
        } else if 2 * (table.tombstones + table.non_owned) >= table.entries {
            non_owned
        } else {
            0
        };
        table.greatest_timestamp < Timestamp::from_u64(bound)
    }
}

/// All tables, those of level 0 in the order in which they came.
#[derive(Default)]
struct List {
    tables: Vec<Listed>,
    kept_levels: Levels,
    next_id: u64,
}

fn key(slot: u64) -> Bytes {
    format!("{slot:03}").into_bytes().into()
}

/// A table in some of the slots, the last of which is not its own.
fn table(id: u64, slots: std::ops::Range<u64>, random: &mut fastrand::Rng) -> TableSummary {
    let entries = random.u64(1..8);
    let tombstones = [0, random.u64(..=entries)][random.usize(..2)];
    let non_owned = [0, random.u64(..=entries - tombstones)][random.usize(..2)];
    let mut expiry = || match random.u64(..2 * TIMES) {
        time if time < TIMES => Expiry::at_unix_ms(1 + time),
        _ => Expiry::NEVER,
    };
    let (half_expired, least_expiry) = (expiry(), expiry());
    let bytes = random.u64(1..1000);
    TableSummary {
        id: TableId(id),
        bytes,
        entry_bytes: bytes,
        has_blobs: false,
        least_key: key(slots.start),
        greatest_key: [&key(slots.end - 1)[..], b"~"].concat().into(),
        least_timestamp: Timestamp::ZERO,
        greatest_timestamp: Timestamp::from_u64(random.u64(..TIMES)),
        entries,
        tombstones,
        half_expired,
        oldest_tombstone: Timestamp::ZERO,
        least_expiry,
        non_owned,
        oldest_non_owned: Timestamp::ZERO,
        is_damaged: false,
    }
}

impl List {
    fn remove(&mut self, id: TableId) {
        self.tables.retain(|listed| listed.table.id != id);
        for listed in &mut self.tables {
            listed.kept_by.take_if(|by| *by == id);
        }
    }

    fn insert(&mut self, level: usize, table: TableSummary) {
        self.remove(table.id);
        self.kept_levels.insert(level, table.clone());
        let turn = table.is_mortal().then_some(0);
        self.tables.push(Listed {
            level,
            table,
            turn,
            kept_by: None,
        });
    }

    /// Whether a table in these slots of a level would overlap another one there.
    fn is_free(&self, level: usize, table: &TableSummary) -> bool {
        let mut others = self.tables.iter();
        level == 0
            || !others.any(|it| {
                it.level == level && it.lies_between(&table.least_key, &table.greatest_key)
            })
    }

    /// Changes something.
    fn step(&mut self, random: &mut fastrand::Rng) {
        let chosen = random.usize(..self.tables.len().max(1));
        match (random.u8(..10), self.tables.get_mut(chosen)) {
            (0..4, _) | (_, None) => {
                let first = random.u64(..SLOTS);
                let slots = first..first + random.u64(1..6);
                let table = table(self.next_id, slots, random);
                let level = random.usize(..LEVELS);
                self.next_id += 1;
                if self.is_free(level, &table) {
                    self.insert(level, table);
                }
            }
            (4, Some(moved)) => {
                let (table, level) = (moved.table.clone(), random.usize(..LEVELS));
                if self.is_free(level, &table) {
                    self.insert(level, table);
                }
            }
            (5 | 6, Some(removed)) => {
                let id = removed.table.id;
                self.kept_levels.remove(id);
                self.remove(id);
            }
            (7, Some(damaged)) => {
                damaged.table.is_damaged = random.bool();
                let (id, is_damaged) = (damaged.table.id, damaged.table.is_damaged);
                self.kept_levels.note_damage(id, is_damaged);
            }
            (8, Some(kept)) => {
                let id = kept.table.id;
                if kept.kept_by.is_none() && kept.is_droppable(u64::MAX, u64::MAX) {
                    let by = self.tables[random.usize(..self.tables.len())].table.id;
                    if by != id {
                        self.tables[chosen].kept_by = Some(by);
                        self.kept_levels.keep(id, by);
                    }
                }
            }
            (_, Some(_)) => {
                let (now, next) = (random.u64(..TIMES), random.u64(..2 * TIMES));
                let mut expected = Vec::new();
                for listed in &mut self.tables {
                    if listed.turn.is_some_and(|turn| turn <= now) {
                        listed.turn = Some(next.max(now + 1));
                        expected.push(listed.table.id);
                    }
                }
                let taken = self.kept_levels.take_turns(now, next);
                assert_eq!(sorted(taken.iter().map(|table| table.id)), sorted(expected));
            }
        }
    }

    fn of_level(&self, level: usize) -> Vec<&Listed> {
        let tables = self.tables.iter().filter(|listed| listed.level == level);
        let mut tables: Vec<_> = tables.collect();
        if level > 0 {
            tables.sort_by(|one, other| one.table.least_key.cmp(&other.table.least_key));
        }
        tables
    }

    fn check(&self, random: &mut fastrand::Rng) {
        let levels = &self.kept_levels;
        assert_eq!(levels.len(), self.tables.len());
        let ids = |tables: Vec<&Listed>| -> Vec<TableId> {
            tables.iter().map(|listed| listed.table.id).collect()
        };
        let mut sorted_bytes = 0;
        for level in 0..LEVELS {
            let all = self.of_level(level);
            assert_eq!(levels.len_of(level), all.len());
            let counted = all.iter().filter(|it| level > 0 || !it.table.is_damaged);
            let bytes: u64 = counted.map(|listed| listed.table.bytes).sum();
            assert_eq!(levels.bytes(level), bytes, "level {level}");
            sorted_bytes += if level > 0 { bytes } else { 0 };
            let least = key(random.u64(..SLOTS));
            // Often where a table begins.
            let greatest = key(random.u64(..SLOTS)).max(least.clone());
            let found = levels.between(level, &least, &greatest);
            let found: Vec<_> = found.map(|table| table.id).collect();
            let mut expected = self.of_level(level);
            expected.retain(|listed| listed.lies_between(&least, &greatest));
            assert_eq!(found, ids(expected), "{least:?} to {greatest:?}");
            if level > 0 {
                let found = levels.after(level, Some(&least)).map(|table| table.id);
                let mut expected = self.of_level(level);
                expected.retain(|listed| listed.table.least_key > least);
                assert_eq!(found.collect::<Vec<_>>(), ids(expected));
                let all_found = levels.after(level, None).map(|table| table.id);
                assert_eq!(all_found.collect::<Vec<_>>(), ids(all));
            }
        }
        assert_eq!(levels.sorted_bytes(), sorted_bytes);
        let mut sound = self.of_level(0);
        sound.retain(|listed| !listed.table.is_damaged);
        let found = levels.level_zero().map(|table| table.id);
        assert_eq!(found.collect::<Vec<_>>(), ids(sound));
        let sound = || self.tables.iter().filter(|it| !it.table.is_damaged);
        let (first, second) = (random.u64(..=TIMES), random.u64(..=TIMES));
        let before = Expiry::at_unix_ms(1 + first);
        let expired = sound().filter(|it| it.table.half_expired < before);
        let found = levels.expired(before);
        assert_eq!(
            sorted(found.map(|(_, table)| table.id)),
            sorted(expired.map(|it| it.table.id))
        );
        let droppable = sound().filter(|it| it.kept_by.is_none() && it.is_droppable(first, second));
        let found = levels.droppable(Timestamp::from_u64(first), Timestamp::from_u64(second));
        assert_eq!(
            sorted(found.map(|(_, table)| table.id)),
            sorted(droppable.map(|it| it.table.id))
        );
        for listed in &self.tables {
            let (level, table) = levels.get(listed.table.id).unwrap();
            let found = (level, table.bytes, table.is_damaged);
            assert_eq!(
                found,
                (listed.level, listed.table.bytes, listed.table.is_damaged)
            );
        }
        let mut tables = self.tables.iter();
        let may_be = |it: &Listed| it.turn.is_some() && !(it.level == 0 && it.table.is_damaged);
        assert_eq!(levels.may_become_due(), tables.any(may_be));
    }
}

fn sorted(ids: impl IntoIterator<Item = TableId>) -> Vec<TableId> {
    let mut ids: Vec<_> = ids.into_iter().collect();
    ids.sort_unstable();
    ids
}

#[test]
fn the_summaries_are_what_a_list_would_be() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut list = List::default();
        for step in 0..400 {
            list.step(&mut random);
            let check = std::panic::AssertUnwindSafe(|| list.check(&mut random));
            let checked = std::panic::catch_unwind(check);
            assert!(checked.is_ok(), "seed {seed}, step {step}");
        }
    }
}

/// Flushes, merges, moves and ingests change them as they change the tables.
#[test]
fn what_is_kept_is_what_a_start_would_find() {
    let (environment, executor) = environment(Arc::new(MemoryDisk::new()));
    let options = Options {
        memtable_bytes: 8 << 10,
        table_bytes: 8 << 10,
        compression: Compression::None,
        ..Options::default()
    };
    let (engine, _) = Engine::open(environment, options).unwrap();
    let tables = &engine.inner.core.tables;
    let mut random = fastrand::Rng::with_seed(1);
    let mut checks = 0;
    for number in 0..4_000_u64 {
        let key = match number {
            // In order, so that tables move.
            0..1_500 => number,
            _ => random.u64(..1_500),
        };
        let (key, at) = (format!("{key:06}"), Timestamp::from_u64(1 + number));
        let entry = match random.u8(..10) {
            0 => Entry::tombstone(key.as_bytes(), at, 1),
            _ => Entry::value(key.as_bytes(), at, &[7; 100], Expiry::NEVER, 1),
        };
        engine.write(entry).unwrap();
        if number % 20 > 0 {
            continue;
        }
        executor.run_for(Duration::from_millis(5));
        let live = Arc::clone(&tables.load().tables);
        let (kept, anew) = (tables.summaries(), Levels::of(&live));
        assert_eq!(kept.len(), anew.len());
        for level in 0..LEVELS {
            let found = |levels: &Levels| -> Vec<_> {
                let tables = levels.between(level, &Bytes::new(), &Bytes::from_static(b"~"));
                tables.map(|table| (table.id, table.bytes)).collect()
            };
            assert_eq!(found(&kept), found(&anew), "level {level}");
            assert_eq!(kept.bytes(level), anew.bytes(level));
            let level_anew = Level::new(live.levels()[level].iter().cloned().collect());
            assert_eq!(live.levels()[level].sums(), level_anew.sums());
            checks += kept.len_of(level);
        }
    }
    assert!(checks > 1_000, "{checks}");
    let statistics = engine.statistics();
    assert!(statistics.compactions > 5 && statistics.moved_tables > 5);
}
