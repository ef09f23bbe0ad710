//! The picker drives a model store of any size. This shows the effect of many choices in a row.
//!
//! A table is not a list of keys: it is intervals of keys, each with the **exposure** of its keys,
//! the expected number of writes that each of them got, divided by the weight of the key. A key
//! of weight `w` is in the table with probability `1 - exp(-w * exposure)`, so the tables that
//! a merge joins add up their exposures, and what it writes is the expected union. All keys are
//! in the last level from the start.

use super::*;
use crate::engine::table_set::TableSummary;
use crate::table_id::TableId;
use base::{Expiry, Timestamp};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// The bytes of a key and its value.
const ENTRY_BYTES: u64 = 1 << 10;

/// What is written.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Any key, each equally often.
    Uniform,
    /// Some keys more often than others, wherever they lie: their share, and the share of the
    /// writes that they get.
    Scattered(&'static [(f64, f64)]),
    /// Some ranges of keys more often than others, as above.
    Ranges(&'static [(f64, f64)]),
    /// One key after another, from the first on.
    InOrder,
}

/// A hundredth of the keys gets half of the writes.
const SKEW: &[(f64, f64)] = &[(0.4, 0.05), (0.01, 0.5), (0.2, 0.4), (0.39, 0.05)];

/// A thousandth of the keys gets nearly all writes.
const EXTREME: &[(f64, f64)] = &[(0.999, 0.01), (0.001, 0.99)];

impl Load {
    /// The probability that a table has a key.
    fn density(self, key: u64, keys: u64, exposure: f64) -> f64 {
        let has = |weight: f64| -f64::exp_m1(-weight * exposure);
        match self {
            Self::Uniform | Self::InOrder => has(1.0),
            Self::Scattered(parts) => {
                let parts = parts.iter();
                parts.map(|(keys, writes)| keys * has(writes / keys)).sum()
            }
            Self::Ranges(parts) => {
                let mut end = 0.0;
                let part = parts.iter().find(|(share, _)| {
                    end += share * keys as f64;
                    key < end as u64
                });
                let part = part.or(parts.last());
                part.map_or(0.0, |(keys, writes)| has(writes / keys))
            }
        }
    }

    /// The keys at which the density changes.
    fn ends(self, keys: u64) -> Vec<u64> {
        let mut end = 0.0;
        let mut ends: Vec<u64> = match self {
            Self::Ranges(parts) => {
                let ends = parts.iter().map(|(share, _)| {
                    end += share * keys as f64;
                    end as u64
                });
                ends.collect()
            }
            _ => Vec::new(),
        };
        ends.pop();
        ends.push(keys);
        ends
    }
}

/// Keys from one on and before another.
#[derive(Clone, Copy, Debug)]
struct Interval {
    from: u64,
    to: u64,
    /// Infinite if all of them are there.
    exposure: f64,
}

/// What was written, and what the store takes.
#[derive(Debug, Default)]
struct Figures {
    user_bytes: u64,
    flushed_bytes: u64,
    /// By the output level.
    compacted_bytes: [u64; LEVELS],
    compactions: u64,
    /// The most that a compaction took.
    inputs_max: u64,
    /// The most bytes on the disk for each byte of the live entries, with what a compaction
    /// writes and does not remove yet.
    space: f64,
    /// The most tables on level 0.
    level_zero_max: usize,
}

impl Figures {
    /// The bytes written for each byte of the user, with the log's.
    fn write_amplification(&self) -> f64 {
        let compacted: u64 = self.compacted_bytes.iter().sum();
        let written = self.user_bytes + self.flushed_bytes + compacted;
        written as f64 / self.user_bytes as f64
    }
}

struct Model {
    load: Load,
    keys: u64,
    settings: PickSettings,
    memtable_bytes: u64,
    levels: Levels,
    tables: BTreeMap<TableId, Vec<Interval>>,
    next: u64,
    cursors: [Option<Bytes>; LEVELS],
    /// The next key that is written in order.
    position: u64,
    figures: Figures,
}

fn key(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

fn number(key: &Bytes) -> u64 {
    key.as_ref().try_into().map_or(0, u64::from_be_bytes)
}

impl Model {
    /// A store whose last level has so many bytes of entries.
    fn new(load: Load, bytes: u64, memtable_bytes: u64, table_bytes: u64) -> Self {
        let mut model = Self::empty(load, bytes, memtable_bytes, table_bytes);
        let all = Interval {
            from: 0,
            to: model.keys,
            exposure: f64::INFINITY,
        };
        model.write(LEVELS - 1, &[all], Cuts::default());
        model
    }

    /// A store that has nothing of so many bytes of entries.
    fn empty(load: Load, bytes: u64, memtable_bytes: u64, table_bytes: u64) -> Self {
        let base_bytes = 4 * memtable_bytes;
        Self {
            load,
            keys: bytes / ENTRY_BYTES,
            settings: PickSettings {
                level_zero_tables: 4,
                base_bytes,
                table_bytes,
                input_bytes_max: (25 * table_bytes).max(2 * base_bytes),
                room_bytes: u64::MAX,
            },
            memtable_bytes,
            levels: Levels::default(),
            tables: BTreeMap::new(),
            next: 0,
            cursors: Default::default(),
            position: 0,
            figures: Figures::default(),
        }
    }

    fn entries(&self, interval: &Interval) -> f64 {
        let density = self
            .load
            .density(interval.from, self.keys, interval.exposure);
        (interval.to - interval.from) as f64 * density
    }

    /// Writes so many bytes, and compacts whatever becomes due.
    fn put(&mut self, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let memtable = self.memtable_bytes.min(left);
            left -= memtable;
            self.figures.user_bytes += memtable;
            let intervals = self.memtable(memtable / ENTRY_BYTES);
            self.figures.flushed_bytes += self.add(0, intervals);
            let level_zero = self.levels.len_of(0);
            self.figures.level_zero_max = self.figures.level_zero_max.max(level_zero);
            self.compact();
        }
    }

    /// What so many writes leave in a memtable.
    fn memtable(&mut self, writes: u64) -> Vec<Interval> {
        if matches!(self.load, Load::InOrder) {
            let from = self.position;
            let to = (from + writes).min(self.keys);
            self.position = if to == self.keys { 0 } else { to };
            let exposure = f64::INFINITY;
            return vec![Interval { from, to, exposure }];
        }
        let exposure = writes as f64 / self.keys as f64;
        let mut from = 0;
        let intervals = self.load.ends(self.keys).into_iter().map(|to| {
            let interval = Interval { from, to, exposure };
            from = to;
            interval
        });
        intervals.collect()
    }

    /// Adds a table. Returns its bytes.
    fn add(&mut self, level: usize, intervals: Vec<Interval>) -> u64 {
        let entries: f64 = intervals.iter().map(|it| self.entries(it)).sum();
        let bytes = ((entries * ENTRY_BYTES as f64) as u64).max(1);
        let id = TableId(self.next);
        self.next += 1;
        let first = intervals.first().map_or(0, |interval| interval.from);
        let last = intervals.last().map_or(0, |interval| interval.to - 1);
        self.levels.insert(level, summary(id, bytes, first, last));
        self.tables.insert(id, intervals);
        bytes
    }

    fn compact(&mut self) {
        let mut rounds = 0;
        loop {
            let none = GcThresholds::NONE;
            let pick = pick(&mut self.levels, &self.settings, &self.cursors, 0, none);
            let Some(pick) = pick else { return };
            rounds += 1;
            assert!(rounds < 10_000, "compactions never end: {pick:?}");
            self.run(pick);
        }
    }

    fn run(&mut self, pick: Pick) {
        self.figures.compactions += 1;
        let before = self.stored();
        let input_bytes = input_bytes(&self.levels, &pick.inputs);
        self.figures.inputs_max = self.figures.inputs_max.max(input_bytes);
        if let Some((level, key)) = pick.cursor {
            self.cursors[level] = Some(key);
        }
        let mut inputs = Vec::new();
        for (_, id) in &pick.inputs {
            self.levels.remove(*id);
            inputs.push(self.tables.remove(id).unwrap());
        }
        if pick.reason != Reason::Wide && are_apart(&inputs) {
            // They move down as they are.
            for intervals in inputs {
                self.add(pick.output_level, intervals);
            }
            return;
        }
        let merged = merge(&inputs, &self.load.ends(self.keys));
        let written = self.write(pick.output_level, &merged, pick.cuts);
        self.figures.compacted_bytes[pick.output_level] += written;
        let space = (before + written) as f64 / (self.keys * ENTRY_BYTES) as f64;
        self.figures.space = self.figures.space.max(space);
    }

    fn stored(&self) -> u64 {
        self.levels.sorted_bytes() + self.levels.bytes(0)
    }

    /// Writes what was merged to tables of a level. Returns their bytes.
    fn write(&mut self, level: usize, merged: &[Interval], cuts: Cuts) -> u64 {
        let full = self.settings.table_bytes as f64 / ENTRY_BYTES as f64;
        let mut ends: Vec<u64> = cuts.below.iter().map(|(key, _)| number(key)).collect();
        ends.reverse();
        let mut cutter = cuts.start();
        let mut written = 0;
        let (mut output, mut entries) = (Vec::new(), 0.0);
        for interval in merged {
            let density = self
                .load
                .density(interval.from, self.keys, interval.exposure);
            let mut from = interval.from;
            while from < interval.to {
                let bytes = (entries * ENTRY_BYTES as f64) as u64;
                let bytes = (!output.is_empty()).then_some(bytes);
                let is_cut = cutter.ends_before(&key(from), bytes);
                if is_cut || entries >= full {
                    cutter.begin();
                    written += self.add(level, std::mem::take(&mut output));
                    entries = 0.0;
                }
                while ends.last().is_some_and(|end| *end <= from) {
                    ends.pop();
                }
                let until_full = ((full - entries) / density).ceil().max(1.0);
                let to_full = from.saturating_add(until_full as u64);
                let to = to_full.min(interval.to);
                let to = ends.last().map_or(to, |end| to.min(*end));
                entries += (to - from) as f64 * density;
                output.push(Interval {
                    from,
                    to,
                    ..*interval
                });
                from = to;
            }
        }
        if !output.is_empty() {
            written += self.add(level, output);
        }
        written
    }
}

fn summary(id: TableId, bytes: u64, first: u64, last: u64) -> TableSummary {
    TableSummary {
        id,
        bytes,
        entry_bytes: bytes,
        has_blobs: false,
        least_key: key(first),
        greatest_key: key(last),
        least_timestamp: Timestamp::ZERO,
        greatest_timestamp: Timestamp::MAX,
        entries: bytes / ENTRY_BYTES + 1,
        tombstones: 0,
        half_expired: Expiry::NEVER,
        oldest_tombstone: Timestamp::MAX,
        least_expiry: Expiry::NEVER,
        non_owned: 0,
        oldest_non_owned: Timestamp::MAX,
        is_damaged: false,
    }
}

/// Whether no two of these tables overlap.
fn are_apart(tables: &[Vec<Interval>]) -> bool {
    let bounds = tables.iter().map(|table| {
        let (first, last) = (table.first(), table.last());
        (first.map_or(0, |it| it.from), last.map_or(0, |it| it.to))
    });
    let mut bounds: Vec<_> = bounds.collect();
    bounds.sort_unstable();
    bounds.windows(2).all(|pair| pair[0].1 <= pair[1].0)
}

/// Joins tables: where they overlap, their exposures add up. No interval of the result has one
/// of the `ends` in its middle.
fn merge(tables: &[Vec<Interval>], ends: &[u64]) -> Vec<Interval> {
    // Where something begins or ends: how many intervals, how many of them full, their exposure.
    let mut events: Vec<(u64, i32, i32, f64)> = Vec::new();
    for interval in tables.iter().flatten() {
        let (full, exposure) = if interval.exposure.is_infinite() {
            (1, 0.0)
        } else {
            (0, interval.exposure)
        };
        events.push((interval.from, 1, full, exposure));
        events.push((interval.to, -1, -full, -exposure));
    }
    events.sort_unstable_by_key(|event| event.0);
    let mut merged: Vec<Interval> = Vec::new();
    let (mut from, mut open, mut full, mut exposure) = (0, 0, 0, 0.0);
    for (at, opens, fills, exposes) in events {
        if open > 0 && at > from {
            let exposure = if full > 0 { f64::INFINITY } else { exposure };
            match merged.last_mut() {
                Some(last)
                    if last.to == from && last.exposure == exposure && !ends.contains(&from) =>
                {
                    last.to = at;
                }
                _ => merged.push(Interval {
                    from,
                    to: at,
                    exposure,
                }),
            }
        }
        from = at;
        open += opens;
        full += fills;
        exposure = if open == full {
            0.0
        } else {
            exposure + exposes
        };
    }
    merged
}

/// Overwrites a part of a store until it is in balance, then as much again.
fn run(load: Load, bytes: u64, part: f64, memtable_bytes: u64, table_bytes: u64) -> Model {
    let mut model = Model::new(load, bytes, memtable_bytes, table_bytes);
    let part = (bytes as f64 * part) as u64;
    model.put(part);
    let space = model.figures.space;
    model.figures = Figures::default();
    model.put(part);
    let figures = &mut model.figures;
    figures.space = figures.space.max(space);
    let by_level: Vec<_> = figures
        .compacted_bytes
        .iter()
        .map(|bytes| (*bytes as f64 / figures.user_bytes as f64 * 100.0).round() / 100.0)
        .collect();
    println!(
        "{load:?}, {} GiB in tables of {} MiB: {:.2} bytes written for a byte, space {:.3}; \
         to the levels {by_level:?}; {} compactions of at most {} MiB; {} tables, {} on level 0",
        bytes / GIB,
        table_bytes / MIB,
        figures.write_amplification(),
        figures.space,
        figures.compactions,
        figures.inputs_max / MIB,
        model.levels.len(),
        figures.level_zero_max,
    );
    for level in 0..LEVELS {
        print!(
            "  {}:{}/{}M",
            level,
            model.levels.len_of(level),
            model.levels.bytes(level) / MIB
        );
    }
    println!();
    model
}

fn assert_bounds(model: &Model, written: f64, space: f64) {
    let figures = &model.figures;
    let (write, load) = (figures.write_amplification(), model.load);
    assert!(write < written, "{load:?}: {write} bytes for a byte");
    assert!(
        figures.space < space,
        "{load:?}: {} times the space",
        figures.space
    );
    let most = model.settings.input_bytes_max;
    assert!(
        figures.inputs_max <= most,
        "{load:?}: a compaction takes {}",
        figures.inputs_max
    );
}

#[test]
fn a_terabyte_of_random_overwrites_writes_less_than_twenty_bytes_a_byte() {
    let model = run(Load::Uniform, TIB, 0.16, 64 * MIB, 64 * MIB);
    assert_bounds(&model, 20.0, 1.15);
}

#[test]
fn overwrites_that_are_not_random_write_less() {
    for load in [
        Load::Scattered(SKEW),
        Load::Ranges(SKEW),
        Load::Ranges(EXTREME),
    ] {
        let model = run(load, TIB / 4, 0.2, 64 * MIB, 64 * MIB);
        assert_bounds(&model, 14.0, 1.15);
    }
    let model = run(Load::InOrder, TIB / 4, 0.3, 64 * MIB, 64 * MIB);
    assert_bounds(&model, 3.5, 1.15);
}

/// Nothing is rewritten: each table moves down as it is.
#[test]
fn a_store_that_is_filled_in_order_writes_the_log_and_each_table_once() {
    let mut model = Model::empty(Load::InOrder, 64 * GIB, 64 * MIB, 32 * MIB);
    model.put(64 * GIB);
    assert_eq!(model.figures.write_amplification(), 2.0);
    assert!(model.levels.bytes(LEVELS - 1) > 50 * GIB);
}

/// What level 0 holds counts more there.
#[test]
fn small_stores_write_less_and_take_more_space() {
    let stores = [
        (2, 8.0, 1.6),
        (4, 10.0, 1.4),
        (10, 12.0, 1.25),
        (30, 14.0, 1.2),
        (100, 16.0, 1.16),
    ];
    for (gib, written, space) in stores {
        let model = run(Load::Uniform, gib * GIB, 1.0, 64 * MIB, 32 * MIB);
        assert_bounds(&model, written, space);
    }
}

#[test]
#[ignore = "a million tables of a GiB take a minute"]
fn a_petabyte_is_a_matter_of_more_of_the_same() {
    let model = run(Load::Uniform, 1024 * TIB, 0.05, 256 * MIB, GIB);
    assert_bounds(&model, 60.0, 1.15);
}
