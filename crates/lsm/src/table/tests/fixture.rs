//! The format on the disk does not change unnoticed.

use super::*;

/// The records of the fixture. They use every field of the format.
pub(super) fn fixture_records() -> Vec<Record> {
    let value = |key: &str, timestamp, value: &[u8], expiry, sequence| Record {
        sequence,
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
            sequence: 0,
            entry: Entry::tombstone(b"versions", Timestamp::from_u64(u64::MAX >> 1), 1),
        },
    ];
    records.extend((0..60).map(|number| record(format!("prefix-{number:03}"), number)));
    records.sort_by(Record::order);
    records
}

const FIXTURE: &[u8] = include_bytes!("../../../tests/fixtures/table-v5.sst");
const FIXTURE_V4: &[u8] = include_bytes!("../../../tests/fixtures/table-v4.sst");
const FIXTURE_V3: &[u8] = include_bytes!("../../../tests/fixtures/table-v3.sst");

pub(super) const FIXTURE_SETTINGS: TableSettings = TableSettings {
    block_bytes: 512,
    ..SETTINGS
};

#[test]
fn the_fixture_is_read_exactly_and_written_again_to_the_byte() {
    let records = fixture_records();
    check(
        &open(&TestFile::holding(FIXTURE), &cache()).unwrap(),
        &records,
    );
    let bytes = fixture_file().to_vec();
    assert!(bytes == FIXTURE, "the writer's bytes have changed");
}

/// A file of the records of the fixture, whose tables count some of them as non-owned.
fn fixture_file() -> Arc<TestFile> {
    let file = Arc::new(TestFile::default());
    let opened: Arc<dyn DiskFile> = Arc::<TestFile>::clone(&file);
    let mut writer = TableWriter::create(opened, Path::new(PATH), &FIXTURE_SETTINGS);
    for record in fixture_records() {
        writer.add(record.lend()).unwrap();
        if record.entry.key().starts_with(b"prefix-05") {
            writer.count_non_owned(record.entry.timestamp());
        }
    }
    writer.finish().unwrap();
    file
}

#[test]
fn non_owned_versions_are_counted_from_version_5_on() {
    let open = |bytes| open(&TestFile::holding(bytes), &cache()).unwrap();
    let (table, before) = (open(FIXTURE), open(FIXTURE_V4));
    let non_owned = fixture_records().into_iter().filter(|record| {
        let key = record.entry.key();
        key.starts_with(b"prefix-05")
    });
    let oldest = non_owned
        .clone()
        .map(|record| record.entry.timestamp())
        .min();
    assert_eq!(table.properties().non_owned, non_owned.count() as u64);
    assert_eq!(Some(table.properties().oldest_non_owned), oldest);
    check(&before, &fixture_records());
    assert_eq!(before.properties().non_owned, 0);
    assert_eq!(before.properties().oldest_non_owned, Timestamp::MAX);
    let same = |table: &Table| (table.properties().tombstones, table.properties().entries);
    assert_eq!(same(&table), same(&before));
}

#[test]
fn a_table_of_version_3_is_read_as_one_whose_tombstones_may_be_as_old_as_anything_in_it() {
    let table = open(&TestFile::holding(FIXTURE_V3), &cache()).unwrap();
    check(&table, &fixture_records());
    let properties = table.properties();
    assert_eq!(properties.oldest_tombstone, properties.least_timestamp);
    assert_eq!(properties.least_expiry, properties.half_expired);
    let (_, table) = self::table(&FIXTURE_SETTINGS, &fixture_records());
    let properties = table.properties();
    let tombstone = Timestamp::from_u64(u64::MAX >> 1);
    assert_eq!(properties.oldest_tombstone, tombstone);
    assert_eq!(
        properties.least_expiry,
        Expiry::at_unix_ms(1_700_000_000_000)
    );
}

const FIXTURE_V6: &[u8] = include_bytes!("../../../tests/fixtures/table-v6.sst");

/// Where the value of a record of the fixture of version 6 lies.
fn reference_of(record: &Record) -> Option<BlobReference> {
    let value = record.entry.value_bytes();
    let is_apart = record.entry.kind() == Kind::Value && value.len() > 10;
    is_apart.then(|| BlobReference {
        table: TableId(value.len() as u64 % 3),
        offset: record.entry.timestamp().as_u64() << 12,
        bytes: value.len() as u32 + 40,
        value_bytes: value.len() as u32,
    })
}

fn fixture_file_with_references() -> Arc<TestFile> {
    let file = Arc::new(TestFile::default());
    let opened: Arc<dyn DiskFile> = Arc::<TestFile>::clone(&file);
    let mut writer = TableWriter::create(opened, Path::new(PATH), &FIXTURE_SETTINGS);
    for record in fixture_records() {
        match reference_of(&record) {
            Some(reference) => writer.add_reference(record.lend(), reference).unwrap(),
            None => writer.add(record.lend()).unwrap(),
        }
    }
    writer.finish().unwrap();
    file
}

#[test]
fn a_table_with_references_is_read_exactly_and_written_again_to_the_byte() {
    assert!(fixture_file_with_references().to_vec() == FIXTURE_V6);
    let table = Arc::new(open(&TestFile::holding(FIXTURE_V6), &cache()).unwrap());
    let mut referred = BTreeMap::new();
    let mut cursor = table.cursor(Bound::Unbounded, Purpose::Compaction);
    for record in fixture_records() {
        assert!(cursor.advance().unwrap());
        let reference = reference_of(&record);
        assert_eq!(cursor.reference(), reference);
        assert_eq!(cursor.data_bytes(), record.entry.data_bytes());
        assert_eq!(cursor.lacks_value(), reference.is_some());
        let found = cursor.record();
        let expected = match reference {
            Some(_) => record.entry.without_value(),
            None => record.entry.clone(),
        };
        assert_eq!(
            (found.sequence, found.entry),
            (record.sequence, expected.lend())
        );
        if let Some(reference) = reference {
            *referred.entry(reference.table).or_insert(0) += record.entry.data_bytes() as u64;
            // The store does not have the blob table.
            assert!(matches!(cursor.fetch_value(), Err(Error::Corrupt { .. })));
        }
    }
    assert!(!cursor.advance().unwrap());
    assert_eq!(table.properties().blobs, referred);
}

#[test]
#[ignore = "writes the fixture: only for a new version of the format"]
#[expect(clippy::disallowed_methods, reason = "fixtures lie on the real disk")]
fn write_the_fixture() {
    let file = fixture_file();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/table-v5.sst");
    std::fs::write(path, file.to_vec()).unwrap();
    let file = fixture_file_with_references();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/table-v6.sst");
    std::fs::write(path, file.to_vec()).unwrap();
}
