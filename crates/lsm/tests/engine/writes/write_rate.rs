//! How long writers are held back while a flush is behind, by the simulated clock.

use crate::common::{CollectedOutcomes, World, put};
use base::Clock;
use lsm::{Engine, JobClass, Outbox};
use lsm_testing::{BlockingWrite, HookedDisk, SyncHook};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const MEMTABLE_BYTES: usize = 1 << 20;

/// The longest that a group is held back.
const SLOWDOWN_MAX: Duration = Duration::from_millis(10);

/// The memory of an entry besides its key and value, in bytes.
const OVERHEAD_BYTES: usize = 160;

/// A world in which the flush of a memtable takes as long as the sync of its table.
fn world(flush_takes: Duration) -> World {
    let mut world = World::new();
    world.options.memtable_bytes = MEMTABLE_BYTES;
    world.options.memtables_frozen_max = 1;
    world.options.compaction = false;
    let disk = Arc::new(HookedDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&disk) as _;
    let clock = Arc::clone(&world.clock);
    disk.hook_syncs(
        Arc::new(move |path: &Path, sync: &dyn Fn() -> io::Result<()>| {
            if path.extension().is_some_and(|kind| kind == "sst") {
                clock.advance(flush_takes);
            }
            sync()
        }) as Arc<SyncHook>,
    );
    world
}

/// Writes until a memtable is frozen, which no flush takes.
fn freeze_one(engine: &Engine) {
    let mut number = 0;
    while engine.statistics().memtables_frozen == 0 {
        number += 1;
        let key = format!("{number:05}");
        engine.write(put(&key, number, &"x".repeat(800))).unwrap();
    }
}

/// Submits as many entries of this memory one after the other, each once the one before is
/// stored. Returns how long that took, and the longest that one waited.
fn write(world: &World, engine: &Engine, count: u64, bytes: usize) -> (Duration, Duration) {
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    let began = world.clock.monotonic();
    let mut longest = Duration::ZERO;
    for number in 1..=count {
        let key = format!("{number:04}");
        let value = "v".repeat(bytes - OVERHEAD_BYTES - key.len());
        let submitted = world.clock.monotonic();
        engine
            .submit(put(&key, (1 << 32) + number, &value), &outbox, number)
            .unwrap();
        world.executor.run_class(JobClass::Commit);
        while collected.count() < number {
            world.clock.advance(Duration::from_micros(100));
            world.executor.run_class(JobClass::Commit);
        }
        longest = longest.max(world.clock.monotonic() - submitted);
    }
    (world.clock.monotonic() - began, longest)
}

/// A store whose only frozen memtable waits, after a flush that took so long.
fn behind(flush_takes: Duration) -> (World, Engine) {
    let world = world(flush_takes);
    let engine = world.open();
    freeze_one(&engine);
    while engine.statistics().memtables_frozen > 0 {
        world.executor.run_for(Duration::from_millis(1));
    }
    freeze_one(&engine);
    (world, engine)
}

/// As many bytes wait as long, in whatever portions they come.
#[test]
fn writes_wait_by_their_bytes_and_not_by_their_number() {
    let took = [1, 4, 16].map(|portion| {
        let (world, engine) = behind(Duration::from_millis(400));
        let (took, _) = write(&world, &engine, 256 / portion, 1024 * portion as usize);
        assert!(engine.statistics().slowdowns > 0);
        took.as_secs_f64()
    });
    for other in &took[1..] {
        assert!((0.8..1.25).contains(&(other / took[0])), "{took:?}");
    }
    // A quarter of the room, at the rate at which all of it lasts as long as the flush.
    assert!((0.08..0.16).contains(&took[0]), "{took:?}");
}

#[test]
fn writers_are_as_fast_as_the_flush_was() {
    let took = [100, 200, 400].map(|flush_ms| {
        let (world, engine) = behind(Duration::from_millis(flush_ms));
        let (took, longest) = write(&world, &engine, 64, 4096);
        assert!(longest <= SLOWDOWN_MAX, "{longest:?}");
        took.as_secs_f64()
    });
    for pair in took.windows(2) {
        assert!((1.6..2.4).contains(&(pair[1] / pair[0])), "{took:?}");
    }
    // While nothing is behind, nobody waits.
    let world = world(Duration::from_millis(400));
    let engine = world.open();
    let (took, _) = write(&world, &engine, 64, 4096);
    assert_eq!((took, engine.statistics().slowdowns), (Duration::ZERO, 0));
}

/// Not even if the flush is so slow that the rate is next to nothing.
#[test]
fn no_write_is_held_back_for_longer_than_the_bound() {
    let (world, engine) = behind(Duration::from_secs(3600));
    for bytes in [300, 4 << 10, 40 << 10] {
        let (took, longest) = write(&world, &engine, 8, bytes);
        assert!(longest <= SLOWDOWN_MAX, "{bytes}: {longest:?}");
        assert!(took >= SLOWDOWN_MAX * 6, "{bytes}: {took:?}");
    }
}

/// Writers that wait together are not let through together: each group has what its wait
/// pays for.
#[test]
fn a_queue_is_let_through_at_the_rate() {
    let (world, engine) = behind(Duration::from_millis(400));
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    for number in 1..=512 {
        let key = format!("{number:04}");
        let entry = put(&key, (1 << 32) + number, &"v".repeat(1024 - 212));
        engine.submit(entry, &outbox, number).unwrap();
    }
    let began = world.clock.monotonic();
    let mut stored_after = Vec::new();
    while collected.count() < 512 {
        world.executor.run_class(JobClass::Commit);
        stored_after.push(collected.count());
        world.clock.advance(Duration::from_millis(1));
    }
    let took = (world.clock.monotonic() - began).as_secs_f64();
    assert!((0.15..0.35).contains(&took), "half of the room: {took}");
    let groups = stored_after.windows(2).map(|pair| pair[1] - pair[0]);
    let most = groups.max().unwrap();
    assert!(most <= 40, "{most} of 512 at once");
}
