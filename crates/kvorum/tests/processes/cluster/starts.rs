//! Who starts or restarts the nodes of a cluster one after another waits for a page of each:
//! from then on the cluster serves, with another node stopped, too.
//!
//! A node waits for the others for a bounded time, and takes a peer that is silent for away. On
//! a busy machine both happen without a fault, and such a round is repeated. What a round of
//! quick nodes must never see is a replica that refuses, or whose store does not count.

#![expect(clippy::disallowed_methods, reason = "it observes other processes")]

use crate::fixtures::cluster::{ClusterNode, TestCluster, node_locations};
use crate::support::wait_until;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How often a cluster is started for the first time.
const FIRST_STARTS: usize = 4;

/// How often a node is restarted.
const RESTARTS: usize = 3;

/// How often a round on a busy machine is repeated before the test fails.
const REPEATS_MAX: usize = 40;

/// For how long a node holds its first status for the others. A start that took less has met
/// them.
const STATUS_HOLD: Duration = Duration::from_secs(2);

/// For how long a node is not ready because of a peer that does not take its answers.
const READY_HOLD: Duration = Duration::from_secs(10);

/// A node, or the machine, was too slow to tell anything.
#[derive(Debug, PartialEq, Eq)]
struct Busy;

/// Does `round` for each number below `rounds`, and repeats those on a busy machine.
fn repeat(rounds: usize, mut round: impl FnMut(usize) -> Result<(), Busy>) {
    let mut repeats = 0;
    for number in 0..rounds {
        while round(number).is_err() {
            repeats += 1;
            assert!(repeats < REPEATS_MAX, "no round is quick enough");
        }
    }
}

/// Waits until a node answers `200` to this page.
fn wait_for(node: &ClusterNode, page: &str) {
    wait_until(page, || {
        let answer = node.connect().ok()?.request("GET", page, "", b"").ok()?;
        (answer.status == 200).then_some(())
    });
}

fn check_quick(begun: Instant, hold: Duration) -> Result<(), Busy> {
    if begun.elapsed() < hold {
        Ok(())
    } else {
        Err(Busy)
    }
}

/// Whether a receipt tells no more than that replicas were silent. Those of `away` were killed.
fn tells_silence_only(receipt: &Value, away: &[String]) -> bool {
    let replicas = receipt["replicas"].as_array().unwrap();
    let mut outcomes = replicas
        .iter()
        .filter(|replica| !away.iter().any(|url| replica["url"] == **url))
        .map(|replica| replica["outcome"].as_str().unwrap());
    outcomes.all(|outcome| ["stored", "unanswered", "timeout", "suspected"].contains(&outcome))
}

fn check_writes(
    node: &ClusterNode,
    ack: u8,
    away: &[&ClusterNode],
    when: &str,
) -> Result<(), Busy> {
    let target = format!("/v0/entity?id=key&ack={ack}&from=3");
    let mut connection = node.connect().unwrap();
    let answer = connection.request("PUT", &target, "", b"value").unwrap();
    if answer.status == 201 {
        return Ok(());
    }
    let body = String::from_utf8_lossy(&answer.body);
    assert_eq!(answer.status, 504, "{} {when}: {body}", node.name);
    let away: Vec<_> = away
        .iter()
        .map(|node| format!("http://{}", node.location.address))
        .collect();
    let receipt = answer.json();
    assert!(
        tells_silence_only(&receipt, &away),
        "{} {when}: {body}",
        node.name
    );
    Err(Busy)
}

#[test]
fn a_cluster_whose_nodes_have_answered_their_status_serves_at_once() {
    repeat(FIRST_STARTS, |round| {
        let mut cluster = TestCluster::new(node_locations());
        for node in &mut cluster.nodes {
            let begun = Instant::now();
            node.spawn(&[]);
            wait_for(node, "/v0/status");
            check_quick(begun, STATUS_HOLD)?;
        }
        if round % 2 == 0 {
            return check_writes(&cluster[2], 3, &[], "right after the start");
        }
        // At once: what the nodes have yet to say to each other is lost.
        cluster[0].kill();
        let (when, away) = ("without the first node", [&cluster[0]]);
        check_writes(&cluster[2], 2, &away, when)?;
        check_writes(&cluster[1], 2, &away, when)
    });
}

#[test]
fn once_a_restarted_node_is_ready_the_others_reach_it() {
    let mut cluster = TestCluster::start();
    repeat(RESTARTS, |restart| {
        let index = restart % 3;
        cluster[index].stop();
        let begun = Instant::now();
        cluster[index].spawn(&[]);
        for node in &cluster.nodes {
            wait_for(node, "/health/ready");
        }
        check_quick(begun, READY_HOLD)?;
        for other in [(index + 1) % 3, (index + 2) % 3] {
            check_writes(&cluster[other], 3, &[], "after a restart")?;
        }
        Ok(())
    });
}

#[test]
fn only_replicas_that_were_silent_excuse_a_write_that_fails() {
    let receipt = |outcomes: [&str; 3]| {
        let replicas = outcomes.iter().zip(["http://a", "http://b", "http://c"]);
        let replicas: Vec<_> = replicas
            .map(|(outcome, url)| json!({"url": url, "outcome": outcome}))
            .collect();
        json!({ "replicas": replicas })
    };
    let away = ["http://a".to_owned()];
    for (outcomes, away, expected) in [
        (["stored", "timeout", "suspected"], &[][..], true),
        (["stored", "unanswered", "suspected"], &[], true),
        (["stored", "refused", "suspected"], &[], false),
        (["learner", "stored", "timeout"], &[], false),
        (["refused", "stored", "suspected"], &away, true),
        (["refused", "refused", "stored"], &away, false),
        (["stored", "failed", "stored"], &[], false),
    ] {
        let receipt = receipt(outcomes);
        assert_eq!(tells_silence_only(&receipt, away), expected, "{receipt}");
    }
}
