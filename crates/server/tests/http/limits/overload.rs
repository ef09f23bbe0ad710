//! More requests than a node takes on, and disks that are slow, full or broken.

use crate::support::{Client, config, gated_disk, seams, wait_for_metric, wait_until};
use lsm_testing::MemoryDisk;
use server::Server;
use std::sync::Arc;
use std::time::Duration;

const PUT: &str = "PUT /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\nv";

#[test]
fn a_full_gate_refuses_at_once_and_serves_what_it_admitted() {
    let mut config = config();
    config.requests_in_flight_max = 1;
    config.requests_queued_max = 1;
    let (disk, gate) = gated_disk();
    let node = Server::start_with(config, seams(disk)).unwrap();
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
    let scan = refused.get("/v0/entities?start=a");
    assert_eq!(scan.status, 503);
    // To look at all versions of a key is a read; to name its replicas is none.
    let versions = refused.get("/v0/replicas?id=a&versions=true");
    assert_eq!(versions.status, 503);
    assert_eq!(refused.get("/v0/replicas?id=a").status, 200);
    assert_eq!(refused.get("/v0/status").status, 200);
    // The parameters are checked before admission.
    assert_eq!(refused.get("/v0/entity").status, 400);
    gate.open();
    assert_eq!(in_flight.reply_to("PUT").status, 201);
    assert_eq!(queued.reply_to("PUT").status, 201);
    assert_eq!(refused.get("/v0/entity?id=a").status, 200);
}

#[test]
fn a_write_that_reaches_its_deadline_ends_with_a_receipt() {
    let mut config = config();
    config.node.timeout = Duration::from_millis(100);
    let (disk, gate) = gated_disk();
    let node = Server::start_with(config, seams(disk)).unwrap();
    gate.close();
    let mut client = Client::connect(&node);
    client.send(PUT);
    let reply = client.reply_to("PUT");
    gate.open();
    assert_eq!(reply.status, 504);
    assert_eq!(reply.header("kvorum-acks"), Some("0/1"));
    let receipt = reply.json();
    assert_eq!(receipt["title"], "Not Enough Replicas");
    assert_eq!(
        receipt["replicas"],
        serde_json::json!([{"url": node.url().to_string(), "outcome": "timeout"}])
    );
    assert!(
        receipt["timestamp"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .is_ok()
    );
}

/// The longest value of a node that takes long ones.
const LONGEST_BYTES: usize = 12 << 20;

/// The head of an upload of the longest value.
const LONG_PUT: &str =
    "PUT /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 12582912\r\n\r\n";

/// A node with room for one of the longest values that are being received.
fn with_long_uploads(timeout: Duration) -> Server {
    let mut config = config();
    config.node.value_bytes_max = LONGEST_BYTES;
    config.node.timeout = timeout;
    assert!(config.memory_split().uploads_long_bytes < LONGEST_BYTES + (8 << 20));
    Server::start_with(config, seams(Arc::new(MemoryDisk::new()))).unwrap()
}

#[test]
fn uploads_that_are_announced_and_never_arrive_keep_no_other_out() {
    let node = with_long_uploads(Duration::from_secs(30));
    let mut uploads: Vec<Client> = (0..8).map(|_| Client::connect(&node)).collect();
    for upload in &mut uploads {
        upload.send(LONG_PUT);
        upload.send("v");
    }
    wait_for_metric(&node, "kvorum_upload_bytes", "8.0");
    let mut client = Client::connect(&node);
    assert_eq!(client.put("/v0/entity?id=a", b"v").status, 201);
    let value = vec![b'v'; 8 << 20];
    assert_eq!(client.put("/v0/entity?id=a", &value).status, 201);
}

#[test]
fn long_uploads_are_bounded_and_leave_room_for_short_ones() {
    // So long an upload waits for room.
    let node = with_long_uploads(Duration::from_secs(1));
    let mut slow = Client::connect(&node);
    slow.send(LONG_PUT);
    slow.send(vec![b'v'; 11 << 20]);
    wait_for_metric(&node, "kvorum_upload_bytes", "11534336.0");
    let mut client = Client::connect(&node);
    let value = vec![b'v'; 8 << 20];
    assert_eq!(client.put("/v0/entity?id=a", &value).status, 503);
    let mut client = Client::connect(&node);
    let value = vec![b'v'; 64 << 10];
    assert_eq!(client.put("/v0/entity?id=a", &value).status, 201);
    // A body of unknown length is refused when the quota stays used up.
    let mut chunked = Client::connect(&node);
    chunked.send(
        "PUT /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n",
    );
    let chunk = [
        b"800000\r\n",
        vec![b'v'; 8 << 20].as_slice(),
        b"\r\n0\r\n\r\n",
    ]
    .concat();
    // The node may refuse the body before all of it is sent.
    let _ = chunked.try_send(&chunk);
    assert_eq!(chunked.reply_to("PUT").status, 503);
    // Others wait for what it holds.
    let mut next = Client::connect(&node);
    next.send("PUT /v0/entity?id=b HTTP/1.1\r\nhost: localhost\r\n");
    next.send(format!("content-length: {}\r\n\r\n", 8 << 20));
    slow.send(vec![b'v'; 1 << 20]);
    assert_eq!(slow.reply_to("PUT").status, 201);
    next.send(vec![b'w'; 8 << 20]);
    assert_eq!(next.reply_to("PUT").status, 201);
    wait_for_metric(&node, "kvorum_upload_bytes", "0.0");
}

/// A node with two of the longest values on its disk, and a short one.
fn with_long_values(stall_timeout: Duration) -> Server {
    let mut config = config();
    // Long enough to read such a value without optimization on a busy machine.
    config.node.timeout = Duration::from_secs(8);
    config.stall_timeout = stall_timeout;
    config.node.value_bytes_max = 16 << 20;
    let node = Server::start_with(config, seams(Arc::new(MemoryDisk::new()))).unwrap();
    let mut client = Client::connect(&node);
    let value = vec![b'v'; 16 << 20];
    for key in ["long-1", "long-2"] {
        let target = format!("/v0/entity?id={key}");
        wait_until(key, || client.put(&target, &value).status != 503);
    }
    wait_until("short", || {
        client.put("/v0/entity?id=short", b"v").status != 503
    });
    node
}

#[test]
fn stalled_readers_of_long_values_block_no_writers() {
    let node = with_long_values(Duration::from_secs(60));
    let mut stalled = Client::connect(&node);
    stalled.send("GET /v0/entity?id=long-1 HTTP/1.1\r\nhost: localhost\r\n\r\n");
    wait_for_metric(&node, "kvorum_answer_bytes", "16777216.0");
    let mut client = Client::connect(&node);
    assert_eq!(client.get("/v0/entity?id=long-2").status, 503);
    assert_eq!(client.get("/v0/entity?id=short").status, 200);
    assert_eq!(client.put("/v0/entity?id=short", b"v").status, 201);
    let value = vec![b'v'; 8 << 20];
    assert_eq!(client.put("/v0/entity?id=other", &value).status, 201);
    drop(stalled);
    wait_for_metric(&node, "kvorum_answer_bytes", "0.0");
    assert_eq!(client.get("/v0/entity?id=long-2").status, 200);
}

#[test]
fn scans_over_long_values_are_refused_while_the_memory_is_in_use() {
    let node = with_long_values(Duration::from_secs(60));
    let scan = "GET /v0/entities?start=long HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut stalled = Client::connect(&node);
    stalled.send(scan);
    // The stalled scan holds one value, and no second batch fits beside it.
    assert_eq!(stalled.head().0, 200);
    let mut client = Client::connect(&node);
    assert_eq!(client.get("/v0/entities?start=s").status, 503);
    assert_eq!(client.get("/v0/entity?id=short").status, 200);
    assert_eq!(client.put("/v0/entity?id=short", b"v").status, 201);
    drop(stalled);
    wait_for_metric(&node, "kvorum_scan_bytes", "0.0");
    for accept in ["*/*", "application/x-ndjson"] {
        let headers = format!("accept: {accept}\r\nte: trailers\r\nconnection: te\r\n");
        let whole = client.request("GET", "/v0/entities?start=long", &headers, b"");
        assert_eq!((whole.status, whole.chunks.len()), (200, 3), "{accept}");
        assert!(whole.body.len() > 32 << 20);
        let digest = format!("crc32c={:08X}", base::crc32c(&whole.body));
        assert_eq!(whole.trailer("kvorum-digest"), Some(digest.as_str()));
    }
}

#[test]
fn a_full_disk_refuses_puts_and_nothing_else() {
    let mut config = config();
    config.node.disk_reserve_bytes = 1 << 20;
    let disk = Arc::new(MemoryDisk::new());
    let node = Server::start_with(config, seams(Arc::clone(&disk) as _)).unwrap();
    let mut client = Client::connect(&node);
    assert_eq!(client.put("/v0/entity?id=a", b"value").status, 201);
    disk.set_capacity(disk.used_bytes());
    let value = vec![b'v'; 1 << 20];
    let refused = (0..256)
        .map(|_| client.put("/v0/entity?id=b", &value))
        .find(|reply| reply.status != 201)
        .expect("the disk should become full");
    assert_eq!(refused.status, 507);
    assert_eq!(refused.header("kvorum-acks"), Some("0/1"));
    assert_eq!(client.get("/v0/status").json()["store"]["disk_full"], true);
    assert_eq!(refused.json()["replicas"][0]["outcome"], "full");
    // It takes requests, because deletes must reach it.
    let ready = client.get("/health/ready");
    assert_eq!(ready.status, 200);
    let warnings = ready.json()["warnings"].to_string();
    assert!(warnings.contains("the disk is full"), "{warnings}");
    assert_eq!(client.get("/v0/entity?id=a").text(), "value");
    assert_eq!(client.delete("/v0/entity?id=a").status, 202);
}

#[test]
fn a_store_that_cannot_sync_is_a_failed_replica() {
    // If the first sync that fails is one in the background, the write is refused at once.
    let first_to_fail = || {
        let disk = Arc::new(MemoryDisk::new());
        let node = Server::start_with(config(), seams(Arc::clone(&disk) as _)).unwrap();
        let mut client = Client::connect(&node);
        assert_eq!(client.put("/v0/entity?id=a", b"value").status, 201);
        disk.fail_syncs(true);
        let reply = client.put("/v0/entity?id=b", b"value");
        (reply.status == 504).then_some((node, client, reply))
    };
    // It may be stored.
    let (node, mut client, reply) = (0..32).find_map(|_| first_to_fail()).unwrap();
    assert_eq!(reply.json()["replicas"][0]["outcome"], "failed");
    // From now on nothing is tried.
    for _ in 0..2 {
        let reply = client.put("/v0/entity?id=b", b"value");
        assert_eq!(reply.status, 503);
        assert_eq!(reply.json()["type"], "urn:kvorum:problem:store-failed");
        assert!(reply.text().contains("sync"), "{}", reply.text());
    }
    assert_eq!(client.get("/v0/entity?id=a").text(), "value");
    let status = client.get("/v0/status").json();
    assert_ne!(status["store"]["state"], "open");
    assert!(status["store"]["poisoned"].is_string());
    let ready = client.get("/health/ready");
    assert_eq!(ready.status, 503);
    assert_eq!(ready.json()["type"], "urn:kvorum:problem:not-ready");
    assert!(ready.text().contains("read-only"), "{}", ready.text());
    assert_eq!(Client::connect(&node).get("/health/live").status, 200);
}
