//! `/v0/entity`.

use crate::support::{Client, SkewedClock, config, seams, start, start_with};
use base::Clock;
use lsm_testing::MemoryDisk;
use server::{Seams, Server};
use std::sync::Arc;

#[test]
fn a_get_returns_the_value_that_was_put() {
    let node = start();
    let mut client = Client::connect(&node);
    let long = vec![b'x'; 3 << 20];
    for (key, value) in [
        ("a", &b"value"[..]),
        ("a", b"another"),
        ("empty", b""),
        ("a+b", b"space"),
        ("a%2Bb", b"plus"),
        ("%00%FF/%2B", b"\x00\xff\r\n"),
        ("long", &long),
    ] {
        let target = format!("/v0/entity?id={key}");
        let put = client.put(&target, value);
        assert_eq!(put.status, 201, "{key}");
        assert_eq!(put.header("kvorum-acks"), Some("1/1"));
        let get = client.get(&target);
        assert_eq!(get.status, 200, "{key}");
        assert!(get.body == value, "{key}");
        assert_eq!(get.header("content-type"), Some("application/octet-stream"));
        assert_eq!(get.header("kvorum-acks"), Some("1/1"));
        assert_eq!(get.header("etag"), put.header("etag"));
        assert_eq!(get.version(), put.version());
    }
    assert_eq!(client.get("/v0/entity?id=a%2Bb").text(), "plus");
    assert_eq!(client.get("/v0/entity?id=a%20b").text(), "space");
}

#[test]
fn a_deleted_key_is_absent_and_has_the_version_of_its_deletion() {
    let node = start();
    let mut client = Client::connect(&node);
    let never = client.get("/v0/entity?id=a");
    assert_eq!((never.status, never.header("kvorum-version")), (404, None));
    let first = client.delete("/v0/entity?id=a");
    assert_eq!(first.status, 202);
    let put = client.put("/v0/entity?id=a", b"value");
    assert!(put.version() > first.version());
    let second = client.delete("/v0/entity?id=a");
    assert_eq!(second.status, 202);
    assert!(second.header("etag").is_some());
    let gone = client.get("/v0/entity?id=a");
    assert_eq!((gone.status, gone.version()), (404, second.version()));
}

#[test]
fn a_node_alone_has_one_replica_in_every_spelling_of_the_pair() {
    let node = start();
    let mut client = Client::connect(&node);
    for pair in [
        "ack=1",
        "from=1",
        "ack=1&from=1",
        "replicas=1/1",
        "replicas=1%2F1",
    ] {
        let target = format!("/v0/entity?id=a&{pair}");
        assert_eq!(client.put(&target, b"value").status, 201, "{pair}");
        assert_eq!(client.get(&target).status, 200, "{pair}");
        assert_eq!(client.delete(&target).status, 202, "{pair}");
    }
    for pair in ["ack=2", "from=2", "replicas=1/2", "replicas=1/1&ack=1"] {
        let reply = client.get(&format!("/v0/entity?id=a&{pair}"));
        assert_eq!(reply.status, 400, "{pair}");
    }
}

#[test]
fn if_none_match_with_the_current_version_is_304() {
    let node = start();
    let mut client = Client::connect(&node);
    let put = client.put("/v0/entity?id=a", b"value");
    let tag = put.header("etag").unwrap();
    for (condition, status) in [
        (tag.to_owned(), 304),
        (format!("W/{tag}"), 304),
        (format!("\"other\", {tag}"), 304),
        ("*".to_owned(), 304),
        ("\"other\"".to_owned(), 200),
    ] {
        for method in ["GET", "HEAD"] {
            let header = format!("if-none-match: {condition}\r\n");
            let reply = client.request(method, "/v0/entity?id=a", &header, b"");
            assert_eq!(reply.status, status, "{method} {condition}");
            assert_eq!(reply.header("etag"), Some(tag));
            assert_eq!(reply.version(), put.version());
        }
    }
    let header = "if-none-match: *\r\n";
    let absent = client.request("GET", "/v0/entity?id=b", header, b"");
    assert_eq!(absent.status, 404);
}

#[test]
fn if_match_without_the_current_version_is_412() {
    let node = start();
    let mut client = Client::connect(&node);
    let put = client.put("/v0/entity?id=a", b"value");
    let tag = put.header("etag").unwrap();
    for (condition, status) in [(tag, 200), ("*", 200), ("\"other\"", 412)] {
        for method in ["GET", "HEAD"] {
            let header = format!("if-match: {condition}\r\n");
            let reply = client.request(method, "/v0/entity?id=a", &header, b"");
            assert_eq!(reply.status, status, "{method} {condition}");
            assert_eq!(reply.header("etag"), Some(tag));
            assert_eq!(reply.version(), put.version());
        }
    }
    let absent = client.request("GET", "/v0/entity?id=b", "if-match: *\r\n", b"");
    assert_eq!(absent.status, 404);
}

#[test]
fn a_body_may_be_chunked_up_to_the_limit() {
    let mut config = config();
    config.node.value_bytes_max = 8;
    let node = start_with(config);
    let head =
        "PUT /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    for (chunks, status) in [
        ("0\r\n\r\n", 201),
        ("3\r\nval\r\n2\r\nue\r\n0\r\n\r\n", 201),
        ("8\r\n12345678\r\n0\r\n\r\n", 201),
        ("8\r\n12345678\r\n1\r\n9\r\n0\r\n\r\n", 413),
        ("9\r\n123456789\r\n0\r\n\r\n", 413),
        ("x\r\n", 400),
    ] {
        let mut client = Client::connect(&node);
        client.send([head, chunks].concat());
        let reply = client.reply_to("PUT");
        assert_eq!(reply.status, status, "{chunks:?}");
        let closes = reply.header("connection") == Some("close");
        assert!(
            closes || status != 400,
            "where the next request begins is unknown"
        );
    }
    let mut client = Client::connect(&node);
    assert_eq!(client.get("/v0/entity?id=a").text(), "12345678");
}

#[test]
fn a_version_with_a_time_to_live_expires() {
    let clock = Arc::new(SkewedClock::new());
    let seams = Seams {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..seams(Arc::new(MemoryDisk::new()))
    };
    let node = Server::start_with(config(), seams).unwrap();
    let mut client = Client::connect(&node);
    client.put("/v0/entity?id=a", b"older");
    let put = client.put("/v0/entity?id=a&ttl=3600", b"value");
    assert_eq!(put.status, 201);
    clock.set_ahead_seconds(3_000);
    assert_eq!(client.get("/v0/entity?id=a").text(), "value");
    assert_eq!(client.get("/v0/entities?start=a").text(), "a\nvalue");
    clock.set_ahead_seconds(3_700);
    let gone = client.get("/v0/entity?id=a");
    assert_eq!((gone.status, gone.version()), (404, put.version()));
    assert_eq!(client.get("/v0/entities?start=a").text(), "");
    for ttl in ["0", "-1", "281474976711", "99999999999999999999"] {
        let target = format!("/v0/entity?id=a&ttl={ttl}");
        assert_eq!(client.put(&target, b"value").status, 400, "{ttl}");
    }
}
