//! `/v0/batch` on one node.

use crate::support::{
    Client, Reply, config, gated_disk, seams, start, start_with, wait_for_metric,
};
use serde_json::{Value, json};
use server::Server;

const NDJSON: &str = "content-type: application/x-ndjson\r\n";

/// Sends a batch with its length.
fn batch(client: &mut Client, body: &str) -> Reply {
    client.request("POST", "/v0/batch", NDJSON, body.as_bytes())
}

/// The answers in a body.
fn answers(body: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(body).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn statuses(answers: &[Value]) -> Vec<u64> {
    answers
        .iter()
        .map(|answer| answer["status"].as_u64().unwrap())
        .collect()
}

fn put(key: &str, value: &str) -> String {
    format!("{}\n", json!({"op": "put", "key": key, "value": value}))
}

fn get(key: &str) -> String {
    format!("{}\n", json!({"op": "get", "key": key}))
}

/// A batch that is sent chunk by chunk while its answers are read.
struct Stream {
    client: Client,
}

impl Stream {
    fn open(node: &Server) -> Self {
        let mut client = Client::connect(node);
        client.send(format!(
            "POST /v0/batch HTTP/1.1\r\nhost: localhost\r\n{NDJSON}transfer-encoding: chunked\r\n\r\n"
        ));
        let (status, headers) = client.head();
        assert_eq!(status, 200);
        let is_chunked =
            |(name, value): &(String, String)| name == "transfer-encoding" && value == "chunked";
        assert!(headers.iter().any(is_chunked), "{headers:?}");
        Self { client }
    }

    fn send(&mut self, body: &str) {
        self.client.send(chunk(body));
    }

    fn finish(&mut self) {
        self.client.send("0\r\n\r\n");
    }

    /// The next answers; `None` at the end of a complete stream.
    fn next(&mut self) -> Option<Vec<Value>> {
        let mut lines = self.client.chunk()?;
        while !lines.ends_with(b"\n") {
            // A long value goes over several chunks.
            lines.extend(self.client.chunk().expect("the end of a line"));
        }
        Some(answers(&lines))
    }

    /// The next `count` answers, in however many chunks.
    fn take(&mut self, count: usize) -> Vec<Value> {
        let mut taken = Vec::new();
        while taken.len() < count {
            taken.extend(self.next().expect("further answers"));
        }
        assert_eq!(taken.len(), count);
        taken
    }
}

fn chunk(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n", body.len())
}

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
    let reply = batch(&mut client, &body.join("\n"));
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(reply.header("content-security-policy"), Some("sandbox"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let answers = answers(&reply.body);
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
    let reply = batch(&mut client, &body);
    let answers = answers(&reply.body);
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
        let reply = batch(&mut client, body);
        assert_eq!((reply.status, reply.body.len()), (200, 0), "{body:?}");
    }
    let mut stream = Stream::open(&node);
    stream.finish();
    assert_eq!(stream.next(), None);
}

#[test]
fn a_malformed_line_ends_the_batch_with_a_line_that_names_it() {
    let node = start();
    let mut client = Client::connect(&node);
    let body = [&put("a", "1"), "\n", "{\"op\":\"pat\"}\n", &put("b", "2")].concat();
    let reply = batch(&mut client, &body);
    let answers = answers(&reply.body);
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
fn a_malformed_line_ends_a_stream_while_its_client_still_sends() {
    let node = start();
    let mut stream = Stream::open(&node);
    stream.send(&put("a", "1"));
    assert_eq!(statuses(&stream.take(1)), [201]);
    stream.send("nonsense\n");
    assert_eq!(statuses(&stream.take(1)), [400]);
    assert_eq!(stream.next(), None, "the stream is complete");
    // The node reads on for a while, so that the client gets its answer, not a reset.
    stream.send(&put("b", "2"));
    stream.client.assert_closed();
}

#[test]
fn lines_that_are_too_long_are_passed_over() {
    let mut config = config();
    config.node.value_bytes_max = 100;
    let node = start_with(config);
    let mut client = Client::connect(&node);
    let line_bytes_max = 100usize.div_ceil(3) * 4 + (32 << 10);
    let longest = put("a", "v");
    let longest = format!(
        "{}{}",
        " ".repeat(line_bytes_max - (longest.len() - 1)),
        longest
    );
    let body = [
        longest.clone(),
        format!(" {longest}"),
        put("b", &"v".repeat(100)),
        put("c", &"v".repeat(101)),
        put("d", "v"),
    ];
    let body = body.concat();
    let reply = batch(&mut client, &body);
    let sent = answers(&reply.body);
    assert_eq!(statuses(&sent), [201, 413, 201, 413, 201]);
    assert_eq!(
        sent[1]["problem"]["type"],
        "urn:kvorum:problem:line-too-long"
    );
    assert_eq!(sent[1]["problem"]["line"], 2);
    assert_eq!(
        sent[3]["problem"]["type"],
        "urn:kvorum:problem:value-too-long"
    );
    let mut stream = Stream::open(&node);
    for piece in body.as_bytes().chunks(1000) {
        stream.send(std::str::from_utf8(piece).unwrap());
    }
    stream.finish();
    assert_eq!(statuses(&stream.take(5)), [201, 413, 201, 413, 201]);
    assert_eq!(stream.next(), None);
}

#[test]
fn a_stream_is_answered_while_it_is_sent() {
    let node = start();
    let mut stream = Stream::open(&node);
    for number in 0..20 {
        stream.send(&put("a", &number.to_string()));
        assert_eq!(statuses(&stream.take(1)), [201]);
        // The bytes of a line may arrive in any pieces.
        let line = get("a");
        let (begin, end) = line.split_at(number % line.len());
        for part in [begin, end] {
            if !part.is_empty() {
                stream.send(part);
            }
        }
        assert_eq!(stream.take(1)[0]["value"], number.to_string());
    }
    // The last line needs no end.
    stream.send(get("a").trim_end());
    stream.finish();
    assert_eq!(stream.take(1)[0]["value"], "19");
    assert_eq!(stream.next(), None);
    assert_eq!(stream.client.get("/v0/entity?id=a").text(), "19");
}

#[test]
fn a_stream_that_is_cut_has_done_what_was_answered() {
    let node = start();
    let mut stream = Stream::open(&node);
    stream.send(&put("a", "1"));
    assert_eq!(statuses(&stream.take(1)), [201]);
    stream.client.send("x\r\n");
    let rest = stream.client.rest();
    assert!(!rest.ends_with(b"0\r\n\r\n"), "a cut stream looks whole");
    assert_eq!(Client::connect(&node).get("/v0/entity?id=a").text(), "1");
    wait_for_metric(&node, "kvorum_requests_in_flight", "0.0");
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
        assert_eq!(statuses(&answers(&reply.body)), [201]);
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
fn the_longest_batch_has_16_mib_and_so_has_its_answer() {
    let node = start();
    let mut client = Client::connect(&node);
    let value = "v".repeat(4 << 20);
    let mut body: String = (0..3).map(|key| put(&format!("k{key}"), &value)).collect();
    body += &put("k3", &"v".repeat((4 << 20) - 4096));
    body += &" ".repeat((16 << 20) - body.len());
    let reply = batch(&mut client, &body);
    assert_eq!(statuses(&answers(&reply.body)), [201; 4]);
    let body: String = [0, 1, 2, 0, 3, 1]
        .map(|key| get(&format!("k{key}")))
        .concat();
    let reply = batch(&mut client, &body);
    let sent = answers(&reply.body);
    assert_eq!(statuses(&sent), [200, 200, 200, 413, 200, 413]);
    assert_eq!(
        sent[3]["problem"]["type"],
        "urn:kvorum:problem:answer-too-long"
    );
    assert!(reply.body.len() <= 16 << 20);
    // A stream has no such bound.
    let mut stream = Stream::open(&node);
    stream.send(&body);
    stream.finish();
    assert_eq!(statuses(&stream.take(6)), [200; 6]);
    assert_eq!(stream.next(), None);
    wait_for_metric(&node, "kvorum_upload_bytes", "0.0");
    wait_for_metric(&node, "kvorum_answer_bytes", "0.0");
}

#[test]
fn a_batch_holds_half_of_the_permits_and_waits_for_them() {
    let mut config = config();
    config.requests_in_flight_max = 4;
    config.requests_queued_max = 0;
    let (disk, gate) = gated_disk();
    let node = Server::start_with(config, seams(disk)).unwrap();
    gate.close();
    let mut first = Stream::open(&node);
    let mut second = Stream::open(&node);
    for (number, stream) in [&mut first, &mut second].into_iter().enumerate() {
        let lines: String = (0..9)
            .map(|key| put(&format!("{number}-{key}"), "v"))
            .collect();
        stream.send(&lines);
    }
    wait_for_metric(&node, "kvorum_requests_in_flight", "2.0");
    // The other half is for other requests.
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(&node)).collect();
    for client in &mut clients {
        client.send("DELETE /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\n\r\n");
    }
    wait_for_metric(&node, "kvorum_requests_in_flight", "4.0");
    let mut refused = Client::connect(&node);
    assert_eq!(refused.delete("/v0/entity?id=b").status, 503);
    gate.open();
    for stream in [&mut first, &mut second] {
        assert_eq!(
            statuses(&stream.take(9)),
            [201; 9],
            "a batch is not refused"
        );
        stream.finish();
        assert_eq!(stream.next(), None);
    }
    for client in &mut clients {
        assert_eq!(client.reply_to("DELETE").status, 202);
    }
    wait_for_metric(&node, "kvorum_requests_in_flight", "0.0");
}

#[test]
fn operations_are_counted_by_what_they_do_and_status() {
    let node = start();
    let mut client = Client::connect(&node);
    let body = put("a", "1") + &get("a") + &get("b") + "{\"op\":\"delete\",\"key\":\"a\"}\nx\n";
    assert_eq!(batch(&mut client, &body).status, 200);
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
    assert_eq!(statuses(&answers(&client.rest())), [201, 200]);
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
        let sent = answers(&client.reply_to("POST").body);
        assert_eq!(sent[1]["value"], number.to_string());
    }
}

/// The budget for answers is used up by one batch whose client does not read. Another one
/// goes on, one read at a time, also if its oldest operation became ready after others.
#[test]
fn a_batch_goes_on_while_another_holds_the_memory_for_answers() {
    let node = start();
    let mut client = Client::connect(&node);
    let value = "v".repeat(60 << 10);
    for key in 0..4 {
        assert_eq!(
            client
                .put(&format!("/v0/entity?id=k{key}"), value.as_bytes())
                .status,
            201
        );
    }
    let gets: String = (0..4).map(|key| get(&format!("k{key}"))).collect();
    let mut stalled: Vec<Stream> = (0..4).map(|_| Stream::open(&node)).collect();
    for stream in &mut stalled {
        stream.send(&gets.repeat(60));
    }
    let name = "kvorum_batch_answer_bytes";
    loop {
        let page = client.get("/metrics");
        let value = page.text().lines().find_map(|line| line.strip_prefix(name));
        if value.unwrap().trim().parse::<f64>().unwrap() > f64::from(800 << 10) {
            break;
        }
    }
    let mut body = put("same", "1") + &put("same", "2") + &get("same");
    body += &gets.repeat(5);
    let sent = answers(&batch(&mut client, &body).body);
    assert_eq!(statuses(&sent[..3]), [201, 201, 200]);
    assert_eq!(statuses(&sent[3..]), [200; 20]);
    drop(stalled);
    wait_for_metric(&node, name, "0.0");
}

/// Nobody is waited for longer than the stall timeout, and a stream that ends so does not
/// look whole.
#[test]
fn a_stream_whose_client_stalls_is_cut() {
    let mut config = config();
    config.scan_stall_timeout = std::time::Duration::from_millis(300);
    let node = start_with(config);
    for begin in ["", "{\"op\":\"put\",", &"x".repeat(20_000)] {
        let mut stream = Stream::open(&node);
        stream.send(&put("a", "1"));
        assert_eq!(statuses(&stream.take(1)), [201]);
        if !begin.is_empty() {
            stream.send(begin);
        }
        assert_eq!(stream.client.rest(), b"", "no last chunk");
    }
    wait_for_metric(&node, "kvorum_requests_in_flight", "0.0");
    wait_for_metric(&node, "kvorum_upload_bytes", "0.0");
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the node stops while its client reads"
)]
fn a_node_that_stops_answers_what_it_runs_and_cuts_the_stream() {
    let node = start();
    let mut stream = Stream::open(&node);
    stream.send(&put("a", "1"));
    assert_eq!(statuses(&stream.take(1)), [201]);
    let stopping = std::thread::spawn(move || drop(node));
    assert_eq!(stream.client.rest(), b"", "no last chunk");
    stopping.join().unwrap();
}
