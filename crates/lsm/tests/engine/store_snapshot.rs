//! A snapshot of the whole store is what it held at one moment, and a store can be made of it.

use crate::common::{CollectedOutcomes, World, delete, put, read, scan_all, table_files};
use base::{Entry, SeededRandom, Timestamp};
use lsm::{
    Admission, Disk, Engine, Environment, Error, Options, Outbox, RestoredStore, SetAsideKeys,
    StoreSnapshot,
};
use lsm_testing::{BlockingWrite, MemoryDisk, environment};
use std::sync::Arc;
use std::time::Duration;

const HOLD_MAX: Duration = Duration::from_millis(200);

/// Copies the tables of a snapshot to another disk, and makes a store of them there.
fn restore(snapshot: &StoreSnapshot, greatest: u64) -> (Engine, Arc<MemoryDisk>) {
    let disk = Arc::new(MemoryDisk::new());
    let (environment, _executor) = environment(Arc::clone(&disk) as _);
    let folder = environment.folder.clone();
    disk.create_folder(&folder).unwrap();
    let store = RestoredStore::of(&snapshot.description()).unwrap();
    assert_eq!(store.tables(), snapshot.tables());
    for table in store.tables() {
        let mut bytes = vec![0; table.bytes as usize];
        snapshot.read(table, 0, &mut bytes).unwrap();
        let file = disk.create(&RestoredStore::table_path(&folder, table));
        let file = file.unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        file.sync().unwrap();
    }
    let greatest = Timestamp::from_u64(greatest);
    let random = SeededRandom::new(99);
    store.complete(&*disk, &folder, &random, greatest).unwrap();
    // What is durable is enough.
    let disk = Arc::new(disk.clone_synced());
    let environment = Environment {
        disk: Arc::clone(&disk) as _,
        ..environment
    };
    (
        Engine::open(environment, Options::default()).unwrap().0,
        disk,
    )
}

fn submit(engine: &Engine, entry: Entry) -> Arc<CollectedOutcomes> {
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    engine.submit(entry, &outbox, 0).unwrap();
    collected
}

#[test]
fn it_has_what_was_acknowledged_before_and_nothing_else() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 1, "in a table")).unwrap();
    engine.write(put("b", 2, "old")).unwrap();
    engine.flush().unwrap();
    engine.write(put("b", 3, "in memory")).unwrap();
    engine.write(delete("c", 4)).unwrap();
    let mut snapshot = engine.freeze(7, HOLD_MAX).unwrap();
    let later = submit(&engine, put("d", 5, "later"));
    world.executor.run_all_due();
    assert_eq!(later.count(), 0, "commits are held off");
    assert_eq!(read(&engine, "d"), None);
    assert!(engine.end_hold(7));
    world.executor.run_all_due();
    assert_eq!(later.count(), 1);
    engine.write(put("a", 6, "newer")).unwrap();
    engine.flush().unwrap();
    engine.compact().unwrap();

    snapshot.flush().unwrap();
    assert_eq!(snapshot.greatest_timestamp(), Timestamp::from_u64(4));
    let (restored, _) = restore(&snapshot, 50);
    let expected = [
        put("a", 1, "in a table"),
        put("b", 3, "in memory"),
        delete("c", 4),
    ];
    assert_eq!(scan_all(&restored, "", None), expected);
    assert_eq!(restored.greatest_timestamp(), Timestamp::from_u64(50));
    assert_ne!(restored.store_id(), engine.store_id());
    assert_eq!(read(&engine, "d").as_deref(), Some("later"));
}

/// Everything in one memtable, in many, and merged, at every moment of a row of writes.
#[test]
fn it_is_the_store_of_its_moment_whatever_comes_after() {
    is_store_of_its_moment(&World::new());
    is_store_of_its_moment(&World::new().with_blobs(true));
}

fn is_store_of_its_moment(world: &World) {
    let engine = world.open();
    let value = "v".repeat(300);
    let write = |number: u64| {
        let key = format!("key-{:03}", number * 7919 % 97);
        engine.write(put(&key, number, &value)).unwrap();
    };
    for moment in 1..=8 {
        (moment * 40 - 40..moment * 40).for_each(write);
        let expected = scan_all(&engine, "", None);
        // A store that is behind with its flushes is not frozen.
        world.executor.run_all_due();
        let mut snapshot = engine.freeze(moment, HOLD_MAX).unwrap();
        assert!(engine.end_hold(moment));
        // They are flushed and merged before the snapshot looks.
        (1_000 * moment..1_000 * moment + 60).for_each(write);
        if moment % 2 == 0 {
            engine.compact().unwrap();
        }
        snapshot.flush().unwrap();
        let (restored, _) = restore(&snapshot, 0);
        assert_eq!(scan_all(&restored, "", None), expected, "{moment}");
    }
}

#[test]
fn a_hold_ends_by_itself_and_says_so() {
    let world = World::new();
    let engine = world.open();
    let snapshot = engine.freeze(1, HOLD_MAX).unwrap();
    let held = submit(&engine, put("a", 1, "v"));
    world.executor.run_for(HOLD_MAX - Duration::from_millis(1));
    assert_eq!(held.count(), 0);
    world.executor.run_for(Duration::from_millis(1));
    assert_eq!(held.count(), 1);
    assert!(!engine.end_hold(1), "a write was committed since");
    drop(snapshot);
}

#[test]
fn one_that_is_given_up_lets_writes_go_on() {
    let world = World::new();
    let engine = world.open();
    let snapshot = engine.freeze(1, HOLD_MAX).unwrap();
    let held = submit(&engine, put("a", 1, "v"));
    drop(snapshot);
    world.executor.run_all_due();
    assert_eq!(held.count(), 1);
    assert!(!engine.end_hold(1));
}

#[test]
fn there_is_one_at_a_time() {
    let world = World::new();
    let engine = world.open();
    let first = engine.freeze(1, HOLD_MAX).unwrap();
    assert!(engine.end_hold(1));
    let second = engine.freeze(2, HOLD_MAX);
    assert!(matches!(second, Err(Error::Overloaded)));
    drop(first);
    let _third = engine.freeze(3, HOLD_MAX).unwrap();
}

#[test]
fn a_close_waits_for_no_hold() {
    let world = World::new();
    let engine = world.open();
    let _snapshot = engine.freeze(1, HOLD_MAX).unwrap();
    let held = submit(&engine, put("a", 1, "v"));
    engine.close().unwrap();
    assert_eq!(held.count(), 1);
    assert_eq!(read(&world.open(), "a").as_deref(), Some("v"));
}

#[test]
fn it_keeps_removed_tables_until_it_lets_go_of_them() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 1, &"v".repeat(4000))).unwrap();
    let mut snapshot = engine.freeze(1, HOLD_MAX).unwrap();
    assert!(engine.end_hold(1));
    snapshot.flush().unwrap();
    assert_eq!(snapshot.pinned_bytes(), 0, "the table is live");
    engine.write(put("a", 2, "w")).unwrap();
    engine.compact().unwrap();
    let table = snapshot.tables()[0];
    assert_eq!(snapshot.pinned_bytes(), table.bytes);
    assert_eq!(table_files(&world), 2, "somebody may read the old one");
    let mut bytes = vec![0; table.bytes as usize];
    snapshot.read(table, 0, &mut bytes).unwrap();
    snapshot.let_go(table);
    assert_eq!(snapshot.pinned_bytes(), 0);
    assert!(snapshot.read(table, 0, &mut bytes).is_err());
    assert_eq!(snapshot.tables(), [table], "it is part of it nevertheless");
    drop(snapshot);
    assert_eq!(table_files(&world), 1);
}

#[test]
fn a_crash_leaves_nothing_of_it() {
    let world = World::new();
    let engine = world.open();
    for number in 0..100 {
        let key = format!("{number:03}");
        engine.write(put(&key, number, &"v".repeat(200))).unwrap();
    }
    world.executor.run_all_due();
    let mut snapshot = engine.freeze(1, HOLD_MAX).unwrap();
    let before = world.memory.clone_synced();
    assert!(engine.end_hold(1));
    engine.compact().unwrap();
    snapshot.flush().unwrap();
    let after = world.memory.clone_synced();
    for disk in [before, after] {
        let crashed = World::on(Arc::new(disk));
        let reopened = crashed.open();
        assert_eq!(scan_all(&reopened, "", None), scan_all(&engine, "", None));
        let live: u64 = reopened
            .statistics()
            .levels
            .iter()
            .map(|it| it.tables)
            .sum();
        assert_eq!(table_files(&crashed) as u64, live);
    }
}

#[test]
fn what_is_set_aside_is_no_part_of_it() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 10, "old")).unwrap();
    engine.write(put("b", 60, "new")).unwrap();
    let below = Timestamp::from_u64(50);
    engine.set_aside(below, SetAsideKeys::All).unwrap();
    let mut snapshot = engine.freeze(1, HOLD_MAX).unwrap();
    snapshot.flush().unwrap();
    let (restored, _) = restore(&snapshot, 0);
    assert_eq!(scan_all(&restored, "", None), [put("b", 60, "new")]);
    assert_eq!(restored.statistics().set_aside.tables, 0, "nothing is kept");
}

#[test]
fn a_store_with_damage_has_none() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 1, &"v".repeat(4000))).unwrap();
    engine.flush().unwrap();
    engine.close().unwrap();
    let names = world.disk.list(&World::folder()).unwrap();
    let table = names.iter().find(|name| name.ends_with(".sst")).unwrap();
    let path = World::folder().join(table);
    world.memory.corrupt(&path, 10, 1).unwrap();
    let engine = world.open();
    assert!(engine.get(b"a").is_err());
    world.executor.run_all_due();
    let frozen = engine.freeze(1, HOLD_MAX);
    assert!(
        matches!(frozen, Err(Error::Corrupt { .. })),
        "{:?}",
        frozen.err()
    );
    let held = submit(&engine, put("b", 2, "v"));
    world.executor.run_all_due();
    assert_eq!(held.count(), 1, "nothing is held off");
}

#[test]
fn a_folder_with_tables_and_no_manifest_is_no_store() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 1, "v")).unwrap();
    let mut snapshot = engine.freeze(1, HOLD_MAX).unwrap();
    snapshot.flush().unwrap();
    let (other, executor) = environment(Arc::new(MemoryDisk::new()));
    drop(executor);
    other.disk.create_folder(&other.folder).unwrap();
    let table = RestoredStore::table_path(&other.folder, snapshot.tables()[0]);
    other.disk.create(&table).unwrap();
    assert!(Engine::open(other, Options::default()).is_err());
}

/// Conditional writes that are half done at the moment of the snapshot are over in the store that is
/// made of it: nothing waits for a coordinator that does not exist there, and none can go on.
#[test]
fn promises_are_no_part_of_it() {
    let world = World::new();
    let engine = world.open();
    let conditional = |engine: &Engine, entry: Entry, admission: Admission| {
        let collected = Arc::new(CollectedOutcomes::default());
        let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
        engine.submit_batch([(entry, admission, 0)], &outbox);
        engine.commit_waiting();
        collected.take().pop().map(|outcome| outcome.result)
    };
    let promise = Admission::Promise {
        is_forced: false,
        epoch: 0,
    };
    engine.write(put("promised", 10, "old")).unwrap();
    engine.write(put("accepted", 11, "old")).unwrap();
    conditional(&engine, delete("promised", 30), promise)
        .unwrap()
        .unwrap();
    conditional(&engine, delete("accepted", 31), promise)
        .unwrap()
        .unwrap();
    let ballot = Timestamp::from_u64(31);
    let accepted = put("accepted", 31, "new");
    conditional(&engine, accepted, Admission::Accept { ballot })
        .unwrap()
        .unwrap();
    // It waits for the promise, so nobody was told of it.
    let held = submit(&engine, put("promised", 20, "held"));
    engine.commit_waiting();
    assert_eq!(held.count(), 0);
    let mut snapshot = engine.freeze(7, HOLD_MAX).unwrap();
    assert!(engine.end_hold(7));
    world.executor.run_all_due();
    snapshot.flush().unwrap();

    let (restored, _) = restore(&snapshot, 50);
    assert_eq!(restored.promises_kept(), 0);
    assert_eq!(read(&restored, "promised").as_deref(), Some("old"));
    assert_eq!(read(&restored, "accepted").as_deref(), Some("new"));
    let ballot = Timestamp::from_u64(30);
    let late = put("promised", 30, "late");
    let late = conditional(&restored, late, Admission::Accept { ballot });
    assert!(matches!(late, Some(Err(Error::NotPromised))), "{late:?}");
    // What writes there begins above all of the old cluster, and is not held back.
    restored.write(put("promised", 51, "restored")).unwrap();
    assert_eq!(read(&restored, "promised").as_deref(), Some("restored"));
}
