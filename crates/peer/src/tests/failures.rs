//! Silent peers, lost connections and malformed bytes.

use super::*;
use crate::wire::frame::{Decoder, PAYLOAD_BYTES_MAX, put_frame};
use crate::wire::message::{put_absent, put_ping, put_stored};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SUSPECTED: PeerAnswer = PeerAnswer::Missed(Miss::Suspected);
const REFUSED: PeerAnswer = PeerAnswer::Missed(Miss::Refused);

/// A connection to a replica after the handshake, to which a test can write anything.
async fn after_handshake() -> (DuplexStream, Serving) {
    let (mut ours, theirs) = tokio::io::duplex(1 << 20);
    let replica = Rc::<TestReplica>::default();
    replica.is_prompt.set(true);
    let environment = TestNode::named("replica").environment(90_000);
    let serving = serve(Box::new(theirs), Bytes::new(), environment, replica, || {});
    let serving = tokio::task::spawn_local(serving);
    let asker = TestNode::named("asker").environment(50_000);
    let mut decoder = Decoder::new(&[], handshake::HANDSHAKE_BYTES_MAX);
    handshake::dial(&mut ours, &mut decoder, asker.handshake(), Some("replica"))
        .await
        .unwrap();
    (ours, serving)
}

/// Sends bytes for which a replica must close the connection at once.
pub(crate) async fn expect_closed(case: &str, bytes: &[u8]) {
    let (mut stream, serving) = after_handshake().await;
    stream.write_all(bytes).await.unwrap();
    let before = Instant::now();
    serving.await.unwrap();
    assert!(before.elapsed() < ms(1), "{case}");
}

/// Sends bytes that a replica must answer.
pub(crate) async fn expect_open(bytes: &[u8]) {
    let (mut stream, _serving) = after_handshake().await;
    stream.write_all(bytes).await.unwrap();
    assert_ne!(stream.read(&mut [0; 8]).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn malformed_bytes_close_the_connection() {
    run(async {
        let frame = |kind, payload: &[u8]| {
            let mut bytes = Vec::new();
            put_frame(&mut bytes, kind, 1, |out| out.extend_from_slice(payload));
            bytes
        };
        let mut flipped = frame(7, b"");
        flipped[9] ^= 1;
        let mut long = frame(2, &[b'k'; 8]);
        long[4..8].copy_from_slice(&(PAYLOAD_BYTES_MAX as u32 + 1).to_le_bytes());
        let mut answer = Vec::new();
        put_stored(&mut answer, 1, NewerVersion::None);
        let tombstone_with_value = [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'k', b'v'];
        let entry_write = |entry: &[u8]| frame(1, &[&[0; 4], entry].concat());
        for (case, bytes) in [
            ("a flipped bit", flipped),
            ("a length past the bound", long),
            ("an unknown kind", frame(200, b"")),
            ("a hello", frame(32, &[0; 80])),
            ("an answer", answer),
            ("no key", frame(2, &[0; 4])),
            (
                "too long a key",
                frame(2, &[7; 4 + base::KEY_BYTES_MAX + 1]),
            ),
            ("a ping with a payload", frame(7, b"x")),
            ("an entry that ends early", entry_write(&[0, 1, 1, 0, 0])),
            (
                "a tombstone with a value",
                entry_write(&tombstone_with_value),
            ),
            ("unknown flags", entry_write(&[4; 40])),
        ] {
            expect_closed(case, &bytes).await;
        }
        let mut ping = Vec::new();
        put_ping(&mut ping, 5);
        expect_open(&ping).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn malformed_bytes_on_one_connection_leave_others_open() {
    run(async {
        let (asker, replica, ..) = connected().await;
        expect_closed("garbage", &[0xff; 100]).await;
        asker.read(1).unwrap();
        replica.next().await.1.send(PeerAnswer::Found(None));
        assert_eq!(asker.answers.next().await, (1, PeerAnswer::Found(None)));
        assert_eq!(asker.link.status().counts.connects, 1);
    })
    .await;
}

/// A link that is up, to a peer whose bytes the test writes.
async fn connected_to_bytes() -> (Asker, DuplexStream) {
    let mut asker = Asker::new(TestNode::named("asker").environment(50_000));
    asker.start();
    let mut theirs = asker.arrivals.recv().await.unwrap();
    let replica = TestNode::named("replica").environment(90_000);
    let mut decoder = Decoder::new(&[], handshake::HANDSHAKE_BYTES_MAX);
    handshake::accept(&mut theirs, &mut decoder, replica.handshake())
        .await
        .unwrap();
    asker.until(LinkState::Up).await;
    (asker, theirs)
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_another_kind_than_its_call_closes_the_connection() {
    // Neither is an answer to a read that holds nothing.
    let wrong: [fn(&mut Vec<u8>, u64); 2] = [
        |out, call| put_stored(out, call, NewerVersion::None),
        message::put_same,
    ];
    for put_wrong in wrong {
        run(async {
            let (mut asker, mut theirs) = connected_to_bytes().await;
            asker.read(1).unwrap();
            let mut decoder = Decoder::new(&[], PAYLOAD_BYTES_MAX);
            let call = loop {
                match decoder.next().unwrap() {
                    Some(frame) if frame.kind == 2 => break frame.call,
                    Some(_) => {}
                    None => drop(decoder.fill(&mut theirs).await.unwrap()),
                }
            };
            let mut bytes = Vec::new();
            // Answers to unknown calls are ignored.
            put_absent(&mut bytes, call ^ (1 << 40));
            put_stored(&mut bytes, call ^ (1 << 41), NewerVersion::None);
            message::put_same(&mut bytes, call ^ (1 << 42));
            put_wrong(&mut bytes, call);
            theirs.write_all(&bytes).await.unwrap();
            assert_eq!(asker.answers.next().await, (1, REFUSED));
            asker.arrivals.recv().await.unwrap();
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_ends_its_calls_at_once_and_is_replaced() {
    run(async {
        let (mut asker, replica, freeze, serving) = connected().await;
        tokio::time::sleep(ms(2_000)).await;
        asker.read(1).unwrap();
        let (_, reply) = replica.next().await;
        let before = Instant::now();
        serving.abort();
        assert_eq!(asker.answers.next().await, (1, REFUSED));
        assert_eq!(before.elapsed(), Duration::ZERO);
        // Calls do not wait for the next connection.
        assert_eq!(asker.read(2), Err(Miss::Refused));
        asker.accept(&replica, &freeze).await;
        asker.until(LinkState::Up).await;
        asker.read(2).unwrap();
        let (request, second) = replica.next().await;
        assert_eq!(key_of(&request), "2");
        reply.send(PeerAnswer::Found(None));
        second.send(PeerAnswer::Found(None));
        assert_eq!(asker.answers.next().await, (2, PeerAnswer::Found(None)));
        assert!(
            asker.answers.drain().is_empty(),
            "the late reply is not delivered"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_peer_is_suspected_until_it_answers_again() {
    run(async {
        let (asker, replica, freeze, _serving) = connected().await;
        tokio::time::sleep(ms(1_000)).await;
        freeze.set(true);
        asker.read(1).unwrap();
        let before = Instant::now();
        assert_eq!(asker.answers.next().await, (1, SUSPECTED));
        let took = before.elapsed();
        assert!((ms(300)..=ms(500)).contains(&took), "{took:?}");
        assert!(asker.link.is_down());
        assert_eq!(asker.read(2), Err(Miss::Suspected));
        tokio::time::sleep(ms(300)).await;
        freeze.set(false);
        asker.until(LinkState::Up).await;
        assert!(!asker.link.is_down());
        asker.read(3).unwrap();
        // The first request was sent before, and its answer is not delivered.
        for key in ["1", "3"] {
            let (request, reply) = replica.next().await;
            assert_eq!(key_of(&request), key);
            reply.send(PeerAnswer::Found(None));
        }
        assert_eq!(asker.answers.next().await, (3, PeerAnswer::Found(None)));
        let counts = asker.link.status().counts;
        assert_eq!(
            (counts.connects, counts.suspicions, counts.timeouts),
            (1, 1, 1)
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_stays_silent_is_dialled_again() {
    run(async {
        let (mut asker, replica, freeze, _serving) = connected().await;
        freeze.set(true);
        let before = Instant::now();
        let _hanging = asker.arrivals.recv().await.unwrap();
        let took = before.elapsed();
        assert!((ms(900)..=ms(1_200)).contains(&took), "{took:?}");
        assert!(asker.link.is_down(), "until the next handshake");
        // The next attempt hangs and is given up; the one after it succeeds.
        asker.accept(&replica, &FreezeSwitch::default()).await;
        asker.until(LinkState::Up).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_paused_does_not_suspect_its_peers() {
    run(async {
        let (asker, ..) = connected().await;
        tokio::time::sleep(ms(1_000)).await;
        // No task runs in the meantime, as when a machine is paused.
        tokio::time::advance(ms(60_000)).await;
        tokio::time::sleep(ms(1_000)).await;
        assert_eq!(asker.link.status().state, LinkState::Up);
        assert_eq!(asker.link.status().counts.suspicions, 0);
        assert_eq!(asker.link.status().counts.connects, 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_connection_of_a_dialler_that_stays_silent_is_closed() {
    run(async {
        let (stream, serving) = after_handshake().await;
        let before = Instant::now();
        serving.await.unwrap();
        let took = before.elapsed();
        assert!((ms(9_900)..=ms(20_100)).contains(&took), "{took:?}");
        drop(stream);
    })
    .await;
}
