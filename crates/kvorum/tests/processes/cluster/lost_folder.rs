//! A node whose folder was lost, as an operator meets it: a repair rebuilds it, and logs and status
//! say what happened.

use crate::fixtures::cluster::{ClusterNode, TestCluster, node_locations};
use crate::support::{kvorum, run_to_end, wait_until_ok};
use http_testing::Connection;
use serde_json::Value;
use std::process::Output;

const KEYS: usize = 20;

fn target(key: usize, replicas: &str) -> String {
    format!("/v0/entity?id={key}&replicas={replicas}")
}

/// Writes a key to all replicas. A link may still have to be set up.
fn put(connection: &mut Connection, key: usize, value: &[u8]) {
    let target = target(key, "3/3");
    wait_until_ok("a write to all replicas", || {
        let answer = connection.request("PUT", &target, "", value).unwrap();
        match answer.status {
            201 => Ok(()),
            status => Err(status),
        }
    });
}

/// Reads a key that has a value. The result is the value or a receipt: a
/// replica that lost the key must not answer for the others.
fn get(connection: &mut Connection, key: usize, value: &[u8], replicas: &str) -> Result<(), Value> {
    let target = target(key, replicas);
    let answer = connection.request("GET", &target, "", b"").unwrap();
    match answer.status {
        200 => {
            assert_eq!(answer.body, value);
            Ok(())
        }
        504 => Err(answer.json()),
        status => panic!("key {key} was answered {status} with {replicas}"),
    }
}

#[test]
fn a_node_without_its_folder_is_filled_once_all_nodes_are_up() {
    let mut cluster = TestCluster::new(node_locations());
    for node in &mut cluster.nodes {
        // A repair that rebuilds a store first waits for as long as requests may take.
        node.options.push("--timeout=2s".to_owned());
    }
    cluster.start_all();
    let mut writer = cluster[0].connect().unwrap();
    for key in 0..KEYS {
        put(&mut writer, key, b"value");
    }

    cluster[2].stop();
    cluster[1].stop();
    std::fs::remove_dir_all(&cluster[2].data).unwrap();
    cluster[2].start(&[]);
    cluster[2].wait_until_replica_state("learner");
    cluster[2].wait_until_logged(&["ERROR", "another store", "full repair"]);
    cluster[0].wait_until_logged(&["WARN", "another store", "full repair", "peer=\"c\""]);
    // It does not count while a node is away, and a restart does not change that.
    cluster[2].stop();
    cluster[2].start(&[]);
    cluster[2].wait_until_replica_state("learner");
    let needed = [
        "! b: it has been unreachable",
        "! c: its store has lost data",
        "Start b",
    ];
    wait_until_ok("a status that names the node that is down", || {
        let status = status_with_advice(&cluster[0], &[]);
        let has_all = needed.iter().all(|words| status.contains(words));
        if has_all { Ok(()) } else { Err(status) }
    });

    // No operator accepts it.
    cluster[1].start(&[]);
    cluster.wait_until_joined();
    for node in &cluster.nodes {
        let mut connection = node.connect().unwrap();
        for key in 0..KEYS {
            wait_until_ok("all replicas", || {
                get(&mut connection, key, b"value", "3/3")
            });
        }
    }
    // The nodes connect anew to a store that was rebuilt, and a session lacks them meanwhile.
    wait_until_ok("a repair of all nodes", || {
        let repaired = run_admin(&cluster[1], &["repair", "--full", "--wait"]);
        let said = String::from_utf8_lossy(&repaired.stdout).into_owned();
        if repaired.status.success() && said.contains("all nodes are equal") {
            Ok(())
        } else {
            Err(format!("{repaired:?}"))
        }
    });
    // No full repair came before the loss, so nobody knows how much it is. There is nothing to do
    // about it any more.
    // A node keeps the statuses of the others for a second, so the first answer may be of before.
    let status = |words: &[&str]| {
        wait_until_ok("a status in which nothing needs attention", || {
            let output = run_admin(&cluster[0], &[&["status"], words].concat());
            if output.status.success() {
                Ok(String::from_utf8(output.stdout).unwrap())
            } else {
                Err(output)
            }
        })
    };
    let lines = status(&[]);
    let lost = "- cluster: acknowledged writes may be lost: c came back";
    assert!(lines.contains(lost), "{lines}");
    assert!(!lines.contains('!'), "{lines}");
    assert!(lines.contains("s ago"), "{lines}");
    let json = status(&["--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["nodes"].as_array().unwrap().len(), 3);
    assert_eq!(json["nodes"][1]["replica_state"], "voter");
    assert_eq!(json["advice"].as_array().unwrap().len(), 1, "{json}");
    assert_eq!(json["advice"][0]["severity"], "note", "{json}");
}

/// Runs `kvorum admin` on the cluster of a node.
fn run_admin(node: &ClusterNode, words: &[&str]) -> Output {
    let url = format!("http://{}", node.location.address);
    let words = [&["admin"], words, &["--url", &url]].concat();
    run_to_end(&mut kvorum(&words))
}

/// The status of the cluster of a node, in which something needs attention.
fn status_with_advice(node: &ClusterNode, words: &[&str]) -> String {
    let output = run_admin(node, &[&["status"], words].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
