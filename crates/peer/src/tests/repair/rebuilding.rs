//! What nodes report of their stores, and what a store is served that has to be rebuilt.

use super::*;
use cluster::Remembered;
use cluster::repair::SessionId;

/// A link that is up, to a replica that is this node.
async fn connected_to(node: TestNode) -> (Asker, Rc<TestReplica>) {
    let mut asker = Asker::new(TestNode::named("asker").environment(50_000));
    asker.start();
    let (replica, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
    let _serving = asker.accept_as(node, &replica, &freeze).await;
    asker.until(LinkState::Up).await;
    (asker, replica)
}

/// A replica that remembers a later start of the asker.
fn remembering() -> TestNode {
    let mut replica = TestNode::named("replica");
    replica.hello.remembered = Some(Remembered {
        store_id: TestNode::named("asker").hello.store_id,
        start: 4,
        acknowledged: 0,
    });
    replica
}

#[tokio::test(start_paused = true)]
async fn what_a_node_reports_is_heard_with_the_next_heartbeat() {
    run(async {
        let replica = TestNode::named("replica");
        let report = Rc::clone(&replica.report);
        let asker = TestNode::named("asker");
        let reports = Rc::clone(&asker.reports);
        let mut asker = Asker::new(asker.environment(50_000));
        asker.start();
        let (requests, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
        let _serving = asker.accept_as(replica, &requests, &freeze).await;
        asker.until(LinkState::Up).await;
        let mut expected = vec![report.get()];
        for acknowledged in [7, 9] {
            tokio::time::sleep(5 * HEARTBEAT).await;
            assert_eq!(*reports.borrow(), expected, "nothing is said twice");
            let gc_threshold = Timestamp::from_u64(acknowledged / 2);
            report.set(StoreReport {
                acknowledged,
                gc_threshold,
                list: ListReport::default(),
            });
            expected.push(report.get());
            tokio::time::sleep(2 * HEARTBEAT).await;
            assert_eq!(*reports.borrow(), expected);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_outdated_store_is_served_what_fills_it_and_nothing_else() {
    run(async {
        let (asker, replica) = connected_to(remembering()).await;
        let session = SessionId::Incremental(1);
        let sync = PeerRequest::Session(RepairRequest::Sync { session });
        let write = PeerRequest::RepairWrite {
            session,
            entry: entry("key", b"value"),
        };
        for request in [sync, write] {
            asker.call(request.clone(), 1).unwrap();
            let (served, reply) = replica.next().await;
            assert_eq!(served, request);
            reply.send(PeerAnswer::Missed(Miss::Full));
            assert_eq!(asker.answers.next().await.0, 1);
        }
        for request in [read_of("key"), PeerRequest::Write(entry("key", b"value"))] {
            asker.call(request, 2).unwrap();
            let answer = asker.answers.next().await;
            assert_eq!(answer, (2, PeerAnswer::Missed(Miss::Refused)));
            assert_eq!(replica.waiting(), 0);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_remembered_by_now_is_served_everything() {
    run(async {
        let replica = remembering();
        let start = Rc::clone(&replica.start);
        let (asker, replica) = connected_to(replica).await;
        start.borrow().remember();
        asker.read(1).unwrap();
        assert_eq!(key_of(&replica.next().await.0), "1");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_whose_store_was_filled_is_dialled_again_at_once() {
    run(async {
        let replica = TestNode::named("replica");
        let replica_state = Rc::clone(&replica.replica_state);
        replica_state.set(ReplicaState::Starting);
        let mut asker = Asker::new(TestNode::named("asker").environment(50_000));
        asker.start();
        let (requests, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
        let _serving = asker.accept_as(replica.clone(), &requests, &freeze).await;
        asker.until(LinkState::Up).await;
        for not_filled in [ReplicaState::Learner, ReplicaState::Starting] {
            replica_state.set(not_filled);
            tokio::time::sleep(3 * HEARTBEAT).await;
            assert_eq!(asker.link.status().counts.connects, 1);
        }
        replica_state.set(ReplicaState::Voter);
        let _again = asker.accept_as(replica, &requests, &freeze).await;
        assert!(
            asker
                .network
                .waits()
                .iter()
                .all(|wait| *wait < 8 * HEARTBEAT)
        );
        asker.until(LinkState::Up).await;
        tokio::time::sleep(9 * HEARTBEAT).await;
        assert_eq!(asker.link.status().counts.connects, 2, "once is enough");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_start_is_live_while_it_is_heard_on_a_connection_that_it_dialled() {
    run(async {
        let replica = TestNode::named("replica");
        let start = Rc::clone(&replica.start);
        let mut asker = Asker::new(TestNode::named("asker").environment(50_000));
        asker.start();
        let (requests, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
        let _serving = asker.accept_as(replica.clone(), &requests, &freeze).await;
        asker.until(LinkState::Up).await;
        tokio::time::sleep(ms(5_000)).await;
        let start = Arc::clone(&start.borrow());
        assert!(start.is_live() && !start.has_live_link());
        // The asker's host is cut off: the connection stays, and nothing comes any more.
        freeze.set(true);
        tokio::time::sleep(ms(4_000)).await;
        assert!(!start.is_live());
        freeze.set(false);
        // It was cut off, is there still, and dials again; what it dialled meanwhile is lost.
        let mut serving = loop {
            let serving = asker.accept_as(replica.clone(), &requests, &freeze).await;
            tokio::time::sleep(2 * HEARTBEAT).await;
            if start.is_live() {
                break serving;
            }
        };
        assert_eq!(asker.link.status().state, LinkState::Up);
        serving.abort();
        let _ended = (&mut serving).await;
        assert!(!start.is_live());
    })
    .await;
}
