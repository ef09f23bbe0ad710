//! `/v0/entities`.

use crate::support::{Client, Reply, config, start, start_with, wait_for_metric, wait_until};
use std::time::Duration;

fn chunk(reply: &Reply, number: usize) -> &str {
    std::str::from_utf8(&reply.chunks[number]).unwrap()
}

#[test]
fn entities_are_sent_in_key_order_one_chunk_each() {
    let node = start();
    let mut client = Client::connect(&node);
    for key in ["b", "a", "d", "c", "e"] {
        client.put(
            &format!("/v0/entity?id={key}"),
            key.to_uppercase().as_bytes(),
        );
    }
    client.put("/v0/entity?id=empty", b"");
    client.delete("/v0/entity?id=c");
    for (query, expected) in [
        ("start=a", &["a\nA", "b\nB", "d\nD", "e\nE", "empty\n"][..]),
        ("start=b&end=e", &["b\nB", "d\nD"]),
        ("start=a%00&end=b%00", &["b\nB"]),
        ("start=a&limit=2", &["a\nA", "b\nB"]),
        ("start=b%00&limit=1", &["d\nD"]),
        ("start=x", &[]),
        ("start=b&end=b", &[]),
        ("start=b&end=a", &[]),
    ] {
        let reply = client.get(&format!("/v0/entities?{query}"));
        assert_eq!(reply.status, 200, "{query}");
        assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
        let chunks: Vec<&str> = (0..reply.chunks.len()).map(|n| chunk(&reply, n)).collect();
        assert_eq!(chunks, expected, "{query}");
        assert!(
            reply.trailers.is_empty(),
            "the client did not ask for trailers"
        );
        assert_eq!(reply.header("trailer"), None);
    }
}

#[test]
fn a_whole_scan_ends_with_count_and_digest_if_the_client_asks() {
    let node = start();
    let mut client = Client::connect(&node);
    client.put("/v0/entity?id=1234", b"56789");
    let headers = "te: trailers\r\nconnection: te\r\n";
    let reply = client.request("GET", "/v0/entities?start=1", headers, b"");
    assert_eq!(reply.header("trailer"), Some("kvorum-count, kvorum-digest"));
    assert_eq!(reply.trailer("kvorum-count"), Some("1"));
    let digest = format!("crc32c={:08X}", base::crc32c(b"1234\n56789"));
    assert_eq!(reply.trailer("kvorum-digest"), Some(digest.as_str()));
    let reply = client.request("GET", "/v0/entities?start=x", headers, b"");
    assert_eq!(reply.trailer("kvorum-count"), Some("0"));
    assert_eq!(reply.trailer("kvorum-digest"), Some("crc32c=00000000"));
}

#[test]
fn lines_of_json_can_hold_any_bytes() {
    let node = start();
    let mut client = Client::connect(&node);
    client.put("/v0/entity?id=a%0A", b"\"value\"");
    let put = client.put("/v0/entity?id=b%FF", b"\xff");
    let headers = "accept: application/x-ndjson\r\n";
    let reply = client.request("GET", "/v0/entities?start=a", headers, b"");
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    let lines: Vec<serde_json::Value> = reply
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["key"], "a\n");
    assert_eq!(lines[0]["value"], "\"value\"");
    assert_eq!(lines[1]["key_base64"], "Yv8=");
    assert_eq!(lines[1]["value_base64"], "/w==");
    assert_eq!(lines[1]["version"], put.version().to_string());
    assert_eq!((lines.len(), reply.chunks.len()), (2, 2));
}

#[test]
fn a_scan_over_many_batches_is_complete() {
    let node = start();
    let mut client = Client::connect(&node);
    let value = vec![b'v'; 20_000];
    let long = vec![b'l'; 1 << 20];
    for number in 0..50 {
        let value = if number == 25 { &long } else { &value };
        client.put(&format!("/v0/entity?id=k{number:02}"), value);
    }
    let headers = "te: trailers\r\nconnection: te\r\n";
    let reply = client.request("GET", "/v0/entities?start=k", headers, b"");
    assert_eq!(reply.trailer("kvorum-count"), Some("50"));
    let digest = format!("crc32c={:08X}", base::crc32c(&reply.body));
    assert_eq!(reply.trailer("kvorum-digest"), Some(digest.as_str()));
    assert_eq!(reply.chunks.len(), 50);
    assert!(reply.chunks[49].starts_with(b"k49\nv"));
    assert_eq!(reply.chunks[25].len(), 4 + (1 << 20));
    // The connection serves further requests.
    assert_eq!(client.get("/v0/entity?id=k00").status, 200);
}

#[test]
fn a_scan_whose_reader_stalls_is_cut_and_never_looks_whole() {
    let mut config = config();
    config.stall_timeout = Duration::from_secs(2);
    config.scans_max = Some(1);
    let node = start_with(config);
    let mut client = Client::connect(&node);
    let value = vec![b'v'; 1 << 20];
    for number in 0..24 {
        client.put(&format!("/v0/entity?id=k{number:02}"), &value);
    }
    let mut reader = Client::connect(&node);
    // The request behind the scan must not make the node gather the whole scan.
    reader.send("GET /v0/entities?start=k HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(2));
    wait_for_metric(&node, "kvorum_scans", "1.0");
    // Other scans wait until the scan is cut.
    wait_until("the cut", || {
        client.get("/v0/entities?start=x").status != 503
    });
    wait_for_metric(&node, "kvorum_scans", "0.0");
    let rest = reader.rest();
    assert!(rest.len() < 24 << 20, "the scan was cut");
    assert!(
        !rest.ends_with(b"\r\n0\r\n\r\n"),
        "the scan does not look whole"
    );
}

#[test]
fn a_digest_counts_as_a_scan_and_covers_many_steps() {
    let mut config = config();
    config.requests_queued_max = 1;
    config.scans_max = Some(1);
    config.stall_timeout = Duration::from_secs(3600);
    let node = start_with(config);
    let mut client = Client::connect(&node);
    let value = vec![b'v'; 1 << 20];
    for number in 0..24 {
        client.put(&format!("/v0/entity?id=k{number:02}"), &value);
    }
    let digest = client.get("/v0/digest?start=k");
    assert_eq!(digest.status, 200, "{}", digest.text());
    assert_eq!(digest.json()["count"], 24);
    assert_eq!(digest.json()["bytes"], 24 * (3 + (1 << 20)));
    // A scan that is not read holds the only permit.
    let mut reader = Client::connect(&node);
    reader.send("GET /v0/entities?start=k HTTP/1.1\r\nhost: localhost\r\n\r\n");
    wait_for_metric(&node, "kvorum_scans", "1.0");
    // One waits for it, which is as many as may wait.
    let mut waiting = Client::connect(&node);
    waiting.send("GET /v0/digest?start=k HTTP/1.1\r\nhost: localhost\r\n\r\n");
    wait_for_metric(&node, "kvorum_scans_queued", "1.0");
    let refused = client.get("/v0/digest?start=k");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.header("retry-after").is_some());
    // Who waits holds no permit: other requests go on.
    assert_eq!(client.get("/v0/entity?id=k00").status, 200);
    drop(reader);
    assert_eq!(waiting.reply_to("GET").json()["count"], 24);
    wait_for_metric(&node, "kvorum_scans", "0.0");
    // The node does not read a connection for a moment after a refusal.
    assert_eq!(client.get("/v0/digest?start=k").status, 200);
    wait_for_metric(&node, "kvorum_scans", "0.0");
    assert_eq!(client.get("/v0/entities?start=x").status, 200);
}
