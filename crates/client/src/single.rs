//! One request to one node, once: its status, a profile, the end of a repair.

use crate::connection::{Connection, Limits, RequestBody};
use crate::error::Error;
use crate::node::Node;
use hyper::Request;
use hyper::header::{AUTHORIZATION, HOST};
use std::ops::ControlFlow;

/// A request without a body.
#[derive(Clone, Copy, Debug)]
pub struct SingleRequest<'a> {
    /// The method.
    pub method: &'a str,
    /// The path and the query.
    pub target: &'a str,
    /// Further fields of the head.
    pub headers: &'a [(&'a str, &'a str)],
    /// How long to wait.
    pub limits: Limits,
    /// The longest answer that is read, in bytes.
    pub bytes_max: u64,
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SingleResponse {
    /// The status, which need not be one of success.
    pub status: u16,
    /// The type of the body, with its parameters; empty if there is none.
    pub media_type: String,
    /// When the node answered, by its clock; empty if it does not say so.
    pub date: String,
    /// The body.
    pub body: Vec<u8>,
}

/// Sends a request and waits for the whole answer.
///
/// # Errors
/// [`Error`], but no refusal.
pub async fn fetch(node: &Node, asked: &SingleRequest<'_>) -> Result<SingleResponse, Error> {
    KeptConnection::new(node.clone()).fetch(asked).await
}

/// Sends a request and hands on the pieces of its answer, which may be of any length, until it
/// ends or `take` breaks.
///
/// # Errors
/// [`Error`], with [`Error::Refused`] for any other status than `200`.
pub async fn fetch_pieces(
    node: &Node,
    asked: &SingleRequest<'_>,
    mut take: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), Error> {
    let connection = Connection::open(node, asked.limits).await?;
    let answer = connection.send(asked.on(node)?, asked.limits).await?;
    let mut answer = answer.expect(200).await?;
    while let Some(piece) = answer.next().await? {
        if take(&piece).is_break() {
            break;
        }
    }
    Ok(())
}

/// Requests to one node, one after the other, over one connection as long as the node keeps it.
pub struct KeptConnection {
    node: Node,
    connection: Option<Connection>,
}

impl KeptConnection {
    /// Connects with the first request.
    #[must_use]
    pub const fn new(node: Node) -> Self {
        Self {
            node,
            connection: None,
        }
    }

    /// As [`fetch`]. After a failure the next request connects anew.
    ///
    /// # Errors
    /// As [`fetch`]: also [`Error::Cut`] if the node closes the connection just now.
    pub async fn fetch(&mut self, asked: &SingleRequest<'_>) -> Result<SingleResponse, Error> {
        let request = asked.on(&self.node)?;
        let mut kept = self.connection.take();
        if let Some(connection) = &mut kept
            && !connection.wait_until_ready(asked.limits).await
        {
            kept = None;
        }
        let connection = match kept {
            Some(kept) => kept,
            None => Connection::open(&self.node, asked.limits).await?,
        };
        let mut answer = connection.send(request, asked.limits).await?;
        let response = SingleResponse {
            status: answer.status(),
            media_type: answer.header("content-type").unwrap_or_default().to_owned(),
            date: answer.header("date").unwrap_or_default().to_owned(),
            body: answer.read_all(asked.bytes_max).await?,
        };
        self.connection = Some(answer.finish());
        Ok(response)
    }
}

impl SingleRequest<'_> {
    /// The request for a node.
    fn on(&self, node: &Node) -> Result<Request<RequestBody>, Error> {
        let mut request = Request::builder()
            .method(self.method)
            .uri(self.target)
            .header(HOST, node.authority());
        if let Some(token) = node.token()? {
            request = request.header(AUTHORIZATION, token.field());
        }
        for (name, value) in self.headers {
            request = request.header(*name, *value);
        }
        let request = request.body(RequestBody::of_known_length(bytes::Bytes::new()));
        request.map_err(|error| Error::other_server(node.url(), error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SETTINGS, Script, TestNode};
    use std::net::TcpListener;
    use std::time::Duration;

    async fn answer_of(script: Script, silence_max: Duration) -> Result<SingleResponse, Error> {
        let node = TestNode::new(vec![script]);
        let asked = SingleRequest {
            method: "POST",
            target: "/v0/admin/repair?wait=true",
            headers: &[("Content-Type", "application/json")],
            limits: Limits {
                silence_max,
                ..SETTINGS.limits
            },
            bytes_max: 5,
        };
        let answer = fetch(&node.node, &asked).await;
        if matches!(answer, Err(Error::Silent { .. })) {
            // The time may be over before the request was sent.
            return answer;
        }
        let request = node.requests().next().unwrap();
        assert_eq!(request.method, "POST");
        assert_eq!(request.target, "/v0/admin/repair?wait=true");
        assert_eq!(request.header("content-type"), Some("application/json"));
        answer
    }

    #[tokio::test]
    async fn only_a_complete_answer_is_a_answer() {
        let long = Duration::from_secs(60);
        let whole = b"HTTP/1.1 500 Word\r\nContent-Length: 3\r\n\r\nabc";
        let answer = answer_of(Script::Cut(whole.to_vec()), long).await.unwrap();
        assert_eq!((answer.status, &*answer.body), (500, &b"abc"[..]));
        for cut in 0..whole.len() {
            let answer = answer_of(Script::Cut(whole[..cut].to_vec()), long).await;
            assert!(
                matches!(answer, Err(Error::Cut { .. })),
                "{cut}: {answer:?}"
            );
        }
        let answer = answer_of(Script::status(200, "", "abcdef"), long).await;
        assert!(
            matches!(answer, Err(Error::TooLong { bytes_max: 5, .. })),
            "{answer:?}"
        );
        for other in [
            &b"SSH-2.0-OpenSSH\r\n\r\n"[..],
            b"HTTP/1.1 abc\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\nabc",
        ] {
            let answer = answer_of(Script::Cut(other.to_vec()), long).await;
            assert!(
                matches!(answer, Err(Error::OtherServer { .. })),
                "{answer:?}"
            );
        }
        let answer = answer_of(Script::Hang, Duration::from_millis(1)).await;
        assert!(matches!(answer, Err(Error::Silent { .. })), "{answer:?}");
    }

    fn request() -> SingleRequest<'static> {
        SingleRequest {
            method: "GET",
            target: "/v0/entities",
            headers: &[],
            limits: SETTINGS.limits,
            bytes_max: 5,
        }
    }

    #[tokio::test]
    async fn a_connection_is_kept_until_the_node_closes_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let node = std::thread::spawn(move || {
            for _ in 0..2 {
                let (stream, _) = listener.accept().unwrap();
                let mut connection = http_testing::Connection::over(stream).unwrap();
                for field in ["", "Connection: close\r\n"] {
                    connection.receive().unwrap();
                    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n{field}\r\na");
                    connection.send(answer.into_bytes()).unwrap();
                }
            }
        });
        let mut kept = KeptConnection::new(Node::new("127.0.0.1", port));
        for _ in 0..4 {
            assert_eq!(kept.fetch(&request()).await.unwrap().body, b"a");
        }
        node.join().unwrap();
    }

    #[tokio::test]
    async fn the_pieces_of_a_long_answer_come_until_its_end_or_a_break() {
        let whole = Script::status(200, "", "longer than a whole answer may be");
        let cut = Script::Cut(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc".to_vec());
        let refusal = Script::status(500, "", "");
        let node = TestNode::new(vec![whole.clone(), whole, cut, refusal]);
        let mut read = Vec::new();
        let all = |piece: &[u8]| {
            read.extend_from_slice(piece);
            ControlFlow::Continue(())
        };
        fetch_pieces(&node.node, &request(), all).await.unwrap();
        assert_eq!(read, b"longer than a whole answer may be");
        let mut pieces = 0;
        let one = |_: &[u8]| {
            pieces += 1;
            ControlFlow::Break(())
        };
        fetch_pieces(&node.node, &request(), one).await.unwrap();
        assert_eq!(pieces, 1);
        let ignore = |_: &[u8]| ControlFlow::Continue(());
        let cut = fetch_pieces(&node.node, &request(), ignore).await;
        assert!(matches!(cut, Err(Error::Cut { .. })), "{cut:?}");
        let refused = fetch_pieces(&node.node, &request(), ignore).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
}
