//! Compactions that run beside each other.

use crate::common::{World, delete, long, put, scan_all};
use base::{Clock, Entry, Expiry, Kind, Timestamp};
use fastrand::Rng;
use lsm::{Engine, Scan, SetAsideKeys};
use lsm_testing::{BlockingWrite, Call, Fault, FaultyDisk};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The newest version of each key.
type Model = BTreeMap<Vec<u8>, Entry>;

/// When this passes by the clock of the world, what expires has expired.
const EXPIRES_UNIX_MS: u64 = 1_050_000;

/// A store so small that it has three levels, and its model.
struct Run {
    world: World,
    rng: Rng,
    model: Model,
    keys: u64,
    /// How many keys are written at a time, beside each other; 0 for all.
    narrow: u64,
    written: u64,
}

impl Run {
    fn new(seed: u64, compactions_max: usize) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut world = World::new().with_blobs(seed % 2 == 1);
        world.options.memtable_bytes = rng.usize(6_000..12_000);
        world.options.table_bytes = rng.u64(30_000..80_000);
        world.options.compactions_max = compactions_max;
        Self {
            world,
            keys: rng.u64(800..2_000),
            narrow: if rng.bool() { rng.u64(20..200) } else { 0 },
            rng,
            model: Model::new(),
            written: 0,
        }
    }

    fn entry(&mut self) -> Entry {
        self.written += 1;
        let rng = &mut self.rng;
        let key = match self.narrow {
            0 => rng.u64(0..self.keys),
            narrow => (self.written / 30 * narrow / 2 + rng.u64(0..narrow)) % self.keys,
        };
        let key = format!("{key:05}");
        match rng.u8(0..8) {
            0 | 1 => delete(&key, self.written),
            2 => Entry::value(
                key.as_bytes(),
                Timestamp::from_u64(self.written),
                &vec![7; rng.usize(0..4_000)],
                Expiry::at_unix_ms(EXPIRES_UNIX_MS),
                3,
            ),
            _ => {
                let value = long(self.written, rng.usize(0..4_000));
                put(&key, self.written, &value)
            }
        }
    }

    fn write(&mut self, engine: &Engine) {
        let entry = self.entry();
        engine.write(entry.clone()).unwrap();
        self.model.insert(entry.key().to_vec(), entry);
    }

    /// Whether a read may find this of a key.
    fn is_right(&self, found: Option<&Entry>, newest: Option<&Entry>) -> bool {
        let Some(newest) = newest else {
            return found.is_none();
        };
        let may_expire =
            newest.expiry() != Expiry::NEVER && self.world.clock.unix_ms() >= EXPIRES_UNIX_MS;
        let is_dead = newest.kind() == Kind::Tombstone || may_expire;
        match found {
            None => is_dead && newest.timestamp().as_u64() < self.world.bound.load(Relaxed),
            Some(found) if found == newest => true,
            Some(found) => {
                may_expire
                    && found.kind() == Kind::Tombstone
                    && found.timestamp() == newest.timestamp()
            }
        }
    }

    /// Checks all that the store holds.
    fn check(&self, engine: &Engine) {
        let found: Model = scan_all(engine, "", None)
            .into_iter()
            .map(|entry| (entry.key().to_vec(), entry))
            .collect();
        for (key, newest) in &self.model {
            let found = found.get(key);
            assert!(
                self.is_right(found, Some(newest)),
                "{newest:?} is newest, and {found:?} is there"
            );
        }
        assert!(found.keys().all(|key| self.model.contains_key(key)));
    }

    fn check_one(&mut self, engine: &Engine) {
        let key = format!("{:05}", self.rng.u64(0..self.keys));
        let found = engine.get(key.as_bytes()).unwrap();
        let newest = self.model.get(key.as_bytes());
        assert!(
            self.is_right(found.as_ref(), newest),
            "{newest:?} is newest, and {found:?} is there"
        );
    }

    fn work(&mut self) {
        for _ in 0..self.rng.u8(0..4) {
            let rng = &mut self.rng;
            self.world.executor.run_one(|jobs| rng.usize(0..jobs));
        }
    }
}

/// A scan, and the values that it has to show, but for those that may have expired.
struct Seen {
    scan: Scan,
    left: Vec<Entry>,
}

impl Seen {
    fn begin(engine: &Engine, model: &Model) -> Self {
        let lasts = |entry: &&Entry| entry.kind() == Kind::Value && entry.expiry() == Expiry::NEVER;
        let mut left: Vec<_> = model.values().filter(lasts).cloned().collect();
        left.reverse();
        Self {
            scan: engine.scan(b"", None),
            left,
        }
    }

    /// Reads a batch; `false` at the end.
    fn advance(&mut self) -> bool {
        let batch = self.scan.next_batch(200_000).unwrap();
        if batch.is_empty() {
            assert_eq!(self.left, [], "the scan has ended early");
            return false;
        }
        for entry in batch {
            if entry.kind() == Kind::Value && entry.expiry() == Expiry::NEVER {
                assert_eq!(self.left.pop(), Some(entry));
            }
        }
        true
    }
}

/// Steps of several compactions in any order, between writes, deletes, expiry, scans, orders,
/// pauses, restarts and power cuts. Returns the most compactions that ran at a time, and how often
/// several did.
fn run(seed: u64, compactions_max: usize) -> (u64, u64) {
    let mut run = Run::new(seed, compactions_max);
    let mut engine = run.world.open();
    let mut scans: Vec<Seen> = Vec::new();
    let (mut most, mut several) = (0, 0);
    for number in 0..3_000 {
        let running = engine.statistics().compactions_running;
        most = most.max(running);
        several += u64::from(running > 1);
        run.work();
        match run.rng.u32(0..1_000) {
            0..10 => run.check_one(&engine),
            10..12 => scans.push(Seen::begin(&engine, &run.model)),
            12..40 => {
                if !scans.is_empty() {
                    let at = run.rng.usize(0..scans.len());
                    if !scans[at].advance() {
                        scans.swap_remove(at);
                    }
                }
            }
            40..46 => {
                // Nothing comes below it any more.
                run.world
                    .bound
                    .fetch_max(run.written.saturating_sub(100), Relaxed);
                engine.apply_gc_threshold();
            }
            46 => {
                engine.order_compaction().unwrap();
            }
            47 => engine.flush().unwrap(),
            48 => {
                // It gives up what is under way, and has nothing to do.
                engine
                    .set_aside(Timestamp::ZERO, SetAsideKeys::Damaged)
                    .unwrap();
            }
            49 => {
                let crashed = World::on(Arc::new(run.world.memory.clone_synced()));
                crashed.bound.store(run.world.bound.load(Relaxed), Relaxed);
                run.check(&crashed.open());
            }
            50 if number > 1_500 => {
                scans.clear();
                drop(engine);
                engine = run.world.open();
            }
            51 if number > 1_500 => run.world.executor.run_for(Duration::from_secs(20)),
            _ => run.write(&engine),
        }
    }
    for mut seen in scans {
        while seen.advance() {}
    }
    run.check(&engine);
    run.world.executor.run_for(Duration::from_secs(5));
    run.check(&engine);
    engine.compact().unwrap();
    run.check(&engine);
    engine.close().unwrap();
    run.check(&run.world.open());
    (most, several)
}

#[test]
fn compactions_in_any_order_keep_the_newest_versions() {
    let mut all = 0;
    for seed in 0..36 {
        let compactions_max = 2 + seed as usize % 3;
        let result = std::panic::catch_unwind(|| run(seed, compactions_max));
        let (most, several) = result.unwrap_or_else(|_| panic!("failed with seed {seed}"));
        assert!(most <= compactions_max as u64, "seed {seed}: {most}");
        all += several;
    }
    assert!(all > 6_000, "{all} times several have run");
}

#[test]
fn one_compaction_runs_at_a_time_if_no_more_may() {
    assert_eq!(run(1, 1), (1, 0));
}

/// One that fails keeps those beside it from nothing, and loses nothing.
#[test]
fn a_failed_call_beside_other_compactions_loses_nothing() {
    let mut failed = 0;
    for seed in 0..16 {
        let mut run = Run::new(seed, 4);
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&run.world.memory) as _));
        run.world.disk = Arc::clone(&faulty) as _;
        let engine = run.world.open();
        for _ in 0..1_000 {
            run.write(&engine);
            run.work();
        }
        let is_table = |path: &std::path::Path| path.extension().is_some_and(|it| it == "sst");
        let kind = if run.rng.bool() {
            ErrorKind::StorageFull
        } else {
            ErrorKind::Other
        };
        let fault = Fault::at(run.rng.u64(0..40), kind);
        faulty.arm(fault.only(move |call, path| {
            is_table(path) && matches!(call, Call::Create | Call::Write | Call::Read)
        }));
        for _ in 0..300 {
            // On a full disk it is refused.
            let entry = run.entry();
            if engine.write(entry.clone()).is_ok() {
                run.model.insert(entry.key().to_vec(), entry);
            }
            run.work();
        }
        failed += faulty.failed();
        faulty.heal();
        run.world.executor.run_for(Duration::from_secs(120));
        let statistics = engine.statistics();
        assert_eq!(statistics.compactions_running, 0, "{statistics:?}");
        assert_eq!(statistics.overhead.unfinished, 0, "{statistics:?}");
        run.check(&engine);
        drop(engine);
        run.check(&run.world.open());
    }
    assert!(failed > 8, "{failed}");
}
