//! A TCP connection that notes when bytes move.

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, sockopt};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How long a connection is silent before the system probes it.
const PROBE_AFTER: Duration = Duration::from_secs(60);

/// The time between two probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

/// A connection has failed after this many probes without an answer.
const PROBES_MAX: u32 = 6;

/// When bytes last moved on a connection, either way.
#[derive(Clone, Debug)]
pub(super) struct Activity {
    began: Instant,
    last_ms: Arc<AtomicU64>,
}

impl Activity {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            last_ms: Arc::default(),
        }
    }

    /// Bytes move now, or a wait begins.
    pub(super) fn note(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(now, Ordering::Relaxed);
    }

    /// When bytes last moved.
    pub(super) fn last(&self) -> Instant {
        self.began + Duration::from_millis(self.last_ms.load(Ordering::Relaxed))
    }
}

/// A second descriptor of a connection, which reads nothing.
#[derive(Debug)]
pub(super) struct Probe(OwnedFd);

impl Probe {
    /// Whether no byte waits to be read, and the connection has not ended.
    pub(super) fn is_quiet(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        matches!(recv(&self.0, &mut [0], flags), Err(Errno::AGAIN))
    }
}

/// The connection.
pub(super) struct Socket {
    stream: TcpStream,
    activity: Activity,
}

impl Socket {
    /// Prepares a connection. The system probes it while it is silent, so that a wait of
    /// days for the end of a repair ends when the machine of the node dies: about
    /// [`PROBE_AFTER`] and [`PROBES_MAX`] times [`PROBE_INTERVAL`] later.
    ///
    /// # Errors
    /// The system refuses an option of the socket.
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, PROBE_AFTER)?;
        sockopt::set_tcp_keepintvl(&stream, PROBE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&stream, PROBES_MAX)?;
        Ok(Self {
            stream,
            activity: Activity::new(),
        })
    }

    /// Tells what has come on it and was not read.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn probe(&self) -> io::Result<Probe> {
        Ok(Probe(self.stream.as_fd().try_clone_to_owned()?))
    }

    /// When bytes move on it.
    pub(super) fn activity(&self) -> Activity {
        self.activity.clone()
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        this.activity.note();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes))?;
        this.activity.note();
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_system_probes_a_silent_connection() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let socket = Socket::new(TcpStream::connect(address).await.unwrap()).unwrap();
        let stream = &socket.stream;
        assert!(sockopt::socket_keepalive(stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(stream).unwrap(), PROBE_AFTER);
        assert_eq!(sockopt::tcp_keepintvl(stream).unwrap(), PROBE_INTERVAL);
        assert_eq!(sockopt::tcp_keepcnt(stream).unwrap(), PROBES_MAX);
    }
}
