//! What merging tables costs:
//!
//! ```text
//! cargo run --release -p lsm --example merging [megabytes] [text]
//! ```
//!
//! Puts values of 1 KiB in random order into a store in the system's temporary folder, which
//! makes tables that overlap, and merges them all. It prints the nanoseconds of CPU a byte
//! that this wrote. The values are random, or with `text` compress to about a half.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use base::{Entry, Expiry, ManualClock, SeededRandom, Timestamp};
use lsm::{Durability, Engine, Options, RealDisk};
use lsm_testing::{BlockingWrite, environment};
use std::sync::Arc;

const VALUE_BYTES: usize = 1 << 10;
const MEMTABLE_BYTES: usize = 16 << 20;
/// Values are pieces of this many bytes, so that making them costs nothing.
const POOL_BYTES: usize = 16 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let megabytes: usize = arguments.next().map_or(Ok(256), |text| text.parse())?;
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
    let options = Options {
        durability: Durability::Os,
        memtable_bytes: MEMTABLE_BYTES,
        compaction: false,
        ..Options::default()
    };
    let (engine, _) = Engine::open(environment, options)?;

    let mut keys: Vec<usize> = (0..megabytes * 1_000_000 / VALUE_BYTES).collect();
    random.shuffle(&mut keys);
    for (number, key) in keys.into_iter().enumerate() {
        let key = format!("user{key:012}");
        let at = number * VALUE_BYTES % POOL_BYTES;
        let value = &pool[at..at + VALUE_BYTES];
        let timestamp = Timestamp::from_u64(number as u64 + 1);
        engine.write(Entry::value(
            key.as_bytes(),
            timestamp,
            value,
            Expiry::NEVER,
            3,
        ))?;
    }
    engine.flush()?;
    let written = || engine.statistics().compaction_written_bytes;
    let (written_before, cpu_before) = (written(), cpu_seconds());
    engine.compact()?;
    let (bytes, cpu) = (written() - written_before, cpu_seconds() - cpu_before);
    println!(
        "{:.2} GB written, {:.2} ns of CPU a byte",
        bytes as f64 / 1e9,
        cpu * 1e9 / bytes as f64,
    );
    engine.close()?;
    Ok(())
}

/// The CPU time of this process, which has one thread.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let first = stat.split_whitespace().next();
    let nanoseconds = first.and_then(|text| text.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}
