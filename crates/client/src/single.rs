//! One request to one node, once: its status, a profile, the end of a repair.

use crate::connection::{Connection, Limits, RequestBody};
use crate::error::Error;
use crate::node::Node;
use hyper::Request;
use hyper::header::{AUTHORIZATION, HOST};

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
    /// The body.
    pub body: Vec<u8>,
}

/// Sends a request and waits for the whole answer.
///
/// # Errors
/// [`Error`], but no refusal.
pub async fn fetch(node: &Node, asked: &SingleRequest<'_>) -> Result<SingleResponse, Error> {
    let mut request = Request::builder()
        .method(asked.method)
        .uri(asked.target)
        .header(HOST, node.authority());
    if let Some(token) = node.token() {
        request = request.header(AUTHORIZATION, token.field());
    }
    for (name, value) in asked.headers {
        request = request.header(*name, *value);
    }
    let body = RequestBody::of_known_length(bytes::Bytes::new());
    let request = request.body(body);
    let request = request.map_err(|error| Error::other_server(node.url(), error.to_string()))?;
    let connection = Connection::open(node, asked.limits).await?;
    let mut answer = connection.send(request, asked.limits).await?;
    Ok(SingleResponse {
        status: answer.status(),
        media_type: answer.header("content-type").unwrap_or_default().to_owned(),
        body: answer.read_all(asked.bytes_max).await?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SETTINGS, Script, TestNode};
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
}
