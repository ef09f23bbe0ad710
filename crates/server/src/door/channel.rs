//! The socket of a connection. Small writes are gathered and go out when hyper
//! has done all it can for the moment, so answers to pipelined requests share
//! a system call; what is gathered is bounded, and long values are written from
//! where they are. After a refusal the channel neither reads nor lets hyper go
//! on until it is told to: see `refusals`. What is held for a connection counts:
//! heads beyond a few KiB (`Channel::cover_head`), and answers that its client
//! does not take (`unsent`).

use crate::door::progress::Progress;
use crate::door::unsent::{Turn, Unsent};
use base::{Budget, Refused, Share};
use hyper::rt::ReadBufCursor;
use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{self, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Up to so many bytes of answers are gathered before they are written.
const GATHERED_BYTES_MAX: usize = 16 << 10;

/// So many bytes of a head count for nothing: each connection has a buffer of
/// that size in any case.
pub(crate) const HEAD_FREE_BYTES: usize = 8 << 10;

/// What a longer head counts for grows by so many bytes at a time.
const HEAD_STEP_BYTES: usize = 8 << 10;

/// The size of the buffer into which a runtime reads, in bytes.
pub(crate) const SCRATCH_BYTES: usize = 64 << 10;

/// The buffers of a runtime. Its connections share them, so that an idle one
/// holds no memory for what it may read or write.
pub(crate) struct Buffers {
    /// What is read goes through it.
    scratch: RefCell<Box<[u8]>>,
    /// Empty, with room for answers, unless a connection has it.
    spare: Cell<Vec<u8>>,
    /// Of all runtimes: what long heads count for.
    heads: Arc<Budget>,
    /// Answers that are not taken.
    pub(crate) unsent: Rc<Unsent>,
}

impl Buffers {
    /// Those of a runtime that begins.
    pub(crate) fn new(heads: Arc<Budget>, unsent: Rc<Unsent>) -> Self {
        Self {
            scratch: RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice()),
            spare: Cell::default(),
            heads,
            unsent,
        }
    }
}

/// The socket of a connection.
pub(crate) struct Channel {
    pub(crate) stream: RefCell<TcpStream>,
    /// Answers that are gathered and not yet written.
    gathered: RefCell<Vec<u8>>,
    buffers: Rc<Buffers>,
    /// Whether it is left unread after a refusal.
    is_unread: Cell<bool>,
    /// What the longest head counts for: hyper keeps a buffer of its length as
    /// long as the connection lives.
    head_share: RefCell<Option<Share>>,
    /// Whether a head was refused because too many are that long.
    is_head_refused: Cell<bool>,
    turn: Turn,
    own: Weak<Self>,
    pub(crate) progress: Rc<Progress>,
}

impl Channel {
    /// The channel over a socket, with the `buffers` of its runtime.
    pub(crate) fn new(stream: TcpStream, buffers: Rc<Buffers>, progress: Rc<Progress>) -> Rc<Self> {
        Rc::new_cyclic(|own| Self {
            head_share: RefCell::default(),
            is_head_refused: Cell::new(false),
            turn: Turn::new(Rc::clone(&buffers.unsent)),
            own: Weak::clone(own),
            stream: RefCell::new(stream),
            gathered: RefCell::default(),
            buffers,
            is_unread: Cell::new(false),
            progress,
        })
    }

    /// The socket; what is gathered is lost.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream.into_inner()
    }

    /// Does not read the connection until [`Channel::read_again`].
    pub(crate) fn leave_unread(&self) {
        self.is_unread.set(true);
    }

    /// Reads the connection again.
    pub(crate) fn read_again(&self) {
        self.is_unread.set(false);
        self.progress.wake();
    }

    /// Whether it is read, as it is but after a refusal.
    pub(crate) fn is_read(&self) -> bool {
        !self.is_unread.get()
    }

    /// Pending while the connection is left unread; its task is woken afterwards.
    fn poll_is_read(&self) -> Poll<()> {
        match self.is_read() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Reads into `take`, at most `bytes_max`; gives the number of bytes, 0 at the end.
    pub(crate) fn poll_read(
        &self,
        cx: &mut task::Context<'_>,
        bytes_max: usize,
        take: impl FnOnce(&[u8]),
    ) -> Poll<io::Result<usize>> {
        let mut scratch = self.buffers.scratch.borrow_mut();
        let bytes_max = bytes_max.min(scratch.len());
        let mut buffer = ReadBuf::new(&mut scratch[..bytes_max]);
        let mut stream = self.stream.borrow_mut();
        std::task::ready!(Pin::new(&mut *stream).poll_read(cx, &mut buffer))?;
        let bytes = buffer.filled().len();
        if bytes > 0 {
            self.progress.received(bytes);
            take(buffer.filled());
        }
        Poll::Ready(Ok(bytes))
    }

    /// How many bytes may be read next: while a head is under way, those that
    /// it counts for.
    fn room(&self, bytes_max: usize) -> Result<usize, Refused> {
        match self.progress.head_bytes() {
            Some(bytes) if bytes >= HEAD_FREE_BYTES => {
                self.cover_head(bytes + HEAD_STEP_BYTES)?;
                Ok(bytes_max.min(HEAD_STEP_BYTES))
            }
            _ => Ok(bytes_max),
        }
    }

    /// Lets a head of so many bytes count, until the connection ends.
    ///
    /// # Errors
    /// [`Refused`] when too many heads are that long.
    pub(crate) fn cover_head(&self, bytes: usize) -> Result<(), Refused> {
        let wanted = bytes.saturating_sub(HEAD_FREE_BYTES);
        let mut share = self.head_share.borrow_mut();
        let covered = share.as_ref().map_or(0, Share::amount);
        if wanted <= covered {
            return Ok(());
        }
        match &mut *share {
            Some(share) => share.grow(wanted - covered),
            None => {
                *share = Some(self.buffers.heads.take(wanted)?);
                Ok(())
            }
        }
    }

    /// Whether others may need the room that this connection has for long heads.
    pub(crate) fn is_head_room_wanted(&self) -> bool {
        self.head_share.borrow().is_some() && self.buffers.heads.is_half_used()
    }

    /// Whether a head was refused before it was complete.
    pub(crate) fn is_head_refused(&self) -> bool {
        self.is_head_refused.get()
    }

    /// Whether the client has closed its side, as far as that can be told
    /// without reading. `cx` is woken when there is something to tell.
    pub(crate) fn has_client_left(&self, cx: &mut task::Context<'_>) -> bool {
        let mut next = [0];
        let peeked = self
            .stream
            .borrow()
            .poll_peek(cx, &mut ReadBuf::new(&mut next));
        match peeked {
            Poll::Ready(Ok(bytes)) => bytes == 0,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        }
    }

    /// Gathers what is short, writes what is not.
    fn poll_write(
        &self,
        cx: &mut task::Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        let mut gathered = self.gathered.borrow_mut();
        if gathered.len() + bytes > GATHERED_BYTES_MAX && !gathered.is_empty() {
            drop(gathered);
            std::task::ready!(self.poll_flush(cx))?;
            gathered = self.gathered.borrow_mut();
        }
        if bytes <= GATHERED_BYTES_MAX {
            if gathered.capacity() == 0 {
                *gathered = self.buffers.spare.take();
            }
            gathered.reserve(bytes);
            for slice in slices {
                gathered.extend_from_slice(slice);
            }
            return Poll::Ready(Ok(bytes));
        }
        self.poll_write_through(cx, slices)
    }

    /// Adds a few bytes to what is gathered.
    pub(crate) fn gather(&self, bytes: &[u8]) {
        self.gathered.borrow_mut().extend_from_slice(bytes);
    }

    /// Writes what is gathered, and says that nothing follows.
    pub(crate) fn poll_shutdown(&self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_flush(cx))?;
        Pin::new(&mut *self.stream.borrow_mut()).poll_shutdown(cx)
    }

    /// Writes what is gathered.
    pub(crate) fn poll_flush(&self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        let mut gathered = self.gathered.borrow_mut();
        let mut written = 0;
        let result = loop {
            if written == gathered.len() {
                break Poll::Ready(Ok(()));
            }
            match self.poll_write_gathered(cx, &gathered[written..]) {
                Poll::Ready(Ok(bytes)) => written += bytes,
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
        };
        if written == gathered.len() {
            let mut spare = std::mem::take(&mut *gathered);
            if spare.capacity() > 0 {
                spare.clear();
                self.buffers.spare.set(spare);
            }
        } else {
            gathered.drain(..written);
        }
        result
    }

    fn poll_write_through(
        &self,
        cx: &mut task::Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut stream = self.stream.borrow_mut();
        let result = Pin::new(&mut *stream).poll_write_vectored(cx, slices);
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        self.note_write(result, bytes, 0)
    }

    /// One slice is cheaper to write without a vector.
    fn poll_write_gathered(
        &self,
        cx: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut stream = self.stream.borrow_mut();
        let result = Pin::new(&mut *stream).poll_write(cx, bytes);
        self.note_write(result, bytes.len(), bytes.len())
    }

    /// Takes note of what became of writing `bytes` bytes, of which so many were gathered.
    fn note_write(
        &self,
        result: Poll<io::Result<usize>>,
        bytes: usize,
        gathered: usize,
    ) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(taken)) => {
                self.progress.taken(taken);
                if taken == bytes {
                    self.turn.end();
                }
                Poll::Ready(Ok(taken))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                self.progress.blocked();
                let waiting = gathered + self.progress.answer_bytes();
                self.turn.wait(&self.own, waiting);
                Poll::Pending
            }
        }
    }
}

/// A channel as hyper sees it.
pub(crate) struct Socket(pub(crate) Rc<Channel>);

impl hyper::rt::Read for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.0.poll_is_read());
        let Ok(bytes_max) = self.0.room(buffer.remaining()) else {
            self.0.is_head_refused.set(true);
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
        };
        self.0
            .poll_read(cx, bytes_max, |bytes| buffer.put_slice(bytes))
            .map_ok(|_| ())
    }
}

impl hyper::rt::Write for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        // What is gathered is written when hyper has done all it can; see
        // `serve`. One that is left unread takes no further request, not even
        // one that hyper has in its buffer, because hyper waits for this first.
        self.0.poll_is_read().map(Ok)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_shutdown(cx)
    }
}
