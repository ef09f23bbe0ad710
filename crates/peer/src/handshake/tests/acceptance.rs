//! Which nodes take each other for peers, and what they learn.

use super::*;
use crate::REPLICA_STATE;
use crate::tests::{TestReplica, run};
use std::rc::Rc;

#[tokio::test(start_paused = true)]
async fn each_side_learns_what_the_other_says() {
    let (mut asker, mut replica) = (TestNode::named("asker"), TestNode::named("replica"));
    asker.hello.remembered = Some(Remembered {
        store_id: 5,
        start: 6,
        acknowledged: 7,
    });
    replica.hello.is_accepted = true;
    replica.replica_state.set(ReplicaState::Learner);
    let expected_of_asker = Hello {
        greatest_seen: Timestamp::from_u64(8),
        unix_ms: 7,
        ..asker.hello.clone()
    };
    let expected_of_replica = Hello {
        replica_state: ReplicaState::Learner,
        greatest_seen: Timestamp::from_u64(10),
        unix_ms: 9,
        ..replica.hello.clone()
    };
    let (asker, replica) = (asker.environment(7), replica.environment(9));
    let (dialled, accepted) = shake_hands(&asker, &replica).await;
    assert_eq!(accepted.unwrap().peer, expected_of_asker);
    assert_eq!(dialled.unwrap().peer, expected_of_replica);
}

#[tokio::test(start_paused = true)]
async fn nodes_without_a_secret_shake_hands() {
    let (mut asker, mut replica) = (TestNode::named("asker"), TestNode::named("replica"));
    asker.secrets.clear();
    replica.secrets.clear();
    let (dialled, accepted) = shake_hands(&asker.environment(7), &replica.environment(9)).await;
    assert!(dialled.is_ok() && accepted.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_changed_node_by_node() {
    const OLD: &[u8] = b"old";
    const NEW: &[u8] = b"new";
    // Each step, and the one before, as nodes have them at one time.
    let steps: [&[&'static [u8]]; 4] = [&[OLD], &[OLD, NEW], &[NEW, OLD], &[NEW]];
    let meet = async |asker_secrets: &[&'static [u8]], replica_secrets: &[&'static [u8]]| {
        let (mut asker, mut replica) = (TestNode::named("asker"), TestNode::named("replica"));
        asker.secrets = asker_secrets.to_vec();
        replica.secrets = replica_secrets.to_vec();
        shake_hands(&asker.environment(7), &replica.environment(9)).await
    };
    for pair in steps.windows(2) {
        for (asker, replica) in [(pair[0], pair[1]), (pair[1], pair[0]), (pair[0], pair[0])] {
            let (dialled, accepted) = meet(asker, replica).await;
            assert!(dialled.is_ok() && accepted.is_ok(), "{asker:?} {replica:?}");
        }
    }
    // A step that is left out, and a secret that is not in force any more.
    for (asker, replica) in [
        (steps[0], steps[2]),
        (steps[0], steps[3]),
        (steps[1], steps[3]),
    ] {
        for (asker, replica) in [(asker, replica), (replica, asker)] {
            let (dialled, _) = meet(asker, replica).await;
            assert!(dialled.is_err(), "{asker:?} {replica:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_differ_refuse_each_other_and_both_know_why() {
    type Change = fn(&mut TestNode, &mut TestNode);
    let cases: [(Change, &str); 5] = [
        (
            |asker, _| asker.hello.members_hash = 1,
            "the nodes have different lists of members",
        ),
        (
            |asker, _| asker.hello.name = "replica".to_owned(),
            "both nodes have the same name",
        ),
        (
            |asker, _| asker.hello.name = "st\nranger".to_owned(),
            r#"no node of the cluster is named "st\nranger""#,
        ),
        (
            |asker, _| asker.secrets = vec![b"another"],
            "the nodes have different secrets",
        ),
        (
            |asker, _| asker.secrets.clear(),
            "the nodes have different secrets",
        ),
    ];
    for (change, reason) in cases {
        let (mut asker, mut replica) = (TestNode::named("asker"), TestNode::named("replica"));
        change(&mut asker, &mut replica);
        let (dialled, accepted) = shake_hands(&asker.environment(7), &replica.environment(9)).await;
        assert_eq!(refusal_of(accepted), format!("refuses: {reason}"));
        assert_eq!(refusal_of(dialled), format!("is refused: {reason}"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_dialler_refuses_another_node_at_the_address() {
    let (asker, third) = (TestNode::named("asker"), TestNode::named("third"));
    let (dialled, accepted) = shake_hands(&asker.environment(7), &third.environment(9)).await;
    let reason = r#"the node that was dialled is "third", not "replica""#;
    assert_eq!(refusal_of(dialled), format!("refuses: {reason}"));
    assert_eq!(refusal_of(accepted), format!("is refused: {reason}"));
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_previous_start_is_live_is_refused_for_now_and_not_recorded() {
    for at_the_dialler in [true, false] {
        let (asker, replica) = (TestNode::named("asker"), TestNode::named("replica"));
        let refusing = if at_the_dialler { &asker } else { &replica };
        refusing.is_previous_start_live.set(true);
        let recorded = [Rc::clone(&asker.recorded), Rc::clone(&replica.recorded)];
        let (asker, replica) = (asker.environment(7), replica.environment(9));
        let (dialled, accepted) = shake_hands(&asker, &replica).await;
        let (refusing, refused) = if at_the_dialler {
            (dialled.unwrap_err(), accepted.unwrap_err())
        } else {
            (accepted.unwrap_err(), dialled.unwrap_err())
        };
        assert!(
            matches!(refusing, HandshakeError::Refused { .. }),
            "{refusing}"
        );
        assert!(
            matches!(refused, HandshakeError::RefusedByOther(_)),
            "{refused}"
        );
        assert!(refusing.is_temporary() && refused.is_temporary());
        assert!(
            refused.to_string().contains("its previous start"),
            "{refused}"
        );
        assert!(recorded.iter().all(|hellos| hellos.borrow().is_empty()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_build_that_cannot_fill_an_outdated_store_does_not_serve_it_but_can_be_dialled_by() {
    let mut asker = TestNode::named("asker");
    let mut replica = TestNode::named("replica");
    replica.hello.protocol.features = REPLICA_STATE;
    let start_of_asker = |start| {
        let store_id = TestNode::named("asker").hello.store_id;
        let acknowledged = 0;
        Some(Remembered {
            store_id,
            start,
            acknowledged,
        })
    };
    replica.hello.remembered = start_of_asker(4);
    let recorded = [Rc::clone(&asker.recorded), Rc::clone(&replica.recorded)];
    let (own, other) = (asker.clone().environment(7), replica.clone().environment(9));
    let (dialled, accepted) = shake_hands(&own, &other).await;
    assert!(matches!(dialled, Err(HandshakeError::Outdated)));
    assert!(matches!(accepted, Err(HandshakeError::OtherOutdated { name }) if name == "asker"));
    assert!(
        recorded.iter().all(|hellos| hellos.borrow().len() == 1),
        "both sides record why"
    );
    // In the other direction the handshake succeeds.
    replica.hello.name = "asker".to_owned();
    replica.hello.store_id += 1;
    asker.hello.name = "replica".to_owned();
    let (own, other) = (replica.environment(9), asker.clone().environment(7));
    let (dialled, accepted) = shake_hands(&own, &other).await;
    assert!(dialled.is_ok() && accepted.is_ok());
    // It also succeeds once an operator has accepted the store, or with another store.
    asker.hello.name = "asker".to_owned();
    asker.hello.is_accepted = true;
    let mut replica = TestNode::named("replica");
    replica.hello.protocol.features = REPLICA_STATE;
    replica.hello.remembered = start_of_asker(4);
    let (own, other) = (asker.clone().environment(7), replica.clone().environment(9));
    let (dialled, accepted) = shake_hands(&own, &other).await;
    assert!(dialled.is_ok() && accepted.is_ok());
    asker.hello.is_accepted = false;
    asker.hello.store_id += 1;
    let (dialled, accepted) = shake_hands(&asker.environment(7), &replica.environment(9)).await;
    assert!(dialled.is_ok() && accepted.is_ok());
}

#[tokio::test(start_paused = true)]
async fn both_sides_know_whether_the_diallers_store_is_outdated() {
    for (start, acknowledged, is_outdated) in [(4, 0, true), (2, 1, true), (2, 0, false)] {
        let mut replica = TestNode::named("replica");
        replica.hello.remembered = Some(Remembered {
            store_id: TestNode::named("asker").hello.store_id,
            start,
            acknowledged,
        });
        let asker = TestNode::named("asker").environment(7);
        let (dialled, accepted) = shake_hands(&asker, &replica.environment(9)).await;
        assert_eq!(dialled.unwrap().is_dialler_outdated, is_outdated);
        assert_eq!(accepted.unwrap().is_dialler_outdated, is_outdated);
    }
}

/// A build that supports these versions and features.
fn build(name: &str, least: u16, greatest: u16, features: u64) -> TestNode {
    let mut node = TestNode::named(name);
    node.hello.protocol = Protocol {
        least,
        greatest,
        features,
    };
    node
}

#[tokio::test(start_paused = true)]
async fn builds_that_share_a_version_negotiate_it_and_the_features_that_both_have() {
    for (asker, replica) in [
        (
            build("asker", 1, 1, 0),
            build("replica", 1, 2, REPLICA_STATE),
        ),
        (
            build("asker", 0, 4, REPLICA_STATE | 2),
            build("replica", 1, 1, 4),
        ),
    ] {
        let (asker, replica) = (asker.environment(7), replica.environment(9));
        let (dialled, accepted) = shake_hands(&asker, &replica).await;
        let (dialled, accepted) = (dialled.unwrap().negotiated, accepted.unwrap().negotiated);
        assert_eq!(dialled, accepted);
        assert_eq!(dialled.version, 1);
        assert!(!dialled.has(REPLICA_STATE));
    }
}

#[tokio::test(start_paused = true)]
async fn builds_that_share_no_version_refuse_each_other_and_name_both_ranges() {
    let asker = build("asker", 2, 3, REPLICA_STATE).environment(7);
    let replica = build("replica", 1, 1, REPLICA_STATE).environment(9);
    let (dialled, accepted) = shake_hands(&asker, &replica).await;
    let reason = "the nodes share no version of the peer protocol: one supports 1 to 1, the other \
                  2 to 3; update the older one";
    assert_eq!(refusal_of(accepted), format!("refuses: {reason}"));
    assert_eq!(refusal_of(dialled), format!("is refused: {reason}"));
}

#[tokio::test(start_paused = true)]
async fn a_handshake_in_which_the_dialler_says_nothing_times_out() {
    run(async {
        let (_ours, theirs) = tokio::io::duplex(64);
        let replica = Rc::<TestReplica>::default();
        let environment = TestNode::named("replica").environment(9);
        let before = tokio::time::Instant::now();
        crate::serve(
            Box::new(theirs),
            bytes::Bytes::new(),
            environment,
            replica,
            || {},
        )
        .await;
        assert_eq!(before.elapsed().as_secs(), 2);
    })
    .await;
}
