//! Nodes whose clocks are wrong.

use crate::support::{Cluster, until};

/// How many seconds the clocks are ahead of the right time in each round.
const SKEWS: [[i64; 3]; 3] = [[300, -300, 0], [-1200, 1200, 0], [600, 0, -600]];

#[test]
fn a_later_write_wins_whatever_the_clocks_say() {
    let cluster = Cluster::start(3);
    for (round, skews) in SKEWS.into_iter().enumerate() {
        for (node, seconds) in skews.into_iter().enumerate() {
            cluster.clock(node).set_ahead_seconds(seconds);
        }
        // All orders of a first and a second coordinator, for acks that overlap.
        for (first, second) in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] {
            for pair in ["2/3", "2/2", "3/3", "1/1"] {
                let key = format!("k{round}{first}{second}{pair}");
                let target = format!("/v0/entity?id={key}&replicas={pair}");
                let step = |node: usize, method: &str, value: &str| {
                    let reply = cluster
                        .client(node)
                        .request(method, &target, "", value.as_bytes());
                    assert!(matches!(reply.status, 201 | 202), "{key} {method}");
                    for at in 0..3 {
                        let got = cluster.client(at).get(&target);
                        let status = if method == "PUT" { 200 } else { 404 };
                        assert_eq!(got.status, status, "{key} {method} by {node} at {at}");
                        assert_eq!(got.version(), reply.version());
                        assert!(method != "PUT" || got.text() == value);
                    }
                    reply.version()
                };
                let versions = [
                    step(first, "PUT", "1"),
                    step(second, "PUT", "2"),
                    step(first, "DELETE", ""),
                    step(second, "PUT", "3"),
                    step(second, "DELETE", ""),
                    step(first, "PUT", "4"),
                ];
                assert!(
                    versions.is_sorted_by(|left, right| left < right),
                    "{versions:?}"
                );
            }
        }
    }
    let pushes: f64 = (0..3)
        .map(|node| cluster.metric(node, "kvorum_timestamp_pushes_total "))
        .sum();
    assert!(
        pushes > 0.0,
        "no write was pushed although the clocks were apart"
    );
}

#[test]
fn a_write_with_a_ttl_wins_over_the_past_of_a_fast_clock() {
    let cluster = Cluster::start(3);
    cluster.clock(0).set_ahead_seconds(600);
    let target = "/v0/entity?id=k&replicas=2/3";
    cluster.client(0).put(target, b"fast");
    let put = cluster.client(1).put(&format!("{target}&ttl=60"), b"slow");
    // The write's timestamp is ahead of the node's clock, and its expiry is not.
    for node in [1, 2] {
        let reply = cluster.client(node).get(target);
        assert_eq!((reply.text(), reply.version()), ("slow", put.version()));
    }
    let reply = cluster.client(0).get(target);
    assert_eq!((reply.status, reply.version()), (404, put.version()));
}

#[test]
fn a_node_whose_clock_is_out_of_bounds_timestamps_no_writes() {
    let cluster = Cluster::start(3);
    let target = "/v0/entity?id=k";
    let put = cluster.client(0).put(target, b"v");
    assert_eq!(put.status, 201);
    cluster.clock(1).set_ahead_seconds(-7_200);
    until("the node notices that its clock is wrong", || {
        cluster.client(1).put("/v0/entity?id=probe", b"").status == 503
    });
    let mut client = cluster.client(1);
    for method in ["PUT", "DELETE"] {
        let reply = client.request(method, target, "", b"");
        assert_eq!(reply.status, 503, "{method}");
        let problem = reply.json();
        assert!(
            problem["type"].as_str().unwrap().ends_with(":clock"),
            "{problem}"
        );
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    // The node still reads, and stores writes that others timestamp.
    assert_eq!(client.get(target).version(), put.version());
    for node in [0, 2] {
        let reply = cluster
            .client(node)
            .put("/v0/entity?id=k&replicas=3/3", b"w");
        assert_eq!(
            (reply.status, reply.header("kvorum-acks")),
            (201, Some("3/3"))
        );
        assert_eq!(client.get(target).version(), reply.version());
    }
    let ahead_ms = cluster.member_at(1, 0)["clock_ahead_ms"].as_i64().unwrap();
    assert!((7_000_000..7_400_000).contains(&ahead_ms), "{ahead_ms}");
    // The others learn of it with a heartbeat.
    until("another node notices that this clock is wrong", || {
        let ahead_ms = cluster.member_at(0, 1)["clock_ahead_ms"].as_i64().unwrap();
        (-7_400_000..-7_000_000).contains(&ahead_ms)
    });
    cluster.clock(1).set_ahead_seconds(0);
    until("the node timestamps again", || {
        client.put(target, b"x").status == 201
    });
}

/// How far the clocks below are wrong: well beyond twice the bound.
const TEN_HOURS: i64 = 36_000;

fn refused_for_the_clock(reply: &crate::wire::Reply) -> bool {
    reply.status == 503 && reply.json()["type"].as_str().unwrap().ends_with(":clock")
}

/// No node could overwrite for hours what such a node would allocate timestamps.
#[test]
fn a_node_that_starts_with_a_wrong_clock_timestamps_nothing() {
    let mut cluster = Cluster::start(3);
    let target = "/v0/entity?id=k";
    cluster.stop_node(1);
    cluster.clock(1).set_ahead_seconds(TEN_HOURS);
    cluster.start_node(1);
    let mut client = cluster.client(1);
    for method in ["PUT", "DELETE"] {
        let reply = client.request(method, target, "", b"poison");
        assert!(refused_for_the_clock(&reply), "{method} {}", reply.status);
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    cluster.wait_until_joined();
    let why = cluster.status(1)["clock"]["refuses_writes"].clone();
    assert!(why.as_str().unwrap().contains("clock"), "{why}");
    assert_eq!(cluster.client(0).put(target, b"v").status, 201);
    cluster.clock(1).set_ahead_seconds(0);
    until("the node timestamps", || {
        client.put(target, b"w").status == 201
    });
    let status = cluster.status(1)["clock"].clone();
    assert!(status["refuses_writes"].is_null(), "{status}");
    assert!(
        status["timestamp_ahead_ms"].as_u64().unwrap() < 60_000,
        "{status}"
    );
    for (number, node) in [0, 1, 2, 1].into_iter().enumerate() {
        let value = number.to_string();
        let put = cluster
            .client(node)
            .put("/v0/entity?id=other", value.as_bytes());
        assert_eq!(put.status, 201);
        assert_eq!(cluster.client(2).get("/v0/entity?id=other").text(), value);
    }
}

#[test]
fn a_start_alone_among_peers_that_are_down_timestamps_nothing_until_one_is_up() {
    let mut cluster = Cluster::start(3);
    let target = "/v0/entity?id=k&replicas=1/1";
    for node in [0, 1, 2] {
        cluster.stop_node(node);
    }
    cluster.start_node(0);
    let reply = cluster.client(0).put(target, b"v");
    assert!(refused_for_the_clock(&reply), "{}", reply.status);
    cluster.start_node(2);
    until("a peer confirms the node's clock", || {
        cluster
            .client(0)
            .put("/v0/entity?id=k&replicas=2/3", b"v")
            .status
            == 201
    });
}

/// The clocks of all nodes were wrong, and were corrected.
#[test]
fn a_start_can_drop_versions_from_the_future() {
    let mut cluster = Cluster::start(3);
    let target = |key: &str| format!("/v0/entity?id={key}&replicas=3/3");
    assert_eq!(cluster.client(0).put(&target("past"), b"kept").status, 201);
    for node in [0, 1, 2] {
        cluster.clock(node).set_ahead_seconds(TEN_HOURS);
    }
    for node in [0, 1, 2] {
        let mut client = cluster.client(node);
        until("the nodes agree about the time", || {
            client.put(&target("future"), b"poison").status == 201
        });
    }
    for node in [0, 1, 2] {
        cluster.clock(node).set_ahead_seconds(0);
    }
    until("no node timestamps", || {
        let refused = |node| refused_for_the_clock(&cluster.client(node).put(&target("k"), b"v"));
        (0..3).all(refused)
    });
    for drops in [false, true] {
        for node in [0, 1, 2] {
            cluster.stop_node(node);
            cluster.change_config(node, |config| config.node.drop_future_versions = drops);
        }
        for node in [0, 1, 2] {
            cluster.start_node(node);
        }
        cluster.wait_until_joined();
        let reply = cluster.client(1).put(&target("k"), b"v");
        if drops {
            assert_eq!(reply.status, 201);
        } else {
            assert!(refused_for_the_clock(&reply), "{}", reply.status);
        }
    }
    let mut client = cluster.client(2);
    assert_eq!(client.get(&target("past")).text(), "kept");
    assert_eq!(client.get(&target("future")).status, 404);
    assert_eq!(client.put(&target("future"), b"sound").status, 201);
    assert_eq!(client.get(&target("future")).text(), "sound");
}
