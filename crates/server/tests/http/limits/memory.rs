//! The memory that clients can make a node hold: long heads, and answers that they do
//! not read, those of batches among them.

use crate::support::lines::{NDJSON, put, read_lines, statuses};
use crate::support::{Client, config, metric, start_with, wait_for_metric, wait_until};
use server::{MemorySplit, Server};
use socket2::{Domain, Socket, Type};
use std::net::TcpStream;
use std::time::Duration;

/// A node that updates its gauges often, and the bounds of what it holds.
fn start() -> (Server, MemorySplit) {
    let mut config = config();
    config.body_timeout = Duration::from_millis(100);
    config.head_timeout = Duration::from_secs(3600);
    let split = config.memory_split();
    (start_with(config), split)
}

/// A connection with a small receive buffer.
fn narrow(node: &Server) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    socket.connect(&node.addresses()[0].into()).unwrap();
    socket.into()
}

#[test]
fn long_heads_that_do_not_end_are_bounded_and_leave_room_for_short_ones() {
    const HEAD_BYTES: usize = 60 << 10;
    let (node, split) = start();
    let heads_max = split.heads_bytes / HEAD_BYTES;
    let start_line = "GET /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\nx: ";
    let unfinished = format!("{start_line}{}", "x".repeat(HEAD_BYTES - start_line.len()));
    let mut slow = Vec::new();
    for number in 1..=heads_max {
        let mut client = Client::connect(&node);
        client.send(&unfinished);
        let held = format!("{:?}", (number * HEAD_BYTES) as f64);
        wait_for_metric(&node, "kvorum_head_bytes", &held);
        slow.push(client);
    }
    let mut refused = Client::connect(&node);
    refused.send(&unfinished);
    let reply = refused.reply_to("GET");
    assert_eq!(reply.status, 503);
    assert_eq!(reply.json()["status"], 503);
    for (name, value) in [
        ("content-type", "application/problem+json"),
        ("connection", "close"),
        ("retry-after", "1"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(reply.header(name), Some(value));
    }
    refused.assert_closed();
    let refusals = "kvorum_requests_total{route=\"other\",method=\"other\",status=\"503\"}";
    wait_for_metric(&node, refusals, "1");
    // A long head that arrives in one piece counts, too.
    let long = format!("x: {}\r\n", "x".repeat(30 << 10));
    let mut client = Client::connect(&node);
    assert_eq!(client.request("GET", "/v0/status", &long, b"").status, 503);
    // Short heads are served.
    let mut client = Client::connect(&node);
    let short = format!("x: {}\r\n", "x".repeat(7 << 10));
    let put = client.request("PUT", "/v0/entity?id=a", &short, b"value");
    assert_eq!(put.status, 201);
    drop(slow);
    wait_for_metric(&node, "kvorum_head_bytes", "0.0");
    let reply = client.request("GET", "/v0/entity?id=a", &long, b"");
    assert_eq!((reply.status, reply.text()), (200, "value"));
    assert_eq!(reply.header("connection"), None);
    assert_eq!(client.get("/v0/entity?id=a").status, 200);
}

#[test]
fn connections_with_long_heads_are_closed_when_others_need_the_room() {
    let (node, split) = start();
    let half = split.heads_bytes / 2;
    let long = format!("x: {}\r\n", "x".repeat(24 << 10));
    let mut clients = Vec::new();
    // Each keeps its connection and the memory of its head, until half of the quota
    // is in use.
    let closed = (0..half / (16 << 10) + 2).find_map(|_| {
        let mut client = Client::connect(&node);
        let reply = client.request("GET", "/v0/status", &long, b"");
        assert_eq!(reply.status, 200);
        match reply.header("connection") {
            Some("close") => Some(client),
            _ => {
                clients.push(client);
                None
            }
        }
    });
    closed.unwrap().assert_closed();
    assert!(clients.len() > 10);
}

#[test]
fn answers_that_clients_do_not_read_are_bounded_and_the_oldest_is_cut_first() {
    const VALUE_BYTES: usize = 60 << 10;
    // More than the system buffers of one connection's answers.
    const REQUESTS: usize = 100;
    const UNSENT: &str = "kvorum_unsent_bytes";
    const OPEN: &str = "kvorum_connections";
    let (node, split) = start();
    let value = vec![b'v'; VALUE_BYTES];
    let mut client = Client::connect(&node);
    assert_eq!(client.put("/v0/entity?id=a", &value).status, 201);
    let request = "GET /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\n";
    let requests = format!("{request}\r\n").repeat(REQUESTS - 1);
    let requests = format!("{requests}{request}connection: close\r\n\r\n");
    // Where the system buffers end in the middle of an answer decides how much of it, and
    // of what is gathered behind it, still waits. So the node holds this much for each.
    let held = VALUE_BYTES..VALUE_BYTES + (20 << 10);
    let (mut readers, mut unsent, mut is_cut) = (Vec::new(), 0.0, false);
    while !is_cut {
        let mut reader = Client::over(narrow(&node));
        let open = (readers.len() + 2) as f64;
        wait_until("the connection is open", || {
            metric(&mut client, OPEN) == open
        });
        reader.send(&requests);
        readers.push(reader);
        let before = unsent;
        wait_until("the answers wait, or another connection is cut", || {
            is_cut = metric(&mut client, OPEN) < open;
            unsent = metric(&mut client, UNSENT);
            is_cut || unsent >= before + held.start as f64
        });
        assert!(unsent <= split.unsent_bytes as f64);
    }
    let number = readers.len() - 1;
    assert!(
        number >= split.unsent_bytes / held.end,
        "{number} were too many"
    );
    let mut answers = |reader: usize| readers[reader].rest().len() / VALUE_BYTES;
    assert!(answers(0) < REQUESTS, "the first was cut");
    assert!(answers(number) >= REQUESTS, "the last gets all of it");
    drop(readers);
    wait_for_metric(&node, UNSENT, "0.0");
    assert_eq!(client.get("/v0/entity?id=a").status, 200);
}

/// Those of reads count in a quota of their own, and these nowhere else.
#[test]
fn answers_of_batches_that_clients_do_not_read_count() {
    const UNSENT: &str = "kvorum_unsent_bytes";
    // More than the system buffers of the answers.
    const LINES: usize = 40_000;
    let mut config = config();
    config.body_timeout = Duration::from_millis(100);
    config.node.value_bytes_max = 1;
    let node = start_with(config);
    let mut client = Client::connect(&node);
    let body = put("k", "too long").repeat(LINES);
    let mut reader = Client::over(narrow(&node));
    let length = body.len();
    reader.send(format!(
        "POST /v0/batch HTTP/1.1\r\nhost: localhost\r\n{NDJSON}content-length: {length}\r\n\r\n\
         {body}"
    ));
    let held_min = f64::from(16 << 10);
    wait_until("the answers that wait", || {
        metric(&mut client, UNSENT) >= held_min
    });
    // The node makes no further answers meanwhile.
    assert!(metric(&mut client, UNSENT) < 4.0 * held_min);
    let answers = read_lines(&reader.reply_to("POST").body);
    assert_eq!(statuses(&answers), [413; LINES]);
    wait_for_metric(&node, UNSENT, "0.0");
}
