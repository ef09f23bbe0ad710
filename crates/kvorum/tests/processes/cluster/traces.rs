//! A trace that a client names is in the logs of all nodes that took long for it.

use crate::fixtures::cluster::{TestCluster, node_locations};

const OF_PUT: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const OF_BATCH: &str = "00000000000000000000000000abcdef";

/// So long that a node with `--slow-request 1ms` takes long to store it.
const VALUE_BYTES: usize = 4 << 20;

/// The fields of a request that is part of a trace.
fn fields(trace: &str) -> String {
    format!("content-type: application/x-ndjson\r\ntraceparent: 00-{trace}-00f067aa0ba902b7-01\r\n")
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
    let mut connection = cluster[0].connect().unwrap();
    let value = "v".repeat(VALUE_BYTES);
    let batch = format!(
        "{{\"op\":\"get\",\"key\":\"none\"}}\n{{\"op\":\"put\",\"key\":\"line\",\"value\":\"{value}\"}}\n"
    );
    let target = "/v0/entity?id=put&replicas=3/3";
    let put = connection.request("PUT", target, &fields(OF_PUT), value.as_bytes());
    assert_eq!(put.unwrap().status, 201);
    let target = "/v0/batch?replicas=3/3";
    let answer = connection.request("POST", target, &fields(OF_BATCH), batch.as_bytes());
    let answer = answer.unwrap();
    assert!(answer.text().contains("{\"status\":201,"), "{answer:?}");
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
