//! A connection: two pipes, and what has become of its ends.

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
    /// The end that asked for the connection.
    Dialer,
    /// The end that took it.
    Accepter,
}

impl Side {
    /// The other one.
    pub(super) fn other(self) -> Self {
        match self {
            Self::Dialer => Self::Accepter,
            Self::Accepter => Self::Dialer,
        }
    }
}

/// What has become of an end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// A stream holds it.
    Held,
    /// Its stream was dropped, and the other end hears of it.
    Closed,
    /// Its host lost its power: the other end hears nothing.
    Abandoned,
}

/// What a reader finds.
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

/// What becomes of bytes that are to be sent.
pub(super) enum Sending {
    /// So many were taken.
    Taken(usize),
    /// The pipe is full.
    Full,
    /// Nobody will read them.
    Broken,
}

/// A connection between two hosts.
pub(super) struct Connection {
    /// By side: the hosts, their ends, and the pipes that they write into.
    hosts: [HostNumber; 2],
    ends: [End; 2],
    pipes: [Pipe; 2],
    is_lost: bool,
}

#[derive(Default)]
struct Pipe {
    in_flight: VecDeque<(Instant, Segment)>,
    arrived: VecDeque<Bytes>,
    has_ended: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

enum Segment {
    Bytes(Bytes),
    End,
}

/// What arrived, for the trace.
pub(super) struct What(Option<Bytes>);

impl fmt::Display for What {
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
    /// A connection that `from` asked `to` for.
    pub(super) fn new(from: HostNumber, to: HostNumber) -> Self {
        Self {
            hosts: [from, to],
            ends: [End::Held; 2],
            pipes: [Pipe::default(), Pipe::default()],
            is_lost: false,
        }
    }

    /// The host at this side, then the other.
    pub(super) fn hosts_from(&self, side: Side) -> (HostNumber, HostNumber) {
        (self.hosts[side as usize], self.hosts[side.other() as usize])
    }

    pub(super) fn is_between(&self, one: HostNumber, other: HostNumber) -> bool {
        self.hosts == [one, other] || self.hosts == [other, one]
    }

    /// Whether a host lost its power with this connection open.
    pub(super) fn was_abandoned_by(&self, host: HostNumber) -> bool {
        [Side::Dialer, Side::Accepter].into_iter().any(|side| {
            self.hosts[side as usize] == host && self.ends[side as usize] == End::Abandoned
        })
    }

    /// Whether nobody holds an end any more, and nobody would hear of it.
    pub(super) fn is_over(&self) -> bool {
        let nobody = self.ends.iter().all(|end| *end != End::Held);
        nobody && (self.is_lost || self.pipes.iter().all(|pipe| pipe.in_flight.is_empty()))
    }

    /// When the first of what this side has sent arrives.
    pub(super) fn next_due(&self, side: Side) -> Option<Instant> {
        self.pipes[side as usize]
            .in_flight
            .front()
            .map(|(due, _)| *due)
    }

    /// The last of what this side has sent arrives then: nothing overtakes it.
    pub(super) fn last_due(&self, side: Side) -> Option<Instant> {
        self.pipes[side as usize]
            .in_flight
            .back()
            .map(|(due, _)| *due)
    }

    /// Puts off what is in flight from one host to another.
    pub(super) fn delay_pipe(&mut self, from: HostNumber, to: HostNumber, until: Instant) {
        for side in [Side::Dialer, Side::Accepter] {
            if self.hosts_from(side) == (from, to) {
                for (due, _) in &mut self.pipes[side as usize].in_flight {
                    *due = until.max(*due);
                }
            }
        }
    }

    /// Loses what is in flight; both ends hear of it.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
        for pipe in &mut self.pipes {
            pipe.in_flight.clear();
            pipe.wake();
        }
    }

    /// Lets the first of what this side has sent arrive.
    pub(super) fn arrive(&mut self, side: Side) -> What {
        let reader_is_there = self.ends[side.other() as usize] == End::Held;
        let pipe = &mut self.pipes[side as usize];
        let what = match pipe.in_flight.pop_front() {
            Some((_, Segment::Bytes(bytes))) => {
                if reader_is_there {
                    pipe.arrived.push_back(bytes.clone());
                }
                What(Some(bytes))
            }
            Some((_, Segment::End)) | None => {
                pipe.has_ended = true;
                What(None)
            }
        };
        pipe.wake_reader();
        if !reader_is_there && what.0.is_some() {
            // As a host does that gets bytes for a socket which is closed.
            self.lose();
        }
        what
    }

    /// What this side can read; at most `bytes_max` bytes.
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

    /// Sends bytes from this side, to arrive at `due`, as long as there is room.
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
        pipe.in_flight.push_back((due, Segment::Bytes(bytes)));
        Sending::Taken(taken)
    }

    /// Ends what this side sends.
    pub(super) fn end(&mut self, side: Side, due: Instant) {
        if !self.is_lost {
            let pipe = &mut self.pipes[side as usize];
            pipe.in_flight.push_back((due, Segment::End));
        }
    }

    /// This side's stream is gone: closed, to be heard of at `due`, or without
    /// a word for `None`.
    pub(super) fn leave(&mut self, side: Side, due: Option<Instant>) {
        let pipe = &mut self.pipes[side.other() as usize];
        let was_unread = !pipe.arrived.is_empty();
        pipe.arrived.clear();
        match due {
            Some(due) => {
                self.ends[side as usize] = End::Closed;
                self.end(side, due);
                if was_unread {
                    // As a socket does that is closed with bytes unread.
                    self.lose();
                }
            }
            None => self.ends[side as usize] = End::Abandoned,
        }
    }
}

impl Pipe {
    fn bytes(&self) -> usize {
        let in_flight = self.in_flight.iter().map(|(_, segment)| match segment {
            Segment::Bytes(bytes) => bytes.len(),
            Segment::End => 0,
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
