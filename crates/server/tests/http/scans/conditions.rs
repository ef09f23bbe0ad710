//! `where=`: scans and counts that tell only what a condition matches.

use crate::support::{Client, Reply, start};

const NDJSON: &str = "accept: application/x-ndjson\r\n";

/// Puts orders of 0 to 9, of which the odd ones are from DE.
fn put_orders(client: &mut Client) {
    for number in 0..10 {
        let country = ["FR", "DE"][number % 2];
        let value = format!(r#"{{"total":{}.5,"country":"{country}"}}"#, number * 10);
        let put = client.put(&format!("/v0/entity?id=order%2F{number}"), value.as_bytes());
        assert_eq!(put.status, 201);
    }
    client.put("/v0/entity?id=order%2Ftext", b"no JSON");
    client.put("/v0/entity?id=other", br#"{"total":99}"#);
}

/// A condition as a parameter.
fn parameter(condition: &str) -> String {
    let bytes = condition.bytes();
    bytes.map(|byte| format!("%{byte:02X}")).collect()
}

fn scan(client: &mut Client, query: &str, condition: &str) -> Reply {
    let target = format!("/v0/entities?{query}&where={}", parameter(condition));
    client.request("GET", &target, &format!("{NDJSON}te: trailers\r\n"), b"")
}

fn keys(reply: &Reply) -> Vec<String> {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let lines = reply.text().lines();
    let lines = lines.map(|line| serde_json::from_str(line).unwrap());
    let keys = lines.map(|line: serde_json::Value| line["key"].as_str().unwrap().to_owned());
    let keys: Vec<String> = keys.collect();
    assert_eq!(
        reply.trailer("kvorum-count"),
        Some(&*keys.len().to_string())
    );
    keys
}

#[test]
fn a_scan_tells_what_matches_and_its_limit_counts_that() {
    let node = start();
    let mut client = Client::connect(&node);
    put_orders(&mut client);
    for (query, condition, expected) in [
        (
            "prefix=order/",
            "value.total > 70",
            &["order/7", "order/8", "order/9"][..],
        ),
        (
            "prefix=order/&values=omit",
            "value.total > 70",
            &["order/7", "order/8", "order/9"],
        ),
        (
            "prefix=order/&limit=2",
            "value.total > 70",
            &["order/7", "order/8"],
        ),
        (
            "prefix=order/&limit=2",
            "value.country == 'DE'",
            &["order/1", "order/3"],
        ),
        ("start=a", "value.total > 90", &["order/9", "other"]),
        ("start=a", "key.endsWith('t')", &["order/text"]),
        ("start=a&values=omit", "size == 7", &["order/text"]),
        // What does not fit is no match.
        (
            "prefix=order/",
            "value.total < 10 || value.missing.a == 1",
            &["order/0"],
        ),
        ("prefix=order/", "false", &[]),
        ("start=b&end=a", "true", &[]),
    ] {
        let told = scan(&mut client, query, condition);
        assert_eq!(keys(&told), expected, "{query} {condition}");
    }
    for (query, condition, count) in [
        ("prefix=order/&count=only", "value.country == 'DE'", 5),
        (
            "prefix=order/&count=only&limit=3",
            "value.country == 'DE'",
            3,
        ),
        ("start=a&count=only", "expires == null", 12),
    ] {
        let counted = scan(&mut client, query, condition);
        assert_eq!(
            counted.json(),
            serde_json::json!({"count": count}),
            "{condition}"
        );
    }
}

#[test]
fn a_wrong_condition_is_refused_with_its_place() {
    let node = start();
    let mut client = Client::connect(&node);
    for condition in ["value.total >", "key", "total > 1", ""] {
        let refused = scan(&mut client, "start=a", condition);
        assert_eq!(refused.status, 400, "{condition}");
        let problem = refused.json();
        assert_eq!(problem["parameter"], "where");
        let detail = problem["detail"].as_str().unwrap();
        let lines: Vec<&str> = detail.lines().collect();
        assert_eq!(lines[1], condition);
        assert!(lines[2].ends_with('^'), "{detail}");
    }
    let refused = scan(&mut client, "start=a&delimiter=%2F", "true");
    assert_eq!(
        (refused.status, &refused.json()["parameter"]),
        (400, &"where".into())
    );
}

#[test]
fn a_runaway_ends_with_a_problem_that_says_how_many_were_looked_at() {
    let node = start();
    let mut client = Client::connect(&node);
    client.put("/v0/entity?id=a", b"{}");
    let value = format!(r#"{{"a":[{}]}}"#, vec!["1"; 1000].join(","));
    client.put("/v0/entity?id=b", value.as_bytes());
    let runaway = "value.a.all(x, value.a.all(y, x + y > 0))";
    for query in ["start=a", "start=a&count=only"] {
        let refused = scan(&mut client, query, runaway);
        assert_eq!(refused.status, 422, "{}", refused.text());
        let problem = refused.json();
        assert_eq!(problem["type"], "urn:kvorum:problem:expression-too-costly");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("2 entities were looked at"), "{detail}");
    }
    // Once the answer has begun, it ends without its last chunk.
    let long = vec![b'v'; 128 << 10];
    for key in ["a0", "a1", "a2", "a3"] {
        client.put(&format!("/v0/entity?id={key}"), &long);
    }
    let query = parameter(&format!("size > 100000 || {runaway}"));
    client.send(format!(
        "GET /v0/entities?start=a&where={query} HTTP/1.1\r\nhost: localhost\r\n\r\n"
    ));
    assert_eq!(client.head().0, 200);
    assert!(!client.rest().ends_with(b"\r\n0\r\n\r\n"));
}
