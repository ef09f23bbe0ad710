//! A deterministic world for a store: a disk in memory, and a clock and an executor that
//! only the test moves.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::expect_used,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "each program uses its part, and a test that cannot go on panics"
)]

use base::{Clock, Entry, Expiry, Kind, ManualClock, SeededRandom, Timestamp};
use lsm::{
    Admission, Disk, Engine, Environment, Error, Generation, Ingested, LateSource, NonOwned,
    Options, Outbox, Outcome, RecoveryReport,
};
use lsm_testing::{MemoryDisk, StepExecutor};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// From how many bytes on values lie in blob tables, where a test runs with these.
const BLOB_VALUE_BYTES_MIN: usize = 20;

/// Everything outside the store.
pub struct World {
    pub disk: Arc<dyn Disk>,
    pub memory: Arc<MemoryDisk>,
    pub clock: Arc<ManualClock>,
    pub executor: Arc<StepExecutor>,
    /// The GC threshold, as a number.
    pub bound: Arc<AtomicU64>,
    /// What the store may hold although it belongs to other stores.
    pub non_owned: Option<NonOwned>,
    /// Whether the store may free entries that have expired by the clock.
    pub trusts_clock: Arc<AtomicBool>,
    /// How long compaction rests after each step if it is not urgent, in milliseconds.
    pub rest_ms: Arc<AtomicU64>,
    pub options: Options,
}

impl World {
    /// An empty disk, and options for a store so small that a few writes reach every part
    /// of it.
    pub fn new() -> Self {
        Self::on(Arc::new(MemoryDisk::new()))
    }

    /// The same with a disk that may hold a store.
    pub fn on(memory: Arc<MemoryDisk>) -> Self {
        let clock = Arc::new(ManualClock::new(1_000_000));
        Self {
            disk: Arc::clone(&memory) as _,
            memory,
            executor: Arc::new(StepExecutor::new(Arc::clone(&clock))),
            clock,
            bound: Arc::default(),
            non_owned: None,
            trusts_clock: Arc::new(AtomicBool::new(true)),
            rest_ms: Arc::default(),
            options: Options {
                memtable_bytes: 8 << 10,
                cache_bytes: 256 << 10,
                block_bytes: 512,
                table_bytes: 16 << 10,
                open_files_max: 3,
                disk_reserve_bytes: 64 << 10,
                ..Options::default()
            },
        }
    }

    /// The same, with nearly all values in blob tables, or with none.
    pub fn with_blobs(mut self, has_blobs: bool) -> Self {
        self.options.blob_value_bytes_min = has_blobs.then_some(BLOB_VALUE_BYTES_MIN);
        self
    }

    pub fn folder() -> PathBuf {
        PathBuf::from("/data/store")
    }

    pub fn try_open(&self) -> Result<(Engine, RecoveryReport), Error> {
        Engine::open(self.environment(), self.options.clone())
    }

    pub fn environment(&self) -> Environment {
        let bound = Arc::clone(&self.bound);
        let rest_ms = Arc::clone(&self.rest_ms);
        let (clock, trusts_clock) = (Arc::clone(&self.clock), Arc::clone(&self.trusts_clock));
        Environment {
            folder: Self::folder(),
            disk: Arc::clone(&self.disk),
            clock: Arc::clone(&self.clock) as _,
            random: Arc::new(SeededRandom::new(7)),
            executor: Arc::clone(&self.executor) as _,
            gc_threshold: Arc::new(move || Timestamp::from_u64(bound.load(Ordering::Relaxed))),
            non_owned: self.non_owned.clone(),
            expired_before_unix_ms: Arc::new(move || {
                if trusts_clock.load(Ordering::Relaxed) {
                    clock.unix_ms()
                } else {
                    0
                }
            }),
            rest_after: Arc::new(move |_took, urgency| {
                let rest = Duration::from_millis(rest_ms.load(Ordering::Relaxed));
                rest.mul_f64(1.0 - urgency)
            }),
        }
    }

    pub fn open(&self) -> Engine {
        self.try_open().expect("the store opens").0
    }
}

pub fn put(key: &str, timestamp: u64, value: &str) -> Entry {
    Entry::value(
        key.as_bytes(),
        Timestamp::from_u64(timestamp),
        value.as_bytes(),
        Expiry::NEVER,
        3,
    )
}

pub fn delete(key: &str, timestamp: u64) -> Entry {
    Entry::tombstone(key.as_bytes(), Timestamp::from_u64(timestamp), 3)
}

/// The value that a reader sees: `None` for nothing or a tombstone.
pub fn read(engine: &Engine, key: &str) -> Option<String> {
    let entry = engine.get(key.as_bytes()).expect("the read succeeds")?;
    (entry.kind() == Kind::Value)
        .then(|| String::from_utf8(entry.value_bytes().to_vec()).expect("text"))
}

/// All entries of a range, tombstones among them.
pub fn scan_all(engine: &Engine, start: &str, end: Option<&str>) -> Vec<Entry> {
    let mut scan = engine.scan(start.as_bytes(), end.map(str::as_bytes));
    let mut all = Vec::new();
    loop {
        let batch = scan.next_batch(300).expect("the scan succeeds");
        if batch.is_empty() {
            return all;
        }
        all.extend(batch);
    }
}

/// Keeps the outcomes of writes, each delivery apart.
#[derive(Default)]
pub struct CollectedOutcomes {
    deliveries: Mutex<Vec<Vec<Outcome>>>,
}

impl CollectedOutcomes {
    /// How many outcomes were delivered and not taken.
    pub fn count(&self) -> u64 {
        let deliveries = self.deliveries.lock().expect("no test panics in it");
        deliveries.iter().map(Vec::len).sum::<usize>() as u64
    }

    /// Takes the outcomes, those of each delivery apart.
    pub fn take_deliveries(&self) -> Vec<Vec<Outcome>> {
        std::mem::take(&mut self.deliveries.lock().expect("no test panics in it"))
    }

    /// Takes all outcomes, in the order of their delivery.
    pub fn take(&self) -> Vec<Outcome> {
        self.take_deliveries().into_iter().flatten().collect()
    }
}

impl Outbox for CollectedOutcomes {
    fn deliver(&self, outcomes: Vec<Outcome>) {
        let mut deliveries = self.deliveries.lock().expect("no test panics in it");
        deliveries.push(outcomes);
    }
}

/// How late writes come while nothing is dropped, in the first generation.
pub const LATE: Admission = Admission::Late {
    gc_threshold: Timestamp::ZERO,
    generation: Generation::first(LateSource::RepairWrite),
};

/// Stores a version as a late write that was admitted under this GC threshold.
pub fn write_late(engine: &Engine, entry: Entry, gc_threshold: u64) -> Result<(), Error> {
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    let admission = Admission::Late {
        gc_threshold: Timestamp::from_u64(gc_threshold),
        generation: engine.generation(LateSource::RepairWrite),
    };
    engine.submit_batch([(entry, admission, 0)], &outbox);
    engine.commit_waiting();
    collected.take().remove(0).result.map(drop)
}

/// Ingests entries, which are sorted by key.
pub fn ingest(engine: &Engine, entries: &[Entry]) -> Result<Ingested, Error> {
    let mut ingest = engine.begin_ingest(LATE)?;
    for entry in entries {
        ingest.push(entry)?;
    }
    ingest.commit()
}

/// The number of tables of each level.
pub fn tables(engine: &Engine) -> Vec<u64> {
    let levels = engine.statistics().levels;
    levels.iter().map(|level| level.tables).collect()
}

/// The files of tables in the folder.
pub fn table_files(world: &World) -> usize {
    let names = world.memory.list(&World::folder());
    let names = names.expect("a disk in memory lists its files");
    names.iter().filter(|name| name.ends_with(".sst")).count()
}

/// A value that hardly compresses.
pub fn long(seed: u64, bytes: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.alphanumeric())
        .take(bytes)
        .collect()
}
