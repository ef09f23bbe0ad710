//! Deleted data goes, as an operator sees it: docs/tutorial.md, "Delete, and see it go".

use crate::fixtures::cluster::{ClusterNode, TestCluster};
use crate::support::{kvorum, run_to_end, wait_until, wait_until_ok};
use serde_json::Value;
use std::process::Output;

const TARGET: &str = "/v0/entity?id=k&replicas=3/3";

/// Runs `kvorum admin` on the cluster of a node.
fn admin(node: &ClusterNode, words: &[&str]) -> Output {
    let url = format!("http://{}", node.location.address);
    let words = [&["admin"], words, &["--url", &url]].concat();
    run_to_end(&mut kvorum(&words))
}

/// What it prints if it succeeds.
fn printed(node: &ClusterNode, words: &[&str]) -> String {
    let output = admin(node, words);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The status, whether or not something needs attention.
fn status_of(node: &ClusterNode, words: &[&str]) -> String {
    let output = admin(node, &[&["status"], words].concat());
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until the status says it. A node keeps the statuses of the others for a second.
fn wait_until_status_says(node: &ClusterNode, words: &str) {
    wait_until_ok("a status that says it", || {
        let status = status_of(node, &[]);
        if status.contains(words) {
            Ok(())
        } else {
            Err(status)
        }
    });
}

/// The GC threshold of a node.
fn bound_of(node: &ClusterNode) -> Option<u64> {
    node.status().unwrap()["tombstone_gc"]["gc_threshold_unix_ms"].as_u64()
}

#[test]
fn a_tombstone_goes_once_the_gc_threshold_has_passed_it() {
    let mut cluster = TestCluster::start_with(&[
        "--gc-grace=5s",
        "--hint-age-max=1s",
        "--clock-drift-max=2s",
        "--repair-interval=off",
        "--full-repair-interval=off",
    ]);
    let mut connection = cluster[0].connect().unwrap();
    for (method, expected) in [("PUT", 201), ("DELETE", 202)] {
        wait_until_ok("all replicas to store it", || {
            let answer = connection.request(method, TARGET, "", b"").unwrap();
            match answer.status {
                status if status == expected => Ok(()),
                status => Err(status),
            }
        });
    }
    let clock = &cluster[0].status().unwrap()["clock"]["unix_ms"];
    let deleted_unix_ms = clock.as_u64();
    let compacted = printed(&cluster[0], &["compact", "--wait"]);
    assert_eq!(
        compacted.matches("1 tombstone left").count(),
        3,
        "{compacted}"
    );
    wait_until_status_says(&cluster[0], "no full repair has set the GC threshold");

    wait_until("the GC threshold to pass the delete", || {
        // A link that breaks on a busy machine makes a session incomplete.
        let _repaired = admin(&cluster[1], &["repair", "--full", "--wait"]);
        let have_passed = cluster
            .nodes
            .iter()
            .all(|node| bound_of(node) > deleted_unix_ms);
        have_passed.then_some(())
    });
    wait_until_status_says(&cluster[0], "may be dropped (grace: 5s)");
    let compacted = printed(&cluster[0], &["compact", "--wait"]);
    assert_eq!(
        compacted.matches("no tombstone is left").count(),
        3,
        "{compacted}"
    );
    let answer = connection.request("GET", TARGET, "", b"").unwrap();
    assert_eq!(answer.status, 404);

    // A node that is away holds the bound back, and is not compacted.
    cluster[2].stop();
    let bound = bound_of(&cluster[1]);
    assert_eq!(
        admin(&cluster[1], &["repair", "--full", "--wait"])
            .status
            .code(),
        Some(1)
    );
    assert_eq!(bound_of(&cluster[1]), bound);
    let status = wait_until_ok("a status in which c holds the bound back", || {
        let status = status_of(&cluster[0], &["--json"]);
        let status: Value = serde_json::from_str(&status).unwrap();
        let is_held_back = status["tombstone_gc"]["held_back_by"] == serde_json::json!(["c"]);
        if is_held_back {
            Ok(status)
        } else {
            Err(status)
        }
    });
    assert_eq!(status["tombstone_gc"]["gc_grace_seconds"], 5);
    assert!(
        status["tombstone_gc"]["age_seconds"].as_u64() >= Some(5),
        "{status}"
    );
    let compacted = admin(&cluster[0], &["compact", "--wait", "--json"]);
    assert_eq!(compacted.status.code(), Some(1));
    let nodes: Value = serde_json::from_slice(&compacted.stdout).unwrap();
    assert_eq!(nodes["nodes"][0]["state"], "ended", "{nodes}");
    assert!(nodes["nodes"][2]["problem"].is_string(), "{nodes}");
    let stderr = String::from_utf8(compacted.stderr).unwrap();
    assert!(stderr.starts_with("kvorum: c: "), "{stderr}");
    // The nodes that are named are enough.
    let compacted = printed(&cluster[0], &["compact", "b"]);
    assert!(
        compacted.starts_with("b: a compaction has started"),
        "{compacted}"
    );
    let unknown = admin(&cluster[0], &["compact", "d"]);
    assert_eq!(unknown.status.code(), Some(2));
}
