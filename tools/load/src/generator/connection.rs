//! A connection to a target, and what may be on it: one request, or the batches of a pipeline.

use super::batch::{Batch, Operations};
use super::poller::Interest;
use crate::http::response::ResponseDecoder;
use crate::plan::Operation;
use crate::target::Target;
use crate::target::socket::Socket;
use crate::workload::values::Verifier;
use rustix::net::sockopt::{set_tcp_nodelay, socket_error};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

/// The shortest and the longest pause before reconnecting.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The largest request buffer that a connection keeps, in bytes.
const ROOM_BYTES_MAX: usize = 256 << 10;

/// The state of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ConnectionState {
    /// Reconnects at this time.
    Closed { until: Duration },
    /// Connecting, until this time at most.
    Connecting { until: Duration },
    /// Connected, and agreeing on TLS, until the same time.
    ShakingHands { until: Duration },
    /// Open, without a request.
    Idle,
    /// Waiting for a response, until this time at most.
    Busy { until: Duration },
    /// Its request was refused and is repeated at this time.
    Paused { until: Duration },
}

/// A request that is due, waits or is under way. Times count from the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct DueRequest {
    pub(super) operation: Operation,
    /// The number of the key.
    pub(super) number: u64,
    /// When the request was due; its latency counts from here.
    pub(super) due: Duration,
    /// When it was sent.
    pub(super) sent: Duration,
    /// When the request before it on its connection was sent, if it waited for that one.
    pub(super) waited_for: Option<Duration>,
    /// Whether the write of a read-modify-write is on its way.
    pub(super) is_writing_back: bool,
    /// Bytes of the bodies sent and received.
    pub(super) body_bytes: u64,
    /// How often it was sent before.
    pub(super) attempts: u32,
}

/// A connection of a thread.
pub(super) struct ClientConnection {
    /// The index of the target.
    pub(super) target: usize,
    pub(super) state: ConnectionState,
    pub(super) socket: Option<Socket>,
    pub(super) due_request: Option<DueRequest>,
    /// The bytes of the request; `written` of them are sent.
    pub(super) request: Vec<u8>,
    written: usize,
    pub(super) decoder: ResponseDecoder,
    /// Received bytes of an incomplete head or chunk size.
    pub(super) pending: Vec<u8>,
    /// Verifies the value that is read, if it is verified.
    pub(super) verifier: Option<Verifier>,
    /// The batch that its request is, if the plan has batches.
    pub(super) batch: Batch,
    /// Of a pipeline: the batches that were sent behind that one, in their order.
    pub(super) behind: VecDeque<(DueRequest, Operations)>,
    /// Whether the head of a pipeline was sent.
    pub(super) is_pipeline: bool,
    /// The events that its socket is watched for.
    pub(super) interest: Interest,
    /// Whether it is in the queue of free connections.
    pub(super) is_queued: bool,
    /// When the last request that was answered on it was sent.
    pub(super) last_sent: Option<Duration>,
    /// The next pause before reconnecting.
    pause: Duration,
}

/// How much of a request is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WriteStatus {
    Complete,
    Partial,
}

impl ClientConnection {
    /// A connection that is not open yet.
    pub(super) fn new(target: usize) -> Self {
        Self {
            target,
            state: ConnectionState::Closed {
                until: Duration::ZERO,
            },
            socket: None,
            due_request: None,
            request: Vec::new(),
            written: 0,
            decoder: ResponseDecoder::new(),
            pending: Vec::new(),
            verifier: None,
            batch: Batch::default(),
            behind: VecDeque::new(),
            is_pipeline: false,
            interest: Interest::Writable,
            is_queued: false,
            last_sent: None,
            pause: PAUSE_MIN,
        }
    }

    /// Begins to connect to a target, until a deadline.
    ///
    /// # Errors
    /// The error of the system.
    pub(super) fn begin(&mut self, target: &Target, until: Duration) -> io::Result<()> {
        let address = &target.address;
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        set_tcp_nodelay(&socket, true)?;
        match connect(&socket, address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        self.socket = Some(Socket::new(socket.into(), target.tls.as_ref())?);
        self.state = ConnectionState::Connecting { until };
        Ok(())
    }

    /// Goes on to connect, once the socket is writable, and then to agree on TLS, whenever
    /// it is ready. Returns whether it is open.
    ///
    /// # Errors
    /// The connection failed.
    pub(super) fn continue_connecting(&mut self) -> io::Result<bool> {
        let Some(socket) = &mut self.socket else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        if let ConnectionState::Connecting { until } = self.state {
            socket_error(socket.stream())??;
            self.state = ConnectionState::ShakingHands { until };
        }
        let is_open = socket.shake_hands()?;
        if is_open {
            self.state = ConnectionState::Idle;
        }
        Ok(is_open)
    }

    /// Closes the connection. It reconnects after a pause that doubles until a
    /// response arrives.
    pub(super) fn close(&mut self, now: Duration) {
        self.socket = None;
        self.is_pipeline = false;
        self.state = ConnectionState::Closed {
            until: now + self.pause,
        };
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// Notes that a response arrived, which resets the pause.
    pub(super) fn note_response(&mut self) {
        self.pause = PAUSE_MIN;
    }

    /// Clears the buffers for the next request.
    pub(super) fn clear(&mut self) {
        self.request.clear();
        if self.request.capacity() > ROOM_BYTES_MAX {
            self.request = Vec::new();
        }
        self.written = 0;
        self.decoder.restart();
        self.pending.clear();
        self.verifier = None;
        self.batch.answers.clear();
        self.is_pipeline = false;
    }

    /// Gives up what was written of the request, if that is all.
    pub(super) fn drop_written(&mut self) {
        if self.written == self.request.len() {
            self.request.clear();
            self.written = 0;
        }
    }

    /// How many batches of a pipeline wait for their answers.
    pub(super) fn batches_waiting(&self) -> usize {
        self.behind.len() + usize::from(self.due_request.is_some())
    }

    /// Lets the batch behind the first one of a pipeline, which is answered, be the first.
    pub(super) fn advance(&mut self) {
        if let Some((due_request, operations)) = self.behind.pop_front() {
            self.due_request = Some(due_request);
            self.batch.operations = operations;
        }
    }

    /// Writes as much of the request as the socket accepts.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn write(&mut self) -> io::Result<WriteStatus> {
        let Some(socket) = &mut self.socket else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        while self.written < self.request.len() {
            match socket.write(&self.request[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(WriteStatus::Partial);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        match socket.flush() {
            Ok(()) => Ok(WriteStatus::Complete),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(WriteStatus::Partial),
            Err(error) => Err(error),
        }
    }

    /// Whether a part of the request is not written. What was lost with a connection is not written
    /// any more.
    pub(super) fn has_to_write(&self) -> bool {
        let has_rest = self.written < self.request.len();
        let socket = self.socket.as_ref();
        socket.is_some_and(|socket| has_rest || socket.has_unsent())
    }

    /// Whether bytes have arrived of which the system does not know any more.
    pub(super) fn has_unread(&self) -> bool {
        self.socket.as_ref().is_some_and(Socket::has_unread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_with_a_connection_is_not_written_any_more() {
        let mut connection = ClientConnection::new(0);
        connection
            .request
            .extend_from_slice(b"the rest of a request");
        connection.close(Duration::ZERO);
        assert!(!connection.has_to_write());
    }
}
