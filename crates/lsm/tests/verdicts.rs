//! What a write is told of newer versions: as of its first arrival, exactly, or
//! that it cannot be told; never by reading the disk on the way of a commit.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

mod common;

use base::{Clock, Entry, Expiry, Held, Timestamp};
use common::{World, put};
use fastrand::Rng;
use lsm::disk::{Call, Fault, FaultyDisk};
use lsm::{Applied, Engine, Look};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

fn at(timestamp: u64) -> Timestamp {
    Timestamp::from_u64(timestamp)
}

fn newer(timestamp: u64) -> Held {
    Held::Newer(at(timestamp))
}

fn unknown(bound: u64) -> Held {
    Held::Unknown(at(bound))
}

/// What a put is told at once, or after reading.
fn held(engine: &Engine, key: &str, timestamp: u64) -> Held {
    engine.write(put(key, timestamp, "v")).unwrap().held()
}

fn look(applied: Applied) -> Look {
    match applied {
        Applied::Unread(look) => look,
        Applied::Told(held) => panic!("{held:?} was told without reading"),
    }
}

/// A world after the start, of which nobody knows what came before it.
fn settled(world: &World) -> Engine {
    let engine = world.open();
    pass(world, world.options.verdicts_kept);
    engine
}

/// Time passes, and the store notices by writes.
fn pass(world: &World, time: Duration) {
    for _ in 0..16 {
        world.clock.advance(time / 8);
    }
}

#[test]
fn a_put_is_told_of_what_is_newer_in_memory_and_tables_and_of_nothing_else() {
    let world = World::new();
    let engine = settled(&world);
    assert_eq!(held(&engine, "k", 50), Held::Clean);
    assert_eq!(held(&engine, "k", 40), newer(50));
    engine.flush().unwrap();
    pass(&world, world.options.verdicts_kept);
    assert_eq!(held(&engine, "k", 45), newer(50), "found in a table");
    assert_eq!(held(&engine, "j", 45), Held::Clean, "another key's");
    assert_eq!(held(&engine, "k", 60), Held::Clean);
    assert_eq!(held(&engine, "k", 55), newer(60), "the newest of both");
    engine.compact().unwrap();
    pass(&world, world.options.verdicts_kept);
    assert_eq!(held(&engine, "k", 30), newer(60));
    assert_eq!(held(&engine, "k", 70), Held::Clean);
    assert_eq!(engine.greatest_timestamp().as_u64(), 70);
}

/// A mend or a hint may bring a version first, and its coordinator later.
#[test]
fn the_first_arrival_decides_also_after_the_flush() {
    for flushes in [false, true] {
        let world = World::new();
        let engine = settled(&world);
        assert_eq!(held(&engine, "clean", 10), Held::Clean);
        assert_eq!(held(&engine, "clean", 20), Held::Clean);
        assert_eq!(held(&engine, "dirty", 20), Held::Clean);
        assert_eq!(held(&engine, "dirty", 10), newer(20));
        assert_eq!(held(&engine, "dirty", 30), Held::Clean);
        if flushes {
            engine.flush().unwrap();
        }
        for _ in 0..3 {
            assert_eq!(held(&engine, "dirty", 10), newer(20), "flushed: {flushes}");
            assert_eq!(held(&engine, "dirty", 30), Held::Clean);
            let clean = held(&engine, "clean", 10);
            assert_eq!(clean, if flushes { unknown(20) } else { Held::Clean });
        }
    }
}

/// A memtable waits for its flush while its versions come again.
#[test]
fn the_first_arrival_decides_in_frozen_memtables() {
    let mut world = World::new();
    world.options.memtables_frozen_max = 4;
    let engine = settled(&world);
    assert_eq!(held(&engine, "clean", 10), Held::Clean);
    assert_eq!(held(&engine, "clean", 20), Held::Clean);
    assert_eq!(held(&engine, "dirty", 20), Held::Clean);
    assert_eq!(held(&engine, "dirty", 10), newer(20));
    let before = engine.statistics().memtables_frozen;
    let mut fill = 1_000;
    while engine.statistics().memtables_frozen == before {
        fill += 1;
        held(&engine, &fill.to_string(), fill);
    }
    for _ in 0..3 {
        assert_eq!(held(&engine, "clean", 10), Held::Clean);
        assert_eq!(held(&engine, "dirty", 10), newer(20));
    }
    assert_eq!(held(&engine, "clean", 15), newer(20), "comes now");
}

#[test]
fn past_the_longest_request_it_cannot_be_told() {
    let world = World::new();
    let engine = settled(&world);
    for (key, first, second) in [("clean", 10, 20), ("dirty", 20, 10)] {
        held(&engine, key, first);
        held(&engine, key, second);
    }
    // A little less than they are kept.
    world.clock.advance(world.options.verdicts_kept * 9 / 10);
    assert_eq!(held(&engine, "other", 30), Held::Clean);
    assert_eq!(held(&engine, "clean", 10), Held::Clean);
    assert_eq!(held(&engine, "dirty", 10), newer(20));
    for _ in 0..10 {
        world.clock.advance(world.options.verdicts_kept / 4);
        held(&engine, "other", 30);
    }
    assert_eq!(held(&engine, "clean", 10), unknown(20));
    assert_eq!(held(&engine, "clean", 20), Held::Clean, "nothing is newer");
}

#[test]
fn after_a_start_nobody_knows_who_came_first() {
    for closes in [false, true] {
        let world = World::new();
        let engine = settled(&world);
        for (key, first, second) in [("clean", 10, 20), ("dirty", 20, 10)] {
            held(&engine, key, first);
            held(&engine, key, second);
        }
        if closes {
            engine.close().unwrap();
        }
        drop(engine);
        let engine = world.open();
        assert_eq!(held(&engine, "clean", 10), unknown(20));
        assert_eq!(held(&engine, "dirty", 10), unknown(20));
        // What was never here may have been, for all that is known.
        assert_eq!(held(&engine, "clean", 15), unknown(20));
        assert_eq!(held(&engine, "clean", 20), Held::Clean);
        assert_eq!(held(&engine, "clean", 30), Held::Clean);
        // It is above all that there was at the start.
        assert_eq!(held(&engine, "clean", 25), newer(30));
        pass(&world, world.options.verdicts_kept);
        assert_eq!(held(&engine, "clean", 16), newer(30));
    }
}

/// A store whose only table holds these, with nothing of it in memory, on a
/// disk that counts reads from now on, and fails them.
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
fn a_commit_reads_no_disk_and_a_look_tells_of_this_key_alone() {
    let (_world, faulty, engine) = unread(&[("a", 40), ("k", 50), ("z", 60)]);
    let write = |key, timestamp| engine.write(put(key, timestamp, "w")).unwrap();
    let newer_here = look(write("k", 45));
    let no_such_key = look(write("b", 45));
    let older_here = look(write("a", 45));
    assert_eq!(write("zz", 45).held(), Held::Clean, "no table has it");
    assert_eq!(write("m", 61).held(), Held::Clean, "no table is so new");
    assert_eq!(faulty.calls(), 0, "a commit has read the disk");
    faulty.heal();
    assert_eq!(newer_here.finish(), newer(50));
    assert_eq!(no_such_key.finish(), Held::Clean);
    assert_eq!(older_here.finish(), Held::Clean);
    assert_eq!(write("c", 45).held(), Held::Clean);
}

#[test]
fn what_is_damaged_or_not_read_cannot_be_told() {
    let (_world, faulty, engine) = unread(&[("a", 40), ("k", 50), ("z", 60)]);
    let write = |key, timestamp| engine.write(put(key, timestamp, "w")).unwrap();
    let (damaged, given_up) = (look(write("k", 45)), look(write("k", 46)));
    assert_eq!(damaged.finish(), unknown(60));
    assert_eq!(given_up.give_up(), unknown(60));
    faulty.heal();
    for (version, first) in [(45, damaged), (46, given_up)] {
        // What was told stays, for all who ask.
        assert_eq!(first.finish(), unknown(60));
        assert_eq!(write("k", version).held(), unknown(60));
    }
    assert_eq!(write("k", 47).held(), newer(50));
}

#[test]
fn a_look_is_as_of_its_commit() {
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
    assert_eq!(again.finish(), Held::Clean, "50 came later");
    assert_eq!(first.finish(), Held::Clean);
    assert_eq!(write("k", 46).held(), unknown(50), "may have come before");
}

/// What each version of each key was told at first, and when.
type Told = BTreeMap<(Vec<u8>, u64), (Held, Duration)>;

fn run(seed: u64) -> [u64; 3] {
    let mut rng = Rng::with_seed(seed);
    let mut world = World::new();
    world.options.memtable_bytes = rng.usize(2_000..20_000);
    world.options.cache_bytes = rng.usize(1..40_000);
    world.options.verdicts_kept = Duration::from_secs(rng.u64(1..20));
    let mut engine = world.open();
    let mut told = Told::new();
    let mut counts = [0; 3];
    for _ in 0..800 {
        match rng.u8(0..100) {
            0..85 => {
                let key = format!("key-{}", rng.u8(0..6)).into_bytes();
                let stamp = rng.u64(1..400);
                let newest = told
                    .range((key.clone(), stamp + 1)..(key.clone(), u64::MAX))
                    .next_back()
                    .map(|((_, newest), _)| *newest);
                let entry = Entry::value(&key, at(stamp), &[b'v'; 100], Expiry::NEVER, 1);
                let applied = engine.write(entry).unwrap();
                let now = match rng.u8(0..10) {
                    0 => match &applied {
                        Applied::Unread(look) => look.give_up(),
                        Applied::Told(held) => *held,
                    },
                    _ => applied.held(),
                };
                let as_of_now = newest.map_or(Held::Clean, newer);
                let time = world.clock.monotonic();
                let version = told.entry((key, stamp));
                let known = version.or_insert((as_of_now, time));
                // Nobody waits for so long; it may be taken for a new one.
                let is_past = time - known.1 >= world.options.verdicts_kept;
                if is_past && now == as_of_now {
                    *known = (as_of_now, time);
                }
                let first = known.0;
                let is_right = match now {
                    Held::Unknown(bound) => match first {
                        Held::Newer(newest) => newest <= bound,
                        _ => at(stamp) < bound,
                    },
                    now => now == first,
                };
                assert!(is_right, "{stamp} was told {now:?}, {first:?} at first");
                counts[match now {
                    Held::Clean => 0,
                    Held::Newer(_) => 1,
                    Held::Unknown(_) => 2,
                }] += 1;
            }
            85..93 => {
                world.executor.run_one(|jobs| rng.usize(0..jobs));
            }
            93..95 => engine.flush().unwrap(),
            95 => engine.compact().unwrap(),
            96..99 => world
                .clock
                .advance(Duration::from_millis(rng.u64(0..5_000))),
            _ => {
                if rng.bool() {
                    engine.close().unwrap();
                }
                drop(engine);
                engine = world.open();
            }
        }
    }
    counts
}

#[test]
fn what_is_told_is_as_of_the_first_arrival_or_nothing() {
    let mut counts = [0; 3];
    for seed in 0..150 {
        let result = std::panic::catch_unwind(|| run(seed));
        let more = result.unwrap_or_else(|_| panic!("failed with seed {seed}"));
        for (count, more) in counts.iter_mut().zip(more) {
            *count += more;
        }
    }
    assert!(counts.iter().all(|count| *count > 3_000), "{counts:?}");
}
