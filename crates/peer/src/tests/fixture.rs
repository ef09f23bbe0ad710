//! The bytes on the wire, as version 1 of the protocol defines them.

use super::*;
use crate::wire::contact::Contact;
use crate::wire::frame::{Decoder, PAYLOAD_BYTES_MAX, end_frame};
use crate::wire::message::*;
use crate::wire::node_report::{LatencyQuantiles, NodeReport, ReportedStatus};
use crate::wire::{backup_message, list_message, page, promise_message};
use cluster::repair::{SessionId, Token};
use std::collections::BTreeSet;

const FIXTURE: &[u8] = include_bytes!("../../tests/fixtures/peer-v1.frames");

/// The frames that only nodes with their feature send to each other.
const FIXTURE_OF_FEATURES: &[u8] = include_bytes!("../../tests/fixtures/peer-v1-features.frames");

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
            list: ListReport::default(),
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

/// Each message of each feature that is not among those of [`messages`].
fn messages_of_features() -> Vec<u8> {
    let mut out = Vec::new();
    let at = Timestamp::from_u64(0x0102_0304_0506_0708);
    let entry = Entry::value(b"key", at, b"value", Expiry::at_unix_ms(99), 3);
    begin_writes(&mut out, 1_000);
    put_write_item(&mut out, 1, &entry);
    put_write_item(&mut out, 2, &Entry::tombstone(b"other", at, 2));
    end_frame(&mut out, 0);
    let begin = out.len();
    begin_newer_versions(&mut out);
    for newer_version in [
        NewerVersion::None,
        NewerVersion::At(at),
        NewerVersion::Unknown(at),
        NewerVersion::Overtaken(at),
    ] {
        put_newer_version_item(&mut out, 1, newer_version);
    }
    end_frame(&mut out, begin);
    put_trace(&mut out, 3, base::TraceId::of([7; 16]).unwrap());
    put_read_unless_same(&mut out, 4, ms(1_000), &entry, 7);
    put_same(&mut out, 4);
    put_page(&mut out, 5, ms(1_000), &page::tests::request());
    let scanned = EncodedPage::of(&page::tests::page());
    put_paged(&mut out, 5, scanned.flags(), &scanned.as_entry());
    put_examine(&mut out, 6, ms(1_000));
    let quantiles = LatencyQuantiles {
        p50_us: 1,
        p99_us: 2,
        p999_us: 3,
    };
    let told = NodeReport {
        data_bytes: 1,
        free_bytes: Some(2),
        hints: 3,
        requests_per_1000_s: 4,
        background_permille: 5,
        reads: Some(quantiles),
        writes: None,
        status: ReportedStatus::Told(Bytes::from_static(b"{}")),
        disk_bytes: Some(6),
    };
    let untold = NodeReport {
        free_bytes: None,
        writes: Some(quantiles),
        status: ReportedStatus::Untold,
        disk_bytes: None,
        ..told
    };
    let too_long = NodeReport {
        status: ReportedStatus::TooLong,
        ..told
    };
    for report in [told, untold, too_long] {
        put_examined(&mut out, 6, &report);
    }
    put_contact(&mut out, Contact::FULL);
    for request in backup_message::tests::requests() {
        put_backup(&mut out, 7, ms(1_000), &request);
    }
    for answer in backup_message::tests::answers() {
        put_backup_answer(&mut out, 7, &answer);
    }
    for request in list_message::tests::requests() {
        put_list(&mut out, 8, ms(1_000), &request);
    }
    for answer in list_message::tests::answers() {
        put_listed(&mut out, 8, &answer);
    }
    for request in promise_message::tests::requests() {
        put_promise(&mut out, 9, ms(1_000), &request);
    }
    for answer in promise_message::tests::answers() {
        put_promise_answer(&mut out, 9, answer);
    }
    put_accept(&mut out, 10, ms(1_000), at, &entry);
    out
}

#[test]
fn messages_of_features_have_the_bytes_of_the_fixture() {
    let mut decoder = Decoder::new(FIXTURE_OF_FEATURES, PAYLOAD_BYTES_MAX);
    let mut kinds = BTreeSet::new();
    while let Some(frame) = decoder.next().unwrap() {
        kinds.insert(frame.kind);
        assert!(Message::decode(frame).is_ok(), "{}", frame.kind);
    }
    // With those of the other fixture these are all kinds: a new one belongs to one of the two.
    let expected = [
        18, 19, 21, 22, 25, 26, 27, 28, 29, 30, 60, 61, 62, 63, 64, 65, 66,
    ];
    assert_eq!(kinds, BTreeSet::from(expected));
    assert!(
        messages_of_features() == FIXTURE_OF_FEATURES,
        "frames of a feature have changed: it needs another bit"
    );
}

#[test]
#[ignore = "writes the fixture: only for a new feature"]
#[expect(clippy::disallowed_methods, reason = "fixtures lie on the real disk")]
fn write_the_fixture_of_features() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/peer-v1-features.frames"
    );
    std::fs::write(path, messages_of_features()).unwrap();
}
