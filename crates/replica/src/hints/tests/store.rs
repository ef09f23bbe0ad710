//! Which hints are kept, which survive, and which are dropped.

use super::*;
use lsm_testing::{Call, Fault, Unsynced};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

fn files(machine: &Machine) -> Vec<String> {
    machine.memory.list(Path::new("/data/hints")).unwrap()
}

fn file_path(machine: &Machine, index: usize) -> PathBuf {
    Path::new("/data/hints").join(&files(machine)[index])
}

#[test]
fn hints_are_read_in_their_order_each_for_its_peer() {
    let machine = Machine::new();
    let store = machine.open();
    let hints = [machine.hint("one", b"1"), machine.hint("two", b"")];
    assert_eq!(machine.keep(&store, A, &hints), [true, true]);
    machine.keep_one(&store, B, "for b");
    machine.keep_one(&store, A, "three");
    assert_eq!(store.waiting(A).hints, 3);
    let batch = machine.next_batch(&store, A, 0).unwrap();
    assert_eq!(batch.entries[..2], hints);
    assert_eq!(batch.entries[2].key(), b"three");
    assert_eq!(machine.keys(&store, B), ["for b"]);
    assert_eq!(machine.keys(&store, NodeId::new(2)), [""; 0]);
}

#[test]
fn a_hint_is_kept_only_once_it_is_written() {
    let machine = Machine::new();
    let store = machine.open();
    let replies = enqueue(&store, A, &[machine.hint("k", b"v")]);
    assert_eq!(*replies.0.lock().unwrap(), [None]);
    let reopened = machine.after_kill();
    assert_eq!(reopened.open().waiting(A).hints, 0);
    machine.executor.run_all_due();
    assert_eq!(replies.take(), [true]);
    let reopened = machine.after_kill();
    assert_eq!(reopened.open().waiting(A).hints, 1);
}

#[test]
fn hints_that_wait_together_are_written_together() {
    let machine = Machine::new();
    let store = machine.open();
    machine.keep_one(&store, A, "first");
    machine.disk.heal();
    let hints: Vec<Entry> = (0..100)
        .map(|n| machine.hint(&format!("{n}"), b"v"))
        .collect();
    machine.keep(&store, A, &hints);
    assert_eq!(machine.disk.calls(), 1, "one write, and no sync");
}

#[test]
fn a_power_cut_takes_only_what_was_not_synced() {
    let machine = Machine::new();
    let store = machine.open();
    machine.keep_one(&store, A, "synced");
    machine.executor.run_for(SYNC_DELAY);
    machine.keep_one(&store, A, "not synced");
    let after = machine.after_crash();
    let store = after.open();
    assert_eq!(after.keys(&store, A), ["synced"]);
    // The next hints go into a new segment behind it.
    after.keep_one(&store, A, "later");
    assert_eq!(after.keys(&store, A), ["synced", "later"]);
}

#[test]
fn every_power_cut_leaves_whole_groups_in_their_order() {
    for seed in 0..40 {
        let random = base::SeededRandom::new(seed);
        let machine = Machine::new();
        let store = machine.open();
        let mut keys = Vec::new();
        for number in 0..8 {
            let key = format!("{number}");
            let hint = machine.hint(&key, &[7; 3000]);
            assert_eq!(machine.keep(&store, A, &[hint]), [true]);
            keys.push(key);
            if number == 3 {
                machine.executor.run_for(SYNC_DELAY);
            }
        }
        let mut survives = |_: Unsynced<'_>| base::Random::next_u64(&random).is_multiple_of(2);
        let memory = machine.memory.crash_clone(&mut survives);
        let after = Machine::on(memory, Arc::clone(&machine.clock));
        let store = after.open();
        let found = after.keys(&store, A);
        assert!(found.len() >= 4, "seed {seed}: {found:?}");
        assert_eq!(found, keys[..found.len()], "seed {seed}");
    }
}

#[test]
fn delivered_segments_are_removed_and_others_read_again() {
    let machine = Machine::new();
    let store = machine.open();
    machine.keep_one(&store, A, "delivered");
    let first = machine.next_batch(&store, A, 0).unwrap();
    // The segment was read, so this hint goes to the next one.
    machine.keep_one(&store, A, "not delivered");
    store.delivered(first.segment, 0);
    machine.executor.run_all_due();
    assert_eq!(machine.keys(&store, A), ["not delivered"]);
    assert_eq!(store.waiting(A).hints, 1);
    assert_eq!(store.statistics().delivered, 1);
    store.close();
    let after = machine.after_kill();
    assert_eq!(after.keys(&after.open(), A), ["not delivered"]);
    // A power cut may undo the removal. Then the hint is delivered once more.
    let after = machine.after_crash();
    let keys = after.keys(&after.open(), A);
    assert_eq!(keys, ["delivered", "not delivered"]);
}

#[test]
fn segments_are_read_in_turn() {
    let machine = Machine::new();
    let store = machine.open();
    let mut segments = Vec::new();
    for key in ["one", "two", "three"] {
        machine.keep_one(&store, A, key);
        let after = segments.last().copied().unwrap_or(0);
        segments.push(machine.next_batch(&store, A, after).unwrap().segment);
    }
    assert!(segments.is_sorted());
    let after = |number| machine.next_batch(&store, A, number).unwrap().segment;
    assert_eq!(after(segments[0]), segments[1]);
    assert_eq!(
        after(segments[2]),
        segments[0],
        "the first follows the last"
    );
}

#[test]
fn a_full_segment_is_followed_by_another() {
    let machine = Machine::new();
    let store = machine.open();
    let value = vec![7; 512 << 10];
    for number in 0..20 {
        let hint = machine.hint(&format!("{number}"), &value);
        assert_eq!(machine.keep(&store, A, &[hint]), [true]);
    }
    assert_eq!(files(&machine).len(), 3);
    let batch = machine.next_batch(&store, A, 0).unwrap();
    assert_eq!(batch.entries.len(), 8);
    assert!(!batch.is_long() && !batch.is_short());
    let long = machine.hint("long", &vec![1; 16 << 20]);
    assert_eq!(machine.keep(&store, B, std::slice::from_ref(&long)), [true]);
    let batch = machine.next_batch(&store, B, 0).unwrap();
    assert!(batch.is_long());
    assert_eq!(batch.entries, [long]);
}

#[test]
fn a_start_drops_hints_from_the_future() {
    let machine = Machine::new();
    let store = machine.open();
    let hint = |key: &str, ahead_ms| {
        let timestamp = Timestamp::from_unix_ms(START_MS + ahead_ms);
        Entry::tombstone(key.as_bytes(), timestamp, 3)
    };
    machine.keep(
        &store,
        A,
        &[hint("now", 0), hint("future", 2), hint("limit", 1)],
    );
    machine.keep(&store, B, &[hint("later", 3)]);
    store.close();
    let limit = Timestamp::from_unix_ms(START_MS + 1);
    let after = machine.after_kill();
    let store = after.open_with(HintOptions {
        drop_above: Some(limit),
        ..options()
    });
    assert_eq!(after.keys(&store, A), ["now", "limit"]);
    assert_eq!(store.waiting(B).hints, 0);
    store.close();
    // The next start does not bring them back.
    let after = after.after_kill();
    let store = after.open();
    assert_eq!(after.keys(&store, A), ["now", "limit"]);
    assert_eq!((store.waiting(A).hints, store.waiting(B).hints), (2, 0));
}

#[test]
fn a_damaged_segment_is_skipped() {
    for reopen in [false, true] {
        let machine = Machine::new();
        for key in ["one", "damaged", "three"] {
            let store = machine.open();
            machine.keep_one(&store, A, key);
            machine.executor.run_for(SYNC_DELAY);
            machine.keep_one(&store, A, key);
            store.close();
        }
        let mut store = machine.open();
        assert_eq!(files(&machine).len(), 3);
        machine
            .memory
            .corrupt(&file_path(&machine, 1), 60, 1)
            .unwrap();
        if reopen {
            store = machine.open();
        }
        let keys = machine.keys(&store, A);
        assert_eq!(keys, ["one", "one", "three", "three"], "{reopen}");
        assert_eq!(files(&machine).len(), 2);
        assert_eq!(store.waiting(A).hints, 4);
        // After a restart the number of its hints is unknown.
        let damaged = store.statistics().dropped_damaged;
        assert_eq!(damaged, if reopen { 0 } else { 2 });
    }
}

#[test]
fn files_of_a_crash_and_hints_for_former_members_are_removed() {
    let machine = Machine::new();
    let store = machine.open();
    machine.keep_one(&store, A, "for a");
    machine.keep_one(&store, B, "for b");
    store.close();
    let cut_short = "/data/hints/log-0000000000000077.wal";
    machine.memory.create(Path::new(cut_short)).unwrap();
    machine
        .memory
        .create(Path::new("/data/hints/notes"))
        .unwrap();
    // `a` is no longer a member, and `b` has another number now.
    let names = ["http://b:80", "http://c:80"];
    let store = HintStore::open(machine.environment(), options(), &members(&names)).unwrap();
    assert_eq!(machine.keys(&store, NodeId::new(0)), ["for b"]);
    assert_eq!(machine.keys(&store, NodeId::new(1)), [""; 0]);
    assert_eq!(
        files(&machine).len(),
        2,
        "the segment of `b`, and a file that no node wrote"
    );
}

#[test]
fn hints_for_a_node_that_leaves_go_with_it() {
    let machine = Machine::new();
    let store = machine.open();
    machine.keep_one(&store, A, "for a");
    machine.keep_one(&store, B, "for b");
    let d = NodeId::new(7);
    assert_eq!(
        machine.keep(&store, d, &[machine.hint("early", b"v")]),
        [false]
    );
    let nodes = [(A, NAMES[0]), (d, "http://d:80")];
    let nodes = nodes.map(|(id, name)| (id, Member::named(name, name.parse().unwrap()).unwrap()));
    let members = Members::with_ids(nodes.into_iter().collect(), A).unwrap();
    store.follow(&members);
    machine.keep_one(&store, d, "for d");
    assert_eq!(
        machine.keep(&store, B, &[machine.hint("late", b"v")]),
        [false]
    );
    assert_eq!(machine.keys(&store, A), ["for a"]);
    assert_eq!(machine.keys(&store, d), ["for d"]);
    assert_eq!(
        (store.waiting(B), store.statistics().dropped_with_peer),
        (HintsWaiting::default(), 1)
    );
    // So they are found by their peer's name after a restart, and nothing is left of the others.
    store.close();
    let store = HintStore::open(machine.environment(), options(), &members).unwrap();
    assert_eq!(machine.keys(&store, d), ["for d"]);
    assert_eq!(files(&machine).len(), 2);
}

#[test]
fn after_a_failed_sync_hints_go_to_another_segment() {
    let machine = Machine::new();
    let store = machine.open();
    machine.keep_one(&store, A, "in doubt");
    machine.memory.fail_syncs(true);
    machine.executor.run_for(SYNC_DELAY);
    machine.memory.fail_syncs(false);
    machine.keep_one(&store, A, "certain");
    machine.executor.run_for(SYNC_DELAY);
    assert_eq!(machine.keys(&store, A), ["in doubt", "certain"]);
    let after = machine.after_crash();
    assert_eq!(after.keys(&after.open(), A), ["certain"]);
}

#[test]
fn whatever_disk_call_fails_each_hint_has_one_reply_and_the_others_are_kept() {
    for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
        for at in 0.. {
            let machine = Machine::new();
            let store = machine.open();
            machine.disk.arm(Fault::at(at, kind).with_short_writes());
            let mut kept = Vec::new();
            for round in 0..4 {
                let key = format!("{round}");
                let hint = machine.hint(&key, &[7; 100]);
                if machine.keep(&store, A, &[hint]) == [true] {
                    kept.push(key);
                }
                machine.executor.run_for(SYNC_DELAY);
            }
            let was_met = machine.disk.failed() > 0;
            machine.disk.heal();
            assert!(kept.len() >= 3, "{kind} at {at}: one call fails one hint");
            assert_eq!(machine.keys(&store, A), kept, "{kind} at {at}");
            store.close();
            let after = machine.after_crash();
            let found = after.keys(&after.open(), A);
            assert!(found.iter().all(|key| kept.contains(key)), "{kind} at {at}");
            // A failed sync leaves one hint in doubt.
            assert!(found.len() + 1 >= kept.len(), "{kind} at {at}: {found:?}");
            if !was_met {
                assert!(at > 8, "these rounds make more calls");
                break;
            }
        }
    }
}

#[test]
fn a_read_that_fails_drops_nothing() {
    let machine = Machine::new();
    let store = machine.open();
    machine.keep_one(&store, A, "k");
    machine.next_batch(&store, A, 0).unwrap();
    let fault = Fault::at(0, ErrorKind::Other);
    machine.disk.arm(fault.only(|call, _| call == Call::Read));
    let failed = Arc::new(Mutex::new(false));
    let cell = Arc::clone(&failed);
    let reply = Box::new(move |batch: Result<Option<HintBatch>, Error>| {
        *cell.lock().unwrap() = batch.is_err();
    });
    store.next_batch(A, 0, reply);
    machine.executor.run_all_due();
    assert!(*failed.lock().unwrap());
    assert_eq!(machine.keys(&store, A), ["k"]);
}

#[test]
fn close_writes_the_queued_hints_and_takes_no_more() {
    let machine = Machine::new();
    let store = machine.open();
    let replies = enqueue(&store, A, &[machine.hint("k", b"v")]);
    store.close();
    assert_eq!(replies.take(), [true]);
    let after = machine.after_crash();
    assert_eq!(after.keys(&after.open(), A), ["k"]);
    machine.disk.heal();
    let late = machine.hint("late", b"v");
    assert_eq!(machine.keep(&store, A, &[late]), [false]);
    store.delivered(1, 0);
    store.drop_expired();
    machine.executor.run_until_idle();
    assert_eq!(
        machine.disk.calls(),
        0,
        "another process may use the folder now"
    );
}

#[test]
fn hints_that_are_put_back_go_to_the_end_and_keep_their_age() {
    let machine = Machine::new();
    let store = machine.open();
    for key in ["taken", "left", "taken too"] {
        machine.keep_one(&store, A, key);
    }
    let mut batch = machine.next_batch(&store, A, 0).unwrap();
    machine.executor.run_for(options().age_max / 2);
    machine.keep_one(&store, B, "young");
    store.put_back(batch.segment, vec![batch.entries.swap_remove(1)], 0);
    machine.executor.run_for(SYNC_DELAY);
    assert_eq!(machine.keys(&store, A), ["left"]);
    assert_eq!(store.waiting(A).hints, 1);
    assert_eq!(store.statistics().delivered, 2);
    let after = machine.after_kill();
    assert_eq!(after.keys(&after.open(), A), ["left"]);
    machine.executor.run_for(options().age_max / 2);
    assert_eq!(machine.keys(&store, A), [""; 0]);
    assert_eq!(machine.keys(&store, B), ["young"]);
    assert_eq!(store.statistics().dropped_for_age, 1);
}
