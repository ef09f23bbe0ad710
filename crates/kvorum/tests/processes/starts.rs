//! Who starts or restarts the nodes of a cluster one after another waits for a page of each:
//! from then on the cluster serves, with another node stopped, too.

use crate::cluster::{ClusterNode, TestCluster, node_locations};
use crate::support::wait_until;

/// How often a cluster is started for the first time.
const FIRST_STARTS: usize = 8;

/// How often a node is restarted.
const RESTARTS: usize = 6;

/// Waits until a node answers `200` to this page.
fn wait_for(node: &ClusterNode, page: &str) {
    wait_until(page, || {
        let answer = node.connect().ok()?.exchange("GET", page, b"").ok()?;
        (answer.status == 200).then_some(())
    });
}

fn assert_writes(node: &ClusterNode, ack: u8, when: &str) {
    let target = format!("/v0/entity?id=key&ack={ack}&from=3");
    let mut connection = node.connect().unwrap();
    let answer = connection.exchange("PUT", &target, b"value").unwrap();
    let body = String::from_utf8_lossy(&answer.body);
    assert_eq!(answer.status, 201, "{} {when}: {body}", node.name);
}

#[test]
fn a_cluster_whose_nodes_have_answered_their_status_serves_at_once() {
    for round in 0..FIRST_STARTS {
        let mut cluster = TestCluster::new(node_locations());
        for node in &mut cluster.nodes {
            node.spawn(&[]);
            wait_for(node, "/v0/status");
        }
        if round % 2 == 0 {
            assert_writes(&cluster[2], 3, "right after the start");
            continue;
        }
        // At once: what the nodes have yet to say to each other is lost.
        cluster[0].kill();
        assert_writes(&cluster[2], 2, "without the first node");
        assert_writes(&cluster[1], 2, "without the first node");
    }
}

#[test]
fn once_a_restarted_node_is_ready_the_others_reach_it() {
    let mut cluster = TestCluster::start();
    for restart in 0..RESTARTS {
        let index = restart % 3;
        cluster[index].stop();
        cluster[index].spawn(&[]);
        for node in &cluster.nodes {
            wait_for(node, "/health/ready");
        }
        for other in [(index + 1) % 3, (index + 2) % 3] {
            assert_writes(&cluster[other], 3, "after a restart");
        }
    }
}
