//! A scan of the whole cluster while a node is frozen in the middle of it.

use crate::fixtures::cluster::TestCluster;
use crate::support::{Process, kvorum};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};

/// More than all buffers between a node and its client hold.
const KEYS: usize = 600;
const VALUE_BYTES: usize = 50_000;

/// A cluster in which all nodes have all keys.
fn filled() -> TestCluster {
    let mut cluster = TestCluster::new(crate::fixtures::cluster::node_locations());
    for node in &mut cluster.nodes {
        node.options = vec!["--durability".to_owned(), "os".to_owned()];
    }
    cluster.start_all();
    let mut connection = cluster[0].connect().unwrap();
    let value = vec![b'v'; VALUE_BYTES];
    for number in 0..KEYS {
        let target = format!("/v0/entity?id=k{number:03}&ack=3&from=3");
        let put = connection.request("PUT", &target, "", &value).unwrap();
        assert_eq!(put.status, 201);
    }
    cluster
}

#[test]
fn a_scan_goes_on_at_another_node_when_its_own_is_frozen() {
    let cluster = filled();
    let urls = cluster.nodes.iter();
    let urls: Vec<String> = urls
        .map(|node| format!("http://{}", node.location.address))
        .collect();
    let mut scan = Process::spawn(&mut kvorum(&[
        "scan",
        "--timeout",
        "2s",
        "--url",
        &urls.join(","),
    ]));
    let mut lines = BufReader::new(scan.child.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("k000\tvvv"));
    cluster[0].signal(Signal::STOP);
    let keys = lines.map(|line| line.unwrap()[..4].to_owned());
    let expected = (1..KEYS).map(|number| format!("k{number:03}"));
    assert!(keys.eq(expected));
    cluster[0].signal(Signal::CONT);
    assert_eq!(scan.end().code, Some(0));
}
