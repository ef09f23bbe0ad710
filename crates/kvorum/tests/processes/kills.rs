//! A node that is killed while it writes: what it acknowledged is there afterwards.

use crate::support::{Connection, Process, free_port, kvorum, request, until};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const KILLS: usize = 4;
const CLIENTS: usize = 4;
/// Each client has keys of its own, so that it knows what they hold.
const KEYS: u64 = 40;
const VALUE_BYTES: usize = 2_000;

/// A write that was acknowledged: the version, and the client's number for it.
#[derive(Clone, Copy)]
struct Acknowledged {
    version: u64,
    number: u64,
}

/// What a client knows of its keys, and the number of its next write.
#[derive(Default)]
struct Client {
    acknowledged: BTreeMap<String, Acknowledged>,
    next: u64,
}

/// A node with memtables so small that flush and compaction never rest.
fn serve(port: u16, data: &Path) -> Command {
    let url = format!("http://127.0.0.1:{port}");
    let memory = ["--memory", "128MiB", "--memtable-bytes", "64KiB"];
    // On a busy machine a write may wait for flush and compaction for long.
    let timeout = ["--timeout", "30s"];
    let mut command = kvorum(&["serve", "--log", "warn", "--url", &url]);
    command.args(memory).args(timeout).arg("--data").arg(data);
    command
}

fn value(number: u64) -> String {
    format!("{number:>VALUE_BYTES$}")
}

/// Writes until the node is gone.
fn write(client: &mut Client, name: usize, port: u16, writes: &AtomicU64) -> io::Result<()> {
    let mut connection = Connection::open(port)?;
    loop {
        let number = client.next;
        client.next += 1;
        let key = format!("{name}-{}", number % KEYS);
        let target = format!("/v0/entity?id={key}");
        let answer = connection.exchange("PUT", &target, value(number).as_bytes())?;
        assert_eq!(answer.status, 201);
        let version = answer.version.unwrap();
        let acknowledged = Acknowledged { version, number };
        client.acknowledged.insert(key, acknowledged);
        writes.fetch_add(1, Relaxed);
    }
}

/// Reads every key of a client: each has the acknowledged version or a newer
/// one, which is one of those whose acknowledgement the kill cut off.
fn check(client: &Client, port: u16) {
    let mut connection = Connection::open(port).unwrap();
    for (key, acknowledged) in &client.acknowledged {
        let target = format!("/v0/entity?id={key}");
        let answer = connection.exchange("GET", &target, b"").unwrap();
        assert_eq!(answer.status, 200, "{key} is gone");
        let version = answer.version.unwrap();
        let number: u64 = std::str::from_utf8(&answer.body)
            .unwrap()
            .trim_start()
            .parse()
            .unwrap();
        assert_eq!(answer.body, value(number).as_bytes());
        let Acknowledged {
            version: least,
            number: first,
        } = *acknowledged;
        assert!(
            (version == least && number == first) || (version > least && number > first),
            "{key} holds write {number} as version {version}, but write {first} was acknowledged as {least}"
        );
    }
}

/// A counter of the node's metrics.
fn metric(port: u16, name: &str) -> u64 {
    let (_, page) = request(port, "GET", "/metrics", b"").unwrap();
    let page = String::from_utf8(page).unwrap();
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap().parse().unwrap()
}

#[test]
fn every_acknowledged_write_survives_kills_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(23);
    let mut clients: [Client; CLIENTS] = Default::default();
    let (mut flushes, mut compactions) = (0, 0);
    for _ in 0..KILLS {
        let port = free_port();
        let mut node = Process::spawn(&mut serve(port, folder.path()));
        node.until_up(port);
        for client in &clients {
            check(client, port);
        }
        let writes = AtomicU64::new(0);
        let enough = random.u64(100..1_500);
        std::thread::scope(|scope| {
            for (name, client) in clients.iter_mut().enumerate() {
                let writes = &writes;
                scope.spawn(move || write(client, name, port, writes));
            }
            until("enough writes", || {
                (writes.load(Relaxed) >= enough).then_some(())
            });
            flushes += metric(port, "kvorum_store_flushes_total");
            compactions += metric(port, "kvorum_store_compactions_total");
            node.signal(Signal::KILL);
        });
        node.end();
    }
    let port = free_port();
    let mut node = Process::spawn(&mut serve(port, folder.path()));
    node.until_up(port);
    for client in &clients {
        check(client, port);
    }
    assert!(
        flushes > 10 && compactions > 3,
        "too little went on: {flushes} flushes, {compactions} compactions"
    );
}
