//! The store against a map of newest versions, under random operations, ingests,
//! background work, flushes, compactions and reopenings.

use crate::common::{self, World};
use base::{Entry, Expiry, NewerVersion, Timestamp};
use fastrand::Rng;
use lsm::{Engine, Error, Ingest, Lookup, Scan};
use lsm_testing::{BlockingWrite, newer_version_of};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const KEYS: u64 = 60;

/// Every entry that expires has expired at this time.
const EXPIRED_UNIX_MS: u64 = 1_100_000;

/// The newest version of each key.
type Model = BTreeMap<Vec<u8>, Entry>;

/// What entries are written at some moment.
#[derive(Clone, Copy)]
struct Load {
    /// The first of the keys, and how many there are. If they are few, most tables overlap few
    /// others.
    first: u64,
    keys: u64,
    /// With few timestamps versions tie, unless each has to be unique.
    unique: Option<u64>,
}

fn random_entry(rng: &mut Rng, load: Load) -> Entry {
    let key = format!("key-{:02}", (load.first + rng.u64(0..load.keys)) % KEYS);
    let timestamp = Timestamp::from_u64(match load.unique {
        None => rng.u64(1..200),
        Some(number) => rng.u64(1..200) << 32 | number,
    });
    if rng.u8(0..4) == 0 {
        return Entry::tombstone(key.as_bytes(), timestamp, rng.u8(1..4));
    }
    let expiry = if rng.u8(0..4) == 0 {
        Expiry::at_unix_ms(rng.u64(900_000..1_100_000))
    } else {
        Expiry::NEVER
    };
    let length = if rng.u8(0..30) == 0 {
        rng.usize(0..3000)
    } else {
        rng.usize(0..40)
    };
    let value = vec![rng.u8(b'a'..b'e'); length];
    Entry::value(key.as_bytes(), timestamp, &value, expiry, rng.u8(1..4))
}

/// What the store is told.
#[derive(Default)]
struct Arrivals {
    /// How many records it has ever taken.
    records: u64,
    /// Some sequence numbers, each with what has arrived since.
    since: Vec<(u64, Vec<Entry>)>,
}

impl Arrivals {
    fn add(&mut self, entry: &Entry) {
        self.records += 1;
        for (_, entries) in &mut self.since {
            entries.push(entry.clone());
        }
    }

    /// Checks that the store knows of all newest versions that have arrived.
    fn check(&self, engine: &Engine, model: &Model) {
        assert_eq!(engine.acknowledged().total, self.records);
        for (sequence, entries) in &self.since {
            let changes = engine.changes_since(*sequence).unwrap();
            // A flush leaves out what newer versions in its memtable hide.
            let is_newest = |entry: &&Entry| model.get(entry.key()) == Some(entry);
            for entry in entries.iter().filter(is_newest) {
                let mut bounds = changes.iter().filter_map(|list| {
                    let after = list.partition_point(|(key, _)| key.as_slice() <= entry.key());
                    list[..after].last().map(|(_, least)| *least)
                });
                assert!(
                    bounds.any(|least| least <= entry.timestamp()),
                    "{entry:?} has arrived since {sequence}"
                );
            }
        }
    }
}

/// An ingest under way, and what was pushed to it.
struct Pushed {
    ingest: Ingest,
    entries: Vec<Entry>,
}

impl Pushed {
    /// Pushes a few entries, or returns `false` when the ingest has failed.
    fn push_some(&mut self, rng: &mut Rng, load: Load) -> bool {
        for _ in 0..rng.usize(1..12) {
            let entry = random_entry(rng, load);
            let last = self.entries.last();
            if last.is_some_and(|last| entry.key() <= last.key()) {
                continue;
            }
            if unless_full(self.ingest.push(&entry)).is_none() {
                return false;
            }
            self.entries.push(entry);
        }
        true
    }

    fn commit(self, model: &mut Model, arrivals: &mut Arrivals) {
        let Some(ingested) = unless_full(self.ingest.commit()) else {
            return;
        };
        assert_eq!(ingested.records, self.entries.len() as u64);
        for entry in &self.entries {
            apply(model, entry);
            arrivals.add(entry);
        }
    }
}

fn apply(model: &mut Model, entry: &Entry) {
    match model.get_mut(entry.key()) {
        Some(held) if held.rank() >= entry.rank() => {}
        Some(held) => *held = entry.clone(),
        None => {
            model.insert(entry.key().to_vec(), entry.clone());
        }
    }
}

/// Whether the operation succeeded. A full disk may refuse it.
fn unless_full<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(done) => Some(done),
        Err(error) => {
            assert!(matches!(error, Error::DiskFull), "{error}");
            None
        }
    }
}

fn check_write(engine: &Engine, model: &mut Model, arrivals: &mut Arrivals, entry: &Entry) {
    let Some(applied) = unless_full(engine.write(entry.clone())) else {
        return;
    };
    let newest = model.get(entry.key()).map(Entry::timestamp);
    let newer = newest.filter(|newest| *newest > entry.timestamp());
    // `newer_versions.rs` tests which write was first.
    let is_right = match newer_version_of(&applied) {
        NewerVersion::None => true,
        NewerVersion::At(newest) => newest > entry.timestamp() && Some(newest) <= newer,
        NewerVersion::Overtaken(_) => false,
        NewerVersion::Unknown(bound) => bound > entry.timestamp() && newer.is_some(),
    };
    assert!(is_right, "{entry:?} was told {applied:?} beside {newest:?}");
    apply(model, entry);
    arrivals.add(entry);
}

/// The version, or the tombstone that compaction may have left of it.
fn with_burial(found: Entry, expected: &Entry) -> Entry {
    let tombstone = Entry::tombstone(expected.key(), expected.timestamp(), expected.copies());
    let has_expired = expected.expiry().has_passed(EXPIRED_UNIX_MS);
    if has_expired && found == tombstone {
        return expected.clone();
    }
    found
}

fn check_reads(engine: &Engine, model: &Model, rng: &mut Rng) {
    let key = format!("key-{:02}", rng.u64(0..KEYS + 2));
    let expected = model.get(key.as_bytes());
    let check = |found: Option<Entry>| {
        let found = match (found, expected) {
            (Some(found), Some(expected)) => Some(with_burial(found, expected)),
            (found, _) => found,
        };
        assert_eq!(found.as_ref(), expected, "{key}");
    };
    check(engine.get(key.as_bytes()).unwrap());
    if let Lookup::Found(found) = engine.get_cached(key.as_bytes()).unwrap() {
        check(found);
    }
}

/// A scan in progress, and the entries that it still has to return.
struct Expected {
    scan: Scan,
    rest: Vec<Entry>,
}

fn start_scan(engine: &Engine, model: &Model, rng: &mut Rng) -> Expected {
    let start = format!("key-{:02}", rng.u64(0..KEYS)).into_bytes();
    let end = rng
        .bool()
        .then(|| format!("key-{:02}", rng.u64(0..KEYS)).into_bytes());
    let rest = model
        .iter()
        .filter(|(key, _)| **key >= start && end.as_ref().is_none_or(|end| *key < end))
        .map(|(_, entry)| entry.clone())
        .collect();
    Expected {
        scan: engine.scan(&start, end.as_deref()),
        rest,
    }
}

/// Copies of the next entries that the scan lends. It holds what it reads until the next batch,
/// whatever becomes of the store meanwhile.
fn lent(scan: &mut Scan, entries_max: usize) -> Vec<Entry> {
    let mut entries = Vec::new();
    while entries.len() < entries_max && scan.advance().unwrap() {
        entries.push(scan.entry().to_entry());
    }
    entries
}

/// Reads a batch and compares it; `false` when the scan has ended.
fn advance(expected: &mut Expected, rng: &mut Rng) -> bool {
    let batch = if rng.bool() {
        expected.scan.next_batch(rng.usize(1..2000)).unwrap()
    } else {
        lent(&mut expected.scan, rng.usize(1..20))
    };
    if batch.is_empty() {
        assert_eq!(expected.rest, [], "the scan ended early");
        return false;
    }
    let rest = expected
        .rest
        .split_off(batch.len().min(expected.rest.len()));
    assert_eq!(batch.len(), expected.rest.len());
    let batch: Vec<_> = std::iter::zip(batch, &expected.rest)
        .map(|(found, expected)| with_burial(found, expected))
        .collect();
    assert_eq!(
        batch, expected.rest,
        "a scan sees what was there when it began"
    );
    expected.rest = rest;
    true
}

fn run(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut world = World::new().with_blobs(seed % 2 == 1);
    world.options.memtable_bytes = rng.usize(2_000..20_000);
    world.options.memtables_frozen_max = rng.usize(1..4);
    world.options.table_bytes = rng.u64(500..16_000);
    world.options.compaction = rng.u8(0..4) != 0;
    world.options.compactions_max = rng.usize(1..=4);
    if rng.u8(0..4) == 0 {
        world.options.filter_false_positive_rate = None;
    }
    if rng.u8(0..4) == 0 {
        world.options.compression = lsm::Compression::None;
    }
    // The tombstone of an expired version may outrank another version with the same
    // timestamp. Outside this test no two writes have the same timestamp.
    let is_unique = rng.bool();
    let narrow = if rng.bool() { rng.u64(2..8) } else { 0 };
    world.trusts_clock.store(is_unique, Relaxed);
    let mut model = Model::new();
    let mut engine = world.open();
    let mut scans: Vec<Expected> = Vec::new();
    let mut ingests: Vec<Pushed> = Vec::new();
    let mut arrivals = Arrivals::default();
    for number in 0..600 {
        let load = Load {
            first: number / 20 * narrow,
            keys: if narrow == 0 { KEYS } else { narrow },
            unique: is_unique.then_some(number),
        };
        match rng.u32(0..100) {
            0..47 => {
                let entry = random_entry(&mut rng, load);
                check_write(&engine, &mut model, &mut arrivals, &entry);
            }
            47..55 => {
                let ingest = if ingests.is_empty() || rng.u8(0..8) == 0 {
                    unless_full(engine.begin_ingest(common::LATE)).map(|ingest| Pushed {
                        ingest,
                        entries: Vec::new(),
                    })
                } else {
                    Some(ingests.swap_remove(rng.usize(0..ingests.len())))
                };
                if let Some(mut ingest) = ingest
                    && ingest.push_some(&mut rng, load)
                {
                    match rng.u8(0..10) {
                        0..6 => ingest.commit(&mut model, &mut arrivals),
                        6 => {}
                        _ => ingests.push(ingest),
                    }
                }
            }
            55 => {
                arrivals.check(&engine, &model);
                arrivals.since.push((engine.last_sequence(), Vec::new()));
            }
            56..75 => check_reads(&engine, &model, &mut rng),
            75..85 => {
                world.executor.run_one(|jobs| rng.usize(0..jobs));
            }
            85..88 => drop(unless_full(engine.flush())),
            88 => drop(unless_full(engine.compact())),
            89..93 => scans.push(start_scan(&engine, &model, &mut rng)),
            93..98 => {
                if !scans.is_empty() {
                    let index = rng.usize(0..scans.len());
                    if !advance(&mut scans[index], &mut rng) {
                        scans.swap_remove(index);
                    }
                }
            }
            98 => match rng.u8(0..4) {
                0 => world.memory.set_capacity(world.memory.used_bytes()),
                1 => world.memory.set_capacity(u64::MAX),
                _ => world.executor.run_for(Duration::from_secs(40)),
            },
            _ => {
                scans.clear();
                arrivals.check(&engine, &model);
                arrivals.since.clear();
                let mut late = None;
                if rng.bool() {
                    unless_full(engine.close());
                    // It outlives its engine, and the next one has the folder.
                    late = ingests.pop();
                }
                ingests.clear();
                drop(engine);
                engine = match unless_full(world.try_open()) {
                    Some((engine, _)) => engine,
                    None => {
                        world.memory.set_capacity(u64::MAX);
                        world.open()
                    }
                };
                if let Some(mut late) = late {
                    let closed = late.ingest.push(&random_entry(&mut rng, load));
                    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
                }
            }
        }
    }
    for mut expected in scans {
        while advance(&mut expected, &mut rng) {}
    }
    arrivals.check(&engine, &model);
    let all: Vec<_> = model.values().cloned().collect();
    let found = common::scan_all(&engine, "", None);
    assert_eq!(found.len(), all.len());
    let found = std::iter::zip(found, &all).map(|(found, expected)| with_burial(found, expected));
    assert_eq!(found.collect::<Vec<_>>(), all);
}

#[test]
fn the_store_is_a_map_of_newest_versions() {
    for seed in 0..300 {
        let result = std::panic::catch_unwind(|| run(seed));
        assert!(result.is_ok(), "failed with seed {seed}");
    }
}
