//! A node is killed while it writes: what it acknowledged is there afterwards.

use crate::fixtures::ledger::Ledger;
use crate::support::{Process, free_port, local, request, serve, started, wait_until};
use http_testing::Connection;
use rustix::process::Signal;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const KILLS: usize = 4;
const CLIENTS: usize = 4;
/// Each client has keys of its own, so it knows their values.
const KEYS: usize = 40;
const VALUE_BYTES: usize = 2_000;

/// Starts a node whose memtables are so small that it flushes and compacts
/// without a pause.
fn start(port: u16, data: &Path) -> Process {
    let mut command = serve(port, data);
    command.args(["--memtable-bytes", "64KiB"]);
    // On a busy machine a write may wait long for flush and compaction.
    command.args(["--timeout", "30s"]);
    started(&mut command, port)
}

/// Writes until the node is gone.
fn write(ledger: &mut Ledger, port: u16, writes: &AtomicU64) -> io::Result<()> {
    let mut connection = Connection::connect(local(port))?;
    loop {
        let write = ledger.next_write();
        let target = format!("/v0/entity?id={}", write.key);
        let answer = connection.request("PUT", &target, "", write.value.as_bytes())?;
        assert_eq!(answer.status, 201);
        ledger.acknowledge(&write, answer.version());
        writes.fetch_add(1, Relaxed);
    }
}

/// Reads every key of a client. Each has the acknowledged version or a newer
/// one whose acknowledgement the kill prevented.
fn check(ledger: &Ledger, port: u16) {
    let mut connection = Connection::connect(local(port)).unwrap();
    for place in 0..ledger.len() {
        assert_eq!(ledger.read(&mut connection, place, "").unwrap(), None);
    }
}

/// The value of a counter of the node.
fn metric(port: u16, name: &str) -> u64 {
    let (_, page) = request(port, "GET", "/metrics", b"").unwrap();
    let page = String::from_utf8(page).unwrap();
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap().parse().unwrap()
}

/// Kills a node, which ends its writers, also when a test panics.
struct KilledAtEnd<'a>(&'a Process);

impl Drop for KilledAtEnd<'_> {
    fn drop(&mut self) {
        self.0.signal(Signal::KILL);
    }
}

#[test]
fn every_acknowledged_write_survives_kills_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(23);
    let clients = 0..CLIENTS;
    let mut clients: Vec<_> = clients
        .map(|name| Ledger::new(name, KEYS, VALUE_BYTES))
        .collect();
    let (mut flushes, mut compactions) = (0, 0);
    for _ in 0..KILLS {
        let port = free_port();
        let mut node = start(port, folder.path());
        for client in &clients {
            check(client, port);
        }
        let writes = AtomicU64::new(0);
        let enough = random.u64(100..1_500);
        std::thread::scope(|scope| {
            for client in &mut clients {
                let writes = &writes;
                scope.spawn(move || write(client, port, writes));
            }
            let _killed = KilledAtEnd(&node);
            wait_until("enough writes", || {
                (writes.load(Relaxed) >= enough).then_some(())
            });
            flushes += metric(port, "kvorum_store_flushes_total");
            compactions += metric(port, "kvorum_store_compactions_total");
        });
        node.end();
    }
    let port = free_port();
    let _node = start(port, folder.path());
    for client in &clients {
        check(client, port);
    }
    assert!(
        flushes > 10 && compactions > 3,
        "the load was too small: {flushes} flushes, {compactions} compactions"
    );
}
