use super::*;

fn node(number: u8) -> NodeId {
    NodeId::new(number)
}

fn peers() -> [NodeId; 2] {
    [node(1), node(2)]
}

#[test]
fn a_store_is_judged_by_its_starts_and_then_by_its_count() {
    use Judgement::{Another, New, Outdated, Same};
    let known = |store_id, start, acknowledged| {
        Some(Remembered {
            store_id,
            start,
            acknowledged,
        })
    };
    // What is remembered, and the store with the starts 10, 20 and 30 that opened with so
    // many writes.
    let cases = [
        (None, Some(0), New),
        (known(1, 20, 0), Some(0), Same),
        (known(1, 40, 0), Some(99), Outdated),
        (known(2, 40, 0), Some(99), Another),
        (known(1, 20, 7), Some(7), Same),
        (known(1, 20, 7), Some(6), Outdated),
        // A store that was rebuilt has the starts of the one that it replaces.
        (known(2, 20, 7), Some(7), Same),
        (known(2, 20, 7), Some(6), Outdated),
        // The present start has said so itself, and may have written since it opened.
        (known(1, 30, 7), Some(6), Same),
        // A release that does not count.
        (known(1, 20, 7), None, Same),
    ];
    for (remembered, acknowledged, judgement) in cases {
        let claim = StoreClaim {
            store_id: 1,
            starts: &[10, 20, 30],
            acknowledged,
        };
        assert_eq!(
            judge(remembered, claim),
            judgement,
            "{remembered:?} {claim:?}"
        );
    }
}

#[test]
fn only_an_older_state_that_names_another_store_speaks_of_bygone_times() {
    use Judgement::{Another, New, Outdated, Same};
    for speaker in [New, Same, Outdated, Another] {
        for listener in [New, Same, Outdated, Another] {
            let expected = speaker == Outdated && listener == Another;
            assert_eq!(is_bygone(speaker, listener), expected);
        }
    }
}

#[test]
fn every_learner_is_a_voter_once_it_is_rebuilt_and_no_other_one_changes() {
    for is_outdated in [false, true] {
        let mut store = Confirmation::Learner { is_outdated };
        assert_eq!(store.stored(), ReplicaState::Learner);
        assert!(store.rebuilt());
        assert_eq!(store, Confirmation::Voter);
        assert!(!store.is_outdated());
    }
    let unaware = BTreeSet::from([node(1)]);
    for store in [
        Confirmation::new(3),
        Confirmation::returning(3),
        Confirmation::Voter,
        Confirmation::accepted(unaware),
    ] {
        let mut rebuilt = store.clone();
        assert!(!rebuilt.rebuilt());
        assert_eq!(rebuilt, store);
    }
}

#[test]
fn one_peer_that_speaks_against_a_store_outweighs_all_others() {
    for mut store in [
        Confirmation::new(3),
        Confirmation::returning(3),
        Confirmation::Voter,
    ] {
        store.hear(node(1), Judgement::Same, &peers());
        store.hear(node(2), Judgement::Another, &peers());
        assert_eq!(store.replica_state(), ReplicaState::Learner);
        assert!(!store.is_outdated());
        store.hear(node(1), Judgement::Outdated, &peers());
        assert!(store.is_outdated());
        // What others say does not take it back.
        for judgement in [Judgement::New, Judgement::Same, Judgement::Another] {
            store.hear(node(2), judgement, &peers());
            store.consulted(node(2), &peers());
            store.remembered_by(node(2), &peers());
            assert!(store.is_outdated());
        }
    }
}

#[test]
fn a_store_does_not_wait_for_a_peer_that_has_left() {
    for before in [Confirmation::new(4), Confirmation::returning(4)] {
        let all = [node(1), node(2), node(3)];
        let heard = |store: &mut Confirmation, peer, peers: &[NodeId]| {
            store.consulted(peer, peers);
            store.remembered_by(peer, peers);
        };
        let mut store = before;
        heard(&mut store, node(1), &all);
        heard(&mut store, node(3), &all);
        // Whoever has left counts for nobody who stays.
        store.settle(&all[..2]);
        assert_eq!(store.replica_state(), ReplicaState::Starting);
        heard(&mut store, node(2), &all[..2]);
        assert_eq!(store, Confirmation::Voter);
    }
    let mut store = Confirmation::returning(3);
    store.consulted(node(1), &peers());
    store.settle(&[node(1)]);
    assert_eq!(store, Confirmation::Voter);
}
