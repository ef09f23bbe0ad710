//! What the file `SWEEP` remembers.

use super::*;
use lsm::checked_file::fuzz_mutations_of;
use lsm_testing::MemoryDisk;

const FIXTURE: &[u8] = include_bytes!("../../../tests/fixtures/sweep-v2.bin");
const FIXTURE_V1: &[u8] = include_bytes!("../../../tests/fixtures/sweep-v1.bin");

const NOW_UNIX_MS: u64 = 1_800_000_000_000;

fn checkpoint() -> Checkpoint {
    let incarnation = |last_loss| Incarnation {
        store_id: 7,
        last_loss,
    };
    let nodes = (0..3).map(|node| (NodeId::new(node), incarnation(node.into())));
    let mut progress = PassProgress::new(nodes);
    progress.spoil(Pair::of(NodeId::new(0), NodeId::new(2)));
    progress.count_single_copies(NodeId::new(1), 9);
    progress.leave_unsettled();
    Checkpoint {
        pass: SessionId(3),
        cut: Timestamp::from_u64(4),
        fence: Some(Timestamp::from_u64(3)),
        stored_unix_ms: NOW_UNIX_MS,
        next: Bytes::from_static(b"next\0"),
        progress,
    }
}

fn file() -> RepairFile {
    let clean = |any, full| LastEqual {
        any_unix_ms: any,
        full_unix_ms: full,
    };
    RepairFile {
        last_clean_full_unix_ms: Some(5),
        last_clean: vec![
            clean(None, None),
            clean(Some(1), None),
            clean(Some(3), Some(2)),
        ],
        single_copies: vec![Some(0), None, Some(8)],
        checkpoint: Some(checkpoint()),
    }
}

fn environment(disk: &Arc<MemoryDisk>) -> JournalEnvironment {
    JournalEnvironment {
        folder: PathBuf::from("store"),
        disk: Arc::clone(disk) as Arc<dyn Disk>,
    }
}

#[test]
fn what_is_written_is_read_after_a_restart() {
    let disk = Arc::new(MemoryDisk::new());
    disk.create_folder(Path::new("store")).unwrap();
    let (journal, loaded) = Journal::open(environment(&disk));
    assert_eq!(loaded, RepairFile::default());
    assert!(!journal.is_interrupted(NOW_UNIX_MS));
    journal.write(&file());
    journal.close();
    // Another process may have the folder by now.
    journal.write(&RepairFile::default());
    let (journal, loaded) = Journal::open(environment(&disk));
    assert_eq!(loaded, file());
    assert!(journal.is_interrupted(NOW_UNIX_MS));
    assert_eq!(journal.take_up(NOW_UNIX_MS), Some(checkpoint()));
    // The pass goes on by itself once; later only if another one is due.
    assert!(!journal.is_interrupted(NOW_UNIX_MS));
    assert_eq!(journal.take_up(NOW_UNIX_MS), Some(checkpoint()));
}

#[test]
fn a_pass_that_ended_without_a_node_goes_on_once_from_its_own_checkpoint() {
    let disk = Arc::new(MemoryDisk::new());
    disk.create_folder(Path::new("store")).unwrap();
    let (journal, _) = Journal::open(environment(&disk));
    let pass = checkpoint().pass;
    journal.lost_a_node(pass);
    assert!(
        !journal.has_lost_a_node(NOW_UNIX_MS),
        "it has no checkpoint"
    );
    journal.set_checkpoint(Some(checkpoint()));
    journal.lost_a_node(SessionId(pass.0 + 1));
    assert!(
        !journal.has_lost_a_node(NOW_UNIX_MS),
        "it has none of its own"
    );
    journal.lost_a_node(pass);
    assert!(journal.has_lost_a_node(NOW_UNIX_MS));
    assert_eq!(journal.take_up(NOW_UNIX_MS), Some(checkpoint()));
    assert!(!journal.has_lost_a_node(NOW_UNIX_MS));
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
fn the_file_of_the_release_before_is_read_without_a_fence() {
    let mut expected = file();
    expected.checkpoint.as_mut().unwrap().fence = None;
    assert_eq!(RepairFile::decode(FIXTURE_V1), Ok(expected));
}

#[test]
fn the_decoder_survives_mutations_of_a_valid_file() {
    for fixture in [FIXTURE, FIXTURE_V1] {
        fuzz_mutations_of(fixture, fuzz_sweep);
    }
}

#[test]
fn an_old_checkpoint_is_not_used() {
    let disk = Arc::new(MemoryDisk::new());
    disk.create_folder(Path::new("store")).unwrap();
    let (journal, _) = Journal::open(environment(&disk));
    journal.set_checkpoint(Some(checkpoint()));
    let later = NOW_UNIX_MS + CHECKPOINT_AGE_MAX_MS + 1;
    assert_eq!(journal.take_up(later), None);
    // Nor one from the future, after the clock was set back.
    assert_eq!(
        journal.take_up(NOW_UNIX_MS - CHECKPOINT_AGE_MAX_MS - 1),
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
    let (_, loaded) = Journal::open(environment(&disk));
    assert_eq!(loaded, RepairFile::default());
}
