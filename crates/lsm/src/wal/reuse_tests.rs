//! A segment in the file of another one: whatever a crash leaves of it, no group of the other
//! one is read.

use super::segment_reader::read_segment;
use super::*;
use crate::disk::read_file;
use crate::testing::MemoryDisk;
use base::{Entry, Expiry, Timestamp};
use std::path::PathBuf;

const SECRET: u64 = 0x5ec2e7;
const FILE_BYTES: u64 = 4 * PAGE_BYTES as u64;

/// The records of each group, and the length of their values. Groups begin and end anywhere
/// in a page, have one or several records, and one is longer than a page.
const GROUPS: [(usize, usize); 9] = [
    (1, 30),
    (3, 200),
    (2, 1500),
    (1, 700),
    (4, 90),
    (1, 5000),
    (7, 150),
    (1, 0),
    (2, 100),
];

fn folder() -> PathBuf {
    PathBuf::from("/store")
}

fn place<'a>(disk: &'a MemoryDisk, folder: &'a Path, segment: u64) -> SegmentPlace<'a> {
    SegmentPlace {
        disk,
        folder,
        secret: SECRET,
        segment,
    }
}

/// The groups of a segment. Those of all segments have the same lengths, so that each group
/// that a crash leaves of an earlier one begins where the next group is looked for. Keys and
/// values differ between segments, but for some values. The third segment has fewer groups.
fn groups(segment: u64) -> Vec<Vec<Entry>> {
    let mut number = 0;
    let group = |(records, value_bytes): &(usize, usize)| {
        let record = |_| {
            number += 1;
            let key = format!("key-{number:03}-of-{segment}");
            let byte = if number % 3 == 0 { 7 } else { segment as u8 };
            let timestamp = Timestamp::from_u64(segment << 32 | number);
            let value = vec![byte; *value_bytes];
            Entry::value(key.as_bytes(), timestamp, &value, Expiry::NEVER, 3)
        };
        (0..*records).map(record).collect()
    };
    let more = match segment {
        3 => &[][..],
        _ => &GROUPS[..3],
    };
    GROUPS.iter().chain(more).map(group).collect()
}

/// Appends the groups of a segment. Returns where each ends.
fn append(writer: &mut SegmentWriter, segment: u64, is_synced: bool) -> Vec<usize> {
    let groups = groups(segment);
    let ends = groups.iter().map(|group| {
        writer.append(group).unwrap();
        if is_synced {
            writer.sync().unwrap();
        }
        writer.position() as usize
    });
    ends.collect()
}

/// A segment in a file that was two other segments before.
struct Reused {
    /// The file with the new segment's header and nothing else of it.
    begun: Vec<u8>,
    /// The file with all groups of the new segment.
    written: Vec<u8>,
    /// Where each group ends.
    ends: Vec<usize>,
}

fn reused(is_synced: bool) -> Reused {
    let disk = MemoryDisk::new();
    let folder = folder();
    disk.create_folder(&folder).unwrap();
    let mut writer = SegmentWriter::create(place(&disk, &folder, 1), FILE_BYTES).unwrap();
    append(&mut writer, 1, true);
    writer.seal().unwrap();
    for segment in 2..=3 {
        let old = folder.join(segment_file_name(segment - 1));
        let free = folder.join(free_file_name(segment - 1));
        disk.rename(&old, &free).unwrap();
        let place = place(&disk, &folder, segment);
        writer = SegmentWriter::reuse(place, &free, FILE_BYTES, FILE_BYTES).unwrap();
        if segment == 2 {
            append(&mut writer, segment, true);
            writer.seal().unwrap();
        }
    }
    let path = folder.join(segment_file_name(3));
    let begun = read_file(&disk, &path).unwrap();
    assert!(
        begun[PAGE_BYTES..].iter().any(|byte| *byte != 0),
        "the groups of the segment before are still there"
    );
    let ends = append(&mut writer, 3, is_synced);
    let written = read_file(&disk, &path).unwrap();
    assert_eq!(written.len() as u64, FILE_BYTES);
    Reused {
        begun,
        written,
        ends,
    }
}

impl Reused {
    fn read(&self, bytes: &[u8]) -> Result<SegmentContents, Error> {
        read_segment(bytes, SECRET, 3, Path::new("/store/log-3.wal"))
    }

    /// How many groups, from the first on, are in `bytes` to the last byte.
    fn whole_groups(&self, bytes: &[u8]) -> usize {
        let is_whole = |end: &&usize| bytes[..**end] == self.written[..**end];
        self.ends.iter().take_while(is_whole).count()
    }

    /// Checks that `bytes` are read as the groups that are whole, and as nothing else.
    fn check(&self, bytes: &[u8], context: &str) {
        let read = self.read(bytes).unwrap();
        let whole = self.whole_groups(bytes);
        let expected: Vec<Entry> = groups(3).into_iter().take(whole).flatten().collect();
        assert!(read.entries == expected, "{context}: {whole} are whole");
        assert!(!read.sealed, "{context}");
        let end = match whole {
            0 => SEGMENT_HEADER_BYTES,
            _ => self.ends[whole - 1],
        };
        assert_eq!(read.end, end as u64, "{context}");
    }
}

#[test]
fn a_crash_at_any_byte_of_a_reused_segment_replays_no_old_group() {
    let reused = reused(false);
    let last = reused.ends[GROUPS.len() - 1];
    assert!(last > 2 * PAGE_BYTES);
    for cut in SEGMENT_HEADER_BYTES..=last {
        // What was written up to here, and what the file held before behind it.
        let mut bytes = reused.written[..cut].to_vec();
        bytes.extend_from_slice(&reused.begun[cut..]);
        reused.check(&bytes, &format!("cut at {cut}"));
        // The other way round: what was written first is lost.
        let mut bytes = reused.begun[..cut].to_vec();
        bytes.extend_from_slice(&reused.written[cut..]);
        reused.check(&bytes, &format!("lost up to {cut}"));
    }
}

#[test]
fn any_pages_of_a_reused_segment_may_be_lost() {
    let reused = reused(false);
    let pages = reused.written.len() / PAGE_BYTES;
    for kept in 0..1_u32 << pages {
        let mut bytes = reused.begun.clone();
        for page in (0..pages).filter(|page| kept >> page & 1 == 1) {
            let range = page * PAGE_BYTES..(page + 1) * PAGE_BYTES;
            bytes[range.clone()].copy_from_slice(&reused.written[range]);
        }
        reused.check(&bytes, &format!("pages {kept:b}"));
    }
}

#[test]
fn a_changed_byte_of_a_reused_segment_ends_it_and_replays_no_old_group() {
    let reused = reused(false);
    for at in SEGMENT_HEADER_BYTES..reused.ends[GROUPS.len() - 1] {
        let mut bytes = reused.written.clone();
        bytes[at] ^= 0x81;
        reused.check(&bytes, &format!("byte {at}"));
    }
}

/// The old groups behind the end hide no damage, and are none.
#[test]
fn damage_to_synced_bytes_of_a_reused_segment_is_corruption() {
    let reused = reused(true);
    reused.check(&reused.written, "whole");
    let last = reused.ends[GROUPS.len() - 2];
    for at in 0..last {
        let mut bytes = reused.written.clone();
        bytes[at] ^= 0x40;
        let read = reused.read(&bytes);
        assert!(matches!(read, Err(Error::Corrupt { .. })), "{at}: {read:?}");
    }
    for at in last..reused.ends[GROUPS.len() - 1] {
        let mut bytes = reused.written.clone();
        bytes[at] ^= 0x40;
        let read = reused.read(&bytes).unwrap();
        assert_eq!(read.end, last as u64, "{at}");
        // What is torn off is told from the old groups behind it.
        let torn = reused.ends[GROUPS.len() - 1] - last;
        assert_eq!(read.torn_bytes, torn as u64, "{at}");
    }
}

/// The header comes first. Until the file has its new name, nothing reads it.
#[test]
fn a_crash_while_a_file_is_made_a_segment_leaves_an_empty_one_or_none() {
    let disk = MemoryDisk::new();
    let folder = folder();
    disk.create_folder(&folder).unwrap();
    let mut writer = SegmentWriter::create(place(&disk, &folder, 1), FILE_BYTES).unwrap();
    append(&mut writer, 1, true);
    let free = folder.join(free_file_name(1));
    disk.rename(&folder.join(segment_file_name(1)), &free)
        .unwrap();
    SegmentWriter::reuse(place(&disk, &folder, 2), &free, 0, FILE_BYTES).unwrap();
    let crashed = disk.clone_synced();
    let names = crashed.list(&folder).unwrap();
    assert_eq!(names, [segment_file_name(2)], "durable when it is there");
    let path = folder.join(&names[0]);
    let read = read_segment(&read_file(&crashed, &path).unwrap(), SECRET, 2, &path).unwrap();
    assert!(read.is_empty() && read.torn_bytes == 0, "{read:?}");
}

/// A group of the lengths that a page's rest has: the page behind a group is cleared up to
/// the file's end, and the next group begins right behind the one before.
#[test]
fn groups_are_written_with_the_rest_of_their_page_cleared() {
    let disk = MemoryDisk::new();
    let folder = folder();
    disk.create_folder(&folder).unwrap();
    let ones = vec![0xff; FILE_BYTES as usize];
    let free = folder.join(free_file_name(1));
    let file = disk.create(&free).unwrap();
    file.write_all_at(&ones, 0).unwrap();
    let place = place(&disk, &folder, 2);
    let mut writer = SegmentWriter::reuse(place, &free, FILE_BYTES, FILE_BYTES).unwrap();
    let path = folder.join(segment_file_name(2));
    for group in groups(2) {
        writer.append(&group).unwrap();
        let bytes = read_file(&disk, &path).unwrap();
        let end = writer.position() as usize;
        let page_end = end.next_multiple_of(PAGE_BYTES);
        assert!(bytes[end..page_end].iter().all(|byte| *byte == 0), "{end}");
        assert_eq!(bytes[page_end..], ones[page_end..], "{end}");
    }
    let read = read_segment(&read_file(&disk, &path).unwrap(), SECRET, 2, &path).unwrap();
    let all: Vec<Entry> = groups(2).into_iter().flatten().collect();
    assert_eq!(read.entries, all);
}
