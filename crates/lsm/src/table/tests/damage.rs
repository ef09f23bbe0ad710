//! Files that cannot be read, or whose bytes are not those that were written.

use super::fixture::{FIXTURE_SETTINGS, fixture_records};
use super::*;

#[test]
fn each_failing_read_is_an_error_that_names_the_file() {
    let (file, _) = table(&SETTINGS, &even_records(2000));
    let bytes = file.to_vec();
    let walk_after = |left: u64, purpose| -> Result<(), Error> {
        // One more call writes the file.
        let file = TestFile::failing_after(left + 1);
        file.write_all_at(&bytes, 0).unwrap();
        let table = open(&file, &cache())?;
        walk(&table, Bound::Unbounded, purpose).map(drop)
    };
    let block_by_block = Purpose::Scan { keep_data: true };
    for (purpose, calls_min) in [(block_by_block, 10), (SCAN, 4)] {
        let mut left = 0;
        while let Err(error) = walk_after(left, purpose) {
            assert!(matches!(error, Error::Io { .. }), "{error}");
            assert!(error.to_string().contains(PATH), "{error}");
            left += 1;
        }
        assert!(left > calls_min, "only {left} calls");
    }
}

#[test]
fn a_table_opens_with_one_read() {
    let (file, _) = table(&SETTINGS, &even_records(2000));
    let bytes = file.to_vec();
    let opens_after = |calls: u64| {
        // One more call writes the file, and one asks for its length.
        let file = TestFile::failing_after(calls + 2);
        file.write_all_at(&bytes, 0).unwrap();
        open(&file, &cache()).is_ok()
    };
    assert!(!opens_after(0) && opens_after(1));
}

#[test]
fn each_corrupted_byte_is_an_error_that_names_file_and_block() {
    let records = random_records(&mut fastrand::Rng::with_seed(16), 25);
    let settings = TableSettings {
        block_bytes: 300,
        ..SETTINGS
    };
    let (file, table) = table(&settings, &records);
    assert!(data_blocks(&table).len() > 3);
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

/// The table opens, and only the gets that need the page fail.
#[test]
fn a_filter_with_a_damaged_page_is_not_pinned() {
    let records = even_records(100);
    let (sound, _) = table(&SETTINGS, &records);
    let bytes = sound.to_vec();
    let mut not_held = 0;
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let file: Arc<dyn DiskFile> = TestFile::holding(&damaged);
        let cache = cache();
        let Ok(table) = Table::open(file, Path::new(PATH), ID, Arc::clone(&cache), Some(0)) else {
            continue;
        };
        let is_held = cache.used_bytes() > 0;
        not_held += usize::from(!is_held);
        let found = get(&table, records[7].entry.key(), DiskAccess::MayRead);
        match found {
            Ok(found) => assert!(is_held && found.as_ref() == Some(&records[7].entry)),
            Err(Interrupt::Failed(Error::Corrupt { .. })) => {}
            Err(other) => panic!("byte {at}: {other:?}"),
        }
    }
    assert!(not_held > 100, "as long as the filter");
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
        // The end is in place, but the middle is missing.
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
        get(&table, key(0).as_bytes(), DiskAccess::MayRead),
        Err(Interrupt::Failed(Error::Corrupt { .. }))
    ));
}

/// The trailer of a long block is read before the block.
#[test]
fn a_table_counts_as_damaged_when_the_trailer_of_a_long_block_is_missing() {
    let mut random = fastrand::Rng::with_seed(9);
    let long = |key: &[u8], value: &[u8]| Record {
        sequence: 0,
        entry: Entry::value(key, Timestamp::from_u64(1), value, Expiry::NEVER, 0),
    };
    let mut value = vec![0; 20 << 10];
    random.fill(&mut value);
    let records = [long(b"a", &value), long(b"b", &value)];
    let (file, table) = table(&SETTINGS, &records);
    // This caches the index.
    assert!(get(&table, b"b", DiskAccess::MayRead).unwrap().is_some());
    file.set_len(100).unwrap();
    assert!(!table.is_damaged());
    assert!(matches!(
        get(&table, b"a", DiskAccess::MayRead),
        Err(Interrupt::Failed(Error::Corrupt { .. }))
    ));
    assert!(table.is_damaged());
}

#[test]
fn a_later_version_is_refused_by_name() {
    let (file, _) = table(&SETTINGS, &even_records(10));
    let mut bytes = file.to_vec();
    let footer = bytes.len() - FOOTER_BYTES;
    bytes[footer + 52] = 9;
    let checksum = base::crc32c_append(
        base::crc32c(&bytes[footer..footer + 48]),
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
fn decoders_survive_arbitrary_bytes() {
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
fn blocks_with_mutated_content_never_panic() {
    // The blocks open, although a few of their bytes are wrong: a checksum would find
    // them, but the decoders must not depend on it.
    let mut random = fastrand::Rng::with_seed(18);
    let mut builder = BlockBuilder::default();
    for record in &fixture_records() {
        builder.add(record.entry.key(), |buffer| {
            RecordBody::of(record.lend()).encode(buffer);
        });
    }
    let records = builder.finish().to_vec();
    let mut properties = TableProperties::empty();
    for record in &fixture_records() {
        properties.add(record.lend(), None);
    }
    let properties = properties.encode();
    for _ in 0..20_000 {
        for valid in [&records, &properties] {
            let mut bytes = valid.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(0..bytes.len());
                bytes[at] = if random.bool() {
                    random.u8(..)
                } else {
                    *random.choice([0, 0x7f, 0x80, 0xff].iter()).unwrap()
                };
            }
            fuzz_block(&bytes);
            fuzz_footer(&bytes);
        }
    }
}

/// A checksum does not find the error of a writer.
#[test]
fn an_index_that_understates_a_timestamp_is_corrupt() {
    let long = Record {
        sequence: 0,
        entry: Entry::value(
            b"long",
            Timestamp::from_u64(9),
            &[7; 5000],
            Expiry::NEVER,
            1,
        ),
    };
    // The index does not know the timestamps of the first `forgotten` records.
    let written_but_for = |forgotten: usize, records: &[Record]| {
        let file = Arc::new(TestFile::default());
        let as_file: Arc<dyn DiskFile> = Arc::<TestFile>::clone(&file);
        let mut writer = TableWriter::create(as_file, Path::new(PATH), &SETTINGS);
        for (number, record) in records.iter().enumerate() {
            writer.add(record.lend()).unwrap();
            if number + 1 == forgotten {
                writer.forget_timestamps();
            }
        }
        writer.finish().unwrap();
        open(&file, &cache())
    };
    let written = |records: &[Record]| written_but_for(1, records);
    // Opening the table finds that the greatest timestamp of all is missing.
    let opened = written(&[record("a", 9), record("b", 3)]);
    assert!(matches!(opened, Err(Error::Corrupt { .. })));
    // Reading the record finds that another timestamp is too low.
    let table = written(&[record("a", 5), record("b", 3), long.clone()]).unwrap();
    assert!(get(&table, b"b", DiskAccess::MayRead).unwrap().is_some());
    assert!(matches!(
        get(&table, b"a", DiskAccess::MayRead),
        Err(Interrupt::Failed(Error::Corrupt { .. }))
    ));
    let walked = walk(&table, Bound::Unbounded, Purpose::Compaction);
    assert!(matches!(walked, Err(Error::Corrupt { .. })));
    // So does a walk that comes to it in the middle of a block.
    let table =
        &written_but_for(2, &[record("a", 3), record("b", 5), record("c", 3), long]).unwrap();
    for purpose in [Purpose::Compaction, Purpose::Scan { keep_data: false }] {
        let walked = walk(table, Bound::Unbounded, purpose);
        assert!(matches!(walked, Err(Error::Corrupt { .. })));
    }
}

#[test]
fn properties_that_no_writer_writes_are_refused() {
    let mut sound = TableProperties::empty();
    for record in &fixture_records() {
        sound.add(record.lend(), None);
    }
    let decoded = |change: fn(&mut TableProperties)| {
        let mut properties = sound.clone();
        change(&mut properties);
        TableProperties::decode(&properties.encode(), VERSION)
    };
    assert_eq!(decoded(|_| {}).as_ref(), Ok(&sound));
    let changes: [fn(&mut TableProperties); 4] = [
        // The engine continues with the next number.
        |properties| properties.greatest_sequence = u64::MAX,
        |properties| properties.tombstones = properties.entries + 1,
        |properties| properties.least_timestamp = Timestamp::MAX,
        |properties| properties.least_key = vec![0xff; 3].into(),
    ];
    for change in changes {
        let refused = decoded(change);
        assert!(refused.is_err(), "{refused:?}");
    }
}
