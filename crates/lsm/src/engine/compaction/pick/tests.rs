//! The choice of compactions against golden cases in a text file.

use super::*;

/// Splits `text` after the number with which it begins.
fn number(text: &str) -> (u64, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    (text[..end].parse().unwrap(), &text[end..])
}

/// The table that `id[least-greatest]bytes` stands for.
fn table(word: &str) -> TableSummary {
    let (id, rest) = number(word);
    let (keys, bytes) = rest[1..].split_once(']').unwrap();
    let (least, greatest) = keys.split_once('-').unwrap();
    TableSummary {
        id: TableId(id),
        bytes: bytes.parse().unwrap(),
        // The files are half as large as the keys and values in them.
        entry_bytes: 2 * bytes.parse::<u64>().unwrap(),
        least_key: Bytes::copy_from_slice(least.as_bytes()),
        greatest_key: Bytes::copy_from_slice(greatest.as_bytes()),
        least_timestamp: Timestamp::from_u64(60),
        greatest_timestamp: Timestamp::from_u64(70),
        entries: 10,
        tombstones: 0,
        half_expired: Expiry::NEVER,
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
            "d" => tables.last_mut().unwrap().is_damaged = true,
            // The picker gets the bytes from [`hidden_bytes`].
            "h" => {}
            "x" => {
                let unix_ms = figures.parse().unwrap();
                tables.last_mut().unwrap().half_expired = Expiry::at_unix_ms(unix_ms);
            }
            "w" => {
                let (least, greatest) = figures.split_once('-').unwrap();
                let table = tables.last_mut().unwrap();
                table.least_timestamp = Timestamp::from_u64(least.parse().unwrap());
                table.greatest_timestamp = Timestamp::from_u64(greatest.parse().unwrap());
            }
            _ => tables.push(table(word)),
        }
    }
    tables
}

/// The bytes that are hidden in the tables of a line.
fn hidden_bytes(line: &str) -> BTreeMap<TableId, u64> {
    let mut hidden = BTreeMap::new();
    let mut last = 0;
    for word in line.split_whitespace() {
        match word.strip_prefix('h') {
            Some(bytes) => {
                hidden.insert(TableId(last), bytes.parse().unwrap());
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

#[test]
fn picks_are_those_of_the_golden_cases() {
    let golden = include_str!("../../../../tests/golden/compaction_pick.txt");
    let settings = PickSettings {
        level_zero_tables: 4,
        base_bytes: 100,
        table_bytes: 100,
        room_bytes: u64::MAX,
    };
    let mut cases = 0;
    for case in golden.split("\n\n").filter(|case| !case.starts_with('#')) {
        let mut levels: Levels = Default::default();
        let mut cursors: [Option<Bytes>; LEVELS] = Default::default();
        let mut hidden: BTreeMap<TableId, u64> = BTreeMap::new();
        let mut settings = settings;
        let (name, lines) = case.split_once('\n').unwrap();
        for line in lines.lines() {
            if let Some(expected) = line.strip_prefix("=> ") {
                let bound = Timestamp::from_u64(50);
                let pick = pick_hidden(&levels, &hidden, settings.room_bytes)
                    .map(|(pick, _)| pick)
                    .or_else(|| pick(&levels, &settings, &cursors, 500, bound));
                assert_eq!(written(pick.as_ref()), expected, "{name}");
                cases += 1;
            } else if let Some(room) = line.strip_prefix("room ") {
                settings.room_bytes = room.parse().unwrap();
            } else if let Some(cursor) = line.strip_prefix("cursor ") {
                let (level, key) = cursor.split_once(": ").unwrap();
                cursors[level.parse::<usize>().unwrap()] =
                    Some(Bytes::copy_from_slice(key.as_bytes()));
            } else {
                let (level, rest) = line.split_once(": ").unwrap();
                levels[level.parse::<usize>().unwrap()] = tables(rest);
                hidden.extend(hidden_bytes(rest));
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
    let mut levels: Levels = Default::default();
    levels[5] = tables("3[a-c]200 4[d-j]200");
    levels[6] = tables("1[a-z]900");
    let settings = PickSettings {
        level_zero_tables: 4,
        base_bytes: 100,
        table_bytes: 100,
        room_bytes: u64::MAX,
    };
    let pick = pick(&levels, &settings, &Default::default(), 0, Timestamp::ZERO).unwrap();
    assert_eq!(pick.cursor, Some((5, Bytes::from_static(b"c"))));
}
