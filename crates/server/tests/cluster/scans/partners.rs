//! Scans of the whole cluster beside nodes whose word does not count for them: an older
//! release, a store that lost its folder, a damaged block. What they tell is right and whole,
//! or they end early and say whose word was missing.

use crate::support::{Cluster, Disks, until};
use crate::wire::Reply;
use crate::wire::lines::read_lines;
use lsm::Disk;
use lsm_testing::MemoryDisk;
use peer::Protocol;
use server::ServerConfig;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const KEYS: usize = 120;

/// No repair runs but where a store has to be rebuilt or repaired.
fn without_repairs(config: &mut ServerConfig) {
    config.node.timeout = Duration::from_millis(400);
    config.node.repair_interval = None;
    config.node.full_repair_interval = None;
}

/// A value that does not shrink, so that the table has many blocks.
fn value(number: usize) -> String {
    let mut random = fastrand::Rng::with_seed(number as u64);
    (0..600).map(|_| random.alphanumeric()).collect()
}

fn put_all(cluster: &Cluster) {
    let mut client = cluster.client(0);
    for number in 0..KEYS {
        let target = format!("/v0/entity?id=k{number:03}&replicas=3/3");
        assert_eq!(client.put(&target, value(number).as_bytes()).status, 201);
    }
}

fn scan(cluster: &Cluster, node: usize, pair: &str) -> Reply {
    let target = format!("/v0/entities?scope=cluster&start=k&replicas={pair}");
    let ndjson = "accept: application/x-ndjson\r\n";
    cluster.client(node).request("GET", &target, ndjson, b"")
}

/// Checks that a scan has told everything.
fn assert_whole(reply: &Reply) {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let lines = read_lines(&reply.body);
    assert_eq!(lines.len(), KEYS);
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(line["key"], format!("k{number:03}"));
        assert_eq!(line["value"], value(number));
    }
}

/// What the answer to a scan says that became of it at each node.
fn outcomes(reply: &Reply) -> Vec<String> {
    assert_eq!(reply.status, 504, "{}", reply.text());
    let problem = reply.json();
    assert_eq!(problem["type"], "urn:kvorum:problem:too-few-nodes");
    let lines = problem["replicas"].as_array().unwrap().iter();
    lines
        .map(|line| line["outcome"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_node_of_an_older_release_is_missing_from_scans_and_nothing_else() {
    let mut cluster = Cluster::start_with(3, |config| {
        without_repairs(config);
        if config.node.name() == "c" {
            config.node.protocol.features &= !peer::PAGES;
        }
    });
    put_all(&cluster);
    for node in [0, 1] {
        assert_whole(&scan(&cluster, node, "2/3"));
        let missing = outcomes(&scan(&cluster, node, "3/3"));
        assert_eq!(missing, ["answered", "answered", "unsupported"]);
    }
    let missing = outcomes(&scan(&cluster, 2, "2/3"));
    assert_eq!(missing, ["unsupported", "unsupported", "answered"]);
    // Requests for single keys need no pages.
    let get = cluster.client(2).get("/v0/entity?id=k000&replicas=3/3");
    assert_eq!(get.text(), value(0));
    cluster.stop_node(2);
    cluster.change_config(2, |config| config.node.protocol = Protocol::OWN);
    cluster.start_node(2);
    cluster.wait_until_joined();
    for node in 0..3 {
        assert_whole(&scan(&cluster, node, "3/3"));
    }
}

#[test]
fn a_store_that_lost_its_folder_tells_nothing_until_it_is_rebuilt() {
    let mut cluster = Cluster::start_with(3, without_repairs);
    put_all(&cluster);
    cluster.stop_node(1);
    cluster.replace_disk(1, Arc::new(MemoryDisk::new()));
    // It is rebuilt from both others, of which one is away.
    cluster.stop_node(2);
    cluster.start_node(1);
    cluster.wait_until_joined();
    until("its loss is known", || {
        cluster.replica_state(1) == "learner"
    });
    for node in [0, 1] {
        until("the nodes know its replica state", || {
            outcomes(&scan(&cluster, node, "2/3")) == ["answered", "learner", "refused"]
        });
        let count = "/v0/entities?scope=cluster&start=k&count=only&replicas=2/3";
        assert_eq!(cluster.client(node).get(count).status, 504);
        // One replica of three is enough for this pair: the first node has all.
        assert_whole(&scan(&cluster, node, "1/3"));
    }
    cluster.start_node(2);
    cluster.wait_until_joined();
    for node in 0..3 {
        assert_whole(&scan(&cluster, node, "2/3"));
    }
    until("the store is rebuilt", || {
        scan(&cluster, 0, "3/3").status == 200
    });
    assert_whole(&scan(&cluster, 1, "3/3"));
}

#[test]
fn a_damaged_block_is_a_missing_node_where_it_lies() {
    let disks = Disks::new();
    let mut cluster = Cluster::start_on(3, without_repairs, |node| disks.add(node));
    put_all(&cluster);
    // A node that stops in order writes its memtables to a table.
    cluster.stop_node(2);
    let (disk, folder) = (disks.disk(2), Path::new("store"));
    let mut tables = disk.list(folder).unwrap();
    tables.retain(|name| name.ends_with(".sst"));
    tables.sort();
    let table = folder.join(tables.pop().unwrap());
    disk.corrupt(&table, 20_000, 0x10).unwrap();
    // It is repaired with both others, of which one is away.
    cluster.stop_node(1);
    cluster.start_node(2);
    cluster.wait_until_joined();
    for node in [0, 2] {
        assert_whole(&scan(&cluster, node, "1/3"));
        let mut client = cluster.client(node);
        let target = "/v0/entities?scope=cluster&start=k&replicas=2/3";
        client.send(format!(
            "GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        ));
        let told = client.rest();
        let has_begun = told.starts_with(b"HTTP/1.1 200");
        let is_refused = told.starts_with(b"HTTP/1.1 504");
        assert!(
            has_begun || is_refused,
            "{}",
            String::from_utf8_lossy(&told)
        );
        assert!(
            is_refused || !told.ends_with(b"0\r\n\r\n"),
            "a scan without the damaged block looks whole at {node}"
        );
    }
    assert_eq!(cluster.status(2)["store"]["damaged_ranges"], 1);
    cluster.start_node(1);
    cluster.wait_until_joined();
    until("the damage is repaired", || {
        cluster.status(2)["store"]["damaged_ranges"] == 0
    });
    for node in 0..3 {
        assert_whole(&scan(&cluster, node, "3/3"));
    }
}
