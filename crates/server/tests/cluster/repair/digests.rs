//! `/v0/digest`: whether nodes keep the same, as anyone can see.

use crate::repair::tombstone_gc::{gc_threshold_at, repair_fully, with_tombstone_gc};
use crate::support::{Cluster, until};
use serde_json::Value;
use server::ServerConfig;

/// Nothing makes nodes equal but the writes of a test.
fn without_repairs(config: &mut ServerConfig) {
    config.node.repair_interval = None;
    config.node.full_repair_interval = None;
}

fn digest(cluster: &Cluster, node: usize, query: &str) -> Value {
    let target = format!("/v0/digest?start=%00{query}");
    let reply = cluster.client(node).get(&target);
    assert_eq!(reply.status, 200, "{target}: {}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/json"));
    reply.json()
}

/// The digests of all nodes, for the cut and the GC threshold that the first one chooses.
fn digests(cluster: &Cluster, query: &str) -> Vec<Value> {
    let first = digest(cluster, 0, query);
    let of_first = |name: &str| first[name].as_str().unwrap();
    let (cut, gc_threshold) = (of_first("cut"), of_first("gc_threshold"));
    let query = format!("{query}&cut={cut}&gc_threshold={gc_threshold}");
    (0..3).map(|node| digest(cluster, node, &query)).collect()
}

fn put(cluster: &Cluster, key: &str, pair: &str, value: &str) -> u64 {
    let target = format!("/v0/entity?id={key}&replicas={pair}");
    let put = cluster.client(0).put(&target, value.as_bytes());
    assert_eq!(put.status, 201, "{}", put.text());
    put.version()
}

fn delete(cluster: &Cluster, key: &str, pair: &str) -> u64 {
    let target = format!("/v0/entity?id={key}&replicas={pair}");
    let deleted = cluster.client(0).delete(&target);
    assert_eq!(deleted.status, 202, "{}", deleted.text());
    deleted.version()
}

#[test]
fn replicas_that_agree_give_the_same_digest_and_others_do_not() {
    let cluster = Cluster::start_with(3, without_repairs);
    for number in 0..50 {
        put(&cluster, &format!("k{number:02}"), "3/3", "value");
    }
    delete(&cluster, "k07", "3/3");
    let client = &mut cluster.client(1);
    let expiring = client.put("/v0/entity?id=k08&replicas=3/3&ttl=3600", b"value");
    assert_eq!(expiring.status, 201);
    let equal = digests(&cluster, "");
    assert_eq!(equal[0], equal[1]);
    assert_eq!(equal[0], equal[2]);
    assert_eq!(equal[0]["count"], 50, "a deleted key counts: {}", equal[0]);
    assert_eq!(equal[0]["bytes"], 50 * 3 + 49 * 5);
    assert_eq!(equal[0]["gc_threshold"], "0");
    let hex = equal[0]["digest"].as_str().unwrap();
    assert!(hex.len() == 32 && hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
    // Once a copy is newer than the others, of the same length or deleted, that node
    // differs, in the range that holds it and in no other.
    let key = cluster.key_on(&[2]);
    let newer: [fn(&Cluster, &str) -> u64; 2] = [
        |cluster, key| put(cluster, key, "1/1", "other"),
        |cluster, key| delete(cluster, key, "1/1"),
    ];
    for change in newer {
        put(&cluster, &key, "3/3", "value");
        let equal = digests(&cluster, "");
        assert_eq!(equal[0], equal[2]);
        change(&cluster, &key);
        let different = digests(&cluster, "");
        assert_eq!(different[0], different[1]);
        assert_eq!(different[0]["count"], different[2]["count"]);
        assert_ne!(different[0]["digest"], different[2]["digest"]);
        let cut = different[0]["cut"].as_str().unwrap();
        let within = |node, start: &str, end: &str| {
            let target = format!("/v0/digest?start={start}&end={end}&cut={cut}");
            cluster.client(node).get(&target).json()
        };
        assert_eq!(within(0, "a", &key), within(2, "a", &key));
        let behind = format!("{key}%00");
        assert_eq!(within(0, &behind, "z"), within(2, &behind, "z"));
        assert_ne!(within(0, &key, &behind), within(2, &key, &behind));
    }
}

#[test]
fn with_a_peer_only_the_keys_of_both_nodes_count() {
    let cluster = Cluster::start_with(3, without_repairs);
    for number in 0..60 {
        put(&cluster, &format!("k{number:02}"), "2/2", "value");
    }
    let own = digests(&cluster, "");
    assert_ne!(own[0]["digest"], own[1]["digest"]);
    let cut = own[0]["cut"].as_str().unwrap();
    let mut counts = 0;
    for (node, name, peer, peer_name) in [(0, "a", 1, "b"), (0, "a", 2, "c"), (1, "b", 2, "c")] {
        let here = digest(&cluster, node, &format!("&cut={cut}&peer={peer_name}"));
        let there = digest(&cluster, peer, &format!("&cut={cut}&peer={name}"));
        assert_eq!(here, there, "{name} and {peer_name}");
        assert!(here["count"].as_u64() < own[node]["count"].as_u64());
        counts += here["count"].as_u64().unwrap();
    }
    assert_eq!(counts, 60);
}

#[test]
fn newer_versions_and_collected_deletions_are_left_out() {
    let cluster = Cluster::start_with(3, without_repairs);
    put(&cluster, "a", "3/3", "old");
    let second = put(&cluster, "b", "3/3", "old");
    let before = digest(&cluster, 1, &format!("&cut={second}"));
    assert_eq!(before["count"], 2);
    assert_eq!(before["cut"], second.to_string());
    put(&cluster, "c", "3/3", "new");
    assert_eq!(digest(&cluster, 1, &format!("&cut={second}")), before);
    // A key with a newer version is left out whole.
    put(&cluster, "a", "3/3", "new");
    let without = digest(&cluster, 1, &format!("&cut={second}"));
    assert_eq!(without["count"], 1);

    let all = digest(&cluster, 1, "");
    let deleted = delete(&cluster, "d", "3/3");
    assert_eq!(digest(&cluster, 1, "")["count"], 4);
    let still = digest(&cluster, 1, &format!("&gc_threshold={deleted}"));
    assert_eq!(still["count"], 4, "it is not below the bound");
    let gc_threshold = deleted + 1;
    let without = digest(&cluster, 1, &format!("&gc_threshold={gc_threshold}"));
    assert_eq!(without["digest"], all["digest"]);
    assert_eq!(without["gc_threshold"], gc_threshold.to_string());
}

#[test]
fn what_the_cluster_has_collected_does_not_count_by_itself() {
    let cluster = Cluster::start_with(3, with_tombstone_gc);
    put(&cluster, "kept", "3/3", "v");
    put(&cluster, "gone", "3/3", "v");
    let deleted = delete(&cluster, "gone", "3/3");
    let digests_before = digests(&cluster, "");
    assert_eq!(digests_before[1]["count"], 2, "{}", digests_before[1]);
    let written_unix_ms = cluster.status(0)["clock"]["unix_ms"].as_u64();
    until("the deletion is below the GC threshold", || {
        repair_fully(&cluster, 1);
        (0..3).all(|node| gc_threshold_at(&cluster, node) > written_unix_ms)
    });
    // Each node may have dropped the tombstone by now, or not.
    let digests = digests(&cluster, "");
    assert_eq!(digests[0], digests[1]);
    assert_eq!(digests[0], digests[2]);
    assert_eq!(digests[0]["count"], 1);
    let gc_threshold: u64 = digests[0]["gc_threshold"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(gc_threshold > deleted, "{gc_threshold}");
}

#[test]
fn a_request_that_is_not_right_is_refused() {
    let cluster = Cluster::start_with(2, without_repairs);
    for (method, query, status) in [
        ("PUT", "?start=a", 405),
        ("DELETE", "?start=a", 405),
        ("POST", "?start=a", 405),
        ("GET", "", 400),
        ("GET", "?start=", 400),
        ("GET", "?start=a&end=", 400),
        ("GET", "?start=a&peer=a", 400),
        ("GET", "?start=a&peer=x", 400),
        ("GET", "?start=a&cut=soon", 400),
        ("GET", "?start=a&gc_threshold=-1", 400),
        ("GET", "?start=a&limit=1", 400),
        ("GET", "?start=a&start=a", 400),
        ("GET", "/", 400),
        ("GET", "?start=b&end=a", 200),
        ("HEAD", "?start=a", 200),
        ("HEAD", "?start=", 400),
    ] {
        let target = format!("/v0/digest{query}");
        let reply = cluster.client(0).request(method, &target, "", b"");
        assert_eq!(reply.status, status, "{method} {query} {}", reply.text());
        assert_eq!(reply.header("allow").is_some(), status == 405);
        if (method, query) == ("GET", "?start=b&end=a") {
            assert_eq!(reply.json()["count"], 0);
        }
    }
}
