//! Long values, long keys, and more requests than a node takes on.

use crate::support::{Cluster, OpenOnDrop, metric_of, until};
use crate::wire::gated_disk;
use fastrand::Rng;
use lsm::Disk;
use lsm_testing::MemoryDisk;
use std::sync::Arc;

#[test]
fn long_values_pass_through_a_node_that_keeps_no_copy() {
    // Room for several answers, because one that was read completely may still be held.
    let cluster = Cluster::start_with(3, |config| config.set_memory_bytes(1 << 30));
    let key = cluster.key_on(&[0, 1, 2]);
    let mut random = Rng::with_seed(1);
    for bytes in [64 << 10, (64 << 10) + 1, 100 << 10, (1 << 20) + 7, 16 << 20] {
        let value: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
            .take(bytes)
            .collect();
        for pair in ["1/1", "2/2"] {
            let target = format!("/v0/entity?id={key}&replicas={pair}");
            let put = cluster.put_acknowledged(2, &target, &value);
            for node in [2, 0] {
                let get = cluster.client(node).get(&target);
                assert_eq!((get.status, get.version()), (200, put.version()));
                assert!(get.body == value, "{bytes} bytes at {node}");
                let head = cluster.client(node).request("HEAD", &target, "", b"");
                assert_eq!(head.header("content-length"), Some(&*bytes.to_string()));
            }
        }
    }
    assert!(cluster.held_by(2, &key).is_none());
    let target = format!("/v0/entity?id={key}");
    let mut client = cluster.client(2);
    client.send(format!(
        "PUT {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 16777217\r\n\r\n"
    ));
    assert_eq!(client.reply_to("PUT").status, 413);
}

#[test]
fn keys_may_be_any_bytes_whichever_node_coordinates() {
    let cluster = Cluster::start(3);
    let mut random = Rng::with_seed(2);
    for number in 0..12 {
        let bytes = [1, 4096, 300][number % 3];
        let key: String = (0..bytes)
            .map(|_| format!("%{:02x}", random.u8(..)))
            .collect();
        for pair in ["1/1", "2/3"] {
            let target = format!("/v0/entity?id={key}&replicas={pair}");
            let value = random.u64(..).to_string();
            let put = cluster.client(number % 3).put(&target, value.as_bytes());
            assert_eq!(put.status, 201);
            for node in 0..3 {
                let reply = cluster.client(node).get(&target);
                assert_eq!((reply.status, reply.text()), (200, &*value));
            }
        }
        let target = format!("/v0/entity?id={key}");
        assert_eq!(cluster.client(0).delete(&target).status, 202);
        assert_eq!(cluster.client(1).get(&target).status, 404);
    }
    let long = "%00".repeat(4097);
    assert_eq!(
        cluster
            .client(0)
            .get(&format!("/v0/entity?id={long}"))
            .status,
        400
    );
}

#[test]
fn only_the_coordinator_of_a_request_refuses_it() {
    let (disk, gate) = gated_disk();
    let cluster = Cluster::start_on(
        3,
        |config| {
            config.requests_in_flight_max = 1;
            config.requests_queued_max = 0;
        },
        |node| match node {
            0 => Arc::clone(&disk) as Arc<dyn Disk>,
            _ => Arc::new(MemoryDisk::new()),
        },
    );
    // The first node coordinates a write, which waits for that node's disk.
    let own = cluster.key_on(&[0]);
    // The others read this key without the first node, and write it with that node.
    let key = cluster.key_on(&[1, 2, 0]);
    let target = |pair: &str| format!("/v0/entity?id={key}&replicas={pair}");
    let _opens = OpenOnDrop(Arc::clone(&gate));
    gate.close();
    let mut busy = cluster.client(0);
    let head = "HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1";
    busy.send(format!(
        "PUT /v0/entity?id={own}&replicas=1/1 {head}\r\n\r\nv"
    ));
    let mut pages = cluster.client(0);
    until("the write runs", || {
        metric_of(pages.get("/metrics").text(), "kvorum_requests_in_flight ") == 1.0
    });
    for method in ["PUT", "GET", "DELETE"] {
        let reply = cluster.client(0).request(method, &target("2/3"), "", b"");
        assert_eq!(
            (reply.status, reply.header("retry-after")),
            (503, Some("1")),
            "{method}"
        );
        // The others serve requests, also with that node as a replica, because requests
        // of peers have a bound of their own.
        let reply = cluster.client(1).request(method, &target("2/3"), "", b"");
        assert!(
            matches!(reply.status, 200..=202),
            "{method}: {}",
            reply.status
        );
    }
    let never = cluster.client(1).get("/v0/entity?id=never&replicas=3/3");
    assert_eq!(
        (never.status, never.header("kvorum-acks")),
        (404, Some("3/3"))
    );
    gate.open();
    assert_eq!(busy.reply_to("PUT").status, 201);
}
