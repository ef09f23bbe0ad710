//! What reads find, and which blocks they read.

use super::*;

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
fn properties_describe_the_records() {
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
    assert_eq!(properties.entry_bytes, sum(Entry::data_bytes));
    assert_eq!(properties.least_key, entries[0].key());
    assert_eq!(properties.greatest_key, entries[entries.len() - 1].key());
    let timestamps = || entries.iter().map(|entry| entry.timestamp());
    assert_eq!(Some(properties.least_timestamp), timestamps().min());
    assert_eq!(Some(properties.greatest_timestamp), timestamps().max());
    let sequences = records.iter().map(|record| record.sequence);
    assert_eq!(Some(properties.greatest_sequence), sequences.max());
}

#[test]
fn the_index_has_the_greatest_timestamp_of_each_block() {
    let records = random_records(&mut fastrand::Rng::with_seed(21), 800);
    // The blocks are so small that there are several index blocks.
    let settings = TableSettings {
        block_bytes: 300,
        ..SETTINGS
    };
    let (_, table) = table(&settings, &records);
    let blocks = data_blocks(&table);
    assert!(blocks.len() > 50);
    let mut rest = &records[..];
    for block in &blocks {
        let records = match table
            .data_block_for(SCAN, block.handle, &mut ReadAhead::default())
            .unwrap()
        {
            DataBlock::SingleRecord(_) => 1,
            DataBlock::Sorted(payload) => {
                let mut cursor = BlockCursor::new::<RecordBody<'_>>(&payload, &[]).unwrap();
                let mut records = 0;
                while cursor.next::<RecordBody<'_>>().unwrap().is_some() {
                    records += 1;
                }
                records
            }
        };
        let (inside, after) = rest.split_at(records);
        let greatest = inside.iter().map(|record| record.entry.timestamp()).max();
        assert_eq!(Some(block.greatest_timestamp), greatest);
        rest = after;
    }
    assert_eq!(rest, []);
    let greatest = blocks.iter().map(|block| block.greatest_timestamp).max();
    assert_eq!(greatest, Some(table.properties().greatest_timestamp));
}

#[test]
fn properties_say_when_half_of_the_bytes_have_expired() {
    let expiring = |key: &str, unix_ms| Record {
        sequence: 0,
        entry: Entry::value(
            key.as_bytes(),
            Timestamp::from_u64(1),
            b"",
            Expiry::at_unix_ms(unix_ms),
            1,
        ),
    };
    let mut records = vec![expiring("a", 5), expiring("b", 9), expiring("c", 7)];
    let half = |records: &[Record]| table(&SETTINGS, records).1.properties().half_expired;
    assert_eq!(half(&records), Expiry::at_unix_ms(7));
    assert_eq!(half(&records[..2]), Expiry::at_unix_ms(5));
    records.push(Record {
        sequence: 0,
        entry: Entry::tombstone(b"d", Timestamp::from_u64(1), 1),
    });
    assert_eq!(half(&records), Expiry::at_unix_ms(7));
    assert_eq!(half(&records[2..]), Expiry::at_unix_ms(7));
    // A long record that does not expire is more than half of the bytes.
    records.push(record("e", 1));
    assert_eq!(half(&records), Expiry::NEVER);
}

#[test]
fn cached_access_never_reads_and_answers_when_the_blocks_are_cached() {
    let records = even_records(2000);
    let (file, table) = table(&SETTINGS, &records);
    let opened = file.reads();
    let target = records[700].entry.key();
    assert!(matches!(
        get(&table, target, DiskAccess::Cached),
        Err(Interrupt::WouldBlock)
    ));
    // A key out of the table's range needs no read.
    assert!(matches!(get(&table, b"a", DiskAccess::Cached), Ok(None)));
    assert_eq!(file.reads(), opened);

    let found = get(&table, target, DiskAccess::MayRead).unwrap();
    // The filter page, the top index, an index block and a data block.
    assert_eq!(file.reads(), opened + 4);
    assert_eq!(get(&table, target, DiskAccess::Cached).unwrap(), found);
    assert_eq!(file.reads(), opened + 4);
}

#[test]
fn a_get_that_the_filter_rules_out_reads_no_data_block() {
    let file = Arc::new(TestFile::default());
    write(&file, &SETTINGS, &even_records(20_000));
    let cache = cache();
    let table = open(&file, &cache).unwrap();
    for number in 0..19_999 {
        let absent = key(2 * number + 1);
        assert_eq!(
            get(&table, absent.as_bytes(), DiskAccess::MayRead).unwrap(),
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
        get(&table, present.as_bytes(), DiskAccess::MayRead)
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
        let found = get(&table, key.as_bytes(), DiskAccess::MayRead)
            .unwrap()
            .unwrap();
        assert_eq!(found.timestamp(), Timestamp::from_u64(timestamp), "{key}");
        assert_eq!(cache.counters().sum().data_blocks_fetched, 1, "{key}");
    }
}

#[test]
fn walks_use_the_cache_but_leave_no_data_blocks_in_it() {
    let file = Arc::new(TestFile::default());
    write(&file, &SETTINGS, &even_records(3000));
    let cache = cache();
    let table = open(&file, &cache).unwrap();
    let blocks = data_blocks(&table).len() as u64;
    let reads_of = |purpose| {
        let before = file.reads();
        walk(&table, Bound::Unbounded, purpose).unwrap();
        file.reads() - before
    };
    reads_of(Purpose::Compaction);
    assert_eq!(
        (cache.used_bytes(), cache.counters().sum()),
        (0, ReadCounts::default())
    );
    let of_index_too = reads_of(SCAN);
    assert_eq!(cache.counters().sum().data_blocks_fetched, blocks);
    let cached = cache.used_bytes();
    assert!(reads_of(SCAN) < of_index_too, "the cache keeps the index");
    assert_eq!(cache.used_bytes(), cached);
    for record in &even_records(3000) {
        get(&table, record.entry.key(), DiskAccess::MayRead).unwrap();
    }
    assert_eq!(reads_of(SCAN), 0, "gets have left all blocks");
}

#[test]
fn a_walk_that_reads_all_blocks_reads_many_at_once() {
    for compression in [Compression::None, Compression::Lz4] {
        let settings = TableSettings {
            compression,
            ..SETTINGS
        };
        let records = even_records(30_000);
        let (file, table) = table(&settings, &records);
        let blocks = data_blocks(&table).len() as u64;
        let before = file.reads();
        let walked = walk(&table, Bound::Unbounded, Purpose::Compaction).unwrap();
        assert_eq!(walked, records);
        let reads = file.reads() - before;
        assert!(blocks > 100 && reads < blocks / 3, "{reads} for {blocks}");
    }
}

#[test]
fn a_walk_that_passes_over_blocks_reads_no_others_ahead() {
    // Every tenth block has a new version.
    let records: Vec<_> = (0..3000)
        .map(|number| record(key(number), if number % 600 == 0 { 9 } else { 1 }))
        .collect();
    let settings = TableSettings {
        compression: Compression::None,
        block_bytes: 2000,
        ..SETTINGS
    };
    let (file, table) = table(&settings, &records);
    let purpose = Purpose::Comparison {
        least_timestamp: Timestamp::from_u64(9),
        checks_disk: false,
    };
    let before = file.bytes_read();
    let walked = walk(&table, Bound::Unbounded, purpose).unwrap();
    assert!(walked.len() < 600, "{}", walked.len());
    let bytes = file.bytes_read() - before;
    assert!(bytes < table.file_bytes() / 5, "{bytes}");
}

/// Walks a table in many parts, which go on where the one before ended.
fn walk_in_parts(table: &Arc<Table>, records_of_part: usize, ahead: &ScanAhead) -> Vec<Record> {
    let purpose = Purpose::Comparison {
        least_timestamp: Timestamp::ZERO,
        checks_disk: false,
    };
    let mut walked: Vec<Record> = Vec::new();
    loop {
        let last = walked.last().map(|last| last.entry.key().to_vec());
        let start = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut cursor = table.cursor(start, purpose);
        cursor.take_ahead(ahead);
        for _ in 0..records_of_part {
            match cursor.next().unwrap() {
                Some(record) => walked.push(record),
                None => return walked,
            }
        }
        cursor.leave_ahead(ahead);
    }
}

#[test]
fn parts_of_a_walk_that_follow_each_other_read_each_data_block_once() {
    for compression in [Compression::None, Compression::Lz4] {
        let settings = TableSettings {
            compression,
            ..SETTINGS
        };
        let records = even_records(40_000);
        let (file, table) = table(&settings, &records);
        let indexes = data_blocks(&table);
        let data_bytes: u64 = indexes.iter().map(|it| u64::from(it.handle.bytes)).sum();
        let ahead = ScanAhead::default();
        let before = (file.reads(), file.bytes_read());
        assert_eq!(walk_in_parts(&table, 4_000, &ahead), records);
        let (reads, bytes) = (file.reads() - before.0, file.bytes_read() - before.1);
        // Each part also reads a block of the top index, and one or two of the index.
        let of_index = 10 * 3 * 4_500;
        assert!(bytes < data_bytes + of_index, "{bytes} of {data_bytes}");
        // And in pieces of 32 KiB, of which each part but the first goes on with one.
        let pieces = 10 + data_bytes / (32 << 10);
        assert!(reads < 10 * 3 + pieces, "{reads} with {pieces} pieces");
        assert_eq!(ahead.tables(), 0, "the last part has come to the end");
    }
}

#[test]
fn a_part_of_a_walk_that_begins_elsewhere_reads_what_is_there() {
    let records = even_records(30_000);
    let (_, table) = table(&SETTINGS, &records);
    let ahead = ScanAhead::default();
    for start in [20_000, 100, 25_000, 25_010, 0] {
        let key = key(2 * start);
        let mut cursor = table.cursor(Bound::Included(key.as_bytes()), Purpose::Compaction);
        cursor.take_ahead(&ahead);
        for expected in &records[start as usize..][..1_000] {
            assert_eq!(cursor.next().unwrap().as_ref(), Some(expected));
        }
        cursor.leave_ahead(&ahead);
        assert_eq!(ahead.tables(), 1);
    }
    ahead.retain(|table, _| table != ID);
    assert_eq!(ahead.tables(), 0);
}

#[test]
fn what_a_piece_has_of_a_block_is_not_read_again() {
    for value_bytes in [1_000, 6_000, 12_000] {
        let value = vec![7; value_bytes];
        let records: Vec<_> = (0..4_000_000 / value_bytes as u64)
            .map(|number| {
                let (key, at) = (key(number), Timestamp::from_u64(number));
                let entry = Entry::value(key.as_bytes(), at, &value, Expiry::NEVER, 1);
                Record { sequence: 0, entry }
            })
            .collect();
        let settings = TableSettings {
            compression: Compression::None,
            filter_false_positive_rate: None,
            ..SETTINGS
        };
        let (file, table) = table(&settings, &records);
        let before = file.bytes_read();
        let walked = walk(&table, Bound::Unbounded, Purpose::Compaction).unwrap();
        assert!(walked == records, "{value_bytes}");
        let bytes = file.bytes_read() - before;
        // The index lies among the blocks, and is also read by itself.
        let of_file = table.file_bytes() + table.file_bytes() / 40;
        assert!(bytes < of_file, "{bytes} of {of_file}, {value_bytes}");
    }
}

/// A table without compression, and the data block in its middle.
fn table_and_block(records: &[Record]) -> (Arc<TestFile>, Arc<Table>, Handle) {
    let settings = TableSettings {
        compression: Compression::None,
        ..SETTINGS
    };
    let (file, table) = table(&settings, records);
    let blocks = data_blocks(&table);
    (file, table, blocks[blocks.len() / 2].handle)
}

#[test]
fn what_cannot_be_read_ahead_is_read_block_by_block() {
    let records = even_records(3000);
    let (file, table, bad) = table_and_block(&records);
    file.cannot_read(bad.offset + 7);
    let mut cursor = table.cursor(Bound::Unbounded, Purpose::Compaction);
    let mut walked = 0;
    let error = loop {
        match cursor.next() {
            Ok(Some(_)) => walked += 1,
            Ok(None) => panic!("the walk has passed over the block"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Io { .. }), "{error}");
    let half = records.len() / 2;
    assert!(walked >= half - 100, "{walked} of {half} before the block");
}

#[test]
fn the_sound_parts_of_a_damaged_table_are_read_whole_or_not_at_all() {
    let records = even_records(3000);
    let (file, table, bad) = table_and_block(&records);
    let all = walk(&table, Bound::Unbounded, Purpose::RewriteSound).unwrap();
    assert_eq!(all.len(), records.len());
    // What is noted is passed over, although it can be read.
    let part = bad.offset..bad.offset + u64::from(bad.bytes);
    table.set_damaged_parts(vec![part.clone()]);
    assert_eq!(table.noted_parts(), [part]);
    let sound = walk(&table, Bound::Unbounded, Purpose::RewriteSound).unwrap();
    assert!((2500..3000).contains(&sound.len()), "{}", sound.len());
    // What is not noted was compared with nobody, so it must not be passed over.
    table.set_damaged_parts(Vec::new());
    file.cannot_read(bad.offset + 7);
    let error = walk(&table, Bound::Unbounded, Purpose::RewriteSound).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
}

#[test]
fn a_walk_that_keeps_data_keeps_only_its_first_blocks() {
    let file = Arc::new(TestFile::default());
    write(&file, &SETTINGS, &even_records(10_000));
    let cache = cache();
    let table = open(&file, &cache).unwrap();
    let blocks = data_blocks(&table).len() as u64;
    let reads_of = |keep_data| {
        let before = file.reads();
        walk(&table, Bound::Unbounded, Purpose::Scan { keep_data }).unwrap();
        file.reads() - before
    };
    assert!(blocks > 40);
    let fetched_from_disk = || cache.counters().sum().cache_misses;
    let misses_of = |keep_data| {
        let before = fetched_from_disk();
        reads_of(keep_data);
        fetched_from_disk() - before
    };
    misses_of(true);
    assert_eq!(misses_of(true), blocks - 16);
    assert_eq!(misses_of(false), blocks - 16);
}

#[test]
fn a_walk_of_a_long_scan_reads_many_blocks_at_once_but_not_far_ahead() {
    let settings = TableSettings {
        compression: Compression::None,
        ..SETTINGS
    };
    let (file, table) = table(&settings, &even_records(30_000));
    let blocks = data_blocks(&table).len() as u64;
    let before = file.reads();
    walk(&table, Bound::Unbounded, SCAN).unwrap();
    let reads = file.reads() - before;
    assert!(blocks > 100 && reads < blocks / 3, "{reads} for {blocks}");
    let before = file.bytes_read();
    let mut cursor = table.cursor(Bound::Unbounded, SCAN);
    let mut bytes = 0;
    while bytes < 64 << 10 {
        bytes += cursor.next().unwrap().unwrap().entry.data_bytes() as u64;
    }
    let read = file.bytes_read() - before;
    assert!(read < 4 * bytes, "{read} for {bytes}");
}

#[test]
fn a_pinned_filter_answers_as_its_pages_do_and_without_the_cache() {
    let records = even_records(40_000);
    let file = Arc::new(TestFile::default());
    write(&file, &SETTINGS, &records);
    let (paged_cache, held_cache) = (cache(), cache());
    let paged = open(&file, &paged_cache).unwrap();
    let held = open_holding(&file, &held_cache, 0);
    let held_bytes = held_cache.used_bytes();
    assert!(held_bytes > 40_000, "more than a byte a key");
    assert!(paged_cache.used_bytes() < 1000);
    let opened = file.reads();
    for number in 0..2_000 {
        let absent = key(2 * number + 1);
        let hash = KeyHash::of(absent.as_bytes());
        let asks = |table: &Table| table.get(absent.as_bytes(), hash, DiskAccess::MayRead);
        assert_eq!(asks(&held).unwrap(), None);
        assert_eq!(asks(&paged).unwrap(), None);
    }
    let (of_held, of_paged) = (held_cache.counters().sum(), paged_cache.counters().sum());
    assert!(of_held.filter_negatives > 1_900);
    assert_eq!(of_held.filter_negatives, of_paged.filter_negatives);
    assert_eq!(
        of_held.filter_false_positives,
        of_paged.filter_false_positives
    );
    let lookups = |counts: ReadCounts| counts.cache_hits + counts.cache_misses;
    assert_eq!(
        lookups(of_held),
        3 * of_held.filter_false_positives,
        "two of the index and one of the data"
    );
    assert_eq!(lookups(of_paged), 2_000 + lookups(of_held));
    assert!(file.reads() > opened);
    for record in &records[..500] {
        let found = get(&held, record.entry.key(), DiskAccess::MayRead).unwrap();
        assert_eq!(found.as_ref(), Some(&record.entry));
    }
    let blocks = held_cache.used_bytes() - held_bytes;
    drop(held);
    assert_eq!(held_cache.used_bytes(), blocks, "given back");
}

#[test]
fn filters_are_pinned_while_they_take_a_small_part_of_the_cache() {
    let file = Arc::new(TestFile::default());
    write(&file, &SETTINGS, &even_records(40_000));
    let needed = {
        let ample = cache();
        let _table = open_holding(&file, &ample, 0);
        usize::try_from(ample.used_bytes()).unwrap()
    };
    for (level, share) in [(0, 4), (1, 8), (6, 8)] {
        for (bytes, is_held) in [(needed * share, true), (needed * share - 1, false)] {
            let cache = Arc::new(BlockCache::new(bytes));
            let table = open_holding(&file, &cache, level);
            assert_eq!(cache.used_bytes() > 0, is_held, "level {level}");
            let found = get(&table, key(2).as_bytes(), DiskAccess::MayRead);
            assert!(found.unwrap().is_some());
        }
    }
}

#[test]
fn a_large_value_is_alone_in_its_block() {
    let large = Record {
        sequence: 0,
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
    assert_eq!(data_blocks(&table).len(), 3);
    check(&table, &records);
}

#[test]
fn offsets_past_four_gigabytes_are_written_and_read() {
    let records = random_records(&mut fastrand::Rng::with_seed(14), 400);
    let file = Arc::new(TestFile::default());
    let mut writer = TableWriter::create(Arc::<TestFile>::clone(&file), Path::new(PATH), &SETTINGS);
    writer.skip((4 << 30) - 10_000);
    for record in &records {
        writer.add(record.lend()).unwrap();
    }
    writer.finish().unwrap();
    assert!(file.len().unwrap() > 4 << 30);
    check(&open(&file, &cache()).unwrap(), &records);
}
