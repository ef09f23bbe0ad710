//! Promises: nothing below a promised ballot is stored until the promise is gone.

use crate::common::{CollectedOutcomes, World, delete, put, read};
use base::{Entry, NewerVersion, Timestamp};
use lsm::{Admission, Applied, Engine, Error, Outbox};
use lsm_testing::{BlockingWrite, Fault, FaultyDisk, HookedDisk, newer_version_of};
use std::io;
use std::sync::{Arc, Mutex};

fn at(timestamp: u64) -> Timestamp {
    Timestamp::from_u64(timestamp)
}

/// The outcome of one entry.
fn submit(engine: &Engine, entry: Entry, admission: Admission) -> Result<Applied, Error> {
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    engine.submit_batch([(entry, admission, 0)], &outbox);
    engine.commit_waiting();
    let outcome = collected.take().pop();
    outcome.map_or(Err(Error::Closed), |outcome| outcome.result)
}

/// Whether the promise of a lower ballot was given up for this one.
fn promise(engine: &Engine, key: &str, ballot: u64, is_forced: bool) -> Result<bool, Error> {
    let applied = submit(
        engine,
        delete(key, ballot),
        Admission::Promise {
            is_forced,
            epoch: 0,
        },
    );
    applied.map(|applied| match applied {
        Applied::Promised { replaced } => replaced.is_some(),
        other => unreachable!("{other:?}"),
    })
}

fn accept(engine: &Engine, entry: Entry, ballot: u64) -> Result<NewerVersion, Error> {
    let ballot = at(ballot);
    submit(engine, entry, Admission::Accept { ballot }).map(|applied| newer_version_of(&applied))
}

fn release(engine: &Engine, key: &str, ballot: u64) {
    let released = submit(engine, delete(key, ballot), Admission::Release);
    assert!(matches!(released, Ok(Applied::Released)), "{released:?}");
}

/// The other ballot by which a promise is refused.
#[track_caller]
fn refused_by(promised: Result<bool, Error>) -> u64 {
    match promised {
        Err(Error::Promised { with, .. }) => with.as_u64(),
        other => unreachable!("{other:?}"),
    }
}

/// A write that waits, and where its outcome arrives.
fn waiting(engine: &Engine, entry: Entry) -> Arc<CollectedOutcomes> {
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    engine.submit(entry, &outbox, 0).unwrap();
    engine.commit_waiting();
    assert!(collected.take().is_empty(), "it waits");
    collected
}

/// The newer-version check of a write that has waited.
#[track_caller]
fn outcome(collected: &CollectedOutcomes) -> NewerVersion {
    let outcome = collected.take().pop();
    newer_version_of(&outcome.unwrap().result.unwrap())
}

#[test]
fn what_is_below_a_promise_waits_until_its_version_is_accepted() {
    let world = World::new();
    let engine = world.open();
    engine.write(put("k", 10, "old")).unwrap();
    assert!(!promise(&engine, "k", 50, false).unwrap());
    let late = waiting(&engine, put("k", 40, "late"));
    assert_eq!(read(&engine, "k").as_deref(), Some("old"));
    // Other keys do not wait.
    engine.write(put("j", 40, "v")).unwrap();
    assert_eq!(
        accept(&engine, put("k", 50, "new"), 50).unwrap(),
        NewerVersion::None
    );
    assert_eq!(read(&engine, "k").as_deref(), Some("new"));
    engine.commit_waiting();
    assert_eq!(outcome(&late), NewerVersion::Overtaken(at(50)));
    // From now on nothing waits, but what is below the ballot is overtaken.
    let overtaken = engine.write(put("k", 45, "late")).unwrap();
    assert_eq!(
        newer_version_of(&overtaken),
        NewerVersion::Overtaken(at(50))
    );
    engine.write(put("k", 60, "newer")).unwrap();
    let newer = engine.write(put("k", 55, "late")).unwrap();
    assert_eq!(newer_version_of(&newer), NewerVersion::At(at(60)));
}

#[test]
fn what_has_waited_is_stored_once_the_promise_is_released() {
    let engine = World::new().open();
    promise(&engine, "k", 50, false).unwrap();
    let late = waiting(&engine, put("k", 40, "late"));
    // Another ballot releases nothing.
    release(&engine, "k", 49);
    release(&engine, "j", 50);
    assert_eq!(read(&engine, "k"), None);
    release(&engine, "k", 50);
    engine.commit_waiting();
    assert_eq!(outcome(&late), NewerVersion::None);
    assert_eq!(read(&engine, "k").as_deref(), Some("late"));
}

#[test]
fn a_version_above_the_ballot_ends_a_promise() {
    let engine = World::new().open();
    promise(&engine, "k", 50, false).unwrap();
    let late = waiting(&engine, put("k", 40, "late"));
    engine.write(put("k", 60, "plain")).unwrap();
    engine.commit_waiting();
    assert_eq!(outcome(&late), NewerVersion::Overtaken(at(60)));
    let accepted = accept(&engine, put("k", 50, "new"), 50);
    assert!(matches!(accepted, Err(Error::NotPromised)), "{accepted:?}");
    assert_eq!(read(&engine, "k").as_deref(), Some("plain"));
}

#[test]
fn one_ballot_of_a_key_is_promised_at_a_time_and_none_below_it_later() {
    let engine = World::new().open();
    promise(&engine, "k", 50, false).unwrap();
    assert_eq!(refused_by(promise(&engine, "k", 60, false)), 50);
    assert_eq!(refused_by(promise(&engine, "k", 40, true)), 50);
    assert_eq!(refused_by(promise(&engine, "k", 50, true)), 50);
    assert!(!promise(&engine, "j", 40, false).unwrap(), "another key");
    assert!(
        promise(&engine, "k", 60, true).unwrap(),
        "it has replaced one"
    );
    let accepted = accept(&engine, put("k", 50, "new"), 50);
    assert!(matches!(accepted, Err(Error::NotPromised)), "{accepted:?}");
    release(&engine, "k", 60);
    assert_eq!(refused_by(promise(&engine, "k", 60, false)), 60);
    assert!(!promise(&engine, "k", 61, false).unwrap());
    // An older version is accepted under the promise, which is gone then.
    accept(&engine, put("k", 7, "older"), 61).unwrap();
    assert_eq!(read(&engine, "k").as_deref(), Some("older"));
    assert!(!promise(&engine, "k", 62, false).unwrap());
}

#[test]
fn two_promises_in_one_group_are_one() {
    let world = World::new();
    let engine = world.open();
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    let is_forced = true;
    let promises = [60, 50].map(|ballot| {
        let admission = Admission::Promise {
            is_forced,
            epoch: 0,
        };
        (delete("k", ballot), admission, ballot)
    });
    engine.submit_batch(promises, &outbox);
    engine.commit_waiting();
    let mut outcomes = collected.take();
    outcomes.sort_by_key(|outcome| outcome.ticket);
    let results: Vec<_> = outcomes.into_iter().map(|outcome| outcome.result).collect();
    assert!(
        matches!(
            results[..],
            [
                Ok(Applied::Promised { .. }),
                Err(Error::Promised {
                    is_stale: false,
                    ..
                })
            ]
        ),
        "{results:?}"
    );
}

#[test]
fn a_promise_is_stale_after_a_while_and_after_a_restart() {
    let world = World::new();
    let engine = world.open();
    promise(&engine, "k", 50, false).unwrap();
    let is_stale = |engine: &Engine| match promise(engine, "k", 60, false) {
        Err(Error::Promised { is_stale, .. }) => is_stale,
        other => unreachable!("{other:?}"),
    };
    assert!(!is_stale(&engine));
    world.clock.advance(std::time::Duration::from_millis(100));
    assert!(is_stale(&engine));
    let restarted = World::on(Arc::new(world.memory.clone_synced()));
    assert!(is_stale(&restarted.open()));
}

/// The promise outlives the log segment that it was written to.
#[test]
fn a_promise_outlives_power_cuts_and_the_segments_of_the_log() {
    let world = World::new();
    let engine = world.open();
    promise(&engine, "kept", 1_000_000, false).unwrap();
    promise(&engine, "accepted", 1_000_000, false).unwrap();
    accept(&engine, put("accepted", 1_000_000, "v"), 1_000_000).unwrap();
    let mut memory = world.memory.clone_synced();
    let mut engine = engine;
    for round in 0..3 {
        for number in 0..100 {
            let timestamp = 1 + round * 100 + number;
            engine
                .write(put(&format!("k{number}"), timestamp, &"v".repeat(300)))
                .unwrap();
            world.executor.run_until_idle();
        }
        if round == 1 {
            // Also without anything in the log but the promise.
            engine.flush().unwrap();
        }
        memory = world.memory.clone_synced();
        let restarted = World::on(Arc::new(memory.clone_synced()));
        let reopened = restarted.open();
        assert_eq!(
            refused_by(promise(&reopened, "kept", 9_000_000, false)),
            1_000_000
        );
        waiting(&reopened, put("kept", 999_999, "v"));
        // The opening may have removed the segment in which it was logged.
        let again = World::on(Arc::new(restarted.memory.clone_synced()));
        assert_eq!(
            refused_by(promise(&again.open(), "kept", 9_000_000, false)),
            1_000_000
        );
        assert!(!promise(&reopened, "accepted", 9_000_000, false).unwrap());
    }
    // Twice, and by a store that was closed in order.
    let again = World::on(Arc::new(memory));
    engine = again.open();
    engine.close().unwrap();
    engine = again.open();
    assert_eq!(
        refused_by(promise(&engine, "kept", 9_000_000, false)),
        1_000_000
    );
}

/// Whatever call of the disk fails: a promise whose outcome was delivered is there after a power
/// cut.
#[test]
fn a_promise_is_kept_whatever_fails() {
    // Nothing fails: that many calls there are.
    let calls = calls_until_kept(u64::MAX);
    assert!(calls > 50, "{calls}");
    for failing in 0..calls {
        calls_until_kept(failing);
    }
}

/// Promises and writes, while the call of the disk with this number fails; then a power cut. Returns
/// how many calls there were.
fn calls_until_kept(failing: u64) -> u64 {
    let mut world = World::new();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.disk)));
    world.disk = Arc::clone(&faulty) as _;
    let engine = world.open();
    faulty.arm(Fault::at(failing, io::ErrorKind::Other));
    let mut promised = Vec::new();
    for number in 0..40 {
        let key = format!("p{number}");
        if promise(&engine, &key, 1_000 + number, false).is_ok() {
            promised.push((key, 1_000 + number));
        }
        let _failed = engine.write(put(&format!("k{number}"), 1 + number, &"v".repeat(600)));
        world.executor.run_all_due();
    }
    let calls = faulty.calls();
    drop(engine);
    let restarted = World::on(Arc::new(world.memory.clone_synced()));
    let engine = restarted.open();
    for (key, ballot) in promised {
        assert_eq!(
            refused_by(promise(&engine, &key, 9_000, false)),
            ballot,
            "{key}, call {failing}"
        );
    }
    calls
}

#[test]
fn an_ingest_brings_nothing_below_a_promise() {
    let engine = World::new().open();
    promise(&engine, "k", 50, false).unwrap();
    let ingest = |keys: [&str; 2]| {
        let mut ingest = engine.begin_ingest(Admission::Ordinary)?;
        for key in keys {
            ingest.push(&put(key, 40, "ingested"))?;
        }
        ingest.commit()
    };
    let refused = ingest(["a", "k"]);
    assert!(matches!(refused, Err(Error::Overloaded)), "{refused:?}");
    assert_eq!(read(&engine, "a"), None);
    // Only the keys that it brings matter, not all in between.
    ingest(["j", "z"]).unwrap();
    release(&engine, "k", 50);
    ingest(["a", "k"]).unwrap();
    assert_eq!(read(&engine, "a").as_deref(), Some("ingested"));
    assert!(!promise(&engine, "k", 60, false).unwrap());
}

/// A ballot is asked for after an ingest has looked for promises, and before it is visible.
#[test]
fn nothing_is_promised_while_an_ingest_becomes_visible() {
    let mut world = World::new();
    let hooked = Arc::new(HookedDisk::new(Arc::clone(&world.disk)));
    world.disk = Arc::clone(&hooked) as _;
    let engine = world.open();
    let promises = Arc::new(Mutex::new(Vec::new()));
    let (other, asked) = (engine.clone(), Arc::clone(&promises));
    hooked.hook_syncs(Arc::new(move |path, sync| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.to_lowercase().contains("manifest") {
            let promised = promise(&other, "k", 50, false);
            asked.lock().unwrap().push(promised);
        }
        sync()
    }));
    let mut ingest = engine.begin_ingest(Admission::Ordinary).unwrap();
    for key in ["a", "m"] {
        ingest.push(&put(key, 40, "ingested")).unwrap();
    }
    ingest.commit().unwrap();
    let promises = std::mem::take(&mut *promises.lock().unwrap());
    assert!(!promises.is_empty(), "the ingest is noted durably");
    for promised in promises {
        assert!(matches!(promised, Err(Error::Overloaded)), "{promised:?}");
    }
    assert!(!promise(&engine, "k", 50, false).unwrap());
}

#[test]
fn what_waits_is_bounded_and_refused_when_the_store_closes() {
    let mut world = World::new();
    world.options.write_queue_bytes_max = 16_000;
    let engine = world.open();
    promise(&engine, "k", 50, false).unwrap();
    let value = "v".repeat(3_000);
    let late = waiting(&engine, put("k", 40, &value));
    let refused = submit(&engine, put("k", 41, &value), Admission::Ordinary);
    assert!(matches!(refused, Err(Error::Overloaded)), "{refused:?}");
    // Other keys have the rest of the queue, and what goes on makes room.
    engine.write(put("j", 40, &value)).unwrap();
    release(&engine, "k", 50);
    engine.commit_waiting();
    assert_eq!(outcome(&late), NewerVersion::None);
    promise(&engine, "k", 60, false).unwrap();
    let late = waiting(&engine, put("k", 42, &value));
    engine.close().unwrap();
    let outcome = late.take().pop().unwrap();
    assert!(matches!(outcome.result, Err(Error::Closed)), "{outcome:?}");
}

#[test]
fn the_greatest_ballot_outlives_restarts_after_its_promise_is_gone() {
    let world = World::new();
    let engine = world.open();
    promise(&engine, "accepted", 50, false).unwrap();
    accept(&engine, put("accepted", 50, "v"), 50).unwrap();
    promise(&engine, "released", 70, false).unwrap();
    release(&engine, "released", 70);
    // Nothing of the log that they were written to is left.
    engine.flush().unwrap();
    engine.write(put("other", 1, "v")).unwrap();
    engine.flush().unwrap();
    let mut memory = world.memory.clone_synced();
    for _ in 0..3 {
        let restarted = World::on(Arc::new(memory));
        let engine = restarted.open();
        assert_eq!(refused_by(promise(&engine, "released", 60, false)), 70);
        let overtaken = engine.write(put("accepted", 40, "late")).unwrap();
        let overtaken = newer_version_of(&overtaken);
        assert!(
            matches!(overtaken, NewerVersion::Overtaken(_)),
            "{overtaken:?}"
        );
        engine.flush().unwrap();
        engine.close().unwrap();
        memory = restarted.memory.clone_synced();
    }
    // Once no request may ask any more, it is forgotten, and costs nothing.
    let restarted = World::on(Arc::new(memory));
    let engine = restarted.open();
    let kept = restarted.options.newer_version_checks_kept;
    restarted.clock.advance(kept);
    assert!(!promise(&engine, "released", 60, false).unwrap());
}

/// Whether the promise comes first or the release, the key is free afterwards.
#[test]
fn a_release_in_the_group_of_its_promise_ends_it() {
    let engine = World::new().open();
    let collected = Arc::new(CollectedOutcomes::default());
    let outbox: Arc<dyn Outbox> = Arc::clone(&collected) as _;
    let promise_of_it = Admission::Promise {
        is_forced: false,
        epoch: 0,
    };
    let group = [
        (delete("k", 50), promise_of_it, 0),
        (delete("k", 50), Admission::Release, 1),
    ];
    engine.submit_batch(group, &outbox);
    engine.commit_waiting();
    let mut outcomes = collected.take();
    outcomes.sort_by_key(|outcome| outcome.ticket);
    assert!(matches!(outcomes[0].result, Err(Error::NotPromised)));
    assert!(matches!(outcomes[1].result, Ok(Applied::Released)));
    assert_eq!(engine.promises_kept(), 0);
    engine.write(put("k", 40, "v")).unwrap();
    assert!(!promise(&engine, "k", 60, false).unwrap());
}

#[test]
fn what_waits_for_longer_than_a_request_is_refused() {
    let world = World::new();
    let engine = world.open();
    promise(&engine, "k", 50, false).unwrap();
    let late = waiting(&engine, put("k", 40, "late"));
    let kept = world.options.newer_version_checks_kept;
    world.clock.advance(kept / 2);
    let later = waiting(&engine, put("k", 41, "later"));
    world.clock.advance(kept / 2);
    world.executor.run_all_due();
    let outcome = late.take().pop().unwrap();
    assert!(
        matches!(outcome.result, Err(Error::Overloaded)),
        "{outcome:?}"
    );
    assert!(later.take().is_empty(), "it has waited for half as long");
    world.clock.advance(kept);
    world.executor.run_all_due();
    let outcome = later.take().pop().unwrap();
    assert!(
        matches!(outcome.result, Err(Error::Overloaded)),
        "{outcome:?}"
    );
    // The promise is kept all the same.
    assert_eq!(refused_by(promise(&engine, "k", 60, false)), 50);
}

#[test]
fn no_promise_is_of_an_earlier_epoch_than_one_before() {
    let world = World::new();
    let engine = world.open();
    let promise_of = |engine: &Engine, key: &str, ballot, epoch| {
        let is_forced = true;
        submit(
            engine,
            delete(key, ballot),
            Admission::Promise { is_forced, epoch },
        )
    };
    let replaced = |made: Result<Applied, Error>| match made {
        Ok(Applied::Promised { replaced }) => replaced,
        other => unreachable!("{other:?}"),
    };
    assert_eq!(replaced(promise_of(&engine, "k", 50, 4)), None);
    for key in ["k", "j"] {
        let refused = promise_of(&engine, key, 60, 3);
        assert!(
            matches!(refused, Err(Error::Promised { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(replaced(promise_of(&engine, "k", 60, 4)), Some(4));
    assert_eq!(replaced(promise_of(&engine, "k", 70, 5)), Some(4));
    // A restart does not know which it was.
    let restarted = World::on(Arc::new(world.memory.clone_synced()));
    let engine = restarted.open();
    assert_eq!(replaced(promise_of(&engine, "k", 80, 5)), Some(0));
}
