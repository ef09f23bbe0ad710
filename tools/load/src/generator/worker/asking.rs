//! Sends requests.

use super::Worker;
use crate::generator::batch::{Operations, put_line};
use crate::generator::connection::{ConnectionState, DueRequest, WriteStatus};
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
        let routes = self.context.placement.is_some();
        while let Some(schedule) = &mut self.schedule {
            if routes {
                if self.pools.is_full() {
                    break;
                }
                let Some(due) = schedule.take(now) else {
                    return Ok(Some(schedule.next()));
                };
                self.draw_and_route(due, now)?;
                continue;
            }
            let Some(index) = self.pools.first_free(0) else {
                break;
            };
            if self.connections[index].state != ConnectionState::Idle {
                self.leave_queue(0);
                continue;
            }
            let Some(due) = schedule.take(now) else {
                return Ok(Some(schedule.next()));
            };
            self.leave_queue(0);
            self.ask_next(index, due, now)?;
        }
        Ok(None)
    }

    /// Removes the connection that has been free longest from its pool.
    fn leave_queue(&mut self, pool: usize) -> Option<usize> {
        let index = self.pools.pop_free(pool)?;
        self.connections[index].is_queued = false;
        Some(index)
    }

    /// The pool of a connection.
    pub(super) fn pool_of(&self, index: usize) -> usize {
        match self.context.placement {
            None => 0,
            Some(_) => self.connections[index].target,
        }
    }

    /// Draws a request, and sends it to the owner of its key as soon as a connection to it
    /// is free.
    fn draw_and_route(&mut self, due: Duration, now: Duration) -> io::Result<()> {
        match self.draw(due) {
            Some(due_request) => self.route(due_request, now),
            None => Ok(()),
        }
    }

    fn route(&mut self, due_request: DueRequest, now: Duration) -> io::Result<()> {
        self.write_key(due_request.operation, due_request.number);
        let owner = self.context.placement.as_ref().and_then(|placement| {
            placement.owner(&self.key, |target| self.pools.is_reachable(target))
        });
        let pool = owner.unwrap_or(0);
        while let Some(index) = self.leave_queue(pool) {
            if self.connections[index].state == ConnectionState::Idle {
                return self.send(index, due_request, now);
            }
        }
        self.pools.push_waiting(pool, due_request);
        Ok(())
    }

    /// Sends the requests for nodes that cannot be reached any more to the next in the
    /// preference lists of their keys.
    pub(super) fn reroute_stranded(&mut self, now: Duration) -> io::Result<()> {
        while let Some(stranded) = self.pools.pop_stranded() {
            for due_request in stranded {
                self.route(due_request, now)?;
            }
        }
        Ok(())
    }

    pub(super) fn write_key(&mut self, operation: Operation, number: u64) {
        let kind = match operation {
            Operation::GetMissing => KeyKind::Missing,
            _ => KeyKind::Present,
        };
        self.key.clear();
        self.context.keys.write(number, kind, &mut self.key);
    }

    /// Sends the next request of an idle connection: one that is due, or in a
    /// closed loop the next one at once.
    pub(super) fn send_next(&mut self, index: usize, now: Duration) -> io::Result<()> {
        if let Some(batches) = self.context.plan.pipeline {
            return self.fill_pipeline(index, batches, now);
        }
        if let Some(due_request) = self.connections[index].due_request {
            // A request of a fill whose connection was lost.
            return self.send(index, due_request, now);
        }
        if self.context.placement.is_some() {
            return self.continue_in_pool(index, now);
        }
        let due = match &mut self.schedule {
            None => Some(now),
            // A connection that has been free for longer comes first.
            Some(schedule) if self.pools.first_free(0).is_none() => schedule.take(now),
            Some(_) => None,
        };
        if let Some(due) = due {
            let waited_for = self.connections[index].last_sent;
            return match self.draw(due) {
                Some(due_request) => self.send(
                    index,
                    DueRequest {
                        waited_for,
                        ..due_request
                    },
                    now,
                ),
                None => Ok(()),
            };
        }
        self.queue_up(0, index);
        Ok(())
    }

    /// The same where each node has a pool: the connection takes what waits for its node.
    /// In a closed loop whoever got an answer then sends the next request, wherever its
    /// key belongs; so as many requests are under way as there are connections.
    fn continue_in_pool(&mut self, index: usize, now: Duration) -> io::Result<()> {
        let pool = self.pool_of(index);
        match self.pools.pop_waiting(pool) {
            Some(due_request) => {
                let waited_for = self.connections[index].last_sent;
                self.send(
                    index,
                    DueRequest {
                        waited_for,
                        ..due_request
                    },
                    now,
                )?;
            }
            None => self.queue_up(pool, index),
        }
        if self.schedule.is_none() && !self.pools.is_full() {
            return self.draw_and_route(now, now);
        }
        Ok(())
    }

    fn queue_up(&mut self, pool: usize, index: usize) {
        let connection = &mut self.connections[index];
        if !connection.is_queued {
            connection.is_queued = true;
            self.pools.push_free(pool, index);
        }
    }

    fn ask_next(&mut self, index: usize, due: Duration, now: Duration) -> io::Result<()> {
        match self.draw(due) {
            Some(due_request) => self.send(index, due_request, now),
            None => Ok(()),
        }
    }

    /// The next request of the source; none after the last one.
    pub(super) fn draw(&mut self, due: Duration) -> Option<DueRequest> {
        let Some((operation, number)) = self.source.next(&mut self.random) else {
            self.is_exhausted = true;
            return None;
        };
        Some(DueRequest {
            operation,
            number,
            due,
            sent: due,
            waited_for: None,
            is_writing_back: false,
            body_bytes: 0,
            attempts: 0,
        })
    }

    /// Builds the bytes of a request and sends them.
    pub(super) fn send(
        &mut self,
        index: usize,
        mut due_request: DueRequest,
        now: Duration,
    ) -> io::Result<()> {
        if let Some(operations) = self.context.plan.batch {
            return self.send_batch(index, due_request, operations, now);
        }
        self.write_key(due_request.operation, due_request.number);
        due_request.sent = now;
        let connection = &mut self.connections[index];
        let writer = &self.writers[connection.target];
        let plan = self.context.plan;
        // That of the value that was read, if this writes it back.
        let etag = connection.decoder.take_etag();
        connection.clear();
        connection.state = ConnectionState::Busy {
            until: now + self.timeout,
        };
        let request = &mut connection.request;
        match due_request.operation {
            operation if operation.writes_back() && !due_request.is_writing_back => {
                writer.get(&self.key, request);
                if operation == Operation::CompareAndSet {
                    connection.decoder.keep_etag();
                }
                connection.verifier = plan.verify.then(|| Verifier::new(&self.key));
            }
            Operation::Put | Operation::Insert | Operation::ReadModifyWrite => {
                let bytes = plan.value_bytes.draw(&mut self.random);
                writer.put(&self.key, bytes, request);
                values::write(&self.key, bytes, &mut self.random, request);
                due_request.body_bytes += bytes as u64;
            }
            Operation::CompareAndSet => {
                let bytes = plan.value_bytes.draw(&mut self.random);
                writer.put_if(&self.key, etag.as_deref(), bytes, request);
                values::write(&self.key, bytes, &mut self.random, request);
                due_request.body_bytes += bytes as u64;
            }
            Operation::Get => {
                writer.get(&self.key, request);
                connection.verifier = plan.verify.then(|| Verifier::new(&self.key));
            }
            Operation::GetMissing => writer.get(&self.key, request),
            Operation::Delete => writer.delete(&self.key, request),
            Operation::Scan => writer.scan(&self.key, request),
        }
        connection.due_request = Some(due_request);
        self.write(index)
    }

    /// Sends a batch that begins with the operation of this request. One that is repeated has
    /// the same operations.
    fn send_batch(
        &mut self,
        index: usize,
        mut due_request: DueRequest,
        operations: usize,
        now: Duration,
    ) -> io::Result<()> {
        let mut batch = std::mem::take(&mut self.connections[index].batch.operations);
        if due_request.attempts == 0 {
            self.draw_batch(due_request, operations, &mut batch);
        }
        self.write_lines(&batch);
        due_request.body_bytes += self.lines.len() as u64;
        let connection = &mut self.connections[index];
        connection.clear();
        connection.state = ConnectionState::Busy {
            until: now + self.timeout,
        };
        connection.batch.operations = batch;
        let writer = &self.writers[connection.target];
        writer.batch(&self.lines, &mut connection.request);
        connection.due_request = Some(due_request);
        self.write(index)
    }

    /// Draws the operations of a batch, which begins with that of this request.
    pub(super) fn draw_batch(
        &mut self,
        due_request: DueRequest,
        operations: usize,
        batch: &mut Operations,
    ) {
        batch.clear();
        batch.push((due_request.operation, due_request.number));
        while batch.len() < operations {
            let Some(next) = self.source.next(&mut self.random) else {
                self.is_exhausted = true;
                break;
            };
            batch.push(next);
        }
    }

    /// Writes the lines of a batch to their buffer.
    pub(super) fn write_lines(&mut self, batch: &[(Operation, u64)]) {
        let plan = self.context.plan;
        self.lines.clear();
        for (operation, number) in batch {
            self.write_key(*operation, *number);
            self.value.clear();
            if matches!(operation, Operation::Put | Operation::Insert) {
                let bytes = plan.value_bytes.draw(&mut self.random);
                values::write(&self.key, bytes, &mut self.random, &mut self.value);
            }
            let ttl_seconds = plan.ttl_seconds;
            put_line(
                *operation,
                &self.key,
                &self.value,
                ttl_seconds,
                &mut self.lines,
            );
        }
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
        match &connection.socket {
            Some(socket) if connection.interest != interest => {
                connection.interest = interest;
                self.poller.modify(socket, index, interest)
            }
            _ => Ok(()),
        }
    }
}
