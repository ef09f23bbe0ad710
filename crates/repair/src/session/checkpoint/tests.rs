//! What the file `REPAIR` remembers.

use super::*;
use lsm::checked_file::fuzz_mutations_of;
use lsm_testing::MemoryDisk;

const FIXTURE: &[u8] = include_bytes!("../../../tests/fixtures/repair-v4.bin");
const FIXTURE_V3: &[u8] = include_bytes!("../../../tests/fixtures/repair-v3.bin");
const FIXTURE_V2: &[u8] = include_bytes!("../../../tests/fixtures/repair-v2.bin");
const FIXTURE_V1: &[u8] = include_bytes!("../../../tests/fixtures/repair-v1.bin");

const NOW_UNIX_MS: u64 = 1_800_000_000_000;

fn checkpoint() -> Checkpoint {
    let node = NodeId::new;
    Checkpoint {
        token: Token {
            session: 3,
            attempt: 2,
        },
        epoch: Epoch::new(7),
        cut: Timestamp::from_u64(4),
        stored_unix_ms: NOW_UNIX_MS,
        next: Bytes::from_static(b"next\0"),
        taking_part: BTreeMap::from([(node(0), 0), (node(1), 9), (node(2), 1)]),
        shown: Shown {
            below: Timestamp::from_u64(3),
            unequal: BTreeSet::from([Pair::of(node(0), node(2))]),
        },
    }
}

fn file() -> RepairFile {
    let node = NodeId::new;
    let equal = |any, full| LastEqual {
        any_unix_ms: any,
        full_unix_ms: full,
    };
    RepairFile {
        last_equal_full_unix_ms: Some(5),
        last_equal: [
            (node(1), equal(Some(1), None)),
            (node(2), equal(Some(3), Some(2))),
        ]
        .into_iter()
        .collect(),
        single_copies: [(node(0), 0), (node(2), 8)].into_iter().collect(),
        checkpoint: Some(checkpoint()),
        facts: Some(Facts {
            change: Epoch::new(6),
            incarnation: Incarnation {
                store_id: 11,
                last_loss: 12,
            },
            equal_with: [node(0), node(9)].into_iter().collect(),
        }),
    }
}

fn environment(disk: &Arc<MemoryDisk>) -> CheckpointEnvironment {
    CheckpointEnvironment {
        folder: PathBuf::from("store"),
        disk: Arc::clone(disk) as Arc<dyn Disk>,
    }
}

#[test]
fn what_is_written_is_read_after_a_restart() {
    let disk = Arc::new(MemoryDisk::new());
    disk.create_folder(Path::new("store")).unwrap();
    let (checkpoints, loaded) = Checkpoints::open(environment(&disk));
    assert_eq!(loaded, RepairFile::default());
    assert!(!checkpoints.is_interrupted(NOW_UNIX_MS));
    checkpoints.write(&file());
    checkpoints.close();
    // Another process may have the folder by now.
    checkpoints.write(&RepairFile::default());
    let (checkpoints, loaded) = Checkpoints::open(environment(&disk));
    assert_eq!(loaded, file());
    assert!(checkpoints.is_interrupted(NOW_UNIX_MS));
    assert_eq!(checkpoints.take_up(NOW_UNIX_MS), Some(checkpoint()));
    // The session goes on by itself once; later only if another one is due.
    assert!(!checkpoints.is_interrupted(NOW_UNIX_MS));
    assert_eq!(checkpoints.take_up(NOW_UNIX_MS), Some(checkpoint()));
}

#[test]
fn the_format_is_as_in_the_fixture() {
    assert!(
        file().encode() == FIXTURE,
        "the format has changed: it needs a new version"
    );
    assert_eq!(RepairFile::decode(FIXTURE), Ok(file()));
}

#[test]
fn the_files_of_earlier_releases_are_read_with_the_checkpoints_of_this_protocol() {
    let without_epoch = Checkpoint {
        epoch: Epoch::default(),
        ..checkpoint()
    };
    let version_3 = RepairFile {
        checkpoint: Some(without_epoch),
        facts: None,
        ..file()
    };
    assert_eq!(RepairFile::decode(FIXTURE_V3), Ok(version_3));
    let expected = RepairFile {
        checkpoint: None,
        facts: None,
        ..file()
    };
    for fixture in [FIXTURE_V1, FIXTURE_V2] {
        assert_eq!(RepairFile::decode(fixture), Ok(expected.clone()));
    }
}

#[test]
fn the_decoder_survives_mutations_of_a_valid_file() {
    for fixture in [FIXTURE, FIXTURE_V3, FIXTURE_V2, FIXTURE_V1] {
        fuzz_mutations_of(fixture, fuzz_repair_file);
    }
}

#[test]
fn an_old_checkpoint_is_not_used() {
    let disk = Arc::new(MemoryDisk::new());
    disk.create_folder(Path::new("store")).unwrap();
    let (checkpoints, _) = Checkpoints::open(environment(&disk));
    checkpoints.set(Some(checkpoint()));
    let later = NOW_UNIX_MS + CHECKPOINT_AGE_MAX_MS + 1;
    assert_eq!(checkpoints.take_up(later), None);
    // Nor one from the future, after the clock was set back.
    assert_eq!(
        checkpoints.take_up(NOW_UNIX_MS - CHECKPOINT_AGE_MAX_MS - 1),
        None
    );
}

#[test]
fn no_damage_is_taken_for_a_file() {
    let bytes = file().encode();
    assert_eq!(RepairFile::decode(&bytes), Ok(file()));
    for length in 0..bytes.len() {
        assert!(RepairFile::decode(&bytes[..length]).is_err(), "{length}");
    }
    for index in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[index] ^= 4;
        assert!(RepairFile::decode(&damaged).is_err(), "{index}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_begun_anew() {
    let disk = Arc::new(MemoryDisk::new());
    disk.create_folder(Path::new("store")).unwrap();
    replace_file(&*disk, Path::new("store"), FILE, b"something else").unwrap();
    let (_, loaded) = Checkpoints::open(environment(&disk));
    assert_eq!(loaded, RepairFile::default());
}
