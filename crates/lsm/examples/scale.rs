//! What operations cost in a store of many tables.
//!
//! ```text
//! cargo run --release -p lsm --example scale fill FOLDER [tables] [kilobytes a table]
//! cargo run --release -p lsm --example scale measure FOLDER
//! ```
//!
//! `fill` makes a store whose last level has that many tables of small values. `measure` opens it
//! and prints a line `NAME VALUE` for each figure: the seconds of the open and of the pick of a
//! compaction that is not due, the median seconds of a point read, of a scan of ten keys and of an
//! edit of the manifest that changes nothing, and at the end the tables, the resident bytes and
//! the file descriptors of the process. `bench/engines/scale.py` runs both.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]
#![expect(
    clippy::disallowed_methods,
    reason = "it measures the time of the machine"
)]

use base::{Entry, Expiry, Timestamp};
use lsm::{Admission, Engine, JobClass, Options, RealDisk};
use lsm_testing::{StepExecutor, environment};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const VALUE: [u8; 100] = [7; 100];
/// An ingest keeps its tables open; each edit names this many.
const TABLES_AN_INGEST: u64 = 500;
/// How often a figure is measured whose median counts.
const ROUNDS: usize = 1001;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let folder = arguments.next().ok_or("name a folder")?;
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    match what.as_str() {
        "fill" => fill(Path::new(&folder), number(100)?, number(64)?),
        "measure" => measure(Path::new(&folder)),
        _ => Err("fill or measure".into()),
    }
}

fn open(folder: &Path, options: Options) -> Result<(Engine, Arc<StepExecutor>), lsm::Error> {
    let (mut environment, executor) = environment(Arc::new(RealDisk::default()));
    environment.folder = folder.to_owned();
    let (engine, _) = Engine::open(environment, options)?;
    Ok((engine, executor))
}

fn key(number: u64) -> Vec<u8> {
    format!("user{number:012}").into_bytes()
}

fn fill(folder: &Path, tables: u64, kilobytes: u64) -> Result<(), Failure> {
    let options = Options {
        table_bytes: kilobytes * 1000,
        compression: lsm::Compression::None,
        ..Options::default()
    };
    let (engine, _executor) = open(folder, options)?;
    let mut next = 0;
    loop {
        let made: u64 = tables_of(&engine);
        if made >= tables {
            break;
        }
        let records = TABLES_AN_INGEST.min(tables - made) * kilobytes * 1000 / 130;
        let mut ingest = engine.begin_ingest(Admission::Ordinary)?;
        for _ in 0..records.max(1) {
            let timestamp = Timestamp::from_u64(next + 1);
            ingest.push(&Entry::value(
                &key(next),
                timestamp,
                &VALUE,
                Expiry::NEVER,
                1,
            ))?;
            next += 1;
        }
        ingest.commit()?;
    }
    engine.close()?;
    println!("keys {next}");
    Ok(())
}

fn tables_of(engine: &Engine) -> u64 {
    let levels = engine.statistics().levels;
    levels.iter().map(|level| level.tables).sum()
}

fn measure(folder: &Path) -> Result<(), Failure> {
    let began = Instant::now();
    let (engine, executor) = open(folder, Options::default())?;
    println!("open {}", began.elapsed().as_secs_f64());
    let began = Instant::now();
    executor.run_class(JobClass::Compaction);
    println!("pick {}", began.elapsed().as_secs_f64());
    let last = engine.last_key().ok_or("the store is empty")?;
    let keys: u64 = std::str::from_utf8(&last[4..])?.parse()?;
    let mut random = fastrand::Rng::with_seed(1);
    println!(
        "get {}",
        median(|| engine.get(&key(random.u64(..keys))).map(drop))?
    );
    let mut random = fastrand::Rng::with_seed(1);
    let scan = median(|| {
        let first = random.u64(..keys);
        let mut scan = engine.scan(&key(first), Some(&key(first + 10)));
        scan.next_batch(1 << 20).map(drop)
    });
    println!("scan {}", scan?);
    let edit = median(|| engine.discard_set_aside(Timestamp::ZERO));
    println!("edit {}", edit?);
    println!("tables {}", tables_of(&engine));
    let status = std::fs::read_to_string("/proc/self/status")?;
    let resident = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib: u64 = resident
        .and_then(|line| line.split_whitespace().nth(1))
        .ok_or("no VmRSS")?
        .parse()?;
    println!("resident {}", kib << 10);
    println!(
        "descriptors {}",
        std::fs::read_dir("/proc/self/fd")?.count()
    );
    Ok(())
}

/// The median of the seconds that `work` takes.
fn median(mut work: impl FnMut() -> Result<(), lsm::Error>) -> Result<f64, lsm::Error> {
    let mut took = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        work()?;
        took.push(began.elapsed().as_secs_f64());
    }
    took.sort_by(f64::total_cmp);
    Ok(took[ROUNDS / 2])
}
