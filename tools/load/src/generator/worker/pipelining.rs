//! Batches in a pipeline: a connection has one request, which does not end, and sends the next batch
//! while some before it wait for their answers. The answers come in the order of the batches.
//!
//! The first batch that waits is the connection's request, and its deadline that of the connection.

use super::Worker;
use crate::generator::batch::{Operations, put_chunk};
use crate::generator::connection::{ConnectionState, DueRequest};
use crate::generator::recorder::FailureKind;
use std::io;
use std::time::Duration;

impl Worker<'_> {
    /// Sends batches until so many wait for their answers. On a new connection those of a fill come
    /// first whose connection was lost.
    pub(super) fn fill_pipeline(
        &mut self,
        index: usize,
        batches: usize,
        now: Duration,
    ) -> io::Result<()> {
        let connection = &mut self.connections[index];
        if !connection.is_pipeline {
            self.begin_pipeline(index, now);
        }
        while self.connections[index].batches_waiting() < batches {
            let Some(due_request) = self.draw(now) else {
                break;
            };
            let mut operations = Operations::new();
            if let Some(count) = self.context.plan.batch {
                self.draw_batch(due_request, count, &mut operations);
            }
            self.append(index, due_request, operations, now);
        }
        self.write(index)
    }

    /// Begins the request of a connection that is new, with what waits on it.
    fn begin_pipeline(&mut self, index: usize, now: Duration) {
        let connection = &mut self.connections[index];
        connection.clear();
        connection.is_pipeline = true;
        self.writers[connection.target].pipeline(&mut connection.request);
        let mut waiting = std::mem::take(&mut connection.behind);
        if let Some(due_request) = connection.due_request.take() {
            let operations = std::mem::take(&mut connection.batch.operations);
            waiting.push_front((due_request, operations));
        }
        for (due_request, operations) in waiting {
            self.append(index, due_request, operations, now);
        }
    }

    /// Appends a batch to the request of a connection.
    fn append(
        &mut self,
        index: usize,
        mut due_request: DueRequest,
        operations: Operations,
        now: Duration,
    ) {
        self.write_lines(&operations);
        due_request.sent = now;
        due_request.body_bytes += self.lines.len() as u64;
        let connection = &mut self.connections[index];
        connection.drop_written();
        put_chunk(&self.lines, &mut connection.request);
        connection.behind.push_back((due_request, operations));
        if connection.due_request.is_none() {
            self.await_first(index);
        }
    }

    /// Lets the first batch that waits be the connection's request.
    fn await_first(&mut self, index: usize) {
        let timeout = self.timeout;
        let connection = &mut self.connections[index];
        connection.advance();
        connection.state = match connection.due_request {
            Some(due_request) => ConnectionState::Busy {
                until: due_request.sent + timeout,
            },
            None => ConnectionState::Idle,
        };
    }

    /// Handles answers that have arrived, and whether they have ended: only a target that stops ends
    /// them.
    pub(super) fn take_answers(&mut self, index: usize, have_ended: bool) -> io::Result<()> {
        let now = self.now();
        match self.connections[index].decoder.status() {
            0 => return Ok(()),
            200 => {}
            status => return self.lose(index, FailureKind::Status(status)),
        }
        let (value_bytes_min, _) = self.context.plan.value_bytes.bounds();
        while let Some(end) = self.connections[index].batch.answers_end() {
            let connection = &mut self.connections[index];
            connection.note_response();
            let rest = connection.batch.answers.split_off(end);
            let due_request = connection.due_request.take();
            let result = self.judge_batch(index, 200, value_bytes_min == 0);
            let batch = &mut self.connections[index].batch;
            batch.answers = rest;
            let operations = std::mem::take(&mut batch.operations);
            self.await_first(index);
            let Some(due_request) = due_request else {
                break;
            };
            match (result, self.again(due_request)) {
                (Ok(answered), _) => self.succeed(index, due_request, answered, now),
                (Err(_), Some(again)) => self.append(index, again, operations, now),
                (Err(why), None) => self.recorder.counts.fail(why),
            }
        }
        if have_ended {
            return self.lose(index, FailureKind::Connection);
        }
        self.send_next(index, now)
    }
}
