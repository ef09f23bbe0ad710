//! Tables end to end, over a file in memory that counts and can fail.

use super::block::BlockBuilder;
use super::format::FOOTER_BYTES;
use super::format::TableProperties;
use super::record::RecordBody;
use super::*;
use crate::cache::{BlockCache, ReadCounts};
use crate::disk::DiskFile;
use crate::entry::{Entry, Expiry, KEY_BYTES_MAX, Kind, Record, RecordSource};
use crate::timestamp::Timestamp;
use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const PATH: &str = "folder/table.sst";
const ID: TableId = TableId(3);

/// A sparse file in memory.
#[derive(Default)]
struct TestFile {
    content: Mutex<Content>,
    reads: AtomicU64,
    /// The lengths of all writes, and 0 for each sync.
    calls: Mutex<Vec<usize>>,
    /// How many calls go well before all others fail, if any does.
    calls_left: Option<AtomicU64>,
}

#[derive(Default)]
struct Content {
    pages: BTreeMap<u64, Vec<u8>>,
    length: u64,
}

const PAGE: u64 = 4096;

impl TestFile {
    fn holding(bytes: &[u8]) -> Arc<Self> {
        let file = Self::default();
        file.write_all_at(bytes, 0).unwrap();
        Arc::new(file)
    }

    fn failing_after(calls: u64) -> Arc<Self> {
        Arc::new(Self {
            calls_left: Some(AtomicU64::new(calls)),
            ..Self::default()
        })
    }

    fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len().unwrap() as usize];
        self.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    fn call(&self) -> io::Result<()> {
        let spend = |left: u64| left.checked_sub(1);
        match &self.calls_left {
            Some(left)
                if left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend)
                    .is_err() =>
            {
                Err(io::Error::other("injected"))
            }
            _ => Ok(()),
        }
    }
}

impl DiskFile for TestFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.call()?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        let content = self.content.lock().unwrap();
        if offset + buffer.len() as u64 > content.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut at = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let in_page = (at % PAGE) as usize;
            let count = rest.len().min(PAGE as usize - in_page);
            let (part, after) = rest.split_at_mut(count);
            match content.pages.get(&(at / PAGE)) {
                Some(page) => part.copy_from_slice(&page[in_page..][..count]),
                None => part.fill(0),
            }
            at += count as u64;
            rest = after;
        }
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.call()?;
        self.calls.lock().unwrap().push(bytes.len());
        let mut content = self.content.lock().unwrap();
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let in_page = (at % PAGE) as usize;
            let (part, after) = rest.split_at(rest.len().min(PAGE as usize - in_page));
            let page = content.pages.entry(at / PAGE);
            page.or_insert_with(|| vec![0; PAGE as usize])[in_page..][..part.len()]
                .copy_from_slice(part);
            at += part.len() as u64;
            rest = after;
        }
        content.length = content.length.max(offset + bytes.len() as u64);
        Ok(())
    }

    fn allocate(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        unreachable!("tables do not allocate")
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.content.lock().unwrap().length = bytes;
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.call()?;
        Ok(self.content.lock().unwrap().length)
    }

    fn sync(&self) -> io::Result<()> {
        self.call()?;
        self.calls.lock().unwrap().push(0);
        Ok(())
    }
}

const SETTINGS: TableSettings = TableSettings {
    block_bytes: 4096,
    compression: Compression::Lz4,
    filter_false_positive_rate: Some(0.01),
};

fn cache() -> Arc<BlockCache> {
    Arc::new(BlockCache::new(8 << 20))
}

fn write(file: &Arc<TestFile>, settings: &TableSettings, records: &[Record]) -> TableProperties {
    let file: Arc<dyn DiskFile> = Arc::<TestFile>::clone(file);
    let mut writer = TableWriter::create(file, Path::new(PATH), settings);
    for record in records {
        writer.add(record).unwrap();
    }
    writer.finish().unwrap()
}

fn open(file: &Arc<TestFile>, cache: &Arc<BlockCache>) -> Result<Arc<Table>, Error> {
    let file: Arc<dyn DiskFile> = Arc::<TestFile>::clone(file);
    Table::open(file, Path::new(PATH), ID, Arc::clone(cache)).map(Arc::new)
}

fn table(settings: &TableSettings, records: &[Record]) -> (Arc<TestFile>, Arc<Table>) {
    let file = Arc::new(TestFile::default());
    write(&file, settings, records);
    let table = open(&file, &cache()).unwrap();
    (file, table)
}

fn get(table: &Table, key: &[u8], access: Access) -> Result<Option<Entry>, Interrupt> {
    table.get(key, KeyHash::of(key), access)
}

/// All records from `start` on.
fn walk(table: &Arc<Table>, start: Bound<&[u8]>, purpose: Purpose) -> Result<Vec<Record>, Error> {
    let mut iterator = table.iter(start, purpose);
    let mut records = Vec::new();
    while let Some(record) = iterator.next()? {
        records.push(record);
    }
    assert_eq!(iterator.next().unwrap(), None);
    Ok(records)
}

/// A plain record: a short value that does not expire.
fn record(key: impl AsRef<[u8]>, timestamp: u64) -> Record {
    let value = format!("value {timestamp}");
    let timestamp = Timestamp::from_u64(timestamp);
    Record {
        arrival: 0,
        entry: Entry::value(key.as_ref(), timestamp, value.as_bytes(), Expiry::NEVER, 2),
    }
}

/// Records of distinct keys `key-00000`, `key-00002`, ...: the odd ones are absent.
fn even_records(count: u64) -> Vec<Record> {
    (0..count)
        .map(|number| record(key(2 * number), number))
        .collect()
}

fn key(number: u64) -> String {
    format!("key-{number:05}")
}

/// Records of every kind, with few keys of few letters so that prefixes and versions abound.
fn random_records(random: &mut fastrand::Rng, count: usize) -> Vec<Record> {
    let mut records: Vec<_> = (0..count)
        .map(|_| {
            let letters = random.usize(0..7);
            let mut key: Vec<u8> = (0..letters).map(|_| random.u8(b'a'..=b'd')).collect();
            if random.u8(..) < 5 {
                key.resize(random.usize(1000..=KEY_BYTES_MAX), b'x');
            }
            let value_bytes = match random.u8(0..20) {
                0..5 => 0,
                5..18 => random.usize(0..40),
                18 => random.usize(0..2000),
                _ => random.usize(0..20_000),
            };
            let mut value = vec![0; value_bytes];
            random.fill(&mut value);
            if random.bool() {
                value.fill(b'v');
            }
            let expiry = match random.bool() {
                true => Expiry::NEVER,
                false => Expiry::at_unix_ms(random.u64(..)),
            };
            let timestamp = Timestamp::from_u64(match random.bool() {
                true => random.u64(..),
                false => random.u64(0..4),
            });
            let copies = random.u8(..);
            Record {
                arrival: match random.u8(0..4) {
                    0 => random.u64(..),
                    1 => random.u64(1..9),
                    _ => 0,
                },
                entry: match random.u8(0..4) {
                    0 => Entry::tombstone(&key, timestamp, copies),
                    _ => Entry::value(&key, timestamp, &value, expiry, copies),
                },
            }
        })
        .collect();
    records.sort_by(Record::order);
    records.dedup_by(|a, b| a.order(b).is_eq());
    records
}

fn winner(records: &[Record], key: &[u8]) -> Option<Entry> {
    let found = records.iter().find(|record| record.entry.key() == key)?;
    Some(found.entry.clone())
}

/// Everything that a table answers is what the sorted records say.
fn check(table: &Arc<Table>, records: &[Record]) {
    let mut keys: Vec<Vec<u8>> = records
        .iter()
        .flat_map(|record| {
            let key = record.entry.key();
            [key.to_vec(), [key, b"\0"].concat(), [key, b"b"].concat()]
        })
        .chain([b"".to_vec(), b"\0".to_vec(), b"zz".to_vec()])
        .collect();
    keys.sort();
    keys.dedup();
    for key in &keys {
        let expected = winner(records, key);
        assert_eq!(get(table, key, Access::MayRead).unwrap(), expected);
    }
    assert_eq!(
        walk(table, Bound::Unbounded, Purpose::Compaction).unwrap(),
        records
    );
    for key in keys.iter().map(Vec::as_slice).step_by(1 + keys.len() / 20) {
        for (bound, below) in [(Bound::Included(key), false), (Bound::Excluded(key), true)] {
            let from = records.partition_point(|record| {
                record.entry.key() < key || below && record.entry.key() == key
            });
            assert_eq!(walk(table, bound, Purpose::Scan).unwrap(), records[from..]);
        }
    }
}

#[test]
fn random_records_come_back_whatever_the_settings() {
    let mut random = fastrand::Rng::with_seed(11);
    for block_bytes in [0, 100, 4096, 1 << 20] {
        for compression in [Compression::None, Compression::Lz4] {
            for filter_false_positive_rate in [None, Some(0.01)] {
                for count in [1, 2, 60, 600] {
                    let records = random_records(&mut random, count);
                    let settings = TableSettings {
                        block_bytes,
                        compression,
                        filter_false_positive_rate,
                    };
                    check(&table(&settings, &records).1, &records);
                }
            }
        }
    }
}

#[test]
fn a_cache_without_room_changes_no_answer() {
    let records = random_records(&mut fastrand::Rng::with_seed(12), 300);
    let file = Arc::new(TestFile::default());
    write(&file, &SETTINGS, &records);
    let cache = Arc::new(BlockCache::new(0));
    check(&open(&file, &cache).unwrap(), &records);
    assert_eq!(cache.used_bytes(), 0);
}

#[test]
fn properties_say_what_the_records_are() {
    let records = random_records(&mut fastrand::Rng::with_seed(13), 500);
    let (_, table) = table(&SETTINGS, &records);
    let entries: Vec<&Entry> = records.iter().map(|record| &record.entry).collect();
    let count =
        |test: fn(&Entry) -> bool| entries.iter().filter(|entry| test(entry)).count() as u64;
    let sum =
        |size: fn(&Entry) -> usize| entries.iter().map(|entry| size(entry) as u64).sum::<u64>();
    let properties = table.properties();
    assert_eq!(properties.entries, entries.len() as u64);
    assert_eq!(
        properties.tombstones,
        count(|entry| entry.kind() == Kind::Tombstone)
    );
    assert_eq!(
        properties.expiring,
        count(|entry| entry.expiry() != Expiry::NEVER)
    );
    assert_eq!(properties.key_bytes, sum(|entry| entry.key().len()));
    assert_eq!(
        properties.value_bytes,
        sum(|entry| entry.value_bytes().len())
    );
    assert_eq!(properties.key_least, entries[0].key());
    assert_eq!(properties.key_greatest, entries[entries.len() - 1].key());
    let timestamps = || entries.iter().map(|entry| entry.timestamp());
    assert_eq!(Some(properties.timestamp_least), timestamps().min());
    assert_eq!(Some(properties.timestamp_greatest), timestamps().max());
    let arrivals = records.iter().map(|record| record.arrival);
    assert_eq!(Some(properties.arrival_greatest), arrivals.max());
    assert_eq!(properties.expiry_latest, Expiry::NEVER);
    assert!(properties.data_blocks > 10);
    assert!((table.file_bytes() / 2..table.file_bytes()).contains(&properties.data_bytes));
}

#[test]
fn the_latest_expiry_is_known_when_all_expire() {
    let expiring = |key: &str, unix_ms| Record {
        arrival: 0,
        entry: Entry::value(
            key.as_bytes(),
            Timestamp::from_u64(1),
            b"",
            Expiry::at_unix_ms(unix_ms),
            1,
        ),
    };
    let mut records = vec![expiring("a", 5), expiring("b", 9), expiring("c", 7)];
    let latest = |records: &[Record]| table(&SETTINGS, records).1.properties().expiry_latest;
    assert_eq!(latest(&records), Expiry::at_unix_ms(9));
    records.push(record("d", 1));
    assert_eq!(latest(&records), Expiry::NEVER);
}

#[test]
fn cached_access_never_reads_and_answers_once_the_blocks_are_there() {
    let records = even_records(2000);
    let (file, table) = table(&SETTINGS, &records);
    let opened = file.reads();
    let target = records[700].entry.key();
    assert!(matches!(
        get(&table, target, Access::Cached),
        Err(Interrupt::WouldBlock)
    ));
    // Out of the table's range nothing needs to be read.
    assert!(matches!(get(&table, b"a", Access::Cached), Ok(None)));
    assert_eq!(file.reads(), opened);

    let found = get(&table, target, Access::MayRead).unwrap();
    // The filter page, the top index, an index block and a data block.
    assert_eq!(file.reads(), opened + 4);
    assert_eq!(get(&table, target, Access::Cached).unwrap(), found);
    assert_eq!(file.reads(), opened + 4);
}

#[test]
fn a_filter_spares_the_data_blocks() {
    let file = Arc::new(TestFile::default());
    write(&file, &SETTINGS, &even_records(20_000));
    let cache = cache();
    let table = open(&file, &cache).unwrap();
    for number in 0..19_999 {
        let absent = key(2 * number + 1);
        assert_eq!(
            get(&table, absent.as_bytes(), Access::MayRead).unwrap(),
            None
        );
    }
    let counts = cache.counters().sum();
    assert_eq!(
        counts.filter_negatives + counts.filter_false_positives,
        19_999
    );
    assert_eq!(counts.filter_true_positives, 0);
    assert_eq!(counts.data_blocks_fetched, counts.filter_false_positives);
    assert!(counts.filter_false_positives < 300, "{counts:?}");

    let present = key(500);
    assert!(
        get(&table, present.as_bytes(), Access::MayRead)
            .unwrap()
            .is_some()
    );
    assert_eq!(cache.counters().sum().filter_true_positives, 1);
}

#[test]
fn a_get_reads_one_data_block_even_where_versions_span_blocks() {
    let records: Vec<_> = [record("a", 1)]
        .into_iter()
        .chain((0..3000).rev().map(|timestamp| record("b", timestamp)))
        .chain([record("c", 1)])
        .collect();
    let file = Arc::new(TestFile::default());
    write(&file, &SETTINGS, &records);
    for (key, timestamp) in [("a", 1), ("b", 2999), ("c", 1)] {
        let cache = cache();
        let table = open(&file, &cache).unwrap();
        let found = get(&table, key.as_bytes(), Access::MayRead)
            .unwrap()
            .unwrap();
        assert_eq!(found.timestamp(), Timestamp::from_u64(timestamp), "{key}");
        assert_eq!(cache.counters().sum().data_blocks_fetched, 1, "{key}");
    }
}

#[test]
fn walks_use_the_cache_but_leave_no_data_blocks_in_it() {
    let file = Arc::new(TestFile::default());
    let properties = write(&file, &SETTINGS, &even_records(3000));
    let cache = cache();
    let table = open(&file, &cache).unwrap();
    let reads_of = |purpose| {
        let before = file.reads();
        walk(&table, Bound::Unbounded, purpose).unwrap();
        file.reads() - before
    };
    let all = reads_of(Purpose::Compaction);
    assert!(all > properties.data_blocks);
    assert_eq!(
        (cache.used_bytes(), cache.counters().sum()),
        (0, ReadCounts::default())
    );
    assert_eq!(reads_of(Purpose::Scan), all);
    assert_eq!(
        cache.counters().sum().data_blocks_fetched,
        properties.data_blocks
    );
    assert_eq!(reads_of(Purpose::Scan), properties.data_blocks);
    get(&table, key(0).as_bytes(), Access::MayRead).unwrap();
    assert_eq!(reads_of(Purpose::Scan), properties.data_blocks - 1);
    assert_eq!(reads_of(Purpose::Compaction), properties.data_blocks - 1);
}

#[test]
fn a_large_value_lies_in_a_block_of_its_own() {
    let large = Record {
        arrival: 0,
        entry: Entry::value(
            b"b",
            Timestamp::from_u64(1),
            &vec![7; 3 << 20],
            Expiry::NEVER,
            1,
        ),
    };
    let records = [record("a", 1), large, record("c", 1)];
    let (_, table) = table(&SETTINGS, &records);
    assert_eq!(table.properties().data_blocks, 3);
    check(&table, &records);
}

#[test]
fn offsets_past_four_gigabytes_are_written_and_read() {
    let records = random_records(&mut fastrand::Rng::with_seed(14), 400);
    let file = Arc::new(TestFile::default());
    let mut writer = TableWriter::create(Arc::<TestFile>::clone(&file), Path::new(PATH), &SETTINGS);
    writer.skip((4 << 30) - 10_000);
    for record in &records {
        writer.add(record).unwrap();
    }
    writer.finish().unwrap();
    assert!(file.len().unwrap() > 4 << 30);
    check(&open(&file, &cache()).unwrap(), &records);
}

#[test]
fn writes_are_large_and_syncs_regular() {
    let mut random = fastrand::Rng::with_seed(15);
    let records: Vec<_> = (0..600)
        .map(|number| {
            let mut value = vec![0; 10_000];
            random.fill(&mut value);
            Record {
                arrival: 0,
                entry: Entry::value(
                    key(number).as_bytes(),
                    Timestamp::from_u64(1),
                    &value,
                    Expiry::NEVER,
                    1,
                ),
            }
        })
        .collect();
    let file = Arc::new(TestFile::default());
    write(&file, &SETTINGS, &records);
    let calls = file.calls.lock().unwrap();
    assert_eq!(calls.last(), Some(&0), "the last call is a sync");
    let between_syncs: Vec<usize> = calls
        .split(|&bytes| bytes == 0)
        .map(|writes| writes.iter().sum())
        .collect();
    assert!(between_syncs.len() > 5);
    assert!(
        between_syncs
            .iter()
            .all(|&bytes| bytes <= (1 << 20) + (512 << 10))
    );
    assert!(calls.iter().all(|&bytes| bytes <= 256 << 10));
    assert!(calls.len() < 60, "{} calls for 6 MB", calls.len());
}

#[test]
fn the_writers_size_leads_to_the_files() {
    let file = Arc::new(TestFile::default());
    let mut writer = TableWriter::create(Arc::<TestFile>::clone(&file), Path::new(PATH), &SETTINGS);
    let mut before = 0;
    for record in even_records(50_000) {
        writer.add(&record).unwrap();
        assert!(writer.file_bytes() >= before);
        before = writer.file_bytes();
    }
    writer.finish().unwrap();
    let length = file.len().unwrap();
    assert!(
        (length / 2..length).contains(&before),
        "{before} of {length}"
    );
}

#[test]
fn what_no_table_can_hold_is_refused() {
    let file = Arc::new(TestFile::default());
    let writer = || TableWriter::create(Arc::<TestFile>::clone(&file), Path::new(PATH), &SETTINGS);
    assert!(matches!(writer().finish(), Err(Error::Invalid(_))));
    let long = record(vec![b'k'; KEY_BYTES_MAX + 1], 1);
    assert!(matches!(writer().add(&long), Err(Error::Invalid(_))));
}

#[test]
fn each_failing_call_of_the_writer_is_an_error_that_names_the_file() {
    let records = even_records(40_000);
    let settings = TableSettings {
        compression: Compression::None,
        ..SETTINGS
    };
    let write_to = |file: &Arc<TestFile>| -> Result<(), Error> {
        let mut writer =
            TableWriter::create(Arc::<TestFile>::clone(file), Path::new(PATH), &settings);
        for record in &records {
            writer.add(record)?;
        }
        writer.finish().map(drop)
    };
    let mut left = 0;
    while let Err(error) = write_to(&TestFile::failing_after(left)) {
        assert!(
            matches!(error, Error::Io { .. } | Error::Sync { .. }),
            "{error}"
        );
        assert!(error.to_string().contains(PATH), "{error}");
        left += 1;
    }
    assert!(left > 5, "only {left} calls");
}

#[test]
fn each_failing_read_is_an_error_that_names_the_file() {
    let (file, _) = table(&SETTINGS, &even_records(2000));
    let bytes = file.to_vec();
    let walk_after = |left: u64| -> Result<(), Error> {
        // One more call fills the file.
        let file = TestFile::failing_after(left + 1);
        file.write_all_at(&bytes, 0).unwrap();
        let table = open(&file, &cache())?;
        walk(&table, Bound::Unbounded, Purpose::Scan).map(drop)
    };
    let mut left = 0;
    while let Err(error) = walk_after(left) {
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(error.to_string().contains(PATH), "{error}");
        left += 1;
    }
    assert!(left > 10, "only {left} calls");
}

/// Reads all that a file holds, in every way; stops at the first error.
fn read_all(file: &Arc<TestFile>, records: &[Record]) -> Result<(), Error> {
    let table = open(file, &cache())?;
    // The walk reads data and index, the gets also the filter.
    assert_eq!(walk(&table, Bound::Unbounded, Purpose::Scan)?, records);
    for record in records {
        let key = record.entry.key();
        match get(&table, key, Access::MayRead) {
            Ok(found) => assert_eq!(found, winner(records, key)),
            Err(Interrupt::Failed(error)) => return Err(error),
            Err(Interrupt::WouldBlock) => panic!("the get may read"),
        }
    }
    Ok(())
}

#[test]
fn each_corrupted_byte_is_an_error_that_names_file_and_block() {
    let records = random_records(&mut fastrand::Rng::with_seed(16), 25);
    let settings = TableSettings {
        block_bytes: 300,
        ..SETTINGS
    };
    let (file, table) = table(&settings, &records);
    assert!(table.properties().data_blocks > 3);
    let bytes = file.to_vec();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let file_damaged = TestFile::holding(&damaged);
        match read_all(&file_damaged, &records) {
            Err(Error::Corrupt { file, offset, .. }) => {
                assert_eq!(&*file, Path::new(PATH));
                assert!(offset <= at as u64, "byte {at} was reported at {offset}");
            }
            other => panic!("byte {at} of {}: {other:?}", bytes.len()),
        }
    }
}

#[test]
fn a_file_of_another_length_is_corrupt() {
    let records = even_records(100);
    let (file, _) = table(&SETTINGS, &records);
    let bytes = file.to_vec();
    for length in (0..bytes.len())
        .step_by(7)
        .chain([FOOTER_BYTES - 1, FOOTER_BYTES])
    {
        let cut = TestFile::holding(&bytes[..length]);
        assert!(
            matches!(open(&cut, &cache()), Err(Error::Corrupt { .. })),
            "{length}"
        );
        // With the end in place but the middle gone.
        let gap = TestFile::holding(&bytes[length..]);
        if length > 0 {
            assert!(
                matches!(open(&gap, &cache()), Err(Error::Corrupt { .. })),
                "{length}"
            );
        }
    }
    file.set_len(bytes.len() as u64 - 1).unwrap();
    assert!(matches!(open(&file, &cache()), Err(Error::Corrupt { .. })));
}

#[test]
fn a_file_cut_short_while_open_is_corrupt() {
    let (file, table) = table(&SETTINGS, &even_records(1000));
    file.set_len(100).unwrap();
    assert!(matches!(
        get(&table, key(0).as_bytes(), Access::MayRead),
        Err(Interrupt::Failed(Error::Corrupt { .. }))
    ));
}

#[test]
fn a_later_version_is_refused_by_name() {
    let (file, _) = table(&SETTINGS, &even_records(10));
    let mut bytes = file.to_vec();
    let footer = bytes.len() - FOOTER_BYTES;
    bytes[footer + 52] = 9;
    let checksum = crc32c::crc32c_append(
        crc32c::crc32c(&bytes[footer..footer + 48]),
        &bytes[footer + 52..],
    );
    bytes[footer + 48..footer + 52].copy_from_slice(&checksum.to_le_bytes());
    match open(&TestFile::holding(&bytes), &cache()) {
        Err(Error::Invalid(what)) => {
            assert!(what.contains(PATH) && what.contains("version 9"), "{what}");
        }
        other => panic!("{:?}", other.map(drop)),
    }
}

#[test]
fn file_names_come_back_and_others_are_none() {
    assert_eq!(table_file_name(TableId(1)), "table-0000000000000001.sst");
    for id in [0, 1, 0xabc, u64::MAX] {
        assert_eq!(
            parse_table_file_name(&table_file_name(TableId(id))),
            Some(TableId(id))
        );
    }
    for name in [
        "",
        "table-1.sst",
        "table-0000000000000001.sst.tmp",
        "table-+000000000000001.sst",
        "table-000000000000000A.sst",
        "table-00000000000000001.sst",
        "wal-0000000000000001.sst",
    ] {
        assert_eq!(parse_table_file_name(name), None, "{name}");
    }
}

/// The records of the fixture: every field of the format at work.
fn fixture_records() -> Vec<Record> {
    let value = |key: &str, timestamp, value: &[u8], expiry, arrival| Record {
        arrival,
        entry: Entry::value(
            key.as_bytes(),
            Timestamp::from_u64(timestamp),
            value,
            expiry,
            3,
        ),
    };
    let mut records = vec![
        value("", 1, b"the empty key", Expiry::NEVER, 0),
        value("empty value", 2, b"", Expiry::NEVER, 0),
        value(
            "expires",
            3,
            b"soon",
            Expiry::at_unix_ms(1_700_000_000_000),
            0,
        ),
        value("repeats", 4, &[b'r'; 500], Expiry::NEVER, 0),
        value("versions", 9, b"newest", Expiry::NEVER, 1 << 40),
        value("versions", 8, b"older", Expiry::NEVER, 7),
        Record {
            arrival: 0,
            entry: Entry::tombstone(b"versions", Timestamp::from_u64(u64::MAX >> 1), 1),
        },
    ];
    records.extend((0..60).map(|number| record(format!("prefix-{number:03}"), number)));
    records.sort_by(Record::order);
    records
}

const FIXTURE: &[u8] = include_bytes!("../../tests/fixtures/table-v1.sst");

const FIXTURE_SETTINGS: TableSettings = TableSettings {
    block_bytes: 512,
    ..SETTINGS
};

#[test]
fn the_fixture_is_read_exactly_and_still_written_so() {
    let records = fixture_records();
    check(
        &open(&TestFile::holding(FIXTURE), &cache()).unwrap(),
        &records,
    );
    let (file, _) = table(&FIXTURE_SETTINGS, &records);
    assert!(file.to_vec() == FIXTURE, "the writer's bytes have changed");
}

#[test]
#[ignore = "writes the fixture: only for a new version of the format"]
#[expect(clippy::disallowed_methods, reason = "fixtures lie on the real disk")]
fn write_the_fixture() {
    let (file, _) = table(&FIXTURE_SETTINGS, &fixture_records());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/table-v1.sst");
    std::fs::write(path, file.to_vec()).unwrap();
}

#[test]
fn decoders_survive_whatever_bytes_come() {
    let mut random = fastrand::Rng::with_seed(17);
    for compression in [Compression::None, Compression::Lz4] {
        let settings = TableSettings {
            compression,
            ..FIXTURE_SETTINGS
        };
        let (file, _) = table(&settings, &fixture_records());
        let valid = file.to_vec();
        for _ in 0..4000 {
            let mut bytes = valid.clone();
            for _ in 0..random.usize(1..6) {
                let at = random.usize(0..bytes.len());
                bytes[at] = random.u8(..);
            }
            let start = random.usize(0..bytes.len());
            let end = random.usize(start..=bytes.len());
            fuzz_block(&bytes[start..end]);
            fuzz_footer(&bytes[start..]);
        }
    }
    for _ in 0..10_000 {
        let mut bytes = vec![0; random.usize(0..200)];
        random.fill(&mut bytes);
        fuzz_block(&bytes);
        fuzz_footer(&bytes);
    }
}

#[test]
fn sound_structures_with_mutated_content_never_panic() {
    // Blocks that open, with a few bytes wrong inside: the checksum would
    // find them, the decoders must not depend on it.
    let mut random = fastrand::Rng::with_seed(18);
    let mut builder = BlockBuilder::default();
    for record in &fixture_records() {
        builder.add(record.entry.key(), |buffer| {
            RecordBody::of(record).encode(buffer);
        });
    }
    let records = builder.finish().to_vec();
    let mut properties = TableProperties::empty();
    for record in &fixture_records() {
        properties.add(record);
    }
    let properties = properties.encode();
    for _ in 0..20_000 {
        for valid in [&records, &properties] {
            let mut bytes = valid.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(0..bytes.len());
                bytes[at] = match random.bool() {
                    true => random.u8(..),
                    false => *random.choice([0, 0x7f, 0x80, 0xff].iter()).unwrap(),
                };
            }
            fuzz_block(&bytes);
            fuzz_footer(&bytes);
        }
    }
}
