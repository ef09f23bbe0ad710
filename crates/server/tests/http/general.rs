//! Rules that hold for every request.

use crate::support::{Client, config, start, start_with, wait_for_metric};

#[test]
fn the_checks_are_made_in_the_documented_order() {
    let mut config = config();
    config.node.value_bytes_max = 4;
    let node = start_with(config);
    for (method, target, headers, body, status) in [
        // The path first, whatever else is wrong.
        ("GET", "/abracadabra", "", "", 400),
        ("POST", "/abracadabra?id=", "", "12345", 400),
        ("GET", "/", "", "", 400),
        ("OPTIONS", "*", "", "", 400),
        // Then the method.
        ("POST", "/v0/entity", "", "12345", 405),
        ("PUT", "/v0/entities", "", "12345", 405),
        ("DELETE", "/v0/status?a=b", "", "", 405),
        ("OPTIONS", "/v0/entity", "", "", 405),
        // Then the parameters.
        ("PUT", "/v0/entity?id=", "if-match: *\r\n", "12345", 400),
        ("GET", "/v0/entity", "", "", 400),
        ("GET", "/v0/entity?id=%4", "", "", 400),
        ("GET", "/v0/entity?id=a&id=a", "", "", 400),
        ("GET", "/v0/entity?id=a&extra=1", "", "", 400),
        ("GET", "/v0/entity?id=a&from=2", "", "", 400),
        ("GET", "/v0/entity?id=a&ttl=1", "", "", 400),
        ("GET", "/v0/entities", "", "", 400),
        ("GET", "/v0/status?a=b", "", "", 400),
        // Then the conditions.
        ("PUT", "/v0/entity?id=a", "if-match: a\r\n", "12345", 400),
        ("DELETE", "/v0/entity?id=a", "if-none-match: a\r\n", "", 400),
        (
            "PUT",
            "/v0/entity?id=a",
            "content-range: bytes 0-0/5\r\n",
            "12345",
            400,
        ),
        // Then the body.
        ("PUT", "/v0/entity?id=a", "", "12345", 413),
        ("PUT", "/v0/entity?id=a", "if-match: *\r\n", "12345", 413),
        ("PUT", "/v0/entity?id=a", "", "1234", 201),
    ] {
        let mut client = Client::connect(&node);
        let reply = client.request(method, target, headers, body.as_bytes());
        assert_eq!(reply.status, status, "{method} {target}: {reply:?}");
        if status != 201 {
            assert_eq!(
                reply.header("content-type"),
                Some("application/problem+json")
            );
            let problem = reply.json();
            assert_eq!(problem["status"], status);
            for member in ["type", "title", "detail"] {
                assert!(problem[member].is_string(), "{member} of {problem}");
            }
            assert_eq!(reply.header("allow").is_some(), status == 405);
        }
    }
    let mut client = Client::connect(&node);
    assert_eq!(client.get("/v0/entity?id=a").text(), "1234");
}

#[test]
fn a_refusal_with_a_short_body_leaves_the_connection_open() {
    let node = start();
    let mut client = Client::connect(&node);
    for _ in 0..3 {
        assert_eq!(client.put("/v0/entity?id=", b"value").status, 400);
        assert_eq!(client.put("/v0/entity?id=a", b"value").status, 201);
    }
}

#[test]
fn a_head_is_a_get_without_its_body() {
    let node = start();
    let mut client = Client::connect(&node);
    client.put("/v0/entity?id=a", b"value");
    for target in [
        "/v0/entity?id=a",
        "/v0/entity?id=b",
        "/v0/entity",
        "/v0/entities?start=a",
        "/v0/status",
        "/nothing",
    ] {
        let head = client.request("HEAD", target, "", b"");
        let get = client.get(target);
        assert_eq!(head.status, get.status, "{target}");
        for name in ["content-type", "etag", "kvorum-version", "kvorum-acks"] {
            assert_eq!(head.header(name), get.header(name), "{name} of {target}");
        }
    }
    let head = client.request("HEAD", "/v0/entity?id=a", "", b"");
    assert_eq!(head.header("content-length"), Some("5"));
    client.put("/v0/entity?id=empty", b"");
    let head = client.request("HEAD", "/v0/entity?id=empty", "", b"");
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("0"))
    );
    let head = client.request("HEAD", "/v0/entities?start=a", "", b"");
    assert_ne!(head.header("content-length"), Some("0"));
}

#[test]
fn a_target_in_absolute_form_is_served_by_its_path() {
    let node = start();
    let mut client = Client::connect(&node);
    client.put("http://localhost:1/v0/entity?id=a", b"value");
    assert_eq!(client.get("/v0/entity?id=a").text(), "value");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let node = start();
    let mut client = Client::connect(&node);
    let mut requests = String::new();
    for number in 0..100 {
        requests += &format!(
            "PUT /v0/entity?id=k{number} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\n{number:03}"
        );
        requests += &format!("GET /v0/entity?id=k{number} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    }
    client.send(requests);
    for number in 0..100 {
        assert_eq!(client.reply_to("PUT").status, 201);
        assert_eq!(client.reply_to("GET").text(), format!("{number:03}"));
    }
}

#[test]
fn a_client_that_expects_100_continue_receives_it() {
    let node = start();
    let mut client = Client::connect(&node);
    client.send(
        "PUT /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\n\
         expect: 100-continue\r\ncontent-length: 5\r\n\r\n",
    );
    assert_eq!(client.head().0, 100);
    client.send("value");
    assert_eq!(client.reply_to("PUT").status, 201);
    assert_eq!(client.get("/v0/entity?id=a").text(), "value");
}

#[test]
fn a_client_that_expects_100_continue_is_refused_before_its_body() {
    let node = start();
    for (target, length, status) in [
        ("/v0/entity?id=", 5, 400),
        ("/v0/entity?id=a", 1 << 30, 413),
    ] {
        let mut client = Client::connect(&node);
        client.send(format!(
            "PUT {target} HTTP/1.1\r\nhost: localhost\r\n\
             expect: 100-continue\r\ncontent-length: {length}\r\n\r\n",
        ));
        let reply = client.reply_to("PUT");
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("connection"), Some("close"));
        client.assert_closed();
    }
}

#[test]
fn http_1_0_is_served_except_for_scans() {
    let node = start();
    let mut client = Client::connect(&node);
    client.send("PUT /v0/entity?id=a HTTP/1.0\r\ncontent-length: 1\r\n\r\nv");
    assert_eq!(client.reply_to("PUT").status, 201);
    client.assert_closed();
    let mut client = Client::connect(&node);
    client.send("GET /v0/entities?start=a HTTP/1.0\r\n\r\n");
    assert_eq!(client.reply_to("GET").status, 505);
    client.assert_closed();
}

#[test]
fn status_and_metrics_describe_the_node() {
    let node = start();
    let mut client = Client::connect(&node);
    client.put("/v0/entity?id=a", b"value");
    let status = client.get("/v0/status");
    assert_eq!(status.status, 200);
    assert_eq!(status.header("content-type"), Some("application/json"));
    assert!(status.text().ends_with("}\n"), "{}", status.text());
    let status = status.json();
    assert_eq!(status["url"], node.url().to_string());
    assert_eq!(status["name"], node.url().authority());
    assert_eq!(status["state"], "serving");
    assert_eq!(status["store"]["state"], "open");
    assert_eq!(status["store"]["entries"], 1, "also what lies in memory");
    assert_eq!(status["store"]["tables_damaged"], 0);
    assert_eq!(status["store"]["disk_full"], false);
    assert!(status["store"]["poisoned"].is_null());
    let store = status["store"].as_object().unwrap();
    assert!(
        !store.contains_key("write_amplification"),
        "there are no tables"
    );
    assert!(
        !store.contains_key("space_amplification"),
        "there are no tables"
    );
    assert!(status["uptime_seconds"].is_u64());
    assert_eq!(status["cluster"][0]["url"], node.url().to_string());
    let metrics = client.get("/metrics");
    assert_eq!(metrics.status, 200);
    for line in [
        "kvorum_requests_total{route=\"entity\",method=\"PUT\",status=\"201\"} 1",
        "kvorum_requests_total{route=\"status\",method=\"GET\",status=\"200\"} 1",
        "kvorum_requests_total{route=\"scan\",method=\"GET\",status=\"200\"} 0",
    ] {
        assert!(metrics.text().lines().any(|known| known == line), "{line}");
    }
    assert_eq!(
        metrics.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let bucket =
        "kvorum_request_duration_seconds_bucket{le=\"+Inf\",route=\"entity\",method=\"PUT\"} 1";
    assert!(metrics.text().lines().any(|known| known == bucket));
    assert!(!metrics.text().contains("# EOF"));
    let headers = "accept: application/openmetrics-text\r\n";
    let open = client.request("GET", "/metrics", headers, b"");
    assert_eq!(
        open.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(open.text().ends_with("# EOF\n"));
}

#[test]
fn the_demands_of_http_on_a_head_are_checked_first() {
    let node = start();
    let put = "PUT /v0/entity?id=a HTTP/1.1\r\n";
    let chunks = "3\r\nval\r\n0\r\n\r\n";
    let long = "a".repeat(40_000);
    for (request, status) in [
        ("GET /v0/entity?id=a HTTP/1.1\r\n\r\n".to_owned(), 400),
        (
            "GET /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\nhost: b\r\n\r\n".to_owned(),
            400,
        ),
        (
            format!("{put}host: localhost\r\ntransfer-encoding: gzip, chunked\r\n\r\n{chunks}"),
            501,
        ),
        (
            format!("{put}host: localhost\r\ntransfer-encoding: chunked, chunked\r\n\r\n{chunks}"),
            400,
        ),
        (
            format!("GET /v0/entity?id={long} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
            414,
        ),
        (
            format!("GET /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\nx: {long}\r\n\r\n"),
            431,
        ),
    ] {
        let mut client = Client::connect(&node);
        client.send(&request);
        let reply = client.reply_to("GET");
        let shown = &request[..request.len().min(99)];
        assert_eq!(reply.status, status, "{shown}");
        assert_eq!(reply.json()["status"], status, "{shown}");
        assert_eq!(reply.header("connection"), Some("close"), "{shown}");
        client.finish();
        client.assert_closed();
    }
    let mut client = Client::connect(&node);
    assert_eq!(
        client.get("/v0/entity?id=a").status,
        404,
        "nothing was stored"
    );
}

#[test]
fn answers_to_heads_that_cannot_be_parsed_are_counted() {
    let node = start();
    let fields: String = (0..101).map(|field| format!("x{field}: y\r\n")).collect();
    for (request, status) in [
        ("NO HTTP\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nno field\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\n{fields}\r\n"), 431),
    ] {
        let mut client = Client::connect(&node);
        client.send(&request);
        assert_eq!(client.reply_to("GET").status, status, "{request}");
        client.finish();
        client.assert_closed();
    }
    for (status, count) in [("400", "2"), ("431", "1")] {
        let labels = format!("route=\"other\",method=\"other\",status=\"{status}\"");
        wait_for_metric(&node, &format!("kvorum_requests_total{{{labels}}}"), count);
    }
}
