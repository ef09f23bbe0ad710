//! What the proofs protect, and what a node sends before it has one.

use super::*;
use crate::wire::frame::{PAYLOAD_BYTES_MAX, put_frame};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// The first frame that `replica` answers to these bytes, and how its handshake ends.
async fn answer_to(bytes: Vec<u8>) -> (u8, Vec<u8>, HandshakeResult) {
    let (mut ours, mut theirs) = tokio::io::duplex(4096);
    let replica = TestNode::named("replica").environment(9);
    let mut decoder = Decoder::new(&[], HANDSHAKE_BYTES_MAX);
    let accepted = async {
        let accepted = accept(&mut theirs, &mut decoder, replica.handshake()).await;
        drop(theirs);
        accepted
    };
    let exchange = async {
        ours.write_all(&bytes).await.unwrap();
        ours.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // A side that was refused may have closed both directions.
        let _read = ours.read_to_end(&mut answer).await;
        answer
    };
    let both = async { tokio::join!(exchange, accepted) };
    let both = tokio::time::timeout(Duration::from_secs(600), both).await;
    let (answer, accepted) = both.expect("an end of the handshake");
    let mut decoder = Decoder::new(&answer, PAYLOAD_BYTES_MAX);
    let frame = decoder.next().unwrap();
    let (kind, payload) = frame.map_or((0, Vec::new()), |frame| {
        (frame.kind, frame.payload.to_vec())
    });
    (kind, payload, accepted)
}

fn secret() -> [Arc<[u8]>; 1] {
    [Arc::from(&b"secret"[..])]
}

#[tokio::test(start_paused = true)]
async fn an_unknown_version_is_refused_whatever_follows_it() {
    let mut bytes = Vec::new();
    put_frame(&mut bytes, HELLO, 0, |out| {
        out.extend_from_slice(&[7, 0, 9, 0]);
        out.extend_from_slice(b"whatever later versions say");
    });
    let (kind, payload, _) = answer_to(bytes).await;
    let reason = "the nodes share no version of the peer protocol: one supports 1 to 1, the other \
                  7 to 9; update the older one";
    assert_eq!(
        (kind, String::from_utf8(payload).unwrap().as_str()),
        (REFUSE, reason)
    );
}

#[tokio::test(start_paused = true)]
async fn an_acceptor_sends_no_proof_before_the_dialler_has_proved_itself() {
    let hello = hello_frame(&TestNode::named("asker").environment(7));
    let (kind, _, accepted) = answer_to(hello).await;
    assert_eq!(kind, HELLO, "no proof follows it");
    assert!(matches!(accepted, Err(HandshakeError::Broken(_))));
}

#[tokio::test(start_paused = true)]
async fn a_request_before_the_handshake_is_malformed() {
    let mut read = Vec::new();
    crate::wire::message::put_read(&mut read, 1, Duration::from_secs(1), b"key");
    let (kind, _, accepted) = answer_to(read).await;
    assert_eq!(kind, 0);
    assert!(matches!(accepted, Err(HandshakeError::Malformed(_))));
}

/// The bytes of a hello, one of which somebody on the way has changed.
fn tampered(hello: &[u8], at: usize) -> Vec<u8> {
    let mut changed = hello.to_vec();
    changed[at] ^= 1;
    changed
}

#[tokio::test(start_paused = true)]
async fn a_proof_covers_each_byte_of_both_hellos() {
    let environment = TestNode::named("asker").environment(7);
    let hello = || payload(&hello_frame(&environment)).to_vec();
    let (dialler, acceptor) = (hello(), hello());
    let sent = Hellos {
        dialler: &dialler,
        acceptor: &acceptor,
    };
    let mut frame = Vec::new();
    sent.put_proof(&mut frame, &secret(), Role::Dialler);
    // The versions and features are among these bytes, so somebody between two
    // nodes cannot make them speak an older version.
    for at in 0..dialler.len() {
        let changed = tampered(&dialler, at);
        let seen = Hellos {
            dialler: &changed,
            ..sent
        };
        let checked = seen.check_proof(payload(&frame), &secret(), Role::Dialler);
        assert_eq!(checked, Err(Refusal::Secret), "byte {at}");
    }
    for at in 0..acceptor.len() {
        let changed = tampered(&acceptor, at);
        let seen = Hellos {
            acceptor: &changed,
            ..sent
        };
        let checked = seen.check_proof(payload(&frame), &secret(), Role::Dialler);
        assert_eq!(checked, Err(Refusal::Secret), "byte {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_proof_of_another_connection_or_of_the_other_side_is_refused() {
    let environment = TestNode::named("asker").environment(7);
    let hello = || hello_frame(&environment);
    let (own, other) = (hello(), hello());
    let secret = &secret();
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
        ("secret", hellos.check_proof(&proof, &[], Role::Dialler)),
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
