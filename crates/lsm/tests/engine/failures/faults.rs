//! Disks that fail once, at each sync, or because no file handle is free; and a store that
//! is opened twice.

use crate::common::{CollectedOutcomes, World, ingest, long, put, read};
use base::{Entry, Timestamp};
use lsm::{Disk, Durability, Engine, Error, JobClass, Outbox};
use lsm_testing::{BlockingWrite, Call, Fault, FaultyDisk};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_failed_sync_poisons_the_store() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("a", 1, "before")).unwrap();
    world.memory.fail_syncs(true);
    let failed = engine.write(put("a", 2, "after"));
    assert!(matches!(failed, Err(Error::Poisoned { .. })), "{failed:?}");
    world.memory.fail_syncs(false);
    // Not even now: the kernel may have dropped the pages that it could not write.
    let refused = engine.write(put("b", 3, "v"));
    assert!(
        matches!(refused, Err(Error::Poisoned { .. })),
        "{refused:?}"
    );
    assert_eq!(read(&engine, "a"), Some("before".into()), "reads go on");
    let cause = engine.statistics().poisoned.expect("it says so");
    assert!(cause.contains("sync"), "{cause}");
    drop(engine);
    let engine = world.open();
    engine.write(put("b", 4, "restarted")).unwrap();
}

#[test]
fn a_failed_sync_of_a_table_or_manifest_poisons_too() {
    type Fails = fn(Call, &Path) -> bool;
    let of_table = |call, path: &Path| {
        call == Call::Sync && path.extension().is_some_and(|name| name == "sst")
    };
    let of_manifest = |call, path: &Path| call == Call::Sync && path.ends_with("MANIFEST");
    let of_folder = |call, _: &Path| call == Call::SyncFolder;
    // Which call fails, and what the store then names. The folder is synced for the table.
    let (flush, compact) = (false, true);
    let cases: [(bool, Fails, &str); 5] = [
        (flush, of_table, ".sst"),
        (flush, of_folder, "/data/store:"),
        (flush, of_manifest, "MANIFEST:"),
        (compact, of_table, ".sst"),
        (compact, of_manifest, "MANIFEST:"),
    ];
    for (compacts, fails, named) in cases {
        let mut world = World::new();
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
        world.disk = Arc::clone(&faulty) as _;
        let engine = world.open();
        for number in 1..=2 {
            engine.write(put("a", number, "v")).unwrap();
            engine.flush().unwrap();
        }
        if !compacts {
            engine.write(put("a", 3, "v")).unwrap();
        }
        // The next segment is created before, so that none of its syncs fails.
        world.executor.run_class(JobClass::Log);
        faulty.arm(Fault::at(0, ErrorKind::Other).only(fails));
        let failed = if compacts {
            engine.compact()
        } else {
            engine.flush()
        };
        assert!(matches!(failed, Err(Error::Poisoned { .. })), "{failed:?}");
        assert_eq!(faulty.failed(), 1);
        faulty.heal();
        assert!(matches!(
            engine.write(put("b", 9, "v")),
            Err(Error::Poisoned { .. })
        ));
        let cause = engine.statistics().poisoned.expect("it says so");
        assert!(cause.contains(named), "{cause}");
        assert_eq!(read(&engine, "a"), Some("v".into()));
        drop(engine);
        assert_eq!(read(&world.open(), "a"), Some("v".into()));
    }
}

#[test]
fn a_second_opener_is_refused() {
    let world = World::new();
    let engine = world.open();
    let refused = world.try_open().map(drop).unwrap_err();
    assert!(matches!(refused, Error::Locked { .. }), "{refused}");
    // Whoever may read the folder can lock it.
    assert!(refused.to_string().contains("lslocks"), "{refused}");
    drop(engine);
    world.open();
}

#[test]
fn a_failed_sync_by_interval_poisons() {
    let mut world = World::new();
    world.options.durability = Durability::Interval(Duration::from_millis(10));
    let engine = world.open();
    engine.write(put("a", 1, "v")).unwrap();
    world.memory.fail_syncs(true);
    engine.write(put("a", 2, "before the sync")).unwrap();
    world.executor.run_for(Duration::from_millis(10));
    world.memory.fail_syncs(false);
    assert!(engine.statistics().poisoned.is_some());
    let refused = engine.write(put("b", 3, "v"));
    assert!(matches!(refused, Err(Error::Poisoned { .. })));
    assert_eq!(read(&engine, "a"), Some("before the sync".into()));
}

/// How a run writes.
#[derive(Clone, Copy, Debug)]
struct Run {
    durability: Durability,
    /// Whether it submits writes and runs jobs, instead of calls that block.
    submits: bool,
    /// Whether most values lie in blob tables.
    has_blobs: bool,
    /// The call that fails, and its error.
    fault: Option<(u64, ErrorKind)>,
}

impl Run {
    /// Writes, runs background work in between, and checks the acknowledged writes.
    /// Returns how many calls the disk got.
    fn run(self) -> u64 {
        let mut world = World::new().with_blobs(self.has_blobs);
        world.options.durability = self.durability;
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
        if let Some((call, kind)) = self.fault {
            faulty.arm(Fault::at(call, kind).with_short_writes());
        }
        world.disk = Arc::clone(&faulty) as _;
        let key_of = |number: u64| format!("key-{:02}", number % 20);
        let bulk_keys = || (0..10).map(|number| format!("bulk-{number}"));
        // The first half of the bulk keys, and the other half, in tables of their own.
        world.options.table_bytes = 2 << 10;
        let mut acknowledged = BTreeMap::new();
        if let Ok((engine, _)) = world.try_open() {
            let collected = Arc::new(CollectedOutcomes::default());
            let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
            let mut submitted = 0;
            for number in 1..=80 {
                let entry = put(&key_of(number), number, &"v".repeat(250));
                if self.submits {
                    submitted += usize::from(engine.submit(entry, &outbox, number).is_ok());
                    world.executor.run_for(Duration::from_millis(1));
                } else if engine.write(entry).is_ok() {
                    acknowledged.insert(key_of(number), number);
                }
                if number % 3 == 0 {
                    world.executor.run_one(|_| 0);
                }
                if number % 40 == 20 && ingest_keys(&engine, bulk_keys(), number).is_ok() {
                    acknowledged.extend(bulk_keys().map(|key| (key, number)));
                }
                if number % 10 == 0 {
                    assert_whole(self, &engine);
                }
            }
            world.executor.run_for(Duration::from_secs(5));
            let outcomes = collected.take();
            assert_eq!(outcomes.len(), submitted, "{self:?}: each is told its end");
            let stored = outcomes.iter().filter(|outcome| outcome.result.is_ok());
            acknowledged.extend(stored.map(|outcome| (key_of(outcome.ticket), outcome.ticket)));
            let _ = engine.flush();
            let _ = engine.compact();
            for (key, number) in &acknowledged {
                // A read may fail, but must not return a wrong answer.
                if let Ok(found) = engine.get(key.as_bytes()) {
                    let found = found.expect("acknowledged").timestamp().as_u64();
                    assert!(found >= *number, "{self:?}: {key}");
                }
            }
        }
        world.disk = Arc::clone(&world.memory) as _;
        let engine = world.open();
        assert_whole(self, &engine);
        for (key, number) in acknowledged {
            let found = engine.get(key.as_bytes()).unwrap().expect("acknowledged");
            assert!(found.timestamp().as_u64() >= number, "{self:?}: {key}");
        }
        faulty.calls()
    }
}

/// Ingests a value of each key with the timestamp `number`, in several tables.
fn ingest_keys(
    engine: &Engine,
    keys: impl Iterator<Item = String>,
    number: u64,
) -> Result<(), Error> {
    let entries: Vec<Entry> = keys
        .map(|key| put(&key, number, &long(number, 1000)))
        .collect();
    let ingested = ingest(engine, &entries)?;
    assert!(ingested.tables > 1);
    Ok(())
}

/// Checks that readers see all of an ingest or nothing.
fn assert_whole(run: Run, engine: &Engine) {
    let mut scan = engine.scan(b"bulk", Some(b"bull"));
    let mut found = Vec::new();
    loop {
        match scan.next_batch(1 << 20) {
            Ok(batch) if batch.is_empty() => break,
            Ok(batch) => found.extend(batch.iter().map(Entry::timestamp)),
            // A read may fail.
            Err(_) => return,
        }
    }
    let is_whole = found.len() == 10 && found.iter().all(|timestamp| *timestamp == found[0]);
    assert!(found.is_empty() || is_whole, "{run:?}: {found:?}");
    assert_eq!(lent(engine), Some(found), "{run:?}");
}

/// The timestamps of an ingest, as a scan lends them that goes on after errors. [`None`] if a
/// call fails again and again.
fn lent(engine: &Engine) -> Option<Vec<Timestamp>> {
    let mut scan = engine.scan(b"bulk", Some(b"bull"));
    let mut found = Vec::new();
    let mut errors = 0;
    loop {
        match scan.advance() {
            Ok(true) => found.push(scan.entry().timestamp()),
            Ok(false) => return Some(found),
            Err(_) if errors < 3 => errors += 1,
            Err(_) => return None,
        }
    }
}

/// Whichever call fails once, and with whichever error, no acknowledged write is lost, in
/// the running store or after a restart.
#[test]
fn a_single_failed_disk_call_loses_nothing() {
    let interval = Durability::Interval(Duration::from_millis(3));
    let sync = Durability::Sync;
    let ways = [
        (sync, false, false),
        (sync, false, true),
        (interval, true, true),
    ];
    for (durability, submits, has_blobs) in ways {
        let mut run = Run {
            durability,
            submits,
            has_blobs,
            fault: None,
        };
        let calls = run.run();
        assert!(calls > 200, "{calls}");
        for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
            for call in 0..calls {
                run.fault = Some((call, kind));
                run.run();
            }
        }
    }
}

/// The folder was moved away, or the process may not write to it any more.
#[test]
fn a_store_that_can_make_no_file_says_so_and_recovers_by_itself() {
    recovers_by_itself(|call, _| matches!(call, Call::Create | Call::Rename));
    // The log can go on until too many memtables wait for their flush.
    recovers_by_itself(|call, path| {
        call == Call::Create && path.extension().is_some_and(|kind| kind == "sst")
    });
}

/// Fails these calls until the store refuses writes, and then no longer.
fn recovers_by_itself(fails: fn(Call, &Path) -> bool) {
    let mut world = World::new();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = world.open();
    engine.write(put("first", 1, "v")).unwrap();
    assert_eq!(
        (engine.statistics().failing, engine.refuses_writes()),
        (None, None)
    );
    let fault = Fault::at(0, ErrorKind::PermissionDenied);
    faulty.arm(fault.only(fails).lasting());
    // The log can go on for a while, and is not refused before it must.
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    let value = "v".repeat(1000);
    let mut last = 1;
    let mut accepted = 0;
    while engine.refuses_writes().is_none() {
        last += 1;
        assert!(last < 1000, "it never refuses");
        engine
            .submit(put(&last.to_string(), last, &value), &outbox, last)
            .unwrap();
        world.executor.run_for(Duration::from_millis(100));
        accepted += collected
            .take()
            .iter()
            .filter(|it| it.result.is_ok())
            .count();
    }
    assert!(accepted > 5, "{accepted}");
    let failing = engine.statistics().failing.expect("it says so");
    assert!(failing.contains("/data/store"), "{failing}");
    assert!(!engine.takes_puts());
    assert_eq!(engine.statistics().poisoned, None);
    // A write is refused at once: nothing waits for the next attempt.
    engine
        .submit(put("late", 5000, &value), &outbox, 5000)
        .unwrap();
    world.executor.run_class(JobClass::Commit);
    let outcomes = collected.take();
    assert!(
        matches!(outcomes[..], [ref one] if one.result.is_err()),
        "{outcomes:?}"
    );
    assert_eq!(read(&engine, "first").as_deref(), Some("v"));
    faulty.heal();
    world.executor.run_for(Duration::from_secs(3));
    assert_eq!(
        (engine.statistics().failing, engine.refuses_writes()),
        (None, None)
    );
    engine.write(put("late", 5001, "stored")).unwrap();
    drop(engine);
    let engine = World::on(Arc::new(world.memory.clone_synced())).open();
    assert_eq!(read(&engine, "late").as_deref(), Some("stored"));
    assert_eq!(read(&engine, "first").as_deref(), Some("v"));
}

/// What is written to a folder or a log that was removed is lost with the process, although every
/// call on the open files succeeds.
#[test]
fn a_store_whose_folder_is_gone_takes_no_write_until_it_is_back() {
    let mut world = World::new();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = world.open();
    engine.write(put("first", 1, "v")).unwrap();
    assert!(engine.look_at_folder().unwrap().free_bytes.is_some());
    let fault = |kind| Fault::at(0, kind).only(|call, _| call == Call::AvailableBytes);
    faulty.arm(fault(ErrorKind::Unsupported).lasting());
    assert_eq!(engine.look_at_folder().unwrap().free_bytes, None);
    assert_eq!(engine.refuses_writes(), None);

    faulty.arm(fault(ErrorKind::NotFound).lasting());
    assert!(engine.look_at_folder().is_err());
    let failing = engine.statistics().failing.expect("it says so");
    assert!(failing.contains("/data/store"), "{failing}");
    assert_eq!(engine.refuses_writes().as_deref(), Some(&*failing));
    assert!(!engine.takes_puts());
    assert!(engine.write(put("lost", 2, "v")).is_err());
    assert_eq!(read(&engine, "first").as_deref(), Some("v"));
    faulty.heal();
    engine.look_at_folder().unwrap();
    assert_eq!(
        (engine.statistics().failing, engine.refuses_writes()),
        (None, None)
    );
    engine.write(put("back", 3, "v")).unwrap();

    let folder = Path::new("/data/store");
    let names = world.memory.list(folder).unwrap();
    for name in names.iter().filter(|name| name.ends_with(".wal")) {
        world.memory.remove(&folder.join(name)).unwrap();
    }
    let error = engine.look_at_folder().unwrap_err().to_string();
    assert!(error.contains("was removed"), "{error}");
    assert!(engine.write(put("lost", 4, "v")).is_err());
}

/// The folder may not be written to, and when it may again, its disk is full. Whoever is told why
/// no write can be taken asks the store no more, so only the store itself can end that.
#[test]
fn a_store_that_could_make_no_file_and_then_has_no_room_does_not_refuse_for_good() {
    let mut world = World::new();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = world.open();
    let fail_creations = |kind| {
        let is_of_log = |path: &Path| path.extension().is_some_and(|extension| extension == "wal");
        let fault = Fault::at(0, kind);
        faulty.arm(
            fault
                .only(move |call, path| matches!(call, Call::Create) && is_of_log(path))
                .lasting(),
        );
    };
    fail_creations(ErrorKind::PermissionDenied);
    let value = "v".repeat(1000);
    let refused = (1..100).find(|number| {
        engine
            .write(put(&number.to_string(), *number, &value))
            .is_err()
    });
    assert!(refused.is_some() && engine.refuses_writes().is_some());
    fail_creations(ErrorKind::StorageFull);
    world.executor.run_for(Duration::from_secs(3));
    assert!(faulty.failed() > 0);
    assert_eq!(
        (engine.statistics().failing, engine.refuses_writes()),
        (None, None)
    );
    faulty.heal();
    world.executor.run_for(Duration::from_secs(30));
    engine.write(put("late", 1000, "v")).unwrap();
}

/// A process without a free file handle for the next segment refuses writes only as long
/// as no handle is free.
#[test]
fn a_segment_that_cannot_be_made_is_no_reason_to_poison() {
    let mut world = World::new();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = world.open();
    let is_segment = |path: &Path| path.extension().is_some_and(|extension| extension == "wal");
    faulty.arm(
        Fault::at(0, ErrorKind::Other)
            .only(move |call, path| call == Call::Create && is_segment(path))
            .lasting(),
    );
    let value = "v".repeat(1000);
    let write = |timestamp: u64| engine.write(put(&timestamp.to_string(), timestamp, &value));
    let refused = (1..100)
        .find(|timestamp| write(*timestamp).is_err())
        .unwrap();
    assert!(matches!(write(refused), Err(Error::Io { .. })));
    assert_eq!(engine.statistics().poisoned, None);
    faulty.heal();
    for timestamp in refused..refused + 100 {
        write(timestamp).unwrap();
    }
    drop(engine);
    let engine = world.open();
    for timestamp in 1..refused + 100 {
        assert_eq!(read(&engine, &timestamp.to_string()).as_ref(), Some(&value));
    }
}
