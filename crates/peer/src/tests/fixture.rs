//! The bytes on the wire, as version 1 of the protocol defines them.

use super::*;
use crate::wire::frame::{Decoder, PAYLOAD_BYTES_MAX};
use crate::wire::message::*;
use cluster::repair::{SessionId, Token};

const FIXTURE: &[u8] = include_bytes!("../../tests/fixtures/peer-v1.frames");

/// Each message of version 1, some in several forms.
fn messages() -> Vec<u8> {
    let mut out = Vec::new();
    let at = Timestamp::from_u64(0x0102_0304_0506_0708);
    let expiring = Entry::value(b"key", at, b"value", Expiry::at_unix_ms(99), 3);
    let lasting = Entry::value(b"key", at, b"", Expiry::NEVER, 255);
    let long = Entry::value(b"key", at, &[7; 70_000], Expiry::NEVER, 1);
    put_write(&mut out, 1, ms(1_000), &expiring);
    put_write(&mut out, 1 << 40, ms(5_000_000_000), &long);
    put_piece(&mut out, 1 << 40, b"piece");
    put_read(&mut out, 3, Duration::from_micros(1_001), b"key");
    put_stored(&mut out, 4, NewerVersion::At(at));
    put_stored(&mut out, 4, NewerVersion::Unknown(at));
    put_stored(&mut out, 5, NewerVersion::None);
    put_found(&mut out, 6, &lasting);
    put_found(&mut out, 7, &Entry::tombstone(b"key", at, 2));
    put_absent(&mut out, 8);
    for miss in [
        Miss::Timeout,
        Miss::Refused,
        Miss::Overloaded,
        Miss::Full,
        Miss::Failed,
        Miss::Learner,
        Miss::Undecided,
        Miss::Obsolete { below: at },
    ] {
        put_missed(&mut out, 9, miss);
    }
    put_ping(&mut out, u64::MAX);
    put_pong(&mut out, u64::MAX, 1_700_000_000_000);
    put_replica_state(&mut out, ReplicaState::Learner);
    put_report(
        &mut out,
        StoreReport {
            acknowledged: 77,
            gc_threshold: at,
        },
    );
    let token = Token {
        session: 5,
        attempt: 1,
    };
    let session = SessionId::Full(token);
    let sync = RepairRequest::Sync { session };
    put_session(&mut out, 10, ms(1_000), &sync);
    put_session_answer(&mut out, 10, &RepairAnswer::Done);
    put_repair_write(&mut out, 11, ms(1_000), session, &lasting);
    let mut run = RunWriter::default();
    run.push(expiring.lend());
    run.push(Entry::tombstone(b"other", at, 2).lend());
    put_run(&mut out, 12, false, 999, run.finish(false, 999).bytes());
    put_gc_threshold(&mut out, ALL_LATER, at);
    put_repair(&mut out, 13, ms(1_000), at, &lasting);
    handshake::put_one_of_each(&mut out);
    out
}

#[test]
fn messages_have_the_bytes_of_the_fixture() {
    let mut decoder = Decoder::new(FIXTURE, PAYLOAD_BYTES_MAX);
    let mut kinds = Vec::new();
    while let Some(frame) = decoder.next().unwrap() {
        kinds.push(frame.kind);
        assert_eq!(Message::decode(frame).is_ok(), frame.kind < 32);
    }
    let expected = [
        1, 1, 9, 2, 3, 3, 3, 4, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6, 7, 8, 10, 15, 11, 12, 13, 14, 16, 17,
        32, 33, 34,
    ];
    assert_eq!(kinds, expected);
    assert!(
        messages() == FIXTURE,
        "the protocol has changed: it needs a new version"
    );
}
