//! Log segments begin in the files of earlier ones, and no crash brings back what those held.

use crate::common::{self, World, put, read};
use lsm::{Disk, Durability, Engine, Error, JobClass};
use lsm_testing::{BlockingWrite, Call, Fault, FaultyDisk, Unsynced};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn files(world: &World, suffix: &str) -> Vec<String> {
    let mut names = world.memory.list(&World::folder()).unwrap();
    names.retain(|name| name.ends_with(suffix));
    names
}

/// Writes and flushes so much that each segment is used almost to its end.
fn fill_segments(world: &World, engine: &Engine, count: u64, from: u64) {
    for segment in 0..count {
        for number in 0..20 {
            let key = format!("key-{number:02}");
            let timestamp = from + segment * 20 + number;
            engine
                .write(put(&key, timestamp, &"v".repeat(300)))
                .unwrap();
        }
        engine.flush().unwrap();
        world.executor.run_for(Duration::from_secs(1));
    }
}

#[test]
fn segments_are_used_again_and_not_filled_with_zeros() {
    let mut world = World::new();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = world.open();
    fill_segments(&world, &engine, 6, 1);
    let count = |call: Call| {
        let is_counted = move |made, path: &Path| {
            made == call && path.extension().is_some_and(|kind| kind != "sst")
        };
        faulty.arm(Fault::at(u64::MAX, ErrorKind::Other).only(is_counted));
    };
    let log_files = |world: &World| files(world, ".wal").len() + files(world, ".free").len();
    let before = log_files(&world);
    count(Call::Create);
    fill_segments(&world, &engine, 10, 1_000);
    assert_eq!(faulty.calls(), 0, "nor for the manifest");
    assert_eq!(log_files(&world), before, "no file was made for a segment");
    // An idle store has the segment of its memtable, the one made ahead, and free ones.
    assert!(before <= 2 + world.options.memtables_frozen_max, "{before}");
    // Beside the commits only headers are written.
    count(Call::Write);
    engine.write(put("a", 1 << 40, "v")).unwrap();
    engine.flush().unwrap();
    let manifests = faulty.calls();
    world.executor.run_class(JobClass::Log);
    assert_eq!(faulty.calls(), manifests + 1, "the next segment's header");
}

/// Two groups of one segment are not synced; a power cut takes the first. The start begins
/// the same segment anew, with a group that ends where the second one began: at the end of a
/// page, because behind a group the rest of its page is cleared.
#[test]
fn a_torn_group_does_not_come_back_behind_a_new_one() {
    for flushes in 0..3 {
        let mut world = World::new();
        world.options.durability = Durability::Os;
        world.options.memtable_bytes = 64 << 10;
        // Two pages without the headers of the segment, the group and the record, and the key.
        let long = "x".repeat(2 * 4096 - 24 - 40 - 16 - 1);
        let engine = world.open();
        for number in 0..flushes {
            engine.write(put("flushed", 1 + number, "v")).unwrap();
            engine.flush().unwrap();
        }
        let free = files(&world, ".free").len();
        let segment = files(&world, ".wal").pop().unwrap();
        let segment = World::folder().join(segment);
        engine.write(put("a", 10, &long)).unwrap();
        engine.write(put("b", 11, "torn off")).unwrap();
        let mut world = World::on(Arc::new(world.memory.crash_clone(
            &mut |unsynced| match unsynced {
                Unsynced::Page { file, page } => file == segment && page == 2,
                _ => true,
            },
        )));
        world.options.durability = Durability::Os;
        world.options.memtable_bytes = 64 << 10;
        let (engine, report) = world.try_open().unwrap();
        assert_eq!((read(&engine, "a"), read(&engine, "b")), (None, None));
        assert_eq!(report.entries_replayed, 0);
        assert!(report.torn_bytes > 0, "{flushes}: {report:?}");
        engine.write(put("a", 12, &long)).unwrap();
        drop(engine);
        let after = World::on(Arc::new(world.memory.crash_clone(&mut |_| true)));
        let (engine, report) = after.try_open().unwrap();
        assert_eq!(report.entries_replayed, 1, "{flushes} flushes, {free} free");
        assert_eq!(read(&engine, "b"), None);
    }
}

/// Those that were free at the end are used by the next run, as many as it may keep.
#[test]
fn a_start_takes_free_segments_over() {
    for (kept, expected) in [(3, 3), (1, 1)] {
        let mut world = World::new();
        world.options.memtables_frozen_max = 3;
        let engine = world.open();
        // Three memtables wait for their flush at the same time.
        for number in 1..=60 {
            let entry = put(&format!("{number:02}"), number, &"v".repeat(400));
            let outbox = Arc::new(common::CollectedOutcomes::default());
            engine
                .submit(entry, &(outbox as Arc<dyn lsm::Outbox>), number)
                .unwrap();
            world.executor.run_class(JobClass::Commit);
            world.executor.run_class(JobClass::Log);
            world.clock.advance(Duration::from_millis(25));
        }
        assert_eq!(engine.statistics().memtables_frozen, 3);
        world.executor.run_until_idle();
        engine.close().unwrap();
        drop(engine);
        assert_eq!(files(&world, ".free").len(), 3);
        world.options.memtables_frozen_max = kept;
        let engine = world.open();
        // One is the first segment of this run.
        assert_eq!(files(&world, ".free").len(), expected - 1);
        for number in 1..=60 {
            assert!(read(&engine, &format!("{number:02}")).is_some());
        }
    }
}

/// Free segments are no loss on a full disk: their room is given back at once, and none is
/// kept until there is room again.
#[test]
fn a_full_disk_gets_the_room_of_free_segments_back() {
    let mut world = World::new();
    world.options.compression = lsm::Compression::None;
    let engine = world.open();
    fill_segments(&world, &engine, 6, 1);
    assert!(!files(&world, ".free").is_empty());
    world.memory.set_capacity(world.memory.used_bytes());
    engine.write(put("a", 1_000, "v")).unwrap();
    engine.flush().unwrap();
    assert!(
        engine.statistics().disk_full,
        "it found no room for its table"
    );
    assert_eq!(files(&world, ".free"), [""; 0]);
    engine.write(common::delete("a", 1_001)).unwrap();
    engine.flush().unwrap();
    assert_eq!(files(&world, ".free"), [""; 0], "removed, not kept");
    assert!(read(&engine, "key-01").is_some());
    world.memory.set_capacity(u64::MAX);
    world.executor.run_for(Duration::from_secs(60));
    assert!(!engine.statistics().disk_full);
    fill_segments(&world, &engine, 6, 10_000);
    assert!(!files(&world, ".free").is_empty());
}

/// A free file that cannot be used is no reason to fail: another one takes its place.
#[test]
fn a_free_segment_that_cannot_be_used_is_replaced() {
    for failing in [Call::Open, Call::Len, Call::Write, Call::Rename] {
        let mut world = World::new();
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
        world.disk = Arc::clone(&faulty) as _;
        let engine = world.open();
        fill_segments(&world, &engine, 6, 1);
        let is_free = |path: &Path| path.extension().is_some_and(|kind| kind == "free");
        let fault = Fault::at(0, ErrorKind::Other)
            .only(move |call, path| call == failing && is_free(path))
            .with_short_writes();
        faulty.arm(fault);
        fill_segments(&world, &engine, 4, 1_000);
        assert_eq!(faulty.failed(), 1, "{failing:?}");
        assert_eq!(engine.statistics().poisoned, None);
        drop(engine);
        assert!(read(&world.open(), "key-19").is_some(), "{failing:?}");
    }
}

#[test]
fn a_failed_sync_of_a_reused_segment_poisons() {
    let mut world = World::new();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = world.open();
    fill_segments(&world, &engine, 6, 1);
    let is_free = |path: &Path| path.extension().is_some_and(|kind| kind == "free");
    let is_failing = move |call, path: &Path| call == Call::Sync && is_free(path);
    faulty.arm(Fault::at(0, ErrorKind::Other).only(is_failing));
    engine.write(put("a", 1_000, "v")).unwrap();
    let _ = engine.flush();
    world.executor.run_class(JobClass::Log);
    assert_eq!(faulty.failed(), 1);
    let refused = engine.write(put("b", 1_001, "v"));
    assert!(
        matches!(refused, Err(Error::Poisoned { .. })),
        "{refused:?}"
    );
}
