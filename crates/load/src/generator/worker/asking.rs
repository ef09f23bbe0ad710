//! Sends requests.

use super::Worker;
use crate::generator::connection::{ConnectionState, Exchange, WriteStatus};
use crate::generator::poller::Interest;
use crate::generator::recorder::FailureKind;
use crate::plan::Operation;
use crate::workload::keys::KeyKind;
use crate::workload::values::{self, Verifier};
use std::io;
use std::time::Duration;

impl Worker<'_> {
    /// Sends requests that are due on free connections. Returns when the next
    /// request is due, if a connection is free for it.
    pub(super) fn send_due(&mut self, now: Duration) -> io::Result<Option<Duration>> {
        while let Some(schedule) = &mut self.schedule {
            let Some(&index) = self.free.front() else {
                break;
            };
            if self.connections[index].state != ConnectionState::Idle {
                self.leave_queue();
                continue;
            }
            let Some(due) = schedule.take(now) else {
                return Ok(Some(schedule.next()));
            };
            self.leave_queue();
            self.ask_next(index, due, now)?;
        }
        Ok(None)
    }

    pub(super) fn leave_queue(&mut self) {
        if let Some(index) = self.free.pop_front() {
            self.connections[index].is_queued = false;
        }
    }

    /// Sends the next request of an idle connection: one that is due, or in a
    /// closed loop the next one at once.
    pub(super) fn go_on(&mut self, index: usize, now: Duration) -> io::Result<()> {
        if let Some(exchange) = self.connections[index].exchange {
            // A request of a fill whose connection was lost.
            return self.send(index, exchange, now);
        }
        let due = match &mut self.schedule {
            None => Some(now),
            // A connection that has been free for longer comes first.
            Some(schedule) if self.free.is_empty() => schedule.take(now),
            Some(_) => None,
        };
        if let Some(due) = due {
            return self.ask_next(index, due, now);
        }
        let connection = &mut self.connections[index];
        if !connection.is_queued {
            connection.is_queued = true;
            self.free.push_back(index);
        }
        Ok(())
    }

    pub(super) fn ask_next(
        &mut self,
        index: usize,
        due: Duration,
        now: Duration,
    ) -> io::Result<()> {
        let Some((operation, number)) = self.source.next(&mut self.random) else {
            self.is_exhausted = true;
            return Ok(());
        };
        let exchange = Exchange {
            operation,
            number,
            due,
            is_writing_back: false,
            body_bytes: 0,
            attempts: 0,
        };
        self.send(index, exchange, now)
    }

    /// Builds the request of an exchange and sends it.
    pub(super) fn send(
        &mut self,
        index: usize,
        mut exchange: Exchange,
        now: Duration,
    ) -> io::Result<()> {
        let connection = &mut self.connections[index];
        let writer = &self.writers[connection.target];
        let plan = self.context.plan;
        connection.clear();
        connection.state = ConnectionState::Busy {
            until: now + self.timeout,
        };
        let kind = match exchange.operation {
            Operation::GetMissing => KeyKind::Missing,
            _ => KeyKind::Present,
        };
        self.key.clear();
        self.context
            .keys
            .write(exchange.number, kind, &mut self.key);
        let request = &mut connection.request;
        match exchange.operation {
            Operation::ReadModifyWrite if !exchange.is_writing_back => {
                writer.get(&self.key, request);
                connection.verifier = plan.verify.then(|| Verifier::new(&self.key));
            }
            Operation::Put | Operation::Insert | Operation::ReadModifyWrite => {
                let bytes = plan.value_bytes.draw(&mut self.random);
                writer.put(&self.key, bytes, request);
                values::write(&self.key, bytes, &mut self.random, request);
                exchange.body_bytes += bytes as u64;
            }
            Operation::Get => {
                writer.get(&self.key, request);
                connection.verifier = plan.verify.then(|| Verifier::new(&self.key));
            }
            Operation::GetMissing => writer.get(&self.key, request),
            Operation::Delete => writer.delete(&self.key, request),
            Operation::Range => writer.range(&self.key, request),
        }
        connection.exchange = Some(exchange);
        self.write(index)
    }

    /// Continues to write; the rest follows when the socket is writable.
    pub(super) fn write(&mut self, index: usize) -> io::Result<()> {
        match self.connections[index].write() {
            Ok(WriteStatus::Complete) => self.watch(index, Interest::Readable),
            Ok(WriteStatus::Partial) => self.watch(index, Interest::Writable),
            Err(_) => self.lose(index, FailureKind::Connection),
        }
    }

    /// Watches a socket for `interest`, if it is not watched for that already.
    pub(super) fn watch(&mut self, index: usize, interest: Interest) -> io::Result<()> {
        let connection = &mut self.connections[index];
        match &connection.stream {
            Some(stream) if connection.interest != interest => {
                connection.interest = interest;
                self.poller.modify(stream, index, interest)
            }
            _ => Ok(()),
        }
    }
}
