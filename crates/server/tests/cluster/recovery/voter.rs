//! Stores that lost data do not count, and new stores do not count before all nodes have
//! met.

use crate::support::{Cluster, Disks, until};
use crate::wire::{Client, Reply, seams};
use lsm::Disk;
use lsm_testing::MemoryDisk;
use peer::Protocol;
use server::{Server, ServerConfig};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A short timeout, so that requests that cannot succeed end soon.
fn with_short_timeout(config: &mut ServerConfig) {
    config.node.timeout = Duration::from_millis(400);
}

fn target(key: &str, pair: &str) -> String {
    format!("/v0/entity?id={key}&replicas={pair}")
}

#[test]
fn a_write_to_all_right_after_the_nodes_are_up_is_acknowledged() {
    let all = [0, 1, 2];
    let cluster = Cluster::start_some(3, &all, |_| {}, |_| Arc::new(MemoryDisk::new()));
    std::thread::scope(|scope| {
        for node in all {
            let cluster = &cluster;
            scope.spawn(move || {
                let key = format!("k{node}");
                let mut client = cluster.client(node);
                let read = client.get(&target(&key, "3/3"));
                assert_eq!(read.status, 404, "{}", read.text());
                let written = client.put(&target(&key, "3/3"), b"v");
                assert_eq!(written.status, 201, "{}", written.text());
            });
        }
    });
}

/// The outcome at a node in a receipt.
fn outcome(cluster: &Cluster, reply: &Reply, node: usize) -> String {
    assert_eq!(reply.status, 504, "{}", reply.text());
    let receipt = reply.json();
    let lines = receipt["replicas"].as_array().unwrap();
    let line = lines.iter().find(|line| line["url"] == cluster.url(node));
    line.unwrap()["outcome"].as_str().unwrap().to_owned()
}

#[test]
fn nothing_is_acknowledged_before_all_nodes_have_met() {
    let disk = |_| Arc::new(MemoryDisk::new()) as Arc<dyn Disk>;
    let mut cluster = Cluster::start_some(3, &[0, 1], with_short_timeout, disk);
    cluster.wait_until_joined();
    let key = cluster.key_on(&[0, 1, 2]);
    for node in [0, 1] {
        for pair in ["1/3", "2/3", "1/1"] {
            let target = target(&key, pair);
            // The third node may have seen timestamps of stores that were lost.
            let put = cluster.client(node).put(&target, b"v");
            assert_eq!(put.status, 503, "{pair} at {node}");
            assert!(put.text().contains("problem:new-store"), "{}", put.text());
            let got = cluster.client(node).get(&target);
            assert_eq!(got.status, 504, "{pair} at {node}");
        }
        let got = cluster.client(node).get(&target(&key, "1/1"));
        assert_eq!(outcome(&cluster, &got, 0), "learner");
        assert_eq!(cluster.replica_state(node), "starting");
    }
    cluster.start_node(2);
    until("all nodes have met", || {
        cluster.client(1).put(&target(&key, "3/3"), b"w").status == 201
    });
    assert_eq!(cluster.client(2).get(&target(&key, "2/3")).text(), "w");
}

#[test]
fn the_ack_of_a_store_that_lost_its_folder_does_not_count() {
    let mut cluster = Cluster::start(3);
    let key = cluster.key_on(&[0, 1, 2]);
    let (quorum, all) = (target(&key, "2/3"), target(&key, "3/3"));
    assert_eq!(cluster.client(0).put(&all, b"0").status, 201);
    // The first write is given a timestamp far ahead of the time, and only two nodes have it.
    cluster.clock(0).set_ahead_seconds(1_800);
    cluster.stop_node(2);
    assert_eq!(cluster.client(0).put(&quorum, b"1").status, 201);
    cluster.stop_node(0);
    // One of the two loses it, and the third does not know of it.
    cluster.stop_node(1);
    cluster.replace_disk(1, Arc::new(MemoryDisk::new()));
    cluster.start_node(1);
    cluster.start_node(2);
    cluster.wait_until_joined();
    let put = cluster.client(2).put(&quorum, b"2");
    assert_eq!(outcome(&cluster, &put, 1), "learner");
    // The outcome may be clear before the node's own store has answered.
    let own = outcome(&cluster, &put, 2);
    assert!(["stored", "unanswered"].contains(&&*own), "{own}");
    let got = cluster.client(2).get(&quorum);
    assert_eq!(outcome(&cluster, &got, 1), "learner");
    // The store keeps the write all the same, and needs no hint for it.
    assert_eq!(cluster.held_by(1, &key).unwrap().0, "2");
    assert_eq!(cluster.hints_at(2, 1), 0);
    // Later acknowledged writes are above the first one.
    cluster.start_node(0);
    cluster.wait_until_joined();
    let put = cluster.client(2).put(&quorum, b"3");
    assert_eq!(put.status, 201, "{}", put.text());
    for node in 0..3 {
        assert_eq!(cluster.client(node).get(&quorum).text(), "3");
    }
}

#[test]
fn a_restarted_node_asks_the_nodes_that_are_up_and_waits_for_no_other() {
    let mut cluster = Cluster::start(3);
    let key = cluster.key_on(&[0, 1, 2]);
    assert_eq!(
        cluster.client(0).put(&target(&key, "3/3"), b"v").status,
        201
    );
    cluster.stop_node(1);
    cluster.stop_node(0);
    cluster.start_node(0);
    assert_eq!(cluster.client(0).get(&target(&key, "2/3")).text(), "v");
    // Also when it is alone: it was a voter, and no node that is up contradicts.
    cluster.stop_node(2);
    cluster.stop_node(0);
    cluster.start_node(0);
    assert_eq!(cluster.client(0).get(&target(&key, "1/3")).text(), "v");
    assert_eq!(cluster.replica_state(0), "voter");
}

#[test]
fn a_folder_restored_from_a_copy_is_filled_and_brings_nothing_back() {
    restore_a_folder(false);
}

#[test]
fn an_operator_may_accept_a_folder_restored_from_a_copy() {
    restore_a_folder(true);
}

/// Restores a folder from a copy; then an operator `accepts` it, or nobody does.
fn restore_a_folder(accepts: bool) {
    let disks = Disks::new();
    let mut cluster = Cluster::start_on(3, with_short_timeout, |node| disks.add(node));
    let key = cluster.key_on(&[0, 1, 2]);
    let quorum = target(&key, "2/3");
    until("a write to all replicas succeeds", || {
        cluster.client(0).put(&target(&key, "3/3"), b"old").status == 201
    });
    cluster.stop_node(0);
    let yesterday = disks.copy(0);
    cluster.start_node(0);
    cluster.wait_until_joined();
    until("a write to all replicas succeeds", || {
        cluster.client(0).put(&target(&key, "3/3"), b"new").status == 201
    });
    cluster.stop_node(0);

    // While a node is away, nothing can fill the store.
    cluster.stop_node(2);
    cluster.replace_disk(0, yesterday);
    cluster.start_node(0);
    let read = |cluster: &Cluster, node: usize, pair: &str| {
        let reply = cluster.client(node).get(&target(&key, pair));
        assert!(reply.status != 200 || reply.text() == "new", "{pair}");
        reply.status
    };
    // It answers no reads from its start on.
    assert_eq!(read(&cluster, 0, "1/1"), 504);
    until("the node hears that its store is a learner", || {
        cluster.replica_state(0) == "learner"
    });
    // The other nodes answer no reads of this coordinator. It might allocate timestamps
    // that were issued before, so it issues none and refuses writes.
    assert_eq!(read(&cluster, 0, "1/3"), 504);
    let put = cluster.client(0).put(&quorum, b"given a timestamp twice");
    assert_eq!(put.status, 503, "{}", put.text());
    assert!(put.text().contains("full repair"), "{}", put.text());
    assert_eq!(put.json()["type"], "urn:kvorum:problem:restored-store");
    until("a peer shows the store as a learner", || {
        cluster.replica_state_at(1, 0).as_deref() == Some("learner")
    });
    assert_eq!(read(&cluster, 1, "1/3"), 200);
    assert_eq!(read(&cluster, 1, "2/3"), 504);
    // The store keeps the writes that it receives.
    let missed = cluster.client(1).put(&target(&key, "3/3"), b"new");
    assert_eq!(missed.status, 504);
    until("the store holds the write", || {
        cluster.held_by(0, &key).unwrap().0 == "new"
    });
    // Another start changes nothing.
    cluster.stop_node(0);
    cluster.start_node(0);
    assert_eq!(read(&cluster, 0, "1/1"), 504);
    if accepts {
        // An operator accepts the store, and the others repair it.
        cluster.stop_node(0);
        cluster.change_config(0, |config| config.node.accept_data_loss = true);
        cluster.start_node(0);
        cluster.start_node(2);
        cluster.wait_until_joined();
        assert_eq!(cluster.replica_state(0), "forced_voter");
    } else {
        cluster.start_node(2);
        cluster.wait_until_joined();
        until("a full repair has rebuilt the store", || {
            cluster.replica_state(0) == "voter"
        });
    }
    until("all replicas answer", || read(&cluster, 1, "3/3") == 200);
    until("the others serve the node again", || {
        cluster.client(0).get(&quorum).text() == "new"
    });
    until("the node timestamps writes again", || {
        cluster.client(0).put(&quorum, b"newer").status == 201
    });
}

#[test]
fn a_clone_beside_the_original_never_counts_and_the_original_comes_back() {
    let disks = Disks::new();
    let mut cluster = Cluster::start_on(3, with_short_timeout, |node| disks.add(node));
    until("the original is a voter", || {
        cluster.replica_state(0) == "voter"
    });
    let target = target(&cluster.key_on(&[0, 1, 2]), "2/3");
    let mut config = cluster.config(0);
    config.listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
    let clone = Server::start_with(config, seams(disks.copy(0))).unwrap();
    let status = |node: &Server| {
        let status = Client::connect(node).get("/v0/status").json();
        status["replica_state"].as_str().unwrap().to_owned()
    };
    // The clone dials again and again, and the others do not accept it as a peer.
    for value in 0..50 {
        let put = cluster
            .client(0)
            .put(&target, format!("{value}").as_bytes());
        assert_eq!(put.status, 201, "{}", put.text());
    }
    let put = Client::connect(&clone).put(&target, b"the clone's");
    assert!(matches!(put.status, 503 | 504), "{}", put.text());
    assert_eq!(status(&clone), "starting");
    assert_eq!(cluster.replica_state(0), "voter");
    assert_eq!(cluster.client(1).get(&target).text(), "49");
    // After the original has ended, the clone is heard. It lacks what the original has
    // acknowledged since.
    cluster.stop_node(0);
    until("the clone hears that it lacks writes", || {
        status(&clone) == "learner"
    });
    cluster.start_node(0);
    until("the original counts", || {
        cluster.replica_state(0) == "voter"
    });
    assert_eq!(cluster.client(0).get(&target).text(), "49");
    assert_ne!(status(&clone), "voter");
    clone.shutdown().unwrap();
}

/// A configuration with the protocol of another build.
fn build(least: u16, greatest: u16, features: u64) -> impl Fn(&mut ServerConfig) {
    move |config| {
        config.node.protocol = Protocol {
            least,
            greatest,
            features,
        };
    }
}

#[test]
fn builds_that_differ_in_versions_and_features_work_together() {
    // This build, an older one without features, and a newer one with a feature that
    // the others do not know.
    let builds: [(u16, u16, u64); 3] = [
        (
            Protocol::OWN.least,
            Protocol::OWN.greatest,
            Protocol::OWN.features,
        ),
        (0, Protocol::OWN.greatest, 0),
        (Protocol::OWN.least, 9, Protocol::OWN.features | 1 << 63),
    ];
    let change = |config: &mut ServerConfig| {
        let (least, greatest, features) = match config.node.name() {
            "a" => builds[0],
            "b" => builds[1],
            _ => builds[2],
        };
        build(least, greatest, features)(config);
    };
    let mut cluster = Cluster::start_with(3, change);
    for node in 0..3 {
        let key = format!("k{node}");
        let mut client = cluster.client(node);
        assert_eq!(client.put(&target(&key, "3/3"), b"v").status, 201);
        for at in 0..3 {
            assert_eq!(cluster.client(at).get(&target(&key, "3/3")).text(), "v");
        }
    }
    // The replica state of the older one's store is known from its hello alone.
    until("the newer build is known to be a voter", || {
        cluster.replica_state_at(0, 2).as_deref() == Some("voter")
    });
    // One node is updated while the others run.
    cluster.stop_node(1);
    let (least, greatest, features) = builds[2];
    cluster.change_config(1, build(least, greatest, features));
    cluster.start_node(1);
    cluster.wait_until_joined();
    until("the updated node is known to be a voter", || {
        cluster.replica_state_at(0, 1).as_deref() == Some("voter")
    });
    assert_eq!(cluster.client(0).get(&target("k0", "3/3")).text(), "v");
}

#[test]
fn a_build_that_shares_no_protocol_version_is_not_accepted_as_a_peer() {
    let mut cluster = Cluster::start_with(3, with_short_timeout);
    let key = cluster.key_on(&[0, 1, 2]);
    until("a write to all replicas succeeds", || {
        cluster.client(0).put(&target(&key, "3/3"), b"v").status == 201
    });
    cluster.stop_node(2);
    cluster.change_config(2, build(Protocol::OWN.greatest + 1, 9, 0));
    cluster.start_node(2);
    until("the node shows all others as down", || {
        let state_of = |node: usize| cluster.member_at(2, node)["state"].clone();
        state_of(0) == "down" && state_of(1) == "down"
    });
    assert_eq!(cluster.client(0).get(&target(&key, "3/3")).status, 504);
    assert_eq!(cluster.client(0).get(&target(&key, "2/3")).text(), "v");
}
