//! Batches that are answered while they are sent.

use crate::support::lines::{BatchStream, get, put, statuses};
use crate::support::{Client, config, start, start_with, wait_for_metric};

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
