//! The file of the manifest: edits that are appended, fail, and are cut off.

use super::*;
use crate::disk::{Disk, temporary_name};
use crate::manifest::log::{MANIFEST_BYTES_MAX, MANIFEST_FILE};
use crate::testing::{Call, Fault, FaultyDisk, MemoryDisk};
use std::io::ErrorKind;
use std::sync::Arc;

const FOLDER: &str = "/store";
/// An edit makes fewer calls, also if it is appended in vain and then replaces the file.
const CALLS_MAX: u64 = 14;

fn new_disk() -> Arc<MemoryDisk> {
    let disk = Arc::new(MemoryDisk::new());
    disk.create_folder(Path::new(FOLDER)).unwrap();
    disk
}

fn load(disk: &dyn Disk) -> Option<Manifest> {
    let read = Manifest::load(disk, Path::new(FOLDER)).unwrap()?;
    Some(read.manifest)
}

/// The log of a manifest that is stored.
fn stored(disk: &Arc<FaultyDisk>, manifest: Manifest) -> ManifestLog {
    let mut log = ManifestLog::new(Arc::clone(disk) as _, Path::new(FOLDER), manifest);
    log.store().unwrap();
    log
}

/// An edit that adds a table with this number.
fn adds(log: &ManifestLog, id: u64, key_bytes: usize) -> ManifestEdit {
    let progress = Progress {
        next_table: TableId(id + 1),
        ..log.manifest().progress
    };
    let keys = KeyBounds {
        first: Bytes::from(vec![b'a'; key_bytes]),
        last: None,
    };
    ManifestEdit {
        tables: vec![LiveTable {
            keys,
            ..table(0, id, 5)
        }],
        ..ManifestEdit::of_progress(progress)
    }
}

fn replacements(call: Call, _: &Path) -> bool {
    call == Call::Rename
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
    let error = Manifest::load(&*disk, Path::new(FOLDER))
        .map(drop)
        .unwrap_err();
    let expected = "corruption in /store/MANIFEST at offset 268435456: \
        the file has 268435457 bytes; at most 268435456 are expected";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn edits_are_appended_until_they_outweigh_the_snapshot() {
    let memory = new_disk();
    let disk = Arc::new(FaultyDisk::new(Arc::clone(&memory) as _));
    let mut manifest = Manifest::new(7);
    manifest.progress.log_claim.segment = 1;
    manifest.progress.next_table = TableId(3001);
    manifest.tables = (1..=3000)
        .map(|id| (TableId(id), table(6, id, id)))
        .collect();
    let snapshot_bytes = manifest.encode().len();
    let mut log = stored(&disk, manifest);
    disk.arm(Fault::at(u64::MAX, ErrorKind::Other).only(replacements));
    let (mut bytes, mut seen) = (0, 0);
    for id in 3001..8000 {
        // As a compaction: one comes, one goes.
        let mut edit = adds(&log, id, 20);
        edit.removed = [TableId(id - 3000)].into();
        bytes += edit.encode().len();
        log.edit(edit).unwrap();
        if disk.calls() > seen {
            seen = disk.calls();
            assert_eq!(load(&memory.clone_synced()).as_ref(), Some(log.manifest()));
        }
    }
    assert_eq!(log.manifest().tables.len(), 3000);
    assert_eq!(load(&memory.clone_synced()).as_ref(), Some(log.manifest()));
    assert!(seen >= 2, "never replaced");
    assert!(
        seen as usize <= bytes / snapshot_bytes * 3 / 2,
        "{seen} snapshots of {snapshot_bytes} bytes for {bytes} bytes of edits"
    );
    // An appended edit writes its file once and syncs it once, and does nothing else.
    disk.arm(Fault::at(u64::MAX, ErrorKind::Other).only(|_, _| true));
    log.edit(adds(&log, 8000, 20)).unwrap();
    assert_eq!(disk.calls(), 2);
}

/// Each call of an edit fails in turn, alone or with all behind it, and after each the power is
/// cut in every way. The store has the manifest before or after the edit, and what the answer
/// says of that is true. The edit after that is never behind a torn one.
#[test]
fn an_edit_happens_wholly_or_not_at_all() {
    // One that is appended, of one page and of two, and one that replaces the file.
    for (key_bytes, is_replaced) in [(1, false), (4096, false), (100, true)] {
        for (at, is_lasting) in (0..CALLS_MAX).flat_map(|at| [(at, false), (at, true)]) {
            let context = format!("{key_bytes}, call {at}, lasting {is_lasting}");
            let memory = new_disk();
            let disk = Arc::new(FaultyDisk::new(Arc::clone(&memory) as _));
            let mut log = stored(&disk, example());
            let first = adds(&log, 20, 10);
            log.edit(first).unwrap();
            let before = log.manifest().clone();
            if is_replaced {
                log = ManifestLog::new(Arc::clone(&disk) as _, Path::new(FOLDER), before.clone());
            }
            let edit = adds(&log, 21, key_bytes);
            let after = states(&before, std::slice::from_ref(&edit)).pop().unwrap();
            let fault = Fault::at(at, ErrorKind::StorageFull).with_short_writes();
            disk.arm(if is_lasting { fault.lasting() } else { fault });
            let result = log.edit(edit);
            let in_memory = if result.is_ok() { &after } else { &before };
            assert_eq!(log.manifest(), in_memory, "{context}");
            check_crashes(&memory, &context, |found| match &result {
                Ok(()) => *found == after,
                Err(failed) if failed.may_come => *found == before || *found == after,
                Err(_) => *found == before,
            });
            assert!(at < CALLS_MAX - 1 || disk.failed() == 0, "{context}");
            disk.heal();
            let is_poisoned = matches!(&result, Err(failed) if failed.error.is_sync());
            if !is_poisoned {
                let next = adds(&log, 30, 10);
                log.edit(next).unwrap();
                check_crashes(&memory, &context, |found| found == log.manifest());
            }
        }
    }
}

/// Cuts the power in many ways, and checks what is found. Then the next process starts.
#[track_caller]
fn check_crashes(memory: &MemoryDisk, context: &str, is_right: impl Fn(&Manifest) -> bool) {
    for seed in 0..66 {
        let mut random = fastrand::Rng::with_seed(seed);
        let crashed = memory.crash_clone(&mut |_| match seed {
            0 => false,
            1 => true,
            _ => random.bool(),
        });
        let found = load(&crashed).unwrap();
        assert!(is_right(&found), "{context}, seed {seed}: {found:?}");
        assert_eq!(load(&crashed.clone_synced()), Some(found));
    }
}

/// The process writes an edit, its sync fails, and the next process finds it.
#[test]
fn what_a_start_has_read_is_durable() {
    let memory = new_disk();
    let disk = Arc::new(FaultyDisk::new(Arc::clone(&memory) as _));
    let mut log = stored(&disk, example());
    let edit = adds(&log, 20, 10);
    memory.fail_syncs(true);
    let failed = log.edit(edit).unwrap_err();
    assert!(failed.may_come && failed.error.is_sync());
    memory.fail_syncs(false);
    assert_eq!(load(&memory.clone_synced()), Some(example()));
    let found = load(&*memory).unwrap();
    assert!(found.tables.contains_key(&TableId(20)));
    assert_eq!(load(&memory.clone_synced()), Some(found));
}

/// A disk without room for edits takes them all the same, each by a replacement.
#[test]
fn a_full_disk_takes_edits() {
    let memory = new_disk();
    let disk = Arc::new(FaultyDisk::new(Arc::clone(&memory) as _));
    let mut log = stored(&disk, example());
    memory.set_capacity(0);
    disk.arm(Fault::at(u64::MAX, ErrorKind::Other).only(replacements));
    for id in 20..500 {
        let mut edit = adds(&log, id, 10);
        if id > 20 {
            edit.removed = [TableId(id - 1)].into();
        }
        log.edit(edit).unwrap();
        assert_eq!(load(&memory.clone_synced()).as_ref(), Some(log.manifest()));
    }
    assert!(disk.calls() < 100, "{}", disk.calls());
}

/// Somebody removes the file. The next edit makes it anew.
#[test]
fn no_edit_goes_to_a_file_without_a_name() {
    let memory = new_disk();
    let disk = Arc::new(FaultyDisk::new(Arc::clone(&memory) as _));
    let mut log = stored(&disk, example());
    memory
        .remove(&Path::new(FOLDER).join(MANIFEST_FILE))
        .unwrap();
    let edit = adds(&log, 20, 10);
    log.edit(edit).unwrap();
    assert_eq!(load(&memory.clone_synced()).as_ref(), Some(log.manifest()));
}

#[test]
fn an_edit_that_does_not_fit_changes_nothing() {
    let memory = new_disk();
    let disk = Arc::new(FaultyDisk::new(Arc::clone(&memory) as _));
    let mut log = stored(&disk, example());
    let edit = ManifestEdit {
        removed: [TableId(4)].into(),
        ..ManifestEdit::of_progress(log.manifest().progress)
    };
    let failed = log.edit(edit).unwrap_err();
    assert!(matches!(failed.error, Error::Invalid(_)) && !failed.may_come);
    assert_eq!(log.manifest(), &example());
    assert_eq!(load(&*memory), Some(example()));
}

#[test]
fn a_failed_write_leaves_no_half_manifest() {
    let disk = FaultyDisk::new(new_disk());
    disk.arm(
        Fault::at(0, ErrorKind::StorageFull)
            .only(|call, _| call == Call::Write)
            .with_short_writes()
            .lasting(),
    );
    assert!(example().store(&disk, Path::new(FOLDER)).is_err());
    assert!(disk.list(Path::new(FOLDER)).unwrap().is_empty());
}
