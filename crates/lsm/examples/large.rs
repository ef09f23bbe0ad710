//! What long values cost, with their keys and apart from them in blob tables.
//!
//! ```text
//! cargo run --release -p lsm --example large [megabytes] [bytes a value] [overwrites]
//! ```
//!
//! It fills a store in the system's temporary folder, overwrites values at random as often as there
//! are keys times `overwrites`, and then scans everything. Time passes only with the writes, at
//! 20 MB/s, so that nothing but the scan depends on the machine. Before the scan the system gives
//! up what it has of the files in memory, which takes root.
//!
//! It prints for each: the bytes written to the disk for each byte of a key or a value (log, flushes
//! and compactions); the bytes of tables and blob tables for each live byte; and how fast the scan
//! was, the best of three.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use base::{Entry, Expiry, ManualClock, SeededRandom, Timestamp};
use lsm::{Durability, Engine, Environment, Options, RealDisk};
use lsm_testing::{BlockingWrite, StepExecutor, environment};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Values are pieces of this many bytes, so that making them costs nothing.
const POOL_BYTES: usize = 64 << 20;
/// From how many bytes on values lie in blob tables.
const BLOB_VALUE_BYTES_MIN: usize = 4 << 10;
/// How fast is written, in bytes a second.
const BYTES_PER_SECOND: f64 = 20e6;
/// How much a scan takes at a time.
const BATCH_BYTES: usize = 4 << 20;
const SCANS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse());
    let (megabytes, value_bytes, overwrites) = (argument(2048)?, argument(1 << 20)?, argument(2)?);
    let keys = (megabytes << 20) / value_bytes;
    println!("blob tables  written/accepted  tables/live  cold scan MB/s  MiB in blob tables");
    for blob_value_bytes_min in [None, Some(BLOB_VALUE_BYTES_MIN)] {
        let folder = tempfile::tempdir()?;
        let store = Store {
            folder: folder.path(),
            options: Options {
                durability: Durability::Os,
                blob_value_bytes_min,
                ..Options::default()
            },
            keys,
            value_bytes,
        };
        let figures = store.fill(overwrites)?;
        let mut fastest = 0.0_f64;
        for _ in 0..SCANS {
            fastest = fastest.max(store.scan_cold()?);
        }
        println!(
            "{:11}  {:16.2}  {:11.2}  {fastest:14.0}  {:18}",
            if blob_value_bytes_min.is_some() {
                "on"
            } else {
                "off"
            },
            figures.written,
            figures.space,
            figures.blob_bytes >> 20
        );
    }
    Ok(())
}

struct Store<'a> {
    folder: &'a Path,
    options: Options,
    keys: usize,
    value_bytes: usize,
}

struct Figures {
    written: f64,
    space: f64,
    blob_bytes: u64,
}

impl Store<'_> {
    fn environment(&self) -> (Environment, Arc<StepExecutor>) {
        let clock = Arc::new(ManualClock::new(1_800_000_000_000));
        let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
        let (mut environment, _) = environment(Arc::new(RealDisk::default()));
        environment.folder = self.folder.join("store");
        environment.clock = clock as _;
        environment.executor = Arc::clone(&executor) as _;
        environment.random = Arc::new(SeededRandom::new(1));
        environment.rest_after = Arc::new(|_took, _urgency| Duration::ZERO);
        (environment, executor)
    }

    /// Writes each key once in a random order, and then some at random.
    fn fill(&self, overwrites: usize) -> Result<Figures, Box<dyn std::error::Error>> {
        let (environment, executor) = self.environment();
        let (engine, _) = Engine::open(environment, self.options.clone())?;
        let mut random = fastrand::Rng::with_seed(1);
        let pool: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
            .take(POOL_BYTES + self.value_bytes)
            .collect();
        let mut order: Vec<usize> = (0..self.keys).collect();
        random.shuffle(&mut order);
        order.extend(
            std::iter::repeat_with(|| random.usize(..self.keys)).take(overwrites * self.keys),
        );
        let tick = Duration::from_secs_f64(self.value_bytes as f64 / BYTES_PER_SECOND);
        for (number, key) in order.iter().enumerate() {
            let at = random.usize(..POOL_BYTES);
            engine.write(Entry::value(
                key_of(*key).as_bytes(),
                Timestamp::from_u64(number as u64 + 1),
                &pool[at..at + self.value_bytes],
                Expiry::NEVER,
                3,
            ))?;
            executor.run_for(tick);
        }
        engine.flush()?;
        executor.run_for(Duration::from_secs(60));
        let statistics = engine.statistics();
        let levels: u64 = statistics.levels.iter().map(|level| level.bytes).sum();
        let live = self.keys * (self.value_bytes + key_of(0).len());
        engine.close()?;
        Ok(Figures {
            written: statistics.write_amplification(),
            space: (levels + statistics.blob_bytes) as f64 / live as f64,
            blob_bytes: statistics.blob_bytes,
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the scan is measured on the real system"
    )]
    /// Scans everything from the disk. Returns how many millions of bytes that is a second.
    fn scan_cold(&self) -> Result<f64, Box<dyn std::error::Error>> {
        std::fs::write("/proc/sys/vm/drop_caches", "3")?;
        let (environment, _executor) = self.environment();
        let (engine, _) = Engine::open(environment, self.options.clone())?;
        let started = Instant::now();
        let mut scan = engine.scan(b"", None).of_long_range();
        let (mut found, mut bytes) = (0, 0);
        loop {
            let batch = scan.next_batch(BATCH_BYTES)?;
            if batch.is_empty() {
                break;
            }
            found += batch.len();
            bytes += batch.iter().map(Entry::data_bytes).sum::<usize>();
        }
        let took = started.elapsed().as_secs_f64();
        assert_eq!(found, self.keys, "the scan lacks entries");
        drop(scan);
        engine.close()?;
        Ok(bytes as f64 / 1e6 / took)
    }
}

fn key_of(number: usize) -> String {
    format!("user{number:012}")
}
