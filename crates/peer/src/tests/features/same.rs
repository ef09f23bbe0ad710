//! Reads that hold a version already.

use super::*;

/// A link that is up, to a replica of this build or of one without the feature.
async fn connected_with(features: u64) -> (Asker, Rc<TestReplica>, Serving) {
    let mut asker = Asker::new(TestNode::named("asker").environment(50_000));
    asker.start();
    let (replica, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
    let mut node = TestNode::named("replica");
    node.hello.protocol.features = features;
    let serving = asker.accept_as(node, &replica, &freeze).await;
    asker.until(LinkState::Up).await;
    (asker, replica, serving)
}

fn read_unless(held: &Entry) -> PeerRequest {
    PeerRequest::ReadUnlessSame {
        key: Bytes::copy_from_slice(held.key()),
        held: held.clone(),
    }
}

/// Whatever the replica holds: the answer is that of a read, and the value travels only if it
/// is another one.
#[tokio::test(start_paused = true)]
async fn a_value_that_the_asker_holds_does_not_travel() {
    run(async {
        let gc_threshold = Timestamp::from_u64(7);
        let without = Protocol::OWN.features & !SAME;
        for (features, value_bytes, travels) in [
            (Protocol::OWN.features, SAME_BYTES_MIN, false),
            (Protocol::OWN.features, 40 * frame::PIECE_BYTES, false),
            (without, SAME_BYTES_MIN, true),
        ] {
            let (asker, replica, _serving) = connected_with(features).await;
            let value = long_value(value_bytes);
            let held = entry("key", &value);
            let mut other_value = value.clone();
            other_value[value_bytes / 2] ^= 1;
            let other = entry("key", &other_value);
            for (ticket, (found, travels)) in [
                (Some(held.clone()), travels),
                (Some(other), true),
                (Some(Entry::tombstone(b"key", held.timestamp(), 3)), false),
                (None, false),
            ]
            .into_iter()
            .enumerate()
            {
                for is_behind in [false, true] {
                    let before = asker.link.status().counts.received_bytes;
                    asker.call(read_unless(&held), ticket as u64).unwrap();
                    let (request, reply) = replica.next().await;
                    assert_eq!(request, read_of("key"), "a handler gets a read");
                    let entry = found.clone();
                    let answer = if is_behind {
                        PeerAnswer::FoundBehind {
                            entry,
                            gc_threshold,
                        }
                    } else {
                        PeerAnswer::Found(entry)
                    };
                    reply.send(answer.clone());
                    let (answered, arrived) = asker.answers.next().await;
                    assert_eq!(answered, ticket as u64);
                    match (is_behind, arrived) {
                        // What was gc_threshold once holds for later answers.
                        (false, PeerAnswer::FoundBehind { entry, .. }) => {
                            assert_eq!(entry, found);
                        }
                        (_, arrived) => assert_eq!(arrived, answer),
                    }
                    let received = asker.link.status().counts.received_bytes - before;
                    assert_eq!(
                        received as usize >= value_bytes,
                        travels,
                        "{ticket}: {received} bytes"
                    );
                }
            }
        }
    })
    .await;
}
