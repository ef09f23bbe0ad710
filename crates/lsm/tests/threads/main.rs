//! The engine under real threads: writers, readers, scans, flushes and
//! compactions at once, in an order that no seed decides.
//!
//! The threads of a run note in a [`ledger`] which writes they have begun and which were
//! acknowledged. They check every read of the store against it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on panics"
)]

mod job_classes;
mod ledger;

use base::{Entry, NewerVersion, SeededRandom, SystemClock, Timestamp};
use job_classes::JobClasses;
use ledger::{Floor, Ledger, MARCHERS, SCATTERED_KEYS, SCATTERERS};
use lsm::{
    Admission, Applied, Disk, Durability, Engine, Environment, Error, Lookup, Options, Outbox,
    Outcome, RealDisk, Scan,
};
use lsm_testing::{BlockingWrite, Ends, MemoryDisk, Unsynced, newer_version_of, waiting::guarded};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};

/// What a run waits for that does not end.
const HANG: &str = "the threads that write, read, scan, flush and compact";

/// Stops the classes, also when its thread panics.
struct Stops<'a>(&'a JobClasses);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A store so small that it always flushes and compacts.
fn options(durability: Durability) -> Options {
    Options {
        durability,
        memtable_bytes: 8 << 10,
        cache_bytes: 256 << 10,
        block_bytes: 512,
        table_bytes: 16 << 10,
        compactions_max: 4,
        disk_reserve_bytes: 64 << 10,
        ..Options::default()
    }
}

fn open(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    classes: &Arc<JobClasses>,
    ledger: &Arc<Ledger>,
    durability: Durability,
) -> Engine {
    let ledger = Arc::clone(ledger);
    let environment = Environment {
        folder: folder.to_owned(),
        disk: Arc::clone(disk),
        clock: Arc::new(SystemClock::new()),
        random: Arc::new(SeededRandom::new(7)),
        executor: Arc::clone(classes) as _,
        gc_threshold: Arc::new(move || ledger.gc_threshold()),
        non_owned: None,
        expired_before_unix_ms: Arc::new(|| 0),
        rest_after: Arc::new(|took, _urgency| took),
    };
    Engine::open(environment, options(durability)).unwrap().0
}

/// Opens a store without any other thread, and checks everything it holds.
fn check_reopened(disk: &Arc<dyn Disk>, folder: &Path, ledger: &Arc<Ledger>, floor: &Floor) {
    let bound = ledger.bound();
    let idle = Arc::new(JobClasses::default());
    let engine = open(disk, folder, &idle, ledger, Durability::Sync);
    let all = read_out(engine.scan(b"", None), || 1_000);
    ledger.check_all(&all, floor, &bound);
    for entry in &all {
        assert_eq!(engine.get(entry.key()).unwrap().as_ref(), Some(entry));
    }
}

/// All that a scan sees, read in batches of at most so many bytes each.
fn read_out(mut scan: Scan, mut batch_bytes: impl FnMut() -> usize) -> Vec<Entry> {
    let mut all = Vec::new();
    loop {
        let batch = scan.next_batch(batch_bytes()).unwrap();
        if batch.is_empty() {
            return all;
        }
        all.extend(batch);
    }
}

/// The outbox of a thread that waits for its batch.
#[derive(Default)]
struct Inbox {
    outcomes: Mutex<Vec<Outcome>>,
    arrived: Condvar,
}

impl Outbox for Inbox {
    fn deliver(&self, outcomes: Vec<Outcome>) {
        self.outcomes.lock().unwrap().extend(outcomes);
        self.arrived.notify_one();
    }
}

impl Inbox {
    /// Submits a batch and waits for its outcomes, in the order of its entries.
    fn write(self: &Arc<Self>, engine: &Engine, batch: &[Entry]) -> Vec<Result<Applied, Error>> {
        let outbox: Arc<dyn Outbox> = Arc::clone(self) as _;
        let writes = batch.iter().cloned().zip(0..);
        let writes = writes.map(|(entry, ticket)| (entry, Admission::Ordinary, ticket));
        engine.submit_batch(writes, &outbox);
        let outcomes = self.outcomes.lock().unwrap();
        let all = |outcomes: &mut Vec<Outcome>| outcomes.len() < batch.len();
        let mut outcomes = self.arrived.wait_while(outcomes, all).unwrap();
        let mut outcomes = std::mem::take(&mut *outcomes);
        outcomes.sort_by_key(|outcome| outcome.ticket);
        assert!(
            outcomes
                .iter()
                .map(|outcome| outcome.ticket)
                .eq(0..batch.len() as u64)
        );
        outcomes.into_iter().map(|outcome| outcome.result).collect()
    }
}

/// How a writer hands its entries over.
#[derive(Clone, Copy)]
enum Manner {
    /// One at a time, waiting for each.
    Blocking,
    /// All at once, waiting for all.
    Batch,
}

/// Everything that the threads of a run share.
struct Run {
    engine: Engine,
    ledger: Arc<Ledger>,
    /// How many batches each writer writes.
    batches: usize,
    written: AtomicBool,
}

impl Run {
    fn new(
        disk: &Arc<dyn Disk>,
        folder: &Path,
        classes: &Arc<JobClasses>,
        ledger: &Arc<Ledger>,
        durability: Durability,
        batches: usize,
    ) -> Self {
        Self {
            engine: open(disk, folder, classes, ledger, durability),
            ledger: Arc::clone(ledger),
            batches,
            written: AtomicBool::new(false),
        }
    }

    /// Writes entries, and checks what the engine reports about their keys.
    fn write(&self, manner: Manner, inbox: &Arc<Inbox>, batch: &[Entry]) {
        let pieces = match manner {
            Manner::Blocking => batch.chunks(1),
            Manner::Batch => batch.chunks(batch.len()),
        };
        for piece in pieces {
            let known: Vec<u64> = piece.iter().map(|entry| self.ledger.begin(entry)).collect();
            let results = match manner {
                Manner::Blocking => vec![self.engine.write(piece[0].clone())],
                Manner::Batch => inbox.write(&self.engine, piece),
            };
            for ((entry, known), result) in piece.iter().zip(known).zip(results) {
                let known = Timestamp::from_u64(known);
                let is_told = match newer_version_of(&result.unwrap()) {
                    NewerVersion::None => known <= entry.timestamp(),
                    NewerVersion::At(newest)
                    | NewerVersion::Overtaken(newest)
                    | NewerVersion::Unknown(newest) => known <= newest,
                };
                assert!(is_told, "{known} was acknowledged, and not told");
                self.ledger.end(entry);
            }
        }
    }

    fn run_scatterer(&self, writer: usize) {
        let mut random = fastrand::Rng::with_seed(writer as u64);
        let inbox = Arc::default();
        for _ in 0..self.batches {
            let manner = [Manner::Blocking, Manner::Batch][random.usize(0..2)];
            let batch = self.ledger.scatter(writer, &mut random);
            self.write(manner, &inbox, &batch);
            match random.u8(..) {
                0..4 => self.engine.flush().unwrap(),
                4 => self.engine.compact().unwrap(),
                _ => {}
            }
        }
        self.ledger.retire(writer);
    }

    fn run_marcher(&self, marcher: usize) {
        // The ring that a scan reads first is written in batches.
        let manner = [Manner::Batch, Manner::Blocking][marcher % 2];
        let inbox = Arc::default();
        for number in 0..self.batches {
            let batch = self.ledger.march(marcher, 1 + number as u64 % 60);
            self.write(manner, &inbox, &batch);
        }
        self.ledger.retire(SCATTERERS + marcher);
    }

    /// Reads random keys, with and without the disk, until everything is written. A later
    /// read must not find an older version than an earlier one.
    fn run_reader(&self, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut seen = vec![0; SCATTERED_KEYS as usize];
        while !self.written.load(SeqCst) {
            let key = random.usize(0..seen.len());
            let name = format!("s{key:03}");
            let floor = self.ledger.acknowledged(key).max(seen[key]);
            let found = if random.bool() {
                self.engine.get(name.as_bytes()).unwrap()
            } else {
                match self.engine.get_cached(name.as_bytes()).unwrap() {
                    Lookup::Found(found) => found,
                    Lookup::MayBlock => continue,
                }
            };
            self.ledger.check(key, floor, found.as_ref());
            seen[key] = found.map_or(floor, |entry| entry.timestamp().as_u64());
        }
    }

    /// Scans only the rings, as often as it can, one key at a time. If a scan is not a
    /// snapshot, the ring changes between two keys.
    fn run_ring_watcher(&self) {
        while !self.written.load(SeqCst) {
            let floor = self.ledger.floor();
            let scan = self.engine.scan(b"m", Some(b"n"));
            let bound = self.ledger.bound();
            let rings = read_out(scan, || 1);
            self.ledger.check_rings(&rings, &floor, &bound);
        }
    }

    fn run_scanner(&self, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        while !self.written.load(SeqCst) {
            let floor = self.ledger.floor();
            let scan = self.engine.scan(b"", None);
            let bound = self.ledger.bound();
            self.ledger
                .check_all(&read_out(scan, || random.usize(1..4_000)), &floor, &bound);
        }
    }

    /// Runs all threads and one with `beside` until everything is written, and closes the
    /// store if the run says so.
    fn run(&self, classes: &JobClasses, closes: bool, beside: impl FnOnce(&Self) + Send) {
        std::thread::scope(|scope| {
            let _stops = Stops(classes);
            classes.start(scope);
            std::thread::scope(|scope| {
                for seed in 0..2 {
                    scope.spawn(move || self.run_reader(seed));
                }
                scope.spawn(|| self.run_scanner(2));
                scope.spawn(|| self.run_ring_watcher());
                scope.spawn(|| beside(self));
                let _ends = Ends(&self.written);
                std::thread::scope(|scope| {
                    for writer in 0..SCATTERERS {
                        scope.spawn(move || self.run_scatterer(writer));
                    }
                    for marcher in 0..MARCHERS {
                        scope.spawn(move || self.run_marcher(marcher));
                    }
                });
            });
            if closes {
                self.engine.close().unwrap();
                let late = self.engine.write(ledger::scattered(1));
                assert!(matches!(late, Err(Error::Closed)), "{late:?}");
            }
        });
    }
}

/// Several runs on the same store, with commits by the job and in place. The first two
/// close the store, and the others only drop it, as a process that dies. Each run has to
/// find everything that was acknowledged.
fn run_again_and_again(disk: &Arc<dyn Disk>, folder: &Path, batches: usize) {
    let ledger = Arc::new(Ledger::new());
    for (closes, durability) in [
        (true, Durability::Sync),
        (true, Durability::Os),
        (false, Durability::Sync),
        (false, Durability::Os),
    ] {
        let classes = Arc::new(JobClasses::default());
        let run = Run::new(disk, folder, &classes, &ledger, durability, batches);
        run.run(&classes, closes, |_| {});
        let statistics = run.engine.statistics();
        assert!(
            statistics.flushes > 5 && statistics.compactions > 5,
            "too little went on: {statistics:?}"
        );
        // A closed store has unlocked its folder. An open store unlocks it when its last
        // handle is dropped.
        let beside = closes.then_some(run);
        check_reopened(disk, folder, &ledger, &ledger.floor());
        drop(beside);
    }
}

#[test]
fn reads_and_scans_keep_up_with_what_is_acknowledged() {
    guarded(HANG, || {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        run_again_and_again(&disk, Path::new("/store"), 80);
    });
}

#[test]
fn the_machines_disk_is_no_other() {
    guarded(HANG, || {
        let folder = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::default());
        run_again_and_again(&disk, folder.path(), 30);
    });
}

#[test]
fn what_is_acknowledged_survives_a_power_cut_at_any_moment() {
    guarded(HANG, || {
        let memory = Arc::new(MemoryDisk::new());
        let disk: Arc<dyn Disk> = Arc::clone(&memory) as _;
        let folder = Path::new("/store");
        let ledger = Arc::new(Ledger::new());
        let classes = Arc::new(JobClasses::default());
        let run = Run::new(&disk, folder, &classes, &ledger, Durability::Sync, 120);
        run.run(&classes, true, |run| {
            let mut random = fastrand::Rng::with_seed(3);
            while !run.written.load(SeqCst) {
                let floor = ledger.floor();
                let crashed = memory.crash_clone(&mut |_: Unsynced<'_>| random.bool());
                let crashed: Arc<dyn Disk> = Arc::new(crashed);
                check_reopened(&crashed, folder, &ledger, &floor);
            }
        });
    });
}
