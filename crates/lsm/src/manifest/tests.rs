use super::file::MAGIC;
use super::*;
use crate::error::Error;
use crate::table_id::TableId;
use base::Timestamp;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::Path;

mod log;

/// The manifest whose snapshot `tests/fixtures/manifest-v5` holds, before its edits.
fn example() -> Manifest {
    Manifest {
        store_id: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
        progress: Progress {
            next_table: TableId(9),
            least_log_segment: 4,
            log_claim: LogClaim {
                segment: 5,
                bytes: 1234,
            },
            greatest_timestamp: Timestamp::from_u64(1_700_000_000_000 << 16),
            records_before: 123_456_789,
        },
        tables: tables([table(6, 3, 77_777), table(0, 8, 1000)]),
        damaged: vec![
            DamagedRange {
                table: TableId(3),
                bytes: 4096..8200,
                first_key: Bytes::from_static(b"apple"),
                last_key: Some(Bytes::from_static(b"banana")),
                is_set_aside: true,
            },
            DamagedRange {
                table: TableId(8),
                bytes: 0..1000,
                first_key: Bytes::new(),
                last_key: None,
                is_set_aside: false,
            },
        ],
        set_aside: vec![
            set_aside(3, 30, false, ["apple", "banana"]),
            set_aside(5, 40, true, ["", "zebra"]),
        ],
    }
}

/// The edits of the fixture: a compaction that removes what is damaged, a table that moves, and
/// parts that are set aside.
fn example_edits() -> [ManifestEdit; 3] {
    let mut progress = example().progress;
    progress.next_table = TableId(12);
    progress.records_before += 5;
    let compaction = ManifestEdit {
        removed: [TableId(3)].into(),
        tables: vec![table(5, 10, 500), table(5, 9, 600)],
        ..ManifestEdit::of_progress(progress)
    };
    progress.log_claim.segment = 6;
    let moved = ManifestEdit {
        tables: vec![table(1, 8, 1000)],
        damaged: Some(Vec::new()),
        ..ManifestEdit::of_progress(progress)
    };
    progress.least_log_segment = 6;
    let parts = ManifestEdit {
        set_aside: Some(vec![set_aside(9, 50, true, ["a", "b"])]),
        ..ManifestEdit::of_progress(progress)
    };
    [compaction, moved, parts]
}

/// What the edits of the fixture make of its snapshot.
fn example_after() -> Manifest {
    Manifest {
        progress: Progress {
            next_table: TableId(12),
            least_log_segment: 6,
            log_claim: LogClaim {
                segment: 6,
                bytes: 1234,
            },
            records_before: 123_456_794,
            ..example().progress
        },
        tables: tables([table(1, 8, 1000), table(5, 9, 600), table(5, 10, 500)]),
        damaged: Vec::new(),
        set_aside: vec![set_aside(9, 50, true, ["a", "b"])],
        ..example()
    }
}

/// The same with blob tables: one that is live before, and one that a compaction adds.
fn example_with_blobs() -> (Manifest, [ManifestEdit; 3]) {
    let mut manifest = example();
    manifest.tables.insert(TableId(7), table(7, 7, 30_000));
    let mut edits = example_edits();
    edits[0].tables.push(table(7, 11, 20_000));
    edits[1].removed = [TableId(7)].into();
    (manifest, edits)
}

fn table(level: u8, id: u64, bytes: u64) -> LiveTable {
    LiveTable {
        level,
        id: TableId(id),
        bytes,
        keys: KeyBounds {
            first: Bytes::from(format!("key-{id:03}")),
            last: (id != 8).then(|| Bytes::from(format!("key-{id:03}-last"))),
        },
    }
}

fn tables<const N: usize>(tables: [LiveTable; N]) -> BTreeMap<TableId, LiveTable> {
    tables.map(|table| (table.id, table)).into()
}

fn set_aside(table: u64, below: u64, is_kept: bool, [first, last]: [&str; 2]) -> SetAsidePart {
    SetAsidePart {
        table: TableId(table),
        file_bytes: 77_777,
        versions: 99,
        below: Timestamp::from_u64(below),
        is_kept,
        first_key: Bytes::copy_from_slice(first.as_bytes()),
        last_key: Bytes::copy_from_slice(last.as_bytes()),
    }
}

/// A file with edits, and where its snapshot and each edit end.
fn file_of(manifest: &Manifest, edits: &[ManifestEdit]) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, seed) = manifest.encode_snapshot();
    let mut ends = vec![bytes.len()];
    for edit in edits {
        frame::put(&mut bytes, 0, seed, &edit.encode());
        ends.push(bytes.len());
    }
    (bytes, ends)
}

/// The manifests after each of the edits, and before them.
fn states(manifest: &Manifest, edits: &[ManifestEdit]) -> Vec<Manifest> {
    let mut states = vec![manifest.clone()];
    for edit in edits {
        let mut next = states[states.len() - 1].clone();
        edit.check(&next).unwrap();
        edit.clone().apply(&mut next);
        states.push(next);
    }
    states
}

fn with_room(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend([0; 700]);
    bytes
}

fn decode(bytes: &[u8]) -> Result<Manifest, Error> {
    Manifest::decode(Path::new("/store/MANIFEST"), bytes)
}

#[track_caller]
fn assert_corrupt(bytes: &[u8], what: &str) {
    let decoded = decode(bytes);
    assert!(
        matches!(decoded, Err(Error::Corrupt { .. })),
        "{what}: {decoded:?}"
    );
}

fn fixture() -> Vec<u8> {
    with_room(file_of(&example(), &example_edits()).0)
}

#[test]
fn the_format_is_that_of_version_5() {
    let bytes = include_bytes!("../../tests/fixtures/manifest-v5");
    assert_eq!(fixture(), bytes);
    assert_eq!(decode(bytes).unwrap(), example_after());
    assert_eq!(decode(&example().encode()).unwrap(), example());
    for new in [Manifest::new(7), Manifest::new(u128::MAX)] {
        assert_eq!(decode(&new.encode()).unwrap(), new);
    }
}

#[test]
fn the_format_with_blob_tables_is_that_of_version_6() {
    let bytes = include_bytes!("../../tests/fixtures/manifest-v6");
    assert_eq!(fixture_with_blobs(), bytes);
    let mut after = example_after();
    after.tables.insert(TableId(11), table(7, 11, 20_000));
    assert_eq!(decode(bytes).unwrap(), after);
}

fn fixture_with_blobs() -> Vec<u8> {
    let (manifest, edits) = example_with_blobs();
    with_room(file_of(&manifest, &edits).0)
}

#[test]
#[ignore = "writes the fixture: only for a new version of the format"]
#[expect(clippy::disallowed_methods, reason = "fixtures lie on the real disk")]
fn write_the_fixture() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/manifest-v5");
    std::fs::write(path, fixture()).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/manifest-v6");
    std::fs::write(path, fixture_with_blobs()).unwrap();
}

#[test]
fn any_bit_of_damage_is_found() {
    let (bytes, _) = file_of(&example(), &example_edits());
    let bytes = with_room(bytes);
    // Also behind the last edit: what is there is no edit that was cut off.
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let is_room = bit / 8 >= bytes.len() - 700;
        match decode(&damaged) {
            Ok(manifest) if is_room => assert_eq!(manifest, example_after()),
            decoded => assert!(
                matches!(decoded, Err(Error::Corrupt { .. })),
                "bit {bit}: {decoded:?}"
            ),
        }
    }
}

/// The file ends there, or the rest of the last edit was never written.
#[test]
fn an_edit_that_was_cut_at_any_byte_is_dropped() {
    assert_dropped_where_cut(&example(), &example_edits());
    let (manifest, edits) = example_with_blobs();
    assert_dropped_where_cut(&manifest, &edits);
}

fn assert_dropped_where_cut(manifest: &Manifest, edits: &[ManifestEdit]) {
    let (bytes, ends) = file_of(manifest, edits);
    let states = states(manifest, edits);
    for length in 0..=bytes.len() {
        let cut = bytes[..length].to_vec();
        let whole = ends.iter().filter(|end| **end <= length).count();
        for bytes in [cut.clone(), with_room(cut)] {
            match whole {
                0 => assert_corrupt(&bytes, &format!("{length} bytes of the snapshot")),
                _ => assert_eq!(decode(&bytes).unwrap(), states[whole - 1], "{length} bytes"),
            }
        }
    }
}

/// A long edit loses any of its sectors in a crash, and comes wholly or not at all. Behind it
/// nothing was written.
#[test]
fn an_edit_that_lacks_sectors_is_dropped() {
    const SECTOR: usize = 512;
    for shift in [0, 1, 7, 100, 300, 511] {
        let mut before = example();
        before.damaged.clear();
        before.set_aside.clear();
        let key = Bytes::from(vec![b'k'; shift]);
        before.tables.get_mut(&TableId(3)).unwrap().keys.last = None;
        before.tables.get_mut(&TableId(3)).unwrap().keys.first = key;
        let mut progress = before.progress;
        progress.next_table = TableId(100);
        let edit = ManifestEdit {
            tables: (9..60).map(|id| table(2, id, id)).collect(),
            ..ManifestEdit::of_progress(progress)
        };
        let (bytes, ends) = file_of(&before, std::slice::from_ref(&edit));
        let after = states(&before, &[edit]).pop().unwrap();
        let bytes = with_room(bytes);
        let sectors: Vec<_> = (ends[0] / SECTOR..ends[1].div_ceil(SECTOR)).collect();
        assert!(sectors.len() > 3 && sectors.len() < 10);
        for survive in 0..1_u32 << sectors.len() {
            let mut crashed = bytes.clone();
            for (index, sector) in sectors.iter().enumerate() {
                let lost = (sector * SECTOR).max(ends[0])..((sector + 1) * SECTOR).min(ends[1]);
                if survive >> index & 1 == 0 {
                    crashed[lost].fill(0);
                }
            }
            let is_whole = survive.count_ones() as usize == sectors.len();
            let expected = if is_whole { &after } else { &before };
            assert_eq!(
                decode(&crashed).unwrap(),
                *expected,
                "shift {shift}, {survive:b}"
            );
        }
    }
}

#[test]
fn an_edit_before_another_one_is_never_dropped() {
    let (bytes, ends) = file_of(&example(), &example_edits());
    for edit in 0..2 {
        for lost in [
            ends[edit]..ends[edit + 1],
            ends[edit] + 5..ends[edit + 1],
            ends[edit]..ends[edit] + 5,
            ends[edit + 1] - 5..ends[edit + 1],
        ] {
            let mut damaged = bytes.clone();
            damaged[lost.clone()].fill(0);
            assert_corrupt(&with_room(damaged), &format!("{lost:?} are zero"));
        }
    }
    // Those of another file are none.
    let other = file_of(&Manifest::new(1), &[]).0;
    let edits = &bytes[ends[0]..];
    assert_corrupt(&[&other[..], edits].concat(), "edits of another manifest");
    let swapped = [
        &bytes[..ends[0]],
        &bytes[ends[1]..ends[2]],
        &bytes[ends[0]..ends[1]],
    ];
    assert_corrupt(&swapped.concat(), "edits in another order");
}

#[test]
fn a_snapshot_that_no_store_writes_is_refused_despite_its_checksum() {
    let refused = |change: &dyn Fn(&mut Manifest), what: &str| {
        let mut manifest = example();
        change(&mut manifest);
        let error = decode(&manifest.encode()).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    };
    let with =
        |table: LiveTable| move |manifest: &mut Manifest| manifest.tables = tables([table.clone()]);
    refused(&with(table(8, 1, 1)), "a table on level 8");
    refused(&with(table(6, 9, 1)), "table 9 is yet to come");
    refused(&with(table(6, 3, 1)), "damaged range of table 8");
    let twice = |manifest: &mut Manifest| {
        manifest.tables.insert(TableId(7), table(6, 8, 1));
    };
    refused(&twice, "table 8 is there twice");
    let unsorted = |manifest: &mut Manifest| {
        manifest.tables.insert(TableId(1), table(6, 7, 1));
    };
    refused(&unsorted, "not in their order");
    let without_key = LiveTable {
        keys: KeyBounds {
            first: Bytes::from_static(b"b"),
            last: Some(Bytes::from_static(b"a")),
        },
        ..table(6, 3, 1)
    };
    refused(&with(without_key), "table 3 is without a key");
    refused(&|it| it.progress.least_log_segment = 0, "log segment 0");
    // The next one would wrap.
    let last = |it: &mut Manifest| it.progress.next_table = TableId(u64::MAX);
    refused(&last, "no table 18446744073709551615");
    for claimed in [0, 3, u64::MAX] {
        let claim = |it: &mut Manifest| it.progress.log_claim.segment = claimed;
        refused(&claim, &format!("a claim for log segment {claimed}"));
    }
    for (part, what) in [
        (set_aside(4, 1, false, ["a", "b"]), "neither live nor kept"),
        (set_aside(9, 1, true, ["a", "b"]), "yet to come"),
        (set_aside(3, 1, true, ["b", "a"]), "malformed"),
    ] {
        refused(&|it| it.set_aside = vec![part.clone()], what);
    }
}

#[test]
fn an_edit_that_does_not_fit_is_refused_despite_its_checksum() {
    let progress = example().progress;
    let tables = |tables: Vec<LiveTable>| ManifestEdit {
        tables,
        ..ManifestEdit::of_progress(progress)
    };
    let back = |change: &dyn Fn(&mut Progress)| {
        let mut progress = progress;
        change(&mut progress);
        ManifestEdit::of_progress(progress)
    };
    for (edit, what) in [
        (back(&|it| it.next_table = TableId(8)), "goes back"),
        (back(&|it| it.least_log_segment = 3), "goes back"),
        (back(&|it| it.log_claim.bytes = 3), "goes back"),
        (back(&|it| it.records_before = 3), "goes back"),
        (back(&|it| it.least_log_segment = 6), "a claim"),
        (
            ManifestEdit {
                removed: [TableId(4)].into(),
                ..tables(Vec::new())
            },
            "table 4 is removed and not live",
        ),
        (
            ManifestEdit {
                removed: [TableId(3)].into(),
                ..tables(vec![table(1, 3, 77_777)])
            },
            "table 3 is there twice",
        ),
        (tables(vec![table(1, 3, 5)]), "table 3 is there twice"),
        (
            tables(vec![table(1, 7, 5), table(1, 7, 5)]),
            "table 7 is there twice",
        ),
        (tables(vec![table(1, 9, 5)]), "table 9 is yet to come"),
        (
            ManifestEdit {
                removed: [TableId(8)].into(),
                damaged: Some(example().damaged),
                ..tables(Vec::new())
            },
            "damaged range of table 8",
        ),
        (
            ManifestEdit {
                set_aside: Some(vec![set_aside(4, 1, false, ["a", "b"])]),
                ..tables(Vec::new())
            },
            "neither live nor kept",
        ),
    ] {
        let (bytes, _) = file_of(&example(), &[edit]);
        let error = decode(&bytes).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn what_goes_with_its_table_needs_no_word() {
    let manifest = example();
    let remove = |id| ManifestEdit {
        removed: [TableId(id)].into(),
        ..ManifestEdit::of_progress(manifest.progress)
    };
    let mut edit = remove(3);
    edit.leave(
        &manifest,
        manifest.damaged[1..].iter(),
        &manifest.set_aside[1..],
    );
    assert_eq!(edit, remove(3));
    let after = states(&manifest, &[edit]).pop().unwrap();
    assert_eq!(after.damaged, manifest.damaged[1..]);
    assert_eq!(after.set_aside, manifest.set_aside[1..]);

    let mut edit = remove(3);
    edit.leave(&manifest, [].iter(), &[]);
    let after = states(&manifest, &[edit]).pop().unwrap();
    assert_eq!((after.damaged, after.set_aside), (Vec::new(), Vec::new()));
}

#[test]
fn other_versions_are_named() {
    let refused = |bytes: &[u8], version: u32| match decode(bytes) {
        Err(Error::Invalid(message)) => assert_eq!(
            message,
            format!(
                "/store/MANIFEST has format version {version}; this release reads versions 5 and 6"
            )
        ),
        other => panic!("{other:?}"),
    };
    for version in [1, 4] {
        let mut old = [&MAGIC[..], &[version, 0, 0, 0], &[7; 300][..]].concat();
        old.extend(base::crc32c(&old).to_le_bytes());
        refused(&old, u32::from(version));
    }
    let mut newer = [&MAGIC[..], &7_u32.to_le_bytes()].concat();
    let seed = base::crc32c(&newer);
    frame::put(&mut newer, 0, seed, b"what no release of today knows");
    refused(&newer, 7);
}

#[test]
fn arbitrary_bytes_are_refused_without_a_panic() {
    let mut random = fastrand::Rng::with_seed(1);
    let sound = fixture();
    for _ in 0..20_000 {
        let mut bytes = sound.clone();
        bytes.truncate(random.usize(0..=bytes.len()));
        for _ in 0..random.usize(0..8).min(bytes.len()) {
            let at = random.usize(0..bytes.len());
            bytes[at] = random.u8(..);
        }
        fuzz_manifest(&bytes);
    }
}
