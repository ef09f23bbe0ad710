//! A request of a browser, and the answer to it.

use console::{Asset, POLICY};
use serde_json::{Value, json};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// The most fields that a head may have.
const FIELDS_MAX: usize = 64;

/// A request whose head was read.
pub(super) struct BrowserRequest {
    pub(super) stream: TcpStream,
    method: String,
    /// The path, with the query.
    target: String,
    /// Names in lower case.
    fields: Vec<(String, Vec<u8>)>,
    /// What has arrived of the body.
    pub(super) begun_body: Vec<u8>,
}

/// An answer.
pub(super) struct Answer {
    status: u16,
    media_type: &'static str,
    body: Vec<u8>,
}

impl BrowserRequest {
    /// Reads the head of the request that a connection carries.
    ///
    /// # Errors
    /// The connection ends before the head does, or it is no head of HTTP.
    pub(super) async fn read(mut stream: TcpStream) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(4096);
        loop {
            if let Some(read) = parse(&bytes)? {
                let (method, target, fields, head_bytes) = read;
                return Ok(Self {
                    stream,
                    method,
                    target,
                    fields,
                    begun_body: bytes.split_off(head_bytes),
                });
            }
            if bytes.len() > HEAD_BYTES_MAX || stream.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }

    /// The method.
    pub(super) fn method(&self) -> &str {
        &self.method
    }

    /// The path, without the query.
    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The query with its question mark; empty if there is none.
    pub(super) fn query(&self) -> &str {
        &self.target[self.path().len()..]
    }

    /// The value of a field.
    pub(super) fn field(&self, name: &str) -> Option<&[u8]> {
        let mut named = self.fields.iter().filter(|(known, _)| known == name);
        named.next().map(|(_, value)| value.as_slice())
    }

    /// How many bytes the body has. Browsers announce it.
    pub(super) fn body_bytes(&self) -> u64 {
        let length = self.field("content-length").map(String::from_utf8_lossy);
        length.and_then(|length| length.parse().ok()).unwrap_or(0)
    }

    /// Sends an answer, and closes the connection.
    ///
    /// # Errors
    /// The browser has gone.
    pub(super) async fn send(&mut self, answer: Answer) -> io::Result<()> {
        let Answer {
            status,
            media_type,
            body,
        } = answer;
        let head = format!(
            "HTTP/1.1 {status} {status}\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\n\
             content-security-policy: {POLICY}\r\nx-content-type-options: nosniff\r\n\
             cache-control: no-store\r\nconnection: close\r\n\r\n",
            body.len()
        );
        self.stream
            .write_all(&[head.into_bytes(), body].concat())
            .await?;
        self.stream.shutdown().await
    }
}

/// Method, target and fields of a head, and its length. `None` while it is not whole.
type Head = (String, String, Vec<(String, Vec<u8>)>, usize);

fn parse(bytes: &[u8]) -> io::Result<Option<Head>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let parsed = request.parse(bytes).map_err(io::Error::other)?;
    let httparse::Status::Complete(head_bytes) = parsed else {
        return Ok(None);
    };
    let fields = request.headers.iter();
    let fields = fields.map(|field| (field.name.to_ascii_lowercase(), field.value.to_vec()));
    let (Some(method), Some(target)) = (request.method, request.path) else {
        return Ok(None);
    };
    Ok(Some((
        method.to_owned(),
        target.to_owned(),
        fields.collect(),
        head_bytes,
    )))
}

impl Answer {
    /// A file of the console of so many nodes.
    pub(super) fn file(asset: Asset, nodes: usize) -> Self {
        Self {
            status: 200,
            media_type: asset.media_type(),
            body: match asset {
                Asset::Page => console::supervisor_page(nodes).into(),
                other => other.body().into(),
            },
        }
    }

    /// A page of JSON.
    pub(super) fn json(status: u16, content: &Value) -> Self {
        Self {
            status,
            media_type: "application/json",
            body: content.to_string().into_bytes(),
        }
    }

    /// A problem, with what to do.
    pub(super) fn problem(status: u16, detail: &str) -> Self {
        Self {
            media_type: "application/problem+json",
            ..Self::json(status, &json!({"status": status, "detail": detail}))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_parsed_once_it_is_whole() {
        let whole =
            b"POST /nodes/2/v0/entity?id=a HTTP/1.1\r\nHost: a\r\nKvorum-Dev: t\r\n\r\nbody";
        for end in 0..whole.len() - "body".len() {
            assert_eq!(parse(&whole[..end]).unwrap(), None, "{end}");
        }
        let (method, target, fields, bytes) = parse(whole).unwrap().unwrap();
        assert_eq!((&*method, &*target), ("POST", "/nodes/2/v0/entity?id=a"));
        assert_eq!(fields[1], ("kvorum-dev".to_owned(), b"t".to_vec()));
        assert_eq!(&whole[bytes..], b"body");
        assert!(parse(b"\x16\x03\x01").is_err(), "TLS is no HTTP");
    }
}
