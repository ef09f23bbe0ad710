//! Bodies: those that are answered and those that are read.

use crate::door::Uploads;
use crate::door::progress::Progress;
use crate::http::chunk::{BodyChunk, ChunkMemory};
use crate::http::problem::Problem;
use crate::http::range_stream::RangeStream;
use base::Share;
use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use hyper::HeaderMap;
use hyper::body::Incoming;
use hyper::header::EXPECT;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// An unread body up to this length is read and thrown away, so that the
/// connection lives on; a longer one costs the connection.
const DRAIN_BYTES_MAX: usize = 64 << 10;

/// The body of an answer.
pub(crate) struct ResponseBody {
    kind: ResponseKind,
    /// Notes the end of the request when hyper has taken the whole body.
    progress: Option<Rc<Progress>>,
}

enum ResponseKind {
    /// Nothing, or no more.
    Empty,
    /// All of it.
    Full(BodyChunk),
    /// A range, entity by entity.
    Range(Box<RangeStream>),
}

/// A range was cut: hyper closes the connection without the last chunk.
#[derive(Debug, thiserror::Error)]
#[error("the range was cut short")]
pub(crate) struct RangeCut;

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

    /// These bytes, which count for `share` until they are written.
    pub(crate) fn counted(bytes: Bytes, share: Option<Share>) -> Self {
        let share = share.map(|share| ChunkMemory::Value { _share: share });
        let chunk = BodyChunk::new(bytes, Bytes::new()).counted(share);
        Self::of(ResponseKind::Full(chunk))
    }

    /// A stream of entities.
    pub(crate) fn range(stream: RangeStream) -> Self {
        Self::of(ResponseKind::Range(Box::new(stream)))
    }

    fn of(kind: ResponseKind) -> Self {
        Self {
            kind,
            progress: None,
        }
    }

    /// Lets `progress` know once the body is done with.
    pub(crate) fn followed_by(mut self, progress: Rc<Progress>) -> Self {
        progress.answer_begins(match &self.kind {
            ResponseKind::Full(chunk) if !chunk.is_counted() => chunk.remaining(),
            _ => 0,
        });
        self.progress = Some(progress);
        self
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
    type Error = RangeCut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<BodyChunk>, RangeCut>>> {
        if let ResponseKind::Range(stream) = &mut self.kind {
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
            ResponseKind::Range(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            ResponseKind::Empty => SizeHint::with_exact(0),
            ResponseKind::Full(chunk) => SizeHint::with_exact(chunk.remaining() as u64),
            ResponseKind::Range(_) => SizeHint::default(),
        }
    }
}

/// The body of a request, which nobody has to read.
pub(crate) struct RequestBody {
    incoming: Incoming,
    /// The client waits for `100 Continue`, which reading would send.
    expects_continue: bool,
    ended: bool,
    /// Where the body ends cannot be told, so the connection ends with it.
    broken: bool,
}

/// The bytes of a body and what they count for.
pub(crate) struct Upload {
    /// The bytes.
    pub(crate) bytes: Bytes,
    /// What they count for, as long as they are held.
    pub(crate) share: Option<Share>,
}

impl RequestBody {
    /// The body that came with `headers`.
    pub(crate) fn new(incoming: Incoming, headers: &HeaderMap) -> Self {
        let ended = incoming.is_end_stream();
        Self {
            incoming,
            expects_continue: !ended && headers.contains_key(EXPECT),
            ended,
            broken: false,
        }
    }

    /// Whether there is nothing (more) to read, so that another request may follow.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended && !self.broken
    }

    /// Whether the body comes in chunks.
    pub(crate) fn is_chunked(&self) -> bool {
        !self.ended && self.incoming.size_hint().exact().is_none()
    }

    /// Its end is not to be looked for.
    pub(crate) fn distrust(&mut self) {
        self.broken = true;
    }

    /// Whether the body says that it is longer than `bytes_max`.
    pub(crate) fn is_announced_longer_than(&self, bytes_max: usize) -> bool {
        self.incoming.size_hint().lower() > bytes_max as u64
    }

    /// Reads it all, unless it is longer than `bytes_max`.
    ///
    /// # Errors
    /// Too long, no room in the budget for it, too slow, or broken off.
    pub(crate) async fn read(
        &mut self,
        bytes_max: usize,
        uploads: &Uploads,
        progress: &Progress,
    ) -> Result<Upload, Problem> {
        if self.ended {
            return Ok(Upload {
                bytes: Bytes::new(),
                share: None,
            });
        }
        let announced = usize::try_from(self.incoming.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > bytes_max {
            return Err(Problem::value_too_long(bytes_max));
        }
        uploads.check_room(announced)?;
        progress.body_begins();
        let first = self.next(progress).await?.unwrap_or_default();
        if first.len() > bytes_max {
            return Err(Problem::value_too_long(bytes_max));
        }
        let mut share = None;
        uploads.cover(&mut share, first.len(), bytes_max)?;
        if self.ended {
            // It came in one piece, as short ones do: nothing to put together.
            progress.body_ends();
            return Ok(Upload {
                bytes: first,
                share,
            });
        }
        // Takes up memory only as it is written to.
        let mut bytes = Vec::with_capacity(announced.max(first.len()));
        let mut next = Some(first);
        while let Some(piece) = next {
            let sum = bytes.len() + piece.len();
            if sum > bytes_max {
                return Err(Problem::value_too_long(bytes_max));
            }
            uploads.cover(&mut share, sum, bytes_max)?;
            if sum > bytes.capacity() {
                let doubled = bytes.capacity().saturating_mul(2);
                bytes.reserve_exact(sum.max(doubled.min(bytes_max)) - bytes.len());
            }
            bytes.extend_from_slice(&piece);
            drop(piece);
            next = self.next(progress).await?;
        }
        progress.body_ends();
        Ok(Upload {
            bytes: Bytes::from(bytes),
            share,
        })
    }

    /// Gets rid of what was not read, if that takes little: then the
    /// connection can go on. Says whether it can.
    pub(crate) async fn discard(&mut self, progress: &Progress) -> bool {
        if self.is_ended() {
            return true;
        }
        if self.broken || self.expects_continue || self.is_announced_longer_than(DRAIN_BYTES_MAX) {
            return false;
        }
        progress.body_begins();
        let mut bytes = 0;
        loop {
            match self.next(progress).await {
                Ok(None) => break,
                Ok(Some(piece)) => bytes += piece.len(),
                Err(_) => return false,
            }
            if bytes > DRAIN_BYTES_MAX {
                return false;
            }
        }
        progress.body_ends();
        true
    }

    /// The next piece; `None` at the end. Trailers are passed over.
    async fn next(&mut self, progress: &Progress) -> Result<Option<Bytes>, Problem> {
        while !self.ended {
            let frame = poll_fn(|cx| match progress.is_body_late() {
                true => Poll::Ready(Err(Problem::late_body())),
                false => Pin::new(&mut self.incoming).poll_frame(cx).map(Ok),
            });
            let frame = frame.await.inspect_err(|_| self.broken = true)?;
            match frame {
                None => self.ended = true,
                Some(Err(_)) => {
                    self.broken = true;
                    return Err(Problem::broken_body());
                }
                Some(Ok(frame)) => {
                    // The end of a body with a length comes with its last byte.
                    self.ended = self.incoming.is_end_stream();
                    if let Ok(piece) = frame.into_data() {
                        return Ok(Some(piece));
                    }
                }
            }
        }
        Ok(None)
    }
}
