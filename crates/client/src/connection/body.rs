//! The bodies of requests: bytes that are there.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body of a request.
#[derive(Debug, Default)]
pub(crate) struct RequestBody {
    bytes: Bytes,
}

impl RequestBody {
    /// These bytes, whose length the head states.
    pub(crate) fn of_known_length(bytes: Bytes) -> Self {
        Self { bytes }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match std::mem::take(&mut self.bytes) {
            end if end.is_empty() => Poll::Ready(None),
            piece => Poll::Ready(Some(Ok(Frame::data(piece)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}
