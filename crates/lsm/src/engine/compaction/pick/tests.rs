//! The choice of compactions against golden cases in a text file.

use super::*;
use crate::engine::table_set::TableSummary;
use crate::table::tests::touched::looks;
use crate::table_id::TableId;
use base::{Expiry, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const SETTINGS: PickSettings = PickSettings {
    level_zero_tables: 4,
    base_bytes: 100,
    table_bytes: 100,
    input_bytes_max: u64::MAX,
    room_bytes: u64::MAX,
};

/// Splits `text` after the number with which it begins.
fn number(text: &str) -> (u64, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    (text[..end].parse().unwrap(), &text[end..])
}

/// The table that `id[least-greatest]bytes` stands for.
pub(in crate::engine::compaction) fn table(word: &str) -> TableSummary {
    let (id, rest) = number(word);
    let (keys, bytes) = rest[1..].split_once(']').unwrap();
    let (least, greatest) = keys.split_once('-').unwrap();
    TableSummary {
        id: TableId(id),
        bytes: bytes.parse().unwrap(),
        // The files are half as large as the keys and values in them.
        entry_bytes: 2 * bytes.parse::<u64>().unwrap(),
        has_blobs: false,
        least_key: Bytes::copy_from_slice(least.as_bytes()),
        greatest_key: Bytes::copy_from_slice(greatest.as_bytes()),
        least_timestamp: Timestamp::from_u64(60),
        greatest_timestamp: Timestamp::from_u64(70),
        entries: 10,
        tombstones: 0,
        half_expired: Expiry::NEVER,
        oldest_tombstone: Timestamp::from_u64(60),
        least_expiry: Expiry::NEVER,
        non_owned: 0,
        oldest_non_owned: Timestamp::from_u64(60),
        is_damaged: false,
    }
}

fn tables(line: &str) -> Vec<TableSummary> {
    let mut tables: Vec<TableSummary> = Vec::new();
    for word in line.split_whitespace() {
        let (letter, figures) = word.split_at(1);
        match letter {
            "e" => tables.last_mut().unwrap().entries = figures.parse().unwrap(),
            "t" => tables.last_mut().unwrap().tombstones = figures.parse().unwrap(),
            "s" => tables.last_mut().unwrap().non_owned = figures.parse().unwrap(),
            "d" => tables.last_mut().unwrap().is_damaged = true,
            // The picker gets the bytes from [`hidden`].
            "h" => {}
            "x" => {
                let unix_ms = figures.parse().unwrap();
                tables.last_mut().unwrap().half_expired = Expiry::at_unix_ms(unix_ms);
            }
            "w" => {
                let (least, greatest) = figures.split_once('-').unwrap();
                let table = tables.last_mut().unwrap();
                table.least_timestamp = Timestamp::from_u64(least.parse().unwrap());
                table.oldest_tombstone = table.least_timestamp;
                table.oldest_non_owned = table.least_timestamp;
                table.greatest_timestamp = Timestamp::from_u64(greatest.parse().unwrap());
            }
            _ => tables.push(table(word)),
        }
    }
    tables
}

/// What is hidden in the tables of a line.
fn hidden(line: &str) -> BTreeMap<TableId, Hidden> {
    let mut hidden = BTreeMap::new();
    let mut last = 0;
    for word in line.split_whitespace() {
        match word.strip_prefix('h') {
            Some(bytes) => {
                let bytes = bytes.parse().unwrap();
                hidden.insert(TableId(last), Hidden { versions: 0, bytes });
            }
            None if word.starts_with(|c: char| c.is_ascii_digit()) => last = number(word).0,
            None => {}
        }
    }
    hidden
}

fn written(pick: Option<&Pick>) -> String {
    let Some(pick) = pick else {
        return "nothing".to_owned();
    };
    let inputs: Vec<_> = pick
        .inputs
        .iter()
        .map(|(level, id)| format!("{level}/{}", id.0))
        .collect();
    format!(
        "{:?} to {}: {}",
        pick.reason,
        pick.output_level,
        inputs.join(" ")
    )
}

fn add_all(levels: &mut Levels, level: usize, tables: Vec<TableSummary>) {
    for table in tables {
        levels.insert(level, table);
    }
}

/// The tables of a level.
fn tables_of(levels: &Levels, level: usize) -> Vec<&Arc<TableSummary>> {
    let (least, greatest) = (Bytes::new(), Bytes::from_static(&[255; 9]));
    levels.between(level, &least, &greatest).collect()
}

#[test]
fn picks_are_those_of_the_golden_cases() {
    let golden = include_str!("../../../../tests/golden/compaction_pick.txt");
    let mut cases = 0;
    for case in golden.split("\n\n").filter(|case| !case.starts_with('#')) {
        let mut levels: Levels = Default::default();
        let mut cursors: [Option<Bytes>; LEVELS] = Default::default();
        let mut hidden_parts: BTreeMap<TableId, Hidden> = BTreeMap::new();
        let mut settings = SETTINGS;
        let mut due = BTreeSet::new();
        let (name, lines) = case.split_once('\n').unwrap();
        for line in lines.lines() {
            if let Some(expected) = line.strip_prefix("=> ") {
                let bound = Timestamp::from_u64(50);
                let bounds = GcThresholds {
                    tombstones: bound,
                    non_owned: Timestamp::from_u64(45),
                };
                let pick = if due.is_empty() {
                    pick_hidden(&levels, &hidden_parts, settings.room_bytes)
                        .map(|(pick, _)| pick)
                        .or_else(|| pick(&mut levels, &settings, &cursors, 500, bounds))
                } else {
                    let by_level = (0..LEVELS).rev().flat_map(|level| {
                        let tables = tables_of(&levels, level);
                        tables.into_iter().map(move |table| (level, table))
                    });
                    let due = by_level.filter(|(_, table)| due.contains(&table.id));
                    pick_purge(&levels, due, bound, &settings)
                };
                assert_eq!(written(pick.as_ref()), expected, "{name}");
                cases += 1;
            } else if let Some(room) = line.strip_prefix("room ") {
                settings.room_bytes = room.parse().unwrap();
            } else if let Some(most) = line.strip_prefix("most ") {
                settings.input_bytes_max = most.parse().unwrap();
            } else if let Some(tables) = line.strip_prefix("due ") {
                let ids = tables.split(' ').map(|id| TableId(id.parse().unwrap()));
                due.extend(ids);
            } else if let Some(cursor) = line.strip_prefix("cursor ") {
                let (level, key) = cursor.split_once(": ").unwrap();
                cursors[level.parse::<usize>().unwrap()] =
                    Some(Bytes::copy_from_slice(key.as_bytes()));
            } else {
                let (level, rest) = line.split_once(": ").unwrap();
                let level: usize = level.parse().unwrap();
                add_all(&mut levels, level, tables(rest));
                hidden_parts.extend(hidden(rest));
            }
        }
    }
    assert_eq!(
        cases,
        golden.lines().filter(|line| line.starts_with("=>")).count()
    );
}

#[test]
fn a_pick_moves_the_cursor_past_its_table() {
    let mut levels = Levels::default();
    add_all(&mut levels, 5, tables("3[a-c]200 4[d-j]200"));
    add_all(&mut levels, 6, tables("1[a-z]900"));
    let (none, bounds) = (Default::default(), GcThresholds::NONE);
    let pick = pick(&mut levels, &SETTINGS, &none, 0, bounds).unwrap();
    assert_eq!(pick.cursor, Some((5, Bytes::from_static(b"j"))));
}

/// The rule is asked about tables of 100 entries, at the 100th day of the GC threshold and of
/// the monotonic clock. What may stay for a week is described by days.
#[test]
fn a_table_is_purged_once_the_bound_is_far_enough_past_its_oldest_tombstone() {
    const DAY_MS: u64 = 86_400_000;
    let start = Timestamp::ZERO.unix_ms();
    let day = |day: u64| Timestamp::from_unix_ms(start + day * DAY_MS);
    let days = |days: u64| Duration::from_millis(days * DAY_MS);
    let below = |bound: u64| GcThresholds {
        tombstones: day(bound),
        non_owned: day(bound.saturating_sub(10)),
    };
    let rule = PurgeRule {
        gc_thresholds: below(100),
        expired_before_unix_ms: start + 100 * DAY_MS,
        wait: days(7),
        now: days(100),
    };
    let here = |since| Waiting {
        since: days(since),
        purged_below: None,
    };
    let purged = |since, bound| Waiting {
        since: days(since),
        purged_below: Some(below(bound)),
    };
    // The tombstones, the day of the oldest, the day of the least expiry, what is known.
    let cases = [
        (0, 0, 200, here(0), false),
        (1, 93, 200, here(100), true),
        (1, 94, 200, here(100), false),
        (1, 94, 200, here(93), true),
        (1, 100, 200, here(0), false),
        // Of many it is the seventh part of the time.
        (7, 99, 200, here(100), true),
        (6, 99, 200, here(100), false),
        // What a purge could not drop waits anew, and for a greater bound.
        (1, 50, 200, purged(94, 90), false),
        (1, 50, 200, purged(93, 90), true),
        (1, 50, 200, purged(93, 100), false),
        (1, 92, 200, purged(99, 90), true),
        // Values that have expired.
        (0, 0, 93, here(100), true),
        (0, 0, 94, here(0), false),
        (0, 0, 50, purged(94, 90), false),
        (0, 0, 50, purged(93, 90), true),
    ];
    for (tombstones, oldest, expiry, waiting, is_due) in cases {
        let table = TableSummary {
            entries: 100,
            tombstones,
            oldest_tombstone: day(oldest),
            least_expiry: Expiry::at_unix_ms(start + expiry * DAY_MS),
            ..table("1[a-b]1")
        };
        let due = rule.concerns(&table) && rule.is_due(&table, waiting);
        assert_eq!(due, is_due, "{tombstones} {oldest} {expiry} {waiting:?}");
        let damaged = TableSummary {
            is_damaged: true,
            ..table
        };
        assert!(!rule.concerns(&damaged));
    }
    // The non-owned versions, the day of the oldest, what is known.
    let cases = [
        // However old they are, what counts is how long the table has been here.
        (1, 1, here(94), false),
        (1, 1, here(93), true),
        (1, 89, here(93), true),
        (1, 90, here(0), false),
        (7, 1, here(99), true),
        (6, 1, here(99), false),
        (1, 50, purged(93, 100), false),
        (1, 50, purged(93, 99), true),
        (1, 89, purged(93, 99), true),
        (1, 50, purged(94, 99), false),
    ];
    for (non_owned, oldest, waiting, is_due) in cases {
        let table = TableSummary {
            entries: 100,
            non_owned,
            oldest_non_owned: day(oldest),
            ..table("1[a-b]1")
        };
        let due = rule.concerns(&table) && rule.is_due(&table, waiting);
        assert_eq!(due, is_due, "{non_owned} {oldest} {waiting:?}");
    }
    // While neither bound is known, nothing is due.
    let unknown = PurgeRule {
        gc_thresholds: GcThresholds::NONE,
        expired_before_unix_ms: 0,
        ..rule
    };
    let old = TableSummary {
        tombstones: 5,
        least_expiry: Expiry::at_unix_ms(1),
        ..table("1[a-b]1")
    };
    assert!(!unknown.concerns(&old));
}

/// A store with this many tables on each of two levels, each above one of the other level, with
/// so many tombstones in each.
fn store_of(tables: u64, tombstones: u64) -> Levels {
    let mut levels = Levels::default();
    for (level, first) in [(5, 0), (6, tables)] {
        for number in 0..tables {
            let id = first + number;
            let keys = format!("{id}[{number:05}a-{number:05}b]10");
            levels.insert(
                level,
                TableSummary {
                    tombstones,
                    ..table(&keys)
                },
            );
        }
    }
    levels
}

/// Checks that what `work` does takes about as many looks in a store of many tables as in one of
/// some more than a choice looks at.
#[track_caller]
fn assert_looks_at_few(tombstones: u64, work: impl Fn(&mut Levels)) {
    let [some, many] = [1_000, 10_000].map(|tables| {
        let mut levels = store_of(tables, tombstones);
        looks(|| work(&mut levels))
    });
    assert!(some > 0 && many <= some, "{some} looks, then {many}");
}

#[test]
fn a_choice_looks_at_as_few_tables_among_many() {
    let thresholds = GcThresholds {
        tombstones: Timestamp::from_u64(100),
        ..GcThresholds::NONE
    };
    let settings = PickSettings {
        base_bytes: 1,
        table_bytes: 10,
        input_bytes_max: 250,
        ..SETTINGS
    };
    let none = Default::default();
    assert_looks_at_few(0, |levels| {
        let pick = pick(levels, &settings, &none, 0, thresholds);
        assert_eq!(pick.unwrap().reason, Reason::LevelSize);
    });
    // If nothing fits the room, other levels are tried.
    let settings = PickSettings {
        room_bytes: 0,
        ..settings
    };
    assert_looks_at_few(0, |levels| {
        let pick = pick(levels, &settings, &none, 0, thresholds);
        assert_eq!(pick.unwrap().reason, Reason::LevelSize);
    });
}

#[test]
fn what_keeps_dead_tables_is_found_out_once() {
    let thresholds = GcThresholds {
        tombstones: Timestamp::from_u64(100),
        ..GcThresholds::NONE
    };
    let mut levels = store_of(1_000, 10);
    let dead = |levels: &mut Levels| {
        let mut found = None;
        let looks = looks(|| found = pick_dead(levels, 0, thresholds, &Busy::default()));
        (looks, found.map(|pick| pick.inputs))
    };
    let (at_first, found) = dead(&mut levels);
    assert!(at_first >= 2_000 && found.is_none(), "{found:?}");
    assert_eq!(dead(&mut levels), (0, None));
    // Once the table below is gone, nothing keeps what is dead in the one above, and once that is
    // gone, there is nothing else.
    levels.remove(TableId(1_007));
    let (looks, found) = dead(&mut levels);
    assert_eq!(found, Some(vec![(5, TableId(7))]));
    assert!(looks < 10, "{looks}");
    levels.remove(TableId(7));
    assert_eq!(dead(&mut levels), (0, None));
    // A table that keeps others may itself be kept no more.
    levels.remove(TableId(8));
    assert_eq!(dead(&mut levels).1, Some(vec![(6, TableId(1_008))]));
}
