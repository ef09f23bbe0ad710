//! A connection and the one request that may be on it.

use super::poller::Interest;
use crate::http::response::ResponseDecoder;
use crate::plan::Operation;
use crate::workload::values::Verifier;
use rustix::net::sockopt::{set_tcp_nodelay, socket_error};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The shortest and the longest pause before a connection is tried again.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The most room for requests that a connection keeps, in bytes.
const ROOM_BYTES_MAX: usize = 256 << 10;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ConnectionState {
    /// It is tried again at a time.
    Closed { until: Duration },
    /// The system is at it, until a time at most.
    Connecting { until: Duration },
    /// It waits for a request.
    Idle,
    /// It waits for the answer, until a time at most.
    Busy { until: Duration },
    /// Its request was refused and is sent again at a time.
    Paused { until: Duration },
}

/// The request on a connection. Times are after the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub(super) operation: Operation,
    /// The key's number.
    pub(super) number: u64,
    /// What its latency counts from.
    pub(super) due: Duration,
    /// Whether the second half of a read and write is on its way.
    pub(super) is_writing_back: bool,
    /// Bytes of bodies, sent and received.
    pub(super) body_bytes: u64,
    /// How often it was sent before this.
    pub(super) attempts: u32,
}

/// One of a thread's connections.
pub(super) struct ClientConnection {
    /// The target's place in the list of targets.
    pub(super) target: usize,
    pub(super) state: ConnectionState,
    pub(super) stream: Option<TcpStream>,
    pub(super) exchange: Option<Exchange>,
    /// The request, of which `written` bytes are sent.
    pub(super) request: Vec<u8>,
    written: usize,
    pub(super) decoder: ResponseDecoder,
    /// Part of a head or a chunk's size, which more must come for.
    pub(super) pending: Vec<u8>,
    /// What the value read is verified with, if it is.
    pub(super) verifier: Option<Verifier>,
    /// What its socket is watched for.
    pub(super) interest: Interest,
    /// Whether it is in the queue of free connections.
    pub(super) is_queued: bool,
    /// The next pause before it is tried again.
    pause: Duration,
}

/// How far a request was written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WriteStatus {
    Complete,
    Partial,
}

impl ClientConnection {
    /// One that is not open yet.
    pub(super) fn new(target: usize) -> Self {
        Self {
            target,
            state: ConnectionState::Closed {
                until: Duration::ZERO,
            },
            stream: None,
            exchange: None,
            request: Vec::new(),
            written: 0,
            decoder: ResponseDecoder::new(),
            pending: Vec::new(),
            verifier: None,
            interest: Interest::Writable,
            is_queued: false,
            pause: PAUSE_MIN,
        }
    }

    /// Begins to connect to `address`; the state says when to give up.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn begin(&mut self, address: &SocketAddr, until: Duration) -> io::Result<()> {
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
        self.stream = Some(socket.into());
        self.state = ConnectionState::Connecting { until };
        Ok(())
    }

    /// What came of connecting, now that the socket is writable.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(super) fn finish_connecting(&mut self) -> io::Result<()> {
        match &self.stream {
            Some(stream) => socket_error(stream)??,
            None => return Err(io::ErrorKind::NotConnected.into()),
        }
        self.state = ConnectionState::Idle;
        Ok(())
    }

    /// Closes it, to be tried again after a pause that grows until an answer comes.
    pub(super) fn close(&mut self, now: Duration) {
        self.stream = None;
        self.state = ConnectionState::Closed {
            until: now + self.pause,
        };
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// Notes that the server answered, so that the connection is worth having.
    pub(super) fn has_answered(&mut self) {
        self.pause = PAUSE_MIN;
    }

    /// Empties it for another request.
    pub(super) fn clear(&mut self) {
        self.request.clear();
        if self.request.capacity() > ROOM_BYTES_MAX {
            self.request = Vec::new();
        }
        self.written = 0;
        self.decoder.restart();
        self.pending.clear();
        self.verifier = None;
    }

    /// Writes what it can of the request.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn write(&mut self) -> io::Result<WriteStatus> {
        let Some(stream) = &mut self.stream else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        while self.written < self.request.len() {
            match stream.write(&self.request[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(WriteStatus::Partial);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(WriteStatus::Complete)
    }

    /// Whether some of the request is still to be written.
    pub(super) fn has_to_write(&self) -> bool {
        self.written < self.request.len()
    }
}
