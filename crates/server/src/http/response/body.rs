//! The bodies of answers.

use crate::http::response::chunk::{BodyChunk, ChunkMemory};
use crate::net::slow_clients::ConnectionProgress;
use base::Reservation;
use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The body of an answer.
pub(crate) struct ResponseBody {
    kind: ResponseKind,
    /// Learns of the end of the request when hyper has taken the whole body.
    progress: Option<Rc<ConnectionProgress>>,
}

enum ResponseKind {
    /// Nothing, or nothing more.
    Empty,
    /// All of the body.
    Full(BodyChunk),
    /// A body that is made while it is sent.
    Stream(Box<dyn BodyStream>),
}

/// A body that is made while it is sent, chunk by chunk.
pub(crate) trait BodyStream {
    /// The next chunk, or the trailers; `None` at the end.
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<BodyChunk>, StreamCut>>>;
}

/// A stream was cut: hyper closes the connection without the last chunk.
#[derive(Debug, thiserror::Error)]
#[error("the stream was cut short")]
pub(crate) struct StreamCut;

impl ResponseBody {
    /// No body.
    pub(crate) fn empty() -> Self {
        Self::of(ResponseKind::Empty)
    }

    /// These bytes.
    pub(crate) fn full(bytes: Bytes) -> Self {
        if bytes.is_empty() {
            return Self::empty();
        }
        Self::of(ResponseKind::Full(BodyChunk::new(bytes, Bytes::new())))
    }

    /// These bytes, which keep `reservation` until they are written.
    pub(crate) fn counted(bytes: Bytes, reservation: Option<Reservation>) -> Self {
        let memory = reservation.map(|reservation| ChunkMemory::Value {
            _reservation: reservation,
        });
        let chunk = BodyChunk::new(bytes, Bytes::new()).counted(memory);
        Self::of(ResponseKind::Full(chunk))
    }

    /// The chunks of a stream.
    pub(crate) fn stream(stream: Box<dyn BodyStream>) -> Self {
        Self::of(ResponseKind::Stream(stream))
    }

    fn of(kind: ResponseKind) -> Self {
        Self {
            kind,
            progress: None,
        }
    }

    /// Makes the body report its end to `progress`.
    pub(crate) fn report_to(&mut self, progress: Rc<ConnectionProgress>) {
        progress.set_answer_bytes(match &self.kind {
            ResponseKind::Full(chunk) if !chunk.is_counted() => chunk.remaining(),
            _ => 0,
        });
        self.progress = Some(progress);
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        if let Some(progress) = &self.progress {
            progress.request_ends();
        }
    }
}

impl Body for ResponseBody {
    type Data = BodyChunk;
    type Error = StreamCut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<BodyChunk>, StreamCut>>> {
        if let ResponseKind::Stream(stream) = &mut self.kind {
            return stream.poll_frame(cx);
        }
        match std::mem::replace(&mut self.kind, ResponseKind::Empty) {
            ResponseKind::Full(chunk) if chunk.has_remaining() => {
                Poll::Ready(Some(Ok(Frame::data(chunk))))
            }
            _ => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            ResponseKind::Empty => true,
            ResponseKind::Full(chunk) => !chunk.has_remaining(),
            ResponseKind::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            ResponseKind::Empty => SizeHint::with_exact(0),
            ResponseKind::Full(chunk) => SizeHint::with_exact(chunk.remaining() as u64),
            ResponseKind::Stream(_) => SizeHint::default(),
        }
    }
}
