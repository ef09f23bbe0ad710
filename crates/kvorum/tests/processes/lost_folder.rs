//! A node whose folder was lost: it takes writes, but its reads do not count
//! until an operator accepts that they lack what was lost.

use crate::cluster::Cluster;
use crate::support::{Connection, until_ok};
use serde_json::Value;

const KEYS: usize = 20;

fn target(key: usize, replicas: &str) -> String {
    format!("/v0/entity?id={key}&replicas={replicas}")
}

/// Writes a key to all replicas; the link to one may yet have to be set up.
fn put(connection: &mut Connection, key: usize) {
    let target = target(key, "3/3");
    until_ok("a write to all replicas", || {
        let answer = connection.exchange("PUT", &target, b"value").unwrap();
        match answer.status {
            201 => Ok(()),
            status => Err(status),
        }
    });
}

/// Reads a key that has a value: it is there, or there is a receipt. A replica
/// that lost it must not speak for the others.
fn get(connection: &mut Connection, key: usize, replicas: &str) -> Result<(), Value> {
    let target = target(key, replicas);
    let answer = connection.exchange("GET", &target, b"").unwrap();
    match answer.status {
        200 => {
            assert_eq!(answer.body, b"value");
            Ok(())
        }
        504 => Err(serde_json::from_slice(&answer.body).unwrap()),
        status => panic!("key {key} was answered {status} with {replicas}"),
    }
}

/// The outcome of a request at the replica at `url`.
fn outcome<'a>(receipt: &'a Value, url: &str) -> &'a Value {
    let lines = receipt["replicas"].as_array().unwrap();
    &lines.iter().find(|line| line["url"] == url).unwrap()["outcome"]
}

#[test]
fn reads_of_a_node_without_its_folder_do_not_count_until_that_is_accepted() {
    let mut cluster = Cluster::start();
    let mut writer = cluster[0].connect().unwrap();
    for key in 0..KEYS {
        put(&mut writer, key);
    }

    cluster[2].stop();
    std::fs::remove_dir_all(&cluster[2].data).unwrap();
    cluster[2].start(&[]);
    let url = format!("http://{}", cluster[2].place.address);
    until_ok("the peers' word on the new store", || {
        let status = cluster[2].status().unwrap();
        if status["standing"] == "unfilled" {
            Ok(())
        } else {
            Err(status)
        }
    });
    cluster[2].until_logged(&["ERROR", "another store", "--accept-empty"]);
    cluster[0].until_logged(&["WARN", "another store", "--accept-empty", "peer=\"c\""]);

    for node in &cluster.nodes {
        let mut connection = node.connect().unwrap();
        for key in 0..KEYS {
            // Also through the node itself, whose own answer would come first.
            until_ok("a quorum without it", || get(&mut connection, key, "2/3"));
            until_ok("a receipt that tells of it", || {
                let receipt = get(&mut connection, key, "3/3").unwrap_err();
                let is_told = outcome(&receipt, &url) == "failed";
                if is_told { Ok(()) } else { Err(receipt) }
            });
        }
        // It is a replica for writes.
        put(&mut connection, KEYS);
    }

    // It does not forget: the next start is no better.
    cluster[2].stop();
    cluster[2].start(&[]);
    until_ok("the peers' word on the new store", || {
        let status = cluster[2].status().unwrap();
        if status["standing"] == "unfilled" {
            Ok(())
        } else {
            Err(status)
        }
    });

    cluster[2].stop();
    cluster[2].start(&["--accept-empty"]);
    cluster.until_joined();
    for node in &cluster.nodes {
        let mut connection = node.connect().unwrap();
        for key in 0..KEYS {
            until_ok("all replicas", || get(&mut connection, key, "3/3"));
        }
    }
}
