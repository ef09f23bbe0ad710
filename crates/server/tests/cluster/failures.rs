//! Nodes that are down or slow: which requests still succeed, and the receipts of those
//! that do not.

use crate::support::{Cluster, OpenOnDrop, timed, until};
use crate::wire::{Reply, gated_disk};
use lsm::Disk;
use lsm_testing::MemoryDisk;
use std::sync::Arc;
use std::time::Duration;

/// The URL and outcome of each replica in a receipt.
fn outcomes(reply: &Reply) -> Vec<(String, String)> {
    assert_eq!(reply.status, 504);
    assert_eq!(
        reply.header("content-type"),
        Some("application/problem+json")
    );
    let receipt = reply.json();
    assert_eq!(receipt["title"], "Not Enough Replicas");
    assert_eq!(receipt["status"], 504);
    assert!(receipt["type"].is_string() && receipt["detail"].is_string());
    let replicas = receipt["replicas"].as_array().unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    replicas
        .iter()
        .map(|line| (text(&line["url"]), text(&line["outcome"])))
        .collect()
}

fn is_good(outcome: &str) -> bool {
    matches!(outcome, "stored" | "value" | "absent")
}

/// Checks the lines of a receipt, in the order of the key's preference list. If the outcome was
/// clear early, replicas that would have answered may be `unanswered`.
fn assert_receipt(cluster: &Cluster, reply: &Reply, expected: &[(usize, &str)]) {
    let outcomes = outcomes(reply);
    assert_eq!(outcomes.len(), expected.len());
    let good = outcomes.iter().filter(|(_, word)| is_good(word)).count();
    let acks = format!("{good}/{}", expected.len());
    assert_eq!(reply.header("kvorum-acks"), Some(&*acks));
    for ((url, outcome), (node, word)) in outcomes.iter().zip(expected) {
        assert_eq!(*url, cluster.url(*node));
        let is_early = is_good(word) && outcome == "unanswered";
        assert!(outcome == word || is_early, "{outcomes:?}");
    }
}

#[test]
fn two_nodes_of_three_serve_quorums_and_one_serves_requests_of_one_ack() {
    let mut cluster = Cluster::start(3);
    let key = cluster.key_on(&[2, 0, 1]);
    let target = |pair: &str| format!("/v0/entity?id={key}&replicas={pair}");
    assert_eq!(cluster.client(0).put(&target("3/3"), b"first").status, 201);

    cluster.stop_node(2);
    for node in [0, 1] {
        let mut client = cluster.client(node);
        let put = client.put(&target("2/3"), b"second");
        assert_eq!((put.status, put.header("kvorum-acks")), (201, Some("2/3")));
        let get = client.get(&target("2/3"));
        assert_eq!(
            (get.status, get.text(), get.version()),
            (200, "second", put.version())
        );
        assert_eq!(get.header("kvorum-acks"), Some("2/3"));
        // `GET 1/2` sees what `PUT 2/3` acknowledged, and `GET 2/2` cannot be answered.
        assert_eq!(client.get(&target("1/2")).status, 200);
        let reply = client.get(&target("2/2"));
        assert_receipt(&cluster, &reply, &[(2, "refused"), (0, "value")]);
        assert!(
            reply.json().get("timestamp").is_none(),
            "a read's receipt has no timestamp"
        );
        // The only replica is the node that is down.
        assert_eq!(client.get(&target("1/1")).status, 504);
        let reply = client.put(&target("1/1"), b"lost");
        assert_receipt(&cluster, &reply, &[(2, "refused")]);
        assert_eq!(reply.header("kvorum-acks"), Some("0/1"));
    }
    let mut client = cluster.client(0);
    let reply = client.get("/v0/entity?id=absent&replicas=3/3");
    let words: Vec<_> = outcomes(&reply).into_iter().map(|(_, word)| word).collect();
    assert!(words.iter().all(|word| word != "value") && words.contains(&"refused".to_owned()));
    let reply = client.delete(&target("3/3"));
    assert_receipt(
        &cluster,
        &reply,
        &[(2, "refused"), (0, "stored"), (1, "stored")],
    );
    let timestamp: u64 = reply.json()["timestamp"].as_str().unwrap().parse().unwrap();
    // The write counts as still running, and here it becomes visible.
    until("reads see the deletion", || {
        let reply = client.get(&target("2/3"));
        reply.status == 404 && reply.version() == timestamp
    });

    cluster.stop_node(1);
    let mut client = cluster.client(0);
    for method in ["PUT", "GET", "DELETE", "HEAD"] {
        // The outcome is clear at once, so the answer does not wait for the timeout.
        let (reply, took) = timed(|| client.request(method, &target("2/3"), "", b""));
        assert_eq!(reply.status, 504, "{method}");
        assert!(
            took < Duration::from_secs(30),
            "{method} took {took:?}, as long as the timeout"
        );
        let reply = client.request(method, &target("1/3"), "", b"");
        let status = match method {
            "PUT" => 201,
            "DELETE" => 202,
            _ => 200,
        };
        // HEAD comes last and finds the deletion.
        let status = if method == "HEAD" { 404 } else { status };
        assert_eq!(
            (reply.status, reply.header("kvorum-acks")),
            (status, Some("1/3")),
            "{method}"
        );
    }
    let metric = "kvorum_not_enough_replicas_total{reason=\"refused\"}";
    assert!(cluster.metric(0, metric) >= 4.0);
}

/// A cluster whose disks wait while their gates are closed.
fn gated(timeout: Duration) -> (Cluster, Vec<Arc<crate::wire::Gate>>) {
    let (disks, gates): (Vec<_>, Vec<_>) = (0..3).map(|_| gated_disk()).unzip();
    let cluster = Cluster::start_on(
        3,
        |config| config.node.timeout = timeout,
        |node| Arc::clone(&disks[node]) as Arc<dyn Disk>,
    );
    (cluster, gates)
}

#[test]
fn a_replica_that_does_not_sync_is_a_timeout_and_no_ack() {
    let (cluster, gates) = gated(Duration::from_millis(500));
    let key = cluster.key_on(&[0, 1, 2]);
    let target = |pair: &str| format!("/v0/entity?id={key}&replicas={pair}");
    let _opens = OpenOnDrop(Arc::clone(&gates[1]));
    gates[1].close();
    let (reply, took) = timed(|| cluster.client(2).put(&target("3/3"), b"v"));
    assert_receipt(
        &cluster,
        &reply,
        &[(0, "stored"), (1, "timeout"), (2, "stored")],
    );
    assert_eq!(reply.header("kvorum-acks"), Some("2/3"));
    assert!(took >= Duration::from_millis(500), "{took:?}");
    // The other two suffice, and no read returns a write that is not synced.
    assert_eq!(cluster.client(2).put(&target("2/3"), b"w").status, 201);
    assert_eq!(cluster.client(2).get(&target("2/3")).text(), "w");
    assert!(cluster.held_by(1, &key).is_none());
    gates[1].open();
    until("the write is stored", || {
        cluster
            .held_by(1, &key)
            .is_some_and(|(value, _)| value == "w")
    });
}

#[test]
fn a_full_disk_of_a_replica_is_a_line_in_the_receipt() {
    let disks: Vec<_> = (0..3).map(|_| Arc::new(MemoryDisk::new())).collect();
    let cluster = Cluster::start_on(
        3,
        |config| config.node.disk_reserve_bytes = 1 << 20,
        |node| Arc::clone(&disks[node]) as Arc<dyn Disk>,
    );
    let key = cluster.key_on(&[0, 1, 2]);
    let target = |pair: &str| format!("/v0/entity?id={key}&replicas={pair}");
    disks[1].set_capacity(disks[1].used_bytes());
    let value = vec![b'v'; 1 << 20];
    let puts = (0..256).map(|_| cluster.client(0).put(&target("3/3"), &value));
    let refused = puts.into_iter().find(|put| put.status != 201);
    let refused = refused.expect("the disk should become full");
    assert_receipt(
        &cluster,
        &refused,
        &[(0, "stored"), (1, "full"), (2, "stored")],
    );
    // Whoever looks at the cluster through another node is told, too.
    until("the advice to name the full disk", || {
        let cluster = cluster.client(0).get("/v0/cluster").json();
        let mut advice = cluster["advice"].as_array().unwrap().iter();
        advice.any(|advice| {
            let what = advice["what"].as_str().unwrap();
            advice["node"] == "b" && what.starts_with("its disk is too small for its reserve")
        })
    });
    // Enough other replicas make up for it, also for that of the coordinator.
    for node in 0..3 {
        assert_eq!(cluster.client(node).put(&target("2/3"), b"v").status, 201);
        assert_eq!(cluster.client(node).get(&target("2/3")).status, 200);
    }
    // If it is the only replica, the answer is still no 507: the receipt names it.
    let key = cluster.key_on(&[1, 0, 2]);
    let reply = cluster
        .client(1)
        .put(&format!("/v0/entity?id={key}&replicas=1/1"), b"v");
    assert_receipt(&cluster, &reply, &[(1, "full")]);
}
