//! What becomes of requests: their answers, and what comes instead of one.

use super::{TICK, Worker};
use crate::generator::connection::{ConnectionState, Exchange};
use crate::generator::recorder::FailureKind;
use crate::generator::source::OnFailure;
use crate::plan::Operation;
use crate::workload::values::Verifier;
use std::io::{self, Read as _};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

impl Worker<'_> {
    /// Reads once: if more is there, the next wait tells.
    pub(super) fn read(&mut self, index: usize) -> io::Result<()> {
        let connection = &mut self.connections[index];
        let Some(stream) = &mut connection.stream else {
            return Ok(());
        };
        let bytes = match stream.read(&mut self.input) {
            Ok(bytes) => bytes,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                return Ok(());
            }
            Err(_) => return self.lose(index, FailureKind::Connection),
        };
        if bytes == 0 {
            let is_answered = matches!(connection.state, ConnectionState::Busy { .. })
                && connection.decoder.may_end();
            if is_answered {
                return self.answered(index);
            }
            return self.lose(index, FailureKind::Connection);
        }
        if !matches!(connection.state, ConnectionState::Busy { .. }) {
            // An answer that nobody asked for, such as 408: it ends the connection.
            return self.lose(index, FailureKind::Connection);
        }
        let verifier = &mut connection.verifier;
        let mut body_bytes = 0;
        let mut take = |piece: &[u8]| {
            body_bytes += piece.len() as u64;
            if let Some(verifier) = verifier {
                verifier.take(piece);
            }
        };
        let input = &self.input[..bytes];
        let taken = if connection.pending.is_empty() {
            let taken = connection.decoder.take(input, &mut take);
            if let Ok(taken) = taken {
                connection.pending.extend_from_slice(&input[taken.bytes..]);
            }
            taken
        } else {
            connection.pending.extend_from_slice(input);
            let taken = connection.decoder.take(&connection.pending, &mut take);
            if let Ok(taken) = taken {
                connection.pending.drain(..taken.bytes);
            }
            taken
        };
        if let Some(exchange) = &mut connection.exchange {
            exchange.body_bytes += body_bytes;
        }
        match taken {
            Ok(taken) if taken.is_complete => self.answered(index),
            Ok(_) => Ok(()),
            Err(_) => self.lose(index, FailureKind::BadResponse),
        }
    }

    /// A response is complete.
    pub(super) fn answered(&mut self, index: usize) -> io::Result<()> {
        let now = self.now();
        let (value_bytes_min, _) = self.context.plan.value_bytes.bounds();
        let may_be_empty = value_bytes_min == 0;
        let connection = &mut self.connections[index];
        connection.has_answered();
        let Some(exchange) = connection.exchange.take() else {
            return Ok(());
        };
        connection.state = ConnectionState::Idle;
        // Bytes that nobody asked for end a connection as the server itself does.
        let is_over = connection.decoder.is_last()
            || !connection.pending.is_empty()
            || connection.has_to_write();
        let status = connection.decoder.status();
        let verifier = connection.verifier;
        let result = judge(exchange, status, verifier, may_be_empty);
        let chunks = connection.decoder.chunks();
        if is_over {
            self.shut(index, now);
        }
        match result {
            Ok(ReadResult::Found) if exchange.reads_to_write() => {
                let exchange = Exchange {
                    is_writing_back: true,
                    ..exchange
                };
                if is_over {
                    self.connections[index].exchange = Some(exchange);
                    return Ok(());
                }
                return self.send(index, exchange, now);
            }
            Ok(answer) => self.succeed(exchange, answer, chunks, now),
            Err(_) if self.repeat(index, exchange, now) => return Ok(()),
            Err(why) => self.recorder.counts.fail(why),
        }
        if is_over {
            return Ok(());
        }
        self.go_on(index, now)
    }

    /// Counts a request that succeeded, unless it did so behind the end.
    fn succeed(&mut self, exchange: Exchange, answer: ReadResult, chunks: u64, now: Duration) {
        if self.context.length.is_some_and(|length| now >= length) {
            return;
        }
        let counts = &mut self.recorder.counts;
        counts.succeed(now.saturating_sub(exchange.due));
        counts.body_bytes += exchange.body_bytes;
        counts.missing += u64::from(answer == ReadResult::Missing);
        // A node sends each entity as a chunk of its own.
        if exchange.operation == Operation::Range {
            counts.entities += chunks;
        }
    }

    /// Keeps a failed request to be sent again, if the source wants that.
    pub(super) fn repeat(&mut self, index: usize, mut exchange: Exchange, now: Duration) -> bool {
        let OnFailure::Repeat { attempts_max } = self.source.on_failure() else {
            return false;
        };
        exchange.attempts += 1;
        if exchange.attempts >= attempts_max {
            return false;
        }
        let connection = &mut self.connections[index];
        connection.exchange = Some(exchange);
        if connection.stream.is_some() {
            connection.state = ConnectionState::Paused {
                until: now + TICK * (1 << exchange.attempts.min(7)),
            };
        }
        true
    }

    /// A connection is lost, and with it the request that was on it.
    pub(super) fn lose(&mut self, index: usize, why: FailureKind) -> io::Result<()> {
        let now = self.now();
        self.shut(index, now);
        if let Some(exchange) = self.connections[index].exchange.take()
            && !self.repeat(index, exchange, now)
        {
            self.recorder.counts.fail(why);
        }
        Ok(())
    }

    /// Closes an open connection.
    pub(super) fn shut(&mut self, index: usize, now: Duration) {
        self.context.open.fetch_sub(1, Relaxed);
        self.connections[index].close(now);
    }
}

/// What a request that succeeded found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ReadResult {
    Found,
    Missing,
}

impl Exchange {
    /// Whether a read is done and the write is still to come.
    pub(super) fn reads_to_write(self) -> bool {
        self.operation == Operation::ReadModifyWrite && !self.is_writing_back
    }
}

/// What an answer means.
fn judge(
    exchange: Exchange,
    status: u16,
    verifier: Option<Verifier>,
    may_be_empty: bool,
) -> Result<ReadResult, FailureKind> {
    let reads = matches!(exchange.operation, Operation::Get | Operation::GetMissing)
        || exchange.reads_to_write();
    match status {
        404 if exchange.reads_to_write() => Ok(ReadResult::Found),
        404 if reads => Ok(ReadResult::Missing),
        200..=299 if exchange.operation == Operation::GetMissing => Err(FailureKind::WrongValue),
        200..=299 => match verifier {
            Some(verifier) if !verifier.is_right(may_be_empty) => Err(FailureKind::WrongValue),
            _ => Ok(ReadResult::Found),
        },
        status => Err(FailureKind::Status(status)),
    }
}
