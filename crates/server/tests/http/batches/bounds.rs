//! How much a batch may be, hold and have the node do at a time.

use crate::support::lines::{
    BatchStream, NDJSON, batch, get, put, read_lines, send_batch, statuses,
};
use crate::support::{
    Client, config, connected_from, gated_disk, metric, seams, start, start_with, wait_for_metric,
    wait_until,
};
use server::{Server, ServerConfig};
use std::net::Ipv4Addr;
use std::time::Duration;

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
    let sent = batch(&mut client, "/v0/batch", &body);
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
    assert_eq!(sent[3]["problem"]["line"], 4);
    let mut stream = BatchStream::open(&node);
    for piece in body.as_bytes().chunks(1000) {
        stream.send(std::str::from_utf8(piece).unwrap());
    }
    stream.finish();
    assert_eq!(statuses(&stream.take(5)), [201, 413, 201, 413, 201]);
    assert_eq!(stream.next(), None);
}

#[test]
fn the_longest_batch_has_16_mib_and_so_has_its_answer() {
    let node = start();
    let mut client = Client::connect(&node);
    let value = "v".repeat(4 << 20);
    let mut body: String = (0..3).map(|key| put(&format!("k{key}"), &value)).collect();
    body += &put("k3", &"v".repeat((4 << 20) - 4096));
    body += &" ".repeat((16 << 20) - body.len());
    let reply = send_batch(&mut client, "/v0/batch", &body);
    assert_eq!(statuses(&read_lines(&reply.body)), [201; 4]);
    let body: String = [0, 1, 2, 0, 3, 1]
        .map(|key| get(&format!("k{key}")))
        .concat();
    let headers = format!(
        "content-type: application/x-ndjson\r\ntraceparent: 00-{}-00f067aa0ba902b7-01\r\n",
        "7".repeat(32)
    );
    let reply = client.request("POST", "/v0/batch", &headers, body.as_bytes());
    let sent = read_lines(&reply.body);
    assert_eq!(statuses(&sent), [200, 200, 200, 413, 200, 413]);
    assert_eq!(sent[3]["problem"]["trace"], "7".repeat(32));
    assert_eq!(
        sent[3]["problem"]["type"],
        "urn:kvorum:problem:answer-too-long"
    );
    assert!(reply.body.len() <= 16 << 20);
    // A stream has no such bound.
    let mut stream = BatchStream::open(&node);
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
    let mut first = BatchStream::open(&node);
    let mut second = BatchStream::open(&node);
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

/// The quota for answers is used up by one batch whose client does not read. Another one
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
    let mut stalled: Vec<BatchStream> = (0..4).map(|_| BatchStream::open(&node)).collect();
    for stream in &mut stalled {
        stream.send(&gets.repeat(60));
    }
    let name = "kvorum_batch_answer_bytes";
    until_metric(&mut client, name, |bytes| bytes > f64::from(800 << 10));
    let mut body = put("same", "1") + &put("same", "2") + &get("same");
    body += &gets.repeat(5);
    let sent = batch(&mut client, "/v0/batch", &body);
    assert_eq!(statuses(&sent[..3]), [201, 201, 200]);
    assert_eq!(statuses(&sent[3..]), [200; 20]);
    drop(stalled);
    wait_for_metric(&node, name, "0.0");
}

/// The values of a batch that one quota cannot hold together are sent one after another,
/// however slowly the client reads.
#[test]
fn a_read_that_finds_no_memory_waits_until_the_answers_before_it_are_written() {
    // More than the system buffers, so that the node holds an answer until the client reads.
    const VALUE_BYTES: usize = 5 << 20;
    let mut config = config();
    // The quota has room for one value of this length.
    config.node.value_bytes_max = 8 << 20;
    assert_eq!(config.memory_split().node.answers_bytes, 8 << 20);
    let node = start_with(config);
    let mut client = Client::connect(&node);
    let put = client.put("/v0/entity?id=k", &vec![b'v'; VALUE_BYTES]);
    assert_eq!(put.status, 201);
    let mut stream = BatchStream::open(&node);
    stream.send(&get("k").repeat(3));
    stream.finish();
    wait_for_metric(
        &node,
        "kvorum_answer_bytes",
        &format!("{:?}", VALUE_BYTES as f64),
    );
    assert_eq!(statuses(&stream.take(3)), [200; 3]);
    assert_eq!(stream.next(), None);
}

/// The oldest read finds no memory, because an answer behind it holds that, which can only
/// be written after it. What is behind it is read again, as it was when its turn came.
#[test]
fn a_read_gets_the_memory_that_answers_behind_it_hold() {
    const LONG_BYTES: usize = (8 << 20) - (100 << 10);
    let mut config = config();
    config.node.value_bytes_max = 8 << 20;
    assert_eq!(config.memory_split().node.answers_bytes, 8 << 20);
    let (disk, gate) = gated_disk();
    let node = Server::start_with(config, seams(disk)).unwrap();
    let mut client = Client::connect(&node);
    let long = vec![b'v'; LONG_BYTES];
    assert_eq!(client.put("/v0/entity?id=long", &long).status, 201);
    gate.close();
    let mut stream = BatchStream::open(&node);
    let value = "v".repeat(200 << 10);
    stream.send(&(put("k", &value) + &get("k") + &get("long") + &put("long", "w")));
    stream.send(&(0..40).map(|_| get("long")).collect::<String>());
    stream.finish();
    // The read behind has ended, and the oldest one waits for the put.
    let held = format!("{:?}", LONG_BYTES as f64);
    wait_for_metric(&node, "kvorum_answer_bytes", &held);
    gate.open();
    let answers = stream.take(44);
    assert_eq!(statuses(&answers[..4]), [201, 200, 200, 201]);
    assert_eq!(answers[1]["value"], value);
    assert_eq!(
        answers[2]["value"].as_str().map(str::len),
        Some(LONG_BYTES),
        "the put behind it comes later"
    );
    assert!(answers[4..].iter().all(|answer| answer["value"] == "w"));
    assert_eq!(stream.next(), None);
    wait_for_metric(&node, "kvorum_answer_bytes", "0.0");
}

/// A batch whose read finds no memory waits for it while others hold it, and holds none.
#[test]
fn a_read_waits_for_memory_that_another_batch_holds() {
    let (node, mut holder) = node_whose_memory_is_held(config());
    let mut stream = BatchStream::open(&node);
    stream.send(&(get("k") + &get("short")));
    wait_for_metric(&node, "kvorum_batch_streams", "2.0");
    // Each answer is a turn of the runtime, in which the read asks as well.
    let mut client = Client::connect(&node);
    for _ in 0..20 {
        assert_eq!(client.get("/v0/status").status, 200);
    }
    assert_eq!(statuses(&holder.take(1)), [200]);
    assert_eq!(statuses(&stream.take(2)), [200, 404]);
    wait_for_metric(&node, "kvorum_answer_bytes", "0.0");
}

#[test]
fn a_read_waits_for_memory_as_long_as_its_timeout() {
    let mut config = config();
    config.node.timeout = Duration::from_secs(1);
    let (node, _holder) = node_whose_memory_is_held(config);
    let mut client = Client::connect(&node);
    let sent = batch(&mut client, "/v0/batch", &(get("k") + &get("short")));
    assert_eq!(statuses(&sent), [503, 404]);
}

/// A node and a batch that holds all its memory for long values, because it does not read the
/// answer, until it does.
fn node_whose_memory_is_held(mut config: ServerConfig) -> (Server, BatchStream) {
    // More than the system buffers.
    const VALUE_BYTES: usize = 5 << 20;
    // The memory has room for one value of this length.
    config.node.value_bytes_max = 8 << 20;
    assert_eq!(config.memory_split().node.answers_bytes, 8 << 20);
    let node = start_with(config);
    let mut client = Client::connect(&node);
    let put = client.put("/v0/entity?id=k", &vec![b'v'; VALUE_BYTES]);
    assert_eq!(put.status, 201);
    let mut holder = BatchStream::open(&node);
    holder.send(&get("k"));
    let held = format!("{:?}", VALUE_BYTES as f64);
    wait_for_metric(&node, "kvorum_answer_bytes", &held);
    (node, holder)
}

/// Each chunked batch holds memory that nothing else counts, so their number is bounded, and
/// no address has more than half of them.
#[test]
fn further_chunked_batches_are_refused_until_one_ends() {
    let config = config();
    let streams_max = config.memory_split().batch_streams_max;
    let node = start_with(config);
    let name = "kvorum_batch_streams";
    let client_of = |last: u8| {
        let address = Ipv4Addr::new(127, 0, 0, last);
        Client::over(connected_from(address, node.addresses()[0]))
    };
    let assert_refused = |mut client: Client| {
        let head = "POST /v0/batch HTTP/1.1\r\nhost: localhost\r\n";
        client.send(format!(
            "{head}{NDJSON}transfer-encoding: chunked\r\n\r\n0\r\n\r\n"
        ));
        let reply = client.reply_to("POST");
        assert_eq!(reply.status, 503);
        assert_eq!(reply.json()["type"], "urn:kvorum:problem:overloaded");
        assert_eq!(reply.header("retry-after"), Some("1"));
    };
    let open_half =
        |last: u8| (0..streams_max / 2).map(move |_| BatchStream::open_over(client_of(last)));
    let mut streams: Vec<BatchStream> = open_half(1).collect();
    assert_refused(client_of(1));
    streams.extend(open_half(2));
    wait_for_metric(&node, name, &format!("{:?}", streams_max as f64));
    assert_refused(client_of(3));
    // The others go on, and one with its length needs no place.
    for stream in &mut streams {
        stream.send(&put("k", "v"));
        assert_eq!(statuses(&stream.take(1)), [201]);
    }
    let mut client = Client::connect(&node);
    assert_eq!(statuses(&batch(&mut client, "/v0/batch", &get("k"))), [200]);
    let mut ended = streams.pop().unwrap();
    ended.finish();
    assert_eq!(ended.next(), None);
    let left = (streams_max - 1) as f64;
    wait_for_metric(&node, name, &format!("{left:?}"));
    let mut stream = BatchStream::open_over(client_of(2));
    stream.send(&get("k"));
    assert_eq!(statuses(&stream.take(1)), [200]);
    drop((stream, streams));
    wait_for_metric(&node, name, "0.0");
}

/// Streams hold what they have read and not answered, and count it: they read on only while
/// all of them together have room.
#[test]
fn the_windows_of_all_batches_have_one_bound() {
    let config = config();
    let window_bytes_max = config.memory_split().batch_windows_bytes as f64;
    let (disk, gate) = gated_disk();
    let node = Server::start_with(config, seams(disk)).unwrap();
    gate.close();
    let value = "v".repeat(1 << 10);
    let lines: String = (0..400)
        .map(|key| put(&format!("k{key}"), &value))
        .collect();
    let mut streams: Vec<BatchStream> = (0..5).map(|_| BatchStream::open(&node)).collect();
    for stream in &mut streams {
        stream.send(&lines);
    }
    let name = "kvorum_batch_window_bytes";
    let mut client = Client::connect(&node);
    let used = until_metric(&mut client, name, |bytes| bytes > window_bytes_max * 0.9);
    assert!(used <= window_bytes_max, "{used}");
    gate.open();
    for stream in &mut streams {
        assert_eq!(statuses(&stream.take(400)), [201; 400]);
        stream.finish();
        assert_eq!(stream.next(), None);
    }
    wait_for_metric(&node, name, "0.0");
}

/// Waits until a metric is as wanted, and returns it.
fn until_metric(client: &mut Client, name: &str, is_wanted: impl Fn(f64) -> bool) -> f64 {
    let mut value = 0.0;
    wait_until(name, || {
        value = metric(client, name);
        is_wanted(value)
    });
    value
}
