//! How the nodes of a cluster are, as each of them says itself, seen through one of them.

use crate::support::{Cluster, until};
use serde_json::Value;

/// What a node says of another one.
fn line(cluster: &Cluster, at: usize, of: usize) -> Value {
    let reply = cluster.client(at).get("/v0/cluster");
    assert_eq!(reply.status, 200);
    reply.json()["nodes"][of].clone()
}

#[test]
fn each_node_tells_how_it_is_through_any_other() {
    let cluster = Cluster::start(3);
    let mut client = cluster.client(1);
    for at in 0..3 {
        let nodes = cluster.client(at).get("/v0/cluster").json();
        let nodes = nodes["nodes"].as_array().unwrap();
        let names: Vec<&str> = nodes
            .iter()
            .map(|node| node["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
        for (of, node) in nodes.iter().enumerate() {
            assert_eq!(node["url"], format!("{}", cluster.url(of)), "{node}");
        }
    }
    until("the node that clients ask to tell what they do", || {
        assert_eq!(client.put("/v0/entity?id=k", &[7; 1000]).status, 201);
        assert_eq!(client.get("/v0/entity?id=k").status, 200);
        let report = line(&cluster, 0, 1)["report"].clone();
        let quantile = |kind: &str, name: &str| report[kind][name].as_u64().unwrap_or(0);
        report["requests_a_second"].as_f64() > Some(0.0)
            && quantile("reads", "p50_us") > 0
            && quantile("writes", "p999_us") >= quantile("writes", "p50_us")
    });
    let told = line(&cluster, 0, 1);
    assert!(told["missed"].is_null(), "{told}");
    let report = &told["report"];
    assert!(report["data_bytes"].as_u64().unwrap() >= 1000, "{report}");
    assert_eq!(report["hints"], 0);
    // What it did lately says more: how many requests took how long.
    let recent = &told["recent"];
    let samples = recent["samples"].as_array().unwrap().iter();
    let counts = samples
        .chain([&recent["running"]])
        .flat_map(|sample| sample["writes"].as_array().unwrap());
    let writes: u64 = counts.map(|count| count.as_u64().unwrap()).sum();
    assert!(writes > 0, "{recent}");
    assert!(recent["bounds_us"].is_array(), "{recent}");
    // Nobody asks this one for a key.
    until("the idle node to tell that it is", || {
        let idle = line(&cluster, 1, 2)["report"].clone();
        idle["requests_a_second"] == 0.0 && idle["reads"].is_null() && idle["writes"].is_null()
    });
    assert_eq!(cluster.client(0).get("/v0/cluster?a=b").status, 400);
}

#[test]
fn a_node_that_is_away_or_of_an_older_release_says_nothing() {
    let mut cluster = Cluster::start_with(3, |config| {
        if config.node.name() == "c" {
            config.node.protocol.features &= !peer::EXAMINATION;
        }
    });
    for (at, of) in [(0, 2), (2, 0)] {
        until("the nodes to know each other's releases", || {
            let older = line(&cluster, at, of);
            older["missed"] == "unsupported" && older["report"].is_null()
        });
    }
    // Of itself a node knows all the same.
    assert!(line(&cluster, 2, 2)["missed"].is_null());

    cluster.stop_node(1);
    until("a node to notice that another one is away", || {
        line(&cluster, 0, 1)["missed"] == "refused"
    });
    assert!(line(&cluster, 0, 0)["report"].is_object());
    cluster.start_node(1);
    until("the node to tell again", || {
        line(&cluster, 0, 1)["report"].is_object()
    });
}

#[test]
fn every_node_tells_its_status_and_gives_the_same_advice_on_a_node_that_is_away() {
    let mut cluster = Cluster::start(3);
    let page = |cluster: &Cluster, at: usize| cluster.client(at).get("/v0/cluster").json();
    until("all nodes to need nobody", || {
        let page = page(&cluster, 1);
        let mut nodes = page["nodes"].as_array().unwrap().iter();
        page["advice"] == serde_json::json!([])
            && nodes.all(|node| node["status"]["replica_state"] == "voter")
    });
    cluster.stop_node(2);
    let put = cluster.client(0).put("/v0/entity?id=k", b"v");
    assert_eq!(put.status, 201);
    for at in [0, 1] {
        until(
            "the advice to name the node and the write that waits for it",
            || {
                let advice = &page(&cluster, at)["advice"][0];
                let what = advice["what"].as_str().unwrap_or_default();
                advice["node"] == "c"
                    && advice["severity"] == "bad"
                    && advice["runbook"] == "A node is down or silent"
                    && what.starts_with("it has been unreachable for")
                    && what.ends_with("and 1 write waits as hints for it")
            },
        );
    }
}

#[test]
fn hints_are_told_by_the_node_that_keeps_them() {
    let mut cluster = Cluster::start(3);
    cluster.stop_node(2);
    let put = cluster.client(0).put("/v0/entity?id=k", b"v");
    assert_eq!(put.status, 201);
    until("the hint to be told", || {
        line(&cluster, 1, 0)["report"]["hints"] == 1
    });
    cluster.start_node(2);
    until("the hint to be gone", || {
        line(&cluster, 1, 0)["report"]["hints"] == 0
    });
}
