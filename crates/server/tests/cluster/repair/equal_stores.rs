//! Nodes become equal by themselves, and a store whose folder was lost is filled by the
//! others: without a read, and without an operator.

use crate::support::{Cluster, Disks, until};
use crate::wire::Ends;
use lsm_testing::MemoryDisk;
use server::ServerConfig;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Hints that do not outlive an absence, and repairs in short order.
pub(crate) fn sweeping(config: &mut ServerConfig) {
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

pub(crate) fn wait_until_filled(cluster: &Cluster, node: usize) {
    until("the lost store counts again", || {
        cluster.replica_state(node) == "voter"
    });
    let key = cluster.key_on(&[node]);
    until("an ack of all replicas succeeds", || {
        cluster.client(node).put(&target(&key, "3/3"), b"v").status == 201
    });
}

#[test]
fn stores_become_equal_without_hints_and_without_a_read() {
    let mut cluster = Cluster::start_with(3, sweeping);
    let mut client = cluster.client(1);
    // On a busy machine an ack may take longer than the short deadline.
    let mut write = |key: &str, pair: &str, value: Option<&[u8]>| {
        let target = target(key, pair);
        until("a write is acknowledged", || match value {
            Some(value) => client.put(&target, value).status == 201,
            None => client.delete(&target).status == 202,
        });
    };
    for number in 0..60 {
        write(&format!("k{number:02}"), "3/3", Some(b"old"));
    }
    cluster.stop_node(2);
    for number in 0..60 {
        let key = format!("k{number:02}");
        match number % 3 {
            0 => write(&key, "2/3", Some(b"new")),
            1 => write(&key, "2/3", None),
            _ => {}
        }
    }
    write("fresh", "2/3", Some(b"v"));
    until("the hints have expired", || cluster.hints_at(1, 2) == 0);
    cluster.start_node(2);
    let stored = wait_until_equal(&cluster);
    assert_eq!(stored.len(), 41);
    let count = |value: &str| {
        let value = format!("\"value\":\"{value}\"");
        stored.iter().filter(|line| line.contains(&value)).count()
    };
    assert_eq!((count("new"), count("old"), count("v")), (20, 20, 1));
    for node in 0..3 {
        assert_eq!(cluster.metric(node, "kvorum_read_repairs_total "), 0.0);
        assert_eq!(cluster.metric(node, "kvorum_hints_delivered_total "), 0.0);
    }
}

#[test]
fn a_store_that_lost_its_folder_is_filled_while_the_others_serve() {
    let mut cluster = Cluster::start_with(3, sweeping);
    let mut client = cluster.client(0);
    for number in 0..200 {
        let put = client.put(&target(&format!("k{number:03}"), "3/3"), b"old");
        assert_eq!(put.status, 201);
    }
    cluster.stop_node(2);
    cluster.replace_disk(2, Arc::new(MemoryDisk::new()));
    cluster.start_node(2);
    let is_over = AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        let serve = scope.spawn(|| {
            let mut served = 0_u32;
            let mut client = cluster.client(1);
            while !is_over.load(Ordering::SeqCst) {
                let key = format!("k{:03}", served * 7 % 300);
                let put = client.put(&target(&key, "2/3"), b"meanwhile");
                assert!(matches!(put.status, 200..300), "{}", put.text());
                served += 1;
            }
            served
        });
        let ends = Ends(&is_over);
        wait_until_filled(&cluster, 2);
        drop(ends);
        serve.join().unwrap()
    });
    assert!(served > 100, "{served} writes");
    wait_until_equal(&cluster);
}

/// The two that keep the older version have the lower numbers.
#[test]
fn a_newer_version_with_fewer_copies_replaces_older_ones() {
    let cluster = Cluster::start_with(3, |config| {
        sweeping(config);
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
fn what_a_refill_has_brought_outlives_a_power_cut() {
    let disks = Disks::new();
    let change = |config: &mut ServerConfig| {
        sweeping(config);
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

/// The peer that is absent may be the only one that has what the lost store has
/// acknowledged.
#[test]
fn a_lost_store_does_not_count_before_it_was_compared_with_every_peer() {
    let mut cluster = Cluster::start_with(3, |config| {
        sweeping(config);
        config.node.full_repair_interval = Some(Duration::from_secs(1));
    });
    for key in ["k0", "k1"] {
        let put = cluster.client(0).put(&target(key, "3/3"), b"old");
        assert_eq!(put.status, 201);
    }
    cluster.stop_node(0);
    let put = cluster.client(1).put(&target("k0", "2/3"), b"new");
    assert_eq!(put.status, 201);
    cluster.stop_node(2);
    cluster.replace_disk(2, Arc::new(MemoryDisk::new()));
    cluster.stop_node(1);
    cluster.start_node(0);
    cluster.start_node(2);
    until("a pass has found the two that are up equal", || {
        !cluster.member_at(2, 0)["last_full_repair_unix_ms"].is_null()
    });
    assert!(cluster.held_by(2, "k0").is_some());
    assert_eq!(cluster.replica_state(2), "learner");
    assert_eq!(cluster.client(0).get(&target("k0", "2/3")).status, 504);
    cluster.start_node(1);
    cluster.wait_until_joined();
    wait_until_filled(&cluster, 2);
    assert_eq!(cluster.held_by(2, "k0").unwrap().0, "new");
    assert_eq!(cluster.client(0).get(&target("k0", "2/3")).text(), "new");
}
