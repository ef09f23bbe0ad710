//! The GC threshold rises once all nodes have closed a timestamp and are found equal, and not while one of
//! them is away.

use crate::repair::equal_stores::target;
use crate::support::{Cluster, Disks, until};
use server::ServerConfig;
use std::time::Duration;

const JSON: &str = "content-type: application/json\r\n";

/// A GC grace of seconds, and no repairs but those that are asked for.
pub(crate) fn with_tombstone_gc(config: &mut ServerConfig) {
    config.node.timeout = Duration::from_millis(400);
    config.node.hint_age_max = Duration::from_secs(1);
    config.node.clock_drift_max = Duration::from_secs(1);
    config.node.gc_grace = Duration::from_secs(3);
    config.node.repair_interval = None;
    config.node.full_repair_interval = None;
}

pub(crate) fn repair_fully(cluster: &Cluster, node: usize) -> serde_json::Value {
    let target = "/v0/admin/repair?full=true&wait=true";
    let reply = cluster.client(node).request("POST", target, JSON, b"");
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

pub(crate) fn gc_threshold_at(cluster: &Cluster, node: usize) -> Option<u64> {
    cluster.status(node)["tombstone_gc"]["gc_threshold_unix_ms"].as_u64()
}

#[test]
fn the_gc_threshold_rises_on_all_nodes_behind_closed_timestamps() {
    let mut cluster = Cluster::start_with(3, with_tombstone_gc);
    let mut client = cluster.client(0);
    assert_eq!(client.put(&target("gone", "3/3"), b"v").status, 201);
    assert_eq!(client.delete(&target("gone", "3/3")).status, 202);
    assert_eq!(client.put(&target("kept", "3/3"), b"v").status, 201);
    until("all clocks are trusted, and the bound rises", || {
        repair_fully(&cluster, 1);
        (0..3).all(|node| gc_threshold_at(&cluster, node).is_some())
    });
    let status = cluster.status(1);
    assert!(
        status["tombstone_gc"].get("held_back").is_none(),
        "{status}"
    );
    let bound = gc_threshold_at(&cluster, 1).unwrap();
    assert!(status["tombstone_gc"]["age_seconds"].as_u64().unwrap() >= 3);
    until("the bound rises again", || {
        repair_fully(&cluster, 1);
        (0..3).all(|node| gc_threshold_at(&cluster, node) > Some(bound))
    });
    assert_eq!(client.get(&target("kept", "3/3")).status, 200);
    assert_eq!(client.get(&target("gone", "3/3")).status, 404);

    // While a node is away the bound stays, and the status says who holds it back.
    let before = gc_threshold_at(&cluster, 1);
    cluster.stop_node(2);
    repair_fully(&cluster, 1);
    assert_eq!(gc_threshold_at(&cluster, 1), before);
    let held_back = cluster.status(1)["tombstone_gc"]["held_back"].clone();
    let name = cluster.status(1)["cluster"][2]["name"].clone();
    assert_eq!(held_back["nodes"], serde_json::json!([name]));
    for (node, holds_back) in [("a", 0.0), ("b", 0.0), ("c", 1.0)] {
        let series = format!("kvorum_gc_held_back{{peer=\"{node}\"}}");
        assert_eq!(cluster.metric(1, &series), holds_back, "{node}");
    }
    let seconds = before.unwrap() as f64 / 1e3;
    let gauge = cluster.metric(1, "kvorum_gc_threshold_timestamp_seconds");
    assert!((gauge - seconds).abs() < 1e-3, "{gauge} is not {seconds}");
    assert_eq!(cluster.metric(1, "kvorum_gc_grace_seconds"), 3.0);
    let text = held_back["text"].as_str().unwrap();
    assert!(text.contains(name.as_str().unwrap()), "{held_back}");
    cluster.start_node(2);
    until("the bound rises with all nodes", || {
        repair_fully(&cluster, 1);
        (0..3).all(|node| gc_threshold_at(&cluster, node) > before)
    });
}

/// A read of more replicas than a version has leaves a copy behind.
#[test]
fn the_status_says_which_non_owned_copies_may_be_dropped() {
    let cluster = Cluster::start_with(3, with_tombstone_gc);
    let mut client = cluster.client(0);
    assert_eq!(client.put(&target("k", "1/1"), b"v").status, 201);
    assert_eq!(client.get(&target("k", "3/3")).status, 200);
    let copies = || {
        let copies = (0..3).map(|node| {
            let target = "/v0/admin/compact?wait=true";
            let compacted = cluster.client(node).request("POST", target, JSON, b"");
            assert_eq!(compacted.status, 200, "{}", compacted.text());
            cluster.status(node)["non_owned"]["copies"]
                .as_u64()
                .unwrap()
        });
        copies.sum::<u64>()
    };
    let gc_threshold_at = |node| cluster.status(node)["non_owned"]["bound_unix_ms"].as_u64();
    until("another node keeps a copy", || copies() == 1);
    assert_eq!([0, 1, 2].map(gc_threshold_at), [None; 3]);
    let bound = "kvorum_non_owned_gc_threshold_timestamp_seconds";
    assert_eq!(cluster.metric(1, bound), 0.0);
    let written_unix_ms = cluster.status(0)["clock"]["unix_ms"].as_u64();
    until("the bound for non-owned copies rises", || {
        repair_fully(&cluster, 1);
        (0..3).all(|node| gc_threshold_at(node) > written_unix_ms)
    });
    assert!(cluster.metric(1, bound) > written_unix_ms.unwrap() as f64 / 1e3);
    assert!(cluster.status(1)["non_owned"]["age_seconds"].is_u64());
    until("the copies go", || copies() == 0);
    assert_eq!(client.get(&target("k", "1/1")).status, 200);
}

/// Raises the bound on all nodes above everything that was written so far.
fn collect_all_so_far(cluster: &Cluster) {
    let now_unix_ms = cluster.status(0)["clock"]["unix_ms"].as_u64();
    until("all of it is below the bound", || {
        repair_fully(cluster, 1);
        (0..3).all(|node| gc_threshold_at(cluster, node) > now_unix_ms)
    });
}

/// The read has to put the version on more replicas than it was written to, below their
/// bound.
#[test]
fn a_version_of_one_copy_below_the_bound_is_read_from_three() {
    let cluster = Cluster::start_with(3, with_tombstone_gc);
    let mut client = cluster.client(0);
    assert_eq!(client.put(&target("few", "1/1"), b"v").status, 201);
    collect_all_so_far(&cluster);
    for node in 0..3 {
        let read = cluster.client(node).get(&target("few", "3/3"));
        assert_eq!(read.status, 200, "{node}: {}", read.text());
    }
}

/// It raises the threshold to the timestamp that was closed before the restart, so no new session
/// did it.
#[test]
fn a_full_session_raises_the_gc_threshold_although_a_node_is_killed_in_it() {
    const KEYS: usize = 3_000;
    let disks = Disks::new();
    let many_ranges = |config: &mut ServerConfig| {
        with_tombstone_gc(config);
        config.node.repair_sizes.range_bytes = 256;
        config.node.repair_sizes.checkpoint_ranges = 1;
    };
    let mut cluster = Cluster::start_on(3, many_ranges, |node| disks.add(node));
    let mut client = cluster.client(1);
    for number in 0..KEYS {
        let put = client.put(&target(&format!("k{number:04}"), "3/3"), b"v");
        assert_eq!(put.status, 201);
    }
    // The coordinator, and one that takes part.
    for killed in [0, 2] {
        let before = gc_threshold_at(&cluster, 1);
        let compared = ranges_compared(&cluster, 1);
        let asked = cluster
            .client(0)
            .request("POST", "/v0/admin/repair?full=true", JSON, b"");
        assert!(matches!(asked.status, 200..300), "{}", asked.text());
        until("a part is compared", || {
            ranges_compared(&cluster, 1) > compared + 20.0
        });
        let closed = cluster.status(1)["tombstone_gc"]["closed_timestamp_unix_ms"].as_u64();
        assert!(closed > before);
        disks.kill(&mut cluster, killed);
        assert_eq!(gc_threshold_at(&cluster, 1), before, "too late to kill");
        cluster.start_node(killed);
        until("the session goes on and raises the threshold", || {
            (0..3).all(|node| gc_threshold_at(&cluster, node) > before)
        });
        assert!(gc_threshold_at(&cluster, 1) <= closed);
        assert!(gc_threshold_at(&cluster, killed) <= closed);
    }
}

fn ranges_compared(cluster: &Cluster, node: usize) -> f64 {
    cluster.metric(node, "kvorum_repair_ranges_total{result=\"compared\"} ")
}
