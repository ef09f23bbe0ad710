//! What stores say of tombstone GC.

use super::*;

fn found(entry: Option<Entry>, gc_threshold: u64) -> PeerAnswer {
    PeerAnswer::FoundBehind {
        entry,
        gc_threshold: Timestamp::from_u64(gc_threshold),
    }
}

#[tokio::test(start_paused = true)]
async fn answers_name_the_gc_threshold_of_their_store() {
    run(async {
        let (asker, replica, ..) = connected().await;
        let short = entry("key", b"value");
        let long = entry("key", &long_value(frame::PIECE_BYTES + 1));
        for (ticket, (entry, gc_threshold)) in [
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
            let answer = found(entry, gc_threshold);
            replica.next().await.1.send(answer.clone());
            assert_eq!(asker.answers.next().await, (ticket as u64, answer));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_gc_threshold_that_the_node_does_not_believe_is_left_out() {
    run(async {
        let mut node = TestNode::named("asker");
        node.believed_max = Timestamp::from_u64(7);
        let mut asker = Asker::new(node.environment(50_000));
        asker.start();
        let (replica, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
        let _serving = asker.accept(&replica, &freeze).await;
        asker.until(LinkState::Up).await;
        for (ticket, (says, arrives)) in [(7, 7), (8, 0), (7, 7)].into_iter().enumerate() {
            asker.call(read_of("key"), ticket as u64).unwrap();
            let (_, reply) = replica.next().await;
            assert_eq!(reply.peer(), "asker");
            reply.send(found(None, says));
            let expected = (ticket as u64, found(None, arrives));
            assert_eq!(asker.answers.next().await, expected);
        }
    })
    .await;
}

/// A repair with a version below the threshold that its store names is believed, so the store must
/// have known that threshold when it read the version.
#[tokio::test(start_paused = true)]
async fn a_long_answer_names_the_gc_threshold_that_held_when_it_began() {
    run(async {
        let (asker, replica, ..) = connected().await;
        let long = entry("key", &long_value(40 * frame::PIECE_BYTES));
        let answers = [
            found(Some(long), 7),
            found(Some(entry("other", b"value")), 9),
        ];
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
async fn repairs_name_the_gc_threshold_of_the_store_that_has_answered() {
    run(async {
        let (asker, replica, ..) = connected().await;
        let gc_threshold = Timestamp::from_u64(9);
        for bytes in [1, frame::PIECE_BYTES + 1] {
            let entry = entry("key", &long_value(bytes));
            let repair = PeerRequest::Repair {
                gc_threshold,
                entry,
            };
            let below = Timestamp::from_u64(5);
            for miss in [Miss::Obsolete { below }, Miss::Undecided] {
                asker.call(repair.clone(), 1).unwrap();
                let (request, reply) = replica.next().await;
                assert_eq!(request, repair);
                let missed = PeerAnswer::Missed(miss);
                reply.send(missed.clone());
                assert_eq!(asker.answers.next().await, (1, missed));
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_know_gc_thresholds_is_told_nothing_of_them() {
    run(async {
        let mut older = TestNode::named("asker");
        older.hello.protocol.features &= !GC_THRESHOLD;
        let mut asker = Asker::new(older.environment(50_000));
        asker.start();
        let (replica, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
        let _serving = asker.accept(&replica, &freeze).await;
        asker.until(LinkState::Up).await;
        let entry = entry("key", b"value");
        let gc_threshold = Timestamp::from_u64(9);
        let repair = PeerRequest::Repair {
            gc_threshold,
            entry: entry.clone(),
        };
        let below = Timestamp::from_u64(5);
        for miss in [Miss::Obsolete { below }, Miss::Undecided] {
            asker.call(repair.clone(), 1).unwrap();
            let (request, reply) = replica.next().await;
            assert_eq!(request, PeerRequest::Write(entry.clone()));
            reply.send(PeerAnswer::Missed(miss));
            let refused = PeerAnswer::Missed(Miss::Refused);
            assert_eq!(asker.answers.next().await, (1, refused));
        }
        asker.call(read_of("key"), 2).unwrap();
        let entry = Some(entry);
        replica.next().await.1.send(found(entry.clone(), 7));
        assert_eq!(asker.answers.next().await, (2, PeerAnswer::Found(entry)));
    })
    .await;
}
