//! What a node of a cluster shows of itself and of the others.

use crate::support::{Cluster, until};

#[test]
fn the_status_shows_the_cluster_as_the_node_sees_it() {
    let mut cluster = Cluster::start(3);
    for node in 0..3 {
        let status = cluster.status(node);
        assert_eq!(status["name"], ["a", "b", "c"][node]);
        assert_eq!(status["url"], cluster.url(node));
        assert_eq!(status["state"], "serving");
        assert!(status["version"].is_string() && status["uptime_seconds"].is_u64());
        let members = status["cluster"].as_array().unwrap();
        assert_eq!(members.len(), 3);
        for (other, member) in members.iter().enumerate() {
            assert_eq!(member["name"], ["a", "b", "c"][other]);
            assert_eq!(member["url"], cluster.url(other));
            let state = if other == node { "this node" } else { "up" };
            assert_eq!(member["state"], state);
            assert_eq!(
                (&member["hints"], &member["hint_bytes"]),
                (&0.into(), &0.into())
            );
            if other == node {
                assert!(member.get("clock_ahead_ms").is_none());
            } else {
                until("the clocks are compared", || {
                    let ahead_ms = cluster.member_at(node, other)["clock_ahead_ms"].as_i64();
                    ahead_ms.is_some_and(|ahead_ms| ahead_ms.abs() < 10_000)
                });
            }
        }
    }
    cluster.stop_node(1);
    cluster.stop_node(2);
    // The page does not depend on the other nodes.
    let mut client = cluster.client(0);
    let reply = client.get("/v0/status");
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json()["cluster"][1]["state"], "down");
    assert_eq!(client.put("/v0/entity?id=k&replicas=1/3", b"v").status, 201);
    for node in [1, 2] {
        assert_eq!(cluster.hints_at(0, node), 1);
    }
    // A scan of the node's own keys needs no other node.
    assert_eq!(client.get("/v0/entities?start=a").text(), "k\nv");
}

#[test]
fn the_metrics_show_peers_hints_and_repairs() {
    let mut cluster = Cluster::start(3);
    cluster.client(0).put("/v0/entity?id=k&replicas=3/3", b"v");
    cluster.stop_node(2);
    cluster.client(0).put("/v0/entity?id=k&replicas=2/3", b"v");
    assert_eq!(
        cluster.client(0).get("/v0/entity?id=k&replicas=3/3").status,
        504
    );
    let page = cluster.client(0).get("/metrics");
    let page = page.text();
    for line in [
        "kvorum_timestamp_pushes_total 0",
        "kvorum_read_repairs_total 0",
        "kvorum_hedges_total 0",
        "kvorum_hints_kept_total 1",
        "kvorum_hints_delivered_total 0",
        "kvorum_hints_dropped_total{reason=\"age\"} 0",
        "kvorum_not_enough_replicas_total{reason=\"refused\"} 1",
        "kvorum_not_enough_replicas_total{reason=\"timeout\"} 0",
        "kvorum_hints_waiting{peer=\"b\"} 0.0",
        "kvorum_hints_waiting{peer=\"c\"} 1.0",
        "kvorum_peer_calls_total{peer=\"c\",end=\"timeout\"} 0",
        "# TYPE kvorum_peer_latency_seconds gauge",
        "# TYPE kvorum_peer_calls_in_flight gauge",
        "# TYPE kvorum_hint_bytes gauge",
        "# TYPE kvorum_peer_connects_total counter",
        "# TYPE kvorum_peer_suspicions_total counter",
    ] {
        assert!(
            page.lines().any(|known| known == line),
            "{line} is not in {page}"
        );
    }
    // The gauges of links are updated from time to time.
    until("the metrics show which peers are up", || {
        cluster.metric(0, "kvorum_peer_up{peer=\"b\"}") == 1.0
            && cluster.metric(0, "kvorum_peer_up{peer=\"c\"}") == 0.0
    });
    let latency = "kvorum_peer_latency_seconds{peer=\"b\",request=\"write\"}";
    until("the metrics show the latency of a peer", || {
        cluster.metric(0, latency) > 0.0
    });
    let mut client = cluster.client(0);
    let accept = "accept: application/openmetrics-text\r\n";
    let open = client.request("GET", "/metrics", accept, b"");
    assert!(open.text().contains("kvorum_hints_waiting{peer=\"c\"} 1.0"));
    assert!(open.text().ends_with("# EOF\n"));
}
