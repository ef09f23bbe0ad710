//! Clients that are slow, silent or malformed, and bounds on connections.

use crate::support::lines::{NDJSON, chunk};
use crate::support::{Client, config, seams, start_with, wait_for_metric, wait_until};
use base::{Clock, ManualClock};
use cluster::{Member, Members, NodeUrl};
use lsm_testing::MemoryDisk;
use server::{Seams, Server};
use std::sync::Arc;
use std::time::Duration;

/// A time that passes soon, for what is late.
const SHORT: Duration = Duration::from_millis(100);

#[test]
fn a_head_that_is_not_complete_in_time_ends_the_connection() {
    let mut config = config();
    config.head_timeout = SHORT;
    let node = start_with(config);
    let mut client = Client::connect(&node);
    client.send("GET /v0/status HTTP/1.1\r\n");
    client.assert_closed();
}

#[test]
fn a_body_that_is_not_complete_in_time_is_a_408_and_ends_the_connection() {
    let mut config = config();
    config.body_timeout = SHORT;
    let node = start_with(config);
    for (head, status) in [
        (
            "PUT /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nval",
            408,
        ),
        (
            "PUT /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n3\r\nval\r\n",
            408,
        ),
        // A refused request, whose body the node reads to keep the connection.
        (
            "PUT /v0/entity HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nval",
            400,
        ),
    ] {
        let mut client = Client::connect(&node);
        client.send(head);
        let reply = client.reply_to("PUT");
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("connection"), Some("close"));
        assert_eq!(reply.json()["status"], status);
        client.assert_closed();
    }
    let mut client = Client::connect(&node);
    assert_eq!(client.get("/v0/entity?id=a").status, 404);
}

#[test]
fn an_idle_connection_is_closed_after_the_idle_timeout() {
    let mut config = config();
    config.idle_timeout = Duration::from_secs(3600);
    let clock = Arc::new(ManualClock::new(1_795_363_200_000));
    let seams = Seams {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..seams(Arc::new(MemoryDisk::new()))
    };
    let node = Server::start_with(config, seams).unwrap();
    let mut silent = Client::connect(&node);
    let mut client = Client::connect(&node);
    assert_eq!(client.get("/v0/status").status, 200);
    // The third connection is the one that asks.
    wait_for_metric(&node, "kvorum_connections", "3.0");
    clock.advance(Duration::from_secs(3600));
    silent.assert_closed();
    client.assert_closed();
}

#[test]
fn a_body_that_ends_early_changes_nothing() {
    let node = start_with(config());
    let mut client = Client::connect(&node);
    client.send("PUT /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nval");
    client.finish();
    client.rest();
    let mut client = Client::connect(&node);
    assert_eq!(client.get("/v0/entity?id=a").status, 404);
}

#[test]
fn a_client_that_sends_all_of_a_refused_body_still_receives_the_answer() {
    let mut config = config();
    config.node.value_bytes_max = 1 << 20;
    let node = start_with(config);
    for (head, body_bytes) in [
        (format!("content-length: {}\r\n\r\n", 8 << 20), 8 << 20),
        (
            format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n", 8 << 20),
            8 << 20,
        ),
    ] {
        let mut client = Client::connect(&node);
        client.send(format!(
            "PUT /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\n{head}"
        ));
        client.try_send(&vec![0; body_bytes]).unwrap();
        let reply = client.reply_to("PUT");
        assert_eq!(reply.status, 413);
        assert_eq!(reply.header("connection"), Some("close"));
    }
}

/// A client that streams learns at once that its request was refused, and not when its body
/// has ended.
#[test]
fn a_request_that_is_refused_is_answered_while_its_body_is_open() {
    let mut config = config();
    config.body_timeout = Duration::from_secs(3600);
    let node = start_with(config);
    for (request, status) in [
        ("POST /v0/batch?no=such", 400),
        ("PUT /v0/entity", 400),
        ("POST /abracadabra", 400),
        ("DELETE /v0/status", 405),
    ] {
        let mut client = Client::connect(&node);
        client.send(format!(
            "{request} HTTP/1.1\r\nhost: localhost\r\n{NDJSON}transfer-encoding: chunked\r\n\r\n{}",
            chunk("begun")
        ));
        let reply = client.reply_to("POST");
        assert_eq!(reply.status, status, "{request}");
        assert_eq!(reply.header("connection"), Some("close"), "{request}");
        // The node still reads, so that the client gets its answer, not a reset.
        client.send(chunk("more"));
        client.assert_closed();
    }
}

#[test]
fn a_head_that_cannot_be_parsed_is_a_400() {
    let node = start_with(config());
    for head in ["nonsense\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n"] {
        let mut client = Client::connect(&node);
        client.send(head);
        assert_eq!(client.reply_to("GET").status, 400);
        client.assert_closed();
    }
}

/// The lengths that the HTTP library itself cannot count are too long, too, and what is too
/// long is told as a problem.
#[test]
fn what_is_too_long_is_a_problem_at_any_length() {
    let node = start_with(config());
    let fields = "a: b\r\n".repeat(101);
    let (target, field) = ("a".repeat(65_535), "a".repeat(70_000));
    for (request, status) in [
        (put_of("18446744073709551615"), 413),
        (put_of("18446744073709551614"), 413),
        (put_of("18446744073709551613"), 413),
        (put_of("99999999999999"), 413),
        (
            format!("{}some of it\n", put_of("18446744073709551615")),
            413,
        ),
        // Bodies are not taken for heads, however many lines they have.
        (
            format!("{}{}", put_of("18446744073709551615"), "\n".repeat(200)),
            413,
        ),
        (
            format!(
                "{}{}",
                put_of("18446744073709551615"),
                "{\"op\":\"get\"}\n".repeat(200)
            ),
            413,
        ),
        (
            format!("GET / HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n"),
            431,
        ),
        (
            format!("GET / HTTP/1.1\r\nhost: localhost\r\na: {field}\r\n\r\n"),
            431,
        ),
        (
            format!("GET /{target} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
            414,
        ),
    ] {
        let mut client = Client::connect(&node);
        // An answer before it is not touched.
        client.send("GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n");
        // The node may close the connection before it has all of it.
        let _sent = client.try_send(request.as_bytes()).is_ok();
        assert_eq!(client.reply_to("GET").json()["state"], "live");
        let reply = client.reply_to("PUT");
        let begin = &request[..request.len().min(100)];
        assert_eq!(reply.status, status, "{begin}");
        assert_eq!(reply.json()["status"], status, "{begin}");
        assert_eq!(
            reply.header("content-type"),
            Some("application/problem+json")
        );
        assert_eq!(reply.header("connection"), Some("close"));
        client.assert_closed();
    }
}

fn put_of(length: &str) -> String {
    format!("PUT /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n")
}

#[test]
fn the_longest_keys_fit_into_a_target_with_every_byte_escaped() {
    let node = start_with(config());
    let mut client = Client::connect(&node);
    let key = "%AA".repeat(4096);
    assert_eq!(
        client.put(&format!("/v0/entity?id={key}"), b"v").status,
        201
    );
    let scan = client.get(&format!("/v0/entities?start={key}&end={key}"));
    assert_eq!(scan.status, 200);
    // A scan that resumes behind the key has one byte more.
    let behind = client.get(&format!("/v0/entities?start={key}%00&end={key}%00"));
    assert_eq!(behind.status, 200);
    let too_far = client.get(&format!("/v0/entities?start={key}%00%00"));
    assert_eq!(too_far.status, 400);
    let too_long = client.get(&format!("/v0/entity?id={key}a"));
    assert_eq!(too_long.status, 400);
}

#[test]
fn health_is_answered_when_clients_hold_all_connections_and_all_else_is_refused() {
    let mut config = config();
    config.connections_max = 1;
    let node = start_with(config);
    let mut first = Client::connect(&node);
    assert_eq!(first.get("/v0/status").status, 200);
    for (target, status) in [
        ("/health/live", 200),
        ("/health/ready", 200),
        ("/v0/status", 503),
        ("/v0/entity?id=a", 503),
        ("/health/live", 200),
    ] {
        let mut beyond = Client::connect(&node);
        let reply = beyond.get(target);
        assert_eq!(reply.status, status, "{target}");
        assert_eq!(reply.header("connection"), Some("close"), "{target}");
        beyond.assert_closed();
    }
    // Connections that send nothing keep no probe out, however many they are.
    let silent: Vec<_> = (0..300).map(|_| Client::connect(&node)).collect();
    assert_eq!(Client::connect(&node).get("/health/live").status, 200);
    drop(silent);
    assert_eq!(first.get("/v0/status").status, 200);
    drop(first);
    // The node frees the slot some time after the client has left.
    wait_until("a free slot", || {
        Client::connect(&node).get("/v0/status").status == 200
    });
}

#[test]
fn a_node_whose_slots_are_taken_by_clients_still_accepts_its_peers() {
    let urls: [NodeUrl; 2] =
        ["http://127.0.0.1:7301", "http://127.0.0.1:7302"].map(|url| url.parse().unwrap());
    let mut config = config();
    config.node.members =
        Members::new(urls.clone().map(Member::unnamed).to_vec(), &urls[0]).unwrap();
    config.listen = vec!["127.0.0.1:0".parse().unwrap()];
    config.connections_max = 1;
    let node = start_with(config);
    let mut first = Client::connect(&node);
    assert_eq!(first.get("/v0/status").status, 200);

    let mut refused = Client::connect(&node);
    let reply = refused.get("/v0/status");
    assert_eq!(reply.status, 503);
    assert_eq!(reply.header("connection"), Some("close"));
    refused.assert_closed();
    let mut silent = Client::connect(&node);
    silent.assert_closed();
    let mut peer = Client::connect(&node);
    peer.send(
        "GET /v0/peer HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: kvorum-peer/1\r\n\r\n",
    );
    assert_eq!(peer.head().0, 101);
    assert_eq!(first.get("/v0/status").status, 200);

    drop(first);
    // The node frees the slot some time after the client has left.
    wait_until("a free slot", || {
        Client::connect(&node).get("/v0/status").status == 200
    });
}

#[test]
fn a_client_of_http_2_is_asked_at_once_to_use_http_1_1() {
    let node = start_with(config());
    let mut client = Client::connect(&node);
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    // An empty SETTINGS frame, then GOAWAY with HTTP_1_1_REQUIRED. The node closes the
    // connection although this client keeps its side open.
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13];
    assert_eq!(client.rest(), [&settings[..], &goaway].concat());
}

#[test]
fn a_client_that_offers_an_upgrade_to_http_2_is_answered_in_http_1_1() {
    let node = start_with(config());
    let mut client = Client::connect(&node);
    let upgrade = "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n\
                   http2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n";
    let reply = client.request("GET", "/v0/status", upgrade, b"");
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json()["state"], "serving");
    // The same when the connection ends with the answer.
    let mut client = Client::connect(&node);
    let foreign = format!("{upgrade}origin: http://evil.example\r\n");
    let reply = client.request("GET", "/v0/status", &foreign, b"");
    assert_eq!(reply.status, 403);
    assert_eq!(reply.json()["status"], 403);
    client.assert_closed();
}
