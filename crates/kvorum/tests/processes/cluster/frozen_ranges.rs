//! Ranges of the whole cluster while a process stands still in the middle of them.

use crate::fixtures::cluster::TestCluster;
use crate::support::{HttpConnection, Process, kvorum, socket};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};

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
        let put = HttpConnection::exchange(&mut connection, "PUT", &target, &value).unwrap();
        assert_eq!(put.status, 201);
    }
    cluster
}

/// How many chunks a whole answer has; `None` for one that was cut.
fn chunks(mut rest: &[u8]) -> Option<usize> {
    let mut chunks = 0;
    loop {
        let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return Some(chunks);
        }
        rest = rest.get(end + 2 + size + 2..)?;
        chunks += 1;
    }
}

/// Begins a range at the first node, freezes the last one, and reads the rest.
fn read_while_frozen(cluster: &TestCluster, pair: &str) -> Option<usize> {
    let mut stream = socket(cluster[0].location.address).unwrap();
    let head = format!(
        "GET /v0/entities?scope=cluster&start=k&{pair} HTTP/1.1\r\nHost: 127.0.0.1\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut told = vec![0; 100_000];
    stream.read_exact(&mut told).unwrap();
    assert!(told.starts_with(b"HTTP/1.1 200"));
    cluster[2].signal(Signal::STOP);
    // A node that gives a range up may reset the connection.
    let _ = stream.read_to_end(&mut told);
    cluster[2].signal(Signal::CONT);
    let body = told.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    chunks(&told[body..])
}

#[test]
fn a_range_goes_on_without_a_frozen_node_or_ends_visibly() {
    let cluster = filled();
    assert_eq!(read_while_frozen(&cluster, "ack=2&from=3"), Some(KEYS));
    cluster.wait_until_joined();
    assert_eq!(read_while_frozen(&cluster, "ack=3&from=3"), None);
    cluster.wait_until_joined();
    // A client of several nodes goes on at another one when its own stands still.
    let urls = cluster.nodes.iter();
    let urls: Vec<String> = urls
        .map(|node| format!("http://{}", node.location.address))
        .collect();
    let mut scan = Process::spawn(&mut kvorum(&[
        "scan",
        "--cluster",
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
