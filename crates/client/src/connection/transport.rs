//! The stream that hyper uses: a socket, with TLS over it if the node's URL says https.

use super::socket::{Activity, Probe, Socket};
use crate::node::Node;
use hyper::rt::ReadBufCursor;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The server of a client without TLS answers with a record of TLS.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("it speaks TLS, but its URL says http://: write https://")]
pub(super) struct SpeaksTls;

/// Whether an answer begins as an alert or a handshake of TLS: no HTTP does.
fn is_tls(answer: &[u8]) -> bool {
    matches!(answer, [0x15 | 0x16, 3, ..])
}

/// How many bytes are read at a time.
const READ_BYTES: usize = 64 << 10;

/// An open connection.
pub(super) struct Transport {
    stream: Stream,
    buffer: Box<[u8]>,
    activity: Activity,
}

enum Stream {
    /// A socket, and whether bytes have come from it.
    Plain(Socket, bool),
    Tls(Box<TlsStream<Socket>>),
}

impl Transport {
    /// Connects to a node at one of its addresses, and shakes hands with it.
    ///
    /// # Errors
    /// No connection; an error of rustls in it says that the handshake failed.
    pub(super) async fn open(node: &Node, addresses: &[SocketAddr]) -> io::Result<Self> {
        let socket = Socket::new(dial::connect(addresses).await?)?;
        let activity = socket.activity();
        let stream = match node.tls() {
            None => Stream::Plain(socket, false),
            Some(tls) => {
                let connector = TlsConnector::from(tls.config.clone());
                let connected = connector.connect(tls.name.clone(), socket).await?;
                Stream::Tls(Box::new(connected))
            }
        };
        Ok(Self {
            stream,
            buffer: vec![0; READ_BYTES].into(),
            activity,
        })
    }

    /// Tells what has come on it and was not read.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn probe(&self) -> io::Result<Probe> {
        match &self.stream {
            Stream::Plain(socket, _) => socket.probe(),
            Stream::Tls(stream) => stream.get_ref().0.probe(),
        }
    }

    /// When bytes move on it.
    pub(super) fn activity(&self) -> Activity {
        self.activity.clone()
    }
}

impl Stream {
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket, has_read) => {
                ready!(Pin::new(socket).poll_read(cx, into))?;
                if !std::mem::replace(has_read, true) && is_tls(into.filled()) {
                    return Poll::Ready(Err(io::Error::other(SpeaksTls)));
                }
                Poll::Ready(Ok(()))
            }
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }

    /// What is written to.
    fn sink(&mut self) -> Pin<&mut dyn AsyncWrite> {
        match self {
            Self::Plain(socket, _) => Pin::<&mut Socket>::new(socket),
            Self::Tls(stream) => Pin::<&mut TlsStream<Socket>>::new(stream),
        }
    }
}

impl hyper::rt::Read for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, buffer, .. } = self.get_mut();
        let bytes_max = cursor.remaining().min(buffer.len());
        let mut buffer = ReadBuf::new(&mut buffer[..bytes_max]);
        ready!(stream.poll_read(cx, &mut buffer))?;
        cursor.put_slice(buffer.filled());
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().stream.sink().poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream.sink().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream.sink().poll_shutdown(cx)
    }
}
