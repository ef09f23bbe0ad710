//! More than the node can take, and disks that fail it.

use crate::support::{Client, GatedDisk, config, seams, wait_for_metric};
use lsm::MemoryDisk;
use node::Node;
use std::sync::Arc;
use std::time::Duration;

const PUT: &str = "PUT /v0/entity?id=a HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nv";

#[test]
fn a_full_node_refuses_at_once_and_serves_what_it_admitted() {
    let mut config = config();
    config.requests_in_flight_max = 1;
    config.requests_queued_max = 1;
    let (disk, gate) = GatedDisk::new();
    let node = Node::start_with(config, seams(disk)).unwrap();
    gate.close();
    let mut in_flight = Client::connect(&node);
    in_flight.send(PUT);
    wait_for_metric(&node, "kvorum_requests_in_flight", "1.0");
    let mut queued = Client::connect(&node);
    queued.send(PUT);
    wait_for_metric(&node, "kvorum_requests_queued", "1.0");
    let mut refused = Client::connect(&node);
    for method in ["PUT", "GET", "DELETE"] {
        let reply = refused.request(method, "/v0/entity?id=a", "", b"");
        assert_eq!(reply.status, 503, "{method}");
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    let range = refused.get("/v0/entities?start=a");
    assert_eq!(range.status, 503);
    assert_eq!(refused.get("/v0/status").status, 200);
    // The parameters come before admission.
    assert_eq!(refused.get("/v0/entity").status, 400);
    gate.open();
    assert_eq!(in_flight.reply_to("PUT").status, 201);
    assert_eq!(queued.reply_to("PUT").status, 201);
    assert_eq!(refused.get("/v0/entity?id=a").status, 200);
}

#[test]
fn a_write_that_takes_too_long_ends_in_a_receipt() {
    let mut config = config();
    config.timeout = Duration::from_millis(100);
    let (disk, gate) = GatedDisk::new();
    let node = Node::start_with(config, seams(disk)).unwrap();
    gate.close();
    let mut client = Client::connect(&node);
    client.send(PUT);
    let reply = client.reply_to("PUT");
    gate.open();
    assert_eq!(reply.status, 504);
    let receipt = reply.json();
    assert_eq!(receipt["title"], "Not Enough Replicas");
    assert_eq!(
        receipt["replicas"],
        serde_json::json!([{"url": node.url(), "outcome": "timeout"}])
    );
    assert!(
        receipt["timestamp"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .is_ok()
    );
}

#[test]
fn uploads_are_bounded_in_all() {
    let mut config = config();
    config.value_bytes_max = 16 << 20;
    let node = Node::start_with(config, seams(Arc::new(MemoryDisk::new()))).unwrap();
    let head = format!(
        "PUT /v0/entity?id=a HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        16 << 20
    );
    // The budget at the least memory is two of the longest values.
    let mut uploads: Vec<Client> = (0..2).map(|_| Client::connect(&node)).collect();
    for upload in &mut uploads {
        upload.send(&head);
        assert_eq!(upload.head().0, 100);
    }
    let mut refused = Client::connect(&node);
    refused.send(&head);
    assert_eq!(refused.reply_to("PUT").status, 503);
    drop(uploads);
    wait_for_metric(&node, "kvorum_bodies_bytes", "0.0");
    let mut client = Client::connect(&node);
    assert_eq!(client.put("/v0/entity?id=a", b"v").status, 201);
}

#[test]
fn a_full_disk_refuses_puts_and_nothing_else() {
    let mut config = config();
    config.disk_reserve_bytes = 1 << 20;
    let disk = Arc::new(MemoryDisk::new());
    let node = Node::start_with(config, seams(Arc::clone(&disk) as _)).unwrap();
    let mut client = Client::connect(&node);
    assert_eq!(client.put("/v0/entity?id=a", b"value").status, 201);
    disk.set_capacity(disk.used_bytes());
    let value = vec![b'v'; 1 << 20];
    let refused = (0..256)
        .map(|_| client.put("/v0/entity?id=b", &value))
        .find(|reply| reply.status != 201)
        .expect("the disk is full at last");
    assert_eq!(refused.status, 507);
    assert_eq!(refused.json()["replicas"][0]["outcome"], "full");
    assert_eq!(client.get("/v0/entity?id=a").text(), "value");
    assert_eq!(client.delete("/v0/entity?id=a").status, 202);
}

#[test]
fn a_store_that_cannot_sync_is_a_failed_replica() {
    let disk = Arc::new(MemoryDisk::new());
    let node = Node::start_with(config(), seams(Arc::clone(&disk) as _)).unwrap();
    let mut client = Client::connect(&node);
    assert_eq!(client.put("/v0/entity?id=a", b"value").status, 201);
    disk.fail_syncs(true);
    for _ in 0..2 {
        let reply = client.put("/v0/entity?id=b", b"value");
        assert_eq!(reply.status, 504);
        assert_eq!(reply.json()["replicas"][0]["outcome"], "failed");
    }
    assert_eq!(client.get("/v0/entity?id=a").text(), "value");
    assert_ne!(client.get("/v0/status").json()["store"]["state"], "open");
}
