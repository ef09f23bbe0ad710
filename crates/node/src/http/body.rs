//! Bodies: those that are answered and those that are read.

use crate::admission::{Allotment, Share, Uploads};
use crate::http::connection::Progress;
use crate::http::json_line::{JsonLine, LongRest};
use crate::http::problem::Problem;
use crate::http::range_stream::RangeStream;
use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use hyper::HeaderMap;
use hyper::body::Incoming;
use hyper::header::EXPECT;
use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// An unread body up to this length is read and thrown away, so that the
/// connection lives on; a longer one costs the connection.
const DRAIN_BYTES_MAX: usize = 64 << 10;

/// A piece of an answer: `head`, then `tail`, then `rest`. Parts, so that a
/// chunk of a range can be a key and a long value that is nowhere copied.
pub(crate) struct Chunk {
    head: Bytes,
    tail: Bytes,
    /// What is made only as it is written.
    rest: Option<Box<Rest>>,
    /// What the piece counts for, until it has been written.
    share: Option<ChunkShare>,
}

/// What a chunk counts for. The chunks of a batch share its allotment, which
/// is given back with the last of them.
pub(crate) enum ChunkShare {
    /// A long value.
    Value { _share: Share },
    /// A batch of a range.
    Batch { _allotment: Rc<Allotment> },
}

/// A long line of JSON on its way: one piece of it at a time.
struct Rest {
    pieces: LongRest,
    /// Never empty while bytes remain.
    piece: Bytes,
    remaining: usize,
}

impl Chunk {
    /// A piece of two parts.
    pub(crate) fn new(head: Bytes, tail: Bytes) -> Self {
        Self {
            head,
            tail,
            rest: None,
            share: None,
        }
    }

    /// A line of JSON. Its length must be known before it is written, so the
    /// pieces of a long one are made twice.
    pub(crate) fn of_line(line: JsonLine) -> Self {
        let mut chunk = Self::new(line.head, Bytes::new());
        if let Some(mut pieces) = line.rest {
            let remaining = pieces.clone().map(|piece| piece.len()).sum();
            let piece = pieces.next().unwrap_or_default();
            chunk.rest = Some(Box::new(Rest {
                pieces,
                piece,
                remaining,
            }));
        }
        chunk
    }

    /// The same piece, which counts for `share` until it is written.
    pub(crate) fn counted(mut self, share: Option<ChunkShare>) -> Self {
        self.share = share;
        self
    }

    /// Adds all its bytes to a checksum.
    pub(crate) fn append_crc32c(&self, crc32c: u32) -> u32 {
        let mut sum = crc32c;
        for part in [&self.head, &self.tail] {
            sum = crc32c::crc32c_append(sum, part);
        }
        if let Some(rest) = &self.rest {
            sum = crc32c::crc32c_append(sum, &rest.piece);
            for piece in rest.pieces.clone() {
                sum = crc32c::crc32c_append(sum, &piece);
            }
        }
        sum
    }
}

impl Rest {
    fn advance(&mut self, mut count: usize) {
        self.remaining = self.remaining.saturating_sub(count);
        while count >= self.piece.len() {
            count -= self.piece.len();
            match self.pieces.next() {
                Some(piece) => self.piece = piece,
                None => {
                    self.piece = Bytes::new();
                    return;
                }
            }
        }
        self.piece.advance(count);
    }
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.remaining);
        self.head.len() + self.tail.len() + rest
    }

    fn chunk(&self) -> &[u8] {
        let parts = [&self.head, &self.tail];
        match parts.into_iter().find(|part| !part.is_empty()) {
            Some(part) => part,
            None => self.rest.as_ref().map_or(&[], |rest| &rest.piece),
        }
    }

    fn advance(&mut self, count: usize) {
        let of_head = count.min(self.head.len());
        self.head.advance(of_head);
        let of_tail = (count - of_head).min(self.tail.len());
        self.tail.advance(of_tail);
        if let Some(rest) = &mut self.rest {
            rest.advance(count - of_head - of_tail);
        }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let piece = self.rest.as_ref().map(|rest| &rest.piece);
        let parts = [&self.head, &self.tail].into_iter().chain(piece);
        let parts = parts.filter(|part| !part.is_empty());
        let mut count = 0;
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
            count += 1;
        }
        let has_more = piece.is_some_and(|piece| {
            let rest = self.rest.as_ref().map_or(0, |rest| rest.remaining);
            rest > piece.len()
        });
        if has_more {
            // Whoever finds room left takes these slices for all there is,
            // and puts what comes behind this chunk there.
            slices[count..].fill(IoSlice::new(&[]));
            count = slices.len();
        }
        count
    }
}

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
    Full(Chunk),
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
        Self::of(ResponseKind::Full(Chunk::new(bytes, Bytes::new())))
    }

    /// These bytes, which count for `share` until they are written.
    pub(crate) fn counted(bytes: Bytes, share: Option<Share>) -> Self {
        let share = share.map(|share| ChunkShare::Value { _share: share });
        let chunk = Chunk::new(bytes, Bytes::new()).counted(share);
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
    type Data = Chunk;
    type Error = RangeCut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, RangeCut>>> {
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
    pub(crate) _share: Option<Share>,
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
                _share: None,
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
                _share: share,
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
            _share: share,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_its_head_then_its_tail() {
        let mut chunk = Chunk::new(Bytes::from_static(b"key\n"), Bytes::from_static(b"value"));
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(chunk.chunks_vectored(&mut slices), 2);
        assert_eq!(chunk.chunks_vectored(&mut slices[..1]), 1);
        chunk.advance(6);
        assert_eq!((chunk.remaining(), chunk.chunk()), (3, &b"lue"[..]));
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(chunk.chunks_vectored(&mut slices), 1);
        chunk.advance(3);
        assert!(!chunk.has_remaining());
    }
}
