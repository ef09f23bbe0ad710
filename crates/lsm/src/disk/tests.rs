//! What the engine assumes of a disk, checked on the real disk and on simulated ones.

use super::direct::DirectWriter;
use super::real::open_direct;
use super::*;
use crate::testing::{FaultyDisk, MemoryDisk};

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
    on_each_disk(|disk, folder| {
        let free = disk.available_bytes(folder).unwrap();
        assert!(free > 0);
        if let Ok(size) = disk.size_bytes(folder) {
            assert!(size >= free, "{free} of {size}");
        }
    });
    let temporary = tempfile::tempdir().unwrap();
    assert!(RealDisk::default().size_bytes(temporary.path()).is_ok());
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
