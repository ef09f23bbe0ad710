//! Stamps are near the time: what peers say about clocks.

use super::*;

#[test]
fn a_start_stamps_nothing_until_a_near_peer_vouches_for_its_clock() {
    let machine = Machine::of_three();
    let stamping = machine.open(Timestamp::ZERO);
    assert_eq!(refusal(&stamping), NoStamp::Unmet);
    let far_ms = machine.now() - 10 * BOUND_MS;
    stamping.record_hello(PEER, far_ms, Timestamp::ZERO);
    assert_eq!(refusal(&stamping), NoStamp::Unmet);
    stamping.record_hello(OTHER, far_ms, Timestamp::ZERO);
    assert_eq!(refusal(&stamping), NoStamp::Far);
    assert!(!stamping.has_observed(PEER) && !stamping.has_observed(OTHER));
    // The clock is corrected: what the peer's hello said counts now.
    machine.set_ahead_ms(-10 * BOUND_MS as i64);
    stamping.upkeep();
    assert!(stamping.has_observed(PEER) && stamping.has_observed(OTHER));
    let stamp = machine.stamp(&stamping);
    assert!(stamp < at(far_ms + BOUND_MS));
}

#[test]
fn a_start_stamps_above_what_near_peers_have_seen() {
    let machine = Machine::of_three();
    let stamping = machine.open(Timestamp::ZERO);
    let seen = Timestamp::new(START_MS + 60_000, 7, 2);
    stamping.record_hello(PEER, machine.now(), seen);
    assert!(machine.stamp(&stamping) > seen);
    // It does not stamp above what comes from a wrong clock.
    stamping.record_hello(OTHER, machine.now(), at(START_MS + 3 * BOUND_MS));
    assert!(machine.stamp(&stamping) < at(START_MS + BOUND_MS));
}

#[test]
fn a_start_with_a_wrong_clock_does_not_bind_later_starts() {
    let machine = Machine::of_three();
    machine.set_ahead_ms(10 * BOUND_MS as i64);
    let stamping = machine.open(Timestamp::ZERO);
    for _ in 0..20 {
        stamping.record_hello(PEER, START_MS, Timestamp::ZERO);
        assert!(stamping.stamp().is_err());
        machine.pass(Duration::from_secs(1));
    }
    let machine = machine.after_crash();
    machine.set_ahead_ms(0);
    let stamping = machine.open_near();
    assert!(machine.stamp(&stamping) < at(START_MS + BOUND_MS));
}

/// The year 9999 is further than timestamps reach, so its ceiling would be the last one.
#[test]
fn a_start_in_the_year_9999_binds_no_later_start_even_if_all_clocks_agree() {
    const YEAR_9999_MS: i64 = 252_000_000_000_000;
    for machine in [Machine::alone(), Machine::of_three()] {
        machine.set_ahead_ms(YEAR_9999_MS - START_MS as i64);
        let stamping = machine.open(Timestamp::ZERO);
        for peer in [PEER, OTHER] {
            stamping.record_hello(peer, machine.now(), Timestamp::ZERO);
        }
        for _ in 0..3 {
            assert_eq!(refusal(&stamping), NoStamp::NoTime);
            machine.pass(Duration::from_secs(1));
            stamping.upkeep();
        }
        // It is set right, without a restart and with one.
        machine.set_ahead_ms(0);
        let by_peers = |stamping: &Stamping| {
            for peer in [PEER, OTHER] {
                stamping.record_hello(peer, machine.now(), Timestamp::ZERO);
            }
        };
        by_peers(&stamping);
        let first = machine.stamp(&stamping);
        assert!(first < at(START_MS + BOUND_MS));
        stamping.close();
        let stamping = machine.open(Timestamp::ZERO);
        by_peers(&stamping);
        let second = machine.stamp(&stamping);
        assert!(first < second && second < at(START_MS + BOUND_MS));
    }
}

#[test]
fn a_clock_that_leaps_away_from_the_others_stamps_nothing_until_it_is_back() {
    let machine = Machine::of_three();
    let stamping = machine.open_near();
    stamping.record_hello(OTHER, machine.now(), Timestamp::ZERO);
    let before = machine.stamp(&stamping);
    for hours in [10, -10] {
        machine.set_ahead_ms(hours * BOUND_MS as i64);
        assert_eq!(refusal(&stamping), NoStamp::Far);
        assert_eq!(stamping.status().refusal, Some(NoStamp::Far));
        assert!(!stamping.status().is_proven);
        assert_eq!(stamping.proven_unix_ms(), None);
        assert_eq!(
            stamping.status().peers_ahead_ms,
            Some(-hours * BOUND_MS as i64)
        );
    }
    machine.set_ahead_ms(0);
    let after = machine.stamp(&stamping);
    assert!(before < after && after.unix_ms() < START_MS + 1_000);
    assert_eq!(stamping.proven_unix_ms(), Some(START_MS));
}

/// The other of the two peers is down, so nobody can say which clock is wrong.
#[test]
fn with_one_peer_up_the_node_whose_clock_leaps_stops_stamping() {
    let machine = Machine::of_three();
    let stamping = machine.open_near();
    machine.stamp(&stamping);
    stamping.record_hello(PEER, machine.now() + 10 * BOUND_MS, Timestamp::ZERO);
    machine.stamp(&stamping);
    stamping.record_hello(PEER, machine.now(), Timestamp::ZERO);
    machine.set_ahead_ms(10 * BOUND_MS as i64);
    stamping.upkeep();
    assert_eq!(refusal(&stamping), NoStamp::Unmet);
    // The peer's clock leaps, too: they agree again.
    stamping.record_hello(PEER, machine.now(), Timestamp::ZERO);
    machine.stamp(&stamping);
}

#[test]
fn a_wrong_clock_of_a_third_node_does_not_keep_a_new_store_from_stamping() {
    for ahead_ms in [10 * BOUND_MS as i64, -10 * BOUND_MS as i64] {
        let machine = Machine::of_three();
        let stamping = machine.open_unaccepted();
        let wrong_ms = machine.now().wrapping_add_signed(ahead_ms);
        let seen = Timestamp::new(START_MS + 60_000, 7, 2);
        stamping.record_hello(OTHER, wrong_ms, seen);
        assert!(!stamping.has_observed(OTHER), "either clock may be wrong");
        assert!(stamping.wrong_clocks(&machine.members).is_empty());
        stamping.record_hello(PEER, machine.now(), Timestamp::ZERO);
        assert!(stamping.has_observed(PEER) && stamping.has_observed(OTHER));
        assert!(machine.stamp(&stamping) > seen);
        assert_eq!(stamping.status().peers_ahead_ms, Some(0), "it is right");
        assert_eq!(stamping.wrong_clocks(&machine.members), [OTHER]);
        assert_eq!(stamping.cluster_unix_ms(), machine.now());
        // The third node's view.
        machine.set_ahead_ms(ahead_ms);
        stamping.record_hello(OTHER, START_MS, Timestamp::ZERO);
        assert_eq!(stamping.status().peers_ahead_ms, Some(-ahead_ms));
        assert_eq!(
            stamping.wrong_clocks(&machine.members),
            [machine.members.own()]
        );
        assert_eq!(stamping.cluster_unix_ms(), START_MS);
    }
}

/// It may be this node's clock that is behind, and that of the other peer.
#[test]
fn a_stamp_from_the_future_waits_for_the_clock_of_its_peer() {
    let machine = Machine::of_three();
    let stamping = machine.open_unaccepted();
    let future_ms = machine.now() + 10 * BOUND_MS;
    stamping.record_hello(OTHER, future_ms, at(future_ms));
    stamping.record_hello(PEER, machine.now(), Timestamp::ZERO);
    assert!(!stamping.has_observed(OTHER));
    let why = refusal(&stamping);
    assert!(matches!(why, NoStamp::Unheard { .. }), "{why}");
    machine.set_ahead_ms(10 * BOUND_MS as i64);
    stamping.upkeep();
    assert!(stamping.has_observed(OTHER));
}

#[test]
fn no_stamp_is_issued_that_a_peer_would_refuse() {
    let machine = Machine::of_three();
    let stamping = machine.open_near();
    // A stamp of a peer may be twice the bound ahead.
    let dragged = at(START_MS + 2 * BOUND_MS - 1);
    assert!(stamping.observe(dragged));
    assert!(machine.stamp(&stamping) > dragged);
    assert!(!stamping.observe(at(START_MS + 2 * BOUND_MS + 1)));
    // All clocks of the cluster were wrong and are set back.
    machine.set_ahead_ms(-8 * BOUND_MS as i64);
    stamping.record_hello(PEER, machine.now(), Timestamp::ZERO);
    stamping.record_hello(OTHER, machine.now(), Timestamp::ZERO);
    let why = refusal(&stamping);
    assert!(matches!(why, NoStamp::Ahead { .. }), "{why}");
    assert!(why.to_string().contains("--drop-future-versions"), "{why}");
    assert_eq!(stamping.status().refusal, Some(why));
    // The clock catches up.
    machine.pass(HOUR * 9);
    stamping.record_hello(PEER, machine.now(), Timestamp::ZERO);
    machine.stamp(&stamping);
}

#[test]
fn a_store_with_versions_from_the_future_does_not_drag_the_clock_along() {
    let machine = Machine::of_three();
    let stamping = machine.open(at(START_MS + 10 * BOUND_MS));
    stamping.record_hello(PEER, START_MS, Timestamp::ZERO);
    assert!(machine.stamp(&stamping) < at(START_MS + 1_000));
}

#[test]
fn a_node_alone_stamps_above_all_it_holds_whatever_its_clock_says() {
    let machine = Machine::alone();
    let stored = at(START_MS + 10 * BOUND_MS);
    let stamping = machine.open(stored);
    assert!(machine.stamp(&stamping) > stored);
    machine.set_ahead_ms(-5 * BOUND_MS as i64);
    assert!(machine.stamp(&stamping) > stored);
    assert_eq!(stamping.status().refusal, None);
    assert_eq!(
        stamping.proven_unix_ms(),
        None,
        "no peer can prove its clock"
    );
}
