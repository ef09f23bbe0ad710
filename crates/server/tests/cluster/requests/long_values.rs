//! Long values: the memory of one that was answered, and those that are longer than a limit
//! allows by now.

use crate::support::{Cluster, OpenOnDrop, until};
use crate::wire::lines::{BatchStream, put, statuses};
use crate::wire::{Client, gated_disk};
use lsm::Disk;
use lsm_testing::MemoryDisk;
use std::sync::Arc;

/// More than half of what uploads may hold with the limit below.
const LONG_BYTES: usize = 12 << 20;

/// The longest value that a node takes which has stored such ones.
const HIGH_LIMIT_BYTES: usize = 16 << 20;

/// The limit that they are beyond. The memory for answers has no room for one then.
const LOW_LIMIT_BYTES: usize = 1 << 20;

fn target(key: &str, pair: &str) -> String {
    format!("/v0/entity?id={key}&replicas={pair}")
}

/// A value that says which one it is.
fn value(first: u8) -> Vec<u8> {
    let mut value = vec![b'v'; LONG_BYTES];
    value[0] = first;
    value
}

/// A write goes on after its answer, until its last replica has it. What it holds meanwhile
/// must not have the next write of the same client refused.
#[test]
fn the_next_write_of_a_client_waits_for_the_memory_of_the_one_before() {
    let (gated, gate) = gated_disk();
    let gated: Arc<dyn Disk> = gated;
    let cluster = Cluster::start_on(
        3,
        |config| config.node.value_bytes_max = HIGH_LIMIT_BYTES,
        |node| match node {
            2 => Arc::clone(&gated),
            _ => Arc::new(MemoryDisk::new()),
        },
    );
    let _open = OpenOnDrop(Arc::clone(&gate));
    let room = cluster.config(0).memory_split().uploads_long_bytes;
    assert!((LONG_BYTES..2 * LONG_BYTES).contains(&room), "{room}");
    gate.close();
    let mut client = cluster.client(0);
    let first = client.put(&target("a", "2/3"), &value(b'1'));
    assert_eq!(
        (first.status, first.header("kvorum-acks")),
        (201, Some("2/3"))
    );
    let held = cluster.metric(0, "kvorum_upload_bytes ");
    assert_eq!(
        held, LONG_BYTES as f64,
        "the third replica has not answered"
    );
    let head = format!(
        "PUT {} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {LONG_BYTES}\r\n\r\n",
        target("b", "2/3")
    );
    client.send(head);
    // Each answer is a turn of the runtime, in which it could have been refused.
    let mut other = cluster.client(0);
    for _ in 0..20 {
        assert_eq!(other.get("/v0/status").status, 200);
    }
    gate.open();
    client.send(value(b'2'));
    assert_eq!(client.reply_to("PUT").status, 201);
}

/// Asks for a key until there is memory for its value: one such value is in memory at a time.
fn read(client: &mut Client, target: &str) -> Vec<u8> {
    let mut reply = client.get(target);
    until("the value is there", || {
        if [503, 504].contains(&reply.status) {
            reply = client.get(target);
        }
        reply.status == 200
    });
    reply.body
}

#[test]
fn what_is_stored_can_be_read_whatever_the_limit_is_now() {
    let mut cluster =
        Cluster::start_with(3, |config| config.node.value_bytes_max = HIGH_LIMIT_BYTES);
    for (key, first) in [("long-1", b'1'), ("long-2", b'2'), ("long-3", b'3')] {
        cluster.put_acknowledged(0, &target(key, "3/3"), &value(first));
    }
    // A scan finds that the replicas differ, and reads both keys singly.
    cluster.stop_node(2);
    for (key, first) in [("long-1", b'4'), ("long-2", b'5')] {
        cluster.put_acknowledged(0, &target(key, "2/3"), &value(first));
    }
    cluster.stop_node(0);
    cluster.lose_hints(0);
    cluster.stop_node(1);
    for node in 0..3 {
        cluster.change_config(node, |config| config.node.value_bytes_max = LOW_LIMIT_BYTES);
        let memory = cluster.config(node).memory_split().node;
        assert!(memory.answers_bytes < LONG_BYTES && memory.peer_bytes < LONG_BYTES);
    }
    for node in 0..3 {
        cluster.start_node(node);
    }
    cluster.wait_until_joined();
    let mut client = cluster.client(1);
    let too_long = client.put(&target("a", "1/1"), &value(b'9'));
    assert_eq!(too_long.status, 413);

    let mut client = cluster.client(1);
    let of_cluster = "/v0/entities?start=long&scope=cluster&replicas=2/3";
    let scan = read(&mut client, of_cluster);
    let expected: Vec<u8> = [("long-1", b'4'), ("long-2", b'5'), ("long-3", b'3')]
        .iter()
        .flat_map(|(key, first)| [key.as_bytes(), b"\n", &value(*first)].concat())
        .collect();
    assert!(scan == expected, "{} bytes", scan.len());
    let own = read(&mut client, "/v0/entities?start=long");
    assert!(own == expected, "{} bytes", own.len());
    for pair in ["1/1", "2/3", "3/3"] {
        let got = read(&mut client, &target("long-3", pair));
        assert!(got == value(b'3'), "{pair}: {} bytes", got.len());
    }
    // A scan repairs what is stale, where it does not pass over a node that is suspected.
    for node in 0..3 {
        until("a scan has repaired what was stale", || {
            let own = read(
                &mut cluster.client(node),
                "/v0/entities?start=long-1&limit=1",
            );
            let is_newest = own.starts_with(b"long-1\n4");
            if !is_newest {
                read(&mut client, of_cluster);
            }
            is_newest
        });
    }
}

/// What one node acknowledges must reach the others, whatever their limits are.
#[test]
fn hints_and_writes_with_longer_values_than_a_node_takes_reach_it() {
    let mut cluster =
        Cluster::start_with(3, |config| config.node.value_bytes_max = HIGH_LIMIT_BYTES);
    cluster.stop_node(2);
    cluster.change_config(2, |config| config.node.value_bytes_max = LOW_LIMIT_BYTES);
    assert!(cluster.config(2).memory_split().node.peer_bytes < LONG_BYTES);
    for (key, first) in [("long-1", b'1'), ("long-2", b'2')] {
        let put = cluster.client(0).put(&target(key, "2/3"), &value(first));
        assert_eq!(put.status, 201, "{key}");
    }
    assert_eq!(cluster.hints_at(0, 2), 2);
    cluster.start_node(2);
    until("the hints are delivered", || cluster.hints_at(0, 2) == 0);
    let own = read(&mut cluster.client(2), "/v0/entities?start=long");
    assert_eq!(own.len(), 2 * (7 + LONG_BYTES));
    cluster.put_acknowledged(0, &target("long-3", "3/3"), &value(b'3'));
}

/// An import sends lines as long as a node takes them, one after another over one body.
#[test]
fn the_longest_lines_are_imported_into_small_nodes() {
    let cluster = Cluster::start_with(3, |config| config.set_memory_bytes(128 << 20));
    let value_bytes_max = cluster.config(0).node.value_bytes_max;
    let line_bytes_max = value_bytes_max.div_ceil(3) * 4 + (32 << 10);
    let value = "v".repeat(value_bytes_max);
    let keys = ["a", "b", "c", "d"];
    let mut stream = BatchStream::open_over(cluster.client(0));
    for key in keys {
        let line = put(key, &value);
        stream.send(&" ".repeat(line_bytes_max + 1 - line.len()));
        stream.send(&line);
    }
    stream.finish();
    assert_eq!(statuses(&stream.take(keys.len())), [201; 4]);
    assert_eq!(stream.next(), None);
    for key in keys {
        let got = read(&mut cluster.client(1), &target(key, "2/3"));
        assert!(got == value.as_bytes(), "{key}: {} bytes", got.len());
    }
}
