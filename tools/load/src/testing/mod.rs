//! A server for tests: a map behind HTTP that misbehaves on request.

pub(crate) mod certificates;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http_testing::{Connection, Stream};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A request that the server received.
pub(crate) struct Request {
    /// Its number, from 0.
    pub(crate) number: u64,
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) token: Option<String>,
    /// The body; that of a pipeline's request is a chunk.
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The value of `id` or `start`.
    pub(crate) fn key(&self) -> String {
        let (_, query) = self.target.split_once('?').unwrap();
        let (_, key) = query.split('&').next().unwrap().split_once('=').unwrap();
        key.to_owned()
    }
}

/// What the server does with a request.
pub(crate) enum Reply {
    /// The response of a store.
    Store,
    /// A response with this status and body.
    Answer(u16, Vec<u8>),
    /// These raw bytes; the connection stays open.
    Raw(Vec<u8>),
    /// No response: the connection is closed.
    Close,
    /// No response: the connection stays open.
    Silence,
}

/// The keys and values of a server.
pub(crate) type StoredValues = BTreeMap<String, Vec<u8>>;

type Handler = dyn Fn(&Request, &mut StoredValues) -> Reply + Send + Sync;

struct ServerState {
    handler: Box<Handler>,
    map: Mutex<StoredValues>,
    requests: AtomicU64,
    is_over: AtomicBool,
    tls: Option<Arc<ServerConfig>>,
    connections: Mutex<Vec<TcpStream>>,
}

/// A running server, which ends when it is dropped.
pub(crate) struct TestServer {
    address: SocketAddr,
    inner: Arc<ServerState>,
    acceptor: Option<JoinHandle<()>>,
}

impl TestServer {
    /// Starts a server that replies as `handler` decides, one request at a
    /// time.
    pub(crate) fn start(
        handler: impl Fn(&Request, &mut StoredValues) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::listening(handler, None)
    }

    /// The same over TLS.
    pub(crate) fn with_tls(
        handler: impl Fn(&Request, &mut StoredValues) -> Reply + Send + Sync + 'static,
        config: Arc<ServerConfig>,
    ) -> Self {
        Self::listening(handler, Some(config))
    }

    fn listening(
        handler: impl Fn(&Request, &mut StoredValues) -> Reply + Send + Sync + 'static,
        tls: Option<Arc<ServerConfig>>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let inner = Arc::new(ServerState {
            handler: Box::new(handler),
            map: Mutex::default(),
            requests: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            tls,
            connections: Mutex::default(),
        });
        let address = listener.local_addr().unwrap();
        let server = Arc::clone(&inner);
        Self {
            address,
            inner,
            acceptor: Some(std::thread::spawn(move || accept(&listener, &server))),
        }
    }

    /// Starts a server that behaves like a store.
    pub(crate) fn store() -> Self {
        Self::start(|_, _| Reply::Store)
    }

    pub(crate) fn url(&self) -> String {
        match self.inner.tls {
            None => format!("http://{}", self.address),
            Some(_) => format!("https://{}", self.address),
        }
    }

    /// How many requests it received.
    pub(crate) fn requests(&self) -> u64 {
        self.inner.requests.load(SeqCst)
    }

    /// What it has stored.
    pub(crate) fn map(&self) -> StoredValues {
        self.inner.map.lock().unwrap().clone()
    }

    /// Closes the port and all connections.
    pub(crate) fn kill(&mut self) {
        self.inner.is_over.store(true, SeqCst);
        // Wakes the acceptor, which then drops the listener.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().unwrap();
        }
        for stream in self.inner.connections.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn accept(listener: &TcpListener, inner: &Arc<ServerState>) {
    for stream in listener.incoming() {
        if inner.is_over.load(SeqCst) {
            return;
        }
        let stream = stream.unwrap();
        let mut connections = inner.connections.lock().unwrap();
        connections.push(stream.try_clone().unwrap());
        let inner = Arc::clone(inner);
        // The thread ends with its connection.
        std::thread::spawn(move || {
            let socket = stream.try_clone().unwrap();
            match &inner.tls {
                None => serve(stream, &inner),
                Some(config) => {
                    let connection = ServerConnection::new(Arc::clone(config)).unwrap();
                    serve(StreamOwned::new(connection, stream), &inner);
                }
            }
            let _ = socket.shutdown(std::net::Shutdown::Both);
        });
    }
}

fn serve(stream: impl Stream + 'static, inner: &ServerState) {
    let mut connection = Connection::over(stream).unwrap();
    let mut pipeline = None;
    while let Some(request) = read(&mut connection, inner, &mut pipeline) {
        let reply = {
            let mut map = inner.map.lock().unwrap();
            match (inner.handler)(&request, &mut map) {
                Reply::Store => store(&request, &mut map),
                reply => reply,
            }
        };
        let bytes = match reply {
            Reply::Answer(200, body) if pipeline.is_some() => {
                let size = format!("{:x}\r\n", body.len());
                [size.as_bytes(), &body, b"\r\n"].concat()
            }
            Reply::Answer(status, body) => {
                let head = format!(
                    "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                [head.into_bytes(), body].concat()
            }
            Reply::Raw(bytes) => bytes,
            Reply::Silence => continue,
            Reply::Store | Reply::Close => break,
        };
        if connection.send(bytes).is_err() {
            break;
        }
    }
}

/// Reads a request, or the next chunk of a pipeline: then `pipeline` is its head, and the head of
/// its answer was sent.
fn read(
    connection: &mut Connection,
    inner: &ServerState,
    pipeline: &mut Option<http_testing::Request>,
) -> Option<Request> {
    if pipeline.is_none() {
        let head = connection.receive_head().ok()?;
        if head.header("transfer-encoding") == Some("chunked") {
            let answer = b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n";
            connection.send(answer).ok()?;
        }
        *pipeline = Some(head);
    }
    let mut request = pipeline.clone()?;
    if request.header("transfer-encoding") == Some("chunked") {
        request.body = connection.chunk().ok()??;
    } else {
        connection.receive_body(&mut request).ok()?;
        *pipeline = None;
    }
    let token = request.header("authorization");
    Some(Request {
        number: inner.requests.fetch_add(1, SeqCst),
        token: token.and_then(|token| token.strip_prefix("Bearer ").map(str::to_owned)),
        method: request.method,
        target: request.target,
        body: request.body,
    })
}

/// The reply of a store.
fn store(request: &Request, map: &mut StoredValues) -> Reply {
    if request.target.starts_with("/v0/batch") {
        let lines = std::str::from_utf8(&request.body).unwrap().lines();
        let answers = lines.map(|line| batch_line(line, map) + "\n");
        return Reply::Answer(200, answers.collect::<String>().into_bytes());
    }
    let key = request.key();
    match request.method.as_str() {
        "PUT" => {
            map.insert(key, request.body.clone());
            Reply::Answer(201, Vec::new())
        }
        "DELETE" => {
            map.remove(&key);
            Reply::Answer(202, Vec::new())
        }
        _ if request.target.starts_with("/v0/entities") => {
            let (_, limit) = request.target.rsplit_once("limit=").unwrap();
            let limit = limit.parse().unwrap();
            let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            for (key, value) in map.range(key..).take(limit) {
                let entity = [key.as_bytes(), b"\n", value].concat();
                bytes.extend_from_slice(format!("{:x}\r\n", entity.len()).as_bytes());
                bytes.extend_from_slice(&entity);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            Reply::Raw(bytes)
        }
        _ => match map.get(&key) {
            Some(value) => Reply::Answer(200, value.clone()),
            None => Reply::Answer(404, Vec::new()),
        },
    }
}

/// The answer of a store to an operation of a batch.
fn batch_line(line: &str, map: &mut StoredValues) -> String {
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    let key = line["key"].as_str().unwrap().to_owned();
    match line["op"].as_str().unwrap() {
        "put" => {
            let value = BASE64.decode(line["value_base64"].as_str().unwrap());
            map.insert(key, value.unwrap());
            r#"{"status":201,"version":"1"}"#.to_owned()
        }
        "delete" => {
            map.remove(&key);
            r#"{"status":202,"version":"1"}"#.to_owned()
        }
        _ => match map.get(&key) {
            Some(value) => {
                let value = BASE64.encode(value);
                format!(r#"{{"status":200,"version":"1","value_base64":"{value}"}}"#)
            }
            None => r#"{"status":404,"problem":{}}"#.to_owned(),
        },
    }
}
