//! The bodies of requests: bytes in memory, or pieces that come one after another.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::UnboundedReceiver;

/// The size of a chunk, in bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// The body of a request.
#[derive(Debug, Default)]
pub(crate) struct RequestBody {
    bytes: Bytes,
    is_chunked: bool,
    /// What follows the bytes, until its sender is gone.
    arriving: Option<UnboundedReceiver<Bytes>>,
}

impl RequestBody {
    /// These bytes, whose length the head states.
    pub(crate) fn of_known_length(bytes: Bytes) -> Self {
        Self {
            bytes,
            is_chunked: false,
            arriving: None,
        }
    }

    /// These bytes in chunks, so that the node answers while it reads.
    pub(crate) fn chunked(bytes: Bytes) -> Self {
        Self {
            bytes,
            is_chunked: true,
            arriving: None,
        }
    }

    /// What comes, in chunks, until its sender is gone. The sender bounds how much waits.
    pub(crate) fn arriving(pieces: UnboundedReceiver<Bytes>) -> Self {
        Self {
            bytes: Bytes::new(),
            is_chunked: true,
            arriving: Some(pieces),
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.bytes.is_empty()
            && let Some(arriving) = &mut self.arriving
        {
            match ready!(arriving.poll_recv(cx)) {
                Some(piece) => self.bytes = piece,
                None => self.arriving = None,
            }
        }
        let bytes = if self.is_chunked {
            self.bytes.len().min(CHUNK_BYTES)
        } else {
            self.bytes.len()
        };
        match self.bytes.split_to(bytes) {
            end if end.is_empty() => Poll::Ready(None),
            piece => Poll::Ready(Some(Ok(Frame::data(piece)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty() && self.arriving.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_chunked {
            SizeHint::default()
        } else {
            SizeHint::with_exact(self.bytes.len() as u64)
        }
    }
}
