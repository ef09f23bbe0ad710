//! Connections that ask to be a peer's and never prove it, while a real peer connects.

use crate::support::{Cluster, until};
use crate::wire::Client;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

/// More unauthenticated peer connections than a node keeps at a time.
const UNAUTHENTICATED: usize = 300;

/// The pause between two connections of the flood. Without it, the flood takes all
/// processors from nodes that share them, and these suspect each other.
const PAUSE: Duration = Duration::from_millis(1);

/// Opens new connections all the time, all from one address that is not a peer's.
/// Each asks to be a peer's and sends nothing more. Ends when it is dropped.
struct Flood {
    ends: Arc<AtomicBool>,
    opened: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Flood {
    #[expect(
        clippy::disallowed_methods,
        reason = "the flood is not part of the node"
    )]
    fn at(address: SocketAddr) -> Self {
        let (ends, opened) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (has_ended, counted) = (Arc::clone(&ends), Arc::clone(&opened));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let mut open = VecDeque::new();
                while !has_ended.load(Ordering::SeqCst) {
                    open.push_back(connect(address).await);
                    counted.fetch_add(1, Ordering::SeqCst);
                    if open.len() > UNAUTHENTICATED {
                        open.pop_front();
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            });
        });
        Self {
            ends,
            opened,
            thread: Some(thread),
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok());
        }
    }
}

async fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let upgrade = "GET /v0/peer HTTP/1.1\r\nhost: localhost\r\n\
                   connection: upgrade\r\nupgrade: kvorum-peer/1\r\n\r\n";
    // The node may have closed the connection already.
    let _ = stream.write_all(upgrade.as_bytes()).await;
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
    let flood = Flood::at(address);
    until(
        "the flood has opened more connections than the node keeps",
        || flood.opened.load(Ordering::SeqCst) > UNAUTHENTICATED,
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
}
