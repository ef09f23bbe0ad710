//! The transport seam: how a node opens a stream of bytes to another node.
//!
//! The list of nodes is a list of `http://host:port` or `https://host:port`, because peers
//! connect to the same port as clients. They change to their own protocol by HTTP's
//! `Upgrade` (RFC 9110, 7.8). The URL alone decides whether there is TLS below that: a node
//! never falls back from `https` to `http`, whatever it meets.

mod faults;
#[cfg(test)]
mod tls_tests;

pub use faults::LinkFaults;

use bytes::{Buf, Bytes};
use cluster::NodeUrl;
use dial::Resolver;
use socket2::SockRef;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tls::{HandshakeFailure, NodeTls, TlsFailure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// The path of the request to upgrade.
pub(crate) const PEER_PATH: &str = "/v0/peer";

/// The field of a connection that is for lists of members only, with its value.
pub const FOR_LISTS: (&str, &str) = ("kvorum-for", "lists");

/// The line with it.
const LISTS_LINE: &str = "kvorum-for: lists\r\n";

/// The protocol that the header `Upgrade` names.
pub const PEER_PROTOCOL: &str = "kvorum-peer/1";

/// The longest head of the response to that request, in bytes.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// How long a peer's machine may acknowledge nothing of what was sent before TCP gives the
/// connection up. In a network that was cut TCP sends again only after waits that double. So
/// after a longer cut the link has to be dialled anew, also where the system takes no more
/// and the link waits for longer; after a shorter one TCP goes on within as much time.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(2);

/// A stream of bytes to and from another node.
pub trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// An attempt to connect. Drop it to give up.
pub type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>>>>;

/// Connects to nodes.
pub trait Transport: Send + Sync {
    /// Connects to a node, and upgrades to the peer protocol.
    fn dial(&self, url: &NodeUrl) -> Dialing;

    /// The same for a connection that is for lists of members only, which a node may make before the
    /// other one knows its host.
    fn dial_for_lists(&self, url: &NodeUrl) -> Dialing {
        self.dial(url)
    }

    /// The stream over which to serve a peer that has connected to this node by `stream`.
    fn accept(&self, stream: Box<dyn Stream>) -> Box<dyn Stream> {
        stream
    }
}

/// Is told the address of a node that was reached over TLS, which has proved to be the node of
/// its URL.
pub type SeeReached = Arc<dyn Fn(IpAddr) + Send + Sync>;

/// Connects to nodes over TCP, and over TLS where their URLs say so.
#[derive(Clone, Default)]
pub struct TcpTransport {
    resolver: Arc<Resolver>,
    tls: Option<Arc<NodeTls>>,
    see_reached: Option<SeeReached>,
}

impl TcpTransport {
    /// A transport that shows and trusts the certificates of `tls`.
    #[must_use]
    pub fn new(tls: Option<Arc<NodeTls>>) -> Self {
        Self {
            resolver: Arc::default(),
            tls,
            see_reached: None,
        }
    }

    /// The same, which tells `see` whom it has reached over TLS.
    #[must_use]
    pub fn seen_by(mut self, see: SeeReached) -> Self {
        self.see_reached = Some(see);
        self
    }
}

impl TcpTransport {
    fn dial_with(&self, url: &NodeUrl, fields: &'static str) -> Dialing {
        let url = url.clone();
        // What is in force now: a reload counts from the next connection on.
        let config = self.tls.as_ref().and_then(|tls| tls.client());
        let (see_reached, resolver) = (self.see_reached.clone(), Arc::clone(&self.resolver));
        Box::pin(async move {
            let addresses = resolver.addresses(url.host(), url.port()).await?;
            let stream = dial::connect(&addresses).await?;
            let address = stream.peer_addr()?.ip();
            prepare(&stream)?;
            if !url.is_https() {
                let stream: Box<dyn Stream> = Box::new(upgrade(stream, &url, fields).await?);
                return Ok(stream);
            }
            let config = config.ok_or_else(|| invalid("this node has no --tls-peer-ca"))?;
            let secured = secured(stream, &url, fields, config).await;
            let secured = secured.map_err(explained)?;
            if let Some(see) = see_reached {
                see(address);
            }
            Ok(secured)
        })
    }
}

impl Transport for TcpTransport {
    fn dial(&self, url: &NodeUrl) -> Dialing {
        self.dial_with(url, "")
    }

    fn dial_for_lists(&self, url: &NodeUrl) -> Dialing {
        self.dial_with(url, LISTS_LINE)
    }
}

/// Sets what a connection to a peer needs.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))
}

/// Does the handshake of TLS, and upgrades to the peer protocol.
async fn secured(
    stream: TcpStream,
    url: &NodeUrl,
    fields: &str,
    config: Arc<ClientConfig>,
) -> io::Result<Box<dyn Stream>> {
    let name = ServerName::try_from(url.host().to_owned())
        .map_err(|_| invalid("the host of its URL can be in no certificate"))?;
    let connector = TlsConnector::from(config);
    let stream = connector.connect(name, stream).await?;
    Ok(Box::new(upgrade(stream, url, fields).await?))
}

/// An error of TLS with what to do about it: it has a [`TlsFailure`] inside if the two nodes do not
/// trust each other.
fn explained(error: io::Error) -> io::Error {
    if tls_failure(&error).is_some() {
        return error;
    }
    match TlsFailure::of(&error) {
        Some(failure) => io::Error::new(error.kind(), failure),
        None => io::Error::new(error.kind(), tls::explain(&error)),
    }
}

/// Why there is no TLS connection, or none without TLS, if that is why dialling failed.
pub(crate) fn tls_failure(error: &io::Error) -> Option<&TlsFailure> {
    error.get_ref()?.downcast_ref()
}

/// Upgrades a stream to the peer protocol; an HTTP server is at its other end.
async fn upgrade<S: Stream>(mut stream: S, url: &NodeUrl, fields: &str) -> io::Result<Upgraded<S>> {
    let request = format!(
        "GET {PEER_PATH} HTTP/1.1\r\nHost: {}\r\n\
         Connection: Upgrade\r\nUpgrade: {PEER_PROTOCOL}\r\n{fields}\r\n",
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
            return Err(invalid(
                "the head of the response to the upgrade is too long",
            ));
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    check_head(&bytes[..head_end], url)?;
    let mut rest = Bytes::from(bytes);
    rest.advance(head_end);
    Ok(Upgraded { rest, stream })
}

/// Where the body begins, if the head is complete.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(end + 4)
}

/// Checks that a head is `101 Switching Protocols`, to the peer protocol.
fn check_head(head: &[u8], url: &NodeUrl) -> io::Result<()> {
    let head = str::from_utf8(head)
        .map_err(|_| invalid("the head of the response to the upgrade is not UTF-8"))?;
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    let Some(code) = status.strip_prefix("HTTP/1.1 ") else {
        return Err(invalid("the response to the upgrade is not HTTP/1.1"));
    };
    let status = code.split(' ').next();
    if status != Some("101") {
        // Quoted, because it can be anything.
        let answer = format!("the node does not take up the peer protocol: it answers {code:?}");
        let kind = io::ErrorKind::ConnectionRefused;
        return Err(match status {
            Some("400") if !url.is_https() => io::Error::new(
                kind,
                TlsFailure {
                    kind: HandshakeFailure::Plain,
                    cause: format!("{answer}, as one does that speaks only TLS"),
                    remedy: "if it does, write its URL with https:// in --cluster".to_owned(),
                },
            ),
            Some("403") => io::Error::new(
                kind,
                TlsFailure {
                    kind: HandshakeFailure::Refused,
                    cause: format!("{answer}, because this node shows it no certificate of a node"),
                    remedy: "its --cluster must name the host of the node that it refuses, and \
                             that node must show a certificate for this host, of an authority in \
                             its --tls-peer-ca"
                        .to_owned(),
                },
            ),
            _ => io::Error::new(kind, answer),
        });
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

/// A stream, and the first bytes of it, which were read together with the head.
struct Upgraded<S> {
    rest: Bytes,
    stream: S,
}

impl<S: Stream> AsyncRead for Upgraded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let bytes = self.rest.len().min(buffer.remaining());
        buffer.put_slice(&self.rest.split_to(bytes));
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
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn tcp_gives_up_what_a_cut_network_does_not_carry() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        prepare(&stream).unwrap();
        let timeout = SockRef::from(&stream).tcp_user_timeout().unwrap();
        assert_eq!(timeout, Some(UNACKNOWLEDGED_MAX));
        assert!(stream.nodelay().unwrap());
    }

    async fn upgraded(answer: &str) -> io::Result<(String, String)> {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let url = "http://[::1]:8080".parse().unwrap();
        let server = async {
            let mut request = Vec::new();
            while end_of_head(&request).is_none() {
                if theirs.read_buf(&mut request).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            theirs.write_all(answer.as_bytes()).await?;
            theirs.shutdown().await?;
            io::Result::Ok(String::from_utf8_lossy(&request).into_owned())
        };
        let client = async {
            let mut rest = String::new();
            let mut stream = upgrade(ours, &url, "").await?;
            stream.read_to_string(&mut rest).await?;
            Ok(rest)
        };
        let (request, rest) = tokio::join!(server, client);
        rest.map(|rest| (request.unwrap_or_default(), rest))
    }

    #[tokio::test]
    async fn bytes_that_follow_the_upgrade_are_kept() {
        let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
                      upgrade: kvorum-peer/1\r\n\r\nbytes after it";
        let (request, rest) = upgraded(answer).await.unwrap();
        assert_eq!(
            request,
            "GET /v0/peer HTTP/1.1\r\nHost: [::1]:8080\r\n\
             Connection: Upgrade\r\nUpgrade: kvorum-peer/1\r\n\r\n"
        );
        assert_eq!(rest, "bytes after it");
    }

    #[tokio::test]
    async fn a_node_never_falls_back_from_https() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url: NodeUrl = format!("https://127.0.0.1:{port}").parse().unwrap();
        // Without authorities, there is no connection at all.
        let refused = TcpTransport::default()
            .dial(&url)
            .await
            .map(drop)
            .unwrap_err();
        assert!(refused.to_string().contains("--tls-peer-ca"), "{refused}");
        let config = {
            let authority = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
            let mut roots = tokio_rustls::rustls::RootCertStore::empty();
            roots.add(authority.cert.der().clone()).unwrap();
            let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
            ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth()
        };
        let dialler = async {
            let stream = TcpStream::connect(("127.0.0.1", port)).await?;
            let dialled = secured(stream, &url, "", Arc::new(config)).await;
            io::Result::Ok(dialled.map(drop).map_err(explained))
        };
        let plain_server = async {
            // The connection that had no authorities.
            drop(listener.accept().await?);
            let (mut stream, _) = listener.accept().await?;
            let mut received = vec![0; 1 << 10];
            let bytes = stream.read(&mut received).await?;
            stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .await?;
            received.truncate(bytes);
            while stream.read_buf(&mut received).await? > 0 {}
            io::Result::Ok(received)
        };
        let both = async { tokio::join!(dialler, plain_server) };
        let both = tokio::time::timeout(Duration::from_secs(60), both).await;
        let (dialled, received) = both.expect("two connections");
        let error = dialled.unwrap().unwrap_err();
        let failure = tls_failure(&error).expect("a failure of TLS");
        assert_eq!(failure.kind, HandshakeFailure::Plain);
        assert!(failure.cause.contains("speaks plain HTTP"), "{failure}");
        let received = received.unwrap();
        assert_eq!(received[0], 0x16);
        let has = |word: &[u8]| received.windows(word.len()).any(|part| part == word);
        assert!(!has(PEER_PATH.as_bytes()) && !has(PEER_PROTOCOL.as_bytes()));
    }

    #[tokio::test]
    async fn an_answer_to_the_upgrade_may_say_that_tls_or_a_certificate_is_missing() {
        for (answer, kind) in [
            (
                "HTTP/1.1 400 Bad Request\r\n\r\n",
                Some(HandshakeFailure::Plain),
            ),
            (
                "HTTP/1.1 403 Forbidden\r\n\r\n",
                Some(HandshakeFailure::Refused),
            ),
            ("HTTP/1.1 404 Not Found\r\n\r\n", None),
        ] {
            let error = upgraded(answer).await.map(drop).unwrap_err();
            let failure = tls_failure(&error);
            assert_eq!(failure.map(|failure| failure.kind), kind, "{error}");
            assert!(error.to_string().contains("the peer protocol: it answers"));
        }
    }

    #[tokio::test]
    async fn other_responses_are_errors() {
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
