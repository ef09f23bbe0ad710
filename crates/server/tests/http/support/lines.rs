//! Lines of JSON: what batches are made of.

use super::{Client, Reply};
use serde_json::{Value, json};
use server::Server;

/// The field that says that a body is lines of JSON.
pub(crate) const NDJSON: &str = "content-type: application/x-ndjson\r\n";

/// Sends a batch with its length.
pub(crate) fn send_batch(client: &mut Client, target: &str, body: &str) -> Reply {
    client.request("POST", target, NDJSON, body.as_bytes())
}

/// Sends a batch with its length, and reads the answers to its operations.
pub(crate) fn batch(client: &mut Client, target: &str, body: &str) -> Vec<Value> {
    let reply = send_batch(client, target, body);
    assert_eq!(reply.status, 200);
    read_lines(&reply.body)
}

/// The lines of a body.
pub(crate) fn read_lines(body: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(body).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The statuses of answers.
pub(crate) fn statuses(answers: &[Value]) -> Vec<u64> {
    let status = |answer: &Value| answer["status"].as_u64().unwrap();
    answers.iter().map(status).collect()
}

/// The line of a put.
pub(crate) fn put(key: &str, value: &str) -> String {
    format!("{}\n", json!({"op": "put", "key": key, "value": value}))
}

/// The line of a get.
pub(crate) fn get(key: &str) -> String {
    format!("{}\n", json!({"op": "get", "key": key}))
}

/// A chunk of a body.
pub(crate) fn chunk(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n", body.len())
}

/// A batch that is sent chunk by chunk while its answers are read.
pub(crate) struct BatchStream {
    /// Its connection.
    pub(crate) client: Client,
}

impl BatchStream {
    /// Begins a batch.
    pub(crate) fn open(node: &Server) -> Self {
        Self::open_over(Client::connect(node))
    }

    /// Begins a batch on a connection.
    pub(crate) fn open_over(mut client: Client) -> Self {
        client.send(format!(
            "POST /v0/batch HTTP/1.1\r\nhost: localhost\r\n{NDJSON}transfer-encoding: chunked\r\n\r\n"
        ));
        let (status, headers) = client.head();
        assert_eq!(status, 200);
        let is_chunked =
            |(name, value): &(String, String)| name == "transfer-encoding" && value == "chunked";
        assert!(headers.iter().any(is_chunked), "{headers:?}");
        Self { client }
    }

    /// Sends a chunk.
    pub(crate) fn send(&mut self, body: &str) {
        self.client.send(chunk(body));
    }

    /// Sends the last chunk.
    pub(crate) fn finish(&mut self) {
        self.client.send("0\r\n\r\n");
    }

    /// The next answers; `None` at the end of a complete stream.
    pub(crate) fn next(&mut self) -> Option<Vec<Value>> {
        let mut lines = self.client.chunk()?;
        while !lines.ends_with(b"\n") {
            // A long value goes over several chunks.
            lines.extend(self.client.chunk().expect("the end of a line"));
        }
        Some(read_lines(&lines))
    }

    /// The next `count` answers, in however many chunks.
    pub(crate) fn take(&mut self, count: usize) -> Vec<Value> {
        let mut taken = Vec::new();
        while taken.len() < count {
            taken.extend(self.next().expect("further answers"));
        }
        assert_eq!(taken.len(), count);
        taken
    }
}
