//! Repairs as an operator asks for them and sees them.

use crate::support::{Cluster, until};
use crate::wire::Reply;
use server::ServerConfig;
use std::time::Duration;

const JSON: &str = "content-type: application/json\r\n";

/// No repair begins by itself. A full repair session waits for two timeouts while a store does not
/// count, so the timeout is short.
fn without_repairs(config: &mut ServerConfig) {
    config.node.repair_interval = None;
    config.node.full_repair_interval = None;
    config.node.timeout = Duration::from_millis(500);
}

fn repair(cluster: &Cluster, node: usize, query: &str) -> Reply {
    let target = format!("/v0/admin/repair{query}");
    cluster.client(node).request("POST", &target, JSON, b"")
}

#[test]
fn a_repair_brings_what_no_hint_and_no_read_did() {
    let mut cluster = Cluster::start_with(3, without_repairs);
    let key = cluster.key_on(&[0, 1, 2]);
    let target = format!("/v0/entity?id={key}&ack=2&from=3");
    cluster.stop_node(2);
    assert_eq!(cluster.client(0).put(&target, b"v").status, 201);
    until("the hint is kept", || cluster.hints_at(0, 2) == 1);
    cluster.stop_node(0);
    cluster.lose_hints(0);
    cluster.start_node(0);
    cluster.start_node(2);
    cluster.wait_until_joined();
    assert_eq!(cluster.held_by(2, &key), None);
    assert!(cluster.member_at(0, 2).get("last_repair_unix_ms").is_none());

    let repaired = repair(&cluster, 0, "?full=true&wait=true");
    assert_eq!(repaired.status, 200, "{}", repaired.text());
    let report = repaired.json();
    assert_eq!(report["kind"], "full");
    assert_eq!(report["state"], "ended");
    assert_eq!(report["joined"], false);
    assert_eq!(report["equal"], true, "{report}");
    assert_eq!(report["pairs"], 3);
    assert_eq!(report["pairs_equal"], 3);
    assert!(report["ranges"].as_u64().unwrap() >= 1);
    assert!(report["ranges_differing"].as_u64().unwrap() >= 1);
    assert_eq!(cluster.held_by(2, &key).unwrap().0, "v");

    for node in 0..3 {
        let status = cluster.status(node);
        let share = status["background"]["share"].as_f64().unwrap();
        assert!(share > 0.0 && share <= 1.0, "{share}");
        assert_eq!(status["hints"]["age_max_seconds"], 3 * 3600);
        assert_eq!(status["hints"]["bytes_max"], 1 << 30);
        let repair = &status["repair"];
        assert!(repair.get("rebuild").is_none(), "nothing is being rebuilt");
        assert_eq!(repair["full"]["succeeded"], 1, "{repair}");
        assert_eq!(repair["full"]["incomplete"], 0);
        assert_eq!(repair["incremental"]["succeeded"], 0);
        assert!(repair["full"]["last_end_unix_ms"].is_u64());
        assert!(repair["running"].as_array().unwrap().is_empty());
        assert!(repair["full"].get("interval_seconds").is_none());
        for other in 0..3 {
            let member = &status["cluster"][other];
            assert_eq!(member["last_repair_unix_ms"].is_u64(), other != node);
            assert_eq!(member["last_full_repair_unix_ms"].is_u64(), other != node);
        }
        let succeeded = "kvorum_repair_sessions_total{kind=\"full\",outcome=\"succeeded\"}";
        assert_eq!(cluster.metric(node, succeeded), 1.0);
    }
    let received = "kvorum_repair_writes_total{direction=\"received\"}";
    assert!(cluster.metric(2, received) >= 1.0);
    assert!(
        cluster.status(2)["repair"]["repair_writes_received"]
            .as_u64()
            .unwrap()
            >= 1
    );
    // The coordinator asks, and the node of the lower ID brings the two together.
    for direction in ["sent", "received"] {
        let bytes = format!("kvorum_repair_bytes_total{{direction=\"{direction}\"}}");
        until("the bytes are counted", || {
            cluster.metric(0, &bytes) > 100.0
        });
    }
    let last_equal = "kvorum_repair_last_success_timestamp_seconds{peer=\"c\"}";
    assert!(cluster.metric(0, last_equal) > 0.0);
}

#[test]
fn a_repair_without_a_node_ends_and_says_that_it_is_incomplete() {
    let mut cluster = Cluster::start_with(3, without_repairs);
    assert!(cluster.member_at(0, 2).get("down_seconds").is_none());
    cluster.stop_node(2);
    assert!(cluster.member_at(0, 2)["down_seconds"].is_u64());
    assert!(cluster.member_at(0, 1).get("down_seconds").is_none());
    let report = repair(&cluster, 0, "?wait=true").json();
    assert_eq!(report["kind"], "incremental");
    assert_eq!(report["equal"], false, "{report}");
    assert_eq!(report["pairs_equal"], 1);
    let status = cluster.status(0);
    assert_eq!(status["repair"]["incremental"]["incomplete"], 1);
    assert!(status["cluster"][1]["last_repair_unix_ms"].is_u64());
    assert!(
        status["cluster"][1]
            .get("last_full_repair_unix_ms")
            .is_none()
    );
    assert!(status["cluster"][2].get("last_repair_unix_ms").is_none());
}

#[test]
fn one_pass_runs_at_a_time_and_another_request_joins_it() {
    // While it is unknown how a store stands, a full repair session waits for two timeouts, so
    // that there is time to join it.
    let mut cluster = Cluster::start_with(3, |config| {
        without_repairs(config);
        config.node.timeout = Duration::from_secs(2);
    });
    cluster.stop_node(2);
    let ordered = repair(&cluster, 1, "?full=true");
    assert_eq!(ordered.status, 202, "{}", ordered.text());
    assert_eq!(ordered.json()["state"], "ordered");
    // A full repair session compares what a recent one would.
    let joined = repair(&cluster, 1, "?wait=true");
    assert_eq!(joined.status, 200, "{}", joined.text());
    assert_eq!(joined.json()["kind"], "full");
    assert_eq!(joined.json()["joined"], true);
    assert_eq!(cluster.status(1)["repair"]["full"]["incomplete"], 1);
    assert_eq!(cluster.status(1)["repair"]["incremental"]["incomplete"], 0);
}

#[test]
fn a_request_that_is_not_right_begins_no_repair() {
    let cluster = Cluster::start_with(2, without_repairs);
    for (method, query, head, status) in [
        ("GET", "", "", 405),
        ("PUT", "", "", 405),
        ("POST", "", "", 415),
        ("POST", "", "content-type: text/plain\r\n", 415),
        ("POST", "?full=yes", JSON, 400),
        ("POST", "?all=true", JSON, 400),
        ("POST", "/", JSON, 400),
    ] {
        let target = format!("/v0/admin/repair{query}");
        let reply = cluster.client(0).request(method, &target, head, b"");
        assert_eq!(reply.status, status, "{method} {query} {}", reply.text());
    }
    let status = cluster.status(0);
    assert!(status["repair"]["running"].as_array().unwrap().is_empty());
    assert_eq!(status["repair"]["incremental"]["succeeded"], 0);
    let alone = Cluster::start(1);
    let reply = repair(&alone, 0, "");
    assert_eq!(reply.status, 409, "{}", reply.text());
    assert_eq!(reply.json()["type"], "urn:kvorum:problem:no-other-nodes");
}
