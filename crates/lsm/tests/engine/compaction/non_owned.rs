//! Versions that belong to other stores only leave the disk below their own bound, and nothing
//! else is rewritten for that.

use crate::common::{World, scan_all};
use base::{Entry, Expiry, Kind, Timestamp};
use fastrand::Rng;
use lsm::{Engine, NonOwned, Scan};
use lsm_testing::BlockingWrite;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3_600);

/// A version of so many copies belongs to another store.
const NON_OWNED_COPIES: u8 = 1;

fn is_non_owned(entry: &Entry) -> bool {
    entry.copies() == NON_OWNED_COPIES
}

/// A world with a bound for non-owned versions.
fn world() -> (World, Arc<AtomicU64>) {
    let bound = Arc::<AtomicU64>::default();
    let read = Arc::clone(&bound);
    let mut world = World::new();
    world.non_owned = Some(NonOwned {
        is_non_owned: Arc::new(|_, copies| copies == NON_OWNED_COPIES),
        gc_threshold: Arc::new(move || Timestamp::from_u64(read.load(Relaxed))),
    });
    (world, bound)
}

fn key(number: u64) -> String {
    format!("key-{number:05}")
}

fn value(number: u64, timestamp: u64, copies: u8) -> Entry {
    let at = Timestamp::from_u64(timestamp);
    Entry::value(
        key(number).as_bytes(),
        at,
        &[b'v'; 100],
        Expiry::NEVER,
        copies,
    )
}

/// A store of some levels, in which every `share`-th key is non-owned.
fn filled(world: &World, share: u64) -> Engine {
    let engine = world.open();
    for number in 0..1500 {
        let copies = match number % share {
            0 => NON_OWNED_COPIES,
            _ => 3,
        };
        let number = number * 37 % 1500;
        engine.write(value(number, 1 + number, copies)).unwrap();
        world.executor.run_for(Duration::from_millis(5));
    }
    engine.flush().unwrap();
    world.executor.run_for(Duration::from_secs(600));
    engine
}

fn non_owned_left(engine: &Engine) -> u64 {
    let all = scan_all(engine, "", None);
    all.iter().filter(|entry| is_non_owned(entry)).count() as u64
}

fn table_bytes(engine: &Engine) -> u64 {
    let levels = engine.statistics().levels;
    levels.iter().map(|level| level.bytes).sum()
}

#[test]
fn non_owned_goes_within_a_week_of_its_bound_and_nothing_is_rewritten_afterwards() {
    for share in [3, 100] {
        let (world, bound) = world();
        let engine = filled(&world, share);
        let non_owned = 1500 / share;
        assert_eq!(engine.statistics().table_non_owned, non_owned);
        let written = || engine.statistics().compaction_written_bytes;
        let before = written();
        // The bound for tombstones is not enough, nor is that for non-owned alone.
        for (dead, own) in [(10_000, 0), (0, 10_000)] {
            world.bound.store(dead, Relaxed);
            bound.store(own, Relaxed);
            world.executor.run_for(20 * DAY);
            assert_eq!((non_owned_left(&engine), written()), (non_owned, before));
        }
        world.bound.store(10_000, Relaxed);
        world.executor.run_for(9 * DAY);
        let after = engine.statistics();
        assert_eq!(non_owned_left(&engine), 0);
        assert_eq!(
            (after.table_non_owned, after.non_owned_dropped),
            (0, non_owned)
        );
        assert_eq!(scan_all(&engine, "", None).len() as u64, 1500 - non_owned);
        assert!(written() - before <= 2 * table_bytes(&engine));
        let before = written();
        world.bound.store(20_000, Relaxed);
        bound.store(20_000, Relaxed);
        world.executor.run_for(20 * DAY);
        assert_eq!(written(), before);
    }
}

#[test]
fn non_owned_goes_although_scans_come_again_and_again() {
    let (world, bound) = world();
    let engine = filled(&world, 100);
    world.bound.store(10_000, Relaxed);
    bound.store(10_000, Relaxed);
    for _ in 0..9 * 24 {
        // Nothing is picked for what a snapshot may see.
        let scan = engine.scan(b"", None);
        world.executor.run_for(Duration::from_secs(180));
        drop(scan);
        world.executor.run_for(HOUR - Duration::from_secs(180));
    }
    assert_eq!(non_owned_left(&engine), 0);
}

/// The bound is withdrawn when a store comes to lack something: a version that has left the merge
/// already, but not the disk, may be the last copy.
#[test]
fn a_bound_that_is_withdrawn_while_non_owned_is_dropped_keeps_all_of_it() {
    const NON_OWNED: u64 = 10;
    let mut given_up = 0;
    for asks_max in 0..30 {
        let asks = Arc::<AtomicU64>::default();
        let asked = Arc::clone(&asks);
        let mut world = World::new();
        world.options.compaction = false;
        world.bound.store(10_000, Relaxed);
        world.non_owned = Some(NonOwned {
            is_non_owned: Arc::new(|_, copies| copies == NON_OWNED_COPIES),
            gc_threshold: Arc::new(move || {
                if asked.fetch_add(1, Relaxed) < asks_max {
                    Timestamp::from_u64(10_000)
                } else {
                    Timestamp::ZERO
                }
            }),
        });
        let engine = world.open();
        for number in 0..NON_OWNED {
            engine
                .write(value(2 * number, 1, NON_OWNED_COPIES))
                .unwrap();
            engine.write(value(2 * number + 1, 1, 3)).unwrap();
        }
        engine.flush().unwrap();
        asks.store(0, Relaxed);
        match engine.compact() {
            Ok(()) => {}
            Err(error) => {
                assert!(error.to_string().contains("non-owned"), "{error}");
                assert_eq!(non_owned_left(&engine), NON_OWNED, "after {asks_max} asks");
                given_up += 1;
            }
        }
        if asks_max > 25 {
            assert_eq!(non_owned_left(&engine), 0);
        }
    }
    // One for each version that was dropped by then.
    assert_eq!(given_up, NON_OWNED);
}

#[test]
fn a_store_without_non_owned_rewrites_nothing_for_it() {
    let (world, bound) = world();
    let engine = filled(&world, 10_000);
    // The first key is the only one.
    assert!(engine.write(value(0, 5_000, 3)).is_ok());
    engine.compact().unwrap();
    assert_eq!(engine.statistics().table_non_owned, 0);
    let before = engine.statistics().compactions;
    for day in 1..30 {
        world.bound.store(10_000 * day, Relaxed);
        bound.store(10_000 * day, Relaxed);
        engine.apply_gc_threshold();
        world.executor.run_for(DAY);
    }
    assert_eq!(engine.statistics().compactions, before);
}

/// A read of more replicas than a version has puts it where it does not belong.
#[test]
fn a_non_owned_version_that_comes_back_all_the_time_does_not_rewrite_tables_all_the_time() {
    let written_for = |copies| {
        let (world, bound) = world();
        let engine = filled(&world, 10_000);
        world.bound.store(10_000, Relaxed);
        bound.store(10_000, Relaxed);
        let before = engine.statistics().compaction_written_bytes;
        for hour in 0..10 * 24 {
            // It is older than anything else, and so long past the bound.
            engine.write(value(1 + hour * 5, 1, copies)).unwrap();
            for number in 0..20 {
                let number = hour * 20 + number;
                engine
                    .write(value(2_000 + number, 20_000 + number, 3))
                    .unwrap();
            }
            engine.flush().unwrap();
            world.executor.run_for(HOUR);
        }
        let written = engine.statistics().compaction_written_bytes - before;
        world.executor.run_for(9 * DAY);
        assert_eq!(non_owned_left(&engine), 0);
        written
    };
    let (own, non_owned) = (written_for(3), written_for(NON_OWNED_COPIES));
    assert!(non_owned <= own + own / 4, "{non_owned} for {own}");
}

#[test]
fn a_whole_compaction_leaves_no_non_owned_below_the_bound_wherever_older_versions_lie() {
    let (world, bound) = world();
    let engine = world.open();
    for number in 0..300 {
        engine
            .write(value(number, 1_000 + number, NON_OWNED_COPIES))
            .unwrap();
    }
    engine.compact().unwrap();
    // Older versions come later, and lie above those that hide them.
    for number in 0..300 {
        engine.write(value(number, 1 + number, 3)).unwrap();
    }
    engine.flush().unwrap();
    world.bound.store(10_000, Relaxed);
    bound.store(1_200, Relaxed);
    let scan = engine.scan(b"", None);
    engine.compact().unwrap();
    assert_eq!(non_owned_left(&engine), 300, "a scan sees them");
    drop(scan);
    engine.compact().unwrap();
    let left = scan_all(&engine, "", None);
    let left = left.iter().map(|entry| entry.timestamp().as_u64());
    assert!(left.eq(1_200..1_300));
}

/// The newest version of each key, and the bounds.
struct Model {
    newest: BTreeMap<Vec<u8>, Entry>,
    dead_below: u64,
    non_owned_below: u64,
}

impl Model {
    fn may_be_gone(&self, entry: &Entry) -> bool {
        let timestamp = entry.timestamp().as_u64();
        match entry.kind() {
            Kind::Tombstone => timestamp < self.dead_below,
            Kind::Value => is_non_owned(entry) && timestamp < self.non_owned_below,
        }
    }

    /// Of each key the newest version is there, or nothing if that may be gone.
    fn check(&self, found: Option<&Entry>, key: &[u8]) {
        let newest = self.newest.get(key);
        let is_gone = found.is_none() && newest.is_none_or(|entry| self.may_be_gone(entry));
        assert!(is_gone || found == newest, "{found:?} for {newest:?}");
    }

    fn check_all(&self, all: &[Entry]) {
        let found: BTreeMap<&[u8], &Entry> = all.iter().map(|entry| (entry.key(), entry)).collect();
        assert_eq!(found.len(), all.len());
        assert!(found.keys().all(|key| self.newest.contains_key(*key)));
        for key in self.newest.keys() {
            self.check(found.get(key.as_slice()).copied(), key);
        }
    }
}

/// A scan, with what it was to see when it began.
struct Expected {
    scan: Scan,
    entries: Vec<Entry>,
}

fn run(seed: u64) {
    const KEYS: u64 = 40;
    let mut rng = Rng::with_seed(seed);
    let (world, bound) = world();
    let mut world = world.with_blobs(seed % 2 == 1);
    world.options.memtable_bytes = rng.usize(2_000..10_000);
    world.options.table_bytes = rng.u64(500..8_000);
    world.options.compaction = rng.u8(0..4) != 0;
    let mut engine = world.open();
    let mut scans: Vec<Expected> = Vec::new();
    let mut model = Model {
        newest: BTreeMap::new(),
        dead_below: 0,
        non_owned_below: 0,
    };
    let mut greatest = 1;
    for number in 0..400 {
        match rng.u32(0..100) {
            0..60 => {
                // Nothing comes below the bound for tombstones, and no timestamp twice.
                let least = model.dead_below >> 16;
                let timestamp = rng.u64(least + 1..=greatest.max(least + 1) + 20) << 16 | number;
                greatest = greatest.max(timestamp >> 16);
                let (key, at) = (key(rng.u64(0..KEYS)), Timestamp::from_u64(timestamp));
                let copies = if rng.bool() { NON_OWNED_COPIES } else { 3 };
                let entry = match rng.u8(0..4) {
                    0 => Entry::tombstone(key.as_bytes(), at, copies),
                    _ => Entry::value(key.as_bytes(), at, &[7; 60], Expiry::NEVER, copies),
                };
                engine.write(entry.clone()).unwrap();
                let held = model
                    .newest
                    .entry(entry.key().to_vec())
                    .or_insert(entry.clone());
                if held.rank() < entry.rank() {
                    *held = entry;
                }
            }
            60..75 => {
                world.executor.run_one(|jobs| rng.usize(0..jobs));
            }
            75..80 => engine.flush().unwrap(),
            80..83 => engine.compact().unwrap(),
            83..88 => {
                let key = key(rng.u64(0..KEYS)).into_bytes();
                model.check(engine.get(&key).unwrap().as_ref(), &key);
            }
            88..91 => {
                // What belongs to others may go up to a lower bound than what is dead.
                model.dead_below = rng.u64(model.dead_below..=greatest << 16);
                world.bound.store(model.dead_below, Relaxed);
                if rng.bool() {
                    let least = model.non_owned_below.min(model.dead_below);
                    model.non_owned_below = rng.u64(least..=model.dead_below);
                    bound.store(model.non_owned_below, Relaxed);
                }
                engine.apply_gc_threshold();
            }
            91..94 => scans.push(Expected {
                scan: engine.scan(b"", None),
                entries: scan_all(&engine, "", None),
            }),
            94..97 if !scans.is_empty() => {
                let Expected { mut scan, entries } = scans.swap_remove(rng.usize(0..scans.len()));
                let mut found = Vec::new();
                loop {
                    let batch = scan.next_batch(200).unwrap();
                    if batch.is_empty() {
                        break;
                    }
                    found.extend(batch);
                }
                // A compaction that had begun before may drop what it has taken for non-owned.
                let missed = entries.iter().filter(|entry| !found.contains(entry));
                for entry in missed {
                    assert!(model.may_be_gone(entry), "the scan has missed {entry:?}");
                }
                assert!(found.iter().all(|entry| entries.contains(entry)));
            }
            97 => world.executor.run_for(DAY),
            98 => {
                scans.clear();
                drop(engine);
                engine = world.open();
            }
            _ => model.check_all(&scan_all(&engine, "", None)),
        }
    }
    drop(scans);
    engine.compact().unwrap();
    let all = scan_all(&engine, "", None);
    model.check_all(&all);
    let left = all.iter().find(|entry| model.may_be_gone(entry));
    assert_eq!(left, None, "it may be gone, and is not");
}

#[test]
fn the_store_has_the_newest_versions_but_for_non_owned_that_may_be_gone() {
    for seed in 0..150 {
        let result = std::panic::catch_unwind(|| run(seed));
        assert!(result.is_ok(), "failed with seed {seed}");
    }
}
