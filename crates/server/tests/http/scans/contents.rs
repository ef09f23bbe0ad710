//! What a scan tells: prefixes, keys without values, counts, expiry, and the end of a
//! snapshot.

use crate::support::{Client, Reply, config, start, start_with, wait_for_metric};
use std::time::Duration;

const NDJSON: &str = "accept: application/x-ndjson\r\n";

fn lines(reply: &Reply) -> Vec<serde_json::Value> {
    let lines = reply.text().lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn keys(reply: &Reply) -> Vec<String> {
    let key = |line: &serde_json::Value| line["key"].as_str().unwrap().to_owned();
    lines(reply).iter().map(key).collect()
}

#[test]
fn a_prefix_stands_for_all_keys_that_begin_with_it() {
    let node = start();
    let mut client = Client::connect(&node);
    for key in [
        "a",
        "user",
        "user%2F",
        "user%2F1",
        "user%2F%FF",
        "user0",
        "v",
    ] {
        client.put(&format!("/v0/entity?id={key}"), b"v");
    }
    let reply = client.get("/v0/entities?prefix=user%2F");
    let chunks: Vec<&[u8]> = reply.chunks.iter().map(Vec::as_slice).collect();
    assert_eq!(chunks, [&b"user/\nv"[..], b"user/1\nv", b"user/\xff\nv"]);
    let reply = client.request("GET", "/v0/entities?prefix=user&limit=2", NDJSON, b"");
    assert_eq!(keys(&reply), ["user", "user/"]);
    let reply = client.get("/v0/entities?prefix=%FF");
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    // The longest key is a prefix, too.
    let longest = "k".repeat(4096);
    client.put(&format!("/v0/entity?id={longest}"), b"");
    let reply = client.get(&format!("/v0/entities?prefix={longest}"));
    assert_eq!(reply.chunks.len(), 1);
}

#[test]
fn a_delimiter_tells_one_level_of_a_tree() {
    let node = start();
    let mut client = Client::connect(&node);
    // Each group is longer than what is read at a time.
    let value = vec![b'v'; 8 << 10];
    for group in ["a%2Fx", "a%2Fy", "b"] {
        for number in 0..40 {
            let put = client.put(&format!("/v0/entity?id={group}%2F{number:02}"), &value);
            assert_eq!(put.status, 201);
        }
    }
    // The key right behind a group is not passed over.
    for key in ["a", "a%2F", "a0", "c%2Fgone", "d%FF%2F1", "e"] {
        client.put(&format!("/v0/entity?id={key}"), b"v");
    }
    client.delete("/v0/entity?id=c%2Fgone");
    let list = |client: &mut Client, query: &str| {
        let target = format!("/v0/entities?delimiter=%2F&values=omit{query}");
        let reply = client.request("GET", &target, "te: trailers\r\n", b"");
        assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
        let told: Vec<String> = lines(&reply)
            .iter()
            .map(|line| {
                let names = ["key", "prefix", "prefix_base64"];
                let name = names.iter().find(|name| line[**name].is_string()).unwrap();
                assert_eq!(line["version"].is_string(), *name == "key");
                format!("{name} {}", line[*name].as_str().unwrap())
            })
            .collect();
        assert_eq!(
            reply.trailer("kvorum-count"),
            Some(&*told.len().to_string())
        );
        told
    };
    let root = [
        "key a",
        "prefix a/",
        "key a0",
        "prefix b/",
        "prefix_base64 ZP8v",
        "key e",
    ];
    assert_eq!(list(&mut client, ""), root);
    let below = ["key a/", "prefix a/x/", "prefix a/y/"];
    assert_eq!(list(&mut client, "&prefix=a%2F"), below);
    assert_eq!(list(&mut client, "&prefix=a%2F&limit=2"), below[..2]);
    assert_eq!(list(&mut client, "&prefix=a%2F&start=a%2Fx0"), below[2..]);
    assert_eq!(list(&mut client, "&prefix=a%2Fx%2F").len(), 40);
    // Values come where they are not left out, as lines whatever the client accepts.
    let reply = client.get("/v0/entities?delimiter=%2F&start=d");
    assert_eq!(lines(&reply)[1]["value"], "v");
}

#[test]
fn keys_are_told_with_their_versions_and_without_their_values() {
    let node = start();
    let mut client = Client::connect(&node);
    let first = client.put("/v0/entity?id=a", b"value");
    let long = client.put("/v0/entity?id=b%FF", &vec![b'v'; 1 << 20]);
    let expiring = client.put("/v0/entity?id=c&ttl=1000", b"");
    client.delete("/v0/entity?id=d");
    // Whatever the client accepts.
    for accept in ["", NDJSON, "accept: application/octet-stream\r\n"] {
        let target = "/v0/entities?start=a&values=omit";
        let headers = format!("{accept}te: trailers\r\n");
        let reply = client.request("GET", target, &headers, b"");
        assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
        let line = |key: &str, name: &str, put: &Reply| serde_json::json!({name: key, "version": put.version().to_string()});
        let told = lines(&reply);
        assert_eq!(told[0], line("a", "key", &first));
        assert_eq!(told[1], line("Yv8=", "key_base64", &long));
        assert_eq!(told[2]["version"], expiring.version().to_string());
        assert!(told[2]["expires"].is_string() && told[2].get("value").is_none());
        assert_eq!((told.len(), reply.chunks.len()), (3, 3));
        assert_eq!(reply.trailer("kvorum-count"), Some("3"));
        let digest = format!("crc32c={:08X}", base::crc32c(&reply.body));
        assert_eq!(reply.trailer("kvorum-digest"), Some(digest.as_str()));
    }
}

#[test]
fn a_count_is_one_number() {
    let mut config = config();
    config.scans_max = Some(1);
    let node = start_with(config);
    let mut client = Client::connect(&node);
    for number in 0..300 {
        let value = vec![b'v'; number * 7];
        client.put(&format!("/v0/entity?id=k{number:03}"), &value);
    }
    client.delete("/v0/entity?id=k007");
    for (query, count) in [
        ("start=a&count=only", 299),
        ("prefix=k0&count=only", 99),
        ("start=k&limit=250&count=only", 250),
        ("start=k&count=only&values=omit", 299),
        ("start=z&count=only", 0),
        ("start=b&end=a&count=only", 0),
    ] {
        // It holds the only permit for a scan until it is answered.
        wait_for_metric(&node, "kvorum_scans", "0.0");
        let target = format!("/v0/entities?{query}");
        let reply = client.request("GET", &target, NDJSON, b"");
        assert_eq!(reply.status, 200, "{query}: {}", reply.text());
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(
            reply.json(),
            serde_json::json!({ "count": count }),
            "{query}"
        );
        let head = client.request("HEAD", &target, "", b"");
        assert_eq!((head.status, head.body.len()), (200, 0));
    }
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    let node = start();
    let mut client = Client::connect(&node);
    for (query, parameter) in [
        ("prefix=", "prefix"),
        ("prefix=a&start=a", "prefix"),
        ("prefix=a&end=b", "prefix"),
        ("prefix=a&prefix=b", "prefix"),
        ("prefix=%4", "prefix"),
        ("start=a&values=", "values"),
        ("start=a&values=only", "values"),
        ("start=a&count=1", "count"),
        ("start=a&count=only&count=only", "count"),
        ("values=omit", "start"),
        ("start=a&Count=only", "Count"),
    ] {
        for method in ["GET", "HEAD"] {
            let reply = client.request(method, &format!("/v0/entities?{query}"), "", b"");
            assert_eq!(reply.status, 400, "{method} {query}");
            if method == "GET" {
                assert_eq!(reply.json()["parameter"], parameter, "{query}");
            }
        }
    }
}

#[test]
fn an_expiry_is_told_with_the_entity() {
    let node = start();
    let mut client = Client::connect(&node);
    client.put("/v0/entity?id=a", b"v");
    client.put("/v0/entity?id=b&ttl=100", b"v");
    let told = lines(&client.request("GET", "/v0/entities?start=a", NDJSON, b""));
    assert!(told[0].get("expires").is_none());
    let expires = told[1]["expires"].as_str().unwrap().to_owned();
    let (time, rest) = expires.split_at("2026-11-22T16:00:00".len());
    assert!(
        time.as_bytes()[10] == b'T' && rest.ends_with('Z'),
        "{expires}"
    );
    // Milliseconds unless it is a whole second.
    let is_fraction = |rest: &str| {
        let digits = rest
            .strip_prefix('.')
            .and_then(|rest| rest.strip_suffix('Z'));
        digits.is_some_and(|digits| digits.len() == 3 && digits.parse::<u16>().is_ok())
    };
    assert!(rest == "Z" || is_fraction(rest), "{expires}");
    for method in ["GET", "HEAD"] {
        let reply = client.request(method, "/v0/entity?id=b", "", b"");
        assert_eq!(reply.header("kvorum-expires"), Some(expires.as_str()));
        let tag = reply.header("etag").unwrap();
        let same = format!("if-none-match: {tag}\r\n");
        let reply = client.request(method, "/v0/entity?id=b", &same, b"");
        assert_eq!(
            (reply.status, reply.header("kvorum-expires")),
            (304, Some(&*expires))
        );
        let reply = client.request(method, "/v0/entity?id=a", "", b"");
        assert_eq!(reply.header("kvorum-expires"), None);
    }
}

#[test]
fn a_snapshot_that_is_too_old_is_given_up_and_the_scan_ends_visibly() {
    let mut config = config();
    config.node.snapshot_age_max = Duration::from_secs(2);
    config.stall_timeout = Duration::from_secs(3600);
    let node = start_with(config);
    let mut client = Client::connect(&node);
    let value = vec![b'v'; 1 << 20];
    for number in 0..24 {
        client.put(&format!("/v0/entity?id=k{number:02}"), &value);
    }
    let mut reader = Client::connect(&node);
    reader.send("GET /v0/entities?start=k HTTP/1.1\r\nhost: localhost\r\n\r\n");
    wait_for_metric(&node, "kvorum_scans", "1.0");
    // Although the client reads nothing, the snapshot goes; the scan waits for its client.
    wait_for_metric(&node, "kvorum_store_snapshots", "0.0");
    wait_for_metric(&node, "kvorum_scans", "1.0");
    let rest = reader.rest();
    assert!(rest.len() > 1 << 20 && rest.len() < 24 << 20);
    assert!(
        !rest.ends_with(b"0\r\n\r\n"),
        "the scan does not look whole"
    );
    // A scan that is read in time is whole.
    let reply = client.get("/v0/entities?start=k&limit=2");
    assert_eq!(reply.chunks.len(), 2);
}
