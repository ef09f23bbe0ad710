//! Passes a request on to a node, and the node's answer back.

use super::exchange::{Answer, Exchange};
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The fields that are passed on. The others are between the browser and the console.
const PASSED_FIELDS: [&str; 6] = [
    "accept",
    "authorization",
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
    exchange: &mut Exchange,
    path: &str,
    name: &str,
    address: SocketAddr,
) -> Option<Answer> {
    if !PASSED_PATHS.iter().any(|known| path.starts_with(known)) {
        return Some(Answer::problem(404, "there is nothing at this path"));
    }
    let stream = match TcpStream::connect(address).await {
        Ok(stream) => stream,
        Err(_) => return Some(Answer::problem(502, &format!("{name} does not answer"))),
    };
    // An answer that breaks off closes the browser's connection, as the node's was.
    let _ended = copy(exchange, path, address, stream).await;
    None
}

/// Copies the request to the node and the answer back, until either side ends.
async fn copy(
    exchange: &mut Exchange,
    path: &str,
    address: SocketAddr,
    mut node: TcpStream,
) -> io::Result<()> {
    node.write_all(&head(exchange, path, address)).await?;
    let begun = std::mem::take(&mut exchange.begun_body);
    node.write_all(&begun).await?;
    let rest = exchange.body_bytes().saturating_sub(begun.len() as u64);
    let (mut from_node, mut to_node) = node.split();
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

/// The head of the request as the node gets it.
fn head(exchange: &Exchange, path: &str, address: SocketAddr) -> Vec<u8> {
    let (method, query) = (exchange.method(), exchange.query());
    let mut head =
        format!("{method} {path}{query} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n")
            .into_bytes();
    for name in PASSED_FIELDS {
        if let Some(value) = exchange.field(name) {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
    }
    head.extend_from_slice(b"\r\n");
    head
}
