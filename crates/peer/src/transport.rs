//! The transport seam: how a node gets a stream of bytes to another.
//!
//! A topology stays a list of `http://host:port`: peers meet on the same port
//! as clients, and enter their own protocol by HTTP's `Upgrade` (RFC 9110, 7.8).

use bytes::{Buf, Bytes};
use cluster::NodeUrl;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

/// The path that peers ask for.
pub(crate) const PEER_PATH: &str = "/v0/peer";

/// What `Upgrade` names.
pub const PEER_PROTOCOL: &str = "kvorum-peer/1";

/// The longest head of an answer to the request to upgrade, in bytes.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// Bytes to and from another node.
pub trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// A connection on its way. Dropped, it is given up.
pub type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>>>>;

/// How nodes are reached.
pub trait Transport: Send + Sync {
    /// Connects to a node, up to where the peer protocol begins.
    fn dial(&self, url: &NodeUrl) -> Dialing;
}

/// Reaches nodes over TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpTransport;

impl Transport for TcpTransport {
    fn dial(&self, url: &NodeUrl) -> Dialing {
        let url = url.clone();
        Box::pin(async move {
            let stream = TcpStream::connect((url.host(), url.port())).await?;
            stream.set_nodelay(true)?;
            let stream: Box<dyn Stream> = Box::new(upgrade(stream, &url).await?);
            Ok(stream)
        })
    }
}

/// Asks the HTTP server at the other end of a stream for the peer protocol.
async fn upgrade<S: Stream>(mut stream: S, url: &NodeUrl) -> io::Result<Upgraded<S>> {
    let request = format!(
        "GET {PEER_PATH} HTTP/1.1\r\nHost: {}\r\n\
         Connection: Upgrade\r\nUpgrade: {PEER_PROTOCOL}\r\n\r\n",
        url.authority()
    );
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut bytes = Vec::with_capacity(1024);
    let head_end = loop {
        if let Some(end) = end_of_head(&bytes) {
            break end;
        }
        if bytes.len() >= HEAD_BYTES_MAX {
            return Err(invalid("the answer to an upgrade has too long a head"));
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    check_head(&bytes[..head_end])?;
    let mut leftover = Bytes::from(bytes);
    leftover.advance(head_end);
    Ok(Upgraded { leftover, stream })
}

/// Where the body begins, once the head is complete.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(end + 4)
}

/// Whether a head is that of `101 Switching Protocols` to the peer protocol.
fn check_head(head: &[u8]) -> io::Result<()> {
    let head = str::from_utf8(head).map_err(|_| invalid("the answer to an upgrade is no text"))?;
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    let Some(code) = status.strip_prefix("HTTP/1.1 ") else {
        return Err(invalid("the answer to an upgrade is no HTTP/1.1"));
    };
    if code.split(' ').next() != Some("101") {
        // Quoted: it may hold anything.
        let message = format!("the node does not speak the peer protocol: it answers {code:?}");
        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, message));
    }
    let names_protocol = lines
        .filter_map(|line| line.split_once(':'))
        .any(|(name, value)| name.eq_ignore_ascii_case("upgrade") && value.trim() == PEER_PROTOCOL);
    if names_protocol {
        Ok(())
    } else {
        Err(invalid("the node upgrades to another protocol"))
    }
}

fn invalid(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// A stream of which some bytes have been read already.
struct Upgraded<S> {
    leftover: Bytes,
    stream: S,
}

impl<S: Stream> AsyncRead for Upgraded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.leftover.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let bytes = self.leftover.len().min(buffer.remaining());
        buffer.put_slice(&self.leftover.split_to(bytes));
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream> AsyncWrite for Upgraded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn upgraded(answer: &str) -> io::Result<(String, String)> {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let url = "http://[::1]:8080".parse().unwrap();
        let server = async {
            let mut request = Vec::new();
            while end_of_head(&request).is_none() {
                theirs.read_buf(&mut request).await?;
            }
            theirs.write_all(answer.as_bytes()).await?;
            theirs.shutdown().await?;
            io::Result::Ok(String::from_utf8_lossy(&request).into_owned())
        };
        let client = async {
            let mut behind = String::new();
            let mut stream = upgrade(ours, &url).await?;
            stream.read_to_string(&mut behind).await?;
            Ok(behind)
        };
        let (request, behind) = tokio::join!(server, client);
        behind.map(|behind| (request.unwrap_or_default(), behind))
    }

    #[tokio::test]
    async fn an_upgrade_keeps_what_comes_behind_it() {
        let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
                      upgrade: kvorum-peer/1\r\n\r\nbytes behind it";
        let (request, behind) = upgraded(answer).await.unwrap();
        assert_eq!(
            request,
            "GET /v0/peer HTTP/1.1\r\nHost: [::1]:8080\r\n\
             Connection: Upgrade\r\nUpgrade: kvorum-peer/1\r\n\r\n"
        );
        assert_eq!(behind, "bytes behind it");
    }

    #[tokio::test]
    async fn other_answers_are_errors() {
        let long = format!("HTTP/1.1 101 OK\r\nx: {}", "x".repeat(2 * HEAD_BYTES_MAX));
        for (answer, kind) in [
            (
                "HTTP/1.1 400 Bad Request\r\n\r\n",
                io::ErrorKind::ConnectionRefused,
            ),
            (
                "HTTP/1.1 1011 Odd\r\nUpgrade: kvorum-peer/1\r\n\r\n",
                io::ErrorKind::ConnectionRefused,
            ),
            (
                "HTTP/1.1 101 OK\r\nUpgrade: websocket\r\n\r\n",
                io::ErrorKind::InvalidData,
            ),
            (
                "HTTP/1.0 101 OK\r\nUpgrade: kvorum-peer/1\r\n\r\n",
                io::ErrorKind::InvalidData,
            ),
            (
                "HTTP/1.1 101 OK\r\nUpgrade: kvo",
                io::ErrorKind::UnexpectedEof,
            ),
            (long.as_str(), io::ErrorKind::InvalidData),
        ] {
            let error = upgraded(answer).await.map(drop).unwrap_err();
            assert_eq!(error.kind(), kind, "{answer:.40}: {error}");
        }
    }
}
