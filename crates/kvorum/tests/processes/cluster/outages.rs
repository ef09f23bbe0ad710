//! Nodes that are killed, frozen and restarted under load: the others serve
//! without them, and they catch up by themselves.

#![expect(
    clippy::disallowed_methods,
    reason = "these tests watch other processes, which share no seam with them"
)]

use crate::fixtures::client_load::under_load;
use crate::fixtures::cluster::{ClusterNode, TestCluster};
use crate::fixtures::ledger::Ledger;
use crate::support::wait_until_ok;
use client::{BatchOperation, Client, Node, Replicas, Settings};
use rustix::process::Signal;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

const CLIENTS: usize = 4;
const KEYS: usize = 40;
const VALUE_BYTES: usize = 200;

/// How often all nodes crash at the same time.
const CRASHES: usize = 2;

fn ledgers() -> Vec<Ledger> {
    (0..CLIENTS)
        .map(|name| Ledger::new(name, KEYS, VALUE_BYTES))
        .collect()
}

/// Makes the last node unavailable under load on the others, and available
/// again. No request to the others fails after a second, and the node gets all
/// writes that it missed.
pub(crate) fn others_serve_while_the_last_node_is_down_and_it_catches_up(
    cluster: &mut TestCluster,
    make_unavailable: impl FnOnce(&mut ClusterNode),
    make_available: impl FnOnce(&mut ClusterNode),
) {
    let mut ledgers = ledgers();
    let addresses: [SocketAddr; 2] = [0, 1].map(|index| cluster[index].location.address);
    let mut began = Instant::now();
    let watch = under_load(&mut ledgers, &addresses, |watch| {
        watch.go_on(Duration::ZERO, 200);
        began = Instant::now();
        make_unavailable(&mut cluster[2]);
        // Meanwhile all keys are written, and the first second sessions.
        watch.go_on(Duration::from_millis(1_500), 4 * (CLIENTS * KEYS) as u64);
        assert!(cluster.hints_for(2) > 0, "no hint was kept for the node");
        make_available(&mut cluster[2]);
        watch.go_on(Duration::from_millis(500), 200);
    });
    watch.assert_served(began);
    cluster.wait_until_caught_up(2, &ledgers);
}

#[test]
fn others_serve_without_a_killed_node_and_it_catches_up() {
    let mut cluster = TestCluster::start();
    others_serve_while_the_last_node_is_down_and_it_catches_up(
        &mut cluster,
        ClusterNode::kill,
        |node| node.start(&[]),
    );
}

#[test]
fn others_serve_without_a_frozen_node_and_it_catches_up() {
    let mut cluster = TestCluster::start();
    others_serve_while_the_last_node_is_down_and_it_catches_up(
        &mut cluster,
        |node| node.signal(Signal::STOP),
        |node| node.signal(Signal::CONT),
    );
}

#[test]
fn every_acknowledged_write_survives_a_crash_of_all_nodes() {
    let mut cluster = TestCluster::start();
    let addresses = [0, 1, 2].map(|index| cluster[index].location.address);
    let mut ledgers = ledgers();
    for crash in 0..CRASHES {
        under_load(&mut ledgers, &addresses, |watch| {
            watch.go_on(Duration::ZERO, 500 + 300 * crash as u64);
            for node in &cluster.nodes {
                node.signal(Signal::KILL);
            }
        });
        for node in &mut cluster.nodes {
            assert_eq!(node.end(), None);
        }
        cluster.start_all();
        for (index, ledger) in ledgers.iter().enumerate() {
            let mut connection = cluster[index % 3].connect().unwrap();
            for location in 0..ledger.len() {
                // A link may still have to be set up; nothing else may fail.
                wait_until_ok("a quorum", || {
                    match ledger
                        .read(&mut connection, location, "&ack=2&from=3")
                        .unwrap()
                    {
                        None => Ok(()),
                        Some(504) => Err(504),
                        Some(status) => panic!("a read was answered {status}"),
                    }
                });
            }
        }
    }
}

/// Its client sends the rest again, to the node that the next pipeline finds.
#[tokio::test]
async fn what_a_pipeline_says_is_stored_is_there_after_its_node_is_killed() {
    const BATCHES: usize = 200;
    const OPERATIONS: usize = 50;
    let mut cluster = TestCluster::start();
    let nodes = cluster.nodes.iter().map(|node| {
        let url = format!("http://{}", node.location.address);
        url.parse::<Node>().unwrap()
    });
    let client = Client::new(nodes.collect(), Settings::default()).unwrap();
    let (any, waiting_max) = (Replicas::default(), NonZeroUsize::new(8).unwrap());
    let put = |key: &usize| {
        let text = key.to_string();
        BatchOperation::put(text.as_bytes(), text.as_bytes(), None, None)
    };
    let mut left: Vec<usize> = (0..BATCHES * OPERATIONS).collect();
    let mut pipelines = 0;
    while !left.is_empty() {
        pipelines += 1;
        let mut pipeline = client.pipeline(any, waiting_max).await.unwrap();
        let (mut sent, mut again) = (0, Vec::new());
        for (number, batch) in left.chunks(OPERATIONS).enumerate() {
            if pipelines == 1 && number == BATCHES / 2 {
                cluster[0].kill();
            }
            let operations: Vec<BatchOperation> = batch.iter().map(put).collect();
            if pipeline.send(&operations).await.is_err() {
                break;
            }
            sent += batch.len();
        }
        let mut told = left.iter();
        while let Some(answers) = pipeline.next().await {
            for (answer, key) in answers.into_iter().zip(&mut told) {
                match answer {
                    Ok(answer) => assert_eq!(answer.status, 201),
                    Err(error) if error.is_unknown() => again.push(*key),
                    Err(error) => panic!("{error}"),
                }
            }
        }
        assert_eq!(told.len(), left.len() - sent, "all that was sent is told");
        again.extend(told);
        left = again;
    }
    assert!(pipelines > 1, "the node was killed before all was stored");
    let keys: Vec<usize> = (0..BATCHES * OPERATIONS).collect();
    for keys in keys.chunks(1000) {
        let get = |key: &usize| BatchOperation::get(key.to_string().as_bytes());
        let operations: Vec<BatchOperation> = keys.iter().map(get).collect();
        let found = client.batch(&operations, any).await.unwrap();
        for (found, key) in found.into_iter().zip(keys) {
            assert_eq!(found.unwrap().value.unwrap(), key.to_string().as_bytes());
        }
    }
}

/// The first request waits until the node is suspected. Later requests are not
/// sent to it, and end before the healthy nodes can have answered.
#[test]
fn a_receipt_blames_only_the_node_that_is_frozen() {
    let cluster = TestCluster::start();
    let frozen = format!("http://{}", cluster[2].location.address);
    cluster[2].signal(Signal::STOP);
    let mut connection = cluster[0].connect().unwrap();
    for number in 0..20 {
        let target = format!("/v0/entity?id={number}&ack=3&from=3");
        for method in ["PUT", "GET"] {
            let answer = connection.request(method, &target, "", b"").unwrap();
            assert_eq!(answer.status, 504);
            let receipt: serde_json::Value = answer.json();
            for line in receipt["replicas"].as_array().unwrap() {
                let outcome = line["outcome"].as_str().unwrap();
                let is_right = if line["url"] == *frozen {
                    outcome == "suspected"
                } else {
                    matches!(outcome, "stored" | "value" | "absent" | "unanswered")
                };
                assert!(is_right, "{method} {number}: {receipt}");
            }
        }
    }
    cluster[2].signal(Signal::CONT);
}
