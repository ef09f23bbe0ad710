//! What a store has set aside is listed, restored and discarded by an operator.

use crate::support::Cluster;
use crate::wire::Reply;
use base::{Entry, Expiry, Timestamp};
use lsm::{Engine, Environment, Options, SetAsideKeys};
use lsm_testing::{BlockingWrite, MemoryDisk, environment};
use std::sync::{Arc, Mutex};

const JSON: &str = "content-type: application/json\r\n";

fn set_aside(cluster: &Cluster, method: &str, query: &str) -> Reply {
    let target = format!("/v0/admin/set-aside{query}");
    cluster.client(2).request(method, &target, JSON, b"")
}

fn possibly_lost_at(cluster: &Cluster, node: usize) -> f64 {
    cluster.metric(node, "kvorum_writes_possibly_lost ")
}

/// Takes all out of a store, and a version besides that no other node has.
fn set_all_aside(disk: &Arc<MemoryDisk>) {
    let (environment, _executor) = environment(Arc::clone(disk) as _);
    let environment = Environment {
        folder: "store".into(),
        ..environment
    };
    let (engine, _) = Engine::open(environment, Options::default()).unwrap();
    let after = |steps| Timestamp::from_u64(engine.greatest_timestamp().as_u64() + steps);
    for (key, steps) in [(&b"only"[..], 1), (b"\xff", 2)] {
        let only = Entry::value(key, after(steps), b"mine", Expiry::NEVER, 3);
        engine.write(only).unwrap();
    }
    engine.set_aside(after(3), SetAsideKeys::All).unwrap();
    engine.close().unwrap();
}

#[test]
fn copies_that_no_other_node_has_come_back_at_the_word_of_an_operator() {
    let disks: Mutex<Vec<Arc<MemoryDisk>>> = Mutex::default();
    let without_repairs = |config: &mut server::ServerConfig| {
        config.node.repair_interval = None;
        config.node.full_repair_interval = None;
    };
    let mut cluster = Cluster::start_on(3, without_repairs, |_| {
        let disk = Arc::new(MemoryDisk::new());
        disks.lock().unwrap().push(Arc::clone(&disk));
        disk
    });
    for key in ["a", "b"] {
        let target = format!("/v0/entity?id={key}&replicas=3/3");
        assert_eq!(cluster.client(0).put(&target, b"all").status, 201);
    }
    cluster.stop_node(2);
    set_all_aside(&disks.lock().unwrap()[2]);
    cluster.start_node(2);
    cluster.wait_until_joined();

    let list = |query: &str| {
        let listed = set_aside(&cluster, "GET", query);
        assert_eq!(listed.status, 200, "{}", listed.text());
        listed.json()
    };
    let page = list("");
    let found = |copy: &serde_json::Value| {
        let key = copy["key"].as_str().or(copy["key_base64"].as_str());
        (
            key.unwrap().to_owned(),
            copy["found"].as_str().unwrap().to_owned(),
        )
    };
    let copies = page["copies"].as_array().unwrap();
    let all: Vec<_> = copies.iter().map(found).collect();
    let expected = [
        ("a", "elsewhere"),
        ("b", "elsewhere"),
        ("only", "nowhere"),
        ("/w==", "nowhere"),
    ];
    let expected = expected.map(|(key, found)| (key.to_owned(), found.to_owned()));
    assert_eq!(all, expected, "{page}");
    let status = &cluster.status(2)["store"]["set_aside"];
    assert_eq!(status["below"], page["below"]);
    assert_ne!(cluster.metric(2, "kvorum_store_set_aside_bytes "), 0.0);
    // Until the operator decides it counts as possibly lost, on this node and no other one.
    let possibly_lost = [0, 1, 2].map(|node| possibly_lost_at(&cluster, node));
    assert_eq!(possibly_lost, [0.0, 0.0, 4.0]);
    let may_be_lost = &cluster.status(2)["may_be_lost"];
    assert_eq!(may_be_lost["set_aside"], 4, "{may_be_lost}");
    assert_eq!(may_be_lost["writes_max"], 4, "{may_be_lost}");
    // Page by page.
    let first = list("?limit=2");
    assert_eq!(first["copies"].as_array().unwrap().len(), 2);
    assert_eq!(first["next"], "only");
    let second = list("?limit=2&start=only");
    assert_eq!(second["copies"].as_array().unwrap().len(), 2);
    assert!(second.get("next").is_none(), "{second}");

    // Only what no other node has is written anew.
    for key in ["a", "none"] {
        let refused = set_aside(&cluster, "POST", &format!("?id={key}"));
        assert_eq!(refused.status, 404, "{}", refused.text());
    }
    let restored = set_aside(&cluster, "POST", "?id=only");
    assert_eq!(restored.status, 201, "{}", restored.text());
    let got = cluster.client(0).get("/v0/entity?id=only&replicas=2/3");
    assert_eq!((got.status, got.text()), (200, "mine"));
    assert_eq!(set_aside(&cluster, "POST", "?id=only").status, 404);
    // While a node is down nobody knows whether it holds something newer.
    cluster.stop_node(1);
    let unknown = set_aside(&cluster, "POST", "?id=%FF");
    assert_eq!(unknown.status, 504, "{}", unknown.text());
    assert!(unknown.text().contains("copy-not-compared"));

    let below = page["below"].as_str().unwrap();
    let discarded = set_aside(&cluster, "DELETE", &format!("?up_to={below}"));
    assert_eq!(discarded.status, 200, "{}", discarded.text());
    assert_eq!(discarded.json()["tables"], 0);
    assert_eq!(
        set_aside(&cluster, "GET", "").json()["copies"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    assert!(cluster.status(2)["store"].get("set_aside").is_none());
    assert!(cluster.status(2).get("may_be_lost").is_none());
    assert_eq!(possibly_lost_at(&cluster, 2), 0.0);
}
