//! What stores say of forgetting.

use super::*;
use cluster::forgetting::{Answerer, NamedBounds, StoreStart};

const STORE: StoreStart = StoreStart {
    store_id: 11,
    start: 12,
};

fn named(forgotten: u64) -> NamedBounds {
    NamedBounds {
        forgotten: Timestamp::from_u64(forgotten),
        store: STORE,
    }
}

#[tokio::test(start_paused = true)]
async fn answers_name_what_their_store_forgets() {
    run(async {
        let (asker, replica, ..) = connected().await;
        let short = entry("key", b"value");
        let long = entry("key", &long_value(frame::PIECE_BYTES + 1));
        for (ticket, (entry, forgotten)) in [
            (None, 0),
            (Some(short.clone()), 0),
            (Some(long), 7),
            (Some(short), 7),
            (None, 9),
        ]
        .into_iter()
        .enumerate()
        {
            asker.call(read_of("key"), ticket as u64).unwrap();
            let named = named(forgotten);
            let answer = PeerAnswer::FoundBehind { entry, named };
            replica.next().await.1.send(answer.clone());
            assert_eq!(asker.answers.next().await, (ticket as u64, answer));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_forget_bound_that_the_node_does_not_believe_is_left_out() {
    run(async {
        let mut node = TestNode::named("asker");
        node.believed_max = Timestamp::from_u64(7);
        let mut asker = Asker::new(node.environment(50_000));
        asker.start();
        let (replica, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
        let _serving = asker.accept(&replica, &freeze).await;
        asker.until(LinkState::Up).await;
        let found = |forgotten| PeerAnswer::FoundBehind {
            entry: None,
            named: named(forgotten),
        };
        for (ticket, (says, arrives)) in [(7, 7), (8, 0), (7, 7)].into_iter().enumerate() {
            asker.call(read_of("key"), ticket as u64).unwrap();
            let (_, reply) = replica.next().await;
            assert_eq!(reply.peer(), "asker");
            reply.send(found(says));
            let expected = (ticket as u64, found(arrives));
            assert_eq!(asker.answers.next().await, expected);
        }
    })
    .await;
}

/// A repair with a version below the bound that its store names is believed, so the store must
/// have known that bound when it read the version.
#[tokio::test(start_paused = true)]
async fn a_long_answer_names_what_its_store_forgot_when_it_began() {
    run(async {
        let (asker, replica, ..) = connected().await;
        let long = entry("key", &long_value(40 * frame::PIECE_BYTES));
        let answers = [
            (Some(long), named(7)),
            (Some(entry("other", b"value")), named(9)),
        ];
        let answers = answers.map(|(entry, named)| PeerAnswer::FoundBehind { entry, named });
        for ticket in [0, 1] {
            asker.call(read_of("key"), ticket).unwrap();
        }
        for answer in answers.clone() {
            replica.next().await.1.send(answer);
        }
        let arrived = [asker.answers.next().await, asker.answers.next().await];
        // The short one overtakes the pieces of the long one.
        let [long, short] = answers;
        assert_eq!(arrived, [(1, short), (0, long)]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn repairs_name_the_store_that_has_answered() {
    run(async {
        let (asker, replica, ..) = connected().await;
        let by = Answerer {
            node: cluster::NodeId::new(3),
            store: STORE,
            forgotten: Timestamp::from_u64(9),
        };
        for bytes in [1, frame::PIECE_BYTES + 1] {
            let entry = entry("key", &long_value(bytes));
            let repair = PeerRequest::Repair { by, entry };
            asker.call(repair.clone(), 1).unwrap();
            let (request, reply) = replica.next().await;
            assert_eq!(request, repair);
            let obsolete = PeerAnswer::Missed(Miss::Obsolete {
                below: Timestamp::from_u64(5),
            });
            reply.send(obsolete.clone());
            assert_eq!(asker.answers.next().await, (1, obsolete));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_know_forgetting_is_told_nothing_of_it() {
    run(async {
        let mut older = TestNode::named("asker");
        older.hello.protocol.features &= !FORGETTING;
        let mut asker = Asker::new(older.environment(50_000));
        asker.start();
        let (replica, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
        let _serving = asker.accept(&replica, &freeze).await;
        asker.until(LinkState::Up).await;
        let entry = entry("key", b"value");
        let by = Answerer {
            node: cluster::NodeId::new(3),
            store: STORE,
            forgotten: Timestamp::from_u64(9),
        };
        let repair = PeerRequest::Repair {
            by,
            entry: entry.clone(),
        };
        asker.call(repair, 1).unwrap();
        let (request, reply) = replica.next().await;
        assert_eq!(request, PeerRequest::Write(entry.clone()));
        let below = Timestamp::from_u64(5);
        reply.send(PeerAnswer::Missed(Miss::Obsolete { below }));
        let refused = PeerAnswer::Missed(Miss::Refused);
        assert_eq!(asker.answers.next().await, (1, refused));
        asker.call(read_of("key"), 2).unwrap();
        let (entry, named) = (Some(entry), named(7));
        let answer = PeerAnswer::FoundBehind {
            entry: entry.clone(),
            named,
        };
        replica.next().await.1.send(answer);
        assert_eq!(asker.answers.next().await, (2, PeerAnswer::Found(entry)));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_know_peeks_is_sent_a_read() {
    run(async {
        for features in [PEEK, 0] {
            let mut older = TestNode::named("asker");
            older.hello.protocol.features &= !PEEK | features;
            let mut asker = Asker::new(older.environment(50_000));
            asker.start();
            let (replica, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
            let _serving = asker.accept(&replica, &freeze).await;
            asker.until(LinkState::Up).await;
            let peek = PeerRequest::Peek(Bytes::from_static(b"key"));
            asker.call(peek.clone(), 1).unwrap();
            let (request, reply) = replica.next().await;
            let expected = match features {
                0 => read_of("key"),
                _ => peek,
            };
            assert_eq!(request, expected);
            let answer = PeerAnswer::FoundBehind {
                entry: Some(entry("key", b"value")),
                named: named(7),
            };
            reply.send(answer.clone());
            assert_eq!(asker.answers.next().await, (1, answer));
        }
    })
    .await;
}
