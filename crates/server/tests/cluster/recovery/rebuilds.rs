//! A store that lost its folder is rebuilt by streaming.

use crate::repair::equal_stores::{
    repairing, stored_at, target, wait_until_equal, wait_until_rebuilt,
};
use crate::support::{Cluster, Disks, until};
use lsm_testing::MemoryDisk;
use server::ServerConfig;
use std::sync::Arc;

/// Repairs in short order that store what they bring every 4 MiB.
fn rebuilding(config: &mut ServerConfig) {
    repairing(config);
    config.memtable_bytes = Some(256 << 10);
}

fn streamed_keys(cluster: &Cluster, node: usize) -> f64 {
    cluster.metric(node, "kvorum_rebuild_received_keys_total ")
}

fn streamed_bytes(cluster: &Cluster, node: usize) -> f64 {
    cluster.metric(node, "kvorum_rebuild_received_bytes_total ")
}

/// Some values are sent in one piece, some in several, and some are too long for a run.
fn value(number: usize) -> String {
    let length: usize = [3, 60, 1_000, 20_000, 300_000][(number % 97).saturating_sub(92)];
    let word = number.to_string();
    word.repeat(length.div_ceil(word.len()))
}

fn key(number: usize) -> String {
    format!("k{number:05}")
}

#[test]
fn a_lost_store_is_streamed_and_gets_only_the_rest_as_repair_writes() {
    const KEYS: usize = 3_000;
    let mut cluster = Cluster::start_with(3, rebuilding);
    let mut client = cluster.client(0);
    for number in 0..KEYS {
        let put = client.put(&target(&key(number), "3/3"), value(number).as_bytes());
        assert_eq!(put.status, 201);
    }
    for number in (0..KEYS).step_by(10) {
        let deleted = client.delete(&target(&key(number), "3/3"));
        assert!(matches!(deleted.status, 200..300), "{}", deleted.text());
    }
    let lasting = format!("{}&ttl=3600", target("expires", "3/3"));
    assert_eq!(client.put(&lasting, b"later").status, 201);
    // One of the peers lacks some keys, and newer versions of others.
    cluster.stop_node(1);
    for number in (5..KEYS).step_by(100) {
        let put = client.put(&target(&key(number), "2/3"), b"newer");
        assert!(matches!(put.status, 200 | 201));
        let put = client.put(&target(&format!("more{number}"), "2/3"), b"more");
        assert_eq!(put.status, 201);
    }
    until("the hints have expired", || cluster.hints_at(0, 1) == 0);
    let before = stored_at(&cluster, 0);
    cluster.stop_node(2);
    cluster.replace_disk(2, Arc::new(MemoryDisk::new()));
    cluster.start_node(1);
    cluster.start_node(2);
    cluster.wait_until_joined();
    wait_until_rebuilt(&cluster, 2);
    let after = wait_until_equal(&cluster);
    assert!(before.iter().all(|line| after.contains(line)));
    let (keys, repair_writes) = (
        streamed_keys(&cluster, 2),
        cluster.metric(2, "kvorum_repair_writes_total{direction=\"received\"} "),
    );
    // The tombstones are streamed, too; a few values were too long.
    assert!(
        keys > 0.95 * KEYS as f64,
        "{keys} keys, {repair_writes} repair_writes"
    );
    assert!(
        repair_writes < 0.1 * KEYS as f64,
        "{keys} keys, {repair_writes} repair_writes"
    );
}

#[test]
fn a_pair_that_differs_counts_the_range_on_both_nodes_once() {
    let mut cluster = Cluster::start_with(3, |config| {
        rebuilding(config);
        config.node.repair_interval = None;
    });
    let mut client = cluster.client(0);
    for number in 0..40 {
        let put = client.put(&target(&key(number), "3/3"), b"short");
        assert_eq!(put.status, 201);
    }
    // It is too long for a run, so the two still differ after what was streamed.
    let long = vec![b'v'; 300_000];
    assert_eq!(client.put(&target("long", "3/3"), &long).status, 201);
    cluster.stop_node(2);
    cluster.replace_disk(2, Arc::new(MemoryDisk::new()));
    cluster.start_node(2);
    cluster.wait_until_joined();
    wait_until_rebuilt(&cluster, 2);
    assert!(streamed_keys(&cluster, 2) >= 40.0);
    let differing = |node| {
        let name = "kvorum_repair_ranges_total{result=\"differing\"} ";
        cluster.metric(node, name)
    };
    // The two that were not lost never differed.
    assert!(differing(0) >= 1.0);
    assert_eq!(differing(0) + differing(1), differing(2));
}

/// Operators change the bound node by node, and may lower it.
#[test]
fn a_node_takes_values_from_others_that_are_longer_than_clients_may_send_it() {
    let mut cluster = Cluster::start_with(3, |config| {
        rebuilding(config);
        if config.node.name() == "c" {
            config.node.value_bytes_max = 1_000;
        }
    });
    let long: String = std::iter::repeat_with(fastrand::alphanumeric)
        .take(500_000)
        .collect();
    let upgrades = "kvorum_peer_upgrades_total{status=\"101\"}";
    let before = cluster.metric(2, upgrades);
    let mut client = cluster.client(0);
    assert_eq!(
        client.put(&target("long", "3/3"), long.as_bytes()).status,
        201
    );
    let refused = cluster
        .client(2)
        .put(&target("long", "3/3"), long.as_bytes());
    assert_eq!(refused.status, 413);
    for pair in ["1/3", "3/3"] {
        assert_eq!(cluster.client(2).get(&target("long", pair)).text(), long);
    }
    assert_eq!(cluster.metric(2, upgrades), before, "a link was cut");
    cluster.stop_node(2);
    cluster.replace_disk(2, Arc::new(MemoryDisk::new()));
    cluster.start_node(2);
    cluster.wait_until_joined();
    wait_until_rebuilt(&cluster, 2);
    assert!(cluster.held_by(2, "long").is_some());
}

#[test]
fn a_rebuild_goes_on_where_it_was_although_the_coordinator_and_then_the_node_are_killed() {
    const KEYS: usize = 400;
    let disks = Disks::new();
    let mut cluster = Cluster::start_on(3, rebuilding, |node| disks.add(node));
    let mut client = cluster.client(0);
    let mut random = fastrand::Rng::with_seed(1);
    let mut total = 0.0;
    for number in 0..KEYS {
        let value: String = (0..random.usize(40_000..160_000))
            .map(|_| random.alphanumeric())
            .collect();
        total += value.len() as f64;
        until("a write to all replicas", || {
            let put = client.put(&target(&key(number), "3/3"), value.as_bytes());
            matches!(put.status, 200 | 201)
        });
    }
    cluster.stop_node(2);
    disks.replace(&mut cluster, 2, Arc::new(MemoryDisk::new()));
    cluster.start_node(2);
    // The node with the least ID coordinates. A session goes from the first key to the last.
    let last = key(KEYS - 1);
    for (killed, filled) in [(0, 0), (2, KEYS / 4)] {
        until(
            "a session has stored a part, and the status shows how far it is",
            || {
                let rebuild = &cluster.status(2)["repair"]["rebuild"];
                let share = rebuild["share"].as_f64().unwrap_or_default();
                cluster.held_by(2, &key(filled)).is_some()
                    && rebuild["received_keys"].as_u64() > Some(0)
                    && rebuild["received_bytes"].as_u64() > Some(0)
                    && (0.0..1.0).contains(&share)
            },
        );
        assert!(cluster.held_by(2, &last).is_none(), "too late to kill");
        assert_eq!(cluster.replica_state(2), "learner");
        disks.kill(&mut cluster, killed);
        cluster.start_node(killed);
    }
    cluster.wait_until_joined();
    wait_until_rebuilt(&cluster, 2);
    // The last one was written to see whether the store counts.
    assert!(wait_until_equal(&cluster).len() >= KEYS);
    // A quarter was stored before the node was killed: that is not sent again.
    let sent = streamed_bytes(&cluster, 2);
    assert!(sent > 0.0 && sent < 0.8 * total, "{sent} bytes of {total}");
}
