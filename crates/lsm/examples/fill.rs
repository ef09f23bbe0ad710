//! What the folder of a store holds beside its live tables while it is filled at full speed.
//!
//! ```text
//! cargo run --release -p lsm --example fill [thousands of values] [bytes a value] [compactions]
//! ```
//!
//! One writer puts values in a random order, each key once, as fast as the store takes them. The
//! store lies in the current folder and has memtables of 64 MiB. Ten times a second the space of
//! its files is added up, by kind, until the last compaction has ended. It prints a line each
//! ten seconds, and at the end the moments at which the space beside the live tables and
//! the log was greatest, and greatest for each byte of live tables.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

mod threads;

use base::{Clock, Entry, Expiry, SystemClock, Timestamp};
use lsm::{Durability, Engine, OverheadBytes, RealDisk};
use lsm_testing::{BlockingWrite, Ends, environment};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use threads::Threads;

const SAMPLE: Duration = Duration::from_millis(100);
const SAMPLES_A_LINE: u64 = 100;
const TABLE_BYTES: u64 = 32 << 20;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What the disk holds at a moment, in bytes.
#[derive(Clone, Copy, Default)]
struct Sample {
    seconds: f64,
    written: u64,
    live: u64,
    /// The space of the files of tables that have a name.
    tables: u64,
    log: u64,
    told: OverheadBytes,
}

impl Sample {
    /// What is beside the live tables: what has a name, or what is told if that is more.
    fn beside(&self) -> u64 {
        self.tables.saturating_sub(self.live).max(self.told.all())
    }

    /// What may be beside them.
    fn allowed(&self) -> u64 {
        (self.live / 10).max(4 * TABLE_BYTES)
    }

    fn of_allowed(&self) -> f64 {
        self.beside() as f64 / self.allowed() as f64
    }
}

fn print_sample(name: &str, sample: &Sample) {
    let mib = |bytes: u64| bytes >> 20;
    println!(
        "{name:6} {:6.1} s  written {:6}  live {:6}  tables {:6}  log {:4}  told: unfinished {:5} \
         held {:4} removed {:5}  beside {:5} MiB, {:.2} of what may be",
        sample.seconds,
        mib(sample.written),
        mib(sample.live),
        mib(sample.tables),
        mib(sample.log),
        mib(sample.told.unfinished),
        mib(sample.told.held),
        mib(sample.told.removed),
        mib(sample.beside()),
        sample.of_allowed(),
    );
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let thousands = u32::try_from(argument(12_000)?)?;
    let (values, bytes) = (1000 * thousands, usize::try_from(argument(1024)?)?);
    let folder = tempfile::tempdir_in(".")?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (mut environment, _) = environment(Arc::new(RealDisk::default()));
    environment.folder = folder.path().join("store");
    environment.clock = Arc::clone(&clock);
    environment.executor = Arc::new(Threads::start(&clock));
    let options = lsm::Options {
        durability: Durability::Interval(Duration::from_secs(1)),
        memtable_bytes: 64 << 20,
        cache_bytes: 256 << 20,
        table_bytes: TABLE_BYTES,
        compactions_max: usize::try_from(argument(1)?)?,
        ..lsm::Options::default()
    };
    let store = environment.folder.clone();
    let (engine, _) = Engine::open(environment, options)?;
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<(), Failure> {
        let sampler = scope.spawn(|| watch(&engine, &store, &*clock, &ends));
        let filled = {
            let _ends = Ends(&ends);
            fill(&engine, values, bytes).and_then(|()| {
                print_sample("filled", &sample(&engine, &store, &*clock)?);
                settle(&engine);
                Ok(())
            })
        };
        let watched = sampler.join().map_err(|_| "the sampler panicked")?;
        filled.and(watched)
    })?;
    engine.close()?;
    Ok(())
}

/// Writes each key once, in a random order.
fn fill(engine: &Engine, values: u32, bytes: usize) -> Result<(), Failure> {
    let mut random = fastrand::Rng::with_seed(1);
    let pool: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
        .take((1 << 20) + bytes)
        .collect();
    let mut keys: Vec<u32> = (0..values).collect();
    random.shuffle(&mut keys);
    for (timestamp, key) in (1..).zip(keys) {
        let key = format!("user{key:012}");
        let from = random.usize(..1 << 20);
        let value = &pool[from..from + bytes];
        let timestamp = Timestamp::from_u64(timestamp);
        engine.write(Entry::value(
            key.as_bytes(),
            timestamp,
            value,
            Expiry::NEVER,
            1,
        ))?;
    }
    Ok(())
}

/// Waits until no compaction has run for a second.
fn settle(engine: &Engine) {
    let mut quiet = 0;
    while quiet < 10 {
        sleep(SAMPLE);
        let statistics = engine.statistics();
        let runs = statistics.compactions_running > 0 || statistics.memtables_frozen > 0;
        quiet = if runs { 0 } else { quiet + 1 };
    }
}

/// Samples the store until its end, and prints the worst moments.
fn watch(
    engine: &Engine,
    store: &Path,
    clock: &dyn Clock,
    ends: &AtomicBool,
) -> Result<(), Failure> {
    let (mut most, mut worst) = (Sample::default(), Sample::default());
    let mut samples = 0_u64;
    while !ends.load(Relaxed) {
        let now = sample(engine, store, clock)?;
        if now.beside() > most.beside() {
            most = now;
        }
        if now.of_allowed() > worst.of_allowed() {
            worst = now;
        }
        if samples.is_multiple_of(SAMPLES_A_LINE) {
            print_sample("", &now);
        }
        samples += 1;
        sleep(SAMPLE);
    }
    print_sample("most", &most);
    print_sample("worst", &worst);
    print_sample("end", &sample(engine, store, clock)?);
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "this measures a real folder")]
fn sample(engine: &Engine, store: &Path, clock: &dyn Clock) -> Result<Sample, Failure> {
    let (mut tables, mut log) = (0, 0);
    for file in std::fs::read_dir(store)? {
        let file = file?;
        // It may be gone by now.
        let Ok(metadata) = file.metadata() else {
            continue;
        };
        let space = metadata.blocks() * 512;
        match file.path().extension().and_then(|kind| kind.to_str()) {
            Some("sst") => tables += space,
            Some("wal" | "free") => log += space,
            _ => {}
        }
    }
    // Afterwards: what was told before may have been removed while the files were listed.
    let statistics = engine.statistics();
    Ok(Sample {
        seconds: clock.monotonic().as_secs_f64(),
        written: statistics.written_bytes,
        live: statistics.levels.iter().map(|level| level.bytes).sum(),
        tables,
        log,
        told: statistics.overhead,
    })
}

#[expect(clippy::disallowed_methods, reason = "this measures real time")]
fn sleep(span: Duration) {
    std::thread::sleep(span);
}
