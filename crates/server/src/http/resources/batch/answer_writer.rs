//! Writes the answers of a batch to its output, in the order of the lines.

use super::answer::OperationAnswer;
use super::output::Output;
use super::window::Window;
use crate::config::bounds::BATCH_BODY_BYTES_MAX;
use crate::http::problem::Problem;
use crate::http::response::chunk::BodyChunk;
use crate::metrics::{ListenerMetrics, OperationKind};
use base::{Reservation, TraceId};
use bytes::{Buf, Bytes};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;

/// About how many bytes of answers make a chunk.
pub(super) const CHUNK_BYTES: usize = 16 << 10;

/// The end of a line with a long value, and the memory of the value.
type LongEnd = (BodyChunk, Option<Reservation>);

/// Writes answers.
pub(super) struct AnswerWriter {
    output: Rc<Output>,
    metrics: Arc<ListenerMetrics>,
    /// How many bytes the answer may still have before values are left out.
    bytes_left: Option<usize>,
    /// The trace that the batch is part of.
    trace: Option<TraceId>,
}

impl AnswerWriter {
    /// Writes to `output`; no value beyond `bytes_max`, if that is given.
    pub(super) fn new(
        output: &Rc<Output>,
        metrics: &Arc<ListenerMetrics>,
        bytes_max: Option<usize>,
        trace: Option<TraceId>,
    ) -> Self {
        Self {
            output: Rc::clone(output),
            metrics: Arc::clone(metrics),
            bytes_left: bytes_max,
            trace,
        }
    }

    /// Where the answers go.
    pub(super) fn output(&self) -> &Rc<Output> {
        &self.output
    }

    /// Writes the answers of the oldest operations that have ended, while the output has
    /// room.
    pub(super) fn write(&mut self, window: &mut Window, cx: &Context<'_>) {
        let mut text = Vec::new();
        let mut of_text: Option<Reservation> = None;
        while self.output.has_room()
            && let Some((kind, answer, of_slot)) = window.pop_ended()
        {
            if let Some((chunk, of_value)) = self.write_one(kind, answer, &mut text) {
                self.flush(&mut text, &mut of_text, cx);
                self.output.push(chunk, of_value.or(of_slot), cx);
                continue;
            }
            match (&mut of_text, of_slot) {
                (Some(of_text), Some(of_slot)) => of_text.join(of_slot),
                (of_text @ None, of_slot) => *of_text = of_slot,
                (Some(_), None) => {}
            }
            if text.len() >= CHUNK_BYTES {
                self.flush(&mut text, &mut of_text, cx);
            }
        }
        self.flush(&mut text, &mut of_text, cx);
    }

    /// Appends an answer to `text`, or gives the end of it as a chunk.
    fn write_one(
        &mut self,
        kind: OperationKind,
        answer: OperationAnswer,
        text: &mut Vec<u8>,
    ) -> Option<LongEnd> {
        let begin = text.len();
        let (mut status, has_value) = (answer.status(), answer.value_bytes() > 0);
        let mut end = answer.encode(text);
        if let Some(left) = self.bytes_left {
            let bytes = |text: &[u8], end: &Option<LongEnd>| {
                let end_bytes = end.as_ref().map_or(0, |(chunk, _)| chunk.remaining());
                text.len() - begin + end_bytes
            };
            if has_value && bytes(text, &end) > left {
                text.truncate(begin);
                let problem = Problem::answer_too_long(BATCH_BODY_BYTES_MAX).in_trace(self.trace);
                status = problem.status();
                end = OperationAnswer::Problem(None, problem).encode(text);
            }
            self.bytes_left = Some(left.saturating_sub(bytes(text, &end)));
        }
        self.metrics.operations.ended(kind, status);
        end
    }

    fn flush(&self, text: &mut Vec<u8>, reservation: &mut Option<Reservation>, cx: &Context<'_>) {
        if text.is_empty() {
            return;
        }
        let chunk = BodyChunk::new(Bytes::from(std::mem::take(text)), Bytes::new());
        self.output.push(chunk, reservation.take(), cx);
    }
}
