//! The limits of hints: bytes on disk, ages, the queue, and room on the disk.

use super::*;

#[test]
fn the_bytes_of_all_peers_are_bounded_and_the_oldest_are_dropped() {
    let machine = Machine::new();
    let bytes_max = 4 * MIB;
    let store = machine.open_with(HintOptions {
        bytes_max,
        ..options()
    });
    let value = vec![7; 100 << 10];
    for number in 0..100 {
        let peer = if number % 3 == 0 { B } else { A };
        let hint = machine.hint(&format!("{number:02}"), &value);
        assert_eq!(machine.keep(&store, peer, &[hint]), [true]);
        let bytes = store.waiting(A).bytes + store.waiting(B).bytes;
        assert!(bytes <= bytes_max, "{bytes}");
        assert_eq!(machine.memory.used_bytes(), bytes, "as on the disk");
        machine.executor.run_for(Duration::from_secs(1));
    }
    let statistics = store.statistics();
    let waiting = store.waiting(A).hints + store.waiting(B).hints;
    assert_eq!(statistics.kept, 100);
    assert_eq!(statistics.dropped_for_room + waiting, 100);
    assert!(
        waiting >= 24,
        "at least half of the room is used: {waiting}"
    );
    let keys = machine.keys(&store, A);
    assert!(keys.is_sorted(), "{keys:?}");
    assert_eq!(keys.last().unwrap(), "98");
    assert_eq!(machine.keys(&store, B).last().unwrap(), "99");
}

#[test]
fn a_hint_that_is_longer_than_the_bound_is_dropped_alone() {
    let machine = Machine::new();
    let store = machine.open_with(HintOptions {
        bytes_max: MIB,
        ..options()
    });
    machine.keep_one(&store, A, "short");
    let long = machine.hint("long", &vec![0; 2 << 20]);
    assert_eq!(machine.keep(&store, A, &[long]), [false]);
    assert_eq!(machine.keys(&store, A), ["short"]);
    assert_eq!(store.statistics().dropped_unwritten, 1);
}

#[test]
fn hints_that_are_too_old_are_dropped_also_after_a_restart() {
    let machine = Machine::new();
    let store = machine.open();
    let age_max = options().age_max;
    machine.keep_one(&store, A, "old");
    let _sealed = machine.next_batch(&store, A, 0);
    machine.executor.run_for(age_max / 2);
    machine.keep_one(&store, A, "young");
    machine.executor.run_for(age_max / 2);
    assert_eq!(machine.keys(&store, A), ["old", "young"]);
    machine.executor.run_for(Duration::from_millis(1));

    let after = machine.after_crash();
    let reopened = after.open();
    assert_eq!(after.keys(&reopened, A), ["young"]);
    assert_eq!(reopened.statistics().dropped_for_age, 1);

    store.drop_expired();
    machine.executor.run_all_due();
    assert_eq!(store.waiting(A).hints, 1, "without being asked for");
    assert_eq!(machine.keys(&store, A), ["young"]);
}

#[test]
fn a_timestamp_from_the_future_does_not_keep_a_hint_longer() {
    let machine = Machine::new();
    let store = machine.open();
    let ahead = Timestamp::from_unix_ms(START_MS + 1_000_000_000);
    let hint = Entry::tombstone(b"k", ahead, 3);
    machine.keep(&store, A, &[hint]);
    store.close();
    let after = machine.after_crash();
    let store = after.open();
    assert_eq!(store.waiting(A).hints, 1);
    after
        .executor
        .run_for(options().age_max + Duration::from_millis(1));
    assert_eq!(after.keys(&store, A), [""; 0]);
}

#[test]
fn the_queue_is_bounded_in_bytes() {
    let machine = Machine::new();
    let store = machine.open_with(HintOptions {
        queue_bytes_max: 1000,
        ..options()
    });
    let hint = machine.hint("k", &[0; 299]);
    let replies = enqueue(
        &store,
        A,
        &[hint.clone(), hint.clone(), hint.clone(), hint.clone()],
    );
    assert_eq!(*replies.0.lock().unwrap(), [None, None, None, Some(false)]);
    machine.executor.run_all_due();
    assert_eq!(replies.take(), [true, true, true, false]);
    assert_eq!(store.statistics().dropped_from_queue, 1);
    // There is room again, and one long hint may always wait alone.
    let long = machine.hint("long", &[0; 5000]);
    let replies = enqueue(&store, A, &[long, hint]);
    machine.executor.run_all_due();
    assert_eq!(replies.take(), [true, false]);
}

#[test]
fn a_full_disk_drops_hints_until_it_has_room() {
    let machine = Machine::new();
    let store = machine.open();
    machine.keep_one(&store, A, "before");
    machine.memory.set_capacity(machine.memory.used_bytes());
    let long = machine.hint("full", &vec![0; 1 << 20]);
    assert_eq!(
        machine.keep(&store, A, std::slice::from_ref(&long)),
        [false]
    );
    assert_eq!(machine.keep(&store, B, &[long]), [false]);
    assert_eq!(store.statistics().dropped_unwritten, 2);
    machine.memory.set_capacity(u64::MAX);
    machine.keep_one(&store, A, "after");
    machine.keep_one(&store, B, "after");
    assert_eq!(machine.keys(&store, A), ["before", "after"]);
    assert_eq!(machine.keys(&store, B), ["after"]);
}

#[test]
fn hints_leave_the_last_room_of_the_disk_free() {
    let machine = Machine::new();
    let store = machine.open_with(HintOptions {
        disk_spare_bytes: 10 * MIB,
        ..options()
    });
    machine.memory.set_capacity(10 * MIB);
    machine.keep_one(&store, A, "just so");
    let hint = machine.hint("no more", b"v");
    assert_eq!(machine.keep(&store, B, &[hint]), [false]);
}
