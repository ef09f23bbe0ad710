//! What the log costs under `sync`: bytes written to files for each byte of the log, and how
//! long writes take, above all the first ones of each segment.
//!
//! ```text
//! cargo run --release -p lsm --example log [seconds] [bytes a value] [writes a second]
//! ```
//!
//! One writer writes at a constant rate and waits for each write, whose group is synced alone.
//! The store lies in the current folder, with memtables of 8 MiB and without compaction. The
//! figures are of the second half of the run. The bytes are those that this process has given
//! to the system (`wchar` in `/proc/self/io`) without those of the tables. The system writes
//! whole pages, so values much shorter than a page cost the disk more.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

mod threads;

use base::{Clock, Entry, Expiry, SystemClock, Timestamp};
use lsm::{Engine, Options, RealDisk, Statistics};
use lsm_testing::{BlockingWrite, environment};
use std::sync::Arc;
use std::time::Duration;
use threads::Threads;

/// So many writes of each segment count as its first ones.
const FIRST_WRITES: usize = 64;

/// How many segments have begun.
fn segments(statistics: &Statistics) -> u64 {
    statistics.flushes + statistics.memtables_frozen
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (seconds, value_bytes, rate) = (argument(20)?, argument(32 << 10)?, argument(400)?);
    let folder = tempfile::tempdir_in(".")?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (mut environment, _) = environment(Arc::new(RealDisk::default()));
    environment.folder = folder.path().join("store");
    environment.clock = Arc::clone(&clock);
    environment.executor = Arc::new(Threads::start(&clock));
    let options = Options {
        compaction: false,
        compression: lsm::Compression::None,
        ..Options::default()
    };
    let (engine, _) = Engine::open(environment, options)?;

    let value = vec![b'v'; usize::try_from(value_bytes)?];
    let writes = seconds * rate;
    let began = clock.monotonic();
    let (mut all, mut first, mut since_first) = (Vec::new(), Vec::new(), 0);
    let mut half = (engine.statistics(), written_bytes());
    let mut segment = 0;
    for number in 0..writes {
        let due = began + Duration::from_secs_f64(number as f64 / rate as f64);
        sleep(due.saturating_sub(clock.monotonic()));
        if number == writes / 2 {
            half = (engine.statistics(), written_bytes());
        }
        let key = format!("user{:012}", number % 10_000);
        let timestamp = Timestamp::from_u64(number + 1);
        let entry = Entry::value(key.as_bytes(), timestamp, &value, Expiry::NEVER, 1);
        let started = clock.monotonic();
        engine.write(entry)?;
        let took = clock.monotonic() - started;
        let now = segments(&engine.statistics());
        if now != segment {
            (segment, since_first) = (now, 0);
        }
        since_first += 1;
        if number >= writes / 2 {
            all.push(took);
            if since_first <= FIRST_WRITES {
                first.push(took);
            }
        }
    }
    let (before, after) = (half.0, engine.statistics());
    let tables = after.flush_written_bytes - before.flush_written_bytes;
    let log = after.log_written_bytes - before.log_written_bytes;
    let written = (written_bytes() - half.1).saturating_sub(tables);
    println!(
        "{} segments, {:.1} MiB of log: {:.2} bytes written for each",
        segments(&after) - segments(&before),
        log as f64 / f64::from(1 << 20),
        written as f64 / log as f64
    );
    print_latencies("all writes", &mut all);
    print_latencies("first of a segment", &mut first);
    engine.close()?;
    Ok(())
}

fn print_latencies(name: &str, took: &mut [Duration]) {
    took.sort_unstable();
    let at = |share: f64| {
        let index = (took.len() as f64 * share) as usize;
        let took = took.get(index.min(took.len().saturating_sub(1)));
        took.map_or(f64::NAN, |took| took.as_secs_f64() * 1e3)
    };
    println!(
        "{name:18}  {:6} writes  p50 {:.2}  p99 {:.2}  p99.9 {:.2}  most {:.2} ms",
        took.len(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}

/// The bytes that this process has written to files.
fn written_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

#[expect(clippy::disallowed_methods, reason = "this measures real time")]
fn sleep(span: Duration) {
    std::thread::sleep(span);
}
