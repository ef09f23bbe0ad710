//! Writes with conditions on several nodes.

use crate::support::{Cluster, until};
use crate::wire::lines::{batch, statuses};
use crate::wire::{Client, Reply};
use lsm::Disk;
use lsm_testing::{Call, Fault, FaultyDisk, MemoryDisk};
use std::io;
use std::sync::Arc;

fn put_if(client: &mut Client, target: &str, condition: &str, value: &str) -> Reply {
    let fields = format!("{condition}\r\n");
    client.request("PUT", target, &fields, value.as_bytes())
}

/// Adds one through a node; returns whether it has taken effect.
fn increment(client: &mut Client, target: &str) -> bool {
    let found = client.get(target);
    assert_eq!(found.status, 200, "{found:?}");
    let next = found.text().parse::<usize>().unwrap() + 1;
    let condition = format!("if-match: {}", found.header("etag").unwrap());
    let put = put_if(client, target, &condition, &next.to_string());
    match put.status {
        201 => true,
        412 => false,
        _ => {
            let problem = put.json();
            assert_eq!(problem["outcome"], "not-applied", "{problem}");
            false
        }
    }
}

#[test]
fn a_condition_needs_a_pair_that_overlaps() {
    let cluster = Cluster::start(3);
    let mut client = cluster.client(0);
    for (pair, status) in [("1/3", 400), ("1/2", 400), ("2/3", 201), ("2/2", 201)] {
        let target = format!("/v0/entity?id={pair}&replicas={pair}");
        let put = put_if(&mut client, &target, "if-none-match: *", "v");
        assert_eq!(put.status, status, "{pair}: {put:?}");
        if status == 400 {
            assert_eq!(put.json()["parameter"], "ack");
            assert_eq!(client.get(&target).status, 404);
            let touch = client.put(&format!("{target}&touch=true"), b"");
            assert_eq!(touch.status, 400);
            let line = r#"{"op":"put","key":"k","value":"v","if_absent":true}"#;
            let batched = batch(&mut client, &format!("/v0/batch?replicas={pair}"), line);
            assert_eq!(statuses(&batched), [400]);
        }
    }
}

#[test]
fn increments_through_all_nodes_are_counted_once_each() {
    const INCREMENTS: usize = 20;
    let cluster = Cluster::start(3);
    let target = "/v0/entity?id=counter&replicas=2/3";
    assert_eq!(cluster.client(0).put(target, b"0").status, 201);
    std::thread::scope(|scope| {
        for node in 0..3 {
            let cluster = &cluster;
            scope.spawn(move || {
                let mut client = cluster.client(node);
                for _ in 0..INCREMENTS {
                    while !increment(&mut client, target) {}
                }
            });
        }
    });
    for node in 0..3 {
        let found = cluster.client(node).get(target);
        assert_eq!(found.text(), (3 * INCREMENTS).to_string());
    }
}

#[test]
fn a_majority_is_enough_and_less_than_one_writes_nothing() {
    let mut cluster = Cluster::start(3);
    let target = "/v0/entity?id=k&replicas=2/3";
    let first = put_if(&mut cluster.client(0), target, "if-none-match: *", "one");
    assert_eq!(first.status, 201, "{first:?}");
    cluster.stop_node(2);
    let condition = format!("if-match: {}", first.header("etag").unwrap());
    let second = put_if(&mut cluster.client(1), target, &condition, "two");
    assert_eq!(second.status, 201, "{second:?}");
    let late = put_if(&mut cluster.client(0), target, &condition, "no");
    assert_eq!(
        (late.status, late.header("etag")),
        (412, second.header("etag"))
    );

    cluster.stop_node(1);
    let condition = format!("if-match: {}", second.header("etag").unwrap());
    let alone = put_if(&mut cluster.client(0), target, &condition, "no");
    assert_eq!(alone.status, 504, "{alone:?}");
    let problem = alone.json();
    assert_eq!(problem["type"], "urn:kvorum:problem:not-enough-replicas");
    assert_eq!(problem["outcome"], "not-applied");
    assert_eq!(problem["replicas"].as_array().unwrap().len(), 3);

    cluster.start_node(1);
    cluster.start_node(2);
    until("a majority is back", || {
        cluster.client(0).get(target).status == 200
    });
    let third = put_if(&mut cluster.client(2), target, &condition, "three");
    assert_eq!(third.status, 201, "{third:?}");
    for node in 0..3 {
        let found = cluster.client(node).get(target);
        assert_eq!((found.text(), found.version()), ("three", third.version()));
    }
}

/// Writes with a condition to two replicas, of which the second one fails at the second write of its
/// log: the first one is the promise and the second one the version, unless the node writes anything
/// else meanwhile.
fn put_that_fails_at_the_second_write() -> Reply {
    let faulty = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new())));
    let cluster = Cluster::start_on(
        2,
        |_| {},
        |node| match node {
            1 => Arc::clone(&faulty) as Arc<dyn Disk>,
            _ => Arc::new(MemoryDisk::new()),
        },
    );
    let is_log = |call, path: &std::path::Path| {
        call == Call::Write && path.extension().is_some_and(|end| end == "wal")
    };
    let second = Fault::at(1, io::ErrorKind::Other);
    faulty.arm(second.only(is_log));
    let target = "/v0/entity?id=k&replicas=2/2";
    let put = put_if(&mut cluster.client(0), target, "if-none-match: *", "v");
    faulty.heal();
    put
}

#[test]
fn an_outcome_that_is_not_known_is_called_so() {
    // A node whose log has failed takes no write any more, so each attempt has its own nodes.
    let mut unknown = None;
    until("an outcome is unknown", || {
        let put = put_that_fails_at_the_second_write();
        unknown = (put.status == 504 && put.json()["outcome"] == "unknown").then_some(put);
        unknown.is_some()
    });
    let put = unknown.unwrap();
    let problem = put.json();
    assert_eq!(problem["type"], "urn:kvorum:problem:not-enough-replicas");
    assert_eq!(problem["replicas"].as_array().unwrap().len(), 2);
}
