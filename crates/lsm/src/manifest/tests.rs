use super::*;
use crate::disk::temporary_name;
use crate::testing::{Call, Fault, FaultyDisk, MemoryDisk, Unsynced};
use std::io::ErrorKind;
use std::sync::Arc;

const FOLDER: &str = "/store";

/// The manifest that `tests/fixtures/manifest-v4` holds.
fn example() -> Manifest {
    Manifest {
        store_id: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
        next_table: TableId(9),
        least_log_segment: 4,
        log_claim: LogClaim {
            segment: 5,
            bytes: 1234,
        },
        greatest_timestamp: Timestamp::from_u64(1_700_000_000_000 << 16),
        records_before: 123_456_789,
        tables: vec![
            LiveTable {
                level: 0,
                id: TableId(8),
                bytes: 1000,
            },
            LiveTable {
                level: 6,
                id: TableId(3),
                bytes: 77_777,
            },
        ],
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

/// What a version without set aside parts says of the example.
fn example_without_parts() -> Manifest {
    let mut manifest = example();
    manifest.set_aside.clear();
    for range in &mut manifest.damaged {
        range.is_set_aside = false;
    }
    manifest
}

fn decode(bytes: &[u8]) -> Result<Manifest, Error> {
    Manifest::decode(Path::new("/store/MANIFEST"), bytes)
}

/// Writes the right checksum, to reach the checks after it.
fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let content = bytes.len() - CHECKSUM_BYTES;
    let checksum = base::crc32c(&bytes[..content]);
    bytes[content..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn the_format_is_that_of_version_4() {
    let fixture = include_bytes!("../../tests/fixtures/manifest-v4");
    assert_eq!(example().encode(), fixture);
    assert_eq!(decode(fixture).unwrap(), example());
    let empty = Manifest {
        tables: Vec::new(),
        damaged: Vec::new(),
        set_aside: Vec::new(),
        ..example()
    };
    assert_eq!(decode(&empty.encode()).unwrap(), empty);
    let new = Manifest {
        least_log_segment: 1,
        log_claim: LogClaim::default(),
        ..empty
    };
    assert_eq!(decode(&new.encode()).unwrap(), new);
}

#[test]
fn version_3_is_read_and_has_set_nothing_aside() {
    let fixture = include_bytes!("../../tests/fixtures/manifest-v3");
    assert_eq!(decode(fixture).unwrap(), example_without_parts());
}

#[test]
fn version_2_is_read_and_has_neither_records_nor_damage() {
    let fixture = include_bytes!("../../tests/fixtures/manifest-v2");
    let expected = Manifest {
        records_before: 0,
        damaged: Vec::new(),
        ..example_without_parts()
    };
    assert_eq!(decode(fixture).unwrap(), expected);
}

#[test]
#[ignore = "writes the fixture: only for a new version of the format"]
#[expect(clippy::disallowed_methods, reason = "fixtures lie on the real disk")]
fn write_the_fixture() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/manifest-v4");
    std::fs::write(path, example().encode()).unwrap();
}

#[test]
fn any_damage_is_found() {
    let bytes = example().encode();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(
            matches!(decode(&damaged), Err(Error::Corrupt { .. })),
            "bit {bit}"
        );
    }
    for length in 0..bytes.len() {
        assert!(matches!(
            decode(&bytes[..length]),
            Err(Error::Corrupt { .. })
        ));
        // Even with the right checksum.
        if length >= CHECKSUM_BYTES {
            let cut = with_checksum(bytes[..length].to_vec());
            assert!(
                matches!(decode(&cut), Err(Error::Corrupt { .. })),
                "{length} bytes"
            );
        }
    }
}

#[test]
fn a_manifest_that_no_store_writes_is_refused_despite_its_checksum() {
    let table = |level, id| LiveTable {
        level,
        id: TableId(id),
        bytes: 1,
    };
    for (tables, what) in [
        (vec![table(7, 1)], "a table on level 7"),
        (vec![table(6, 9)], "table 9 is yet to come"),
        (vec![table(6, 1), table(0, 1)], "table 1 is there twice"),
        (vec![table(6, 3)], "damaged ranges are malformed"),
    ] {
        let bytes = Manifest {
            tables,
            ..example()
        }
        .encode();
        let error = decode(&bytes).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    let no_segment = Manifest {
        least_log_segment: 0,
        ..example()
    };
    let error = decode(&no_segment.encode()).unwrap_err().to_string();
    assert!(error.contains("log segment 0"), "{error}");
    // The next one would wrap.
    let last_table = Manifest {
        next_table: TableId(u64::MAX),
        ..example()
    };
    let error = decode(&last_table.encode()).unwrap_err().to_string();
    assert!(error.contains("no table 18446744073709551615"), "{error}");
    for claimed in [0, 3, u64::MAX] {
        let log_claim = LogClaim {
            segment: claimed,
            bytes: 0,
        };
        let manifest = Manifest {
            log_claim,
            ..example()
        };
        let error = decode(&manifest.encode()).unwrap_err().to_string();
        let what = format!("a claim for log segment {claimed}");
        assert!(error.contains(&what), "{error}");
    }
    for (part, what) in [
        (set_aside(4, 1, false, ["a", "b"]), "neither live nor kept"),
        (
            set_aside(9, 1, true, ["a", "b"]),
            "of a table that is yet to come",
        ),
        (set_aside(3, 1, true, ["b", "a"]), "without a key"),
    ] {
        let manifest = Manifest {
            set_aside: vec![part],
            ..example()
        };
        let error = decode(&manifest.encode()).unwrap_err().to_string();
        assert!(error.contains("set aside are malformed"), "{what}: {error}");
    }
    let no_damage = Manifest {
        damaged: Vec::new(),
        set_aside: Vec::new(),
        ..example()
    };
    let mut greedy = no_damage.encode();
    let tables = greedy.len() - CHECKSUM_BYTES - 4 - 4 - 2 * TABLE_BYTES;
    greedy[tables - 4..tables].fill(0xff);
    let error = decode(&with_checksum(greedy)).unwrap_err().to_string();
    assert!(error.contains("4294967295 tables in 42 bytes"), "{error}");
}

#[test]
fn a_newer_version_is_named() {
    let mut bytes = example().encode();
    bytes[8] = 5;
    match decode(&with_checksum(bytes)) {
        Err(Error::Invalid(message)) => assert_eq!(
            message,
            "/store/MANIFEST has format version 5; this release reads versions 2 to 4"
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn arbitrary_bytes_are_refused_without_a_panic() {
    fastrand::seed(1);
    let sound = example().encode();
    for _ in 0..20_000 {
        let mut bytes = sound.clone();
        bytes.truncate(fastrand::usize(CHECKSUM_BYTES..=bytes.len()));
        for _ in 0..fastrand::usize(0..8) {
            let at = fastrand::usize(0..bytes.len());
            bytes[at] = fastrand::u8(..);
        }
        if let Ok(manifest) = decode(&with_checksum(bytes.clone()))
            && bytes[8] == VERSION as u8
        {
            assert_eq!(manifest.encode(), with_checksum(bytes));
        }
    }
}

fn new_disk() -> Arc<MemoryDisk> {
    let disk = Arc::new(MemoryDisk::new());
    disk.create_folder(Path::new(FOLDER)).unwrap();
    disk
}

fn load(disk: &dyn Disk) -> Option<Manifest> {
    Manifest::load(disk, Path::new(FOLDER)).unwrap()
}

#[test]
fn a_folder_without_a_manifest_has_none() {
    let disk = new_disk();
    assert_eq!(load(&*disk), None);
    disk.create(&Path::new(FOLDER).join(temporary_name(MANIFEST_FILE)))
        .unwrap();
    assert_eq!(load(&*disk), None);
}

#[test]
fn a_file_that_is_no_manifest_is_not_read_into_memory() {
    let disk = new_disk();
    let file = disk.create(&Path::new(FOLDER).join(MANIFEST_FILE)).unwrap();
    file.set_len(MANIFEST_BYTES_MAX + 1).unwrap();
    let error = Manifest::load(&*disk, Path::new(FOLDER)).unwrap_err();
    let expected = "corruption in /store/MANIFEST at offset 67108864: \
        the file has 67108865 bytes; at most 67108864 are expected";
    assert_eq!(error.to_string(), expected);
}

/// Each call of a change fails in turn, and after each the power is cut in every way.
/// The store has the old manifest or the new one: the new one if the change succeeded,
/// and the old one if it failed other than by a sync.
#[test]
fn a_change_happens_wholly_or_not_at_all() {
    let old = example();
    let new = Manifest {
        least_log_segment: 5,
        tables: Vec::new(),
        damaged: Vec::new(),
        set_aside: Vec::new(),
        ..example()
    };
    let mut outcomes = Vec::new();
    for at in 0.. {
        let memory = new_disk();
        old.store(&*memory, Path::new(FOLDER)).unwrap();
        let disk = FaultyDisk::new(Arc::clone(&memory) as Arc<dyn Disk>);
        disk.arm(
            Fault::at(at, ErrorKind::StorageFull)
                .lasting()
                .with_short_writes(),
        );
        let result = new.store(&disk, Path::new(FOLDER));

        // Few enough changes are unsynced to try all combinations.
        for choice in 0..256_u32 {
            let mut asked = 0;
            let crashed = memory.crash_clone(&mut |_: Unsynced<'_>| {
                asked += 1;
                choice >> (asked - 1) & 1 == 1
            });
            assert!(asked < 8);
            let found = load(&crashed).unwrap();
            match &result {
                Ok(()) => assert_eq!(found, new),
                Err(Error::Sync { .. }) => assert!(found == new || found == old),
                Err(_) => assert_eq!(found, old),
            }
            // The next change must succeed despite the files that this one left.
            old.store(&crashed, Path::new(FOLDER)).unwrap();
            assert_eq!(load(&crashed.clone_synced()).unwrap(), old);
        }
        outcomes.push(match result {
            Ok(()) => "stored",
            Err(Error::DiskFull) => "full",
            Err(Error::Sync { .. }) => "sync",
            Err(error) => panic!("{error}"),
        });
        if disk.failed() == 0 {
            break;
        }
    }
    // open, write, cut off, sync, exchange, sync of the folder; then open and allocate the room
    // for the next change, which may fail; none
    let expected = [
        "full", "full", "full", "sync", "full", "sync", "stored", "stored", "stored",
    ];
    assert_eq!(outcomes, expected);
}

#[test]
fn a_failed_write_leaves_no_half_manifest() {
    let disk = FaultyDisk::new(new_disk());
    disk.arm(
        Fault::at(0, ErrorKind::StorageFull)
            .only(|call, _| call == Call::Write)
            .with_short_writes(),
    );
    assert!(example().store(&disk, Path::new(FOLDER)).is_err());
    assert!(disk.list(Path::new(FOLDER)).unwrap().is_empty());
}
