//! A trace that a client names is in the logs of all nodes that took long for it.

use crate::fixtures::cluster::{TestCluster, node_locations};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

const OF_PUT: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const OF_BATCH: &str = "00000000000000000000000000abcdef";

/// So long that a node with `--slow-request 1ms` takes long to store it.
const VALUE_BYTES: usize = 4 << 20;

/// Sends a request that is part of a trace, and returns its answer.
fn send(node: SocketAddr, request: &str, trace: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(node).unwrap();
    let head = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\
         Content-Type: application/x-ndjson\r\n\
         traceparent: 00-{trace}-00f067aa0ba902b7-01\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_slow_request_is_logged_under_its_trace_by_all_nodes() {
    let mut cluster = TestCluster::new(node_locations());
    for node in &mut cluster.nodes {
        node.options = ["--slow-request=1ms", "--log-keys=plain"]
            .map(str::to_owned)
            .to_vec();
    }
    cluster.start_all();
    let address = cluster[0].location.address;
    let value = "v".repeat(VALUE_BYTES);
    let batch = format!(
        "{{\"op\":\"get\",\"key\":\"none\"}}\n{{\"op\":\"put\",\"key\":\"line\",\"value\":\"{value}\"}}\n"
    );
    let put = "PUT /v0/entity?id=put&replicas=3/3";
    let answer = send(address, put, OF_PUT, value.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let post = "POST /v0/batch?replicas=3/3";
    let answer = send(address, post, OF_BATCH, batch.as_bytes());
    assert!(answer.contains("{\"status\":201,"), "{answer}");
    let (of_put, of_batch) = (
        format!("trace=\"{OF_PUT}\""),
        format!("trace=\"{OF_BATCH}\""),
    );
    let replicas = ["a=", "b=", "c="];
    let request = ["a slow request method=\"PUT\"", "key=\"put\"", &of_put];
    cluster[0].wait_until_logged(&[&request[..], &replicas].concat());
    let operation = [
        "a slow operation of a batch line=2 op=\"put\" status=201",
        "key=\"line\"",
        &of_batch,
    ];
    cluster[0].wait_until_logged(&[&operation[..], &replicas].concat());
    for index in [1, 2] {
        for (key, trace) in [("key=\"put\"", OF_PUT), ("key=\"line\"", OF_BATCH)] {
            let words = ["a slow request of a peer action=\"write\"", key, trace];
            cluster[index].wait_until_logged(&words);
        }
    }
}
