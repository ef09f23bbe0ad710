//! A damaged block in the store of one node: no read is wrong for it, and the other nodes
//! repair it without an operator.

use crate::support::{Cluster, until};
use crate::wire::Reply;
use lsm::Disk;
use lsm_testing::MemoryDisk;
use server::ServerConfig;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const KEYS: usize = 120;

/// No repair begins but for the damage.
fn without_repairs(config: &mut ServerConfig) {
    config.node.timeout = Duration::from_millis(400);
    config.node.repair_interval = None;
    config.node.full_repair_interval = None;
}

fn target(number: usize, pair: &str) -> String {
    format!("/v0/entity?id=k{number:03}&replicas={pair}")
}

/// A value that does not shrink, so that the table has many blocks.
fn value(prefix: &str, number: usize) -> String {
    let mut random = fastrand::Rng::with_seed(number as u64);
    let rest: String = (0..600).map(|_| random.alphanumeric()).collect();
    format!("{prefix}-{rest}")
}

/// Puts all keys to all replicas.
fn put_all(cluster: &Cluster, prefix: &str) {
    let mut client = cluster.client(0);
    for number in 0..KEYS {
        let put = client.put(&target(number, "3/3"), value(prefix, number).as_bytes());
        assert!(matches!(put.status, 200 | 201), "{}", put.text());
    }
}

/// The tables of a store, the newest last.
fn tables(disk: &MemoryDisk, folder: &Path) -> Vec<PathBuf> {
    let names = disk.list(folder).unwrap();
    let tables = names.iter().filter(|name| name.ends_with(".sst"));
    let mut tables: Vec<_> = tables.map(|name| folder.join(name)).collect();
    tables.sort();
    tables
}

/// Checks that a read gives the newest value or none. Returns whether it gave one.
fn is_read(reply: &Reply, number: usize) -> bool {
    match reply.status {
        200 => {
            assert_eq!(reply.text(), value("new", number));
            true
        }
        504 => false,
        status => panic!("{status}: {}", reply.text()),
    }
}

#[test]
fn a_damaged_block_is_never_read_wrong_and_the_other_nodes_repair_it() {
    let disks: Mutex<Vec<Arc<MemoryDisk>>> = Mutex::default();
    let mut cluster = Cluster::start_on(3, without_repairs, |_| {
        let disk = Arc::new(MemoryDisk::new());
        disks.lock().unwrap().push(Arc::clone(&disk));
        disk
    });
    // A node that stops in order writes its memtables to a table.
    let mut restart_after = |prefix: &str, work: &mut dyn FnMut()| {
        put_all(&cluster, prefix);
        cluster.stop_node(2);
        work();
        cluster.start_node(2);
        cluster.wait_until_joined();
    };
    restart_after("old", &mut || {});
    let all = disks.lock().unwrap();
    let disk = &all[all.len() - 1];
    restart_after("new", &mut || {
        let newest = tables(disk, Path::new("store")).pop().unwrap();
        disk.corrupt(&newest, 20_000, 0x10).unwrap();
    });

    let mut client = cluster.client(2);
    // The versions of a damaged block are known to be lost, and older ones to be older.
    let mut failed = Vec::new();
    for _round in 0..2 {
        for number in 0..KEYS {
            let quorum = client.get(&target(number, "2/3"));
            assert!(is_read(&quorum, number), "{}", quorum.text());
            if !is_read(&client.get(&target(number, "3/3")), number) {
                failed.push(number);
            }
        }
    }
    assert!(failed.len() < KEYS, "the other blocks are sound");
    let store = || cluster.status(2)["store"].clone();
    if store()["damaged_ranges"] == 1 {
        // Its acks of such a key do not count, although it stores the version.
        let number = failed[0];
        let refused = client.put(&target(number, "3/3"), value("new", number).as_bytes());
        let is_repaired = || cluster.metric(2, "kvorum_store_damaged_ranges ") == 0.0;
        assert!(refused.status == 504 || is_repaired(), "{}", refused.text());
        if refused.status == 504 {
            assert!(refused.text().contains("learner"), "{}", refused.text());
        }
    }
    until("the other nodes have repaired the damage", || {
        let store = store();
        (&store["damaged_ranges"], &store["tables_damaged"]) == (&0.into(), &0.into())
    });
    let listed = |node: usize| {
        let ndjson = "accept: application/x-ndjson\r\n";
        let listed = cluster
            .client(node)
            .request("GET", "/v0/entities?start=k&end=l", ndjson, b"");
        assert_eq!(listed.status, 200);
        listed.text().to_owned()
    };
    assert!(!failed.is_empty());
    assert_eq!(listed(2).lines().count(), KEYS);
    assert_eq!(listed(0), listed(1));
    assert_eq!(listed(0), listed(2));
    for number in 0..KEYS {
        assert!(is_read(&client.get(&target(number, "3/3")), number));
    }
    for node in 0..3 {
        assert_eq!(
            cluster.status(node)["repair"]["incremental"]["succeeded"],
            0
        );
    }
    assert_ne!(
        cluster.metric(2, "kvorum_repair_writes_total{direction=\"received\"} "),
        0.0
    );
}
