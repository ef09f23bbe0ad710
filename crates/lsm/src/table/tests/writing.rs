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
    assert!(calls.iter().all(|&bytes| bytes <= 256 << 10));
    assert!(calls.len() < 60, "{} calls for 6 MB", calls.len());
    let writes: Vec<_> = calls.iter().filter(|&&bytes| bytes > 0).collect();
    let (_last, others) = writes.split_last().unwrap();
    assert!(others.len() > 20);
    assert!(
        others.iter().all(|&&bytes| bytes == 256 << 10),
        "a write ends within a page: {others:?}"
    );
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
    assert!(left > 5, "only {left} calls");
}
