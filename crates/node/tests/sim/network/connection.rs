//! A connection: two pipes, and the states of its two ends.

use super::HostNumber;
use bytes::Bytes;
use std::collections::VecDeque;
use std::fmt;
use std::task::Waker;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

/// How many bytes a pipe holds, in flight and arrived, before its writer waits.
const PIPE_BYTES_MAX: usize = 64 << 10;

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The end that dialed.
    Dialer,
    /// The end that accepted.
    Accepter,
}

impl Side {
    /// The other side.
    pub(super) fn other(self) -> Self {
        match self {
            Self::Dialer => Self::Accepter,
            Self::Accepter => Self::Dialer,
        }
    }
}

/// The state of an end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndState {
    /// The stream of this end exists.
    Open,
    /// The stream was dropped, and the other end is notified.
    Closed,
    /// The host lost power, and the other end is not notified.
    Abandoned,
}

/// The result of a read.
pub(super) enum Arrived {
    /// Bytes.
    Bytes(Bytes),
    /// The writer has ended the stream.
    End,
    /// The connection is lost.
    Lost,
    /// Nothing yet.
    Nothing,
}

/// The result of a write.
pub(super) enum Sending {
    /// The pipe took this many bytes.
    Taken(usize),
    /// The pipe is full.
    Full,
    /// The connection is lost.
    Broken,
}

/// A connection between two hosts.
pub(super) struct Connection {
    /// By side: the host, the state of its end, and the pipe that it writes into.
    hosts: [HostNumber; 2],
    ends: [EndState; 2],
    pipes: [Pipe; 2],
    is_lost: bool,
}

#[derive(Default)]
struct Pipe {
    in_flight: VecDeque<(Instant, Piece)>,
    arrived: VecDeque<Bytes>,
    has_ended: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

enum Piece {
    Bytes(Bytes),
    End,
}

/// What arrived, as the trace shows it.
pub(super) struct ArrivedPiece(Option<Bytes>);

impl fmt::Display for ArrivedPiece {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(bytes) => write!(
                formatter,
                "{} bytes {:08x}",
                bytes.len(),
                xxh3_64(bytes) as u32
            ),
            None => formatter.write_str("ends"),
        }
    }
}

impl Connection {
    /// A connection that `from` dialed to `to`.
    pub(super) fn new(from: HostNumber, to: HostNumber) -> Self {
        Self {
            hosts: [from, to],
            ends: [EndState::Open; 2],
            pipes: [Pipe::default(), Pipe::default()],
            is_lost: false,
        }
    }

    /// The host at this side, then the other host.
    pub(super) fn hosts_from(&self, side: Side) -> (HostNumber, HostNumber) {
        (self.hosts[side as usize], self.hosts[side.other() as usize])
    }

    pub(super) fn is_between(&self, one: HostNumber, other: HostNumber) -> bool {
        self.hosts == [one, other] || self.hosts == [other, one]
    }

    /// Whether a host lost power while this connection was open.
    pub(super) fn was_abandoned_by(&self, host: HostNumber) -> bool {
        [Side::Dialer, Side::Accepter].into_iter().any(|side| {
            self.hosts[side as usize] == host && self.ends[side as usize] == EndState::Abandoned
        })
    }

    /// Whether both streams are gone and no bytes are in flight.
    pub(super) fn is_over(&self) -> bool {
        let nobody = self.ends.iter().all(|end| *end != EndState::Open);
        nobody && (self.is_lost || self.pipes.iter().all(|pipe| pipe.in_flight.is_empty()))
    }

    /// When the first bytes in flight from this side arrive.
    pub(super) fn next_due(&self, side: Side) -> Option<Instant> {
        self.pipes[side as usize]
            .in_flight
            .front()
            .map(|(due, _)| *due)
    }

    /// When the last bytes in flight from this side arrive. Later bytes do not overtake them.
    pub(super) fn last_due(&self, side: Side) -> Option<Instant> {
        self.pipes[side as usize]
            .in_flight
            .back()
            .map(|(due, _)| *due)
    }

    /// Delays the bytes in flight from one host to another.
    pub(super) fn delay_pipe(&mut self, from: HostNumber, to: HostNumber, until: Instant) {
        for side in [Side::Dialer, Side::Accepter] {
            if self.hosts_from(side) == (from, to) {
                for (due, _) in &mut self.pipes[side as usize].in_flight {
                    *due = until.max(*due);
                }
            }
        }
    }

    /// Loses the bytes in flight and notifies both ends.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
        for pipe in &mut self.pipes {
            pipe.in_flight.clear();
            pipe.wake();
        }
    }

    /// Delivers the first bytes in flight from this side.
    pub(super) fn arrive(&mut self, side: Side) -> ArrivedPiece {
        let reader_is_there = self.ends[side.other() as usize] == EndState::Open;
        let pipe = &mut self.pipes[side as usize];
        let arrived = match pipe.in_flight.pop_front() {
            Some((_, Piece::Bytes(bytes))) => {
                if reader_is_there {
                    pipe.arrived.push_back(bytes.clone());
                }
                ArrivedPiece(Some(bytes))
            }
            Some((_, Piece::End)) | None => {
                pipe.has_ended = true;
                ArrivedPiece(None)
            }
        };
        pipe.wake_reader();
        if !reader_is_there && arrived.0.is_some() {
            // A host resets the connection if it gets bytes for a closed socket.
            self.lose();
        }
        arrived
    }

    /// Reads at most `bytes_max` bytes at this side.
    pub(super) fn read(&mut self, side: Side, bytes_max: usize, waker: &Waker) -> Arrived {
        let is_lost = self.is_lost;
        let pipe = &mut self.pipes[side.other() as usize];
        if let Some(first) = pipe.arrived.front_mut() {
            let bytes = first.split_to(bytes_max.min(first.len()));
            if first.is_empty() {
                pipe.arrived.pop_front();
            }
            if let Some(writer) = pipe.writer.take() {
                writer.wake();
            }
            Arrived::Bytes(bytes)
        } else if pipe.has_ended {
            Arrived::End
        } else if is_lost {
            Arrived::Lost
        } else {
            pipe.reader = Some(waker.clone());
            Arrived::Nothing
        }
    }

    /// Sends bytes from this side, as many as there is room for. They arrive at `due`.
    pub(super) fn write(
        &mut self,
        side: Side,
        bytes: &[u8],
        due: Instant,
        waker: &Waker,
    ) -> Sending {
        if self.is_lost {
            return Sending::Broken;
        }
        let pipe = &mut self.pipes[side as usize];
        let room = PIPE_BYTES_MAX.saturating_sub(pipe.bytes());
        if room == 0 {
            pipe.writer = Some(waker.clone());
            return Sending::Full;
        }
        let taken = bytes.len().min(room);
        let bytes = Bytes::copy_from_slice(&bytes[..taken]);
        pipe.in_flight.push_back((due, Piece::Bytes(bytes)));
        Sending::Taken(taken)
    }

    /// Ends the stream of bytes from this side.
    pub(super) fn end(&mut self, side: Side, due: Instant) {
        if !self.is_lost {
            let pipe = &mut self.pipes[side as usize];
            pipe.in_flight.push_back((due, Piece::End));
        }
    }

    /// The stream of this side was dropped. The other end is notified at `due`; with `None`
    /// it is not.
    pub(super) fn leave(&mut self, side: Side, due: Option<Instant>) {
        let pipe = &mut self.pipes[side.other() as usize];
        let was_unread = !pipe.arrived.is_empty();
        pipe.arrived.clear();
        match due {
            Some(due) => {
                self.ends[side as usize] = EndState::Closed;
                self.end(side, due);
                if was_unread {
                    // Closing a socket with unread bytes resets the connection.
                    self.lose();
                }
            }
            None => self.ends[side as usize] = EndState::Abandoned,
        }
    }
}

impl Pipe {
    fn bytes(&self) -> usize {
        let in_flight = self.in_flight.iter().map(|(_, piece)| match piece {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::End => 0,
        });
        let arrived = self.arrived.iter().map(Bytes::len);
        in_flight.chain(arrived).sum()
    }

    fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    fn wake(&mut self) {
        self.wake_reader();
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}
