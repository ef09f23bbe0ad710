//! Writes and the answers to them, many in a frame.

use super::*;
use crate::connection::outgoing::Outgoing;
use crate::wire::frame::{Decoder, PAYLOAD_BYTES_MAX};
use crate::wire::message::{self, Message};
use tokio::io::AsyncReadExt;

/// The frames that are written: for each its kind, and the calls of its items or its own.
async fn written(outgoing: &Outgoing) -> Vec<(u8, Vec<u64>)> {
    let (mut near, mut far) = tokio::io::duplex(1 << 20);
    std::future::poll_fn(|cx| outgoing.poll_flush(cx, &mut near, Duration::ZERO))
        .await
        .unwrap();
    drop(near);
    let mut bytes = Vec::new();
    far.read_to_end(&mut bytes).await.unwrap();
    let mut decoder = Decoder::new(&bytes, PAYLOAD_BYTES_MAX);
    let mut frames = Vec::new();
    while let Some(frame) = decoder.next().unwrap() {
        let calls = match Message::decode(frame).unwrap() {
            Message::Writes { remaining, writes } => {
                assert_eq!(remaining, ms(9));
                writes.map(|write| write.unwrap().0).collect()
            }
            Message::NewerVersions(newer_versions) => newer_versions
                .map(|newer_version| newer_version.unwrap().0)
                .collect(),
            _ => vec![frame.call],
        };
        frames.push((frame.kind, calls));
    }
    frames
}

#[tokio::test]
async fn items_that_follow_each_other_share_a_frame() {
    let outgoing = Outgoing::default();
    let short = entry("key", b"value");
    outgoing.push_write(1, ms(9), &short);
    outgoing.push_write(2, ms(9), &short);
    outgoing.push(|out| message::put_read(out, 3, ms(9), b"key"));
    outgoing.push_write(4, ms(9), &short);
    outgoing.push_newer_version(5, NewerVersion::None);
    outgoing.push_newer_version(6, NewerVersion::At(Timestamp::from_u64(7)));
    outgoing.push_urgent(|out| message::put_ping(out, 8));
    outgoing.push_newer_version(7, NewerVersion::Unknown(Timestamp::from_u64(7)));
    let frames = written(&outgoing).await;
    let expected = [
        (7, vec![8]),
        (18, vec![1, 2]),
        (2, vec![3]),
        (18, vec![4]),
        (19, vec![5, 6, 7]),
    ];
    assert_eq!(frames, expected);
    // What was dropped leaves no frame open.
    outgoing.push_write(1, ms(9), &short);
    outgoing.clear_waiting();
    outgoing.push_write(2, ms(9), &short);
    assert_eq!(written(&outgoing).await, [(18, vec![2])]);
}

#[tokio::test]
async fn a_frame_of_many_is_bounded_and_takes_any_short_value() {
    let outgoing = Outgoing::default();
    let largest = entry(&"k".repeat(4096), &long_value(frame::PIECE_BYTES));
    let small = entry("key", &[7; 1000]);
    outgoing.push_write(0, ms(9), &largest);
    outgoing.push_write(1, ms(9), &largest);
    for call in 2..100 {
        outgoing.push_write(call, ms(9), &small);
    }
    let frames = written(&outgoing).await;
    assert_eq!((&frames[0].1, &frames[1].1), (&vec![0], &vec![1]));
    let calls: Vec<u64> = frames.iter().flat_map(|frame| frame.1.clone()).collect();
    assert!(calls.into_iter().eq(0..100));
    assert!(frames[2..].iter().all(|frame| frame.1.len() <= 16));
    assert!(frames.len() < 12);
}

#[test]
fn frames_of_many_are_as_drawn() {
    let mut out = Vec::new();
    let at = Timestamp::from_u64(0x0102_0304_0506_0708);
    message::begin_writes(&mut out, 0x0a0b_0c0d);
    message::put_write_item(&mut out, 0x11, &Entry::tombstone(b"k", at, 3));
    frame::end_frame(&mut out, 0);
    let header = [37, 0, 0, 0, 18, 0, 0, 0, 0, 0, 0, 0, 0];
    let payload = [
        &[0x0d, 0x0c, 0x0b, 0x0a][..],
        &[0x11, 0, 0, 0, 0, 0, 0, 0],
        &[1, 3, 1, 0, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0],
        b"k",
    ];
    assert_eq!(out[8..], [&header[4..], &payload.concat()].concat());
    out.clear();
    message::begin_newer_versions(&mut out);
    message::put_newer_version_item(&mut out, 0x11, NewerVersion::None);
    message::put_newer_version_item(&mut out, 0x12, NewerVersion::At(at));
    frame::end_frame(&mut out, 0);
    let payload = [
        0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0, 0, 0, 0, 0, 0, 0, 1, 8, 7, 6, 5, 4, 3, 2, 1,
    ];
    assert_eq!(out[17..], payload);
    assert_eq!(out[4..9], [26, 0, 0, 0, 19]);
}

/// Both with the feature and without it each write gets its own answer.
#[tokio::test(start_paused = true)]
async fn many_writes_are_answered_each_by_itself() {
    for features in [u64::MAX, !MANY] {
        run(async {
            let mut other = TestNode::named("asker");
            other.hello.protocol.features &= features;
            let mut asker = Asker::new(other.environment(50_000));
            asker.start();
            let (replica, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
            let _serving = asker.accept(&replica, &freeze).await;
            asker.until(LinkState::Up).await;
            for ticket in 0..300 {
                let write = PeerRequest::Write(entry(&format!("key{ticket}"), b"value"));
                asker.call(write, ticket).unwrap();
            }
            let mut asked = Vec::new();
            for ticket in 0..300 {
                let (request, reply) = replica.next().await;
                let expected = PeerRequest::Write(entry(&format!("key{ticket}"), b"value"));
                assert_eq!(request, expected);
                asked.push(reply);
            }
            let answer = |ticket: u64| match ticket % 3 {
                0 => PeerAnswer::Missed(Miss::Full),
                1 => PeerAnswer::Stored {
                    newer_version: NewerVersion::None,
                },
                _ => PeerAnswer::Stored {
                    newer_version: NewerVersion::At(Timestamp::from_u64(ticket)),
                },
            };
            for (ticket, reply) in asked.into_iter().enumerate().rev() {
                reply.send(answer(ticket as u64));
            }
            for ticket in (0..300).rev() {
                assert_eq!(asker.answers.next().await, (ticket, answer(ticket)));
            }
        })
        .await;
    }
}
