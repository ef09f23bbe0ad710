//! What a node says to a peer of the way back to it.

use super::*;

/// A link that is up, to a replica whose node has so many runtimes.
async fn connected_to(node: TestNode, runtimes: usize) -> (Asker, Serving) {
    let mut asker = Asker::new(TestNode::named("asker").environment(50_000));
    asker.start();
    let stream = asker.arrivals.recv().await.unwrap();
    let environment = PeerEnvironment {
        runtimes,
        ..node.environment(90_000)
    };
    let replica = Rc::<TestReplica>::default();
    let serving = serve(Box::new(stream), Bytes::new(), environment, replica, || {});
    let serving = tokio::task::spawn_local(serving);
    asker.until(LinkState::Up).await;
    (asker, serving)
}

async fn until(asker: &Asker, contact: Contact) {
    while asker.link.status().contact != Some(contact) {
        tokio::time::sleep(ms(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_says_when_the_links_of_all_its_runtimes_to_the_peer_are_up() {
    run(async {
        let replica = TestNode::named("replica");
        let start = Arc::clone(&replica.start.borrow());
        let (asker, serving) = connected_to(replica, 2).await;
        let watch = StartWatch::new(start);
        let one_way = Contact {
            serves: true,
            reaches: false,
        };
        let stays_one_way = async || {
            until(&asker, one_way).await;
            tokio::time::sleep(5 * HEARTBEAT).await;
            assert_eq!(asker.link.status().contact, Some(one_way));
        };
        stays_one_way().await;
        let _first = watch.mark_live();
        stays_one_way().await;
        let second = watch.mark_live();
        until(&asker, Contact::FULL).await;
        // The connections that the peer has dialled are no links to it.
        drop(second);
        let _heard = watch.mark_heard();
        stays_one_way().await;
        assert!(asker.link.status().up_for.is_some());
        serving.abort();
        asker.until(LinkState::Down).await;
        let status = asker.link.status();
        assert_eq!((status.contact, status.up_for), (None, None));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_says_when_it_serves_a_store_that_was_rebuilt() {
    run(async {
        let mut replica = TestNode::named("replica");
        replica.hello.remembered = Some(cluster::Remembered {
            store_id: TestNode::named("asker").hello.store_id,
            start: 4,
            acknowledged: 0,
        });
        let start = Arc::clone(&replica.start.borrow());
        let (asker, _serving) = connected_to(replica, 1).await;
        let _live = StartWatch::new(Arc::clone(&start)).mark_live();
        let refused = Contact {
            serves: false,
            reaches: true,
        };
        until(&asker, refused).await;
        start.remember();
        until(&asker, Contact::FULL).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_of_an_older_release_is_taken_to_be_in_contact() {
    run(async {
        let mut replica = TestNode::named("replica");
        replica.hello.protocol.features &= !CONTACT;
        let (asker, _serving) = connected_to(replica, 2).await;
        assert_eq!(asker.link.status().contact, Some(Contact::FULL));
        tokio::time::sleep(5 * HEARTBEAT).await;
        assert_eq!(asker.link.status().contact, Some(Contact::FULL));
        assert_eq!(asker.link.status().counts.connects, 1);
    })
    .await;
}
