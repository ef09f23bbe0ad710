//! The node reports of three nodes, each a process, as any of them tells them.

use crate::fixtures::cluster::TestCluster;
use crate::support::wait_until;
use rustix::process::Signal;
use serde_json::Value;

/// What node 0 says of another one.
fn line(cluster: &TestCluster, of: usize) -> Option<Value> {
    let mut connection = cluster[0].connect().ok()?;
    let answer = connection.request("GET", "/v0/cluster", "", b"").ok()?;
    assert_eq!(answer.status, 200);
    let page: Value = serde_json::from_slice(&answer.body).ok()?;
    Some(page["nodes"][of].clone())
}

#[test]
fn a_frozen_node_keeps_nobody_waiting_and_tells_again_once_it_runs() {
    let cluster = TestCluster::start();
    for of in 0..3 {
        wait_until("each node to tell of its disk", || {
            let report = line(&cluster, of)?["report"].clone();
            (report["free_bytes"].as_u64()? > 0).then_some(())
        });
    }
    cluster[2].signal(Signal::STOP);
    // It is suspected, and soon its connection is closed.
    wait_until("the frozen node to tell nothing", || {
        line(&cluster, 2)?["missed"].is_string().then_some(())
    });
    wait_until("the others to go on telling", || {
        let line = line(&cluster, 1)?;
        line["report"].is_object().then_some(())
    });
    cluster[2].signal(Signal::CONT);
    wait_until("the node to tell again", || {
        let line = line(&cluster, 2)?;
        line["report"].is_object().then_some(())
    });
}
