//! A load that goes on while an operator changes the cluster: each request asks for two
//! of three replicas, and none may fail.

use crate::support::HttpConnection;
use rustls::ClientConfig;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// How many requests a client sends on a connection: many handshakes are part of the load.
const REQUESTS_PER_CONNECTION: u64 = 20;

/// What the clients of a load share.
pub(crate) struct SteadyLoad {
    addresses: [SocketAddr; 3],
    /// Whether clients may use each node, as a load balancer knows it.
    is_available: [AtomicBool; 3],
    /// With what clients reach the nodes over TLS; `None`: without TLS.
    client: Mutex<Option<Arc<ClientConfig>>>,
    requests: AtomicU64,
    failures: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

impl SteadyLoad {
    /// A load on three nodes, without TLS.
    pub(crate) fn new(addresses: [SocketAddr; 3]) -> Self {
        Self {
            addresses,
            is_available: [(); 3].map(|()| AtomicBool::new(true)),
            client: Mutex::new(None),
            requests: AtomicU64::new(0),
            failures: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// From now on new connections are made with this.
    pub(crate) fn set_client(&self, client: Option<Arc<ClientConfig>>) {
        *self.client.lock().unwrap() = client;
    }

    /// Whether clients may use a node.
    pub(crate) fn set_available(&self, node: usize, is_available: bool) {
        self.is_available[node].store(is_available, Relaxed);
    }

    /// How many requests have succeeded.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// The requests that no available node has answered as they should.
    pub(crate) fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap().clone()
    }

    /// Ends the load when this is dropped, however a test ends.
    pub(crate) fn end_on_drop(&self) -> impl Drop + '_ {
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        End(&self.is_over)
    }

    /// Sends requests until the load is over.
    pub(crate) fn run(&self, name: usize) {
        let mut connections = [const { None }; 3];
        for number in 0.. {
            if self.is_over.load(Relaxed) {
                return;
            }
            if number % REQUESTS_PER_CONNECTION == 0 {
                connections = [const { None }; 3];
            }
            let first = (name + number as usize / 2) % 3;
            match self.request(&mut connections, first, name, number) {
                Ok(()) => drop(self.requests.fetch_add(1, Relaxed)),
                Err(failure) => self.failures.lock().unwrap().push(failure),
            }
        }
    }

    /// Sends a request to the first node that is available and takes it. What a client
    /// sent on a connection that a node closes, it may send again.
    fn request(
        &self,
        connections: &mut [Option<HttpConnection>; 3],
        first: usize,
        name: usize,
        number: u64,
    ) -> Result<(), String> {
        let target = format!("/v0/entity?id={name}-{}&ack=2&from=3", number / 2 % 50);
        let (method, body, expected) = match number % 2 {
            0 => ("PUT", &b"value"[..], 201),
            _ => ("GET", &b""[..], 200),
        };
        let mut errors = Vec::new();
        // A connection that was kept may have ended since, so each node has two chances.
        for node in [0, 1, 2, 0, 1, 2].map(|step| (first + step) % 3) {
            if !self.is_available[node].load(Relaxed) {
                continue;
            }
            let answered = self.exchange(&mut connections[node], node, method, &target, body);
            match answered {
                Ok(status) if status == expected => return Ok(()),
                Ok(status) => return Err(format!("node {node} answered {method} with {status}")),
                Err(error) => {
                    connections[node] = None;
                    errors.push(format!("node {node}: {error}"));
                }
            }
        }
        Err(errors.join("; "))
    }

    fn exchange(
        &self,
        connection: &mut Option<HttpConnection>,
        node: usize,
        method: &str,
        target: &str,
        body: &[u8],
    ) -> std::io::Result<u16> {
        let connection = match connection {
            Some(connection) => connection,
            None => {
                let address = self.addresses[node];
                let client = self.client.lock().unwrap().clone();
                connection.insert(match client {
                    None => HttpConnection::open(address)?,
                    Some(client) => HttpConnection::open_tls(address, client)?,
                })
            }
        };
        Ok(connection.exchange(method, target, body)?.status)
    }
}
