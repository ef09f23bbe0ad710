//! Tables from the writer to the reader, in a file in memory that counts its calls and
//! can fail.

use super::ahead::ReadAhead;
use super::block::frame::{Handle, Role};
use super::block::index::IndexEntry;
use super::block::writer::BlockWriter;
use super::block::{BlockBuilder, BlockCursor};
use super::format::FOOTER_BYTES;
use super::format::{TableProperties, VERSION};
use super::record::{DataBlock, RecordBody};
use super::*;
use crate::cache::{BlockCache, ReadCounts};
use crate::disk::{DIRECT_ALIGNMENT, DiskFile};
use crate::record::{BlobReference, NextRecord, Record, RecordCursor};
use crate::table_id::TableId;
use base::{Entry, Expiry, KEY_BYTES_MAX, Kind, Timestamp};
use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

mod damage;
mod file;
mod fixture;
mod reading;
pub(crate) mod touched;
mod writing;

use file::TestFile;

const PATH: &str = "folder/table.sst";
const ID: TableId = TableId(3);

const SETTINGS: TableSettings = TableSettings {
    block_bytes: 4096,
    compression: Compression::Lz4,
    filter_false_positive_rate: Some(0.01),
};

const SCAN: Purpose = Purpose::Scan { keep_data: false };

fn cache() -> Arc<BlockCache> {
    Arc::new(BlockCache::new(8 << 20))
}

fn write(file: &Arc<TestFile>, settings: &TableSettings, records: &[Record]) {
    let file: Arc<dyn DiskFile> = Arc::<TestFile>::clone(file);
    let mut writer = TableWriter::create(file, Path::new(PATH), settings);
    for record in records {
        writer.add(record.lend()).unwrap();
    }
    writer.finish().unwrap();
}

fn open(file: &Arc<TestFile>, cache: &Arc<BlockCache>) -> Result<Arc<Table>, Error> {
    let file: Arc<dyn DiskFile> = Arc::<TestFile>::clone(file);
    Table::open(file, Path::new(PATH), ID, Arc::clone(cache), None).map(Arc::new)
}

/// A table of this level. Its filter is pinned if the cache has room.
fn open_holding(file: &Arc<TestFile>, cache: &Arc<BlockCache>, level: usize) -> Table {
    let file: Arc<dyn DiskFile> = Arc::<TestFile>::clone(file);
    Table::open(file, Path::new(PATH), ID, Arc::clone(cache), Some(level)).unwrap()
}

fn table(settings: &TableSettings, records: &[Record]) -> (Arc<TestFile>, Arc<Table>) {
    let file = Arc::new(TestFile::default());
    write(&file, settings, records);
    let table = open(&file, &cache()).unwrap();
    (file, table)
}

/// The index entry of each data block, in order.
fn data_blocks(table: &Arc<Table>) -> Vec<IndexEntry> {
    let entries = |handle, role| {
        let block = table.block_for(Purpose::Compaction, handle, role).unwrap();
        let mut cursor = BlockCursor::new::<IndexEntry>(&block, &[]).unwrap();
        let mut entries = Vec::new();
        while let Some((_, entry)) = cursor.next::<IndexEntry>().unwrap() {
            entries.push(entry);
        }
        entries
    };
    let indexes = entries(table.top_index(), Role::TopIndex);
    let blocks = indexes
        .iter()
        .map(|index| entries(index.handle, Role::Index));
    blocks.flatten().collect()
}

fn get(table: &Table, key: &[u8], access: DiskAccess) -> Result<Option<Entry>, Interrupt> {
    table.get(key, KeyHash::of(key), access)
}

/// All records from `start` on.
fn walk(table: &Arc<Table>, start: Bound<&[u8]>, purpose: Purpose) -> Result<Vec<Record>, Error> {
    let mut cursor = table.cursor(start, purpose);
    let mut records = Vec::new();
    while let Some(record) = cursor.next()? {
        records.push(record);
    }
    assert_eq!(cursor.next().unwrap(), None);
    Ok(records)
}

/// A plain record: a short value that does not expire.
fn record(key: impl AsRef<[u8]>, timestamp: u64) -> Record {
    let value = format!("value {timestamp}");
    let timestamp = Timestamp::from_u64(timestamp);
    Record {
        sequence: 0,
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

/// Records of every kind. Their keys are few and have few letters, so many share a
/// prefix and have several versions.
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
            let expiry = if random.bool() {
                Expiry::NEVER
            } else {
                Expiry::at_unix_ms(random.u64(..))
            };
            let timestamp = Timestamp::from_u64(if random.bool() {
                random.u64(..)
            } else {
                random.u64(0..4)
            });
            let copies = random.u8(..);
            Record {
                sequence: match random.u8(0..4) {
                    0 => random.u64(..u64::MAX / 2),
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

/// Checks all answers of a table against the sorted records.
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
        assert_eq!(get(table, key, DiskAccess::MayRead).unwrap(), expected);
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
            assert_eq!(walk(table, bound, SCAN).unwrap(), records[from..]);
        }
    }
}

/// Reads everything in a file in every way; stops at the first error.
fn read_all(file: &Arc<TestFile>, records: &[Record]) -> Result<(), Error> {
    let table = open(file, &cache())?;
    // The walk reads the data and the index, and the gets also read the filter.
    assert_eq!(walk(&table, Bound::Unbounded, SCAN)?, records);
    for record in records {
        let key = record.entry.key();
        match get(&table, key, DiskAccess::MayRead) {
            Ok(found) => assert_eq!(found, winner(records, key)),
            Err(Interrupt::Failed(error)) => return Err(error),
            Err(Interrupt::WouldBlock) => panic!("the get may read"),
        }
    }
    Ok(())
}
