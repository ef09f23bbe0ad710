//! How far a start reads a segment that begins in the file of a longer one, and which damage it
//! finds there.

use super::*;
use crate::disk::{DiskFile, read_file};
use crate::testing::MemoryDisk;
use base::{Entry, Expiry, Timestamp};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SECRET: u64 = 0x5ec2e7;
const FILE_BYTES: u64 = 14 << 20;

/// Counts the bytes that are read.
struct Counted {
    file: Arc<dyn DiskFile>,
    read_bytes: AtomicU64,
    /// Where the room begins that was only allocated.
    room: u64,
}

impl DiskFile for Counted {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_bytes.fetch_add(buffer.len() as u64, Relaxed);
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.file.allocate(offset, bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn written_end(&self) -> io::Result<u64> {
        // As a system does that takes for written what it has read.
        match self.read_bytes.load(Relaxed) {
            0 => Ok(self.room),
            _ => self.file.len(),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

fn entry(segment: u64, number: u64, value_bytes: usize) -> Entry {
    let mut random = fastrand::Rng::with_seed(segment << 32 | number);
    let value: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
        .take(value_bytes)
        .collect();
    let timestamp = Timestamp::from_u64(segment << 32 | number);
    Entry::value(&number.to_be_bytes(), timestamp, &value, Expiry::NEVER, 1)
}

/// The second segment, in the file of the first one, which was full.
struct Reused {
    disk: MemoryDisk,
    path: PathBuf,
    /// The file before the second segment had a group.
    begun: Vec<u8>,
    /// The file with its groups.
    written: Vec<u8>,
    entries: Vec<Entry>,
    /// Where each group ends.
    ends: Vec<usize>,
}

/// Each group of the second segment has one value, and is synced.
fn reused(value_bytes: &[usize]) -> Reused {
    let disk = MemoryDisk::new();
    let folder = PathBuf::from("/store");
    disk.create_folder(&folder).unwrap();
    let place = |segment| SegmentPlace {
        disk: &disk,
        folder: &folder,
        secret: SECRET,
        segment,
    };
    let mut writer = SegmentWriter::create(place(1), FILE_BYTES).unwrap();
    let mut number = 0;
    while writer.has_room(101 << 10) {
        number += 1;
        writer.append(&[entry(1, number, 100 << 10)]).unwrap();
    }
    writer.seal().unwrap();
    let free = folder.join(free_file_name(1));
    disk.rename(&folder.join(segment_file_name(1)), &free)
        .unwrap();
    let mut writer = SegmentWriter::reuse(place(2), &free, FILE_BYTES, FILE_BYTES).unwrap();
    let path = folder.join(segment_file_name(2));
    let begun = read_file(&disk, &path).unwrap();
    let entries: Vec<Entry> = (1..)
        .zip(value_bytes)
        .map(|(number, bytes)| entry(2, number, *bytes))
        .collect();
    let append = |entry: &Entry| {
        writer.append([entry]).unwrap();
        writer.sync().unwrap();
        writer.position() as usize
    };
    let ends = entries.iter().map(append).collect();
    let written = read_file(&disk, &path).unwrap();
    Reused {
        disk,
        path,
        begun,
        written,
        entries,
        ends,
    }
}

impl Reused {
    /// Reads the segment from a file with these bytes. Also gives how many bytes were read.
    fn read(&self, bytes: &[u8]) -> (Result<SegmentContents, Error>, u64) {
        let file = self.disk.open(&self.path).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        read_file_of(file, FILE_BYTES)
    }
}

/// Reads the second segment from a file whose rest, from `room` on, was never written. Also
/// gives how many bytes were read.
fn read_file_of(file: Arc<dyn DiskFile>, room: u64) -> (Result<SegmentContents, Error>, u64) {
    let counted = Counted {
        file,
        read_bytes: AtomicU64::new(0),
        room,
    };
    let path = Path::new("/store").join(segment_file_name(2));
    let mut bytes = SegmentBytes::of_file(&counted, &path).unwrap();
    let read = read_contents(&mut bytes, SECRET, 2, &path);
    (read, counted.read_bytes.load(Relaxed))
}

#[test]
fn a_long_file_that_holds_little_is_read_in_part() {
    for groups in [&[][..], &[10], &[1000, 3 << 20, 0, 70]] {
        let reused = reused(groups);
        let (read, read_bytes) = reused.read(&reused.written);
        let read = read.unwrap();
        assert!(read.entries == reused.entries && !read.sealed);
        assert_eq!(read.torn_bytes, 0);
        let end = reused.ends.last().copied().unwrap_or(SEGMENT_HEADER_BYTES);
        assert_eq!(read.end, end as u64);
        // What is searched, the piece that is read first, and half of another.
        let bound = read.end + (11 << 19);
        assert!(read_bytes <= bound, "{groups:?}: {read_bytes} of {bound}");
    }
}

#[test]
fn room_that_was_never_written_is_not_read() {
    let disk = MemoryDisk::new();
    let folder = PathBuf::from("/store");
    disk.create_folder(&folder).unwrap();
    let place = SegmentPlace {
        disk: &disk,
        folder: &folder,
        secret: SECRET,
        segment: 2,
    };
    let mut writer = SegmentWriter::create(place, FILE_BYTES).unwrap();
    writer.append(&[entry(2, 1, 2 << 20)]).unwrap();
    let path = folder.join(segment_file_name(2));
    let read = |room| read_file_of(disk.open(&path).unwrap(), room);
    let (all, all_bytes) = read(FILE_BYTES);
    let (part, part_bytes) = read(writer.position().next_multiple_of(PAGE_BYTES as u64));
    assert!(all.unwrap() == part.unwrap());
    assert!(all_bytes >= FILE_BYTES);
    assert!(part_bytes <= writer.position() + (5 << 19), "{part_bytes}");
}

/// A long group whose header is damaged has no word of how long it is.
#[test]
fn a_damaged_group_is_found_however_long_it_is() {
    let reused = reused(&[50, 6 << 20, 50]);
    let mut bytes = reused.written.clone();
    bytes[reused.ends[0] + 20] ^= 1;
    let (read, _) = reused.read(&bytes);
    assert!(matches!(read, Err(Error::Corrupt { .. })), "{read:?}");
    // One that nothing was synced behind is torn.
    let mut bytes = reused.written.clone();
    bytes[reused.ends[1] + 20] ^= 1;
    let (read, _) = reused.read(&bytes);
    assert_eq!(read.unwrap().entries, reused.entries[..2]);
}

/// A disk has forgotten what it has synced, and shows the groups of the earlier segment.
#[test]
fn synced_groups_in_place_of_which_earlier_ones_are_back_are_missed() {
    let reused = reused(&[50, 100 << 10, 2 << 20, 50]);
    let mut bytes = reused.written.clone();
    let lost =
        reused.ends[0].next_multiple_of(PAGE_BYTES)..reused.ends[2] / PAGE_BYTES * PAGE_BYTES;
    bytes[lost.clone()].copy_from_slice(&reused.begun[lost]);
    let (read, _) = reused.read(&bytes);
    assert!(matches!(read, Err(Error::Corrupt { .. })), "{read:?}");
}

/// Whether a file is read or its bytes are in memory, the same is found in them.
#[test]
fn a_file_is_read_as_its_bytes_are() {
    let reused = reused(&[50, 100 << 10, 2 << 20, 50, 700]);
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..60 {
        let mut bytes = reused.written.clone();
        let from = random.usize(..reused.ends[4]);
        let to = (from + random.usize(1..300_000)).min(bytes.len());
        match random.u8(..3) {
            0 => bytes[from..to].fill(0),
            1 => bytes[from] ^= 1 << random.u8(..8),
            _ => bytes[from..].copy_from_slice(&reused.begun[from..]),
        }
        let (read, _) = reused.read(&bytes);
        let in_memory = segment_reader::read_segment(&bytes, SECRET, 2, &reused.path);
        match (read, in_memory) {
            (Ok(read), Ok(in_memory)) => assert!(read == in_memory),
            (Err(read), Err(in_memory)) => assert_eq!(read.to_string(), in_memory.to_string()),
            (read, in_memory) => panic!("{:?} and {:?}", read.err(), in_memory.err()),
        }
    }
}
