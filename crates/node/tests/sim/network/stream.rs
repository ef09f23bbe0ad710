//! The stream of one end of a connection.

use super::connection::{Arrived, Sending, Side};
use super::{Condition, Network, NetworkState};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// A stream of bytes to another host.
pub(crate) struct SimStream {
    network: Network,
    number: u64,
    side: Side,
}

impl SimStream {
    pub(super) fn new(network: Network, number: u64, side: Side) -> Self {
        Self {
            network,
            number,
            side,
        }
    }
}

impl NetworkState {
    /// When bytes that a side sends now arrive: after a seeded delay, and not before earlier
    /// bytes.
    fn due(&self, number: u64, side: Side) -> Option<Instant> {
        let connection = self.connections.get(&number)?;
        let (from, to) = connection.hosts_from(side);
        let due = Instant::now() + self.delay(from, to);
        Some(connection.last_due(side).map_or(due, |last| last.max(due)))
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.network.lock();
        let Some(connection) = state.connections.get_mut(&self.number) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        match connection.read(self.side, buffer.remaining(), cx.waker()) {
            Arrived::Bytes(bytes) => {
                buffer.put_slice(&bytes);
                Poll::Ready(Ok(()))
            }
            Arrived::End => Poll::Ready(Ok(())),
            Arrived::Lost => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Arrived::Nothing => Poll::Pending,
        }
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut state = self.network.lock();
        // Now and then the pipe takes only a part, so pieces end anywhere.
        let taken = if state.dice.percent(20) {
            1 + state.dice.place(bytes.len())
        } else {
            bytes.len()
        };
        let due = state.due(self.number, self.side);
        let connection = state.connections.get_mut(&self.number);
        let (Some(due), Some(connection)) = (due, connection) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let sending = connection.write(self.side, &bytes[..taken], due, cx.waker());
        drop(state);
        match sending {
            Sending::Taken(bytes) => {
                self.network.inner.changed.notify_one();
                Poll::Ready(Ok(bytes))
            }
            Sending::Full => Poll::Pending,
            Sending::Broken => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.network.lock();
        if let Some(due) = state.due(self.number, self.side)
            && let Some(connection) = state.connections.get_mut(&self.number)
        {
            connection.end(self.side, due);
        }
        drop(state);
        self.network.inner.changed.notify_one();
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        let mut state = self.network.lock();
        let due = state.due(self.number, self.side);
        let NetworkState {
            hosts, connections, ..
        } = &mut *state;
        let Some(connection) = connections.get_mut(&self.number) else {
            return;
        };
        let (own, _) = connection.hosts_from(self.side);
        let is_notified = hosts[own].condition == Condition::Alive;
        let due = due.unwrap_or_else(|| Instant::now() + Duration::ZERO);
        connection.leave(self.side, is_notified.then_some(due));
        if connection.is_over() {
            connections.remove(&self.number);
        }
        drop(state);
        self.network.inner.changed.notify_one();
    }
}
