//! `/v0/batch` on one node: what its answers say.

use crate::support::lines::{
    BatchStream, NDJSON, batch, chunk, get, put, read_lines, send_batch, statuses,
};
use crate::support::{Client, config, gated_disk, seams, start, wait_for_metric};
use server::Server;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;

#[test]
fn answers_come_in_the_order_of_the_lines() {
    let node = start();
    let mut client = Client::connect(&node);
    let body = [
        r#"{"op":"get","key":"a"}"#,
        r#"{"op":"put","key":"a","value":"first"}"#,
        r#"{"op":"get","key":"a"}"#,
        r#"{"op":"put","key_base64":"/w==","value_base64":"//4=","expires":"2096-11-22T16:00:00Z"}"#,
        "",
        r#"{"op":"get","key_base64":"/w=="}"#,
        r#"{"op":"delete","key":"a"}"#,
        r#"{"op":"get","key":"a"}"#,
    ];
    let reply = send_batch(&mut client, "/v0/batch", &body.join("\n"));
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(reply.header("content-security-policy"), Some("sandbox"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let answers = read_lines(&reply.body);
    assert_eq!(statuses(&answers), [404, 201, 200, 201, 200, 202, 404]);
    assert_eq!(answers[2]["value"], "first");
    assert_eq!(answers[2]["version"], answers[1]["version"]);
    assert_eq!(answers[4]["value_base64"], "//4=");
    assert_eq!(answers[4]["expires"], "2096-11-22T16:00:00Z");
    assert_eq!(answers[6]["version"], answers[5]["version"]);
    assert_eq!(
        answers[6]["problem"]["type"],
        "urn:kvorum:problem:no-such-entity"
    );
    // The connection goes on, and single requests see what the batch wrote.
    let get = client.get("/v0/entity?id=%FF");
    assert_eq!(get.body, b"\xff\xfe");
    assert_eq!(get.version().to_string(), answers[4]["version"]);
}

#[test]
fn operations_on_one_key_take_effect_in_the_order_of_their_lines() {
    let node = start();
    let mut client = Client::connect(&node);
    let mut body = String::new();
    for number in 0..400 {
        body += &put("same", &number.to_string());
        body += &put(&format!("other{number}"), "x");
        body += &get("same");
    }
    let answers = batch(&mut client, "/v0/batch", &body);
    assert_eq!(answers.len(), 1200);
    let mut last = String::new();
    for (number, answers) in answers.chunks(3).enumerate() {
        assert_eq!(statuses(answers), [201, 201, 200], "{number}");
        assert_eq!(answers[2]["value"], number.to_string());
        assert_eq!(answers[2]["version"], answers[0]["version"]);
        let version = answers[0]["version"].as_str().unwrap().to_owned();
        assert!(version > last);
        last = version;
    }
    assert_eq!(client.get("/v0/entity?id=same").text(), "399");
}

#[test]
fn a_batch_may_have_no_operations() {
    let node = start();
    let mut client = Client::connect(&node);
    for body in ["", "\n\n \n"] {
        let reply = send_batch(&mut client, "/v0/batch", body);
        assert_eq!((reply.status, reply.body.len()), (200, 0), "{body:?}");
    }
    let mut stream = BatchStream::open(&node);
    stream.finish();
    assert_eq!(stream.next(), None);
}

#[test]
fn a_malformed_line_ends_the_batch_with_a_line_that_names_it() {
    let node = start();
    let mut client = Client::connect(&node);
    let body = [&put("a", "1"), "\n", "{\"op\":\"pat\"}\n", &put("b", "2")].concat();
    let answers = batch(&mut client, "/v0/batch", &body);
    assert_eq!(statuses(&answers), [201, 400]);
    let problem = &answers[1]["problem"];
    assert_eq!(problem["type"], "urn:kvorum:problem:bad-line");
    assert_eq!(problem["line"], 3);
    assert!(problem["detail"].as_str().unwrap().contains("line 3"));
    // All of the body is here, so the connection goes on.
    assert_eq!(client.get("/v0/entity?id=a").text(), "1");
    assert_eq!(client.get("/v0/entity?id=b").status, 404);
}

#[test]
fn a_client_that_expects_continue_is_told_to() {
    let node = start();
    for (length, body) in [
        (
            "transfer-encoding: chunked".to_owned(),
            chunk(&put("a", "1")) + "0\r\n\r\n",
        ),
        (
            format!("content-length: {}", put("a", "1").len()),
            put("a", "1"),
        ),
    ] {
        let mut client = Client::connect(&node);
        client.send(format!(
            "POST /v0/batch HTTP/1.1\r\nhost: localhost\r\n{NDJSON}expect: 100-continue\r\n{length}\r\n\r\n"
        ));
        assert_eq!(client.head().0, 100, "{length}");
        client.send(body);
        let reply = client.reply_to("POST");
        assert_eq!(statuses(&read_lines(&reply.body)), [201]);
    }
    let mut client = Client::connect(&node);
    client.send(format!(
        "POST /v0/batch HTTP/1.1\r\nhost: localhost\r\n{NDJSON}expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        (16 << 20) + 1
    ));
    let reply = client.reply_to("POST");
    assert_eq!(reply.status, 413);
    assert_eq!(reply.json()["type"], "urn:kvorum:problem:batch-too-long");
}

#[test]
fn the_checks_come_before_the_body() {
    let node = start();
    let mut client = Client::connect(&node);
    for (target, headers, status) in [
        ("/v0/batch?ack=2", NDJSON, 400),
        ("/v0/batch?id=a", NDJSON, 400),
        ("/v0/batch?replicas=1/1&ack=1", NDJSON, 400),
        ("/v0/batch", "content-type: text/plain\r\n", 415),
        ("/v0/batch", "", 415),
        ("/v0/batch?ack=2", "content-type: text/plain\r\n", 415),
        ("/v0/batch", "content-type: application/json\r\n", 200),
        (
            "/v0/batch",
            "content-type: application/octet-stream\r\n",
            200,
        ),
        ("/v0/batch?replicas=1/1", NDJSON, 200),
    ] {
        let reply = client.request("POST", target, headers, put("a", "1").as_bytes());
        assert_eq!(reply.status, status, "{target} {headers}");
    }
    for method in ["GET", "PUT", "DELETE"] {
        let reply = client.request(method, "/v0/batch", NDJSON, b"");
        assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")));
    }
    let origin = format!("{NDJSON}origin: http://elsewhere\r\n");
    let reply = client.request("POST", "/v0/batch", &origin, b"");
    assert_eq!(reply.status, 403);
}

#[test]
fn operations_are_counted_by_what_they_do_and_status() {
    let node = start();
    let mut client = Client::connect(&node);
    let body = put("a", "1") + &get("a") + &get("b") + "{\"op\":\"delete\",\"key\":\"a\"}\nx\n";
    assert_eq!(send_batch(&mut client, "/v0/batch", &body).status, 200);
    for (operation, status) in [
        ("put", 201),
        ("get", 200),
        ("get", 404),
        ("delete", 202),
        ("none", 400),
    ] {
        let name = format!(
            "kvorum_batch_operations_total{{operation=\"{operation}\",status=\"{status}\"}}"
        );
        wait_for_metric(&node, &name, "1");
    }
    let requests = "kvorum_requests_total{route=\"batch\",method=\"POST\",status=\"200\"}";
    wait_for_metric(&node, requests, "1");
}

#[test]
fn http_1_0_gets_the_answers_up_to_the_end_of_the_connection() {
    let node = start();
    let mut client = Client::connect(&node);
    let body = put("a", "1") + &get("a");
    client.send(format!(
        "POST /v0/batch HTTP/1.0\r\n{NDJSON}content-length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(client.head().0, 200);
    assert_eq!(statuses(&read_lines(&client.rest())), [201, 200]);
}

#[test]
fn pipelined_batches_are_answered_in_order() {
    let node = start();
    let mut client = Client::connect(&node);
    let mut requests = String::new();
    for number in 0..10 {
        let body = put("a", &number.to_string()) + &get("a");
        requests += &format!(
            "POST /v0/batch HTTP/1.1\r\nhost: localhost\r\n{NDJSON}content-length: {}\r\n\r\n{body}",
            body.len()
        );
    }
    client.send(requests);
    for number in 0..10 {
        let sent = read_lines(&client.reply_to("POST").body);
        assert_eq!(sent[1]["value"], number.to_string());
    }
}

/// So one write has the head and the answers, where they come together.
#[test]
fn a_batch_with_its_length_gets_no_head_before_its_first_answer() {
    let (disk, gate) = gated_disk();
    let node = Server::start_with(config(), seams(disk)).unwrap();
    gate.close();
    let mut stream = TcpStream::connect(node.addresses()[0]).unwrap();
    let line = put("k", "v");
    let length = format!("content-length: {}\r\n\r\n{line}", line.len());
    let request = format!("POST /v0/batch HTTP/1.1\r\nhost: localhost\r\n{NDJSON}{length}");
    stream.write_all(request.as_bytes()).unwrap();
    wait_for_metric(&node, "kvorum_requests_in_flight", "1.0");
    stream.set_nonblocking(true).unwrap();
    let early = stream.peek(&mut [0]).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
    gate.open();
    let reply = Client::over(stream).reply_to("POST");
    assert_eq!(statuses(&read_lines(&reply.body)), [201]);
}
