//! Handshakes of two nodes, over a stream in memory.

mod acceptance;
mod hello;
mod proof;

use super::*;
use crate::PeerEnvironment;
use crate::tests::TestNode;
use crate::wire::store_report::ListReport;
use base::Timestamp;
use cluster::layout::MemberReport;
use cluster::{Epoch, NodeId, ReplicaState};
use std::sync::Arc;

type HandshakeResult = Result<Session, HandshakeError>;

/// Runs a handshake of `asker`, which dials, with `replica`; returns how it ended
/// on both sides.
async fn shake_hands(
    asker: &PeerEnvironment,
    replica: &PeerEnvironment,
) -> (HandshakeResult, HandshakeResult) {
    let (mut ours, mut theirs) = tokio::io::duplex(64);
    let mut our_decoder = Decoder::new(&[], HANDSHAKE_BYTES_MAX);
    let mut their_decoder = Decoder::new(&[], HANDSHAKE_BYTES_MAX);
    tokio::join!(
        dial(
            &mut ours,
            &mut our_decoder,
            asker.handshake(),
            Some("replica")
        ),
        accept(&mut theirs, &mut their_decoder, replica.handshake()),
    )
}

/// How a side was refused, or refuses the other.
fn refusal_of(result: HandshakeResult) -> String {
    match result {
        Err(HandshakeError::Refused { refusal, .. }) => format!("refuses: {refusal}"),
        Err(HandshakeError::RefusedByOther(stated)) if stated.is_temporary() => {
            format!("is refused for now: {}", stated.reason)
        }
        Err(HandshakeError::RefusedByOther(stated)) => format!("is refused: {}", stated.reason),
        Err(other) => panic!("the handshake failed without a refusal: {other}"),
        Ok(session) => panic!("the handshake succeeded: {:?}", session.peer),
    }
}

/// The frame of a node's hello.
fn hello_frame(environment: &PeerEnvironment) -> Vec<u8> {
    let environment = environment.handshake();
    encode_hello(environment, &own_hello(environment, None))
}

/// A hello with a value in each field.
/// Some features: the bytes of a hello do not depend on what this build supports.
const FEATURES: u64 = 989;

fn example_hello() -> Hello {
    Hello {
        protocol: Protocol {
            features: FEATURES,
            ..Protocol::OWN
        },
        name: "näme".to_owned(),
        members_hash: 1,
        store_id: 2,
        starts: [0, u64::MAX].into(),
        is_accepted: true,
        replica_state: ReplicaState::ForcedVoter,
        remembered: Some(Remembered {
            store_id: 0,
            start: 3,
            acknowledged: 5,
        }),
        remembered_starts: [9, 3].into(),
        acknowledged: Some(6),
        greatest_seen: Timestamp::from_u64(4),
        unix_ms: u64::MAX,
        gc_threshold: Timestamp::from_u64(7),
        cluster: 9,
        list: ListReport {
            cluster: 9,
            epoch: Epoch::new(4),
            member: MemberReport {
                epoch: Epoch::new(3),
                change: Epoch::new(2),
                equal_with: [NodeId::new(1)].into_iter().collect(),
            },
        },
        waits: false,
    }
}

/// Appends a hello, a proof over it twice, and a refusal, for the fixture.
pub(crate) fn put_one_of_each(out: &mut Vec<u8>) {
    let mut frame = Vec::new();
    example_hello().encode(&mut frame, &[7; 32]);
    let hello = payload(&frame).to_vec();
    out.extend(frame);
    let hellos = Hellos {
        dialler: &hello,
        acceptor: &hello,
    };
    hellos.put_proof(out, &[Arc::from(&b"secret"[..])], Role::Acceptor);
    Refusal::Secret.encode(out);
}
