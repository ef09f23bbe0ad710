//! The files of the console, and the history that it draws. The tests in
//! `tests/console` open it in a browser.

use crate::support::{Client, start};

const BROWSER: &str = "accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";

#[test]
fn the_console_is_for_those_that_name_html() {
    let node = start();
    let mut client = Client::connect(&node);
    let page = client.request("GET", "/", BROWSER, b"");
    assert_eq!(page.status, 200);
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(page.header("vary"), Some("accept"));
    assert!(
        page.text().starts_with("<!doctype html>"),
        "{}",
        page.text()
    );
    let policy = page.header("content-security-policy").unwrap();
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.split("; ").any(|known| known == part), "{policy}");
    }
    for fields in ["", "accept: */*\r\n", "accept: application/json\r\n"] {
        let reply = client.request("GET", "/", fields, b"");
        assert_eq!(reply.status, 400, "{fields}");
        assert!(reply.text().contains("unknown-path"), "{}", reply.text());
    }
    assert_eq!(client.request("POST", "/", BROWSER, b"").status, 405);
    assert_eq!(client.request("GET", "/?a=b", BROWSER, b"").status, 400);
}

#[test]
fn each_file_of_the_console_is_sent_once() {
    let node = start();
    let mut client = Client::connect(&node);
    for path in [
        "/",
        "/console/console.js",
        "/console/console.css",
        "/console/icon.svg",
        "/console/runbooks.md",
    ] {
        let file = client.request("GET", path, BROWSER, b"");
        assert_eq!(file.status, 200, "{path}");
        assert_eq!(file.header("cache-control"), Some("no-cache"), "{path}");
        assert!(!file.body.is_empty(), "{path}");
        let head = client.request("HEAD", path, BROWSER, b"");
        assert_eq!(head.header("content-length"), file.header("content-length"));
        let tag = file.header("etag").unwrap();
        for (named, status) in [(tag, 304), ("*", 304), ("\"0123456789abcdef\"", 200)] {
            let fields = format!("{BROWSER}if-none-match: {named}\r\n");
            let again = client.request("GET", path, &fields, b"");
            assert_eq!(again.status, status, "{path} {named}");
            assert_eq!(again.header("etag"), Some(tag), "{path} {named}");
        }
    }
    assert_eq!(client.get("/console/").status, 400);
    assert_eq!(client.get("/console/charts.js").status, 400);
}

#[test]
fn the_history_has_what_was_just_answered() {
    let node = start();
    let mut client = Client::connect(&node);
    assert_eq!(client.put("/v0/entity?id=a", b"value").status, 201);
    assert_eq!(client.delete("/v0/entity?id=b").status, 202);
    assert_eq!(client.get("/v0/entity?id=a").status, 200);
    let history = client.get("/v0/history");
    assert_eq!(history.status, 200);
    let history = history.json();
    // A machine that stood still may have ended a sample meanwhile.
    let samples = history["samples"].as_array().unwrap().iter();
    let all: Vec<_> = samples.chain([&history["running"]]).collect();
    let sum = |kind: &str| -> u64 {
        let counts = all
            .iter()
            .flat_map(|sample| sample[kind].as_array().unwrap());
        counts.map(|count| count.as_u64().unwrap()).sum()
    };
    assert_eq!((sum("reads"), sum("writes")), (1, 2), "{history}");
    assert_eq!(history["period_seconds"], 10);
    assert_eq!(client.get("/v0/history?limit=1").status, 200);
    assert_eq!(client.get("/v0/history?limit=0").status, 400);
    assert_eq!(client.get("/v0/history?limit=361").status, 400);
}
