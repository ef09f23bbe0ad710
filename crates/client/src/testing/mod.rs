//! Nodes that answer as a test tells them to; `store` answers as a store does.

pub(crate) mod store;
pub(crate) mod tls;

use crate::{Client, Limits, Node, Settings};
pub(crate) use http_testing::Request;
use http_testing::{Connection, Stream};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a test waits for anything. It is long, because only a test that fails waits for
/// all of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds; `what` names it.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(
            began.elapsed() < PATIENCE,
            "timed out while waiting for {what}"
        );
        std::thread::yield_now();
    }
}

/// Patience that tests can wait for.
pub(crate) const SETTINGS: Settings = Settings {
    limits: Limits {
        connect_max: PATIENCE,
        silence_max: PATIENCE,
    },
    scan_silence_max: None,
    retries: 0,
    repeats_writes: false,
    connections: 64,
};

/// What a node does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Script {
    /// Answers these bytes, and keeps the connection.
    Answer(Vec<u8>),
    /// Answers these bytes, and closes the connection.
    Cut(Vec<u8>),
    /// Answers nothing.
    Hang,
}

impl Script {
    /// An answer with a status and a body.
    pub(crate) fn status(status: u16, fields: &str, body: &str) -> Self {
        let length = body.len();
        let head = format!("HTTP/1.1 {status} Word\r\nContent-Length: {length}\r\n{fields}\r\n");
        Self::Answer([head.as_bytes(), body.as_bytes()].concat())
    }
}

/// A node of a test. Each request takes the next line of its script; the last line is for
/// all that follow.
pub(crate) struct TestNode {
    pub(crate) node: Node,
    received: Receiver<Request>,
    connections: Arc<AtomicUsize>,
}

impl TestNode {
    /// A node with a script.
    pub(crate) fn new(script: Vec<Script>) -> Self {
        let mut steps = script.into_iter();
        let mut last = Script::Hang;
        Self::answering(move |_| {
            if let Some(step) = steps.next() {
                last = step;
            }
            last.clone()
        })
    }

    /// A node that computes what it does.
    pub(crate) fn answering(script: impl FnMut(&Request) -> Script + Send + 'static) -> Self {
        Self::listening(script, None)
    }

    /// A node that speaks TLS. Its `node` does not yet.
    pub(crate) fn with_tls(script: Vec<Script>, config: Arc<ServerConfig>) -> Self {
        let mut steps = script.into_iter().cycle();
        Self::listening(move |_| steps.next().unwrap_or(Script::Hang), Some(config))
    }

    fn listening(
        script: impl FnMut(&Request) -> Script + Send + 'static,
        tls: Option<Arc<ServerConfig>>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, received) = channel();
        let script = Arc::new(Mutex::new(script));
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::clone(&connections);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                accepted.fetch_add(1, Ordering::SeqCst);
                let (script, sender) = (Arc::clone(&script), sender.clone());
                let tls = tls.clone();
                std::thread::spawn(move || match tls {
                    None => serve(stream, &script, &sender),
                    Some(config) => {
                        let connection = ServerConnection::new(config).unwrap();
                        serve(StreamOwned::new(connection, stream), &script, &sender);
                    }
                });
            }
        });
        Self {
            node: Node::new("127.0.0.1", port),
            received,
            connections,
        }
    }

    /// How many connections have come.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The requests since the last call, as `METHOD target`.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = self
            .requests()
            .map(|asked| format!("{} {}", asked.method, asked.target));
        lines.collect()
    }

    /// The requests since the last call.
    pub(crate) fn requests(&self) -> impl Iterator<Item = Request> {
        self.received.try_iter()
    }
}

/// A node that refuses connections.
pub(crate) fn closed_node() -> Node {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Node::new("127.0.0.1", listener.local_addr().unwrap().port())
}

/// A client of nodes.
pub(crate) fn client_of(nodes: Vec<Node>, settings: Settings) -> Client {
    Client::new(nodes, settings).unwrap()
}

/// Serves a connection until it ends.
fn serve(
    stream: impl Stream + 'static,
    script: &Mutex<impl FnMut(&Request) -> Script>,
    sender: &Sender<Request>,
) {
    let mut connection = Connection::over(stream).unwrap();
    while let Ok(request) = connection.receive() {
        let step = (script.lock().unwrap())(&request);
        if sender.send(request).is_err() {
            return;
        }
        match step {
            Script::Answer(bytes) => {
                let _ = connection.send(bytes);
            }
            Script::Cut(bytes) => {
                let _ = connection.send(bytes);
                return;
            }
            Script::Hang => loop {
                std::thread::park();
            },
        }
    }
}
