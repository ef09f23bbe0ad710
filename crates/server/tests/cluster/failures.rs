//! Nodes that are down or slow: what still works, and the receipts of what
//! does not.

use crate::support::{Cluster, OpensAtLast, timed, until};
use crate::wire::{Reply, gated_disk};
use lsm::{Disk, MemoryDisk};
use std::sync::Arc;
use std::time::Duration;

/// What a receipt says became of each replica.
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

/// Checks the lines of a receipt, in the order of the key's ranking. Where it
/// was clear early that too few would do, those that were not waited for are
/// `unanswered`.
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
fn two_nodes_of_three_serve_a_quorum_and_one_serves_what_one_can() {
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
        // The version that `PUT 2/2` acknowledged is seen by `GET 1/2`, and a
        // `GET 2/2` is no answer.
        assert_eq!(client.get(&target("1/2")).status, 200);
        let reply = client.get(&target("2/2"));
        assert_receipt(&cluster, &reply, &[(2, "refused"), (0, "value")]);
        assert!(reply.json().get("timestamp").is_none(), "a read has none");
        // Only the node that is down has it.
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
    let stamp: u64 = reply.json()["timestamp"].as_str().unwrap().parse().unwrap();
    // It counts as still running, and here it comes true.
    until("the deletion is seen", || {
        let reply = client.get(&target("2/3"));
        reply.status == 404 && reply.version() == stamp
    });

    cluster.stop_node(1);
    let mut client = cluster.client(0);
    for method in ["PUT", "GET", "DELETE", "HEAD"] {
        // It is clear at once, and is said at once.
        let (reply, took) = timed(|| client.request(method, &target("2/3"), "", b""));
        assert_eq!(reply.status, 504, "{method}");
        assert!(
            took < Duration::from_secs(5),
            "{method} took {took:?} of 30 s"
        );
        let reply = client.request(method, &target("1/3"), "", b"");
        let status = match method {
            "PUT" => 201,
            "DELETE" => 202,
            _ => 200,
        };
        // The last one reads what DELETE has left.
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

/// A cluster whose disks with these numbers wait while their gates are closed.
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
    let _opens = OpensAtLast(Arc::clone(&gates[1]));
    gates[1].close();
    let (reply, took) = timed(|| cluster.client(2).put(&target("3/3"), b"v"));
    assert_receipt(
        &cluster,
        &reply,
        &[(0, "stored"), (1, "timeout"), (2, "stored")],
    );
    assert_eq!(reply.header("kvorum-acks"), Some("2/3"));
    assert!(took >= Duration::from_millis(500), "{took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    // The two others are enough, and no read shows what is not synced.
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
fn a_full_disk_of_a_replica_is_a_line_of_the_receipt() {
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
    let refused = refused.expect("the disk is full at last");
    assert_receipt(
        &cluster,
        &refused,
        &[(0, "stored"), (1, "full"), (2, "stored")],
    );
    // With enough others it does not matter, also where it is the coordinator itself.
    for node in 0..3 {
        assert_eq!(cluster.client(node).put(&target("2/3"), b"v").status, 201);
        assert_eq!(cluster.client(node).get(&target("2/3")).status, 200);
    }
    // Alone it is no 507 either: others coordinate, the receipt tells who.
    let key = cluster.key_on(&[1, 0, 2]);
    let reply = cluster
        .client(1)
        .put(&format!("/v0/entity?id={key}&replicas=1/1"), b"v");
    assert_receipt(&cluster, &reply, &[(1, "full")]);
}
