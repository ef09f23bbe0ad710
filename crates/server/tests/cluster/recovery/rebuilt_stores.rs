//! Stores that lost something and come back by themselves, and what nodes say of it.

use crate::support::{Cluster, Disks, until};
use lsm::Durability;
use lsm_testing::MemoryDisk;
use server::ServerConfig;
use std::sync::Arc;
use std::time::Duration;

const ALL: [usize; 3] = [0, 1, 2];

/// A repair begins with a wait of twice the timeout.
fn with_short_timeout(config: &mut ServerConfig) {
    config.node.timeout = Duration::from_secs(2);
}

fn with_os_durability(config: &mut ServerConfig) {
    with_short_timeout(config);
    config.node.durability = Durability::Os;
}

fn target(key: &str) -> String {
    format!("/v0/entity?id={key}&replicas=2/3")
}

/// Writes these keys, with a value each that names the round.
fn write(cluster: &Cluster, round: &str, keys: std::ops::Range<u32>) {
    for key in keys {
        let mut client = cluster.client(key as usize % 3);
        let value = format!("{round}-{key}");
        let put = client.put(&target(&format!("k{key}")), value.as_bytes());
        assert_eq!(put.status, 201, "{}", put.text());
    }
}

fn until_all_are_voters(cluster: &Cluster) {
    for node in ALL {
        until("all stores are rebuilt", || {
            cluster.replica_state(node) == "voter"
        });
    }
    // The nodes shake hands again with those whose store was rebuilt. A call that is under way
    // to one of them then ends as refused.
    for node in ALL {
        for other in ALL {
            until("the nodes know that all stores are rebuilt", || {
                node == other || cluster.replica_state_at(node, other).as_deref() == Some("voter")
            });
        }
        until("the node is served by the others", || {
            let got = cluster.client(node).get("/v0/entity?id=none&replicas=3/3");
            got.status == 404
        });
    }
}

/// All nodes hold the same version of a key, which is the value that they read.
fn value_everywhere(cluster: &Cluster, key: &str) -> String {
    let held = cluster.held_by(0, key).unwrap();
    for node in ALL {
        assert_eq!(
            cluster.held_by(node, key).as_ref(),
            Some(&held),
            "{key} at {node}"
        );
    }
    held.0
}

/// The rounds of writes in the order in which they were written.
const ROUNDS: [&str; 4] = ["first", "second", "third", "after"];

#[test]
fn two_lost_disks_of_three_come_back_by_themselves() {
    let mut cluster = Cluster::start_with(3, with_short_timeout);
    write(&cluster, "first", 0..30);
    for node in [1, 2] {
        cluster.stop_node(node);
        cluster.replace_disk(node, Arc::new(MemoryDisk::new()));
    }
    for node in [1, 2] {
        cluster.start_node(node);
    }
    cluster.wait_until_joined();
    until("the node that is left says what may be lost", || {
        let said = &cluster.status(0)["may_be_lost"];
        said["nodes"] == serde_json::json!(["b", "c"])
    });
    until_all_are_voters(&cluster);
    for key in 0..30 {
        let key = format!("k{key}");
        // The only store that is left had each of them, if it was one of the two.
        if cluster.held_by(0, &key).is_some() {
            assert!(value_everywhere(&cluster, &key).starts_with("first"));
        }
    }
    until("the loss is over", || {
        cluster.status(0)["may_be_lost"]["rebuilt"] == true
    });
    let said = cluster.status(0)["may_be_lost"].clone();
    let text = said["text"].as_str().unwrap();
    assert!(
        text.starts_with("acknowledged writes may be lost: b, c ")
            && text.contains("How many is not known"),
        "{text}"
    );
    // The alert and the advice end with the rebuild; what is known of the loss stays as a note.
    assert_eq!(
        cluster.metric(0, "kvorum_writes_possibly_lost_unknown"),
        0.0
    );
    let advice = cluster.client(0).get("/v0/cluster").json()["advice"].clone();
    let losses = advice.as_array().unwrap().iter();
    let severities: Vec<_> = losses
        .filter(|advice| advice["what"].as_str().unwrap().starts_with(text))
        .map(|advice| &advice["severity"])
        .collect();
    assert_eq!(severities, ["note"], "{advice}");
    assert_eq!(
        said["incomplete"], true,
        "no full repair came before the loss"
    );
    write(&cluster, "after", 0..30);
}

#[test]
fn folders_restored_from_copies_of_different_times_come_back_by_themselves() {
    let disks = Disks::new();
    let mut cluster = Cluster::start_on(3, with_short_timeout, |node| disks.add(node));
    write(&cluster, "first", 0..20);
    let mut copies = vec![disks.copy(0)];
    // Each node starts once more after it was copied, while the others run.
    for (node, round) in [(0, "second"), (1, "third")] {
        cluster.stop_node(node);
        cluster.start_node(node);
        cluster.wait_until_joined();
        until("the node counts", || cluster.replica_state(node) == "voter");
        write(&cluster, round, 0..20);
        copies.push(disks.copy(node + 1));
    }
    cluster.stop_node(2);
    cluster.start_node(2);
    cluster.wait_until_joined();
    write(&cluster, "after", 0..20);
    for node in ALL {
        cluster.stop_node(node);
    }
    for (node, copy) in copies.into_iter().enumerate() {
        cluster.replace_disk(node, copy);
        cluster.start_node(node);
    }
    cluster.wait_until_joined();
    until_all_are_voters(&cluster);
    for key in 0..20 {
        let value = value_everywhere(&cluster, &format!("k{key}"));
        assert!(
            ROUNDS[..3].iter().any(|round| value.starts_with(round)),
            "{value}"
        );
    }
    // All of them timestamp again, above everything that came before.
    until("the nodes take writes", || {
        ALL.iter().all(|node| {
            let put = cluster.client(*node).put(&target("probe"), b"probe");
            put.status == 201
        })
    });
    write(&cluster, "after", 0..20);
    for key in 0..20 {
        let got = cluster.client(key % 3).get(&target(&format!("k{key}")));
        assert!(got.text().starts_with("after"), "{}", got.text());
    }
}

#[test]
fn a_power_cut_of_the_whole_cluster_needs_no_operator() {
    let disks = Disks::new();
    let mut cluster = Cluster::start_on(3, with_os_durability, |node| disks.add(node));
    write(&cluster, "first", 0..20);
    let left = ALL.map(|node| disks.after_power_cut(node));
    for node in ALL {
        cluster.stop_node(node);
    }
    for (node, disk) in left.into_iter().enumerate() {
        cluster.replace_disk(node, disk);
        cluster.reboot(node);
        cluster.start_node(node);
    }
    cluster.wait_until_joined();
    for node in ALL {
        assert_ne!(cluster.replica_state(node), "forced_voter");
        let said = &cluster.status(node)["may_be_lost"];
        assert_eq!(said["incomplete"], true, "{said}");
    }
    until_all_are_voters(&cluster);
    write(&cluster, "after", 0..20);
    for key in 0..20 {
        let got = cluster.client(key % 3).get(&target(&format!("k{key}")));
        assert!(got.text().starts_with("after"), "{}", got.text());
    }
}
