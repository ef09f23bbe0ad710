//! How fast sorted entries become tables, and at what cost:
//!
//! ```text
//! cargo run --release -p lsm --example ingest [megabytes] [text]
//! ```
//!
//! Ingests values of 1 KiB into a store in the system's temporary folder, 64 MiB a
//! commit, and prints MB/s and seconds of CPU a GB, those of the system for the files
//! among them. The values are random, or with `text` compress to about a half.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use base::{Entry, Expiry, ManualClock, SeededRandom, Timestamp};
use lsm::{Admission, Engine, LateSource, Options, RealDisk};
use lsm_testing::environment;
use std::sync::Arc;

const VALUE_BYTES: usize = 1 << 10;
const COMMIT_BYTES: usize = 64 << 20;
/// Values are pieces of this many bytes, so that making them costs nothing.
const POOL_BYTES: usize = 16 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let megabytes: usize = arguments.next().map_or(Ok(1000), |text| text.parse())?;
    let is_text = arguments.next().is_some_and(|kind| kind == "text");
    let mut random = fastrand::Rng::with_seed(1);
    let words: Vec<u64> = std::iter::repeat_with(|| random.u64(..))
        .take(512)
        .collect();
    let pool: Vec<u8> = std::iter::repeat_with(|| {
        if is_text {
            words[random.usize(..words.len())]
        } else {
            random.u64(..)
        }
    })
    .flat_map(u64::to_le_bytes)
    .take(POOL_BYTES)
    .collect();

    let folder = tempfile::tempdir()?;
    let (mut environment, _executor) = environment(Arc::new(RealDisk::default()));
    environment.folder = folder.path().join("store");
    environment.clock = Arc::new(ManualClock::new(0));
    environment.random = Arc::new(SeededRandom::new(1));
    let (engine, _) = Engine::open(environment, Options::default())?;

    let records = megabytes * 1_000_000 / VALUE_BYTES;
    let (started, cpu_started) = (wall_seconds(), cpu_seconds());
    let (mut bytes, mut tables, mut number) = (0, 0, 0);
    while number < records {
        let admission = Admission::Late {
            gc_threshold: Timestamp::ZERO,
            generation: engine.generation(LateSource::RepairWrite),
        };
        let mut ingest = engine.begin_ingest(admission)?;
        let end = records.min(number + COMMIT_BYTES / VALUE_BYTES);
        while number < end {
            let key = format!("user{number:012}");
            let at = number * VALUE_BYTES % POOL_BYTES;
            let value = &pool[at..at + VALUE_BYTES];
            let timestamp = Timestamp::from_u64(number as u64 + 1);
            ingest.push(&Entry::value(
                key.as_bytes(),
                timestamp,
                value,
                Expiry::NEVER,
                3,
            ))?;
            number += 1;
        }
        let ingested = ingest.commit()?;
        bytes += ingested.bytes;
        tables += ingested.tables;
    }
    let (seconds, cpu) = (wall_seconds() - started, cpu_seconds() - cpu_started);
    let gigabytes = (records * VALUE_BYTES) as f64 / 1e9;
    println!(
        "{records} records, {tables} tables, {:.2} GB of files: {:.0} MB/s, {:.2} s of CPU a GB",
        bytes as f64 / 1e9,
        gigabytes * 1000.0 / seconds,
        cpu / gigabytes,
    );
    engine.close()?;
    Ok(())
}

/// The monotonic time.
#[expect(clippy::disallowed_methods, reason = "this measures real time")]
fn wall_seconds() -> f64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64()
}

/// The CPU time of this process, which has one thread.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let first = stat.split_whitespace().next();
    let nanoseconds = first.and_then(|text| text.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}
