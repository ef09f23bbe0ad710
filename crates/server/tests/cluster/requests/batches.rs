//! `/v0/batch` on several nodes: each operation alone, with the receipt that it would get
//! as a request of its own.

use crate::support::{Cluster, OpenOnDrop, until};
use crate::wire::gated_disk;
use crate::wire::lines::{NDJSON, batch, get, put, statuses};
use lsm::Disk;
use lsm_testing::MemoryDisk;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_batch_writes_all_replicas_and_any_node_reads_it() {
    let cluster = Cluster::start(3);
    let puts: String = (0..300).map(|key| put(&format!("k{key}"), "v")).collect();
    let written = batch(&mut cluster.client(0), "/v0/batch?replicas=3/3", &puts);
    assert_eq!(statuses(&written), [201; 300]);
    let gets: String = (0..300).map(|key| get(&format!("k{key}"))).collect();
    for node in 0..3 {
        for pair in ["1/3", "2/3"] {
            let target = format!("/v0/batch?replicas={pair}");
            let found = batch(&mut cluster.client(node), &target, &gets);
            assert_eq!(statuses(&found), [200; 300]);
            for (found, written) in found.iter().zip(&written) {
                assert_eq!(found["version"], written["version"]);
            }
        }
    }
    // Versions are in the order of the lines, as far as no write was given a timestamp again.
    let mut last = 0;
    for answer in &written {
        let version: u64 = answer["version"].as_str().unwrap().parse().unwrap();
        assert!(version > last);
        last = version;
    }
    let one = batch(
        &mut cluster.client(1),
        "/v0/batch?replicas=1/1",
        &put("one", "v"),
    );
    assert_eq!(statuses(&one), [201]);
    assert_eq!(cluster.holders("one").len(), 1);
    let refused = cluster
        .client(0)
        .request("POST", "/v0/batch?ack=4", NDJSON, b"");
    assert_eq!(refused.status, 400);
}

#[test]
fn operations_on_one_key_keep_their_order_over_all_replicas() {
    let cluster = Cluster::start(3);
    let lines: String = (0..150)
        .flat_map(|number| {
            let value = number.to_string();
            [put("same", &value), get("same"), put(&value, "v")]
        })
        .collect();
    let answers = batch(&mut cluster.client(2), "/v0/batch?replicas=2/3", &lines);
    for (number, answers) in answers.chunks(3).enumerate() {
        assert_eq!(statuses(answers), [201, 200, 201]);
        assert_eq!(answers[1]["value"], number.to_string());
    }
}

#[test]
fn with_a_node_down_each_operation_has_its_own_receipt() {
    let mut cluster = Cluster::start(3);
    let on_it = cluster.key_on(&[2, 0, 1]);
    let beside = cluster.key_on(&[0, 1, 2]);
    cluster.stop_node(2);
    let lines = [
        put(&on_it, "v"),
        put(&beside, "v"),
        get(&on_it),
        get(&beside),
    ]
    .concat();
    let answers = batch(&mut cluster.client(0), "/v0/batch?replicas=2/2", &lines);
    assert_eq!(statuses(&answers), [504, 201, 504, 200]);
    for (answer, is_write) in [(&answers[0], true), (&answers[2], false)] {
        let problem = &answer["problem"];
        assert_eq!(problem["title"], "Not Enough Replicas");
        assert_eq!(problem["status"], 504);
        assert_eq!(problem["timestamp"].is_string(), is_write);
        assert_eq!(problem["replicas"][0]["url"], cluster.url(2));
        assert_eq!(problem["replicas"][0]["outcome"], "refused");
    }
    // A quorum of three needs no node that is down, and it gets hints of what it missed.
    let lines: String = (0..200).map(|key| put(&format!("k{key}"), "v")).collect();
    let answers = batch(&mut cluster.client(1), "/v0/batch?replicas=2/3", &lines);
    assert_eq!(statuses(&answers), [201; 200]);
    cluster.start_node(2);
    cluster.wait_until_joined();
    until("the hints are delivered", || {
        (0..200).all(|key| cluster.held_by(2, &format!("k{key}")).is_some())
    });
}

#[test]
fn each_operation_has_the_timeout_of_its_own_and_others_do_not_wait_for_it() {
    let (disk, gate) = gated_disk();
    let cluster = Cluster::start_on(
        3,
        |config| config.node.timeout = Duration::from_secs(2),
        |node| match node {
            2 => Arc::clone(&disk) as Arc<dyn Disk>,
            _ => Arc::new(MemoryDisk::new()),
        },
    );
    let on_it = cluster.key_on(&[2, 0, 1]);
    let beside = cluster.key_on(&[0, 1, 2]);
    gate.close();
    let _open = OpenOnDrop(Arc::clone(&gate));
    let lines = put(&on_it, "v") + &put(&beside, "v");
    let answers = batch(&mut cluster.client(0), "/v0/batch?replicas=2/2", &lines);
    assert_eq!(statuses(&answers), [504, 201]);
    let replicas = answers[0]["problem"]["replicas"].as_array().unwrap();
    assert_eq!(replicas[0]["outcome"], "timeout");
    assert_eq!(replicas[1]["outcome"], "stored");
}
