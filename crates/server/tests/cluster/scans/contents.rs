//! Scans of the whole cluster: what they tell, what they repair, and when they end early.

use crate::support::{Cluster, until};
use crate::wire::{Client, Reply};
use server::ServerConfig;
use std::time::Duration;

const NDJSON: &str = "accept: application/x-ndjson\r\nte: trailers\r\n";

/// No repair runs, so only reads repair.
fn without_repairs(config: &mut ServerConfig) {
    config.node.repair_interval = None;
    config.node.full_repair_interval = None;
}

/// The keys and values that a whole scan tells.
fn told(reply: &Reply) -> Vec<(String, String)> {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let lines = reply.text().lines();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("").to_owned();
    let told: Vec<_> = lines
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| (text(&line["key"]), text(&line["value"])))
        .collect();
    assert_eq!(
        reply.trailer("kvorum-count"),
        Some(&*told.len().to_string())
    );
    let digest = format!("crc32c={:08X}", base::crc32c(&reply.body));
    assert_eq!(reply.trailer("kvorum-digest"), Some(&*digest));
    told
}

fn scan(client: &mut Client, query: &str) -> Reply {
    let target = format!("/v0/entities?scope=cluster&{query}");
    client.request("GET", &target, NDJSON, b"")
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    expected.iter().map(owned).collect()
}

#[test]
fn a_level_of_the_clusters_tree_is_told_although_a_node_is_missing() {
    let mut cluster = Cluster::start(3);
    let mut client = cluster.client(0);
    let value = vec![b'v'; 4 << 10];
    for group in ["a", "b", "c"] {
        for number in 0..100 {
            let target = format!("/v0/entity?id={group}%2F{number}&replicas=2/3");
            assert_eq!(client.put(&target, &value).status, 201);
        }
    }
    client.put("/v0/entity?id=d&replicas=2/3", b"v");
    let told = |client: &mut Client| {
        let reply = scan(client, "delimiter=%2F&values=omit&replicas=2/3");
        let lines = reply.text().lines();
        let lines = lines.map(|line| serde_json::from_str(line).unwrap());
        let told = lines.map(|line: serde_json::Value| {
            let prefix = line["prefix"].as_str().or(line["key"].as_str());
            prefix.unwrap().to_owned()
        });
        let told: Vec<String> = told.collect();
        assert_eq!(reply.trailer("kvorum-count"), Some("4"), "{told:?}");
        told
    };
    assert_eq!(told(&mut client), ["a/", "b/", "c/", "d"]);
    cluster.stop_node(2);
    assert_eq!(told(&mut client), ["a/", "b/", "c/", "d"]);
}

#[test]
fn each_key_of_the_cluster_is_told_once_and_in_order() {
    let cluster = Cluster::start(3);
    let mut client = cluster.client(0);
    let puts = [
        ("a", "1/1"),
        ("b", "2/2"),
        ("c", "2/3"),
        ("d", "3/3"),
        ("e", "1/1"),
        ("f", "1/1"),
    ];
    for (key, pair) in puts {
        let put = client.put(
            &format!("/v0/entity?id={key}&replicas={pair}"),
            key.as_bytes(),
        );
        assert_eq!(put.status, 201);
    }
    client.put("/v0/entity?id=g&replicas=3/3", b"");
    client.delete("/v0/entity?id=d&replicas=3/3");
    let all = pairs(&[
        ("a", "a"),
        ("b", "b"),
        ("c", "c"),
        ("e", "e"),
        ("f", "f"),
        ("g", ""),
    ]);
    for node in 0..3 {
        let mut client = cluster.client(node);
        assert_eq!(told(&scan(&mut client, "start=a")), all, "at {node}");
        assert_eq!(told(&scan(&mut client, "start=b&end=e")), all[1..3]);
        assert_eq!(told(&scan(&mut client, "prefix=f")), all[4..5]);
        assert_eq!(told(&scan(&mut client, "start=a&limit=2")), all[..2]);
        assert_eq!(told(&scan(&mut client, "start=b%00&limit=2")), all[2..4]);
        assert_eq!(told(&scan(&mut client, "start=x")), []);
        assert_eq!(told(&scan(&mut client, "start=b&end=a")), []);
        let count = scan(&mut client, "start=a&count=only");
        assert_eq!(count.json(), serde_json::json!({"count": 6}));
        let count = scan(&mut client, "start=a&count=only&limit=4");
        assert_eq!(count.json(), serde_json::json!({"count": 4}));
        let keys = scan(&mut client, "start=a&values=omit");
        assert_eq!(keys.text().lines().count(), 6);
        assert!(!keys.text().contains("value"));
        let plain = client.get("/v0/entities?scope=cluster&start=a&end=c");
        assert_eq!((plain.text(), plain.chunks.len()), ("a\nab\nb", 2));
    }
}

#[test]
fn a_scan_over_many_pages_is_complete_and_has_long_values() {
    let cluster = Cluster::start(3);
    let mut client = cluster.client(0);
    let long = "l".repeat(300_000);
    let value = |number: usize| match number % 100 {
        17 => long.clone(),
        rest => "v".repeat(rest * 40),
    };
    for number in 0..600 {
        let target = format!("/v0/entity?id=k{number:03}&replicas=3/3");
        client.put(&target, value(number).as_bytes());
    }
    for (query, step) in [
        ("start=k", 1),
        ("start=k&from=2", 1),
        ("start=k&replicas=1/1", 1),
    ] {
        let told = told(&scan(&mut client, query));
        assert_eq!(told.len(), 600 / step, "{query}");
        for (number, (key, told)) in told.iter().enumerate() {
            assert_eq!(*key, format!("k{number:03}"));
            assert!(*told == value(number), "{query} {key}");
        }
    }
}

#[test]
fn a_pair_says_how_many_nodes_may_be_missing_however_many_there_are() {
    let mut cluster = Cluster::start_with(5, without_repairs);
    let mut client = cluster.client(0);
    let mut expected = Vec::new();
    for number in 0..60 {
        let key = format!("k{number:02}");
        let put = client.put(&format!("/v0/entity?id={key}&replicas=2/2"), b"v");
        assert_eq!(put.status, 201);
        expected.push((key, "v".to_owned()));
    }
    for query in ["start=k&replicas=1/2", "start=k&replicas=2/2", "start=k"] {
        assert_eq!(told(&scan(&mut client, query)), expected, "{query}");
    }
    cluster.stop_node(4);
    let mut client = cluster.client(0);
    for query in ["start=k&replicas=1/2", "start=k&replicas=4/5", "start=k"] {
        assert_eq!(told(&scan(&mut client, query)), expected, "{query}");
    }
    for query in [
        "start=k&replicas=2/2",
        "start=k&replicas=1/1",
        "start=k&ack=5",
    ] {
        let reply = scan(&mut client, query);
        assert_eq!(reply.status, 504, "{query}");
        let problem = reply.json();
        assert_eq!(problem["type"], "urn:kvorum:problem:too-few-nodes");
        let lines = problem["replicas"].as_array().unwrap();
        for (node, line) in lines.iter().enumerate() {
            let outcome = if node == 4 { "refused" } else { "answered" };
            assert_eq!(line["url"], cluster.url(node));
            assert_eq!(line["outcome"], outcome, "{query}");
        }
        let count = scan(&mut client, &format!("{query}&count=only"));
        assert_eq!(count.status, 504);
    }
}

#[test]
fn replicas_that_differ_are_repaired_before_the_key_is_returned() {
    let mut cluster = Cluster::start_with(3, without_repairs);
    let key = cluster.key_on(&[0, 1, 2]);
    let target = format!("/v0/entity?id={key}");
    let mut client = cluster.client(0);
    client.put(&format!("{target}&replicas=3/3"), b"old");
    client.put("/v0/entity?id=x&replicas=3/3", b"same");
    cluster.stop_node(2);
    let put = cluster.client(0).put(&target, b"new");
    assert_eq!(put.status, 201);
    cluster.client(0).put("/v0/entity?id=y", b"added");
    until("the hints are kept", || cluster.hints_at(0, 2) == 2);
    cluster.stop_node(0);
    cluster.lose_hints(0);
    cluster.start_node(0);
    cluster.start_node(2);
    cluster.wait_until_joined();
    assert_eq!(cluster.held_by(2, &key).unwrap().0, "old");
    assert_eq!(cluster.held_by(2, "y"), None);
    let reads = cluster.metric(1, "kvorum_scan_reads_total");
    let mut expected = pairs(&[(&key, "new"), ("x", "same"), ("y", "added")]);
    expected.sort();
    // The stale replica is repaired whether its answer was needed or not.
    let reply = scan(&mut cluster.client(1), "start=%00&replicas=2/3");
    assert_eq!(told(&reply), expected);
    assert_eq!(
        cluster.held_by(2, &key).unwrap(),
        ("new".to_owned(), put.version())
    );
    assert_eq!(cluster.held_by(2, "y").unwrap().0, "added");
    assert_eq!(cluster.metric(1, "kvorum_scan_reads_total"), reads + 2.0);
    // Now all agree.
    assert_eq!(told(&scan(&mut cluster.client(1), "start=%00")), expected);
    assert_eq!(cluster.metric(1, "kvorum_scan_reads_total"), reads + 2.0);
}

#[test]
fn the_node_that_tells_a_scan_decides_by_its_own_clock_what_has_expired() {
    let cluster = Cluster::start(3);
    let target = "/v0/entity?id=k&replicas=3/3&ttl=100";
    assert_eq!(cluster.client(0).put(target, b"v").status, 201);
    for (ahead_seconds, by_other_clock) in [(99, pairs(&[("k", "v")])), (101, pairs(&[]))] {
        cluster.clock(1).set_ahead_seconds(ahead_seconds);
        let tells = |node| told(&scan(&mut cluster.client(node), "start=a&replicas=2/3"));
        assert_eq!(tells(1), by_other_clock, "{ahead_seconds} s ahead");
        for node in [0, 2] {
            assert_eq!(tells(node), pairs(&[("k", "v")]), "{ahead_seconds} s ahead");
        }
    }
}

#[test]
fn a_deletion_or_an_expiry_on_one_replica_hides_what_the_others_have() {
    let mut cluster = Cluster::start_with(3, without_repairs);
    let mut client = cluster.client(0);
    for key in ["deleted", "expired", "kept"] {
        client.put(&format!("/v0/entity?id={key}&replicas=3/3"), b"old");
    }
    cluster.stop_node(2);
    let mut client = cluster.client(0);
    assert_eq!(
        client.delete("/v0/entity?id=deleted&replicas=2/3").status,
        202
    );
    let expiring = "/v0/entity?id=expired&replicas=2/3&ttl=1";
    assert_eq!(client.put(expiring, b"new").status, 201);
    until("the hints are kept", || cluster.hints_at(0, 2) == 2);
    cluster.stop_node(0);
    cluster.lose_hints(0);
    cluster.start_node(0);
    cluster.start_node(2);
    cluster.wait_until_joined();
    until("the version has expired", || {
        cluster
            .client(1)
            .get("/v0/entity?id=expired&replicas=1/3")
            .status
            == 404
    });
    cluster.stop_node(1);
    for node in [0, 2] {
        let reply = scan(&mut cluster.client(node), "start=a");
        assert_eq!(told(&reply), pairs(&[("kept", "old")]), "at {node}");
    }
}

/// A cluster with more data than all buffers on the way to a client hold.
fn large(change: impl Fn(&mut ServerConfig)) -> Cluster {
    let cluster = Cluster::start_with(3, |config| {
        without_repairs(config);
        change(config);
    });
    let mut client = cluster.client(0);
    let value = vec![b'v'; 50_000];
    for number in 0..600 {
        let target = format!("/v0/entity?id=k{number:03}&replicas=3/3");
        assert_eq!(client.put(&target, &value).status, 201);
    }
    cluster
}

/// Begins a scan that the client does not read yet, and waits until it has begun.
fn begin(cluster: &Cluster, query: &str) -> Client {
    let mut reader = cluster.client(0);
    let target = format!("/v0/entities?scope=cluster&{query}");
    reader.send(format!(
        "GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    ));
    let (status, _) = reader.head();
    assert_eq!(status, 200);
    reader
}

/// Reads a whole body and the end of the connection. Returns how many chunks the body has.
fn chunks(reader: &mut Client) -> usize {
    let chunks = std::iter::from_fn(|| reader.chunk()).count();
    reader.assert_closed();
    chunks
}

fn assert_cut(rest: &[u8]) {
    assert!(rest.len() < 30_000_000, "{} bytes", rest.len());
    assert!(
        !rest.ends_with(b"0\r\n\r\n"),
        "the scan does not look whole"
    );
}

#[test]
fn a_scan_goes_on_without_as_many_nodes_as_its_pair_allows() {
    let mut cluster = large(|_| {});
    let mut reader = begin(&cluster, "start=k&replicas=2/3");
    cluster.stop_node(2);
    assert_eq!(
        chunks(&mut reader),
        600,
        "all keys, although a node is gone"
    );
    // A node that is back takes part again.
    cluster.start_node(2);
    cluster.wait_until_joined();
    let mut reader = begin(&cluster, "start=k&replicas=2/3");
    cluster.stop_node(1);
    cluster.start_node(1);
    assert_eq!(chunks(&mut reader), 600);
}

#[test]
fn a_scan_ends_visibly_when_more_nodes_are_missing() {
    let mut cluster = large(|_| {});
    let mut reader = begin(&cluster, "start=k&replicas=3/3");
    let mut other = begin(&cluster, "start=k&replicas=2/2");
    cluster.stop_node(2);
    assert_cut(&reader.rest());
    assert_cut(&other.rest());
}

#[test]
fn a_reader_that_does_not_read_is_cut_and_gives_its_memory_back() {
    let cluster = large(|config| config.stall_timeout = Duration::from_secs(2));
    let mut reader = begin(&cluster, "start=k");
    until("the scan has memory", || {
        cluster.metric(0, "kvorum_scan_bytes ") > 0.0
    });
    // No node keeps a snapshot for it.
    for node in 0..3 {
        let snapshots = || cluster.metric(node, "kvorum_store_snapshots ");
        until("no snapshot is left", || snapshots() == 0.0);
    }
    until("the scan is cut", || {
        cluster.metric(0, "kvorum_scans ") == 0.0 && cluster.metric(0, "kvorum_scan_bytes ") == 0.0
    });
    assert_cut(&reader.rest());
}

#[test]
fn many_short_scans_at_a_time_all_get_their_turn() {
    const CLIENTS: usize = 90;
    const ROUNDS: usize = 4;
    const LIMIT: usize = 20;
    let cluster = Cluster::start_with(3, |config| {
        config.set_memory_bytes(128 << 20);
        config.node.timeout = Duration::from_secs(60);
    });
    let split = cluster.config(0).memory_split();
    assert!(
        split.scans_max < CLIENTS,
        "they have to wait for one another"
    );
    let mut client = cluster.client(0);
    for number in 0..200 {
        let target = format!("/v0/entity?id=k{number:03}&replicas=3/3");
        assert_eq!(client.put(&target, "v".repeat(1000).as_bytes()).status, 201);
    }
    let mut clients: Vec<Client> = (0..CLIENTS).map(|n| cluster.client(n % 3)).collect();
    for _ in 0..ROUNDS {
        for (number, client) in clients.iter_mut().enumerate() {
            let start = 2 * number;
            client.send(format!(
                "GET /v0/entities?scope=cluster&start=k{start:03}&limit={LIMIT} HTTP/1.1\r\n\
                 host: localhost\r\n{NDJSON}connection: te\r\n\r\n"
            ));
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let told = told(&client.reply_to("GET"));
            let keys = (2 * number..2 * number + LIMIT).map(|key| format!("k{key:03}"));
            assert!(
                told.iter()
                    .map(|(key, _)| key)
                    .eq(&keys.collect::<Vec<_>>())
            );
        }
    }
    for node in 0..3 {
        until("the memory of all scans is free again", || {
            cluster.metric(node, "kvorum_scan_bytes") == 0.0
        });
    }
}

#[test]
fn a_condition_selects_of_what_the_replicas_agree_on() {
    let mut cluster = Cluster::start_with(3, without_repairs);
    let mut client = cluster.client(0);
    for number in 0..10 {
        let value = format!(r#"{{"n":{number}}}"#);
        let target = format!("/v0/entity?id=k{number}&replicas=2/3");
        assert_eq!(client.put(&target, value.as_bytes()).status, 201);
    }
    // A stale replica holds what would match.
    cluster.stop_node(2);
    let put = client.put("/v0/entity?id=k9&replicas=2/3", br#"{"n":0}"#);
    assert_eq!(put.status, 201);
    let select = |client: &mut Client| {
        let reply = scan(client, "where=value.n%3E6&replicas=2/3");
        let keys: Vec<String> = told(&reply).into_iter().map(|(key, _)| key).collect();
        let counted = scan(client, "where=value.n%3E6&replicas=2/3&count=only");
        assert_eq!(counted.json(), serde_json::json!({"count": keys.len()}));
        let two = scan(client, "where=value.n%3E2&replicas=2/3&limit=2&values=omit");
        assert_eq!(told(&two).len(), 2);
        keys
    };
    assert_eq!(select(&mut client), ["k7", "k8"]);
    cluster.start_node(2);
    cluster.wait_until_joined();
    let mut stale = cluster.client(2);
    assert_eq!(select(&mut stale), ["k7", "k8"]);
}

#[test]
fn an_aggregate_of_the_cluster_counts_each_key_once_or_says_that_nodes_are_missing() {
    let mut cluster = Cluster::start_with(3, without_repairs);
    let mut client = cluster.client(0);
    for number in 0..100 {
        let value = format!(r#"{{"n":{number}}}"#);
        let target = format!("/v0/entity?id=k{number:02}&replicas=2/3");
        assert_eq!(client.put(&target, value.as_bytes()).status, 201);
    }
    let ask = |client: &mut Client| {
        let question = br#"{"scope":"cluster","where":"value.n >= 50","by":["value.n % 2"],
            "aggregates":[{"sum":"value.n"}],"ack":2,"from":3}"#;
        let json = "content-type: application/json\r\n";
        client.request("POST", "/v0/aggregate", json, question)
    };
    let expected = serde_json::json!({"keys": 100, "matched": 50, "ack": 2, "from": 3, "groups": [
        {"by": [0], "count": 25, "aggregates": [{"operation": "sum", "value": 1850, "counted": 25}]},
        {"by": [1], "count": 25, "aggregates": [{"operation": "sum", "value": 1875, "counted": 25}]},
    ]});
    assert_eq!(ask(&mut client).json(), expected);
    cluster.stop_node(2);
    assert_eq!(
        ask(&mut client).json(),
        expected,
        "one of three may be missing"
    );
    cluster.stop_node(1);
    let refused = ask(&mut client);
    assert_eq!(refused.status, 504, "{}", refused.text());
    assert_eq!(refused.json()["type"], "urn:kvorum:problem:too-few-nodes");
}
