//! The socket of a connection, with the node's work around reads and writes.
//!
//! - Writes: the channel gathers small writes, up to a bound, and sends them when
//!   hyper cannot make progress. So the answers to pipelined requests share a system
//!   call. Long values are written without copying them.
//! - Pauses: after a refusal the channel neither reads nor lets hyper continue
//!   until `paused_connections` resumes it.
//! - TLS: below all of this lies the `wire`, which encrypts bytes or does not. What is
//!   gathered becomes one record, or a few if the answer is a scan.
//! - Memory: what the node holds for a connection counts. Heads count beyond a few
//!   KiB (`Channel::cover_head`), answers when the client does not read
//!   them (`unsent_answers`).

use crate::net::recorded_steps::RecordedSteps;
use crate::net::slow_clients::ConnectionProgress;
use crate::net::unsent_answers::{UnsentAnswer, UnsentAnswers};
use crate::net::wire::Wire;
use base::{Quota, Refused, Reservation};
use hyper::StatusCode;
use hyper::rt::ReadBufCursor;
use rustix::net::RecvFlags;
use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{self, Poll};

/// How many bytes of answers the channel gathers before it writes them: as many as a
/// record of TLS can have.
const GATHERED_BYTES_MAX: usize = 16 << 10;

/// How many bytes of a scan it gathers. Hyper hands over a few short entities at a time, and a
/// call of the system costs more than to copy them.
const SCAN_GATHERED_BYTES_MAX: usize = 64 << 10;

/// How many bytes of a head do not count: each connection has a buffer of that
/// size in any case.
pub(crate) const HEAD_FREE_BYTES: usize = 8 << 10;

/// By how many bytes at a time the reservation of a longer head grows.
const HEAD_STEP_BYTES: usize = 8 << 10;

/// The size of hyper's buffer for what it reads. Hyper keeps it until the connection ends, and
/// doubles it when a read fills it. So it never gets as many bytes at a time: else an upload
/// would leave a large buffer at every idle connection.
pub(crate) const READ_BUFFER_BYTES: usize = 16 << 10;

/// The size of the buffer into which a runtime reads, in bytes.
pub(crate) const SCRATCH_BYTES: usize = 64 << 10;

/// The buffers of a runtime. Its connections share them, so that an idle connection
/// holds no memory for what it may read or write.
pub(crate) struct Buffers {
    /// The kernel copies what is read into it; its reader copies it on at once.
    scratch: RefCell<Box<[u8]>>,
    /// An empty buffer with room for answers, unless a connection uses it.
    spare: Cell<Vec<u8>>,
    /// The quota for long heads, which all runtimes share.
    heads: Arc<Quota>,
    /// Answers that wait for clients that do not read.
    pub(crate) unsent_answers: Rc<UnsentAnswers>,
}

impl Buffers {
    /// The buffers of one runtime.
    pub(crate) fn new(heads: Arc<Quota>, unsent_answers: Rc<UnsentAnswers>) -> Self {
        Self {
            scratch: RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice()),
            spare: Cell::default(),
            heads,
            unsent_answers,
        }
    }
}

/// The socket of a connection.
pub(crate) struct Channel {
    pub(crate) wire: RefCell<Wire>,
    /// How many bytes TLS has encrypted since the kernel last had all of them.
    encrypted: Cell<usize>,
    /// Answers that are gathered and not yet written.
    gathered: RefCell<Vec<u8>>,
    gathered_bytes_max: Cell<usize>,
    buffers: Rc<Buffers>,
    /// Whether the node does not read the connection, after a refusal.
    is_paused: Cell<bool>,
    /// The reservation of the longest head. It is kept until the connection ends, because
    /// hyper keeps a buffer of that length until then.
    head_reservation: RefCell<Option<Reservation>>,
    /// Whether a head was refused because the quota for long heads was used up.
    is_head_refused: Cell<bool>,
    unsent: UnsentAnswer,
    pub(crate) progress: Rc<ConnectionProgress>,
    pub(crate) steps: RecordedSteps,
}

impl Channel {
    /// The channel over a wire, with the `buffers` of its runtime.
    pub(crate) fn new(
        wire: Wire,
        buffers: Rc<Buffers>,
        progress: Rc<ConnectionProgress>,
    ) -> Rc<Self> {
        Rc::new(Self {
            head_reservation: RefCell::default(),
            is_head_refused: Cell::new(false),
            unsent: UnsentAnswer::new(Rc::clone(&buffers.unsent_answers)),
            wire: RefCell::new(wire),
            encrypted: Cell::new(0),
            gathered: RefCell::default(),
            gathered_bytes_max: Cell::new(GATHERED_BYTES_MAX),
            buffers,
            is_paused: Cell::new(false),
            progress,
            steps: RecordedSteps::default(),
        })
    }

    /// Who is on the other side; `None` once the connection is gone.
    pub(crate) fn client(&self) -> Option<SocketAddr> {
        self.wire.borrow().socket().peer_addr().ok()
    }

    /// The stream. Bytes that were gathered and not written are lost.
    pub(crate) fn into_stream(self) -> Box<dyn peer::Stream> {
        self.wire.into_inner().into_stream()
    }

    /// Stops reading the connection until [`Channel::resume_reading`].
    pub(crate) fn pause_reading(&self) {
        self.is_paused.set(true);
    }

    /// Reads the connection again.
    pub(crate) fn resume_reading(&self) {
        self.is_paused.set(false);
        self.progress.wake();
    }

    /// Whether the node reads the connection, as it does unless it was paused.
    pub(crate) fn is_reading(&self) -> bool {
        !self.is_paused.get()
    }

    /// Pending while the connection is paused. Resuming it wakes its task.
    fn poll_is_reading(&self) -> Poll<()> {
        if self.is_reading() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Reads at most `bytes_max` bytes and passes them to `take`. Returns their
    /// number, 0 at the end of the stream.
    pub(crate) fn poll_read(
        &self,
        cx: &mut task::Context<'_>,
        bytes_max: usize,
        take: impl FnOnce(&[u8]),
    ) -> Poll<io::Result<usize>> {
        let mut scratch = self.buffers.scratch.borrow_mut();
        let mut wire = self.wire.borrow_mut();
        let progress = &self.progress;
        let read = wire.poll_read(cx, bytes_max, &mut scratch, |bytes| {
            if !bytes.is_empty() {
                progress.received(bytes.len());
                self.steps.received();
                take(bytes);
            }
        });
        if read.is_pending() && wire.has_incomplete_record() {
            progress.receives_record();
        }
        read
    }

    /// How many bytes may be read next. While a head is being received, it is as
    /// many as the head's reservation covers.
    fn readable_bytes(&self, bytes_max: usize) -> Result<usize, Refused> {
        match self.progress.head_bytes() {
            Some(bytes) if bytes >= HEAD_FREE_BYTES => {
                self.cover_head(bytes + HEAD_STEP_BYTES)?;
                Ok(bytes_max.min(HEAD_STEP_BYTES))
            }
            _ => Ok(bytes_max.min(READ_BUFFER_BYTES - 1)),
        }
    }

    /// Counts a head of `bytes` towards the quota, until the connection ends.
    ///
    /// # Errors
    /// [`Refused`] when the quota for long heads is used up.
    pub(crate) fn cover_head(&self, bytes: usize) -> Result<(), Refused> {
        let wanted = bytes.saturating_sub(HEAD_FREE_BYTES);
        let mut reservation = self.head_reservation.borrow_mut();
        let covered = reservation.as_ref().map_or(0, Reservation::amount);
        if wanted <= covered {
            return Ok(());
        }
        match &mut *reservation {
            Some(reservation) => reservation.grow(wanted - covered),
            None => {
                *reservation = Some(self.buffers.heads.try_reserve(wanted)?);
                Ok(())
            }
        }
    }

    /// Whether other connections may need this connection's reservation for long heads.
    pub(crate) fn is_head_reservation_wanted(&self) -> bool {
        self.head_reservation.borrow().is_some() && self.buffers.heads.is_half_used()
    }

    /// Whether a head was refused before all of it was received.
    pub(crate) fn is_head_refused(&self) -> bool {
        self.is_head_refused.get()
    }

    /// Whether the client has closed its side, as far as the node sees without reading.
    /// Wakes `cx` when something changes.
    pub(crate) fn has_client_left(&self, cx: &mut task::Context<'_>) -> bool {
        self.wire.borrow_mut().has_ended(cx)
    }

    /// Whether the kernel holds bytes of the client that were not read, whatever the events of
    /// the runtime have said so far.
    pub(crate) fn has_unread(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = rustix::net::recv(self.wire.borrow().socket(), &mut [0_u8; 1], flags);
        peeked.is_ok_and(|(_, bytes)| bytes > 0)
    }

    /// Whether the client has no request under way: nothing of one has arrived.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_reading() && self.progress.is_idle() && !self.has_unread()
    }

    /// Gathers more, until the result is dropped: the answer is a scan.
    pub(crate) fn gather_scan(self: &Rc<Self>) -> ScanGathering {
        self.gathered_bytes_max.set(SCAN_GATHERED_BYTES_MAX);
        ScanGathering(Rc::clone(self))
    }

    /// Gathers a short write, and writes a long one.
    fn poll_write(
        &self,
        cx: &mut task::Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        let bytes_max = self.gathered_bytes_max.get();
        let mut gathered = self.gathered.borrow_mut();
        if gathered.len() + bytes > bytes_max && !gathered.is_empty() {
            drop(gathered);
            std::task::ready!(self.poll_flush(cx))?;
            gathered = self.gathered.borrow_mut();
        }
        if bytes <= bytes_max {
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

    /// Adds a few bytes to those that are gathered.
    pub(crate) fn gather(&self, bytes: &[u8]) {
        self.gathered.borrow_mut().extend_from_slice(bytes);
    }

    /// Takes back the answer that hyper gives on its own to a head that it cannot parse: the
    /// last one, without a body and all gathered. Returns its status.
    pub(crate) fn take_bare_answer(&self) -> Option<StatusCode> {
        const BEGIN: &[u8] = b"HTTP/1.1 ";
        let mut gathered = self.gathered.borrow_mut();
        let begin = memchr::memmem::rfind(&gathered, BEGIN)?;
        let status = gathered.get(begin + BEGIN.len()..)?.get(..3)?;
        let status = StatusCode::from_bytes(status).ok()?;
        gathered.truncate(begin);
        Some(status)
    }

    /// Writes what is gathered, and closes the connection for writing.
    pub(crate) fn poll_shutdown(&self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_flush(cx))?;
        self.wire.borrow_mut().poll_shutdown(cx)
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
        drop(gathered);
        let result = match result {
            Poll::Ready(Ok(())) => self.poll_flush_encrypted(cx),
            result => result,
        };
        if result.is_ready() {
            self.steps.written();
        }
        result
    }

    /// Writes what TLS has encrypted.
    fn poll_flush_encrypted(&self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        if self.encrypted.get() == 0 {
            return Poll::Ready(Ok(()));
        }
        let flushed = self.wire.borrow_mut().poll_flush(cx);
        match flushed {
            Poll::Ready(Ok(())) => {
                self.encrypted.set(0);
                self.progress.sent(0);
                self.unsent.remove();
            }
            Poll::Pending => self.note_blocked(0),
            Poll::Ready(Err(_)) => {}
        }
        flushed
    }

    fn poll_write_through(
        &self,
        cx: &mut task::Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = self.wire.borrow_mut().poll_write(cx, slices);
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        self.note_write(result, bytes, 0)
    }

    fn poll_write_gathered(
        &self,
        cx: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = self
            .wire
            .borrow_mut()
            .poll_write(cx, &[IoSlice::new(bytes)]);
        self.note_write(result, bytes.len(), bytes.len())
    }

    /// Records the result of writing `bytes` bytes, `gathered` of which were gathered.
    fn note_write(
        &self,
        result: Poll<io::Result<usize>>,
        bytes: usize,
        gathered: usize,
    ) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(sent)) => {
                self.progress.sent(sent);
                let wire = self.wire.borrow();
                let is_behind = wire.is_behind();
                drop(wire);
                if is_behind {
                    self.encrypted.set(self.encrypted.get() + sent);
                } else {
                    self.encrypted.set(0);
                    if sent == bytes {
                        self.unsent.remove();
                    }
                }
                Poll::Ready(Ok(sent))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                self.note_blocked(gathered);
                Poll::Pending
            }
        }
    }

    /// The kernel takes nothing more, and `gathered` bytes wait beside those that TLS has
    /// encrypted and those of the answer.
    fn note_blocked(&self, gathered: usize) {
        self.progress.blocked();
        let waiting = gathered + self.encrypted.get() + self.progress.answer_bytes();
        self.unsent.add(&self.progress, waiting);
    }
}

/// A scan that a channel sends, for which it gathers more.
pub(crate) struct ScanGathering(Rc<Channel>);

impl Drop for ScanGathering {
    fn drop(&mut self) {
        self.0.gathered_bytes_max.set(GATHERED_BYTES_MAX);
    }
}

/// A channel with the traits that hyper needs.
pub(crate) struct Socket(pub(crate) Rc<Channel>);

impl hyper::rt::Read for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.0.poll_is_reading());
        let Ok(bytes_max) = self.0.readable_bytes(buffer.remaining()) else {
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
        // `http::connection` writes what is gathered when hyper cannot make
        // progress. A paused connection starts no further request, not even one
        // that hyper has in its buffer, because hyper waits for this flush first.
        self.0.poll_is_reading().map(Ok)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        // `http::connection` shuts the connection down, once it knows the last answer.
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests;
