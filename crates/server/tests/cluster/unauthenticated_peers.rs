//! Connections that ask to be a peer's and never prove it, while a real peer connects.

use crate::support::{Cluster, until};
use crate::wire::{Client, connected_from};
use lsm_testing::Ends;
use std::collections::VecDeque;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// More unauthenticated peer connections than a node keeps at a time.
const UNAUTHENTICATED: usize = 300;

/// The pause between two connections of the flood. Without it, the flood takes all
/// processors from nodes that share them, and these suspect each other.
const PAUSE: Duration = Duration::from_millis(1);

/// Opens new connections until the flag is set, all from one address that is not a peer's.
/// Each asks to be a peer's and sends nothing more.
#[expect(
    clippy::disallowed_methods,
    reason = "the flood is not part of the node"
)]
fn flood(address: SocketAddr, is_over: &AtomicBool, opened: &AtomicUsize) {
    let mut open = VecDeque::new();
    while !is_over.load(Ordering::SeqCst) {
        open.push_back(connect(address));
        opened.fetch_add(1, Ordering::SeqCst);
        if open.len() > UNAUTHENTICATED {
            open.pop_front();
        }
        std::thread::sleep(PAUSE);
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let mut stream = connected_from(Ipv4Addr::new(127, 0, 0, 2), address);
    let upgrade = "GET /v0/peer HTTP/1.1\r\nhost: localhost\r\n\
                   connection: upgrade\r\nupgrade: kvorum-peer/1\r\n\r\n";
    // The node may have closed the connection already.
    let _ = stream.write_all(upgrade.as_bytes());
    stream
}

#[test]
fn a_flood_of_unauthenticated_connections_does_not_keep_a_peer_out() {
    let mut cluster = Cluster::start_with(2, |config| config.connections_max = 16);
    cluster.stop_node(1);
    // Clients take all connection slots and keep them.
    let mut clients: Vec<Client> = Vec::new();
    until("the node is full of clients", || {
        let mut client = cluster.client(0);
        let is_full = client.get("/v0/status").status == 503;
        clients.push(client);
        is_full
    });
    let address = cluster.node(0).addresses()[0];
    let (is_over, opened) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| flood(address, &is_over, &opened));
        let _ends = Ends(&is_over);
        until(
            "the flood has opened more connections than the node keeps",
            || opened.load(Ordering::SeqCst) > UNAUTHENTICATED,
        );
        cluster.start_node(1);
        until("the peer is connected", || {
            cluster.member_at(1, 0)["state"] == "up"
        });
        // The node has to reach the peer as well.
        until("both replicas store a write", || {
            let put = clients[0].put("/v0/entity?id=a&replicas=2/2", b"value");
            put.status == 201
        });
        until("both replicas answer a read", || {
            let get = cluster.client(1).get("/v0/entity?id=a&replicas=2/2");
            (get.status, get.text()) == (200, "value")
        });
    });
}
