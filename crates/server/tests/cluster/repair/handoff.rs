//! Nodes that come back: hints, and reads that repair stale replicas.

use crate::support::{Cluster, OpenOnDrop, until};
use crate::wire::{Gate, gated_disk};
use lsm::Disk;
use std::sync::Arc;
use std::time::Duration;

fn target(key: &str, pair: &str) -> String {
    format!("/v0/entity?id={key}&replicas={pair}")
}

#[test]
fn a_node_that_comes_back_gets_what_it_missed_without_a_read() {
    let mut cluster = Cluster::start(3);
    for key in ["deleted", "replaced"] {
        let put = cluster.client(1).put(&target(key, "3/3"), b"old");
        assert_eq!(put.status, 201);
    }
    let gone = cluster.key_on(&[2]);
    cluster.stop_node(2);
    let mut client = cluster.client(0);
    let mut versions = Vec::new();
    for number in 0..50 {
        let put = client.put(&target(&format!("new{number:02}"), "2/3"), b"new");
        assert_eq!((put.status, put.header("kvorum-acks")), (201, Some("2/3")));
        versions.push(put.version());
    }
    let replaced = client.put(&target("replaced", "2/3"), b"newer").version();
    assert_eq!(client.delete(&target("deleted", "2/3")).status, 202);
    // A hint is not a copy: no node serves it, and it does not count as an ack.
    assert_eq!(client.put(&target(&gone, "1/1"), b"hinted").status, 504);
    for node in [0, 1] {
        assert!(cluster.held_by(node, &gone).is_none());
        assert_eq!(cluster.client(node).get(&target(&gone, "2/3")).status, 404);
    }
    // Replies wait until the hints for a node that is down are kept.
    assert_eq!(cluster.hints_at(0, 2), 53);
    assert_eq!(cluster.hints_at(1, 2), 0);
    assert!(cluster.member_at(0, 2)["hint_bytes"].as_u64().unwrap() > 0);
    // Hints survive a restart of the coordinator.
    cluster.stop_node(0);
    cluster.start_node(0);
    assert_eq!(cluster.hints_at(0, 2), 53);

    cluster.start_node(2);
    until("the hints are delivered", || {
        cluster.hints_at(0, 2) == 0 && cluster.held_by(2, "new49").is_some()
    });
    for (number, version) in versions.iter().enumerate() {
        let held = cluster.held_by(2, &format!("new{number:02}"));
        assert_eq!(held, Some(("new".to_owned(), *version)));
    }
    let held = cluster.held_by(2, "replaced");
    assert_eq!(held, Some(("newer".to_owned(), replaced)));
    assert!(cluster.held_by(2, "deleted").is_none());
    assert_eq!(cluster.metric(0, "kvorum_hints_delivered_total "), 53.0);
    assert_eq!(cluster.metric(0, "kvorum_read_repairs_total "), 0.0);
}

/// A cluster with one node whose disk syncs nothing until the gate opens.
fn with_a_slow_disk(slow: usize) -> (Cluster, Arc<Gate>) {
    let (disk, gate) = gated_disk();
    let cluster = Cluster::start_on(
        3,
        |config| config.node.timeout = Duration::from_millis(500),
        |node| {
            if node == slow {
                Arc::clone(&disk) as Arc<dyn Disk>
            } else {
                Arc::new(lsm_testing::MemoryDisk::new())
            }
        },
    );
    gate.close();
    (cluster, gate)
}

#[test]
fn a_write_that_the_coordinators_own_store_missed_is_handed_over() {
    let (cluster, gate) = with_a_slow_disk(0);
    let _opens = OpenOnDrop(Arc::clone(&gate));
    let mut client = cluster.client(0);
    let put = client.put(&target("k", "2/3"), b"v");
    assert_eq!(put.status, 201);
    // The deadline of this write has passed when that of a later one has.
    assert_eq!(client.put(&target("later", "3/3"), b"v").status, 504);
    gate.open();
    until("both hints are delivered", || {
        cluster.metric(0, "kvorum_hints_delivered_total ") == 2.0
    });
    assert_eq!(cluster.hints_at(0, 0), 0);
    assert_eq!(
        cluster.held_by(0, "k"),
        Some(("v".to_owned(), put.version()))
    );
}

/// A hint for the node's own store would take the space that the store lacks.
#[test]
fn a_full_node_keeps_no_hints_for_itself() {
    let disks: Vec<_> = (0..3)
        .map(|_| Arc::new(lsm_testing::MemoryDisk::new()))
        .collect();
    let cluster = Cluster::start_on(
        3,
        |config| config.node.disk_reserve_bytes = 1 << 20,
        |node| Arc::clone(&disks[node]) as Arc<dyn Disk>,
    );
    disks[0].set_capacity(disks[0].used_bytes());
    let mut client = cluster.client(0);
    let value = vec![b'v'; 1 << 20];
    let full = (0..256).any(|number| {
        let put = client.put(&target(&number.to_string(), "3/3"), &value);
        put.status == 504
    });
    assert!(full, "the disk should become full");
    let dropped = || cluster.metric(0, "kvorum_hints_dropped_total{reason=\"unwritten\"}");
    until("the hint is dropped", || dropped() >= 1.0);
    // Now there is room for hints and none for puts.
    disks[0].set_capacity(disks[0].used_bytes() + (8 << 20));
    let before = dropped();
    assert_eq!(client.put(&target("more", "2/3"), b"v").status, 201);
    until("the hint is dropped", || dropped() > before);
    assert_eq!(cluster.metric(0, "kvorum_hints_kept_total "), 0.0);
}

/// A cluster whose third node has missed writes, and whose hints for it are lost.
fn with_a_stale_node(keys: &[&str]) -> Cluster {
    let mut cluster = Cluster::start(3);
    for key in keys {
        assert_eq!(
            cluster.client(0).put(&target(key, "3/3"), b"old").status,
            201
        );
    }
    cluster.stop_node(2);
    for key in keys {
        assert_eq!(
            cluster.client(0).put(&target(key, "2/3"), b"new").status,
            201
        );
    }
    cluster.stop_node(0);
    cluster.lose_hints(0);
    cluster.start_node(0);
    cluster.start_node(2);
    cluster.wait_until_joined();
    for key in keys {
        assert_eq!(cluster.held_by(2, key).unwrap().0, "old");
    }
    cluster
}

#[test]
fn a_read_repairs_a_stale_replica_before_it_answers() {
    let keys = ["k1", "k2", "k3", "k4"];
    let mut cluster = with_a_stale_node(&keys);
    // A read of two asks the coordinator's own store first, which is stale here.
    let reply = cluster.client(2).get(&target("k1", "2/3"));
    assert_eq!((reply.status, reply.text()), (200, "new"));
    let held = cluster.held_by(2, "k1");
    assert_eq!(held, Some(("new".to_owned(), reply.version())));
    assert!(cluster.metric(2, "kvorum_read_repairs_total ") >= 1.0);
    // HEAD repairs as well, and so does a read of all three by another coordinator.
    let reply = cluster
        .client(2)
        .request("HEAD", &target("k2", "2/3"), "", b"");
    assert_eq!(cluster.held_by(2, "k2").unwrap().1, reply.version());
    let reply = cluster.client(1).get(&target("k3", "3/3"));
    assert_eq!(cluster.held_by(2, "k3").unwrap().1, reply.version());
    // A key that was not read is still stale. Reads of the others never go back, also
    // when a node that had the newest version is gone.
    assert_eq!(cluster.held_by(2, "k4").unwrap().0, "old");
    cluster.stop_node(0);
    for key in ["k1", "k2", "k3"] {
        let reply = cluster.client(2).get(&target(key, "2/3"));
        assert_eq!((reply.status, reply.text()), (200, "new"));
    }
}
