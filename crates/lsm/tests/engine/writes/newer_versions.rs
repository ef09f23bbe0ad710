//! The newer-version check of a write is that of its first arrival, exactly, or it is unknown. A
//! commit never reads the disk for it.

use crate::common::{World, put};
use base::{Clock, Entry, Expiry, NewerVersion, Timestamp};
use fastrand::Rng;
use lsm::{Applied, Engine, PendingCheck};
use lsm_testing::{BlockingWrite, Call, Fault, FaultyDisk, newer_version_of};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

fn at(timestamp: u64) -> Timestamp {
    Timestamp::from_u64(timestamp)
}

fn newer(timestamp: u64) -> NewerVersion {
    NewerVersion::At(at(timestamp))
}

fn unknown(bound: u64) -> NewerVersion {
    NewerVersion::Unknown(at(bound))
}

/// The newer-version check of a put, after reading what it needs.
fn newer_version(engine: &Engine, key: &str, timestamp: u64) -> NewerVersion {
    newer_version_of(&engine.write(put(key, timestamp, "v")).unwrap())
}

fn look(applied: Applied) -> PendingCheck {
    match applied {
        Applied::Pending(pending) => pending,
        told => panic!("{told:?} was told without reading"),
    }
}

/// A world some time after the start of its store, so that the start makes no newer-version check
/// unknown.
fn settled(world: &World) -> Engine {
    let engine = world.open();
    pass(world, world.options.newer_version_checks_kept);
    engine
}

/// Lets time pass. The store notices that with the next writes.
fn pass(world: &World, time: Duration) {
    for _ in 0..16 {
        world.clock.advance(time / 8);
    }
}

#[test]
fn a_newer_version_names_newer_versions_of_the_key_in_memory_and_tables() {
    let world = World::new();
    let engine = settled(&world);
    assert_eq!(newer_version(&engine, "k", 50), NewerVersion::None);
    assert_eq!(newer_version(&engine, "k", 40), newer(50));
    engine.flush().unwrap();
    pass(&world, world.options.newer_version_checks_kept);
    assert_eq!(
        newer_version(&engine, "k", 45),
        newer(50),
        "found in a table"
    );
    assert_eq!(
        newer_version(&engine, "j", 45),
        NewerVersion::None,
        "the newer one has another key"
    );
    assert_eq!(newer_version(&engine, "k", 60), NewerVersion::None);
    assert_eq!(
        newer_version(&engine, "k", 55),
        newer(60),
        "the newest of both"
    );
    engine.compact().unwrap();
    pass(&world, world.options.newer_version_checks_kept);
    assert_eq!(newer_version(&engine, "k", 30), newer(60));
    assert_eq!(newer_version(&engine, "k", 70), NewerVersion::None);
    assert_eq!(engine.greatest_timestamp().as_u64(), 70);
}

/// A repair or a hint may bring a version first, and its coordinator later.
#[test]
fn the_first_arrival_decides_after_a_flush_too() {
    for flushes in [false, true] {
        let world = World::new();
        let engine = settled(&world);
        assert_eq!(newer_version(&engine, "newest", 10), NewerVersion::None);
        assert_eq!(newer_version(&engine, "newest", 20), NewerVersion::None);
        assert_eq!(newer_version(&engine, "hidden", 20), NewerVersion::None);
        assert_eq!(newer_version(&engine, "hidden", 10), newer(20));
        assert_eq!(newer_version(&engine, "hidden", 30), NewerVersion::None);
        if flushes {
            engine.flush().unwrap();
        }
        for _ in 0..3 {
            assert_eq!(
                newer_version(&engine, "hidden", 10),
                newer(20),
                "flushed: {flushes}"
            );
            assert_eq!(newer_version(&engine, "hidden", 30), NewerVersion::None);
            assert_eq!(newer_version(&engine, "newest", 10), NewerVersion::None);
        }
        assert_eq!(newer_version(&engine, "newest", 15), newer(20), "comes now");
    }
}

/// A newer version arrives before or after the flush, which writes one or both. A
/// compaction then drops the older one.
#[test]
fn a_clean_newer_version_stays_clean_through_flush_and_compaction() {
    for (step, label) in ["overwritten", "flushed", "compacted"].iter().enumerate() {
        let world = World::new();
        let engine = settled(&world);
        assert_eq!(newer_version(&engine, "k", 10), NewerVersion::None);
        if step > 0 {
            engine.flush().unwrap();
        }
        assert_eq!(newer_version(&engine, "k", 20), NewerVersion::None);
        engine.flush().unwrap();
        if step > 1 {
            engine.compact().unwrap();
        }
        let remembered = engine.statistics().flushed_versions;
        assert_eq!(remembered, 2, "{label}");
        for _ in 0..3 {
            assert_eq!(
                newer_version(&engine, "k", 10),
                NewerVersion::None,
                "{label}"
            );
            engine.flush().unwrap();
        }
        for _ in 0..10 {
            world
                .clock
                .advance(world.options.newer_version_checks_kept / 4);
            newer_version(&engine, "other", 30);
        }
        assert_ne!(
            newer_version(&engine, "k", 10),
            NewerVersion::None,
            "{label}: long ago"
        );
    }
}

/// The newer-version check of the first arrival is kept for as long as the last arrival is known.
#[test]
fn a_version_that_arrives_again_does_not_become_clean() {
    let world = World::new();
    let engine = settled(&world);
    newer_version(&engine, "k", 20);
    assert_eq!(newer_version(&engine, "k", 10), newer(20));
    engine.flush().unwrap();
    let kept = world.options.newer_version_checks_kept;
    for wait in [kept / 2, kept * 3 / 4, kept * 3 / 4] {
        world.clock.advance(wait);
        assert_eq!(newer_version(&engine, "k", 10), newer(20), "after {wait:?}");
        engine.flush().unwrap();
    }
}

/// A memtable waits for its flush while its versions arrive again.
#[test]
fn the_first_arrival_decides_in_frozen_memtables() {
    let mut world = World::new();
    world.options.memtables_frozen_max = 4;
    let engine = settled(&world);
    assert_eq!(newer_version(&engine, "newest", 10), NewerVersion::None);
    assert_eq!(newer_version(&engine, "newest", 20), NewerVersion::None);
    assert_eq!(newer_version(&engine, "hidden", 20), NewerVersion::None);
    assert_eq!(newer_version(&engine, "hidden", 10), newer(20));
    let before = engine.statistics().memtables_frozen;
    let mut fill = 1_000;
    while engine.statistics().memtables_frozen == before {
        fill += 1;
        assert!(fill < 100_000, "no memtable is ever frozen");
        newer_version(&engine, &fill.to_string(), fill);
    }
    for _ in 0..3 {
        assert_eq!(newer_version(&engine, "newest", 10), NewerVersion::None);
        assert_eq!(newer_version(&engine, "hidden", 10), newer(20));
    }
    assert_eq!(newer_version(&engine, "newest", 15), newer(20), "comes now");
}

#[test]
fn past_the_longest_request_it_cannot_be_told() {
    let world = World::new();
    let engine = settled(&world);
    for (key, first, second) in [("newest", 10, 20), ("hidden", 20, 10)] {
        newer_version(&engine, key, first);
        newer_version(&engine, key, second);
    }
    // A little less than they are kept.
    world
        .clock
        .advance(world.options.newer_version_checks_kept * 9 / 10);
    assert_eq!(newer_version(&engine, "other", 30), NewerVersion::None);
    assert_eq!(newer_version(&engine, "newest", 10), NewerVersion::None);
    assert_eq!(newer_version(&engine, "hidden", 10), newer(20));
    for _ in 0..10 {
        world
            .clock
            .advance(world.options.newer_version_checks_kept / 4);
        newer_version(&engine, "other", 30);
    }
    assert_eq!(newer_version(&engine, "newest", 10), unknown(20));
    assert_eq!(
        newer_version(&engine, "newest", 20),
        NewerVersion::None,
        "nothing is newer"
    );
}

#[test]
fn after_a_start_the_first_arrival_is_unknown() {
    for closes in [false, true] {
        let world = World::new();
        let engine = settled(&world);
        for (key, first, second) in [("newest", 10, 20), ("hidden", 20, 10)] {
            newer_version(&engine, key, first);
            newer_version(&engine, key, second);
        }
        if closes {
            engine.close().unwrap();
        }
        drop(engine);
        let engine = world.open();
        assert_eq!(newer_version(&engine, "newest", 10), unknown(20));
        assert_eq!(newer_version(&engine, "hidden", 10), unknown(20));
        // This version was never here, but the store cannot know that.
        assert_eq!(newer_version(&engine, "newest", 15), unknown(20));
        assert_eq!(newer_version(&engine, "newest", 20), NewerVersion::None);
        assert_eq!(newer_version(&engine, "newest", 30), NewerVersion::None);
        // It is above every version that the store held at the start.
        assert_eq!(newer_version(&engine, "newest", 25), newer(30));
        pass(&world, world.options.newer_version_checks_kept);
        assert_eq!(newer_version(&engine, "newest", 16), newer(30));
    }
}

/// A store whose only table holds these versions, with no block of it in memory. Its disk
/// counts reads from now on, and fails them.
fn unread(versions: &[(&str, u64)]) -> (World, Arc<FaultyDisk>, Engine) {
    let mut world = World::new();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    world.options.filter_false_positive_rate = None;
    let engine = world.open();
    for (key, timestamp) in versions {
        engine.write(put(key, *timestamp, "v")).unwrap();
    }
    engine.close().unwrap();
    let engine = settled(&world);
    faulty.arm(
        Fault::at(0, io::ErrorKind::Other)
            .only(|call, _| call == Call::Read)
            .lasting(),
    );
    (world, faulty, engine)
}

#[test]
fn a_commit_reads_no_disk_and_a_pending_newer_version_is_about_its_key_alone() {
    let (_world, faulty, engine) = unread(&[("a", 40), ("k", 50), ("z", 60)]);
    let write = |key, timestamp| engine.write(put(key, timestamp, "w")).unwrap();
    let newer_here = look(write("k", 45));
    let no_such_key = look(write("b", 45));
    let older_here = look(write("a", 45));
    assert_eq!(
        newer_version_of(&write("zz", 45)),
        NewerVersion::None,
        "no table has it"
    );
    assert_eq!(
        newer_version_of(&write("m", 61)),
        NewerVersion::None,
        "no table is so new"
    );
    assert_eq!(faulty.calls(), 0, "a commit has read the disk");
    faulty.heal();
    assert_eq!(newer_here.finish(), newer(50));
    assert_eq!(no_such_key.finish(), NewerVersion::None);
    assert_eq!(older_here.finish(), NewerVersion::None);
    assert_eq!(newer_version_of(&write("c", 45)), NewerVersion::None);
}

#[test]
fn a_newer_version_is_unknown_if_a_block_is_damaged_or_not_read() {
    let (_world, faulty, engine) = unread(&[("a", 40), ("k", 50), ("z", 60)]);
    let write = |key, timestamp| engine.write(put(key, timestamp, "w")).unwrap();
    let (damaged, given_up) = (look(write("k", 45)), look(write("k", 46)));
    assert_eq!(damaged.finish(), unknown(60));
    assert_eq!(given_up.give_up(), unknown(60));
    faulty.heal();
    for (version, first) in [(45, damaged), (46, given_up)] {
        // The newer-version check stays the same for later arrivals.
        assert_eq!(first.finish(), unknown(60));
        assert_eq!(newer_version_of(&write("k", version)), unknown(60));
    }
    assert_eq!(newer_version_of(&write("k", 47)), newer(50));
}

#[test]
fn a_pending_newer_version_is_as_of_its_commit() {
    let (world, faulty, engine) = unread(&[("k", 5), ("z", 60)]);
    let write = |key, timestamp| engine.write(put(key, timestamp, "w")).unwrap();
    let first = look(write("k", 45));
    faulty.heal();
    for (key, timestamp) in [("k", 50), ("y", 1)] {
        write(key, timestamp);
    }
    engine.flush().unwrap();
    engine.compact().unwrap();
    world.executor.run_until_idle();
    let again = look(write("k", 45));
    assert_eq!(again.finish(), NewerVersion::None, "50 came later");
    assert_eq!(first.finish(), NewerVersion::None);
    assert_eq!(newer_version_of(&write("k", 46)), newer(50), "comes now");
}

/// The number of flushes that the store remembers separately.
const FLUSHED_MAX: u64 = 32;

/// The first newer-version check of a version.
struct Known {
    first: NewerVersion,
    at: Duration,
    /// How often the store was opened before, and how often it was flushed since.
    opened: u32,
    flushes: u64,
    /// Whether the newer-version check was known.
    was_told: bool,
}

/// The first newer-version checks by key and timestamp.
type Told = BTreeMap<(Vec<u8>, u64), Known>;

struct Run {
    rng: Rng,
    world: World,
    /// None only while the store is closed and opened again.
    engine: Option<Engine>,
    opened: u32,
    opened_at: Duration,
    told: Told,
    recent: Vec<(Vec<u8>, u64)>,
    /// How often each newer-version check was given, and `None` because of a remembered flush.
    counts: [u64; 4],
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut world = World::new().with_blobs(seed % 2 == 1);
        world.options.memtable_bytes = rng.usize(2_000..20_000);
        world.options.cache_bytes = rng.usize(1..40_000);
        world.options.newer_version_checks_kept = Duration::from_secs(rng.u64(1..20));
        Self {
            engine: Some(world.open()),
            opened: 1,
            opened_at: world.clock.monotonic(),
            world,
            rng,
            told: Told::new(),
            recent: Vec::new(),
            counts: [0; 4],
        }
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn step(&mut self) {
        match self.rng.u8(0..100) {
            0..85 => self.write(),
            85..93 => {
                let rng = &mut self.rng;
                self.world.executor.run_one(|jobs| rng.usize(0..jobs));
            }
            93..95 => self.engine().flush().unwrap(),
            95 => self.engine().compact().unwrap(),
            96..99 => self
                .world
                .clock
                .advance(Duration::from_millis(self.rng.u64(0..5_000))),
            _ if self.rng.u8(0..3) == 0 => {
                if self.rng.bool() {
                    self.engine().close().unwrap();
                }
                self.engine = None;
                self.engine = Some(self.world.open());
                self.opened += 1;
                self.opened_at = self.world.clock.monotonic();
            }
            _ => {}
        }
    }

    /// Most versions arrive again soon, as with a repair and the coordinator's own write.
    fn version(&mut self) -> (Vec<u8>, u64) {
        if !self.recent.is_empty() && self.rng.bool() {
            return self.recent[self.rng.usize(0..self.recent.len())].clone();
        }
        let key = format!("key-{}", self.rng.u8(0..6)).into_bytes();
        // Later versions are mostly newer, as clocks make them.
        let timestamp = self.told.len() as u64 / 2 + self.rng.u64(1..100);
        let version = (key, timestamp);
        if self.recent.len() == 30 {
            self.recent.remove(0);
        }
        self.recent.push(version.clone());
        version
    }

    fn write(&mut self) {
        let (key, timestamp) = self.version();
        let newest = self
            .told
            .range((key.clone(), timestamp + 1)..(key.clone(), u64::MAX))
            .next_back()
            .map(|((_, newest), _)| *newest);
        let entry = Entry::value(&key, at(timestamp), &[b'v'; 100], Expiry::NEVER, 1);
        let applied = self.engine().write(entry).unwrap();
        let gives_up = self.rng.u8(0..10) == 0;
        let now = match &applied {
            Applied::Pending(pending) if gives_up => pending.give_up(),
            applied => newer_version_of(applied),
        };
        let as_of_now = newest.map_or(NewerVersion::None, newer);
        let time = self.world.clock.monotonic();
        let kept = self.world.options.newer_version_checks_kept;
        let flushes = self.engine().statistics().flushes;
        let is_known = self.told.contains_key(&(key.clone(), timestamp));
        let known = self.told.entry((key, timestamp)).or_insert(Known {
            first: as_of_now,
            at: time,
            opened: self.opened,
            flushes,
            was_told: now == as_of_now,
        });
        // No request waits that long, so the store may take it for a first arrival.
        let is_past = time - known.at >= kept;
        if is_past && now == as_of_now {
            known.first = as_of_now;
            known.at = time;
            known.was_told = false;
        }
        let first = known.first;
        let is_right = match now {
            NewerVersion::Unknown(bound) => match first {
                NewerVersion::At(newest) => newest <= bound,
                _ => at(timestamp) < bound,
            },
            now => now == first,
        };
        assert!(
            is_right,
            "the newer-version check of {timestamp} is {now:?}, but was {first:?} at first"
        );
        let can_be_told = if is_known {
            let is_same_start = known.opened == self.opened;
            known.was_told && is_same_start && flushes - known.flushes < FLUSHED_MAX && !is_past
        } else {
            flushes < FLUSHED_MAX && time - self.opened_at >= kept && !gives_up
        };
        if can_be_told {
            assert_eq!(
                now, first,
                "the newer-version check of {timestamp} should be known"
            );
            if now == NewerVersion::None && newest.is_some() && flushes > known.flushes {
                self.counts[3] += 1;
            }
        }
        self.counts[match now {
            NewerVersion::None => 0,
            NewerVersion::At(_) | NewerVersion::Overtaken(_) => 1,
            NewerVersion::Unknown(_) => 2,
        }] += 1;
    }
}

fn run(seed: u64) -> [u64; 4] {
    let mut run = Run::new(seed);
    for _ in 0..800 {
        run.step();
    }
    run.counts
}

#[test]
fn newer_versions_are_those_of_the_first_arrival_and_unknown_only_if_they_must_be() {
    let mut counts = [0; 4];
    for seed in 0..150 {
        let result = std::panic::catch_unwind(|| run(seed));
        let more = result.unwrap_or_else(|_| panic!("failed with seed {seed}"));
        for (count, more) in counts.iter_mut().zip(more) {
            *count += more;
        }
    }
    assert!(counts.iter().all(|count| *count > 2_000), "{counts:?}");
}
