//! Forwards a request to a node, and the node's answer back.

use super::exchange::{Answer, BrowserRequest};
use super::reaching::{NodeStream, Reach, ReachedNode};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The field that says who asks.
const AUTHORIZATION: &str = "authorization";

/// The fields that are passed on. The others are between the browser and the console.
const PASSED_FIELDS: [&str; 6] = [
    "accept",
    AUTHORIZATION,
    "content-length",
    "content-type",
    "if-none-match",
    "te",
];

/// The paths that a node answers for its readers.
const PASSED_PATHS: [&str; 4] = ["/v0/", "/metrics", "/debug/", "/health/"];

/// Passes a request on. `None` once the node's answer has been passed back, as far as it
/// came.
pub(super) async fn pass_on(
    exchange: &mut BrowserRequest,
    path: &str,
    reach: &Reach,
    node: &ReachedNode,
) -> Option<Answer> {
    if !PASSED_PATHS.iter().any(|known| path.starts_with(known)) {
        return Some(Answer::problem(404, "there is nothing at this path"));
    }
    let stream = match reach.connect(node).await {
        Ok(stream) => stream,
        Err(error) => {
            let name = &node.name;
            return Some(Answer::problem(
                502,
                &format!("{name} does not answer: {error}"),
            ));
        }
    };
    let head = head(exchange, path, reach, node);
    // An answer that breaks off closes the browser's connection, as the node's was.
    let _ended = copy(exchange, &head, stream).await;
    None
}

/// Copies the request to the node and the answer back, until either side ends.
async fn copy(
    exchange: &mut BrowserRequest,
    head: &[u8],
    mut node: Box<dyn NodeStream>,
) -> io::Result<()> {
    let begun = std::mem::take(&mut exchange.begun_body);
    node.write_all(head).await?;
    node.write_all(&begun).await?;
    node.flush().await?;
    let rest = exchange.body_bytes().saturating_sub(begun.len() as u64);
    let (mut from_node, mut to_node) = tokio::io::split(node);
    let (mut from_browser, mut to_browser) = exchange.stream.split();
    let request = async {
        tokio::io::copy(&mut (&mut from_browser).take(rest), &mut to_node).await?;
        // Nothing follows the body: the next to come is the end, when the browser leaves.
        from_browser.read_u8().await
    };
    let answer = async {
        tokio::io::copy(&mut from_node, &mut to_browser).await?;
        to_browser.shutdown().await
    };
    tokio::select! {
        answered = answer => answered,
        _left = request => Ok(()),
    }
}

/// The head of the request as the node gets it. It shows the reader's token, or else the
/// cluster's.
fn head(exchange: &BrowserRequest, path: &str, reach: &Reach, node: &ReachedNode) -> Vec<u8> {
    let (method, query, address) = (exchange.method(), exchange.query(), node.address);
    let mut head =
        format!("{method} {path}{query} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n")
            .into_bytes();
    let mut add = |name: &str, value: &[u8]| {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    };
    for name in PASSED_FIELDS {
        let own = reach.authorization.as_ref().map(String::as_bytes);
        let own = own.filter(|_| name == AUTHORIZATION);
        if let Some(value) = exchange.field(name).or(own) {
            add(name, value);
        }
    }
    head.extend_from_slice(b"\r\n");
    head
}
