//! What the two sides of a connection know of each other while it lasts.

use super::*;

/// A link of `asker` that `replica` serves; the test defines both nodes.
struct Pair {
    asker: Asker,
    replica: Rc<TestReplica>,
    serving: PeerEnvironment,
}

impl Pair {
    fn new(asker: TestNode, replica: TestNode) -> Self {
        Self {
            asker: Asker::new(asker.environment(50_000)),
            replica: Rc::default(),
            serving: replica.environment(90_000),
        }
    }

    /// Serves the next connection.
    async fn accept(&mut self) -> Serving {
        let stream = self.asker.arrivals.recv().await.unwrap();
        let (environment, replica) = (self.serving.clone(), Rc::clone(&self.replica));
        let serving = serve(Box::new(stream), Bytes::new(), environment, replica, || {});
        tokio::task::spawn_local(serving)
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_serves_a_call_counts_as_remembering_this_node() {
    run(async {
        let asker = TestNode::named("asker");
        let (remembered_by, unreachable) = (
            Rc::clone(&asker.remembered_by),
            Rc::clone(&asker.unreachable),
        );
        let mut pair = Pair::new(asker, TestNode::named("replica"));
        pair.asker.network.refuse(true);
        pair.asker.start();
        pair.asker.until(LinkState::Down).await;
        assert_eq!(*unreachable.borrow(), ["replica"]);
        pair.asker.network.refuse(false);
        let _serving = pair.accept().await;
        pair.asker.until(LinkState::Up).await;
        tokio::time::sleep(2 * HEARTBEAT).await;
        assert_eq!(*remembered_by.borrow(), ["replica"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_link_says_that_the_two_nodes_have_different_lists_until_they_have_not() {
    run(async {
        let (asker, mut replica) = (TestNode::named("asker"), TestNode::named("replica"));
        let members_hash = replica.hello.members_hash;
        replica.hello.members_hash = members_hash ^ 1;
        let mut pair = Pair::new(asker, replica);
        pair.asker.start();
        let _refused = pair.accept().await;
        pair.asker.until(LinkState::Down).await;
        let problem = pair.asker.link.status().problem;
        assert_eq!(problem, Some(LinkProblem::OtherMembers));
        pair.serving = TestNode::named("replica").environment(90_000);
        let _serving = pair.accept().await;
        pair.asker.until(LinkState::Up).await;
        assert_eq!(pair.asker.link.status().problem, None);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn only_the_acceptor_learns_that_the_other_has_dialled() {
    run(async {
        let (asker, replica) = (TestNode::named("asker"), TestNode::named("replica"));
        let at_asker = Rc::clone(&asker.dialled_by);
        let at_replica = Rc::clone(&replica.dialled_by);
        let mut pair = Pair::new(asker, replica);
        pair.asker.start();
        let _serving = pair.accept().await;
        pair.asker.until(LinkState::Up).await;
        assert_eq!(*at_replica.borrow(), ["asker"]);
        // If the dialler took its own dial for one of the peer, a peer that does not
        // serve it would be dialled again at once, without a backoff.
        assert!(at_asker.borrow().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_serves_nothing_before_it_has_recorded_this_node() {
    run(async {
        let asker = TestNode::named("asker");
        let remembered_by = Rc::clone(&asker.remembered_by);
        let mut replica = TestNode::named("replica");
        let dialled_by = Rc::clone(&replica.dialled_by);
        replica.records_nothing = true;
        let mut pair = Pair::new(asker, replica);
        pair.asker.start();
        let _serving = pair.accept().await;
        pair.asker.until(LinkState::Up).await;
        pair.asker.read(1).unwrap();
        pair.asker.until(LinkState::Suspected).await;
        assert_eq!(pair.replica.waiting(), 0);
        assert!(remembered_by.borrow().is_empty());
        assert!(
            dialled_by.borrow().is_empty(),
            "or they would dial each other without a pause"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_when_its_peer_connects_with_a_later_start() {
    run(async {
        for at_the_dialler in [true, false] {
            let (asker, replica) = (TestNode::named("asker"), TestNode::named("replica"));
            let latest = if at_the_dialler {
                Rc::clone(&asker.start)
            } else {
                Rc::clone(&replica.start)
            };
            let mut pair = Pair::new(asker, replica);
            pair.asker.start();
            let serving = pair.accept().await;
            pair.asker.until(LinkState::Up).await;
            pair.asker.read(1).unwrap();
            let (_, reply) = pair.replica.next().await;
            // The other side connects with a later start, on another connection.
            latest.take().supersede();
            reply.send(PeerAnswer::Found(None));
            pair.asker.read(2).unwrap();
            let ended = (
                pair.asker.answers.next().await,
                pair.asker.answers.next().await,
            );
            let lost = PeerAnswer::Missed(Miss::Refused);
            if at_the_dialler {
                assert_eq!(
                    ended.0,
                    (1, lost.clone()),
                    "an answer of a superseded start"
                );
            }
            assert_eq!(ended.1, (2, lost));
            serving.await.unwrap();
            assert_eq!(pair.replica.waiting(), 0, "a request of a superseded start");
            // The next connection is with the later start.
            let _serving = pair.accept().await;
            pair.asker.until(LinkState::Up).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_with_an_earlier_list_is_not_even_answered_what_it_has_asked_before() {
    run(async {
        let (asker, replica) = (TestNode::named("asker"), TestNode::named("replica"));
        let start = Rc::clone(&replica.start);
        let mut pair = Pair::new(asker, replica);
        pair.asker.start();
        let _serving = pair.accept().await;
        pair.asker.until(LinkState::Up).await;
        let other_epoch = PeerAnswer::Missed(Miss::OtherEpoch);
        pair.asker.read(1).unwrap();
        let (_, reply) = pair.replica.next().await;
        start.borrow().bar(true);
        reply.send(PeerAnswer::Found(None));
        assert_eq!(pair.asker.answers.next().await, (1, other_epoch.clone()));
        pair.asker.read(2).unwrap();
        assert_eq!(pair.asker.answers.next().await, (2, other_epoch));
        assert_eq!(pair.replica.waiting(), 0);
        start.borrow().bar(false);
        pair.asker.read(3).unwrap();
        let (_, reply) = pair.replica.next().await;
        reply.send(PeerAnswer::Found(None));
        assert_eq!(
            pair.asker.answers.next().await,
            (3, PeerAnswer::Found(None))
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_start_is_live_while_a_link_to_it_is_up() {
    run(async {
        let asker = TestNode::named("asker");
        let start = Arc::clone(&asker.start.borrow());
        let mut asker = Asker::new(asker.environment(50_000));
        asker.start();
        assert!(!start.has_live_link());
        let (replica, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
        let serving = asker.accept(&replica, &freeze).await;
        asker.until(LinkState::Up).await;
        assert!(start.has_live_link());
        freeze.set(true);
        asker.until(LinkState::Suspected).await;
        assert!(!start.has_live_link(), "the peer is silent");
        freeze.set(false);
        asker.until(LinkState::Up).await;
        assert!(start.has_live_link());
        serving.abort();
        asker.until(LinkState::Down).await;
        assert!(!start.has_live_link(), "the connection is closed");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_refused_for_now_dials_again_soon_and_reports_no_peer_unreachable() {
    run(async {
        let (asker, replica) = (TestNode::named("asker"), TestNode::named("replica"));
        let (unreachable, is_previous_start_live) = (
            Rc::clone(&asker.unreachable),
            Rc::clone(&replica.is_previous_start_live),
        );
        is_previous_start_live.set(true);
        let mut pair = Pair::new(asker, replica);
        pair.asker.start();
        for _ in 0..10 {
            pair.accept().await.await.unwrap();
        }
        assert!(unreachable.borrow().is_empty());
        pair.asker.read(1).expect("the call waits for the link");
        assert!(
            pair.asker
                .network
                .waits()
                .into_iter()
                .all(|wait| wait <= 2 * HEARTBEAT)
        );
        is_previous_start_live.set(false);
        let _serving = pair.accept().await;
        let (request, _reply) = pair.replica.next().await;
        assert_eq!(key_of(&request), "1");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_acceptor_reports_how_its_store_stands() {
    run(async {
        let replica = TestNode::named("replica");
        let replica_state = Rc::clone(&replica.replica_state);
        let mut pair = Pair::new(TestNode::named("asker"), replica);
        assert_eq!(pair.asker.link.status().replica_state, None);
        pair.asker.start();
        let serving = pair.accept().await;
        pair.asker.until(LinkState::Up).await;
        let reported = |pair: &Pair| pair.asker.link.status().replica_state;
        assert_eq!(reported(&pair), Some(ReplicaState::Voter));
        for changed in [ReplicaState::Starting, ReplicaState::Learner] {
            replica_state.set(changed);
            tokio::time::sleep(2 * HEARTBEAT).await;
            assert_eq!(reported(&pair), Some(changed));
        }
        serving.abort();
        pair.asker.until(LinkState::Down).await;
        assert_eq!(reported(&pair), None);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn frames_of_a_feature_are_sent_only_if_both_sides_have_it() {
    run(async {
        let without = |mut node: TestNode| {
            node.hello.protocol.features = 0;
            node
        };
        let pairs = [
            (
                without(TestNode::named("asker")),
                TestNode::named("replica"),
            ),
            (
                TestNode::named("asker"),
                without(TestNode::named("replica")),
            ),
        ];
        for (asker, replica) in pairs {
            let replica_state = Rc::clone(&replica.replica_state);
            let mut pair = Pair::new(asker, replica);
            pair.asker.start();
            let _serving = pair.accept().await;
            pair.asker.until(LinkState::Up).await;
            replica_state.set(ReplicaState::Learner);
            tokio::time::sleep(5 * HEARTBEAT).await;
            let status = pair.asker.link.status();
            assert_eq!(status.state, LinkState::Up);
            assert_eq!(
                status.replica_state,
                Some(ReplicaState::Voter),
                "as the hello says"
            );
            assert_eq!(status.counts.connects, 1);
        }
    })
    .await;
}
