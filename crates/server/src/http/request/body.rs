//! The bodies of requests, which handlers may leave unread.

use crate::admission::Uploads;
use crate::http::problem::Problem;
use crate::net::slow_clients::ConnectionProgress;
use base::{LONG_VALUE_BYTES, Promise, Refused, Reservation};
use bytes::{Bytes, BytesMut};
use http_body::{Body, SizeHint};
use hyper::HeaderMap;
use hyper::body::Incoming;
use hyper::header::EXPECT;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;

/// The node reads and discards an unread body up to this length, so that the
/// connection can serve further requests. A longer unread body closes the connection.
const DISCARDED_BYTES_MAX: usize = 64 << 10;

/// For how long it does so. The answer waits meanwhile, because it says whether the connection
/// closes. Many clients send head and body apart, but right after each other.
const DISCARD_MAX: Duration = Duration::from_millis(100);

/// How many bytes of a long body lie in one block.
const BLOCK_BYTES: usize = LONG_VALUE_BYTES;

/// The body of a request.
pub(crate) struct RequestBody {
    /// None once a stream has taken it over.
    incoming: Option<Incoming>,
    /// The client waits for `100 Continue`, which hyper sends when the body is read.
    expects_continue: bool,
    ended: bool,
    /// The end of the body is unknown, so the connection must end with this request.
    broken: bool,
}

/// A body that was received.
pub(crate) struct Upload {
    /// The bytes.
    pub(crate) bytes: Bytes,
    /// What the bytes hold of the quota. It must live as long as they do.
    pub(crate) reservation: Option<Reservation>,
}

/// The memory of a body that is being received.
struct Memory<'a> {
    uploads: &'a Uploads,
    promise: Option<Promise>,
    reservation: Option<Reservation>,
    bytes_max: usize,
}

impl<'a> Memory<'a> {
    /// Waits for memory for a body of which so many bytes are announced, and which may have so many.
    ///
    /// # Errors
    /// There is none in time.
    async fn admit(
        uploads: &'a Uploads,
        announced_bytes: usize,
        bytes_max: usize,
    ) -> Result<Self, Refused> {
        Ok(Self {
            promise: uploads.wait_for_memory(announced_bytes).await?,
            uploads,
            reservation: None,
            bytes_max,
        })
    }

    /// Covers so many bytes that were received. While it waits for memory the client is not late:
    /// the node does not read.
    ///
    /// # Errors
    /// The quota is used up.
    async fn cover(&mut self, bytes: usize, progress: &ConnectionProgress) -> Result<(), Refused> {
        let (uploads, reservation) = (self.uploads, &mut self.reservation);
        if uploads.cover(reservation, bytes, self.bytes_max).is_err() {
            progress.body_ends();
            uploads
                .cover_patiently(reservation, bytes, self.bytes_max)
                .await?;
            progress.body_begins();
        }
        if let (Some(promise), Some(reservation)) = (&mut self.promise, reservation) {
            promise.keep(reservation);
        }
        Ok(())
    }
}

impl RequestBody {
    /// The body that came with `headers`.
    pub(crate) fn new(incoming: Incoming, headers: &HeaderMap) -> Self {
        let ended = incoming.is_end_stream();
        Self {
            incoming: Some(incoming),
            expects_continue: !ended && headers.contains_key(EXPECT),
            ended,
            broken: false,
        }
    }

    /// Whether all of the body was read, so that another request may follow.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended && !self.broken
    }

    /// Whether the body is chunked.
    pub(crate) fn is_chunked(&self) -> bool {
        !self.ended && self.size_hint().exact().is_none()
    }

    /// Whether the client waits for `100 Continue`.
    pub(crate) fn expects_continue(&self) -> bool {
        self.expects_continue
    }

    /// Takes the body over, for an answer that begins before the body has ended. To others
    /// it has ended from now on.
    pub(crate) fn take_over(&mut self) -> Self {
        Self {
            incoming: self.incoming.take(),
            expects_continue: self.expects_continue,
            ended: std::mem::replace(&mut self.ended, true),
            broken: self.broken,
        }
    }

    fn size_hint(&self) -> SizeHint {
        let hint = self.incoming.as_ref().map(Incoming::size_hint);
        hint.unwrap_or_else(|| SizeHint::with_exact(0))
    }

    /// Declares the end of the body unknown.
    pub(crate) fn distrust(&mut self) {
        self.broken = true;
    }

    /// Whether the body is announced to be longer than `bytes_max`.
    pub(crate) fn is_announced_longer_than(&self, bytes_max: usize) -> bool {
        self.size_hint().lower() > bytes_max as u64
    }

    /// Reads all of it, unless it is longer than `bytes_max`.
    ///
    /// # Errors
    /// The body is too long, the quota stays used up, or the body is too slow or
    /// malformed.
    pub(crate) async fn read(
        &mut self,
        bytes_max: usize,
        uploads: &Uploads,
        progress: &ConnectionProgress,
    ) -> Result<Upload, Problem> {
        if self.ended {
            return Ok(Upload {
                bytes: Bytes::new(),
                reservation: None,
            });
        }
        let announced = self.announced_bytes();
        if announced > bytes_max {
            return Err(Problem::value_too_long(bytes_max));
        }
        // One whose length is known takes no more than that.
        let counted_max = if announced > 0 { announced } else { bytes_max };
        let mut memory = Memory::admit(uploads, announced, counted_max).await?;
        progress.body_begins();
        let first = self.next(progress).await?.unwrap_or_default();
        if first.len() > bytes_max {
            return Err(Problem::value_too_long(bytes_max));
        }
        memory.cover(first.len(), progress).await?;
        if self.ended {
            // Short bodies arrive in one piece, which need not be copied.
            progress.body_ends();
            return Ok(Upload {
                bytes: first,
                reservation: memory.reservation,
            });
        }
        // The system provides memory for this buffer only as it is written to.
        let mut bytes = Vec::with_capacity(announced.max(first.len()));
        let mut next = Some(first);
        while let Some(piece) = next {
            let sum = bytes.len() + piece.len();
            if sum > bytes_max {
                return Err(Problem::value_too_long(bytes_max));
            }
            memory.cover(sum, progress).await?;
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
            reservation: memory.reservation,
        })
    }

    /// How many bytes are announced, at least.
    fn announced_bytes(&self) -> usize {
        usize::try_from(self.size_hint().lower()).unwrap_or(usize::MAX)
    }

    /// Reads all of a body whose length is announced, as blocks that can be given up one
    /// by one.
    ///
    /// # Errors
    /// The quota is used up, or the body is too slow or malformed.
    pub(crate) async fn read_blocks(
        &mut self,
        uploads: &Uploads,
        progress: &ConnectionProgress,
    ) -> Result<(VecDeque<Bytes>, Option<Reservation>), Problem> {
        let announced = self.announced_bytes();
        let mut memory = Memory::admit(uploads, announced, announced).await?;
        let mut blocks = VecDeque::new();
        let mut block = BytesMut::new();
        let mut bytes = 0;
        if !self.ended {
            progress.body_begins();
        }
        while let Some(mut piece) = self.next(progress).await? {
            bytes += piece.len();
            memory.cover(bytes, progress).await?;
            if self.ended && blocks.is_empty() && block.is_empty() {
                // Short bodies arrive in one piece, which need not be copied.
                progress.body_ends();
                return Ok((VecDeque::from([piece]), memory.reservation));
            }
            while !piece.is_empty() {
                if block.capacity() == 0 {
                    block.reserve(BLOCK_BYTES.min(announced));
                }
                let room = block.capacity() - block.len();
                block.extend_from_slice(&piece.split_to(room.min(piece.len())));
                if block.len() == block.capacity() {
                    blocks.push_back(std::mem::take(&mut block).freeze());
                }
            }
        }
        if !block.is_empty() {
            blocks.push_back(block.freeze());
        }
        if bytes > 0 {
            progress.body_ends();
        }
        Ok((blocks, memory.reservation))
    }

    /// Reads and discards the rest of the body if it is short and comes at once. Returns
    /// whether the connection can serve further requests.
    pub(crate) async fn discard(&mut self, progress: &ConnectionProgress) -> bool {
        if self.is_ended() {
            return true;
        }
        if self.broken
            || self.expects_continue
            || self.is_announced_longer_than(DISCARDED_BYTES_MAX)
        {
            return false;
        }
        progress.body_begins();
        let is_discarded = timeout(DISCARD_MAX, self.discard_rest(progress)).await;
        progress.body_ends();
        is_discarded.unwrap_or(false)
    }

    /// Reads and discards the rest of the body. Returns whether it is short.
    async fn discard_rest(&mut self, progress: &ConnectionProgress) -> bool {
        let mut bytes = 0;
        while bytes <= DISCARDED_BYTES_MAX {
            match self.next(progress).await {
                Ok(None) => return true,
                Ok(Some(piece)) => bytes += piece.len(),
                Err(_) => return false,
            }
        }
        false
    }

    /// The next piece; `None` at the end. Ignores trailers.
    async fn next(&mut self, progress: &ConnectionProgress) -> Result<Option<Bytes>, Problem> {
        poll_fn(|cx| self.poll_next(cx, progress)).await
    }

    /// As `next`; the connection's progress wakes the task of the connection only.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        progress: &ConnectionProgress,
    ) -> Poll<Result<Option<Bytes>, Problem>> {
        loop {
            let Some(incoming) = self.incoming.as_mut().filter(|_| !self.ended) else {
                return Poll::Ready(Ok(None));
            };
            if progress.is_body_late() {
                self.broken = true;
                return Poll::Ready(Err(Problem::late_body()));
            }
            match std::task::ready!(Pin::new(&mut *incoming).poll_frame(cx)) {
                None => self.ended = true,
                Some(Err(_)) => {
                    self.broken = true;
                    return Poll::Ready(Err(Problem::broken_body()));
                }
                Some(Ok(frame)) => {
                    // A body with a length ends with its last byte.
                    self.ended = incoming.is_end_stream();
                    if let Ok(piece) = frame.into_data() {
                        return Poll::Ready(Ok(Some(piece)));
                    }
                }
            }
        }
    }
}
