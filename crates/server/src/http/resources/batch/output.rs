//! The answers of a batch on their way from its task to the connection.
//!
//! The task leaves chunks, and the connection takes them when the client reads. The task
//! looks at [`Output::has_room`] before it makes further answers.

use crate::door::Door;
use crate::http::body_chunk::{BodyChunk, ChunkMemory, UnwrittenChunk};
use crate::http::response_body::{BodyStream, StreamCut};
use base::Share;
use bytes::Buf;
use http_body::Frame;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::task::JoinHandle;

/// How many bytes of answers may wait for the connection. No budget counts them, so they are
/// as few as the buffers of a connection hold in any case.
const OUTPUT_BYTES_MAX: usize = 16 << 10;

/// How a batch has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It is complete.
    Whole,
    /// The client must not take it for complete.
    Cut,
}

/// The answers that wait for the connection.
#[derive(Default)]
pub(super) struct Output {
    chunks: RefCell<VecDeque<BodyChunk>>,
    bytes: Cell<usize>,
    /// How many chunks that hold memory of a budget are not written, here and in hyper.
    unwritten: Rc<Cell<usize>>,
    end: Cell<Option<End>>,
    /// Wakes the connection.
    reader: RefCell<Option<Waker>>,
    /// Wakes the task.
    writer: RefCell<Option<Waker>>,
}

impl Output {
    /// Whether the task may add answers. If not, it wakes `cx` when it may.
    pub(super) fn has_room(&self, cx: &Context<'_>) -> bool {
        let has_room = self.bytes.get() < OUTPUT_BYTES_MAX;
        let mut writer = self.writer.borrow_mut();
        match &*writer {
            Some(known) if known.will_wake(cx.waker()) => {}
            _ => *writer = Some(cx.waker().clone()),
        }
        has_room
    }

    /// Whether the connection has taken all answers.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.get() == 0
    }

    /// Whether no answer holds memory of a budget any more. If one does, the task is woken
    /// when it is written.
    pub(super) fn holds_nothing(&self) -> bool {
        self.unwritten.get() == 0
    }

    /// Adds a chunk of the task of `cx`, which keeps `share` until it is written.
    pub(super) fn push(&self, chunk: BodyChunk, share: Option<Share>, cx: &Context<'_>) {
        let memory = share.map(|share| ChunkMemory::Answers {
            _share: share,
            _unwritten: UnwrittenChunk::new(&self.unwritten, cx.waker()),
        });
        self.bytes.set(self.bytes.get() + chunk.remaining());
        let chunk = chunk.counted(memory);
        self.chunks.borrow_mut().push_back(chunk);
        self.wake_reader();
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
    door: Rc<Door>,
    was_stopping: bool,
}

impl AnswerStream {
    /// The body that takes what `task` leaves in `output`.
    pub(super) fn new(output: Rc<Output>, task: JoinHandle<()>, door: Rc<Door>) -> Self {
        Self {
            output,
            task,
            door,
            was_stopping: false,
        }
    }
}

impl BodyStream for AnswerStream {
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<BodyChunk>, StreamCut>>> {
        if self.door.is_stopping() && !std::mem::replace(&mut self.was_stopping, true) {
            // A node that stops wakes its connections; the task is to end the batch.
            self.output.wake_writer();
        }
        let output = &self.output;
        let next = output.chunks.borrow_mut().pop_front();
        if let Some(chunk) = next {
            output.bytes.set(output.bytes.get() - chunk.remaining());
            output.wake_writer();
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        match output.end.get() {
            Some(End::Whole) => Poll::Ready(None),
            Some(End::Cut) => Poll::Ready(Some(Err(StreamCut))),
            None => {
                *output.reader.borrow_mut() = Some(cx.waker().clone());
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
