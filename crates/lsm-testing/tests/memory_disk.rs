//! What the disk in memory keeps of a crash, and its other faults.

mod common;

use common::{FOLDER, content, disk_with_a, error_of, path, read};
use lsm::Disk;
use lsm_testing::{MemoryDisk, Unsynced};
use std::io;
use std::path::Path;

#[test]
fn a_disk_with_a_capacity_reports_its_free_space() {
    let disk = MemoryDisk::new();
    disk.create_folder(Path::new("/store")).unwrap();
    disk.set_capacity(1000);
    let file = disk.create(Path::new("/store/a")).unwrap();
    file.write_all_at(&[1; 300], 0).unwrap();
    assert_eq!(disk.available_bytes(Path::new("/store")).unwrap(), 700);
    disk.set_capacity(100);
    assert_eq!(disk.available_bytes(Path::new("/store")).unwrap(), 0);
}

#[test]
fn a_crash_keeps_synced_bytes_and_a_choice_of_the_others() {
    let (disk, file) = disk_with_a();
    file.write_all_at(&[2; 8192], 4096).unwrap();
    assert_eq!(content(&disk.clone_synced(), "a"), [1; 8192]);

    let all = disk.crash_clone(&mut |_| true);
    assert_eq!(content(&all, "a"), read(&*file));

    let mut asked = Vec::new();
    let torn = disk.crash_clone(&mut |unsynced| {
        asked.push(format!("{unsynced:?}"));
        unsynced
            != Unsynced::Page {
                file: &path("a"),
                page: 1,
            }
    });
    assert_eq!(
        asked,
        [
            r#"Length { file: "/store/a" }"#,
            r#"Page { file: "/store/a", page: 1 }"#,
            r#"Page { file: "/store/a", page: 2 }"#,
        ]
    );
    assert_eq!(
        content(&torn, "a"),
        [[1; 8192].as_slice(), &[2; 4096]].concat()
    );

    // The pages survive without the length: the bytes after the old end are gone,
    let cut = disk.crash_clone(&mut |unsynced| matches!(unsynced, Unsynced::Page { .. }));
    assert_eq!(content(&cut, "a"), [[1; 4096], [2; 4096]].concat());

    // and do not come back when the file grows.
    let handle = cut.open(&path("a")).unwrap();
    handle.set_len(8193).unwrap();
    assert_eq!(content(&cut, "a")[8192], 0);

    // The length survives without the pages: zeros.
    let hollow = disk.crash_clone(&mut |unsynced| matches!(unsynced, Unsynced::Length { .. }));
    assert_eq!(
        content(&hollow, "a"),
        [[1; 8192].as_slice(), &[0; 4096]].concat()
    );

    file.sync().unwrap();
    assert_eq!(content(&disk.clone_synced(), "a"), read(&*file));
}

#[test]
fn a_crash_may_undo_a_truncation() {
    let (disk, file) = disk_with_a();
    file.set_len(0).unwrap();
    file.write_all_at(&[3; 10], 0).unwrap();
    assert_eq!(content(&disk.clone_synced(), "a"), [1; 8192]);
    let cut = disk.crash_clone(&mut |unsynced| matches!(unsynced, Unsynced::Length { .. }));
    assert_eq!(content(&cut, "a"), [1; 10]);
    file.sync().unwrap();
    assert_eq!(content(&disk.clone_synced(), "a"), [3; 10]);
    file.set_len(20).unwrap();
    let longer = disk.crash_clone(&mut |_| true);
    assert_eq!(content(&longer, "a"), [[3; 10], [0; 10]].concat());
}

#[test]
fn a_crash_keeps_a_prefix_of_the_changes_of_a_folder() {
    let (disk, _) = disk_with_a();
    let file = disk.create(&path("b")).unwrap();
    file.write_all_at(b"b", 0).unwrap();
    file.sync().unwrap();
    disk.rename(&path("b"), &path("a")).unwrap();
    disk.create(&path("c")).unwrap();
    disk.remove(&path("a")).unwrap();
    let expected: [(&[&str], u8); 5] = [
        (&["a"], 1),
        (&["a", "b"], 1),
        (&["a"], b'b'),
        (&["a", "c"], b'b'),
        (&["c"], 0),
    ];
    for (kept, (names, first)) in expected.into_iter().enumerate() {
        let mut left = kept;
        let crashed = disk.crash_clone(&mut |unsynced| match unsynced {
            Unsynced::Change { .. } if left == 0 => false,
            Unsynced::Change { .. } => {
                left -= 1;
                true
            }
            _ => false,
        });
        assert_eq!(
            crashed.list(Path::new(FOLDER)).unwrap(),
            names,
            "{kept} kept"
        );
        if names.contains(&"a") {
            assert_eq!(content(&crashed, "a")[0], first, "{kept} kept");
        }
    }
    disk.sync_folder(Path::new(FOLDER)).unwrap();
    assert_eq!(disk.clone_synced().list(Path::new(FOLDER)).unwrap(), ["c"]);
}

#[test]
fn a_removed_file_may_come_back_until_its_folder_is_synced() {
    let (disk, file) = disk_with_a();
    drop(file);
    disk.remove(&path("a")).unwrap();
    let passing = disk.create(&path("b")).unwrap();
    disk.remove(&path("b")).unwrap();
    drop(passing);
    assert_eq!(content(&disk.clone_synced(), "a"), [1; 8192]);
    disk.sync_folder(Path::new(FOLDER)).unwrap();
    let crashed = disk.crash_clone(&mut |_| true);
    assert!(crashed.list(Path::new(FOLDER)).unwrap().is_empty());
}

#[test]
fn a_failed_sync_leaves_its_pages_in_doubt() {
    let (disk, file) = disk_with_a();
    file.write_all_at(&[2; 4096], 0).unwrap();
    disk.fail_syncs(true);
    assert_eq!(error_of(file.sync()), io::ErrorKind::Other);
    assert_eq!(
        error_of(disk.sync_folder(Path::new(FOLDER))),
        io::ErrorKind::Other
    );
    disk.fail_syncs(false);
    file.sync().unwrap();
    assert_eq!(content(&disk.clone_synced(), "a"), [1; 8192]);
    assert_eq!(content(&disk.crash_clone(&mut |_| true), "a")[0], 2);
    file.write_all_at(&[2; 1], 0).unwrap();
    file.sync().unwrap();
    assert_eq!(content(&disk.clone_synced(), "a")[..4096], [2; 4096]);
    let _ = disk.crash_clone(&mut |unsynced| panic!("{unsynced:?} is no more in doubt"));
}

#[test]
fn a_failed_writeback_fails_one_sync_of_each_handle() {
    let (disk, file) = disk_with_a();
    let other = disk.open(&path("a")).unwrap();
    file.write_all_at(b"unsynced", 0).unwrap();
    disk.fail_writeback(&path("a")).unwrap();
    let before_told = disk.open(&path("a")).unwrap();
    for handle in [&other, &file, &before_told] {
        assert!(handle.sync().is_err());
        handle.sync().unwrap();
    }
    disk.open(&path("a")).unwrap().sync().unwrap();
    assert_ne!(content(&disk.clone_synced(), "a")[..8], *b"unsynced");

    // A failed sync is such a failure too.
    file.write_all_at(b"again", 0).unwrap();
    disk.fail_syncs(true);
    assert!(file.sync().is_err());
    disk.fail_syncs(false);
    file.sync().unwrap();
    assert!(other.sync().is_err());
    other.sync().unwrap();
}

#[test]
fn a_full_disk_takes_bytes_that_fit_and_removals_free_space() {
    let (disk, file) = disk_with_a();
    disk.set_capacity(8192 + 10);
    assert_eq!(
        error_of(file.write_all_at(&[2; 20], 8190)),
        io::ErrorKind::StorageFull
    );
    assert_eq!(file.len().unwrap(), 8202);
    assert_eq!(
        error_of(file.allocate(8000, 203)),
        io::ErrorKind::StorageFull
    );
    assert_eq!(error_of(file.set_len(8203)), io::ErrorKind::StorageFull);
    file.write_all_at(&[3; 20], 0).unwrap();
    let other = disk.create(&path("b")).unwrap();
    assert_eq!(
        error_of(other.write_all_at(&[1], 0)),
        io::ErrorKind::StorageFull
    );
    disk.remove(&path("a")).unwrap();
    assert_eq!(disk.used_bytes(), 8202, "an open file keeps its space");
    assert_eq!(read(&*file)[..20], [3; 20]);
    drop(file);
    assert_eq!(disk.used_bytes(), 0);
    other.allocate(0, 8202).unwrap();
    disk.rename(&path("b"), &path("c")).unwrap();
    disk.create(&path("b")).unwrap();
    disk.rename(&path("b"), &path("c")).unwrap();
    drop(other);
    assert_eq!(disk.used_bytes(), 0, "a replaced file gives its space back");
}

#[test]
fn corruption_is_durable() {
    let (disk, _) = disk_with_a();
    disk.corrupt(&path("a"), 4097, 0x10).unwrap();
    for disk in [&disk, &disk.clone_synced()] {
        assert_eq!(content(disk, "a")[4096..4099], [1, 0x11, 1]);
    }
    assert_eq!(
        error_of(disk.corrupt(&path("a"), 8192, 1)),
        io::ErrorKind::UnexpectedEof
    );
}

/// A log segment begins in the file of another one: it is written over and renamed.
#[test]
fn a_crash_keeps_old_pages_of_a_file_under_its_new_name() {
    let (disk, file) = disk_with_a();
    file.write_all_at(&[2; 4096], 0).unwrap();
    file.sync().unwrap();
    disk.rename(&path("a"), &path("b")).unwrap();
    file.write_all_at(&[3; 4], 4096).unwrap();
    assert_eq!(
        disk.clone_synced().list(Path::new(FOLDER)).unwrap(),
        ["a"],
        "the name is not durable"
    );
    disk.sync_folder(Path::new(FOLDER)).unwrap();
    let lost = disk.clone_synced();
    assert_eq!(content(&lost, "b"), [[2; 4096], [1; 4096]].concat());
    let kept = disk.crash_clone(&mut |_| true);
    assert_eq!(
        content(&kept, "b")[4096..],
        [[3; 4].as_slice(), &[1; 4092]].concat()
    );
}
