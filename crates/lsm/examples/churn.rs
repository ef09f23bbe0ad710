//! What tombstone GC costs: a store that writes, expires and deletes over a bounded set of
//! keys, without a GC threshold and with one that follows the clock.
//!
//! ```text
//! cargo run --release -p lsm --example churn [seconds] [keys] [writes a second]
//! ```
//!
//! The store lies on a disk in memory, and time passes only with the writes, so that the
//! figures do not depend on the machine. Writes are puts of 100 to 1000 bytes, puts that
//! expire after a minute, and deletes; of the latter two there are many (a fifth each) or
//! few (a hundredth each). A bound rises every 300 s or every 30 s to the time 60 s ago, as that
//! of a cluster does with each full comparison, and tables are purged at that pace. Without a bound
//! they are purged of what has expired only by the week.
//!
//! It prints for each: the bytes written to the disk for each byte of a key or a value that
//! was accepted (log, flushes and compactions, and compactions alone); the bytes of the
//! tables at the end, after ten minutes without writes, beside those of what is live; and
//! the tombstones at the end.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use base::{Clock, Entry, Expiry, Kind, ManualClock, SeededRandom, Timestamp};
use lsm::{Durability, Engine, Error, Options};
use lsm_testing::{BlockingWrite, MemoryDisk, StepExecutor, environment};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How often the bound rises; [`None`] for never.
const STEPS: [Option<Duration>; 3] = [
    None,
    Some(Duration::from_secs(300)),
    Some(Duration::from_secs(30)),
];

/// How far it stays behind the clock.
const GRACE: Duration = Duration::from_secs(60);

/// How far time passes at once.
const TICK: Duration = Duration::from_millis(100);

/// How long the store is left alone at the end: two of the longer steps.
const SETTLE_TICKS: u64 = 2 * 300 * 10;

const TTL: Duration = Duration::from_secs(60);

/// What is churned.
#[derive(Clone, Copy)]
struct Churn {
    seconds: u64,
    keys: u64,
    writes_per_second: u64,
    /// Of a hundred writes this many are deletes, and as many expire.
    dying: u64,
}

/// What it came to.
struct Figures {
    written: f64,
    compacted: f64,
    table_bytes: u64,
    live_bytes: u64,
    live: usize,
    tombstones: u64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (seconds, keys, writes_per_second) =
        (argument(1_200)?, argument(100_000)?, argument(2_000)?);
    println!(
        "deletes  GC threshold   written/accepted  by compaction  tables MiB  live MiB  \
         tables/live  tombstones  live keys"
    );
    for (mix, dying) in [("many", 20), ("few", 1)] {
        for step in STEPS {
            let churn = Churn {
                seconds,
                keys,
                writes_per_second,
                dying,
            };
            let name = step.map_or("none".to_owned(), |step| {
                format!("every {} s", step.as_secs())
            });
            let figures = run(churn, step)?;
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            println!(
                "{mix:7}  {name:11}  {:16.2}  {:13.2}  {:10.1}  {:8.1}  {:11.2}  {:10}  {:9}",
                figures.written,
                figures.compacted,
                mib(figures.table_bytes),
                mib(figures.live_bytes),
                figures.table_bytes as f64 / figures.live_bytes.max(1) as f64,
                figures.tombstones,
                figures.live,
            );
        }
    }
    Ok(())
}

/// Churns a new store.
fn run(churn: Churn, step: Option<Duration>) -> Result<Figures, Error> {
    let clock = Arc::new(ManualClock::new(1_800_000_000_000));
    let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
    let bound = Arc::new(AtomicU64::new(0));
    let (mut environment, _) = environment(Arc::new(MemoryDisk::new()));
    let (now, gc_threshold) = (Arc::clone(&clock), Arc::clone(&bound));
    environment.clock = Arc::clone(&clock) as _;
    environment.executor = Arc::clone(&executor) as _;
    environment.random = Arc::new(SeededRandom::new(1));
    environment.gc_threshold = Arc::new(move || Timestamp::from_u64(gc_threshold.load(Relaxed)));
    environment.expired_before_unix_ms = Arc::new(move || now.unix_ms());
    environment.rest_after = Arc::new(|_took, _urgency| Duration::ZERO);
    let options = Options {
        durability: Durability::Os,
        memtable_bytes: 4 << 20,
        table_bytes: 8 << 20,
        // As a node sets it whose full comparisons come with the steps of the bound.
        purge_wait: step.map_or(Options::default().purge_wait, |step| step / 2),
        ..Options::default()
    };
    let (engine, _) = Engine::open(environment, options)?;
    let mut random = fastrand::Rng::with_seed(1);
    let pool: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
        .take(1 << 20)
        .collect();
    let mut rises_at = step;
    let mut pass = || {
        executor.run_for(TICK);
        if rises_at.is_some_and(|at| clock.monotonic() >= at) {
            rises_at = rises_at.zip(step).map(|(at, step)| at + step);
            let unix_ms = clock.unix_ms() - GRACE.as_millis() as u64;
            bound.store(Timestamp::from_unix_ms(unix_ms).as_u64(), Relaxed);
        }
    };
    let started_unix_ms = clock.unix_ms();
    for number in 0..churn.seconds * churn.writes_per_second {
        let at_ms = number * 1000 / churn.writes_per_second;
        while clock.unix_ms() - started_unix_ms + 100 <= at_ms {
            pass();
        }
        let unix_ms = clock.unix_ms();
        // Timestamps of a millisecond differ in their counter.
        let timestamp = Timestamp::from_u64(
            Timestamp::from_unix_ms(unix_ms).as_u64() + ((number % 4_000) << 8),
        );
        let key = format!("user{:012}", random.u64(..churn.keys));
        let length = random.usize(100..=1000);
        let from = random.usize(..pool.len() - length);
        let value = &pool[from..from + length];
        let kind = number % 100;
        let expiry = if kind < churn.dying {
            Expiry::at_unix_ms(unix_ms + TTL.as_millis() as u64)
        } else {
            Expiry::NEVER
        };
        engine.write(if kind >= 100 - churn.dying {
            Entry::tombstone(key.as_bytes(), timestamp, 3)
        } else {
            Entry::value(key.as_bytes(), timestamp, value, expiry, 3)
        })?;
    }
    let written = engine.statistics();
    engine.flush()?;
    for _ in 0..SETTLE_TICKS {
        pass();
    }
    let now_unix_ms = clock.unix_ms();
    let (mut live_bytes, mut live) = (0, 0);
    let mut scan = engine.scan(b"", None);
    loop {
        let batch = scan.next_batch(1 << 20)?;
        if batch.is_empty() {
            break;
        }
        for entry in batch.iter().filter(|entry| entry.is_live(now_unix_ms)) {
            debug_assert_eq!(entry.kind(), Kind::Value);
            live_bytes += entry.data_bytes() as u64;
            live += 1;
        }
    }
    let statistics = engine.statistics();
    let accepted = written.written_bytes.max(1) as f64;
    let compacted = statistics.compaction_written_bytes;
    let all = statistics.log_written_bytes + statistics.flush_written_bytes + compacted;
    Ok(Figures {
        written: all as f64 / accepted,
        compacted: compacted as f64 / accepted,
        table_bytes: statistics.levels.iter().map(|level| level.bytes).sum(),
        live_bytes,
        live,
        tombstones: statistics.table_tombstones,
    })
}
