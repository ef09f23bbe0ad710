//! Whether a node of a cluster is ready.

use crate::support::{Cluster, until};
use lsm_testing::MemoryDisk;
use std::sync::Arc;

/// Why a node is not ready; empty if it is.
fn reasons(cluster: &Cluster, node: usize) -> String {
    let ready = cluster.client(node).get("/health/ready");
    match ready.status {
        200 => String::new(),
        503 => {
            let problem = ready.json();
            assert_eq!(problem["type"], "urn:kvorum:problem:not-ready");
            problem["detail"].as_str().unwrap().to_owned()
        }
        status => panic!("{status}: {}", ready.text()),
    }
}

#[test]
fn a_node_is_ready_while_it_reaches_a_quorum() {
    let mut cluster = Cluster::start(3);
    // Nodes tell each other with heartbeats that their stores count.
    for node in 0..3 {
        until("the node is ready", || reasons(&cluster, node).is_empty());
    }
    cluster.stop_node(2);
    // Each runtime of a node has links of its own, and the look above met one of them.
    until("two of three are a quorum", || {
        reasons(&cluster, 0).is_empty()
    });
    cluster.stop_node(1);
    let why = reasons(&cluster, 0);
    assert!(
        why.contains("1 of the nodes") && why.contains("a request needs 2"),
        "{why}"
    );
    assert_eq!(cluster.client(0).get("/health/live").status, 200);
    cluster.start_node(1);
    until("the quorum is back", || reasons(&cluster, 0).is_empty());
}

#[test]
fn the_pair_that_the_operator_chose_decides() {
    let mut cluster = Cluster::start_with(3, |config| {
        config.replicas_default = cluster::Replicas::new(1, 1);
    });
    cluster.stop_node(2);
    cluster.stop_node(1);
    assert_eq!(reasons(&cluster, 0), "");
}

#[test]
fn a_store_that_does_not_count_is_not_ready() {
    let mut cluster = Cluster::start_with(3, |config| config.node.full_repair_interval = None);
    assert_eq!(cluster.client(0).put("/v0/entity?id=a", b"v").status, 201);
    cluster.stop_node(1);
    cluster.replace_disk(1, Arc::new(MemoryDisk::new()));
    cluster.start_node(1);
    until("the loss is noticed", || {
        cluster.replica_state(1) == "learner"
    });
    assert!(
        reasons(&cluster, 1).contains("learner"),
        "{}",
        reasons(&cluster, 1)
    );
    // Its links to the node that was stopped may still be down.
    until("the others are ready", || reasons(&cluster, 0).is_empty());
}
