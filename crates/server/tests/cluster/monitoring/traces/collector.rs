//! A collector of traces, which reads OTLP by the numbers of its fields, and not by the types
//! that write it.

use cluster::NodeUrl;
use http_testing::{Connection, Request, WAIT_MAX};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};

/// A span as the collector got it.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) trace: String,
    pub(super) id: String,
    /// Empty for a root.
    pub(super) parent: String,
    pub(super) name: String,
    pub(super) kind: u64,
    pub(super) began_ns: u64,
    pub(super) ended_ns: u64,
    pub(super) attributes: BTreeMap<String, String>,
    pub(super) events: Vec<String>,
    pub(super) is_error: bool,
    /// The attributes of the node.
    pub(super) node: BTreeMap<String, String>,
}

/// What a collector answers: the status and the body.
pub(super) type Answer = (u16, Vec<u8>);

/// A collector, which gives some answers first, and `200` without a body from then on.
pub(super) struct Collector {
    address: SocketAddr,
    requests: Receiver<Request>,
}

impl Collector {
    pub(super) fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = channel();
        let thread = std::thread::Builder::new().name("collector".to_owned());
        let mut answers = answers.into_iter();
        let serve = move || {
            while let Ok((stream, _)) = listener.accept() {
                let mut connection = Connection::over(stream).unwrap();
                let Ok(request) = connection.receive() else {
                    continue;
                };
                let (status, body) = answers.next().unwrap_or((200, Vec::new()));
                let length = body.len();
                let head = format!("HTTP/1.1 {status} Any\r\ncontent-length: {length}\r\n\r\n");
                let answer = [head.as_bytes(), &body].concat();
                if sender.send(request).is_err() || connection.send(answer).is_err() {
                    return;
                }
            }
        };
        // It ends when the test has dropped the receiver, or with the process.
        let _thread = thread.spawn(serve).unwrap();
        Self { address, requests }
    }

    pub(super) fn url(&self) -> NodeUrl {
        self.address.into()
    }

    /// The next request.
    pub(super) fn request(&self) -> Request {
        self.requests.recv_timeout(WAIT_MAX).unwrap()
    }

    /// The spans that come until `last` is true of one of them.
    pub(super) fn spans_until(&self, last: impl Fn(&Span) -> bool) -> Vec<Span> {
        let mut spans = Vec::new();
        while !spans.iter().any(&last) {
            spans.extend(spans_of(&self.request()));
        }
        spans
    }
}

/// The spans of a request.
pub(super) fn spans_of(request: &Request) -> Vec<Span> {
    assert_eq!((&*request.method, &*request.target), ("POST", "/v1/traces"));
    assert_eq!(
        request.header("content-type"),
        Some("application/x-protobuf")
    );
    let mut spans = Vec::new();
    for of_node in Message::read(&request.body).messages(1) {
        let node = of_node.messages(1).remove(0).attributes(1);
        for scope in of_node.messages(2) {
            spans.extend(scope.messages(2).iter().map(|span| span_of(span, &node)));
        }
    }
    spans
}

fn span_of(span: &Message, node: &BTreeMap<String, String>) -> Span {
    const ERROR: u64 = 2;
    let is_error = |status: &Message| status.number(3) == ERROR;
    Span {
        trace: hex(span.bytes(1)),
        id: hex(span.bytes(2)),
        parent: hex(span.bytes(4)),
        name: span.text(5),
        kind: span.number(6),
        began_ns: span.number(7),
        ended_ns: span.number(8),
        attributes: span.attributes(9),
        events: span
            .messages(11)
            .iter()
            .map(|event| event.text(2))
            .collect(),
        is_error: span.messages(15).iter().any(is_error),
        node: node.clone(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A message of protobuf: its fields, by their numbers.
struct Message(Vec<(u64, Value)>);

enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Message {
    fn read(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key & 7 {
                0 => Value::Number(varint(&mut bytes)),
                1 => Value::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = varint(&mut bytes);
                    Value::Bytes(take(&mut bytes, usize::try_from(length).unwrap()).to_vec())
                }
                other => panic!("no field of a span has the wire type {other}"),
            };
            fields.push((key >> 3, value));
        }
        Self(fields)
    }

    fn values(&self, number: u64) -> impl Iterator<Item = &Value> {
        let fields = self.0.iter();
        fields.filter_map(move |(known, value)| (*known == number).then_some(value))
    }

    fn number(&self, number: u64) -> u64 {
        let found = self.values(number).map(|value| match value {
            Value::Number(number) => *number,
            Value::Bytes(_) => panic!("field {number} is no number"),
        });
        found.last().unwrap_or(0)
    }

    fn bytes(&self, number: u64) -> &[u8] {
        let found = self.values(number).map(|value| match value {
            Value::Bytes(bytes) => &**bytes,
            Value::Number(_) => panic!("field {number} is a number"),
        });
        found.last().unwrap_or_default()
    }

    fn text(&self, number: u64) -> String {
        String::from_utf8(self.bytes(number).to_vec()).unwrap()
    }

    fn messages(&self, number: u64) -> Vec<Self> {
        let found = self.values(number).map(|value| match value {
            Value::Bytes(bytes) => Self::read(bytes),
            Value::Number(_) => panic!("field {number} is a number"),
        });
        found.collect()
    }

    /// Attributes, their values as text.
    fn attributes(&self, number: u64) -> BTreeMap<String, String> {
        let all = self.messages(number);
        let attribute = all.iter().map(|attribute| {
            let value = attribute.messages(2).remove(0);
            let text = match value.0.first() {
                Some((1, _)) => value.text(1),
                Some((2, _)) => (value.number(2) != 0).to_string(),
                Some((3, _)) => value.number(3).to_string(),
                _ => panic!("an attribute has another type"),
            };
            (attribute.text(1), text)
        });
        attribute.collect()
    }
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let byte = take(bytes, 1)[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}
