//! Nodes become equal by themselves, and a store whose folder was lost is rebuilt by the
//! others: without a read, and without an operator.

use crate::support::{Cluster, Disks, until};
use lsm_testing::MemoryDisk;
use server::ServerConfig;
use std::sync::Arc;
use std::time::Duration;

/// Hints that do not outlive an absence, and repairs in short order.
pub(crate) fn repairing(config: &mut ServerConfig) {
    config.node.timeout = Duration::from_millis(400);
    config.node.hint_age_max = Duration::from_secs(1);
    config.node.repair_interval = Some(Duration::from_secs(1));
}

pub(crate) fn target(key: &str, pair: &str) -> String {
    format!("/v0/entity?id={key}&replicas={pair}")
}

/// The live versions in a node's own store, one a line.
pub(crate) fn stored_at(cluster: &Cluster, node: usize) -> Vec<String> {
    let ndjson = "accept: application/x-ndjson\r\n";
    let listed = cluster
        .client(node)
        .request("GET", "/v0/entities?start=a&end=z", ndjson, b"");
    assert_eq!(listed.status, 200);
    listed.text().lines().map(str::to_owned).collect()
}

pub(crate) fn wait_until_equal(cluster: &Cluster) -> Vec<String> {
    until("all stores hold the same", || {
        let first = stored_at(cluster, 0);
        (1..3).all(|node| stored_at(cluster, node) == first)
    });
    stored_at(cluster, 0)
}

pub(crate) fn wait_until_rebuilt(cluster: &Cluster, node: usize) {
    until("the lost store counts again", || {
        cluster.replica_state(node) == "voter"
    });
    let key = cluster.key_on(&[node]);
    until("an ack of all replicas succeeds", || {
        cluster.client(node).put(&target(&key, "3/3"), b"v").status == 201
    });
}

/// The two that keep the older version have the lower IDs.
#[test]
fn a_newer_version_with_fewer_copies_replaces_older_ones() {
    let cluster = Cluster::start_with(3, |config| {
        repairing(config);
        config.node.full_repair_interval = Some(Duration::from_secs(1));
    });
    let key = cluster.key_on(&[2]);
    let mut client = cluster.client(2);
    assert_eq!(client.put(&target(&key, "3/3"), b"old").status, 201);
    let put = client.put(&target(&key, "1/1"), b"new");
    assert!(matches!(put.status, 200 | 201));
    let newest = Some(("new".to_owned(), put.version()));
    until("the newest version has replaced the older ones", || {
        (0..3).all(|node| cluster.held_by(node, &key) == newest)
    });
}

/// Under `os` a write is acknowledged before it is durable, and so is a repair write.
#[test]
fn what_a_rebuild_has_brought_outlives_a_power_cut() {
    let disks = Disks::new();
    let change = |config: &mut ServerConfig| {
        repairing(config);
        config.node.durability = lsm::Durability::Os;
    };
    let mut cluster = Cluster::start_on(3, change, |node| disks.add(node));
    let mut client = cluster.client(0);
    for number in 0..50 {
        let put = client.put(&target(&format!("k{number:03}"), "3/3"), b"v");
        assert_eq!(put.status, 201);
    }
    let before = wait_until_equal(&cluster);
    cluster.stop_node(2);
    disks.replace(&mut cluster, 2, Arc::new(MemoryDisk::new()));
    cluster.start_node(2);
    until("the lost store counts again", || {
        cluster.replica_state(2) == "voter"
    });
    // Nothing that was not synced is left, and nobody fills the store again.
    let left = disks.disk(2).crash_clone(&mut |_| false);
    cluster.stop_node(2);
    for node in [0, 1] {
        cluster.stop_node(node);
    }
    disks.replace(&mut cluster, 2, Arc::new(left));
    cluster.start_node(2);
    assert_eq!(stored_at(&cluster, 2), before);
}
