//! Conditional writes while a node is killed: what several clients count together is the number of
//! their increments, none lost and none twice.

use crate::fixtures::cluster::{ClusterNode, TestCluster};
use crate::support::wait_until;
use http_testing::{Connection, Reply};
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const CLIENTS: usize = 6;
/// How long a client pauses after a node has not answered.
const PAUSE: Duration = Duration::from_millis(5);
const TARGET: &str = "/v0/entity?id=counter&replicas=2/3";

/// What the clients share.
#[derive(Default)]
struct Count {
    is_over: AtomicBool,
    done: AtomicU64,
}

/// Ends the clients, also when a test panics.
struct EndOfWork<'a>(&'a Count);

impl Drop for EndOfWork<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Relaxed);
    }
}

/// A client that counts through any node that answers.
struct Counter {
    name: String,
    addresses: Vec<SocketAddr>,
    connection: Option<Connection>,
}

impl Counter {
    /// Sends a request. After a failure the next one goes to another node, a little later.
    #[expect(
        clippy::disallowed_methods,
        reason = "the nodes are other processes, which may all be down for a while"
    )]
    fn ask(&mut self, method: &str, fields: &str, body: &[u8]) -> Option<Reply> {
        let answered = self.try_ask(method, fields, body);
        if answered.is_err() {
            self.connection = None;
            self.addresses.rotate_left(1);
            std::thread::sleep(PAUSE);
        }
        answered.ok()
    }

    fn try_ask(&mut self, method: &str, fields: &str, body: &[u8]) -> io::Result<Reply> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(Connection::connect(self.addresses[0])?),
        };
        connection.request(method, TARGET, fields, body)
    }

    /// Counts one as the client's increment of this number, once: the value says which was its
    /// last. Gives up when the test is over, and then that increment may count or not.
    fn increment(&mut self, number: u64, count: &Count) -> bool {
        while !count.is_over.load(Relaxed) {
            let Some(found) = self.ask("GET", "", b"") else {
                continue;
            };
            if found.status != 200 {
                continue;
            }
            let mut value: Value = found.json();
            if value["last"][&self.name].as_u64() >= Some(number) {
                return true;
            }
            value["count"] = (value["count"].as_u64().unwrap() + 1).into();
            value["last"][&self.name] = number.into();
            let fields = format!("if-match: {}\r\n", found.header("etag").unwrap());
            let written = self.ask("PUT", &fields, value.to_string().as_bytes());
            match written.map(|reply| reply.status) {
                Some(201) => return true,
                // Another client was faster, or it is unknown: the next read says it.
                Some(412 | 503 | 504) | None => {}
                Some(status) => panic!("an increment was answered {status}"),
            }
        }
        false
    }

    /// Counts until the test is over. Returns how many increments the client knows to count.
    fn work(mut self, count: &Count) -> u64 {
        let mut number = 0;
        while self.increment(number + 1, count) {
            number += 1;
            count.done.fetch_add(1, Relaxed);
        }
        number
    }
}

fn counted_while(cluster: &mut TestCluster, meanwhile: impl FnOnce(&mut TestCluster, &Count)) {
    let addresses = [0, 1, 2].map(|index| cluster[index].location.address);
    let first = json!({"count": 0, "last": {}}).to_string();
    let mut connection = cluster[0].connect().unwrap();
    let created = connection.request("PUT", TARGET, "if-none-match: *\r\n", first.as_bytes());
    assert_eq!(created.unwrap().status, 201);
    let count = Count::default();
    let known: Vec<u64> = std::thread::scope(|scope| {
        let count = &count;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|name| {
                let mut addresses = addresses.to_vec();
                addresses.rotate_left(name % 3);
                let counter = Counter {
                    name: format!("client-{name}"),
                    addresses,
                    connection: None,
                };
                scope.spawn(move || counter.work(count))
            })
            .collect();
        {
            let _end = EndOfWork(count);
            meanwhile(cluster, count);
        }
        let known = clients.into_iter().map(|client| client.join().unwrap());
        known.collect()
    });
    // The clients have ended, so nothing is under way but what was cut short.
    let mut connection = cluster[1].connect().unwrap();
    let value: Value = wait_until("a quorum", || {
        let found = connection.request("GET", TARGET, "", b"").unwrap();
        (found.status == 200).then(|| found.json())
    });
    let mut sum = 0;
    for (name, known) in known.into_iter().enumerate() {
        let last = &value["last"][format!("client-{name}")];
        let last = last.as_u64().unwrap_or(0);
        // The increment that was under way at the end may count, or not.
        assert!(
            (known..=known + 1).contains(&last),
            "{name}: {known}, {value}"
        );
        sum += last;
    }
    assert_eq!(value["count"], sum, "{value}");
}

/// Waits for so many more increments.
fn go_on(count: &Count, increments: u64) {
    let before = count.done.load(Relaxed);
    wait_until("increments", || {
        (count.done.load(Relaxed) >= before + increments).then_some(())
    });
}

#[test]
fn no_increment_is_lost_or_counts_twice_while_a_node_is_killed() {
    let mut cluster = TestCluster::start();
    counted_while(&mut cluster, |cluster, count| {
        for node in [2, 0] {
            go_on(count, 60);
            ClusterNode::kill(&mut cluster[node]);
            go_on(count, 60);
            cluster[node].start(&[]);
        }
        go_on(count, 60);
    });
}

#[test]
fn no_increment_is_lost_or_counts_twice_over_a_crash_of_all_nodes() {
    let mut cluster = TestCluster::start();
    counted_while(&mut cluster, |cluster, count| {
        go_on(count, 60);
        for node in &mut cluster.nodes {
            node.kill();
        }
        cluster.start_all();
        go_on(count, 60);
    });
}
