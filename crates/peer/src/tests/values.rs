//! Long values, which travel in pieces between other frames.

use super::*;
use crate::wire::frame::{HEADER_BYTES, PIECE_BYTES, put_frame};
use tokio::io::AsyncWriteExt;

const LONG_BYTES: usize = 16 << 20;

/// Where the kind of a frame stands in its header.
const KIND_AT: usize = 8;

#[tokio::test(start_paused = true)]
async fn short_requests_and_heartbeats_overtake_a_long_value() {
    run(async {
        let (asker, replica, ..) = connected().await;
        let long = entry("long", &long_value(LONG_BYTES));
        asker.call(PeerRequest::Write(long.clone()), 1).unwrap();
        tokio::task::yield_now().await;
        asker.read(2).unwrap();
        let (request, reply) = replica.next().await;
        assert_eq!(key_of(&request), "2", "the read has overtaken the write");
        reply.send(PeerAnswer::Found(Some(long.clone())));
        asker.read(3).unwrap();
        let (request, reply) = replica.next().await;
        assert_eq!(key_of(&request), "3");
        reply.send(PeerAnswer::Found(None));
        assert_eq!(asker.answers.next().await, (3, PeerAnswer::Found(None)));
        let (request, reply) = replica.next().await;
        assert_eq!(request, PeerRequest::Write(long.clone()));
        reply.send(PeerAnswer::Stored {
            newer_version: NewerVersion::None,
        });
        let mut answers = [asker.answers.next().await, asker.answers.next().await];
        answers.sort_by_key(|(ticket, _)| *ticket);
        let stored = PeerAnswer::Stored {
            newer_version: NewerVersion::None,
        };
        assert_eq!(answers, [(1, stored), (2, PeerAnswer::Found(Some(long)))]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_of_a_long_value_is_still_pinged() {
    run(async {
        let (asker, replica, freeze, _) = connected().await;
        let long = entry("long", &long_value(LONG_BYTES));
        asker.call(PeerRequest::Write(long), 1).unwrap();
        // The replica reads only every 300 ms, which is too short to be suspected.
        for _ in 0..20 {
            freeze.set(true);
            tokio::time::sleep(ms(300)).await;
            freeze.set(false);
            tokio::time::sleep(ms(1)).await;
        }
        assert_eq!(asker.link.status().counts.suspicions, 0);
        replica.next().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn more_long_values_than_are_sent_at_a_time_all_arrive() {
    run(async {
        let (asker, replica, ..) = connected().await;
        let count = 3 * assembly::LONG_VALUES_MAX;
        for at in 0..count {
            // Later ones are shorter, and each last piece has another size.
            let value = long_value(PIECE_BYTES * (count - at) + at + 1);
            let write = PeerRequest::Write(entry(&at.to_string(), &value));
            asker.call(write, at as u64).unwrap();
        }
        for _ in 0..count {
            let (request, reply) = replica.next().await;
            let at: usize = key_of(&request).parse().unwrap();
            let value = long_value(PIECE_BYTES * (count - at) + at + 1);
            assert_eq!(request, PeerRequest::Write(entry(&at.to_string(), &value)));
            reply.send(PeerAnswer::Missed(Miss::Full));
        }
        let mut tickets = Vec::new();
        for _ in 0..count {
            tickets.push(asker.answers.next().await.0);
        }
        tickets.sort_unstable();
        assert_eq!(tickets, (0..count as u64).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_long_value_without_room_in_the_budget_is_answered_as_overloaded() {
    run(async {
        let mut asker = Asker::new(TestNode::named("asker").environment(50_000));
        asker.start();
        let replica = Rc::<TestReplica>::default();
        let mut environment = TestNode::named("replica").environment(90_000);
        let quota = Quota::new(3 * PIECE_BYTES);
        environment.incoming = quota.clone();
        let stream = Box::new(asker.arrivals.recv().await.unwrap());
        tokio::task::spawn_local(serve(
            stream,
            Bytes::new(),
            environment,
            replica.clone(),
            || {},
        ));
        for (ticket, bytes) in [(1, 2 * PIECE_BYTES), (2, 3 * PIECE_BYTES)] {
            let write = PeerRequest::Write(entry("long", &long_value(bytes)));
            asker.call(write, ticket).unwrap();
        }
        let overloaded = PeerAnswer::Missed(Miss::Overloaded);
        assert_eq!(asker.answers.next().await, (2, overloaded));
        let (_, reply) = replica.next().await;
        assert!(
            quota.try_reserve(2 * PIECE_BYTES).is_err(),
            "the value takes its reservation until the request is answered"
        );
        reply.send(PeerAnswer::Stored {
            newer_version: NewerVersion::None,
        });
        assert!(quota.try_reserve(2 * PIECE_BYTES).is_ok());
        asker.answers.next().await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn bytes_to_be_sent_are_bounded() {
    run(async {
        let (asker, _, freeze, _) = connected().await;
        freeze.set(true);
        let value = long_value(PIECE_BYTES);
        let mut accepted = 0;
        while asker
            .call(PeerRequest::Write(entry("key", &value)), accepted)
            .is_ok()
        {
            accepted += 1;
        }
        assert_eq!(accepted, 127, "8 MiB, with what frames add");
        let long = PeerRequest::Write(entry("key", &long_value(LONG_BYTES)));
        let mut accepted = 0;
        while asker.call(long.clone(), accepted).is_ok() {
            accepted += 1;
        }
        assert_eq!(accepted, 4, "64 MiB");
        assert_eq!(asker.link.status().counts.overloaded, 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_answers_is_not_read_from() {
    run(async {
        let asker = TestNode::named("asker").environment(50_000);
        let (mut ours, theirs) = tokio::io::duplex(64 << 10);
        let replica = Rc::<TestReplica>::default();
        let environment = TestNode::named("replica").environment(90_000);
        tokio::task::spawn_local(serve(
            Box::new(theirs),
            Bytes::new(),
            environment,
            Rc::clone(&replica),
            || {},
        ));
        let mut decoder = frame::Decoder::new(&[], handshake::HANDSHAKE_BYTES_MAX);
        handshake::dial(&mut ours, &mut decoder, asker.handshake(), Some("replica"))
            .await
            .unwrap();
        // Each request is answered at once, and no answer is read.
        let asked = Rc::clone(&replica);
        tokio::task::spawn_local(async move {
            let value = long_value(PIECE_BYTES / 2);
            loop {
                let (_, reply) = asked.next().await;
                reply.send(PeerAnswer::Found(Some(entry("key", &value))));
            }
        });
        let mut written = 0;
        loop {
            let mut bytes = Vec::new();
            for call in 0..100 {
                message::put_read(&mut bytes, written + call, ms(1_000), b"key");
            }
            let write = tokio::time::timeout(ms(100), ours.write_all(&bytes));
            if write.await.is_err() {
                break;
            }
            written += 100;
            assert!(written < 10_000, "the replica still reads");
        }
        // Once the peer reads again, it gets an answer to each request: first the
        // values that had room, then refusals, and values again once there is room.
        decoder.allow(frame::PAYLOAD_BYTES_MAX);
        let mut found = Vec::new();
        while found.len() < written as usize {
            match decoder.next().unwrap() {
                Some(frame) => found.push(!frame.payload.starts_with(&[3])),
                None => drop(decoder.fill(&mut ours).await.unwrap()),
            }
        }
        let first_refusal = found.iter().position(|found| !found).unwrap();
        let bytes_waited = first_refusal * PIECE_BYTES / 2;
        assert!(
            ((7 << 20)..=(9 << 20)).contains(&bytes_waited),
            "{bytes_waited}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn malformed_pieces_close_the_connection() {
    run(async {
        let begin = |out: &mut Vec<u8>, call, bytes| {
            message::put_write(out, call, ms(1_000), &entry("key", &long_value(bytes)));
        };
        type Malformed<'a> = (&'a str, Box<dyn Fn(&mut Vec<u8>) + 'a>);
        let cases: [Malformed<'_>; 6] = [
            (
                "of no value",
                Box::new(|out| message::put_piece(out, 1, b"piece")),
            ),
            (
                "too short",
                Box::new(|out| {
                    begin(out, 1, PIECE_BYTES * 2);
                    message::put_piece(out, 1, &[0; PIECE_BYTES - 1]);
                }),
            ),
            (
                "one too many",
                Box::new(|out| {
                    begin(out, 1, PIECE_BYTES + 1);
                    message::put_piece(out, 1, &[0; PIECE_BYTES]);
                    message::put_piece(out, 1, &[0; 1]);
                    message::put_piece(out, 1, &[0; 1]);
                }),
            ),
            (
                "two values for a call",
                Box::new(|out| {
                    begin(out, 1, PIECE_BYTES * 2);
                    begin(out, 1, PIECE_BYTES * 2);
                }),
            ),
            (
                "too many values",
                Box::new(|out| {
                    for call in 0..=assembly::LONG_VALUES_MAX as u64 {
                        begin(out, call, PIECE_BYTES * 2);
                    }
                }),
            ),
            (
                "too long a value",
                Box::new(|out| {
                    let mut valid = Vec::new();
                    begin(&mut valid, 1, LONG_BYTES);
                    let (head, payload) = valid.split_at_mut(HEADER_BYTES);
                    let length = (LONG_BYTES as u32).to_le_bytes();
                    let at = payload.windows(4).position(|bytes| bytes == length);
                    let at = at.expect("the length of the value");
                    // No store takes such a value.
                    let length = base::VALUE_BYTES_MAX as u32 + 1;
                    payload[at..at + 4].copy_from_slice(&length.to_le_bytes());
                    put_frame(out, head[KIND_AT], 1, |out| out.extend_from_slice(payload));
                }),
            ),
        ];
        for (case, write) in cases {
            let mut bytes = Vec::new();
            write(&mut bytes);
            failures::expect_closed(case, &bytes).await;
        }
        let mut valid = Vec::new();
        begin(&mut valid, 1, PIECE_BYTES + 1);
        message::put_piece(&mut valid, 1, &[0; PIECE_BYTES]);
        message::put_piece(&mut valid, 1, &[0; 1]);
        put_frame(&mut valid, 7, 0, |_| {});
        failures::expect_open(&valid).await;
    })
    .await;
}

/// On a slow network its pings wait behind the value, which would have to be sent again, and
/// again, if the connection was closed.
#[tokio::test(start_paused = true)]
async fn a_link_is_kept_for_a_while_whose_peer_takes_a_long_value_slowly() {
    run(async {
        let (asker, replica, freeze, _) = connected().await;
        let long = entry("long", &long_value(LONG_BYTES));
        asker.call(PeerRequest::Write(long.clone()), 1).unwrap();
        tokio::task::yield_now().await;
        freeze.set(true);
        tokio::time::sleep(ms(3_000)).await;
        assert_eq!(asker.network.dialled.load(Ordering::Relaxed), 1);
        freeze.set(false);
        let (request, _) = replica.next().await;
        assert_eq!(request, PeerRequest::Write(long));
    })
    .await;
}
