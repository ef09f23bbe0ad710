//! What a coordinator of conditional writes asks.

use super::*;

/// A link that is up, to a replica of an older release.
async fn connected_to_older() -> (Asker, Rc<TestReplica>, Serving) {
    let mut node = TestNode::named("replica");
    node.hello.protocol.features &= !PROMISES;
    let mut asker = Asker::new(TestNode::named("asker").environment(50_000));
    asker.start();
    let replica = Rc::<TestReplica>::default();
    let serving = asker
        .accept_as(node, &replica, &FreezeSwitch::default())
        .await;
    asker.until(LinkState::Up).await;
    (asker, replica, serving)
}

fn release() -> PeerRequest {
    PeerRequest::Promise(PromiseRequest::Release {
        key: Bytes::from_static(b"k"),
        ballot: Timestamp::from_u64(7),
    })
}

fn accept(value: &[u8]) -> PeerRequest {
    PeerRequest::Accept {
        ballot: Timestamp::from_u64(7),
        entry: entry("k", value),
    }
}

#[tokio::test(start_paused = true)]
async fn requests_and_answers_of_conditional_writes_arrive() {
    run(async {
        let (asker, replica, _freeze, _serving) = connected().await;
        let stored = PeerAnswer::Stored {
            newer_version: NewerVersion::None,
        };
        let overtaken = PeerAnswer::Stored {
            newer_version: NewerVersion::Overtaken(Timestamp::from_u64(100)),
        };
        let answer = PeerAnswer::Promise;
        let long = long_value(200_000);
        for (request, told) in [
            (release(), answer(PromiseAnswer::Released)),
            (accept(b"short"), stored.clone()),
            (accept(b"short"), answer(PromiseAnswer::NotKept)),
            (accept(&long), stored),
            (accept(&long), PeerAnswer::Missed(Miss::Full)),
            (PeerRequest::Write(entry("k", b"v")), overtaken),
        ] {
            asker.call(request.clone(), 5).unwrap();
            let (asked, reply) = replica.next().await;
            assert_eq!(asked, request);
            reply.send(told.clone());
            assert_eq!(asker.answers.next().await, (5, told));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_of_an_older_release_is_not_asked_and_takes_no_overtaken_write_for_stored() {
    run(async {
        let (asker, replica, _serving) = connected_to_older().await;
        assert!(asker.link.lacks(PROMISES));
        for request in [release(), accept(b"v")] {
            assert_eq!(asker.call(request, 5), Err(Miss::Unsupported));
        }
        asker.call(PeerRequest::Write(entry("k", b"v")), 6).unwrap();
        let (_, reply) = replica.next().await;
        reply.send(PeerAnswer::Stored {
            newer_version: NewerVersion::Overtaken(Timestamp::from_u64(100)),
        });
        let refused = PeerAnswer::Missed(Miss::Refused);
        assert_eq!(asker.answers.next().await, (6, refused));
    })
    .await;
}
