//! The answers of a batch on their way from its task to the connection.
//!
//! The task queues chunks, and the connection takes them when the client reads. The task checks
//! [`Output::has_room`] before it makes further answers.

use crate::admission::batch_streams::BatchStream;
use crate::http::response::body::{BodyStream, StreamCut};
use crate::http::response::chunk::{BodyChunk, ChunkMemory, Unwritten, UnwrittenAnswers};
use crate::net::Listener;
use crate::net::slow_clients::ConnectionProgress;
use base::Reservation;
use bytes::Buf;
use http_body::Frame;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::task::JoinHandle;

/// How many bytes of answers may wait until they are written, here and in hyper, which takes
/// more than it can write. No quota counts them, so they are few.
pub(super) const OUTPUT_BYTES_MAX: usize = 16 << 10;

/// How a batch has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It is complete.
    Whole,
    /// The client must not take it for complete.
    Cut,
}

/// The answers that wait for the connection.
pub(super) struct Output {
    chunks: RefCell<VecDeque<BodyChunk>>,
    /// What is not written, also of the chunks that the connection has taken.
    unwritten: Rc<Unwritten>,
    end: Cell<Option<End>>,
    /// Wakes the connection.
    reader: RefCell<Option<Waker>>,
    /// Wakes the task.
    writer: RefCell<Option<Waker>>,
}

impl Output {
    /// No answers yet, of a batch that is `stream`, if it is chunked.
    pub(super) fn new(stream: Option<BatchStream>) -> Self {
        Self {
            chunks: RefCell::default(),
            unwritten: Rc::new(Unwritten::new(stream)),
            end: Cell::new(None),
            reader: RefCell::default(),
            writer: RefCell::default(),
        }
    }

    /// Whether the task may add answers. If not, it is woken when it may.
    pub(super) fn has_room(&self) -> bool {
        self.unwritten.bytes() < OUTPUT_BYTES_MAX
    }

    /// Whether all answers are written. If not, the task is woken when they are.
    pub(super) fn is_empty(&self) -> bool {
        self.unwritten.bytes() == 0
    }

    /// Adds a chunk of the task of `cx`, which keeps `reservation` until it is written.
    pub(super) fn push(
        &self,
        chunk: BodyChunk,
        reservation: Option<Reservation>,
        cx: &Context<'_>,
    ) {
        let bytes = chunk.remaining();
        // The reservation of a short value covers the value, and not the text around it.
        let counted = reservation.as_ref().map_or(0, Reservation::amount);
        let uncounted = chunk.held_bytes().saturating_sub(counted);
        let unwritten = UnwrittenAnswers::new(&self.unwritten, bytes, uncounted, cx.waker());
        let memory = ChunkMemory::Answers {
            _reservation: reservation,
            _unwritten: unwritten,
        };
        let chunk = chunk.counted(Some(memory));
        self.chunks.borrow_mut().push_back(chunk);
        self.wake_reader();
    }

    /// Takes the next chunk.
    fn next(&self) -> Option<BodyChunk> {
        self.chunks.borrow_mut().pop_front()
    }

    /// Ready once there is a chunk, or the end without one.
    fn poll_start(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.chunks.borrow().is_empty() || self.end.get().is_some() {
            return Poll::Ready(());
        }
        self.wake_at_start(cx);
        Poll::Pending
    }

    /// Wakes the task of `cx`, which is the connection's, with the next chunk or the end.
    fn wake_at_start(&self, cx: &Context<'_>) {
        *self.reader.borrow_mut() = Some(cx.waker().clone());
    }

    /// Has a stop of the node wake the task of `cx`.
    pub(super) fn remember(&self, cx: &Context<'_>) {
        let mut writer = self.writer.borrow_mut();
        match &*writer {
            Some(known) if known.will_wake(cx.waker()) => {}
            _ => *writer = Some(cx.waker().clone()),
        }
    }

    /// Notes that no further answers come. The first end counts.
    pub(super) fn end(&self, end: End) {
        if self.end.get().is_none() {
            self.end.set(Some(end));
            self.wake_reader();
        }
    }

    fn wake_reader(&self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    fn wake_writer(&self) {
        let writer = self.writer.borrow().clone();
        if let Some(writer) = writer {
            writer.wake();
        }
    }
}

/// The answers of a batch as the body of its answer. When it is dropped the batch ends,
/// because nobody reads its answers any more.
pub(super) struct AnswerStream {
    output: Rc<Output>,
    task: JoinHandle<()>,
    listener: Rc<Listener>,
    /// Learns how much waits that neither a quota nor the number of batches counts.
    progress: Option<Rc<ConnectionProgress>>,
    was_stopping: bool,
}

impl AnswerStream {
    /// The body that takes what `task` leaves in `output`. A batch that is not chunked reports
    /// to `progress`.
    pub(super) fn new(
        output: Rc<Output>,
        task: JoinHandle<()>,
        listener: Rc<Listener>,
        progress: Option<Rc<ConnectionProgress>>,
    ) -> Self {
        Self {
            output,
            task,
            listener,
            progress,
            was_stopping: false,
        }
    }

    /// Ready once there is something to send, so that the head of the answer need not go
    /// alone.
    pub(super) fn poll_start(&mut self, cx: &Context<'_>) -> Poll<()> {
        self.note_stop();
        self.output.poll_start(cx)
    }

    fn note_stop(&mut self) {
        if self.listener.is_stopping() && !std::mem::replace(&mut self.was_stopping, true) {
            // A node that stops wakes its connections; the task is to end the batch.
            self.output.wake_writer();
        }
    }
}

impl BodyStream for AnswerStream {
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<BodyChunk>, StreamCut>>> {
        self.note_stop();
        let output = &self.output;
        if let Some(chunk) = output.next() {
            if let Some(progress) = &self.progress {
                progress.set_answer_bytes(output.unwritten.uncounted_bytes());
            }
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        match output.end.get() {
            Some(End::Whole) => Poll::Ready(None),
            Some(End::Cut) => Poll::Ready(Some(Err(StreamCut))),
            None => {
                output.wake_at_start(cx);
                Poll::Pending
            }
        }
    }
}

impl Drop for AnswerStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::batch_streams::BatchStreams;
    use crate::http::response::json_line::{JsonLine, ValuePieces};
    use base::Quota;
    use bytes::Bytes;
    use std::net::IpAddr;

    fn chunk(bytes: usize) -> BodyChunk {
        BodyChunk::new(Bytes::from(vec![b'x'; bytes]), Bytes::new())
    }

    #[test]
    fn answers_take_room_until_they_are_written() {
        let (streams, memory) = (BatchStreams::new(1), Quota::new(70_000));
        let output = Output::new(streams.admit(IpAddr::from([127, 0, 0, 1])).ok());
        let cx = Context::from_waker(Waker::noop());
        output.push(chunk(OUTPUT_BYTES_MAX - 1), None, &cx);
        assert!(output.has_room() && !output.is_empty());
        output.push(chunk(60_000), memory.try_reserve(60_000).ok(), &cx);
        assert!(!output.has_room());
        let taken: Vec<BodyChunk> = std::iter::from_fn(|| output.next()).collect();
        assert_eq!(taken.len(), 2);
        // Hyper has taken them, and the client does not read.
        assert!(!output.has_room() && !output.is_empty());
        assert_eq!(output.unwritten.uncounted_bytes(), OUTPUT_BYTES_MAX - 1);
        assert_eq!(memory.used(), 60_000);
        drop(output);
        assert_eq!(
            streams.used(),
            1,
            "the batch is over, and not all of it is written"
        );
        drop(taken);
        assert_eq!((streams.used(), memory.used()), (0, 0));
    }

    #[test]
    fn an_answer_begins_with_its_first_chunk_or_its_end() {
        let cx = Context::from_waker(Waker::noop());
        let (empty, output) = (Output::new(None), Output::new(None));
        assert!(output.poll_start(&cx).is_pending() && output.reader.borrow().is_some());
        output.push(chunk(1), None, &cx);
        assert!(output.reader.borrow().is_none(), "it was woken");
        assert!(output.poll_start(&cx).is_ready());
        assert!(empty.poll_start(&cx).is_pending());
        empty.end(End::Whole);
        assert!(empty.poll_start(&cx).is_ready());
    }

    /// Whoever does not read them must be found, however little their values take.
    #[test]
    fn answers_count_but_for_what_the_shares_of_their_values_cover() {
        let memory = Quota::new(200);
        let output = Output::new(None);
        let cx = Context::from_waker(Waker::noop());
        for (covered, uncounted) in [(0, 1000), (1, 1999), (99, 2900)] {
            let mut reservation = memory.try_reserve(100).unwrap();
            reservation.shrink_to(covered);
            output.push(chunk(1000), Some(reservation), &cx);
            assert_eq!(output.unwritten.uncounted_bytes(), uncounted);
        }
        while output.next().is_some() {}
        assert_eq!(output.unwritten.uncounted_bytes(), 0);
    }

    #[test]
    fn a_long_value_whose_share_covers_it_counts_with_one_piece_of_its_text() {
        const VALUE_BYTES: usize = 1 << 20;
        let memory = Quota::new(VALUE_BYTES);
        let output = Output::new(None);
        let cx = Context::from_waker(Waker::noop());
        let value = Bytes::from(vec![0xff; VALUE_BYTES]);
        let line = JsonLine {
            head: Bytes::new(),
            value_pieces: Some(ValuePieces::new(value, false, Bytes::new())),
        };
        let chunk = BodyChunk::of_line(line);
        assert!(chunk.remaining() > VALUE_BYTES * 5 / 4);
        output.push(chunk, memory.try_reserve(VALUE_BYTES).ok(), &cx);
        let uncounted = output.unwritten.uncounted_bytes();
        assert!((1..VALUE_BYTES / 8).contains(&uncounted), "{uncounted}");
    }
}
