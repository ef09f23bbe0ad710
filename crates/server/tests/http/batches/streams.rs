//! Batches that are answered while they are sent.

use crate::support::lines::{BatchStream, get, put, statuses};
use crate::support::{Client, config, gated_disk, seams, start, start_with, wait_for_metric};
use server::Server;

#[test]
fn a_stream_is_answered_while_it_is_sent() {
    let node = start();
    let mut stream = BatchStream::open(&node);
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

/// So one connection keeps the store busy while it syncs.
#[test]
fn operations_of_a_stream_start_while_those_before_them_wait_for_the_disk() {
    let (disk, gate) = gated_disk();
    let node = Server::start_with(config(), seams(disk)).unwrap();
    let mut stream = BatchStream::open(&node);
    gate.close();
    for (batch, running) in ["10.0", "20.0", "30.0"].into_iter().enumerate() {
        let keys = (0..10).map(|key| format!("{batch}/{key}"));
        let lines = keys.map(|key| put(&key, &key)).collect::<String>();
        stream.send(&lines);
        wait_for_metric(&node, "kvorum_requests_in_flight", running);
    }
    gate.open();
    let answers = stream.take(30);
    assert_eq!(statuses(&answers), [201; 30]);
    let version = |answer: &serde_json::Value| answer["version"].as_str().unwrap().to_owned();
    assert!(answers.iter().map(version).is_sorted(), "{answers:?}");
    stream.finish();
    assert_eq!(stream.next(), None);
}

#[test]
fn a_malformed_line_ends_a_stream_while_its_client_still_sends() {
    let node = start();
    let mut stream = BatchStream::open(&node);
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
fn a_stream_that_is_cut_has_done_what_was_answered() {
    let node = start();
    let mut stream = BatchStream::open(&node);
    stream.send(&put("a", "1"));
    assert_eq!(statuses(&stream.take(1)), [201]);
    stream.client.send("x\r\n");
    let rest = stream.client.rest();
    assert!(!rest.ends_with(b"0\r\n\r\n"), "a cut stream looks whole");
    assert_eq!(Client::connect(&node).get("/v0/entity?id=a").text(), "1");
    wait_for_metric(&node, "kvorum_requests_in_flight", "0.0");
}

/// Nobody is waited for longer than the stall timeout, and a stream that ends so does not
/// look whole.
#[test]
fn a_stream_whose_client_stalls_is_cut() {
    let mut config = config();
    config.stall_timeout = std::time::Duration::from_secs(2);
    let node = start_with(config);
    for begin in ["", "{\"op\":\"put\",", &"x".repeat(20_000)] {
        let mut stream = BatchStream::open(&node);
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
    let mut stream = BatchStream::open(&node);
    stream.send(&put("a", "1"));
    assert_eq!(statuses(&stream.take(1)), [201]);
    let stopping = std::thread::spawn(move || drop(node));
    assert_eq!(stream.client.rest(), b"", "no last chunk");
    stopping.join().unwrap();
}
