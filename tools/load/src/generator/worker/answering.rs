//! Handles responses, and failures instead of responses.

use super::{TICK, Worker};
use crate::generator::connection::{ConnectionState, DueRequest};
use crate::generator::recorder::FailureKind;
use crate::generator::request_source::OnFailure;
use crate::plan::Operation;
use crate::results::SlowRequest;
use crate::workload::values::Verifier;
use std::io::{self, Read as _};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

impl Worker<'_> {
    /// Reads once. If more bytes have arrived, the next wait reports the socket
    /// again.
    pub(super) fn read(&mut self, index: usize) -> io::Result<()> {
        let connection = &mut self.connections[index];
        let Some(socket) = &mut connection.socket else {
            return Ok(());
        };
        let bytes = match socket.read(&mut self.input) {
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
            // The server sent a response without a request, such as 408. It
            // closes the connection after that.
            return self.lose(index, FailureKind::Connection);
        }
        let verifier = &mut connection.verifier;
        let is_batch = self.context.plan.batch.is_some();
        let answers = &mut connection.batch.answers;
        let mut body_bytes = 0;
        let mut take = |piece: &[u8]| {
            body_bytes += piece.len() as u64;
            if is_batch {
                answers.extend_from_slice(piece);
            }
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
        if let Some(due_request) = &mut connection.due_request {
            due_request.body_bytes += body_bytes;
        }
        match taken {
            Ok(taken) if self.context.plan.pipeline.is_some() => {
                self.take_answers(index, taken.is_complete)
            }
            Ok(taken) if taken.is_complete => self.answered(index),
            Ok(_) => Ok(()),
            Err(_) => self.lose(index, FailureKind::BadResponse),
        }
    }

    /// Handles a complete response.
    pub(super) fn answered(&mut self, index: usize) -> io::Result<()> {
        let now = self.now();
        let (value_bytes_min, _) = self.context.plan.value_bytes.bounds();
        let may_be_empty = value_bytes_min == 0;
        let connection = &mut self.connections[index];
        connection.note_response();
        let Some(due_request) = connection.due_request.take() else {
            return Ok(());
        };
        connection.state = ConnectionState::Idle;
        connection.last_sent = Some(due_request.sent);
        // Unexpected bytes end the connection, as a server would.
        let is_over = connection.decoder.is_last()
            || !connection.pending.is_empty()
            || connection.has_to_write();
        let status = connection.decoder.status();
        let verifier = connection.verifier;
        let chunks = connection.decoder.chunks();
        let result = match self.context.plan.batch {
            Some(_) => self.judge_batch(index, status, may_be_empty),
            None => judge(due_request, status, verifier, may_be_empty).map(|result| Answered {
                missing: u64::from(result == ReadResult::Missing),
                // A node sends each entity as one chunk.
                entities: match due_request.operation {
                    Operation::Scan => chunks,
                    _ => 0,
                },
                operations: 0,
            }),
        };
        if is_over {
            self.shut(index, now);
        }
        match result {
            Ok(Answered { missing: 0, .. }) if due_request.is_read_before_write() => {
                let due_request = DueRequest {
                    is_writing_back: true,
                    ..due_request
                };
                if is_over {
                    self.connections[index].due_request = Some(due_request);
                    return Ok(());
                }
                return self.send(index, due_request, now);
            }
            Ok(answered) => self.succeed(index, due_request, answered, now),
            Err(_) if self.repeat(index, due_request, now) => return Ok(()),
            Err(why) => self.recorder.counts.fail(why),
        }
        if is_over {
            return Ok(());
        }
        self.send_next(index, now)
    }

    /// Counts a request that succeeded before the end of the run.
    pub(super) fn succeed(
        &mut self,
        index: usize,
        due_request: DueRequest,
        answered: Answered,
        now: Duration,
    ) {
        if self.context.length.is_some_and(|length| now >= length) {
            return;
        }
        if now >= self.context.warmup && self.slowest.admits(now.saturating_sub(due_request.due)) {
            self.keep_slow(index, due_request, now);
        }
        let counts = &mut self.recorder.counts;
        counts.succeed(now.saturating_sub(due_request.due));
        counts.body_bytes += due_request.body_bytes;
        counts.missing += answered.missing;
        counts.entities += answered.entities;
        counts.operations += answered.operations;
    }

    /// Keeps a request among the slowest.
    fn keep_slow(&mut self, index: usize, due_request: DueRequest, now: Duration) {
        let connection = &self.connections[index];
        let socket = connection.socket.as_ref();
        let address = socket.and_then(|socket| socket.stream().local_addr().ok());
        let waited_for = due_request.waited_for.map(|sent| self.on_clock(sent));
        self.slowest.add(SlowRequest {
            due: self.on_clock(due_request.due),
            sent: self.on_clock(due_request.sent),
            woke: self.on_clock(self.woke),
            received: self.on_clock(now),
            target: connection.target,
            // Without a connection any more it has no port.
            port: address.map_or(0, |address| address.port()),
            waited_for,
        });
    }

    /// Judges the answer to a batch, which fails with its first operation that does.
    pub(super) fn judge_batch(
        &mut self,
        index: usize,
        status: u16,
        may_be_empty: bool,
    ) -> Result<Answered, FailureKind> {
        if status != 200 {
            return Err(FailureKind::Status(status));
        }
        let batch = std::mem::take(&mut self.connections[index].batch);
        let verifies = self.context.plan.verify;
        let result = batch.judge(may_be_empty, |number| {
            verifies.then(|| {
                self.write_key(Operation::Get, number);
                Verifier::new(&self.key)
            })
        });
        let operations = batch.operations.len() as u64;
        self.connections[index].batch = batch;
        let answered = Answered {
            missing: result.missing,
            entities: 0,
            operations,
        };
        result.failure.map_or(Ok(answered), Err)
    }

    /// Schedules a failed request to be repeated, if the source repeats
    /// requests.
    pub(super) fn repeat(&mut self, index: usize, due_request: DueRequest, now: Duration) -> bool {
        let Some(due_request) = self.again(due_request) else {
            return false;
        };
        let connection = &mut self.connections[index];
        connection.due_request = Some(due_request);
        if connection.socket.is_some() {
            connection.state = ConnectionState::Paused {
                until: now + TICK * (1 << due_request.attempts.min(7)),
            };
        }
        true
    }

    /// A failed request as it is repeated, if the source repeats requests.
    pub(super) fn again(&self, mut due_request: DueRequest) -> Option<DueRequest> {
        let OnFailure::Repeat { attempts_max } = self.source.on_failure() else {
            return None;
        };
        due_request.attempts += 1;
        (due_request.attempts < attempts_max).then_some(due_request)
    }

    /// Handles the loss of a connection and of what is on it.
    pub(super) fn lose(&mut self, index: usize, why: FailureKind) -> io::Result<()> {
        let now = self.now();
        self.shut(index, now);
        self.fail(index, why, now);
        Ok(())
    }

    /// Repeats what is on a connection that is closed as soon as it is open again, or counts it as
    /// failed.
    pub(super) fn fail(&mut self, index: usize, why: FailureKind, now: Duration) {
        if let Some(due_request) = self.connections[index].due_request.take()
            && !self.repeat(index, due_request, now)
        {
            self.recorder.counts.fail(why);
        }
        for (due_request, operations) in std::mem::take(&mut self.connections[index].behind) {
            match self.again(due_request) {
                Some(again) => self.connections[index]
                    .behind
                    .push_back((again, operations)),
                None => self.recorder.counts.fail(why),
            }
        }
        if self.connections[index].due_request.is_none() {
            self.connections[index].advance();
        }
    }

    /// Closes an open connection.
    pub(super) fn shut(&mut self, index: usize, now: Duration) {
        self.context.open.fetch_sub(1, Relaxed);
        let pool = self.pool_of(index);
        self.pools.closed(pool);
        self.connections[index].close(now);
    }
}

/// What a successful request counts for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    /// Reads that found nothing.
    missing: u64,
    /// Entities of a scan.
    entities: u64,
    /// Operations of a batch.
    operations: u64,
}

/// What a successful request of one operation found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ReadResult {
    Found,
    Missing,
}

impl DueRequest {
    /// Whether this is the read of a read-modify-write.
    pub(super) fn is_read_before_write(self) -> bool {
        self.operation.writes_back() && !self.is_writing_back
    }
}

/// Decides whether a response is a success.
fn judge(
    due_request: DueRequest,
    status: u16,
    verifier: Option<Verifier>,
    may_be_empty: bool,
) -> Result<ReadResult, FailureKind> {
    let reads = matches!(
        due_request.operation,
        Operation::Get | Operation::GetMissing
    ) || due_request.is_read_before_write();
    let success = if due_request.is_read_before_write() {
        Operation::Get.success_status()
    } else {
        due_request.operation.success_status()
    };
    match status {
        404 if due_request.is_read_before_write() => Ok(ReadResult::Found),
        404 if reads => Ok(ReadResult::Missing),
        status if status != success => Err(FailureKind::Status(status)),
        _ if due_request.operation == Operation::GetMissing => Err(FailureKind::WrongValue),
        _ => match verifier {
            Some(verifier) if !verifier.is_right(may_be_empty) => Err(FailureKind::WrongValue),
            _ => Ok(ReadResult::Found),
        },
    }
}
