//! A node to test, a client that sees every byte, a clock that can be wrong, and a disk
//! that can wait.

pub(crate) mod described;
pub(crate) mod lines;

use base::{BootId, Clock, SeededRandom, SystemClock};
use cluster::NodeUrl;
use lsm::Disk;
use lsm_testing::{HookedDisk, MemoryDisk};
use server::{Seams, Server, ServerConfig};
use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpSocket;

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

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) chunks: Vec<Vec<u8>>,
    pub(crate) trailers: Vec<(String, String)>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    pub(crate) fn trailer(&self, name: &str) -> Option<&str> {
        find(&self.trailers, name)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn version(&self) -> u64 {
        self.header("kvorum-version").unwrap().parse().unwrap()
    }
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut values = headers.iter().filter(|(known, _)| known == name);
    let value = values.next().map(|(_, value)| value.as_str());
    assert!(values.next().is_none(), "the answer has {name} twice");
    value
}

/// The bytes of a connection.
pub(crate) trait ClientStream: Read + Write {
    /// Closes the client's side.
    fn finish(&mut self);
}

impl ClientStream for TcpStream {
    fn finish(&mut self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

/// A connection.
pub(crate) struct Client {
    stream: Box<dyn ClientStream>,
    received: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(node: &Server) -> Self {
        Self::over(TcpStream::connect(node.addresses()[0]).unwrap())
    }

    /// A client of this address.
    pub(crate) fn connect_from(address: Ipv4Addr, node: &Server) -> Self {
        Self::over(connected_from(address, node.addresses()[0]))
    }

    /// A client of a connection that exists.
    pub(crate) fn over(stream: TcpStream) -> Self {
        // They end a test that would wait for ever.
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        stream.set_write_timeout(Some(WAIT_MAX)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over_any(Box::new(stream))
    }

    /// A client of any stream of bytes.
    pub(crate) fn over_any(stream: Box<dyn ClientStream>) -> Self {
        Self {
            stream,
            received: Vec::new(),
        }
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends bytes. Fails when the node closes the connection meanwhile.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
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
        let length = match body.len() {
            0 if method != "PUT" => String::new(),
            bytes => format!("content-length: {bytes}\r\n"),
        };
        let head =
            format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\n{headers}{length}\r\n");
        self.send([head.as_bytes(), body].concat());
        let reply = self.reply_to(method);
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
        let (status, headers) = self.head();
        let mut reply = Reply {
            status,
            headers,
            body: Vec::new(),
            chunks: Vec::new(),
            trailers: Vec::new(),
        };
        if method == "HEAD" || status == 304 {
            return reply;
        }
        if reply.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk_or_end() {
                reply.body.extend_from_slice(&chunk);
                reply.chunks.push(chunk);
            }
            reply.trailers = self.fields();
        } else if let Some(length) = reply.header("content-length") {
            reply.body = self.take(length.parse().unwrap());
        }
        reply
    }

    /// Reads a chunk of an answer whose head was read; `None` at its end.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let chunk = self.chunk_or_end();
        if chunk.is_none() {
            assert_eq!(self.fields(), []);
        }
        chunk
    }

    fn chunk_or_end(&mut self) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(&self.line(), 16).unwrap();
        if size == 0 {
            return None;
        }
        let chunk = self.take(size);
        assert_eq!(self.line(), "");
        Some(chunk)
    }

    /// Reads a status line and the headers, also those of an interim answer.
    pub(crate) fn head(&mut self) -> (u16, Vec<(String, String)>) {
        let line = self.line();
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        (status, self.fields())
    }

    fn fields(&mut self) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                return fields;
            }
            let (name, value) = line.split_once(':').unwrap();
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.received.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.received.drain(..end + 2).collect::<Vec<_>>();
                return String::from_utf8(line[..end].to_vec()).unwrap();
            }
            assert!(self.fill(), "the node closed the connection");
        }
    }

    fn take(&mut self, bytes: usize) -> Vec<u8> {
        while self.received.len() < bytes {
            assert!(self.fill(), "the node closed the connection");
        }
        self.received.drain(..bytes).collect()
    }

    fn fill(&mut self) -> bool {
        let mut buffer = [0; 64 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(bytes) => {
                self.received.extend_from_slice(&buffer[..bytes]);
                true
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => false,
            // Another test of this process profiles it, and its timer sends signals.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.fill(),
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// Everything up to the end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.fill() {}
        std::mem::take(&mut self.received)
    }

    /// Waits until the node closes the connection, and checks that it sends nothing
    /// before.
    pub(crate) fn assert_closed(&mut self) {
        let rest = self.rest();
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }

    /// Closes the client's side.
    pub(crate) fn finish(&mut self) {
        self.stream.finish();
    }
}

/// How long a test waits for an event. No event takes nearly as long, even on a busy
/// machine: so a test that would wait for ever fails, and says what it waited for.
const WAIT_MAX: Duration = Duration::from_secs(180);

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

/// Sets the flag that ends the other threads of a test, also when its own thread panics.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let connecting = async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((address, 0).into()).unwrap();
        socket.connect(node).await.unwrap().into_std().unwrap()
    };
    let stream = runtime.block_on(connecting);
    stream.set_nonblocking(false).unwrap();
    stream
}
