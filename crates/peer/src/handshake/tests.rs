//! Two nodes shake hands, or do not.

use super::super::frame::PAYLOAD_BYTES_MAX;
use super::super::tests::{TestNode, run};
use super::hello::{decode_hello, put_hello};
use super::*;
use crate::{Identity, STANDING};
use base::Timestamp;
use cluster::{Remembered, STARTS_MAX, Standing};
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncReadExt;

type HandshakeResult = Result<Session, HandshakeError>;

/// Both sides of a handshake: that of `asker`, which dials, and of `replica`.
async fn shake(
    asker: &PeerEnvironment,
    replica: &PeerEnvironment,
) -> (HandshakeResult, HandshakeResult) {
    let (mut ours, mut theirs) = tokio::io::duplex(64);
    let (mut our_bytes, mut their_bytes) = (
        Decoder::new(&[], HANDSHAKE_BYTES_MAX),
        Decoder::new(&[], HANDSHAKE_BYTES_MAX),
    );
    tokio::join!(
        dial(&mut ours, &mut our_bytes, asker, "replica"),
        accept(&mut theirs, &mut their_bytes, replica),
    )
}

fn refused(result: HandshakeResult) -> String {
    match result {
        Err(HandshakeError::Refused { refusal, .. }) => format!("refuses: {refusal}"),
        Err(HandshakeError::RefusedByOther(reason)) => format!("is refused: {reason}"),
        Err(HandshakeError::RefusedForNow(reason)) => format!("is refused for now: {reason}"),
        Err(other) => panic!("{other}"),
        Ok(session) => panic!("hands are shaken: {:?}", session.other),
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_learn_who_the_other_is_and_what_it_remembers() {
    let (mut asker, mut replica) = (TestNode::named("asker"), TestNode::named("replica"));
    asker.remembered = Some(Remembered {
        store_id: 5,
        start: 6,
    });
    replica.is_accepted = true;
    replica.standing.set(Standing::Unfilled);
    let identities = (asker.identity.clone(), replica.identity.clone());
    let (asker, replica) = (asker.environment(7), replica.environment(9));
    let (of_replica, of_asker) = shake(&asker, &replica).await;
    let (of_replica, of_asker) = (of_replica.unwrap(), of_asker.unwrap());
    let (of_replica, of_asker) = (of_replica.other, of_asker.other);
    assert_eq!(of_asker.remembered.unwrap().start, 6);
    assert_eq!(of_replica.remembered, None);
    assert!(!of_asker.is_accepted && of_replica.is_accepted);
    assert_eq!(
        (of_asker.standing, of_replica.standing),
        (Standing::Witness, Standing::Unfilled)
    );
    assert_eq!((of_asker.unix_ms, of_replica.unix_ms), (7, 9));
    let greatest = (of_asker.greatest_seen, of_replica.greatest_seen);
    assert_eq!((greatest.0.as_u64(), greatest.1.as_u64()), (8, 10));
    assert_eq!((of_asker.identity, of_replica.identity), identities);
}

#[tokio::test(start_paused = true)]
async fn nodes_without_a_secret_shake_hands() {
    let (mut asker, mut replica) = (TestNode::named("asker"), TestNode::named("replica"));
    asker.secret.clear();
    replica.secret.clear();
    let (dialled, accepted) = shake(&asker.environment(7), &replica.environment(9)).await;
    assert!(dialled.is_ok() && accepted.is_ok());
}

#[tokio::test(start_paused = true)]
async fn nodes_that_differ_refuse_each_other_and_both_know_why() {
    type Change = fn(&mut TestNode, &mut TestNode);
    let cases: [(Change, &str); 5] = [
        (
            |asker, _| asker.identity.members_hash = 1,
            "the nodes have different lists of nodes",
        ),
        (
            |asker, _| asker.identity.name = "replica".to_owned(),
            "both nodes have the same name",
        ),
        (
            |asker, _| asker.identity.name = "st\nranger".to_owned(),
            r#"no node of the cluster is named "st\nranger""#,
        ),
        (
            |asker, _| asker.secret = b"another".to_vec(),
            "the nodes have different secrets",
        ),
        (
            |asker, _| asker.secret.clear(),
            "the nodes have different secrets",
        ),
    ];
    for (change, reason) in cases {
        let (mut asker, mut replica) = (TestNode::named("asker"), TestNode::named("replica"));
        change(&mut asker, &mut replica);
        let (dialled, accepted) = shake(&asker.environment(7), &replica.environment(9)).await;
        assert_eq!(refused(accepted), format!("refuses: {reason}"));
        assert_eq!(refused(dialled), format!("is refused: {reason}"));
    }
}

#[tokio::test(start_paused = true)]
async fn another_node_at_the_address_is_refused_by_the_one_that_dials() {
    let (asker, third) = (TestNode::named("asker"), TestNode::named("third"));
    let (dialled, accepted) = shake(&asker.environment(7), &third.environment(9)).await;
    let reason = r#"the node that was dialled is "third", not "replica""#;
    assert_eq!(refused(dialled), format!("refuses: {reason}"));
    assert_eq!(refused(accepted), format!("is refused: {reason}"));
}

#[tokio::test(start_paused = true)]
async fn a_start_that_comes_too_early_is_refused_for_now_before_either_takes_note() {
    for at_the_dialler in [true, false] {
        let (asker, replica) = (TestNode::named("asker"), TestNode::named("replica"));
        let early = if at_the_dialler { &asker } else { &replica };
        early.is_early.set(true);
        let noted = [Rc::clone(&asker.met), Rc::clone(&replica.met)];
        let (asker, replica) = (asker.environment(7), replica.environment(9));
        let (dialled, accepted) = shake(&asker, &replica).await;
        let (refusing, refused) = match at_the_dialler {
            true => (dialled.unwrap_err(), accepted.unwrap_err()),
            false => (accepted.unwrap_err(), dialled.unwrap_err()),
        };
        assert!(
            matches!(refusing, HandshakeError::Refused { .. }),
            "{refusing}"
        );
        assert!(
            matches!(refused, HandshakeError::RefusedForNow(_)),
            "{refused}"
        );
        assert!(refusing.may_pass() && refused.may_pass());
        assert!(
            refused.to_string().contains("its start before"),
            "{refused}"
        );
        assert!(noted.iter().all(|met| met.borrow().is_empty()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_outdated_asks_nobody_who_knows_and_is_asked() {
    let mut asker = TestNode::named("asker");
    let mut replica = TestNode::named("replica");
    let of_asker = |start| {
        let store_id = TestNode::named("asker").identity.store_id;
        Some(Remembered { store_id, start })
    };
    replica.remembered = of_asker(4);
    let noted = [Rc::clone(&asker.met), Rc::clone(&replica.met)];
    let (own, other) = (asker.clone().environment(7), replica.clone().environment(9));
    let (dialled, accepted) = shake(&own, &other).await;
    assert!(matches!(dialled, Err(HandshakeError::Outdated)));
    assert!(matches!(accepted, Err(HandshakeError::OtherOutdated { name }) if name == "asker"));
    assert!(
        noted.iter().all(|met| met.borrow().len() == 1),
        "both know why"
    );
    // In the other direction it is.
    replica.identity.name = "asker".to_owned();
    replica.identity.store_id += 1;
    asker.identity.name = "replica".to_owned();
    let (own, other) = (replica.environment(9), asker.clone().environment(7));
    let (dialled, accepted) = shake(&own, &other).await;
    assert!(dialled.is_ok() && accepted.is_ok());
    // So it is once an operator has accepted it, or where it is another store.
    asker.identity.name = "asker".to_owned();
    asker.is_accepted = true;
    let mut replica = TestNode::named("replica");
    replica.remembered = of_asker(4);
    let (dialled, accepted) = shake(
        &asker.clone().environment(7),
        &replica.clone().environment(9),
    )
    .await;
    assert!(dialled.is_ok() && accepted.is_ok());
    asker.is_accepted = false;
    asker.identity.store_id += 1;
    let (dialled, accepted) = shake(&asker.environment(7), &replica.environment(9)).await;
    assert!(dialled.is_ok() && accepted.is_ok());
}

/// The hello of a node as a whole frame.
fn hello_of(node: TestNode) -> Vec<u8> {
    own_hello(&node.environment(7), None).1
}

/// What `replica` answers to these bytes, as far as it is one frame.
async fn answer_to(bytes: Vec<u8>) -> (u8, Vec<u8>, HandshakeResult) {
    let (mut ours, mut theirs) = tokio::io::duplex(4096);
    let replica = TestNode::named("replica").environment(9);
    let mut decoder = Decoder::new(&[], HANDSHAKE_BYTES_MAX);
    let accepted = async {
        let accepted = accept(&mut theirs, &mut decoder, &replica).await;
        drop(theirs);
        accepted
    };
    let talk = async {
        ours.write_all(&bytes).await.unwrap();
        ours.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // A side that was refused may have closed both directions.
        let _read = ours.read_to_end(&mut answer).await;
        answer
    };
    let (answer, accepted) = tokio::join!(talk, accepted);
    let mut decoder = Decoder::new(&answer, PAYLOAD_BYTES_MAX);
    let frame = decoder.next().unwrap();
    let (kind, payload) = frame.map_or((0, Vec::new()), |frame| {
        (frame.kind, frame.payload.to_vec())
    });
    (kind, payload, accepted)
}

/// A build that speaks this.
fn build(name: &str, least: u16, greatest: u16, features: u64) -> TestNode {
    let mut node = TestNode::named(name);
    node.protocol = Protocol {
        least,
        greatest,
        features,
    };
    node
}

#[tokio::test(start_paused = true)]
async fn builds_that_share_a_version_speak_it_and_use_what_both_have() {
    for (asker, replica) in [
        (build("asker", 1, 1, 0), build("replica", 1, 2, STANDING)),
        (
            build("asker", 0, 4, STANDING | 2),
            build("replica", 1, 1, 4),
        ),
    ] {
        let (asker, replica) = (asker.environment(7), replica.environment(9));
        let (dialled, accepted) = shake(&asker, &replica).await;
        let (dialled, accepted) = (dialled.unwrap().negotiated, accepted.unwrap().negotiated);
        assert_eq!(dialled, accepted);
        assert_eq!(dialled.version, 1);
        assert!(!dialled.has(STANDING));
    }
}

#[tokio::test(start_paused = true)]
async fn builds_that_share_no_version_refuse_each_other_and_name_both_ranges() {
    let asker = build("asker", 2, 3, STANDING).environment(7);
    let replica = build("replica", 1, 1, STANDING).environment(9);
    let (dialled, accepted) = shake(&asker, &replica).await;
    let reason = "the nodes share no version of the peer protocol: one speaks 1 to 1, the other \
                  2 to 3; update the older one";
    assert_eq!(refused(accepted), format!("refuses: {reason}"));
    assert_eq!(refused(dialled), format!("is refused: {reason}"));
}

#[tokio::test(start_paused = true)]
async fn another_version_is_refused_whatever_follows_it() {
    let mut bytes = Vec::new();
    super::super::frame::put_frame(&mut bytes, HELLO, 0, |out| {
        out.extend_from_slice(&[7, 0, 9, 0]);
        out.extend_from_slice(b"whatever the next versions say");
    });
    let (kind, payload, _) = answer_to(bytes).await;
    let reason = "the nodes share no version of the peer protocol: one speaks 1 to 1, the other \
                  7 to 9; update the older one";
    assert_eq!(
        (kind, String::from_utf8(payload).unwrap().as_str()),
        (REFUSE, reason)
    );
}

/// The bytes of a hello in which somebody on the way has changed one.
fn tampered(hello: &[u8], at: usize) -> Vec<u8> {
    let mut changed = hello.to_vec();
    changed[at] ^= 1;
    changed
}

#[tokio::test(start_paused = true)]
async fn nobody_on_the_way_can_change_a_hello() {
    let environment = TestNode::named("asker").environment(7);
    let hello = |name: &str| payload(&own_hello(&environment, Some(name)).1).to_vec();
    let (dialler, acceptor) = (hello("replica"), hello("asker"));
    let sent = Hellos {
        dialler: &dialler,
        acceptor: &acceptor,
    };
    let mut frame = Vec::new();
    sent.put_proof(&mut frame, b"secret", Role::Dialler);
    // Versions and features among them: there is no way to talk two nodes down.
    for at in 0..dialler.len() {
        let changed = tampered(&dialler, at);
        let seen = Hellos {
            dialler: &changed,
            ..sent
        };
        let checked = seen.check_proof(payload(&frame), b"secret", Role::Dialler);
        assert_eq!(checked, Err(Refusal::Secret), "byte {at}");
    }
    for at in 0..acceptor.len() {
        let changed = tampered(&acceptor, at);
        let seen = Hellos {
            acceptor: &changed,
            ..sent
        };
        let checked = seen.check_proof(payload(&frame), b"secret", Role::Dialler);
        assert_eq!(checked, Err(Refusal::Secret), "byte {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_proof_of_another_connection_or_of_the_other_side_is_refused() {
    let environment = TestNode::named("asker").environment(7);
    let hello = || own_hello(&environment, None).1;
    let (own, other) = (hello(), hello());
    let secret = b"secret";
    let hellos = Hellos {
        dialler: &own,
        acceptor: &other,
    };
    let mut proof = Vec::new();
    hellos.put_proof(&mut proof, secret, Role::Dialler);
    let proof = payload(&proof).to_vec();
    assert_eq!(hellos.check_proof(&proof, secret, Role::Dialler), Ok(()));
    let third = hello();
    let swapped = Hellos {
        dialler: &other,
        acceptor: &own,
    };
    let newer = Hellos {
        dialler: &own,
        acceptor: &third,
    };
    let mut flipped = proof.clone();
    flipped[31] ^= 1;
    for (case, result) in [
        ("role", hellos.check_proof(&proof, secret, Role::Acceptor)),
        (
            "secret",
            hellos.check_proof(&proof, b"secreT", Role::Dialler),
        ),
        (
            "swapped",
            swapped.check_proof(&proof, secret, Role::Dialler),
        ),
        ("replayed", newer.check_proof(&proof, secret, Role::Dialler)),
        (
            "flipped",
            hellos.check_proof(&flipped, secret, Role::Dialler),
        ),
        (
            "cut",
            hellos.check_proof(&proof[..31], secret, Role::Dialler),
        ),
        ("empty", hellos.check_proof(&[], secret, Role::Dialler)),
    ] {
        assert_eq!(result, Err(Refusal::Secret), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_proves_nothing_to_who_has_not() {
    let (kind, _, accepted) = answer_to(hello_of(TestNode::named("asker"))).await;
    assert_eq!(kind, HELLO, "and no proof follows it");
    assert!(matches!(accepted, Err(HandshakeError::Broken(_))));
}

#[tokio::test(start_paused = true)]
async fn requests_before_a_handshake_are_nonsense() {
    let mut read = Vec::new();
    super::super::message::put_read(&mut read, 1, Duration::from_secs(1), b"key");
    let (kind, _, accepted) = answer_to(read).await;
    assert_eq!(kind, 0);
    assert!(matches!(accepted, Err(HandshakeError::Malformed(_))));
}

fn introduction() -> Hello {
    Hello {
        identity: Identity {
            name: "näme".to_owned(),
            members_hash: 1,
            store_id: 2,
            starts: [0, u64::MAX].into(),
        },
        is_accepted: true,
        standing: Standing::Accepted,
        remembered: Some(Remembered {
            store_id: 0,
            start: 3,
        }),
        greatest_seen: Timestamp::from_u64(4),
        unix_ms: u64::MAX,
    }
}

/// For the fixture: a hello, a proof made of it and itself, a refusal.
pub(crate) fn put_one_of_each(out: &mut Vec<u8>) {
    let mut frame = Vec::new();
    put_hello(&mut frame, Protocol::OWN, &introduction(), &[7; 32]);
    let hello = payload(&frame).to_vec();
    out.extend(frame);
    let hellos = Hellos {
        dialler: &hello,
        acceptor: &hello,
    };
    hellos.put_proof(out, b"secret", Role::Acceptor);
    hello::put_refuse(out, &Refusal::Secret);
}

/// What a hello says to this build.
fn decoded(hello: &[u8]) -> Result<Hello, Refusal> {
    decode_hello(Protocol::OWN, hello).map(|(_, introduction)| introduction)
}

#[test]
fn a_hello_is_whole_or_nothing() {
    let mut frame = Vec::new();
    put_hello(&mut frame, Protocol::OWN, &introduction(), &[7; 32]);
    let hello = payload(&frame);
    assert_eq!(decoded(hello), Ok(introduction()));
    for bytes in 0..hello.len() {
        assert_eq!(decoded(&hello[..bytes]), Err(Refusal::Hello), "{bytes}");
    }
    let name_end = hello.len() - 2 - 16;
    let mut name = hello.to_vec();
    name[name_end - 1] = 0xff;
    assert_eq!(decoded(&name), Err(Refusal::Hello), "no UTF-8");
    let mut no_starts = hello[..name_end].to_vec();
    no_starts.extend_from_slice(&[0, 0]);
    assert_eq!(decoded(&no_starts), Err(Refusal::Hello));
}

#[test]
fn what_a_later_release_adds_to_a_hello_is_let_be() {
    let mut frame = Vec::new();
    put_hello(&mut frame, Protocol::OWN, &introduction(), &[7; 32]);
    let hello = payload(&frame);
    let longer = [hello, b"more"].concat();
    assert_eq!(decoded(&longer), Ok(introduction()));
    let mut flags = hello.to_vec();
    flags[12] |= 0b1111_1100;
    assert_eq!(decoded(&flags), Ok(introduction()));
    let mut standing = hello.to_vec();
    standing[13] = 200;
    assert_eq!(decoded(&standing).unwrap().standing, Standing::Unconfirmed);
}

#[test]
fn a_hello_with_the_most_starts_fits() {
    let mut longest = introduction();
    longest.identity.name = "n".repeat(1024);
    longest.identity.starts = (0..2_000).collect();
    let mut frame = Vec::new();
    put_hello(&mut frame, Protocol::OWN, &longest, &[7; 32]);
    assert!(payload(&frame).len() <= HANDSHAKE_BYTES_MAX);
    let starts = decoded(payload(&frame)).unwrap().identity.starts;
    assert_eq!((starts.len(), starts.last()), (STARTS_MAX, Some(&1_999)));
}

#[tokio::test(start_paused = true)]
async fn a_side_that_says_nothing_is_left() {
    run(async {
        let (_ours, theirs) = tokio::io::duplex(64);
        let replica = Rc::<super::super::tests::TestReplica>::default();
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
