//! Node reports: their bytes, and who is asked for them.

use super::*;
use crate::wire::frame::{Decoder, PAYLOAD_BYTES_MAX, put_frame};
use crate::wire::message::{self, Message};
use crate::{EXAMINATION, LatencyQuantiles, NodeReport, ReportedStatus};

pub(crate) const REPORT: NodeReport = NodeReport {
    data_bytes: 0x0102_0304,
    free_bytes: None,
    hints: 5,
    requests_per_1000_s: 6_500,
    background_permille: 750,
    reads: Some(LatencyQuantiles {
        p50_us: 7,
        p99_us: 8,
        p999_us: 9,
    }),
    writes: None,
    status: ReportedStatus::Told(Bytes::from_static(b"well")),
    disk_bytes: Some(0x0506),
};

/// The payload of a frame with [`REPORT`].
fn payload() -> Vec<u8> {
    let numbers = |numbers: &[u64]| -> Vec<u8> {
        let bytes = numbers.iter().map(|number| number.to_le_bytes());
        bytes.flatten().collect()
    };
    let share = 750_u16.to_le_bytes();
    let head = numbers(&[0x0102_0304, u64::MAX, 5, 6_500]);
    let tail = numbers(&[7, 8, 9, u64::MAX, u64::MAX, u64::MAX]);
    let disk = numbers(&[0x0506]);
    [&head[..], &share, &tail, &[4, 0, 0, 0], b"well", &disk].concat()
}

#[test]
fn the_frames_are_as_drawn() {
    let mut out = Vec::new();
    message::put_examine(&mut out, 0x11, ms(500));
    let header =
        |kind: u8, payload_bytes: u8| [payload_bytes, 0, 0, 0, kind, 0x11, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(out[4..], [&header(28, 4)[..], &[0xf4, 1, 0, 0]].concat());
    out.clear();
    message::put_examined(&mut out, 0x11, &REPORT);
    assert_eq!(out[4..], [&header(29, 98)[..], &payload()].concat());
}

#[test]
fn fields_of_later_releases_are_passed_over_and_a_short_payload_is_malformed() {
    let later = [payload(), vec![1, 2, 3]].concat();
    let earlier = NodeReport {
        status: ReportedStatus::Untold,
        disk_bytes: None,
        ..REPORT
    };
    let without_disk = NodeReport {
        disk_bytes: None,
        ..REPORT
    };
    for (payload, report) in [
        (&later[..], Some(REPORT)),
        (&payload()[..], Some(REPORT)),
        // As of a release that does not tell the size of its disk.
        (&payload()[..90], Some(without_disk)),
        (&payload()[..97], None),
        // As of a release that tells no status.
        (&payload()[..82], Some(earlier)),
        (&payload()[..81], None),
        (&payload()[..85], None),
        (&payload()[..89], None),
        (&[], None),
    ] {
        let mut out = Vec::new();
        put_frame(&mut out, 29, 1, |out| out.extend_from_slice(payload));
        assert_eq!(reported(&out), report);
    }
}

/// The report in a frame.
fn reported(frame: &[u8]) -> Option<NodeReport> {
    let mut decoder = Decoder::new(frame, PAYLOAD_BYTES_MAX);
    match Message::decode(decoder.next().unwrap().unwrap()) {
        Ok(Message::Examined(bytes)) => NodeReport::decode(bytes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_report_says_that_a_status_was_too_long_for_its_frame_and_that_there_is_none() {
    let told = |bytes| ReportedStatus::Told(vec![b'x'; bytes].into());
    for (status, arrives) in [
        (told(64 << 10), told(64 << 10)),
        (told((64 << 10) + 1), ReportedStatus::TooLong),
        (ReportedStatus::TooLong, ReportedStatus::TooLong),
        (told(0), ReportedStatus::Untold),
        (ReportedStatus::Untold, ReportedStatus::Untold),
    ] {
        let report = NodeReport { status, ..REPORT };
        let mut out = Vec::new();
        message::put_examined(&mut out, 1, &report);
        assert_eq!(reported(&out).unwrap().status, arrives);
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_examined_tells_its_node_report() {
    run(async {
        let (asker, replica, ..) = connected().await;
        asker.call(PeerRequest::Examine, 1).unwrap();
        let (request, reply) = replica.next().await;
        assert_eq!(request, PeerRequest::Examine);
        reply.send(PeerAnswer::Examined(Box::new(REPORT)));
        let answer = asker.answers.next().await;
        assert_eq!(answer, (1, PeerAnswer::Examined(Box::new(REPORT))));
        // How long that takes says nothing about reads and writes.
        let status = asker.link.status();
        assert_eq!((status.read_latency, status.write_latency), (None, None));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_cannot_be_examined_is_not_asked() {
    run(async {
        let mut older = TestNode::named("asker");
        older.hello.protocol.features &= !EXAMINATION;
        let mut asker = Asker::new(older.environment(50_000));
        let examine = |asker: &Asker| asker.call(PeerRequest::Examine, 1);
        assert_eq!(
            examine(&asker),
            Err(Miss::Refused),
            "there is no connection"
        );
        asker.start();
        let (replica, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
        let _serving = asker.accept(&replica, &freeze).await;
        asker.until(LinkState::Up).await;
        assert_eq!(examine(&asker), Err(Miss::Unsupported));
    })
    .await;
}
