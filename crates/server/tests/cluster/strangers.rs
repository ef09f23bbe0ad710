//! Strangers at the door by which peers enter.

use crate::support::{Cluster, until};
use crate::wire::Client;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

/// More than a node lets in at a time.
const STRANGERS: usize = 300;

/// Connections that ask to be a peer's and say nothing more, new ones all the
/// time, all from an address that is not the peers'. Ends when it is dropped.
struct Flood {
    ends: Arc<AtomicBool>,
    came: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Flood {
    #[expect(
        clippy::disallowed_methods,
        reason = "strangers are no part of the node"
    )]
    fn at(address: SocketAddr) -> Self {
        let (ends, came) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (told, counted) = (Arc::clone(&ends), Arc::clone(&came));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let mut open = VecDeque::new();
                while !told.load(Ordering::SeqCst) {
                    open.push_back(stranger(address).await);
                    counted.fetch_add(1, Ordering::SeqCst);
                    if open.len() > STRANGERS {
                        open.pop_front();
                    }
                }
            });
        });
        Self {
            ends,
            came,
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

async fn stranger(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let upgrade = "GET /v0/peer HTTP/1.1\r\nhost: localhost\r\n\
                   connection: upgrade\r\nupgrade: kvorum-peer/1\r\n\r\n";
    // It may have been shown out already.
    let _ = stream.write_all(upgrade.as_bytes()).await;
    stream
}

#[test]
fn a_door_full_of_strangers_lets_a_peer_in() {
    let mut cluster = Cluster::start_with(2, |config| config.connections_max = 16);
    cluster.stop_node(1);
    // All places of clients are taken, by clients that stay.
    let mut clients: Vec<Client> = Vec::new();
    until("the node is full of clients", || {
        let mut client = cluster.client(0);
        let is_full = client.get("/v0/status").status == 503;
        clients.push(client);
        is_full
    });
    let address = cluster.node(0).addresses()[0];
    let flood = Flood::at(address);
    until("the door is full", || {
        flood.came.load(Ordering::SeqCst) > STRANGERS
    });
    cluster.start_node(1);
    until("the peer is let in", || {
        cluster.member_at(1, 0)["state"] == "up"
    });
    // The node has to have reached it as well.
    until("both are there", || {
        let put = clients[0].put("/v0/entity?id=a&replicas=2/2", b"value");
        put.status == 201
    });
    let get = cluster.client(1).get("/v0/entity?id=a&replicas=2/2");
    assert_eq!((get.status, get.text()), (200, "value"));
}
