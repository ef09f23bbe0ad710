//! Timestamps are unique: the timestamp bound, crashes and steps of the clock.

use super::*;
use crate::timestamps::confirmation::KEPT_WARM;
use crate::timestamps::raising::RETRY_DELAY;

#[test]
fn timestamps_are_above_what_the_store_holds_and_carry_the_number() {
    let machine = Machine::of_three();
    let stored = at(START_MS + 2_000);
    let timestamps = machine.open(stored);
    timestamps.record_hello(PEER, START_MS, Timestamp::ZERO);
    let allocated = machine.allocated(&timestamps);
    assert!(allocated > stored);
    assert_eq!(allocated.node(), 2);
}

#[test]
fn no_timestamp_is_issued_twice_whatever_crashes_and_wherever_the_clock_steps() {
    for alone in [true, false] {
        let mut random = fastrand::Rng::with_seed(11);
        let mut issued = BTreeSet::new();
        let mut machine = if alone {
            Machine::alone()
        } else {
            Machine::of_three()
        };
        for _ in 0..60 {
            // Its store is empty, because it keeps no copy of what it timestamps.
            let timestamps = machine.open(Timestamp::ZERO);
            for _ in 0..20 {
                machine.set_ahead_ms(random.i64(-3_000..3_000));
                timestamps.record_hello(PEER, machine.now(), Timestamp::ZERO);
                for _ in 0..random.usize(0..4) {
                    if let Ok(allocated) = timestamps.allocate() {
                        assert!(issued.insert(allocated.timestamp()), "issued twice");
                    }
                }
                machine.pass(Duration::from_millis(random.u64(0..40)));
            }
            if random.bool() {
                timestamps.close();
            }
            machine = machine.after_crash();
        }
        assert!(issued.len() > 500, "{}", issued.len());
    }
}

#[test]
fn a_timestamp_above_the_bound_waits_until_a_higher_one_is_durable() {
    let machine = Machine::alone();
    let timestamps = machine.open(Timestamp::ZERO);
    machine
        .disk
        .arm(Fault::at(0, std::io::ErrorKind::Other).lasting());
    assert!(
        timestamps.allocate().is_ok(),
        "the start has reserved timestamps"
    );
    machine.pass(RESERVATION_MAX + MS);
    assert_eq!(refusal(&timestamps), NoTimestamp::Bound);
    machine.executor.run_all_due();
    assert_eq!(
        refusal(&timestamps),
        NoTimestamp::Bound,
        "it is not durable"
    );
    machine.disk.heal();
    machine.pass(RETRY_DELAY);
    let allocated = timestamps.allocate().ok().unwrap();
    assert!(allocated.timestamp() <= timestamps.status().bound);
    let found = machine.after_crash().open(Timestamp::ZERO).greatest();
    assert!(allocated.timestamp() <= found, "what is durable covers it");
}

#[test]
fn in_the_steady_state_no_timestamp_waits() {
    let machine = Machine::alone();
    let timestamps = machine.open(Timestamp::ZERO);
    machine.allocated(&timestamps);
    machine.disk.heal();
    for step_ms in 0..60_000 {
        assert!(timestamps.allocate().is_ok(), "after {step_ms} ms");
        machine.pass(MS);
    }
    // A timestamp now and then, while the timestamp bound is kept ahead.
    for _ in 0..10 {
        for _ in 0..80 {
            machine.pass(Duration::from_millis(250));
            timestamps.upkeep();
        }
        assert!(timestamps.allocate().is_ok());
    }
    let calls = machine.disk.calls();
    assert!(calls < 150, "{calls} calls of the disk in four minutes");
    machine.pass(KEPT_WARM);
    machine.disk.heal();
    for _ in 0..1_000 {
        timestamps.upkeep();
        machine.pass(Duration::from_millis(250));
    }
    assert_eq!(
        machine.disk.calls(),
        0,
        "an idle node leaves its disk alone"
    );
}

#[test]
fn a_clean_stop_skips_no_timestamps_and_a_crash_only_those_reserved() {
    let machine = Machine::alone();
    let timestamps = machine.open(Timestamp::ZERO);
    for _ in 0..3_000 {
        machine.allocated(&timestamps);
        machine.pass(MS * 10);
    }
    let last = machine.allocated(&timestamps);
    let after_crash = machine.after_crash().open(Timestamp::ZERO).greatest();
    assert!(after_crash > last);
    let skipped_ms = after_crash.unix_ms() - last.unix_ms();
    assert!(
        skipped_ms <= RESERVATION_MAX.as_millis() as u64,
        "{skipped_ms}"
    );
    timestamps.close();
    assert_eq!(refusal(&timestamps), NoTimestamp::Closed);
    machine.executor.run_all_due();
    let after_stop = machine.after_crash().open(Timestamp::ZERO).greatest();
    assert_eq!(after_stop, last);
}

#[test]
fn timestamps_are_issued_on_a_full_disk() {
    let machine = Machine::alone();
    let timestamps = machine.open(Timestamp::ZERO);
    machine.memory.set_capacity(0);
    for _ in 0..100 {
        machine.allocated(&timestamps);
        machine.pass(Duration::from_secs(1));
    }
}

#[test]
fn a_start_that_drops_the_future_lowers_the_bound() {
    let machine = Machine::of_three();
    machine.set_ahead_ms(10 * BOUND_MS as i64);
    let timestamps = machine.open_near();
    machine.allocated(&timestamps);
    machine.set_ahead_ms(0);
    let machine = machine.after_crash();
    let timestamps = machine.open_near();
    let why = refusal(&timestamps);
    assert!(matches!(why, NoTimestamp::Ahead { .. }), "{why}");
    drop(timestamps);
    let limit = at(START_MS + BOUND_MS);
    for drop_above in [Some(limit), None] {
        let timestamps = machine.closed();
        timestamps
            .open(
                &*machine.disk,
                Path::new(FOLDER),
                Timestamp::ZERO,
                drop_above,
                true,
            )
            .unwrap();
        timestamps.record_hello(PEER, machine.now(), Timestamp::ZERO);
        assert!(
            machine.allocated(&timestamps) > limit,
            "timestamps are above all that may have been issued"
        );
        timestamps.close();
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_waits_for_the_bound_and_for_a_first_peer_but_not_forever() {
    let machine = Machine::of_three();
    let timestamps = machine.open(Timestamp::ZERO);
    let deadline = HOUR;
    let waiting = tokio::spawn({
        let timestamps = Arc::clone(&timestamps);
        async move {
            timestamps
                .allocate_by(deadline)
                .await
                .map(|allocated| allocated.timestamp())
        }
    });
    tokio::task::yield_now().await;
    timestamps.record_hello(PEER, machine.now(), Timestamp::ZERO);
    tokio::task::yield_now().await;
    machine.executor.run_all_due();
    waiting.await.unwrap().unwrap();

    let without_peers = Machine::of_three().open(Timestamp::ZERO);
    let began = tokio::time::Instant::now();
    let refused = without_peers.allocate_by(deadline).await.err();
    assert_eq!(refused, Some(NoTimestamp::Unmet));
    assert_eq!(began.elapsed(), FIRST_MEETING_MAX);
}

#[test]
fn a_new_store_timestamps_above_what_each_peer_has_seen_of_the_one_that_was_lost() {
    let machine = Machine::of_three();
    let timestamps = machine.open_unaccepted();
    timestamps.record_hello(PEER, machine.now(), Timestamp::ZERO);
    assert!(matches!(refusal(&timestamps), NoTimestamp::Unheard { .. }));
    let given = Timestamp::new(START_MS + 60_000, 7, 2);
    timestamps.record_hello(OTHER, machine.now(), given);
    assert!(machine.allocated(&timestamps) > given);
}

#[test]
fn a_new_store_waits_for_a_peer_no_longer_than_clocks_may_differ() {
    let machine = Machine::of_three();
    let timestamps = machine.open_unaccepted();
    // By a clock that was ahead by the bound, while this one is behind by the bound.
    let given = at(machine.now() + 2 * BOUND_MS);
    machine.pass(2 * BOUND - Duration::from_millis(1));
    timestamps.record_hello(PEER, machine.now(), Timestamp::ZERO);
    assert!(matches!(refusal(&timestamps), NoTimestamp::Unheard { .. }));
    machine.pass(Duration::from_millis(1));
    assert!(machine.allocated(&timestamps) >= given);
}

#[test]
fn a_store_that_has_stamped_needs_one_peer_at_its_next_start() {
    let machine = Machine::of_three();
    let first = machine.open_near();
    let given = machine.allocated(&first);
    let machine = machine.after_crash();
    let next = machine.open_unaccepted();
    next.record_hello(PEER, machine.now(), Timestamp::ZERO);
    assert!(machine.allocated(&next) > given);
}

#[test]
fn a_store_that_was_closed_after_it_has_heard_of_all_is_not_new() {
    let machine = Machine::of_three();
    for (peers, is_new) in [
        (&[PEER][..], true),
        (&[PEER, OTHER], true),
        (&[PEER], false),
    ] {
        let timestamps = machine.open_unaccepted();
        timestamps.record_hello(PEER, machine.now(), Timestamp::ZERO);
        let refused = timestamps.allocate().err();
        assert_eq!(matches!(refused, Some(NoTimestamp::Unheard { .. })), is_new);
        for peer in peers {
            timestamps.record_hello(*peer, machine.now(), Timestamp::ZERO);
        }
        timestamps.close();
    }
}
