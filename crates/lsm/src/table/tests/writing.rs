//! What a writer writes, and in which calls.

use super::*;

#[test]
fn writes_are_large_and_syncs_regular() {
    let mut random = fastrand::Rng::with_seed(15);
    let records: Vec<_> = (0..600)
        .map(|number| {
            let mut value = vec![0; 10_000];
            random.fill(&mut value);
            Record {
                sequence: 0,
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
    assert!(calls.iter().all(|&bytes| bytes <= 512 << 10));
    assert!(calls.len() < 40, "{} calls for 6 MB", calls.len());
    let writes: Vec<_> = calls.iter().filter(|&&bytes| bytes > 0).collect();
    let (_last, others) = writes.split_last().unwrap();
    assert!(others.len() > 10);
    assert!(
        others.iter().all(|&&bytes| bytes == 512 << 10),
        "a write ends within a page: {others:?}"
    );
    // The first ones, until the buffer has its length.
    let unaligned = file.unaligned.load(Ordering::Relaxed);
    assert!(unaligned <= 2, "{unaligned} writes begin within a page");
}

/// Long values of which no copy is made lie in the file as if one had been made.
#[test]
fn a_block_is_the_same_whether_its_value_goes_around_the_buffer() {
    let mut random = fastrand::Rng::with_seed(16);
    let mut value = vec![0; 3 << 20];
    random.fill(&mut value);
    let (head, tail) = (&b"head"[..], &b"restarts"[..]);
    let lengths = [512 << 10, (512 << 10) + 1, (1 << 20) - 12, 3 << 20];
    for (before, length) in [0, 1, 100_000, 524_270].into_iter().zip(lengths) {
        let value = &value[..length];
        let written = |goes_around: bool| {
            let file = Arc::new(TestFile::default());
            let disk_file: Arc<dyn DiskFile> = Arc::<TestFile>::clone(&file);
            let mut blocks = BlockWriter::new(disk_file, Path::new(PATH), Compression::Lz4);
            let first = vec![7; before];
            blocks.write_block(Role::Filter, &first).unwrap();
            let mut buffer = blocks.take_buffer();
            let start = buffer.len();
            let handle = if goes_around {
                assert!(blocks.goes_around(value));
                buffer.extend([head, tail].concat());
                blocks.write_around(buffer, start, value, tail.len())
            } else {
                buffer.extend([head, value, tail].concat());
                blocks.write_in_place(Role::Data, buffer, start)
            };
            blocks.write_block(Role::Filter, b"behind").unwrap();
            blocks.finish(b"footer").unwrap();
            let calls = file.calls.lock().unwrap().clone();
            (handle.unwrap(), file.to_vec(), calls)
        };
        assert!(
            written(true) == written(false),
            "{before} and {length} bytes"
        );
    }
}

#[test]
fn long_values_are_read_as_they_were_written() {
    let mut random = fastrand::Rng::with_seed(17);
    let mut long = |number, bytes, shrinks: bool| {
        let mut value = vec![b'v'; bytes];
        if !shrinks {
            random.fill(&mut value);
        }
        let timestamp = Timestamp::from_u64(number);
        let key = key(number);
        Record {
            sequence: 0,
            entry: Entry::value(key.as_bytes(), timestamp, &value, Expiry::NEVER, 2),
        }
    };
    let records = [
        long(1, 10, false),
        long(2, 512 << 10, false),
        long(3, 2 << 20, true),
        long(4, 5_000_000, false),
        long(5, 0, false),
        long(6, 600_000, false),
        long(7, 600_000, true),
    ];
    for compression in [Compression::None, Compression::Lz4] {
        let settings = TableSettings {
            compression,
            ..SETTINGS
        };
        let (file, table) = table(&settings, &records);
        check(&table, &records);
        let bytes: usize = records.iter().map(|it| it.entry.data_bytes()).sum();
        let is_packed = (file.len().unwrap() as usize) < bytes - (2 << 20);
        assert_eq!(is_packed, compression == Compression::Lz4);
    }
}

#[test]
fn the_size_of_a_writer_leads_to_that_of_its_file() {
    let file = Arc::new(TestFile::default());
    let mut writer = TableWriter::create(Arc::<TestFile>::clone(&file), Path::new(PATH), &SETTINGS);
    let mut before = 0;
    for record in even_records(50_000) {
        writer.add(record.lend()).unwrap();
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
fn records_past_the_limits_of_the_format_are_refused() {
    let file = Arc::new(TestFile::default());
    let writer = || TableWriter::create(Arc::<TestFile>::clone(&file), Path::new(PATH), &SETTINGS);
    assert!(matches!(writer().finish(), Err(Error::Invalid(_))));
    let long = record(vec![b'k'; KEY_BYTES_MAX + 1], 1);
    assert!(matches!(writer().add(long.lend()), Err(Error::Invalid(_))));
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
            writer.add(record.lend())?;
        }
        writer.finish()
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
    assert!(left > 4, "only {left} calls");
}
