//! Timestamps are near the time: what peers say about clocks.

use super::*;

#[test]
fn a_start_timestamps_nothing_until_a_near_peer_confirms_its_clock() {
    let machine = Machine::of_three();
    let timestamps = machine.open(Timestamp::ZERO);
    let unmet = refusal(&timestamps);
    assert_eq!(unmet, NoTimestamp::Unmet);
    assert!(!unmet.to_string().contains("wrong"), "{unmet}");
    let far_ms = machine.now() - 10 * BOUND_MS;
    timestamps.record_hello(PEER, far_ms, Timestamp::ZERO);
    assert_eq!(refusal(&timestamps), NoTimestamp::NoneNear);
    timestamps.record_hello(OTHER, far_ms, Timestamp::ZERO);
    assert_eq!(refusal(&timestamps), NoTimestamp::Far);
    assert!(!timestamps.has_observed(PEER) && !timestamps.has_observed(OTHER));
    // The clock is corrected: what the peer's hello said counts now.
    machine.set_ahead_ms(-10 * BOUND_MS as i64);
    timestamps.upkeep();
    assert!(timestamps.has_observed(PEER) && timestamps.has_observed(OTHER));
    let allocated = machine.allocated(&timestamps);
    assert!(allocated < at(far_ms + BOUND_MS));
}

#[test]
fn a_start_timestamps_above_what_near_peers_have_seen() {
    let machine = Machine::of_three();
    let timestamps = machine.open(Timestamp::ZERO);
    let seen = Timestamp::new(START_MS + 60_000, 7, 2);
    timestamps.record_hello(PEER, machine.now(), seen);
    assert!(machine.allocated(&timestamps) > seen);
    // It does not allocate timestamps above what comes from a wrong clock.
    timestamps.record_hello(OTHER, machine.now(), at(START_MS + 3 * BOUND_MS));
    assert!(machine.allocated(&timestamps) < at(START_MS + BOUND_MS));
}

#[test]
fn a_start_with_a_wrong_clock_does_not_bind_later_starts() {
    let machine = Machine::of_three();
    machine.set_ahead_ms(10 * BOUND_MS as i64);
    let timestamps = machine.open(Timestamp::ZERO);
    for _ in 0..20 {
        timestamps.record_hello(PEER, START_MS, Timestamp::ZERO);
        assert!(timestamps.allocate().is_err());
        machine.pass(Duration::from_secs(1));
    }
    let machine = machine.after_crash();
    machine.set_ahead_ms(0);
    let timestamps = machine.open_near();
    assert!(machine.allocated(&timestamps) < at(START_MS + BOUND_MS));
}

/// The year 9999 is further than timestamps reach, so its timestamp bound would be the last one.
#[test]
fn a_start_in_the_year_9999_binds_no_later_start_even_if_all_clocks_agree() {
    const YEAR_9999_MS: i64 = 252_000_000_000_000;
    for machine in [Machine::alone(), Machine::of_three()] {
        machine.set_ahead_ms(YEAR_9999_MS - START_MS as i64);
        let timestamps = machine.open(Timestamp::ZERO);
        for peer in [PEER, OTHER] {
            timestamps.record_hello(peer, machine.now(), Timestamp::ZERO);
        }
        for _ in 0..3 {
            assert_eq!(refusal(&timestamps), NoTimestamp::NoTime);
            machine.pass(Duration::from_secs(1));
            timestamps.upkeep();
        }
        // It is set right, without a restart and with one.
        machine.set_ahead_ms(0);
        let by_peers = |timestamps: &TimestampAllocator| {
            for peer in [PEER, OTHER] {
                timestamps.record_hello(peer, machine.now(), Timestamp::ZERO);
            }
        };
        by_peers(&timestamps);
        let first = machine.allocated(&timestamps);
        assert!(first < at(START_MS + BOUND_MS));
        timestamps.close();
        let timestamps = machine.open(Timestamp::ZERO);
        by_peers(&timestamps);
        let second = machine.allocated(&timestamps);
        assert!(first < second && second < at(START_MS + BOUND_MS));
    }
}

#[test]
fn a_clock_that_leaps_away_from_the_others_timestamps_nothing_until_it_is_back() {
    let machine = Machine::of_three();
    let timestamps = machine.open_near();
    timestamps.record_hello(OTHER, machine.now(), Timestamp::ZERO);
    let before = machine.allocated(&timestamps);
    for hours in [10, -10] {
        machine.set_ahead_ms(hours * BOUND_MS as i64);
        assert_eq!(refusal(&timestamps), NoTimestamp::Far);
        assert_eq!(timestamps.status().refusal, Some(NoTimestamp::Far));
        assert!(!timestamps.status().is_proven);
        assert_eq!(timestamps.proven_unix_ms(), None);
        assert_eq!(
            timestamps.status().peers_ahead_ms,
            Some(-hours * BOUND_MS as i64)
        );
    }
    machine.set_ahead_ms(0);
    let after = machine.allocated(&timestamps);
    assert!(before < after && after.unix_ms() < START_MS + 1_000);
    assert_eq!(timestamps.proven_unix_ms(), Some(START_MS));
}

/// The other of the two peers is down, so nobody can say which clock is wrong.
#[test]
fn with_one_peer_up_the_node_whose_clock_leaps_stops_allocating() {
    let machine = Machine::of_three();
    let timestamps = machine.open_near();
    machine.allocated(&timestamps);
    timestamps.record_hello(PEER, machine.now() + 10 * BOUND_MS, Timestamp::ZERO);
    machine.allocated(&timestamps);
    timestamps.record_hello(PEER, machine.now(), Timestamp::ZERO);
    machine.set_ahead_ms(10 * BOUND_MS as i64);
    timestamps.upkeep();
    assert_eq!(refusal(&timestamps), NoTimestamp::NoneNear);
    // The peer's clock leaps, too: they agree again.
    timestamps.record_hello(PEER, machine.now(), Timestamp::ZERO);
    machine.allocated(&timestamps);
}

#[test]
fn a_wrong_clock_of_a_third_node_does_not_keep_a_new_store_from_allocating() {
    for ahead_ms in [10 * BOUND_MS as i64, -10 * BOUND_MS as i64] {
        let machine = Machine::of_three();
        let timestamps = machine.open_unaccepted();
        let wrong_ms = machine.now().wrapping_add_signed(ahead_ms);
        let seen = Timestamp::new(START_MS + 60_000, 7, 2);
        timestamps.record_hello(OTHER, wrong_ms, seen);
        assert!(!timestamps.has_observed(OTHER), "either clock may be wrong");
        assert!(timestamps.wrong_clocks(&machine.members).is_empty());
        timestamps.record_hello(PEER, machine.now(), Timestamp::ZERO);
        assert!(timestamps.has_observed(PEER) && timestamps.has_observed(OTHER));
        assert!(machine.allocated(&timestamps) > seen);
        assert_eq!(timestamps.status().peers_ahead_ms, Some(0), "it is right");
        assert_eq!(timestamps.wrong_clocks(&machine.members), [OTHER]);
        assert_eq!(timestamps.cluster_unix_ms(), machine.now());
        // The third node's view.
        machine.set_ahead_ms(ahead_ms);
        timestamps.record_hello(OTHER, START_MS, Timestamp::ZERO);
        assert_eq!(timestamps.status().peers_ahead_ms, Some(-ahead_ms));
        assert_eq!(
            timestamps.wrong_clocks(&machine.members),
            [machine.members.own()]
        );
        assert_eq!(timestamps.cluster_unix_ms(), START_MS);
    }
}

/// It may be this node's clock that is behind, and that of the other peer.
#[test]
fn a_timestamp_from_the_future_waits_for_the_clock_of_its_peer() {
    let machine = Machine::of_three();
    let timestamps = machine.open_unaccepted();
    let future_ms = machine.now() + 10 * BOUND_MS;
    timestamps.record_hello(OTHER, future_ms, at(future_ms));
    timestamps.record_hello(PEER, machine.now(), Timestamp::ZERO);
    assert!(!timestamps.has_observed(OTHER));
    let why = refusal(&timestamps);
    assert!(matches!(why, NoTimestamp::Unheard { .. }), "{why}");
    machine.set_ahead_ms(10 * BOUND_MS as i64);
    timestamps.upkeep();
    assert!(timestamps.has_observed(OTHER));
}

#[test]
fn no_timestamp_is_issued_that_a_peer_would_refuse() {
    let machine = Machine::of_three();
    let timestamps = machine.open_near();
    // A timestamp of a peer may be twice the bound ahead.
    let dragged = at(START_MS + 2 * BOUND_MS - 1);
    assert!(timestamps.observe(dragged));
    assert!(machine.allocated(&timestamps) > dragged);
    assert!(!timestamps.observe(at(START_MS + 2 * BOUND_MS + 1)));
    // All clocks of the cluster were wrong and are set back.
    machine.set_ahead_ms(-8 * BOUND_MS as i64);
    timestamps.record_hello(PEER, machine.now(), Timestamp::ZERO);
    timestamps.record_hello(OTHER, machine.now(), Timestamp::ZERO);
    let why = refusal(&timestamps);
    assert!(matches!(why, NoTimestamp::Ahead { .. }), "{why}");
    assert!(why.to_string().contains("--drop-future-versions"), "{why}");
    assert_eq!(timestamps.status().refusal, Some(why));
    // The clock catches up.
    machine.pass(HOUR * 9);
    timestamps.record_hello(PEER, machine.now(), Timestamp::ZERO);
    machine.allocated(&timestamps);
}

#[test]
fn a_store_with_versions_from_the_future_does_not_drag_the_clock_along() {
    let machine = Machine::of_three();
    let timestamps = machine.open(at(START_MS + 10 * BOUND_MS));
    timestamps.record_hello(PEER, START_MS, Timestamp::ZERO);
    assert!(machine.allocated(&timestamps) < at(START_MS + 1_000));
}

#[test]
fn a_node_alone_timestamps_above_all_it_holds_whatever_its_clock_says() {
    let machine = Machine::alone();
    let stored = at(START_MS + 10 * BOUND_MS);
    let timestamps = machine.open(stored);
    assert!(machine.allocated(&timestamps) > stored);
    machine.set_ahead_ms(-5 * BOUND_MS as i64);
    assert!(machine.allocated(&timestamps) > stored);
    assert_eq!(timestamps.status().refusal, None);
    assert_eq!(
        timestamps.proven_unix_ms(),
        None,
        "no peer can prove its clock"
    );
}
