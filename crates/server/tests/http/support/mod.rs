//! A node to test, a client that sees every byte, a clock that can be wrong, and a disk
//! that can wait.

pub(crate) mod authority;
pub(crate) mod described;
pub(crate) mod lines;

use base::{BootId, Clock, SeededRandom, SystemClock};
use cluster::NodeUrl;
pub(crate) use http_testing::Reply;
use http_testing::{Connection, Fields, Stream, WAIT_MAX};
use lsm::Disk;
use lsm_testing::{HookedDisk, MemoryDisk};
use server::{Seams, Server, ServerConfig};
use socket2::{Domain, Socket, Type};
use std::fmt::Debug;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A configuration for tests: any free port, and one runtime.
pub(crate) fn config() -> ServerConfig {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut config = ServerConfig::new(NodeUrl::from(any_port), "store");
    config.threads = 1;
    config.read_threads = 2;
    config.node.timeout = Duration::from_secs(30);
    config
}

/// The seams over `disk`.
pub(crate) fn seams(disk: Arc<dyn Disk>) -> Seams {
    Seams {
        disk,
        clock: Arc::new(SystemClock::new()),
        random: Arc::new(SeededRandom::new(1)),
        boot_id: Some(BootId(1)),
    }
}

/// A node on an empty disk in memory.
pub(crate) fn start() -> Server {
    start_with(config())
}

/// A node with this configuration on an empty disk in memory.
pub(crate) fn start_with(config: ServerConfig) -> Server {
    Server::start_with(config, seams(Arc::new(MemoryDisk::new()))).unwrap()
}

/// A connection to a node. Fails the test if the connection fails.
pub(crate) struct Client(Connection);

impl Client {
    pub(crate) fn connect(node: &Server) -> Self {
        Self(Connection::connect(node.addresses()[0]).unwrap())
    }

    /// A client of a connection that exists.
    pub(crate) fn over(stream: impl Stream + 'static) -> Self {
        Self(Connection::over(stream).unwrap())
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.send(bytes).unwrap();
    }

    /// Sends bytes. Fails when the node closes the connection meanwhile.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.send(bytes)
    }

    /// Sends a request with further header lines, each with its line end, and checks that
    /// `/openapi.json` describes such an answer.
    pub(crate) fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &str,
        body: &[u8],
    ) -> Reply {
        let reply = self.0.request(method, target, headers, body).unwrap();
        described::check(method, target, &reply);
        reply
    }

    pub(crate) fn get(&mut self, target: &str) -> Reply {
        self.request("GET", target, "", b"")
    }

    pub(crate) fn put(&mut self, target: &str, value: &[u8]) -> Reply {
        self.request("PUT", target, "", value)
    }

    pub(crate) fn delete(&mut self, target: &str) -> Reply {
        self.request("DELETE", target, "", b"")
    }

    /// Reads the answer to a request with this method.
    pub(crate) fn reply_to(&mut self, method: &str) -> Reply {
        self.0.reply_to(method).unwrap()
    }

    /// Reads a chunk of an answer whose head was read; `None` at its end.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        self.0.chunk().unwrap()
    }

    /// Reads a status line and the headers, also those of an interim answer.
    pub(crate) fn head(&mut self) -> (u16, Fields) {
        self.0.head().unwrap()
    }

    /// Everything up to the end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        self.0.rest().unwrap()
    }

    /// Waits until the node closes the connection, and checks that it sends nothing
    /// before.
    pub(crate) fn assert_closed(&mut self) {
        assert_eq!(String::from_utf8_lossy(&self.rest()), "");
    }

    /// Closes the client's side.
    pub(crate) fn finish(&mut self) {
        self.0.finish().unwrap();
    }
}

/// Waits until `is_so`. So a test waits for an event without guessing how long it takes.
/// `awaited` says what for, if it never comes.
pub(crate) fn wait_until<T: Debug>(awaited: T, mut is_so: impl FnMut() -> bool) {
    let clock = SystemClock::new();
    let begun = clock.monotonic();
    while !is_so() {
        let lasts = clock.monotonic() - begun;
        assert!(lasts < WAIT_MAX, "not within {WAIT_MAX:?}: {awaited:?}");
    }
}

/// Reads the node's metrics until one has the expected value.
pub(crate) fn wait_for_metric(node: &Server, name: &str, value: &str) {
    let mut client = Client::connect(node);
    let line = format!("{name} {value}");
    wait_until(&line, || {
        let metrics = client.get("/metrics");
        metrics.text().lines().any(|known| known == line)
    });
}

/// What a metric without labels is now.
pub(crate) fn metric(client: &mut Client, name: &str) -> f64 {
    let page = client.get("/metrics");
    let mut lines = page.text().lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap().parse().unwrap()
}

/// The machine's clock, set ahead or back.
pub(crate) struct SkewedClock {
    real: SystemClock,
    ahead_ms: AtomicI64,
}

impl SkewedClock {
    /// A clock that is right.
    pub(crate) fn new() -> Self {
        Self {
            real: SystemClock::new(),
            ahead_ms: AtomicI64::new(0),
        }
    }

    /// Sets the wall clock to so many seconds ahead of the right time, or behind it if
    /// negative.
    pub(crate) fn set_ahead_seconds(&self, seconds: i64) {
        self.ahead_ms.store(seconds * 1000, Ordering::SeqCst);
    }
}

impl Clock for SkewedClock {
    fn unix_ms(&self) -> u64 {
        let ahead_ms = self.ahead_ms.load(Ordering::SeqCst);
        self.real.unix_ms().saturating_add_signed(ahead_ms)
    }

    fn monotonic(&self) -> Duration {
        self.real.monotonic()
    }
}

/// Decides whether syncs of a disk return.
#[derive(Default)]
pub(crate) struct Gate {
    is_closed: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    pub(crate) fn close(&self) {
        *self.is_closed.lock().unwrap() = true;
    }

    pub(crate) fn open(&self) {
        *self.is_closed.lock().unwrap() = false;
        self.changed.notify_all();
    }

    /// Waits while the gate is closed. If a test has left it closed, an error ends the wait,
    /// so that the node can stop.
    fn pass(&self) -> io::Result<()> {
        let is_closed = self.is_closed.lock().unwrap();
        let waited = self
            .changed
            .wait_timeout_while(is_closed, 2 * WAIT_MAX, |is_closed| *is_closed);
        if waited.unwrap().1.timed_out() {
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the gate is closed",
            ))
        } else {
            Ok(())
        }
    }
}

/// Has a node stop on a thread of its own.
pub(crate) fn begin_shutdown(node: &Arc<Server>) -> JoinHandle<Result<(), lsm::Error>> {
    let node = Arc::clone(node);
    std::thread::Builder::new()
        .spawn(move || node.shutdown())
        .unwrap()
}

/// A disk in memory whose syncs wait while the gate is closed.
pub(crate) fn gated_disk() -> (Arc<HookedDisk>, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let disk = HookedDisk::new(Arc::new(MemoryDisk::new()));
    let passed = Arc::clone(&gate);
    disk.hook_syncs(Arc::new(move |_, sync| {
        passed.pass()?;
        sync()
    }));
    (Arc::new(disk), gate)
}

/// A connection from an address.
pub(crate) fn connected_from(address: Ipv4Addr, node: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
    socket.connect(&node.into()).unwrap();
    socket.into()
}
