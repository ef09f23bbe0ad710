//! What the engine assumes of a disk, checked on the real disk and on the disk in
//! memory, and what only simulated disks can do.

use super::direct::DirectWriter;
use super::real::open_direct;
use super::*;
use std::path::PathBuf;

/// Runs a check in a new folder of every kind of disk.
fn on_each_disk(check: impl Fn(&dyn Disk, &Path)) {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("deep").join("store");
    let memory: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let disks: [&dyn Disk; 3] = [
        &RealDisk::default(),
        &*memory,
        &FaultyDisk::new(Arc::new(MemoryDisk::new())),
    ];
    for disk in disks {
        disk.create_folder(&folder).unwrap();
        disk.create_folder(&folder).unwrap();
        check(disk, &folder);
    }
}

fn read(file: &dyn DiskFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn error_of<T>(result: io::Result<T>) -> io::ErrorKind {
    match result {
        Ok(_) => panic!("the call was to fail"),
        Err(error) => error.kind(),
    }
}

#[test]
fn bytes_are_read_as_they_were_written() {
    on_each_disk(|disk, folder| {
        let file = disk.create(&folder.join("a")).unwrap();
        let bytes: Vec<u8> = (0..10_000_u32).map(|i| (i % 251) as u8).collect();
        file.write_all_at(&bytes, 3).unwrap();
        file.write_all_at(b"xyz", 4095).unwrap();
        file.sync().unwrap();
        let mut expected = vec![0; 3];
        expected.extend(&bytes);
        expected[4095..4098].copy_from_slice(b"xyz");
        assert_eq!(read(&*file), expected);
        assert_eq!(read(&*disk.open(&folder.join("a")).unwrap()), expected);
        let mut past = [0; 2];
        assert_eq!(
            error_of(file.read_exact_at(&mut past, 10_002)),
            io::ErrorKind::UnexpectedEof
        );
    });
}

#[test]
fn a_direct_file_holds_what_was_written() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut bytes = vec![0; 2_000_003];
    random.fill(&mut bytes);
    on_each_disk(|disk, folder| {
        // Whole pages, several pieces, no page at all, and an end within a page.
        for lengths in [vec![4096, 1_200_128, 4096], vec![100], vec![524_288; 3]] {
            let path = folder.join("direct");
            let file = disk.create_direct(&path).unwrap();
            let mut end = 0;
            for length in lengths.into_iter().chain([77]) {
                file.write_all_at(&bytes[end..][..length], end as u64)
                    .unwrap();
                end += length;
            }
            file.sync().unwrap();
            assert!(read(&*file) == bytes[..end]);
            let opened = disk.open(&path).unwrap();
            assert!(read(&*opened) == bytes[..end]);
            let Some(reader) = opened.direct_reader() else {
                continue;
            };
            for (at, length) in [(0, end), (0, 1), (4095, 2), (5000, 300_000), (end - 1, 1)] {
                let Some(most) = end.checked_sub(at) else {
                    continue;
                };
                let length = length.min(most);
                let mut memory = vec![0; DirectReader::memory_bytes(length)];
                let begin = reader
                    .read_exact_at(&mut memory, at as u64, length)
                    .unwrap();
                let part = &memory[begin..begin + length];
                assert!(*part == bytes[at..at + length], "{length} bytes at {at}");
            }
            let mut memory = vec![0; DirectReader::memory_bytes(2)];
            let past = reader.read_exact_at(&mut memory, end as u64 - 1, 2);
            assert_eq!(error_of(past), io::ErrorKind::UnexpectedEof);
        }
    });
}

/// Whether the file system opens this file for direct I/O.
fn has_direct_io(path: &Path) -> bool {
    open_direct(path, true).is_ok()
}

#[test]
fn whole_pages_at_the_beginning_of_a_page_are_written_directly() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("a");
    let file = RealDisk::default().create(&path).unwrap();
    // Without direct I/O in the temporary folder there is nothing to test.
    let Ok(direct) = open_direct(&path, true) else {
        return;
    };
    let writer = DirectWriter::new(direct);
    assert_eq!(writer.write_pages(&[1; 10_000], 0).unwrap(), 8192);
    assert_eq!(writer.write_pages(&[2; 4095], 4096).unwrap(), 0);
    assert_eq!(writer.write_pages(&[2; 4096], 100).unwrap(), 0);
    assert!(read(&*file) == [1; 8192]);
    // From wherever the bytes lie in memory.
    let mut memory = vec![0; 4 * 4096];
    fastrand::Rng::with_seed(2).fill(&mut memory);
    let aligned = memory.as_ptr().align_offset(4096);
    for start in [aligned, aligned + 1, aligned] {
        let pages = &memory[start..][..2 * 4096];
        assert_eq!(writer.write_pages(pages, 4096).unwrap(), 8192);
        assert!(read(&*file)[4096..] == *pages);
    }
}

/// A table may be removed, and its name be given to another file, while it is read.
#[test]
fn a_direct_reader_reads_the_file_of_its_handle() {
    let temporary = tempfile::tempdir().unwrap();
    let disk = RealDisk::default();
    let path = temporary.path().join("a");
    let file = disk.create(&path).unwrap();
    file.write_all_at(&[1; 8192], 0).unwrap();
    assert_eq!(file.direct_reader().is_some(), has_direct_io(&path));
    disk.remove(&path).unwrap();
    assert!(file.direct_reader().is_none());
    disk.create(&path)
        .unwrap()
        .write_all_at(&[2; 8192], 0)
        .unwrap();
    assert!(file.direct_reader().is_none());
}

#[test]
fn a_disk_reports_its_free_space() {
    on_each_disk(|disk, folder| assert!(disk.available_bytes(folder).unwrap() > 0));
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
fn files_grow_and_shrink_with_zeros() {
    on_each_disk(|disk, folder| {
        let file = disk.create(&folder.join("a")).unwrap();
        file.write_all_at(b"abcdef", 0).unwrap();
        file.set_len(2).unwrap();
        file.set_len(4).unwrap();
        assert_eq!(read(&*file), b"ab\0\0");
        file.allocate(1, 5).unwrap();
        assert_eq!(read(&*file), b"ab\0\0\0\0");
        file.allocate(0, 3).unwrap();
        file.allocate(100, 0).unwrap();
        assert_eq!(file.len().unwrap(), 6);
        disk.create(&folder.join("a")).unwrap();
        assert_eq!(file.len().unwrap(), 0);
    });
}

#[test]
fn what_was_written_is_not_taken_for_room() {
    on_each_disk(|disk, folder| {
        let file = disk.create(&folder.join("a")).unwrap();
        let (written, length) = (512 << 10, 1 << 20);
        file.allocate(0, length).unwrap();
        file.write_all_at(b"x", written).unwrap();
        for _ in 0..2 {
            let end = file.written_end().unwrap();
            assert!((written + 1..=length).contains(&end), "{end}");
            file.sync().unwrap();
        }
    });
}

#[test]
fn names_are_listed_replaced_and_removed() {
    on_each_disk(|disk, folder| {
        for name in ["b", "a", "c"] {
            let file = disk.create(&folder.join(name)).unwrap();
            file.write_all_at(name.as_bytes(), 0).unwrap();
        }
        disk.create_folder(&folder.join("sub")).unwrap();
        let replaced = disk.open(&folder.join("b")).unwrap();
        disk.rename(&folder.join("c"), &folder.join("b")).unwrap();
        disk.sync_folder(folder).unwrap();
        assert_eq!(disk.list(folder).unwrap(), ["a", "b"]);
        assert_eq!(read(&*disk.open(&folder.join("b")).unwrap()), b"c");
        let removed = disk.open(&folder.join("a")).unwrap();
        disk.remove(&folder.join("a")).unwrap();
        assert_eq!(disk.list(folder).unwrap(), ["b"]);
        assert_eq!(
            (read(&*removed), read(&*replaced)),
            (b"a".to_vec(), b"b".to_vec())
        );
        for missing in [
            error_of(disk.open(&folder.join("a"))),
            error_of(disk.remove(&folder.join("a"))),
            error_of(disk.rename(&folder.join("a"), &folder.join("d"))),
            error_of(disk.create(&folder.join("none").join("a"))),
            error_of(disk.list(&folder.join("none"))),
            error_of(disk.sync_folder(&folder.join("none"))),
        ] {
            assert_eq!(missing, io::ErrorKind::NotFound);
        }
    });
}

#[test]
fn a_lock_has_one_holder() {
    on_each_disk(|disk, folder| {
        let lock = disk.lock(folder).unwrap();
        assert!(lock.is_some());
        assert!(disk.lock(folder).unwrap().is_none());
        drop(lock);
        assert!(disk.lock(folder).unwrap().is_some());
    });
}

#[test]
fn two_files_exchange_their_names_and_one_alone_is_renamed() {
    on_each_disk(|disk, folder| {
        let write = |name: &str| {
            let file = disk.create(&folder.join(name)).unwrap();
            file.write_all_at(name.as_bytes(), 0).unwrap();
        };
        let content = |name: &str| read(&*disk.open(&folder.join(name)).unwrap());
        write("a");
        write("b");
        disk.exchange(&folder.join("a"), &folder.join("b")).unwrap();
        assert_eq!((content("a"), content("b")), (b"b".into(), b"a".into()));
        disk.exchange(&folder.join("a"), &folder.join("c")).unwrap();
        assert_eq!(disk.list(folder).unwrap(), ["b", "c"]);
        assert_eq!(content("c"), b"b");
        let none = folder.join("none");
        assert_eq!(
            error_of(disk.exchange(&none, &folder.join("b"))),
            io::ErrorKind::NotFound
        );
    });
}

const FOLDER: &str = "/store";

fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// A disk with a folder, and in it a durable file `a` of two pages of 1.
fn disk_with_a() -> (MemoryDisk, Arc<dyn DiskFile>) {
    let disk = MemoryDisk::new();
    disk.create_folder(Path::new(FOLDER)).unwrap();
    let file = disk.create(&path("a")).unwrap();
    file.write_all_at(&[1; 8192], 0).unwrap();
    file.sync().unwrap();
    disk.sync_folder(Path::new(FOLDER)).unwrap();
    (disk, file)
}

fn content(disk: &MemoryDisk, name: &str) -> Vec<u8> {
    read(&*disk.open(&path(name)).unwrap())
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

#[test]
fn the_chosen_call_fails_and_does_nothing() {
    let (memory, _) = disk_with_a();
    let disk = FaultyDisk::new(Arc::new(memory));
    let file = disk.open(&path("a")).unwrap();
    assert_eq!(disk.calls(), 1);

    disk.arm(Fault::at(1, io::ErrorKind::StorageFull));
    file.write_all_at(&[5], 0).unwrap();
    assert_eq!(
        error_of(file.write_all_at(&[6; 4], 0)),
        io::ErrorKind::StorageFull
    );
    assert_eq!(read(&*file)[..4], [5, 1, 1, 1]);
    assert_eq!((disk.calls(), disk.failed()), (4, 1));

    disk.arm(
        Fault::at(0, io::ErrorKind::Other)
            .only(|call, file| call == Call::Write && file.ends_with("a"))
            .lasting()
            .with_short_writes(),
    );
    disk.create(&path("b"))
        .unwrap()
        .write_all_at(&[1], 0)
        .unwrap();
    for _ in 0..2 {
        assert_eq!(
            error_of(file.write_all_at(&[7; 4], 0)),
            io::ErrorKind::Other
        );
    }
    assert_eq!(read(&*file)[..4], [7, 7, 1, 1]);
    assert_eq!((disk.calls(), disk.failed()), (2, 2));

    disk.heal();
    file.write_all_at(&[8; 4], 0).unwrap();
    assert_eq!(read(&*file)[..4], [8; 4]);
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
