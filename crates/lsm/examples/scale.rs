//! What operations cost in a store of many tables.
//!
//! ```text
//! cargo run --release -p lsm --example scale fill FOLDER [tables] [kilobytes a table]
//! cargo run --release -p lsm --example scale measure FOLDER [open files]
//! ```
//!
//! `fill` makes a store whose last level has that many tables of small values. `measure` opens it
//! and prints a line `NAME VALUE` for each figure, the medians of operations in seconds:
//!
//! - `open`; `pick` of a compaction that is not due;
//! - `get` of a key, `scan` of ten; `get_writing` and `scan_writing`, the same while another thread
//!   writes, flushes and compacts;
//! - `edit` of the manifest that changes nothing; `edit_unsynced`, the same without its sync;
//!   `ingest_unsynced` of a table with one key into the level, without any sync;
//! - `statistics` of the store; `look_at_all`: a look at each table, as for the progress of a repair;
//! - `drop`: until 1,000 deletes and what they delete are gone, after their flush;
//! - `tables`, `descriptors`, `resident` bytes of the process, `cached` bytes of blocks and filters.
//!
//! `bench/engines/scale.py` runs both.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]
#![expect(
    clippy::disallowed_methods,
    reason = "it measures the time of the machine"
)]

use base::{Entry, Expiry, Timestamp};
use lsm::{Admission, Disk, Durability, Engine, Error, JobClass, Options, RealDisk};
use lsm_testing::{BlockingWrite, HookedDisk, StepExecutor, SyncHook, environment};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const VALUE: [u8; 100] = [7; 100];
/// An ingest holds its tables; each edit names this many.
const TABLES_AN_INGEST: u64 = 500;
/// How often a figure is measured whose median counts.
const ROUNDS: usize = 1001;
const DELETES: u64 = 1_000;
/// The timestamps of what is written beside the store's own.
const LATER: u64 = 1 << 40;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let folder = arguments.next().ok_or("name a folder")?;
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    match what.as_str() {
        "fill" => fill(Path::new(&folder), number(100)?, number(64)?),
        "measure" => measure(Path::new(&folder), number(1024)?),
        _ => Err("fill or measure".into()),
    }
}

/// A store that is open, and what runs its jobs.
struct Opened {
    engine: Engine,
    executor: Arc<StepExecutor>,
    /// Below which timestamp tombstones may go.
    gc_threshold: Arc<AtomicU64>,
}

impl Opened {
    fn open(folder: &Path, disk: Arc<dyn Disk>, options: Options) -> Result<Self, Error> {
        let (mut environment, executor) = environment(disk);
        let gc_threshold = Arc::new(AtomicU64::new(0));
        let threshold = Arc::clone(&gc_threshold);
        environment.folder = folder.to_owned();
        environment.gc_threshold = Arc::new(move || Timestamp::from_u64(threshold.load(Relaxed)));
        environment.rest_after = Arc::new(|_took, _urgency| Duration::ZERO);
        let (engine, _) = Engine::open(environment, options)?;
        Ok(Self {
            engine,
            executor,
            gc_threshold,
        })
    }

    fn tables(&self) -> u64 {
        let levels = self.engine.statistics().levels;
        levels.iter().map(|level| level.tables).sum()
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("user{number:012}").into_bytes()
}

fn value(number: u64, timestamp: u64) -> Entry {
    let timestamp = Timestamp::from_u64(timestamp);
    Entry::value(&key(number), timestamp, &VALUE, Expiry::NEVER, 1)
}

fn fill(folder: &Path, tables: u64, kilobytes: u64) -> Result<(), Failure> {
    let options = Options {
        table_bytes: kilobytes * 1000,
        compression: lsm::Compression::None,
        ..Options::default()
    };
    let store = Opened::open(folder, Arc::new(RealDisk::default()), options)?;
    let mut next = 0;
    loop {
        let made = store.tables();
        if made >= tables {
            break;
        }
        let records = TABLES_AN_INGEST.min(tables - made) * kilobytes * 1000 / 130;
        let mut ingest = store.engine.begin_ingest(Admission::Ordinary)?;
        for _ in 0..records.max(1) {
            ingest.push(&value(next, next + 1))?;
            next += 1;
        }
        ingest.commit()?;
    }
    store.engine.close()?;
    println!("keys {next}");
    Ok(())
}

fn measure(folder: &Path, open_files_max: u64) -> Result<(), Failure> {
    let options = Options {
        durability: Durability::Os,
        open_files_max: open_files_max as usize,
        purge_wait: Duration::ZERO,
        ..Options::default()
    };
    let began = Instant::now();
    let store = Opened::open(folder, Arc::new(RealDisk::default()), options.clone())?;
    println!("open {}", began.elapsed().as_secs_f64());
    let began = Instant::now();
    store.executor.run_class(JobClass::Compaction);
    println!("pick {}", began.elapsed().as_secs_f64());
    let last = store.engine.last_key().ok_or("the store is empty")?;
    let keys: u64 = std::str::from_utf8(&last[4..])?.parse()?;
    reads(&store, keys, "")?;
    let nothing = || store.engine.discard_set_aside(Timestamp::ZERO);
    println!("edit {}", median(nothing)?);
    let statistics = || {
        let _ = store.engine.statistics();
        Ok(())
    };
    println!("statistics {}", median(statistics)?);
    let look_at_all = || {
        let _ = store.engine.table_bytes_below(&last);
        Ok(())
    };
    println!("look_at_all {}", median(look_at_all)?);
    println!("tables {}", store.tables());
    println!("resident {}", resident()?);
    println!("cached {}", store.engine.statistics().cache_bytes);
    let descriptors = std::fs::read_dir("/proc/self/fd")?.count();
    println!("descriptors {descriptors}");
    drop_deleted(&store, keys)?;
    reads_while_writing(&store, keys)?;
    store.engine.close()?;
    drop(store);
    unsynced(folder, options, keys)
}

/// Reads and scans, of which it prints the medians.
fn reads(store: &Opened, keys: u64, while_what: &str) -> Result<(), Error> {
    let mut random = fastrand::Rng::with_seed(1);
    let get = median(|| store.engine.get(&key(random.u64(..keys))).map(drop))?;
    println!("get{while_what} {get}");
    let mut random = fastrand::Rng::with_seed(1);
    let scan = median(|| {
        let first = random.u64(..keys);
        let mut scan = store.engine.scan(&key(first), Some(&key(first + 10)));
        scan.next_batch(1 << 20).map(drop)
    })?;
    println!("scan{while_what} {scan}");
    Ok(())
}

/// Deletes some keys that follow each other, and has compaction drop them.
fn drop_deleted(store: &Opened, keys: u64) -> Result<(), Failure> {
    let first = keys / 2;
    for number in first..first + DELETES {
        let deleted = Entry::tombstone(&key(number), Timestamp::from_u64(LATER + number), 1);
        store.engine.write(deleted)?;
    }
    store.engine.flush()?;
    store.executor.run_all_due();
    store.gc_threshold.store(2 * LATER, Relaxed);
    store.engine.apply_gc_threshold();
    let began = Instant::now();
    let mut rounds = 0..10_000;
    while store.engine.statistics().table_tombstones > 0 {
        rounds.next().ok_or("the tombstones stay")?;
        // The store's clock, by which it paces itself.
        store.executor.run_for(Duration::from_millis(10));
    }
    println!("drop {}", began.elapsed().as_secs_f64());
    store.gc_threshold.store(0, Relaxed);
    Ok(())
}

fn reads_while_writing(store: &Opened, keys: u64) -> Result<(), Failure> {
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(2);
            let mut timestamp = 2 * LATER;
            while !ends.load(Relaxed) {
                timestamp += 1;
                store.engine.write(value(random.u64(..keys), timestamp))?;
                if timestamp.is_multiple_of(100) {
                    store.executor.run_for(Duration::from_millis(10));
                }
            }
            Ok::<_, Error>(timestamp - 2 * LATER)
        });
        let read = reads(store, keys, "_writing");
        ends.store(true, Relaxed);
        let written = writer.join().map_err(|_| "the writer panicked")??;
        println!("written {written}");
        Ok(read?)
    })
}

/// Edits of the manifest on a disk whose syncs do nothing.
fn unsynced(folder: &Path, options: Options, keys: u64) -> Result<(), Failure> {
    let disk = Arc::new(HookedDisk::new(Arc::new(RealDisk::default())));
    let skip: Arc<SyncHook> = Arc::new(|_, _| Ok(()));
    disk.hook_syncs(Arc::clone(&skip));
    disk.hook_folder_syncs(skip);
    let store = Opened::open(folder, disk, options)?;
    let nothing = || store.engine.discard_set_aside(Timestamp::ZERO);
    println!("edit_unsynced {}", median(nothing)?);
    let mut next = keys;
    let ingest = median(|| {
        next += 1;
        let mut ingest = store.engine.begin_ingest(Admission::Ordinary)?;
        ingest.push(&value(next, 3 * LATER + next))?;
        ingest.commit().map(drop)
    });
    println!("ingest_unsynced {}", ingest?);
    Ok(())
}

/// The bytes of the process that are in memory.
fn resident() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let resident = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib: u64 = resident
        .and_then(|line| line.split_whitespace().nth(1))
        .ok_or("no VmRSS")?
        .parse()?;
    Ok(kib << 10)
}

/// The median of the seconds that `work` takes.
fn median(mut work: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut took = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        work()?;
        took.push(began.elapsed().as_secs_f64());
    }
    took.sort_by(f64::total_cmp);
    Ok(took[ROUNDS / 2])
}
