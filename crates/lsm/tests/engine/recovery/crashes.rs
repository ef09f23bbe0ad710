//! Power cuts: whatever unsynced pages survive, the store opens and holds
//! every write that was acknowledged, and of each ingest all or nothing.

use crate::common::{self, World, ingest};
use base::{Entry, Expiry, Timestamp};
use fastrand::Rng;
use lsm::{Disk, Durability, Engine, Error};
use lsm_testing::{BlockingWrite, Fault, FaultyDisk, MemoryDisk};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The keys that only ingests write.
const BULK_KEYS: usize = 12;

/// The writes to a store, and its answers.
#[derive(Default)]
struct History {
    /// All writes, in their order.
    written: Vec<Entry>,
    /// The winner among the acknowledged writes of each key.
    acknowledged: BTreeMap<Vec<u8>, Entry>,
}

impl History {
    fn write(&mut self, engine: &Engine, entry: &Entry) -> Result<(), Error> {
        self.written.push(entry.clone());
        engine.write(entry.clone())?;
        let held = self
            .acknowledged
            .entry(entry.key().to_vec())
            .or_insert_with(|| entry.clone());
        if entry.rank() > held.rank() {
            *held = entry.clone();
        }
        Ok(())
    }

    /// Ingests all bulk keys at once, in several tables, under one timestamp.
    fn ingest(&mut self, engine: &Engine, number: u64, bytes: usize) -> Result<(), Error> {
        let timestamp = Timestamp::from_u64(number);
        let value = vec![number as u8; bytes];
        let entries: Vec<_> = (0..BULK_KEYS)
            .map(|key| {
                let key = format!("bulk-{key:02}");
                Entry::value(key.as_bytes(), timestamp, &value, Expiry::NEVER, 1)
            })
            .collect();
        self.written.extend(entries.iter().cloned());
        ingest(engine, &entries)?;
        for entry in entries {
            self.acknowledged.insert(entry.key().to_vec(), entry);
        }
        Ok(())
    }

    /// Checks that no acknowledged write is missing, that of an ingest all or nothing is
    /// there, and that the store holds nothing that was never written.
    fn check(&self, engine: &Engine, context: &str) {
        for (key, acknowledged) in &self.acknowledged {
            let found = engine.get(key).unwrap();
            assert!(
                found
                    .as_ref()
                    .is_some_and(|found| found.rank() >= acknowledged.rank()),
                "{context}: {acknowledged:?} was acknowledged, {found:?} is there"
            );
        }
        let all = common::scan_all(engine, "", None);
        let bulk = all.iter().filter(|entry| entry.key().starts_with(b"bulk"));
        let bulk: Vec<_> = bulk.map(Entry::timestamp).collect();
        assert!(
            bulk.is_empty() || bulk.len() == BULK_KEYS && bulk.iter().all(|at| *at == bulk[0]),
            "{context}: half an ingest: {bulk:?}"
        );
        for found in all {
            assert!(
                self.written.contains(&found),
                "{context}: {found:?} was never written"
            );
        }
    }
}

/// With `is_ordered` the keys ascend with the numbers, so that most tables move down as they are.
fn random_entry(rng: &mut Rng, number: u64, is_ordered: bool) -> Entry {
    let key = if is_ordered {
        format!("key-{:04}", number * 2 + rng.u64(0..3))
    } else {
        format!("key-{:02}", rng.u64(0..30))
    };
    let key = key.into_bytes();
    let timestamp = Timestamp::from_u64(number);
    if rng.u8(0..5) == 0 {
        return Entry::tombstone(&key, timestamp, 1);
    }
    let value = vec![rng.u8(..); rng.usize(0..300)];
    Entry::value(&key, timestamp, &value, Expiry::NEVER, 1)
}

/// Writes and does background work until the disk fails or all writes are done.
fn work(world: &World, rng: &mut Rng, history: &mut History, writes: u64) -> Result<(), Error> {
    let (engine, _) = world.try_open()?;
    let is_ordered = rng.bool();
    for number in 1..=writes {
        let entry = random_entry(rng, number, is_ordered);
        history.write(&engine, &entry)?;
        match rng.u8(0..20) {
            0..6 => {
                world.executor.run_one(|jobs| rng.usize(0..jobs));
            }
            6 => engine.flush()?,
            // After so long the store records a claim for the log.
            7 => world.executor.run_for(std::time::Duration::from_secs(2)),
            8 => history.ingest(&engine, number, rng.usize(0..3000))?,
            _ => {}
        }
    }
    Ok(())
}

/// Opens the store after a crash twice, because the first opening may change files.
fn check_after_crash(disk: MemoryDisk, history: &History, context: &str) {
    let world = World::on(Arc::new(disk));
    for opening in 0..2 {
        let (engine, _) = world
            .try_open()
            .unwrap_or_else(|error| panic!("{context}, opening {opening}: {error}"));
        history.check(&engine, context);
        if opening == 0 {
            engine.compact().unwrap();
            history.check(&engine, context);
        }
    }
}

#[test]
fn acknowledged_writes_survive_any_combination_of_lost_pages() {
    for seed in 0..150 {
        let mut rng = Rng::with_seed(seed);
        let mut world = World::new().with_blobs(seed % 2 == 1);
        world.options.compactions_max = rng.usize(1..=4);
        let mut history = History::default();
        let writes = rng.u64(1..200);
        work(&world, &mut rng, &mut history, writes).unwrap();
        for round in 0..4 {
            let context = format!("seed {seed} round {round}");
            let likely = rng.u8(0..5);
            let disk = world.memory.crash_clone(&mut |_| rng.u8(0..4) < likely);
            check_after_crash(disk, &history, &context);
        }
        check_after_crash(
            world.memory.clone_synced(),
            &history,
            &format!("seed {seed}"),
        );
    }
}

/// A crash at any call: the disk fails from its i-th call on, which may have written a
/// part of its bytes, and unsynced pages are lost or kept.
#[test]
fn a_crash_in_any_disk_call_loses_nothing() {
    crash_in_any_disk_call(false);
    crash_in_any_disk_call(true);
}

fn crash_in_any_disk_call(has_blobs: bool) {
    let calls = {
        let mut world = World::new().with_blobs(has_blobs);
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
        world.disk = Arc::clone(&faulty) as _;
        work(&world, &mut Rng::with_seed(1), &mut History::default(), 120).unwrap();
        let names = world.memory.list(&World::folder()).unwrap();
        assert!(
            names.iter().any(|name| name.ends_with(".free")),
            "segments are used again: {names:?}"
        );
        faulty.calls()
    };
    assert!(calls > 300, "{calls}");
    for call in 0..calls {
        let mut rng = Rng::with_seed(call);
        let mut world = World::new().with_blobs(has_blobs);
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
        faulty.arm(
            Fault::at(call, std::io::ErrorKind::Other)
                .lasting()
                .with_short_writes(),
        );
        world.disk = faulty;
        let mut history = History::default();
        // Runs differ only in the order of jobs, so any last call will do.
        let _ = work(&world, &mut Rng::with_seed(1), &mut history, 120);
        for likely in [0, 2, 4] {
            let context = format!("blobs {has_blobs}, call {call}, {likely} of 4 pages kept");
            let disk = world.memory.crash_clone(&mut |_| rng.u8(0..4) < likely);
            check_after_crash(disk, &history, &context);
        }
    }
}

/// With `os` and `interval` a power cut may lose the last writes, but no others, and it
/// never looks like corruption.
#[test]
fn without_sync_a_power_cut_loses_a_tail_only() {
    for seed in 0..100 {
        let mut rng = Rng::with_seed(seed);
        let mut world = World::new().with_blobs(seed % 2 == 1);
        world.options.durability = if rng.bool() {
            Durability::Os
        } else {
            Durability::Interval(std::time::Duration::from_millis(10))
        };
        let mut history = History::default();
        let writes = rng.u64(1..200);
        work(&world, &mut rng, &mut history, writes).unwrap();
        let likely = rng.u8(0..5);
        let disk = world.memory.crash_clone(&mut |_| rng.u8(0..4) < likely);
        let after = World::on(Arc::new(disk));
        let engine = after.open();
        let found = common::scan_all(&engine, "", None);
        // The store holds some prefix of the writes, and all that was ingested.
        let prefixes = (0..=history.written.len()).any(|length| {
            let mut newest: BTreeMap<&[u8], &Entry> = BTreeMap::new();
            let ingested = history.written[length..].iter();
            let ingested = ingested.filter(|entry| entry.key().starts_with(b"bulk"));
            for entry in history.written[..length].iter().chain(ingested) {
                newest.insert(entry.key(), entry);
            }
            newest.values().copied().eq(found.iter())
        });
        assert!(prefixes, "seed {seed}: a write in the middle was lost");
    }
}
