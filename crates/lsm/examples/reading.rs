//! What reading in order costs: compaction, ranges and comparisons.
//!
//! ```text
//! cargo run --release -p lsm --example reading [megabytes] [bytes a value] [random|text]
//! ```
//!
//! It fills a store in the system's temporary folder with tables that overlap, so that
//! everything after is a merge, and prints the CPU time a megabyte of keys and values of a
//! whole compaction, and of a range and a comparison before it and after it. The values are random,
//! or with `text` compress to about a half. All files fit the system's cache.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use base::{Entry, Expiry, ManualClock, SeededRandom, Timestamp};
use lsm::{Admission, Engine, LateSource, Options, RealDisk};
use lsm_testing::environment;
use std::sync::Arc;

/// How many tables hold each part of the key space before the compaction.
const LAYERS: usize = 4;
/// Values are pieces of this many bytes, so that making them costs nothing.
const POOL_BYTES: usize = 16 << 20;
/// How much a range takes at a time.
const BATCH_BYTES: usize = 64 << 10;
/// How often everything is read; the least counts.
const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse());
    let (megabytes, value_bytes) = (argument(256)?, argument(1024)?);
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
    .take(POOL_BYTES + value_bytes)
    .collect();

    let folder = tempfile::tempdir()?;
    let (mut environment, _executor) = environment(Arc::new(RealDisk::default()));
    environment.folder = folder.path().join("store");
    environment.clock = Arc::new(ManualClock::new(0));
    environment.random = Arc::new(SeededRandom::new(1));
    let (engine, _) = Engine::open(environment, Options::default())?;
    let records = megabytes * 1_000_000 / (value_bytes + 16);
    for layer in 0..LAYERS {
        let admission = Admission::Late {
            gc_threshold: Timestamp::ZERO,
            generation: engine.generation(LateSource::RepairWrite),
        };
        let mut ingest = engine.begin_ingest(admission)?;
        for number in (layer..records).step_by(LAYERS) {
            let key = format!("user{number:012}");
            let at = number * value_bytes % POOL_BYTES;
            let timestamp = Timestamp::from_u64(number as u64 + 1);
            let value = &pool[at..at + value_bytes];
            ingest.push(&Entry::value(
                key.as_bytes(),
                timestamp,
                value,
                Expiry::NEVER,
                3,
            ))?;
        }
        ingest.commit()?;
    }
    let mb = (records * (value_bytes + 16)) as f64 / 1e6;
    let tell = |what: &str, seconds: f64| {
        println!(
            "{what:24} {:7.3} ms of CPU a MB, {:5.0} ns a record",
            seconds * 1000.0 / mb,
            seconds * 1e9 / records as f64,
        );
    };
    let read = |when: &str| -> Result<(), lsm::Error> {
        tell(&format!("range {when}"), least(|| range(&engine, records))?);
        tell(
            &format!("comparison {when}"),
            least(|| comparison(&engine, records))?,
        );
        Ok(())
    };
    read("before")?;
    let started = cpu_seconds();
    engine.compact()?;
    tell("compaction", cpu_seconds() - started);
    read("after")?;
    engine.close()?;
    Ok(())
}

/// The least CPU time of some rounds.
fn least(read: impl Fn() -> Result<(), lsm::Error>) -> Result<f64, lsm::Error> {
    let mut least = f64::MAX;
    for _ in 0..ROUNDS {
        let started = cpu_seconds();
        read()?;
        least = least.min(cpu_seconds() - started);
    }
    Ok(least)
}

fn range(engine: &Engine, records: usize) -> Result<(), lsm::Error> {
    let mut scan = engine.scan(b"", None).of_long_range();
    let mut found = 0;
    loop {
        let batch = scan.next_batch(BATCH_BYTES)?;
        if batch.is_empty() {
            break;
        }
        found += batch.len();
    }
    assert_eq!(found, records, "the range lacks records");
    Ok(())
}

fn comparison(engine: &Engine, records: usize) -> Result<(), lsm::Error> {
    let mut scan = engine.scan(b"", None).for_full_comparison();
    let mut found = 0;
    while scan.advance()? {
        found += usize::from(!scan.entry().key().is_empty());
    }
    assert_eq!(found, records, "the repair lacks records");
    Ok(())
}

/// The CPU time of this process, which has one thread.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let first = stat.split_whitespace().next();
    let nanoseconds = first.and_then(|text| text.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}
