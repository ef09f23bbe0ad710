//! The log's formats, torn tails and damage.

use super::group::{GroupHeader, GroupSize, RecordOf, checksum, read_group, write_group};
use super::segment_reader::read_segment;
use super::*;
use crate::disk::RealDisk;
use crate::testing::{Call, Fault, FaultyDisk, MemoryDisk};
use base::{Entry, Expiry, Timestamp};
use std::path::PathBuf;
use std::sync::Arc;

const SECRET: u64 = 0x5ec2e7;

fn folder() -> PathBuf {
    PathBuf::from("/store")
}

fn put(key: &str, timestamp: u64, value: &[u8]) -> Entry {
    Entry::value(
        key.as_bytes(),
        Timestamp::from_u64(timestamp),
        value,
        Expiry::NEVER,
        3,
    )
}

/// The first segment of a log, of 4 KiB.
fn create(disk: &MemoryDisk, secret: u64) -> SegmentWriter {
    create_on(disk, secret)
}

fn create_on(disk: &dyn Disk, secret: u64) -> SegmentWriter {
    let folder = folder();
    let place = SegmentPlace {
        disk,
        folder: &folder,
        secret,
        segment: 1,
    };
    SegmentWriter::create(place, 4096).unwrap()
}

/// Three groups, synced after each but the last.
fn entries() -> Vec<Entry> {
    vec![
        put("a", 1, b"one"),
        Entry::tombstone(b"b", Timestamp::from_u64(2), 2),
        Entry::value(b"c", Timestamp::from_u64(3), b"", Expiry::at_unix_ms(77), 1),
        put("d", 4, &[7; 300]),
        put("e", 5, b"last"),
    ]
}

/// The kernel reports a failed writeback once to each handle.
#[test]
fn a_background_sync_takes_no_error_away_from_the_commits() {
    let disk = MemoryDisk::new();
    disk.create_folder(&folder()).unwrap();
    let mut writer = create(&disk, SECRET);
    type BackgroundSync = fn(&SegmentWriter) -> PendingSync;
    let background_syncs: [BackgroundSync; 2] = [
        |writer| writer.background_sync(),
        |writer| writer.pending_sync().unwrap(),
    ];
    for background_sync in background_syncs {
        writer.append(entries().iter()).unwrap();
        disk.fail_writeback(&folder().join(segment_file_name(1)))
            .unwrap();
        assert!(background_sync(&writer).run().is_err());
        assert!(writer.sync().is_err());
        writer.sync().unwrap();
    }
}

/// The file after the groups `entries()[0..2]`, `[2..4]` (synced), `[4..5]`
/// (synced if `sync_last`), and where each group ends.
fn segment_file(sync_last: bool, seal: bool) -> (Vec<u8>, [usize; 3]) {
    let disk = MemoryDisk::new();
    disk.create_folder(&folder()).unwrap();
    let mut writer = create(&disk, SECRET);
    let entries = entries();
    let mut end = SEGMENT_HEADER_BYTES;
    let mut ends = [0; 3];
    for (index, group) in [&entries[0..2], &entries[2..4], &entries[4..5]]
        .iter()
        .enumerate()
    {
        end += writer.append(group.iter()).unwrap() as usize;
        ends[index] = end;
        if index < 2 || sync_last {
            writer.sync().unwrap();
        }
    }
    if seal {
        writer.seal().unwrap();
    }
    (read_file(&disk, 1), ends)
}

fn group_header_bytes() -> usize {
    SegmentFormat::NEWEST.group_header_bytes()
}

fn read_file(disk: &MemoryDisk, segment: u64) -> Vec<u8> {
    let file = disk
        .open(&folder().join(segment_file_name(segment)))
        .unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn read(bytes: &[u8]) -> Result<SegmentContents, Error> {
    read_segment(bytes, SECRET, 1, &folder().join(segment_file_name(1)))
}

#[test]
fn written_entries_are_read_back() {
    let (bytes, ends) = segment_file(true, true);
    let segment = read(&bytes).unwrap();
    assert_eq!(segment.entries, entries());
    assert!(segment.sealed);
    assert_eq!(segment.end, (ends[2] + group_header_bytes()) as u64);
    let (bytes, ends) = segment_file(false, false);
    let segment = read(&bytes).unwrap();
    assert_eq!(segment.entries, entries());
    assert!(!segment.sealed);
    assert_eq!((segment.end, segment.torn_bytes), (ends[2] as u64, 0));
}

#[test]
fn every_cut_leaves_whole_groups_only() {
    let (bytes, ends) = segment_file(false, false);
    for cut in 0..ends[2] {
        let segment = read(&bytes[..cut]).unwrap();
        let groups = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(segment.entries, entries()[..[0, 2, 4, 5][groups]], "{cut}");
        assert!(segment.torn_bytes <= (cut as u64) - segment.end);
    }
}

#[test]
fn damage_to_the_last_group_is_a_torn_tail() {
    let (bytes, ends) = segment_file(true, false);
    for at in ends[1]..ends[2] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        let segment = read(&damaged).unwrap();
        assert_eq!(segment.entries, entries()[..4], "{at}");
        assert_eq!(segment.end, ends[1] as u64);
        assert!(segment.torn_bytes > 0);
    }
}

#[test]
fn damage_to_bytes_that_were_synced_by_a_later_group_is_corruption() {
    let (bytes, ends) = segment_file(true, true);
    for at in 0..ends[2] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        match read(&damaged) {
            Err(Error::Corrupt { offset, file, .. }) => {
                let start = [0, SEGMENT_HEADER_BYTES, ends[0], ends[1]]
                    .into_iter()
                    .rfind(|start| *start <= at)
                    .unwrap();
                assert_eq!(offset, start as u64, "{at}");
                assert_eq!(&*file, folder().join("log-0000000000000001.wal"));
            }
            other => panic!("byte {at} damaged: {other:?}"),
        }
    }
}

#[test]
fn a_value_that_looks_like_a_group_is_no_claim() {
    let (forged, ends) = segment_file(true, true);
    // A client may know the format, but not the store's secret.
    let disk = MemoryDisk::new();
    disk.create_folder(&folder()).unwrap();
    let mut writer = create(&disk, SECRET + 1);
    writer
        .append([put("k", 1, &forged[ends[1]..])].iter())
        .unwrap();
    let mut bytes = read_file(&disk, 1);
    bytes[SEGMENT_HEADER_BYTES + group_header_bytes()] ^= 1;
    let segment = read_segment(&bytes, SECRET + 1, 1, &folder()).unwrap();
    assert!(segment.is_empty() && segment.torn_bytes > 0);
}

#[test]
fn a_segment_of_another_number_or_version_is_refused() {
    let (bytes, _) = segment_file(true, true);
    let other = read_segment(&bytes, SECRET, 2, &folder());
    assert!(matches!(other, Err(Error::Corrupt { .. })), "{other:?}");
    let mut newer = bytes;
    newer[8] = 9;
    let crc = base::crc32c_append(base::crc32c(&newer[0..12]), &newer[16..24]);
    newer[12..16].copy_from_slice(&crc.to_le_bytes());
    assert!(matches!(read(&newer), Err(Error::Invalid(_))));
}

#[test]
fn a_group_without_room_leaves_the_log_unchanged() {
    let disk = MemoryDisk::new();
    disk.create_folder(&folder()).unwrap();
    let mut writer = create(&disk, SECRET);
    writer.append([put("a", 1, b"x")].iter()).unwrap();
    disk.set_capacity(4096);
    let full = writer.append([put("b", 2, &[1; 8000])].iter());
    assert!(matches!(full, Err(Error::DiskFull)), "{full:?}");
    writer.append([put("c", 3, b"y")].iter()).unwrap();
    let segment = read(&read_file(&disk, 1)).unwrap();
    assert_eq!(segment.entries, [put("a", 1, b"x"), put("c", 3, b"y")]);
}

/// Groups of every length: shorter than a long one, as long as one, longer.
fn long_groups() -> Vec<Vec<Entry>> {
    let mut random = fastrand::Rng::with_seed(3);
    let mut value = vec![0; 3 << 20];
    random.fill(&mut value);
    let put = |number: u64, bytes: usize| put("key", number, &value[..bytes]);
    vec![
        vec![put(1, (1 << 20) - 100)],
        vec![put(2, 1 << 20)],
        vec![
            put(3, 300_000),
            Entry::tombstone(b"b", Timestamp::from_u64(2), 2),
            put(4, 3 << 20),
            put(5, 0),
            put(6, (256 << 10) - 1),
            put(7, 256 << 10),
        ],
        (8..30).map(|number| put(number, 200_000)).collect(),
        vec![put(31, 5)],
    ]
}

#[test]
fn a_long_group_is_the_same_in_the_file_as_one_that_is_put_together_in_memory() {
    let disk = MemoryDisk::new();
    disk.create_folder(&folder()).unwrap();
    let mut writer = create(&disk, SECRET);
    let mut expected = read_file(&disk, 1)[..SEGMENT_HEADER_BYTES].to_vec();
    let mut synced = SEGMENT_HEADER_BYTES as u64;
    let groups = long_groups();
    for entries in &groups {
        let size = GroupSize::of(entries.iter()).unwrap();
        let mut group = Vec::new();
        let tag = segment_tag(SECRET, 1);
        write_group(
            size,
            RecordOf::Version,
            entries.iter(),
            tag,
            synced,
            &mut group,
        );
        expected.extend(&group);
        assert_eq!(writer.append(entries).unwrap(), group.len() as u64);
        assert!(read_file(&disk, 1).starts_with(&expected));
        writer.sync().unwrap();
        synced = expected.len() as u64;
    }
    let segment = read(&read_file(&disk.clone_synced(), 1)).unwrap();
    assert!(segment.entries == groups.concat());
}

#[test]
fn a_reader_finds_nothing_of_a_long_group_that_was_not_written_to_its_end() {
    let groups = long_groups();
    let group = &groups[2];
    for failing in 0.. {
        let memory = Arc::new(MemoryDisk::new());
        memory.create_folder(&folder()).unwrap();
        let disk = FaultyDisk::new(Arc::<MemoryDisk>::clone(&memory));
        let mut writer = create_on(&disk, SECRET);
        writer.append([put("a", 1, b"x")].iter()).unwrap();
        let fault = Fault::at(failing, std::io::ErrorKind::Other)
            .only(|call, _| call == Call::Write)
            .with_short_writes();
        disk.arm(fault);
        let appended = writer.append(group);
        let has_failed = disk.failed() > 0;
        disk.heal();
        if !has_failed {
            appended.unwrap();
            assert!(failing > 5, "{failing} writes");
            break;
        }
        assert!(matches!(appended, Err(Error::Io { .. })), "write {failing}");
        let segment = read(&read_file(&memory, 1)).unwrap();
        assert!(segment.entries == [put("a", 1, b"x")], "write {failing}");
        // The next group takes the place of this one.
        writer.append([put("b", 2, b"y")].iter()).unwrap();
        let segment = read(&read_file(&memory, 1)).unwrap();
        assert_eq!(segment.entries, [put("a", 1, b"x"), put("b", 2, b"y")]);
        assert_eq!(segment.torn_bytes, 0, "write {failing}");
    }
}

#[test]
fn the_next_group_clears_what_a_failed_one_has_written() {
    let memory = Arc::new(MemoryDisk::new());
    memory.create_folder(&folder()).unwrap();
    let disk = FaultyDisk::new(Arc::<MemoryDisk>::clone(&memory));
    let mut writer = create_on(&disk, SECRET);
    writer.append([put("a", 1, b"x")].iter()).unwrap();
    let fault = Fault::at(0, std::io::ErrorKind::Other)
        .only(|call, _| call == Call::Write)
        .with_short_writes();
    disk.arm(fault);
    let group = [put("b", 2, &[b'y'; 100_000])];
    assert!(matches!(writer.append(group.iter()), Err(Error::Io { .. })));
    let torn = read(&read_file(&memory, 1)).unwrap();
    assert_eq!(torn.entries, [put("a", 1, b"x")]);
    disk.heal();
    writer.append([put("c", 3, b"z")].iter()).unwrap();
    let segment = read(&read_file(&memory, 1)).unwrap();
    assert_eq!(segment.entries, [put("a", 1, b"x"), put("c", 3, b"z")]);
    assert_eq!(segment.torn_bytes, 0);
}

#[test]
fn the_format_is_that_of_the_fixture() {
    let fixture = include_bytes!("../../tests/fixtures/log-v2.wal");
    let (bytes, _) = segment_file(true, true);
    let end = read(&bytes).unwrap().end as usize;
    assert_eq!(bytes[..end], fixture[..]);
}

#[test]
fn promises_have_the_format_of_their_fixture() {
    let disk = MemoryDisk::new();
    disk.create_folder(&folder()).unwrap();
    let promises = [(b"a".as_slice(), 8), (b"key", 9)];
    let promises = promises.map(|(key, at)| Entry::tombstone(key, Timestamp::from_u64(at), 3));
    create(&disk, SECRET).append_promises(&promises).unwrap();
    let bytes = read_file(&disk, 1);
    let segment = read(&bytes).unwrap();
    assert!(segment.entries.is_empty());
    assert_eq!(segment.promises, promises);
    let fixture = include_bytes!("../../tests/fixtures/log-v2-promises.wal");
    assert_eq!(bytes[..segment.end as usize], fixture[..]);
}

#[test]
fn a_group_is_not_read_if_a_record_has_an_unknown_flag() {
    let (format, tag) = (SegmentFormat::NEWEST, 1);
    let records_at = format.group_header_bytes();
    let entries = [put("a", 8, b"x")];
    for (flag, is_read) in [(0, true), (FLAG_PROMISE, true), (8, false), (128, false)] {
        let mut group = Vec::new();
        let size = GroupSize::of(entries.iter()).unwrap();
        write_group(size, RecordOf::Version, entries.iter(), tag, 0, &mut group);
        let mut header = GroupHeader::read(&group, format, tag).unwrap();
        group[records_at + format.record_header_bytes()] |= flag;
        header.checksum = checksum(&group[records_at..], tag);
        header.write(format, tag, &mut group[..records_at]);
        let read = read_group(&group, format, tag);
        assert_eq!(read.is_some(), is_read, "{flag}");
    }
}

/// Where the groups of the fixture of version 1 end, the last of which is its seal.
const ENDS_V1: [usize; 5] = [24, 101, 483, 540, 572];

#[test]
fn a_segment_of_version_1_is_read() {
    let fixture = include_bytes!("../../tests/fixtures/log-v1.wal");
    let segment = read(fixture).unwrap();
    assert_eq!(segment.entries, entries());
    assert_eq!(segment.end, fixture.len() as u64);
    assert!(segment.sealed);
    for at in 0..ENDS_V1[3] {
        let mut damaged = fixture.to_vec();
        damaged[at] ^= 0x40;
        let damaged = read(&damaged);
        assert!(matches!(damaged, Err(Error::Corrupt { .. })), "{at}");
    }
    for cut in 0..ENDS_V1[4] {
        let segment = read(&fixture[..cut]).unwrap();
        let groups = ENDS_V1[1..].iter().filter(|end| **end <= cut).count();
        assert_eq!(segment.entries, entries()[..[0, 2, 4, 5][groups]], "{cut}");
        assert!(!segment.sealed);
    }
}

/// A store of an older release was killed: its last segment is sealed in its own format.
#[test]
fn a_segment_of_version_1_is_sealed() {
    let fixture = include_bytes!("../../tests/fixtures/log-v1.wal");
    let unsealed = &fixture[..ENDS_V1[3]];
    let disk = MemoryDisk::new();
    disk.create_folder(&folder()).unwrap();
    let path = folder().join(segment_file_name(1));
    let file = disk.create(&path).unwrap();
    file.write_all_at(unsealed, 0).unwrap();
    file.set_len(4096).unwrap();
    disk.sync_folder(&folder()).unwrap();
    let folder = folder();
    let place = SegmentPlace {
        disk: &disk,
        folder: &folder,
        secret: SECRET,
        segment: 1,
    };
    SegmentWriter::restore(place, SegmentFormat::V1, unsealed, false).unwrap();
    let segment = read(&read_file(&disk.clone_synced(), 1)).unwrap();
    assert_eq!(segment.end, fixture.len() as u64);
    assert_eq!(segment.entries, entries());
    assert!(segment.sealed);
}

/// On a full disk the room that the file has is all that there is for deletes.
#[test]
fn a_segment_that_begins_again_keeps_its_room_and_none_of_its_torn_groups() {
    let disk = MemoryDisk::new();
    let folder = folder();
    disk.create_folder(&folder).unwrap();
    let place = SegmentPlace {
        disk: &disk,
        folder: &folder,
        secret: SECRET,
        segment: 1,
    };
    let mut torn = SegmentWriter::create(place, 8192).unwrap();
    for entry in &entries() {
        torn.append([entry]).unwrap();
    }
    let first = (SEGMENT_HEADER_BYTES + group_header_bytes()) as u64;
    disk.corrupt(&folder.join(segment_file_name(1)), first, 1)
        .unwrap();
    assert!(read(&read_file(&disk, 1)).unwrap().torn_bytes > 0);
    disk.set_capacity(disk.used_bytes());
    let full = SegmentWriter::create_in_place(place, 64 << 10).map(drop);
    assert!(matches!(full, Err(Error::DiskFull)), "{full:?}");
    let mut writer = SegmentWriter::create_in_place(place, 0).unwrap();
    assert_eq!(writer.allocated_bytes(), 8192);
    let begun = read(&read_file(&disk, 1)).unwrap();
    assert!(begun.is_empty() && begun.torn_bytes == 0, "{begun:?}");
    let entry = put("f", 6, &[7; 6000]);
    writer.append([&entry]).unwrap();
    assert_eq!(read(&read_file(&disk, 1)).unwrap().entries, [entry]);
    // More than was asked for is given back: a long group may have been torn.
    let shorter = SegmentWriter::create_in_place(place, 4096).unwrap();
    assert_eq!(shorter.allocated_bytes(), 4096);
}

/// A restored copy of a store took the place of the folder, and another process runs on it.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test plays those who change a folder behind the seam"
)]
fn no_segment_begins_in_a_copy_that_took_the_place_of_the_folder() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("store");
    let disk = RealDisk::default();
    disk.create_folder(&folder).unwrap();
    let _held = disk.lock(&folder).unwrap();
    let place = SegmentPlace {
        disk: &disk,
        folder: &folder,
        secret: SECRET,
        segment: 1,
    };
    let mut writer = SegmentWriter::create(place, 4096).unwrap();
    writer.append(entries().iter()).unwrap();
    writer.sync().unwrap();
    let path = folder.join(segment_file_name(1));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::rename(&folder, temporary.path().join("away")).unwrap();
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    let refused = SegmentWriter::create(place, 4096).map(drop).unwrap_err();
    assert!(refused.to_string().contains("another folder"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn file_names_are_read_back() {
    assert_eq!(segment_of_file_name(&segment_file_name(42)), Some(42));
    for name in [
        "log-42.wal",
        "log-.wal",
        "MANIFEST",
        "log-0000000000000042.wal.tmp",
    ] {
        assert_eq!(segment_of_file_name(name), None, "{name}");
    }
}
