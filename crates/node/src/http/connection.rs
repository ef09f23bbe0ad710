//! A connection: the socket under hyper, and what the sweeper knows of it.
//!
//! - [`Progress`] says what a connection is about and since when, so that one
//!   task a runtime can close the ones that hold a place and do nothing: no
//!   connection has a timer of its own.
//! - [`Channel`] is the socket. Small writes are gathered and go out when
//!   hyper has done all it can for the moment, so answers to pipelined
//!   requests share a system call; what is gathered is bounded, and long
//!   values are written from where they are. After a refusal the channel
//!   neither reads nor lets hyper go on for a few milliseconds.
//! - [`serve`] drives hyper over a channel until the connection ends.

use crate::context::Context;
use hyper::rt::ReadBufCursor;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{self, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// How long a connection is not read after a refusal.
const PAUSE: Duration = Duration::from_millis(5);

/// The least rate of a body, in bytes a second over each span of the body
/// timeout: what holds memory must not take hours to come.
const BODY_BYTES_PER_SECOND: u64 = 64 << 10;

/// Up to so many bytes of answers are gathered before they are written.
const GATHERED_BYTES_MAX: usize = 16 << 10;

/// Hyper's bound for its own buffers: the longest head, which holds two keys
/// with every byte escaped (2 x 12 KiB) and leaves room for headers.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// How long a connection whose body was refused is still read, so that the
/// client sees the answer rather than a reset.
const LINGER: Duration = Duration::from_secs(2);

/// The size of the buffer into which a runtime reads, in bytes.
pub(crate) const SCRATCH_BYTES: usize = 64 << 10;

/// How long a connection may take for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Between requests.
    pub(crate) idle: Duration,
    /// For a head, first byte to last.
    pub(crate) head: Duration,
    /// For each span of a body.
    pub(crate) body: Duration,
    /// To take anything of an answer.
    pub(crate) stall: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Between requests.
    Idle,
    /// Some bytes of a head have come.
    Head,
    /// A request is worked on or answered.
    Request,
    /// The body of a request is being read.
    Body,
    /// Closed for writing; what still comes is thrown away.
    Lingering,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Idle => "a pause between requests",
            Self::Head => "the head of a request",
            Self::Request => "a request",
            Self::Body => "the body of a request",
            Self::Lingering => "the end of the connection",
        }
    }
}

/// What a body must have brought in a span.
fn body_bytes_min(span: Duration) -> u128 {
    span.as_millis() * u128::from(BODY_BYTES_PER_SECOND) / 1000
}

/// What a connection is about, and since when.
pub(crate) struct Progress {
    /// The runtime's coarse time.
    now: Rc<Cell<Duration>>,
    phase: Cell<Phase>,
    since: Cell<Duration>,
    received_bytes: Cell<u64>,
    /// `received_bytes` when the span of a body began.
    span_began_at_bytes: Cell<u64>,
    /// Since when nothing of the answer was taken, if something waits.
    blocked_since: Cell<Option<Duration>>,
    /// Whether a body came too slowly; its reader is to say so.
    is_body_late: Cell<bool>,
    /// Whether to linger before the connection is closed.
    lingers: Cell<bool>,
    /// Whether the sweeper has given up on it.
    is_cut: Cell<bool>,
    /// What wakes the connection's task.
    waker: RefCell<Option<Waker>>,
}

impl Progress {
    /// A connection that was just opened, under the clock `now`.
    pub(crate) fn new(now: Rc<Cell<Duration>>) -> Self {
        Self {
            since: Cell::new(now.get()),
            now,
            phase: Cell::new(Phase::Idle),
            received_bytes: Cell::new(0),
            span_began_at_bytes: Cell::new(0),
            blocked_since: Cell::new(None),
            is_body_late: Cell::new(false),
            lingers: Cell::new(false),
            is_cut: Cell::new(false),
            waker: RefCell::new(None),
        }
    }

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(self.now.get());
    }

    /// A request's head is complete.
    pub(crate) fn request_begins(&self) {
        self.enter(Phase::Request);
    }

    /// The answer was handed over.
    pub(crate) fn request_ends(&self) {
        self.enter(Phase::Idle);
    }

    /// A body is waited for.
    pub(crate) fn body_begins(&self) {
        self.span_began_at_bytes.set(self.received_bytes.get());
        self.enter(Phase::Body);
    }

    /// The body is complete.
    pub(crate) fn body_ends(&self) {
        self.enter(Phase::Request);
    }

    /// Whether the body came too slowly.
    pub(crate) fn is_body_late(&self) -> bool {
        self.is_body_late.get()
    }

    /// The connection will be closed with part of a request unread.
    pub(crate) fn linger(&self) {
        self.lingers.set(true);
    }

    fn received(&self, bytes: usize) {
        self.received_bytes
            .set(self.received_bytes.get().wrapping_add(bytes as u64));
        if self.phase.get() == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    fn blocked(&self) {
        if self.blocked_since.get().is_none() {
            self.blocked_since.set(Some(self.now.get()));
        }
    }

    /// Whether the connection has used up the patience for what it is about.
    fn is_overdue(&self, now: Duration, patience: Patience) -> bool {
        if let Some(since) = self.blocked_since.get() {
            return now.saturating_sub(since) >= patience.stall;
        }
        let taken = now.saturating_sub(self.since.get());
        match self.phase.get() {
            Phase::Idle => taken >= patience.idle,
            Phase::Head => taken >= patience.head,
            // Bounded by the request's own deadline.
            Phase::Request => false,
            Phase::Body if taken < patience.body => false,
            Phase::Body => {
                let received = self.received_bytes.get();
                let in_span = received.wrapping_sub(self.span_began_at_bytes.get());
                self.span_began_at_bytes.set(received);
                self.since.set(now);
                u128::from(in_span) < body_bytes_min(taken)
            }
            Phase::Lingering => taken >= LINGER,
        }
    }

    /// Ends the connection if it is overdue.
    pub(crate) fn sweep(&self, now: Duration, patience: Patience) {
        if !self.is_overdue(now, patience) {
            return;
        }
        let phase = self.phase.get();
        tracing::debug!(
            during = phase.name(),
            "a connection makes no progress: closing it"
        );
        if phase == Phase::Body && self.blocked_since.get().is_none() {
            // There is a request to answer.
            self.is_body_late.set(true);
            self.enter(Phase::Request);
            self.wake();
        } else {
            self.cut();
        }
    }

    /// Ends the connection, whatever it is about.
    pub(crate) fn cut(&self) {
        self.is_cut.set(true);
        self.wake();
    }

    /// Lets the connection's task look at the world again.
    pub(crate) fn wake(&self) {
        let waker = self.waker.borrow().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn remember(&self, waker: &Waker) {
        let mut remembered = self.waker.borrow_mut();
        match &*remembered {
            Some(known) if known.will_wake(waker) => {}
            _ => *remembered = Some(waker.clone()),
        }
    }
}

/// The socket of a connection.
pub(crate) struct Channel {
    stream: RefCell<TcpStream>,
    /// Answers that are gathered and not yet written.
    gathered: RefCell<Vec<u8>>,
    /// The runtime's buffer to read into.
    scratch: Rc<RefCell<Box<[u8]>>>,
    /// Runs out when the connection may go on after a refusal.
    pause: RefCell<Option<Pin<Box<Sleep>>>>,
    progress: Rc<Progress>,
}

impl Channel {
    /// Does not read the connection for a few milliseconds.
    pub(crate) fn pause(&self) {
        *self.pause.borrow_mut() = Some(Box::pin(tokio::time::sleep(PAUSE)));
    }

    /// Pending while the connection is paused.
    fn poll_pause(&self, cx: &mut task::Context<'_>) -> Poll<()> {
        let mut pause = self.pause.borrow_mut();
        if let Some(sleep) = &mut *pause {
            std::task::ready!(sleep.as_mut().poll(cx));
            *pause = None;
        }
        Poll::Ready(())
    }

    /// Reads into `take`, at most `bytes_max`; gives the number of bytes, 0 at the end.
    fn poll_read(
        &self,
        cx: &mut task::Context<'_>,
        bytes_max: usize,
        take: impl FnOnce(&[u8]),
    ) -> Poll<io::Result<usize>> {
        let mut scratch = self.scratch.borrow_mut();
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
            gathered.reserve(bytes);
            for slice in slices {
                gathered.extend_from_slice(slice);
            }
            return Poll::Ready(Ok(bytes));
        }
        self.poll_write_through(cx, slices)
    }

    /// Writes what is gathered.
    fn poll_flush(&self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
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
            // Idle connections hold no memory for this.
            *gathered = Vec::new();
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
        self.note_write(result)
    }

    /// One slice is cheaper to write without a vector.
    fn poll_write_gathered(
        &self,
        cx: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut stream = self.stream.borrow_mut();
        let result = Pin::new(&mut *stream).poll_write(cx, bytes);
        self.note_write(result)
    }

    fn note_write(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(result) => {
                self.progress.blocked_since.set(None);
                Poll::Ready(result)
            }
            Poll::Pending => {
                self.progress.blocked();
                Poll::Pending
            }
        }
    }
}

/// A channel as hyper sees it.
struct Socket(Rc<Channel>);

impl hyper::rt::Read for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.0.poll_pause(cx));
        let bytes_max = buffer.remaining();
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

    fn poll_flush(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        // What is gathered is written when hyper has done all it can; see
        // `serve`. A paused connection reads no further request, not even one
        // that hyper has in its buffer, because hyper waits for this first.
        self.0.poll_pause(cx).map(Ok)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.0.poll_flush(cx))?;
        Pin::new(&mut *self.0.stream.borrow_mut()).poll_shutdown(cx)
    }
}

/// How a connection ended.
enum End {
    /// By HTTP's rules, or by the client.
    Closed,
    /// With an error of hyper's.
    Failed(hyper::Error),
    /// With an error of the socket.
    Broken,
    /// By the sweeper, or because the node stops.
    Cut,
}

/// Serves a connection until it ends.
///
/// A panic in here is a bug that ends this connection alone: tokio catches it,
/// the panic hook tells of it, and every guard that the request holds (its
/// place, its share of the memory, its wait) gives back what it took as it is
/// dropped. What is shared between connections is only ever changed in steps
/// that cannot panic half way.
pub(crate) async fn serve(context: Rc<Context>, stream: TcpStream) {
    let progress = Rc::new(Progress::new(Rc::clone(&context.now)));
    let _registered = context.register(&progress);
    let channel = Rc::new(Channel {
        stream: RefCell::new(stream),
        gathered: RefCell::default(),
        scratch: Rc::clone(&context.scratch),
        pause: RefCell::default(),
        progress: Rc::clone(&progress),
    });
    match drive(&context, &channel).await {
        End::Closed if progress.lingers.get() => linger(&channel).await,
        End::Failed(error) if error.is_parse() => linger(&channel).await,
        End::Closed => {}
        End::Failed(error) => {
            tracing::debug!(%error, "a connection ended early");
            // What was answered so far goes out, as far as it can at once.
            poll_fn(|cx| Poll::Ready(channel.poll_flush(cx).is_ready())).await;
        }
        End::Broken => tracing::debug!("a connection broke"),
        End::Cut => {
            // Whatever the kernel still holds of the answer goes with it.
            if progress.blocked_since.get().is_some() {
                let reset = channel.stream.borrow().set_zero_linger();
                if let Err(error) = reset {
                    tracing::debug!(%error, "cannot reset a connection");
                }
            }
        }
    }
}

async fn drive(context: &Rc<Context>, channel: &Rc<Channel>) -> End {
    let progress = &channel.progress;
    let service = service_fn(|request| {
        let (context, channel) = (Rc::clone(context), Rc::clone(channel));
        let progress = Rc::clone(progress);
        async move {
            let response = crate::http::answer(&context, &progress, &channel, request).await;
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        // A client may shut its side once it has sent its request (as `nc` does)
        // and still wants the answer.
        .half_close(true)
        .max_buf_size(HEAD_BYTES_MAX)
        .header_read_timeout(None)
        .serve_connection(Socket(Rc::clone(channel)), service);
    let mut connection = pin!(connection);
    let mut is_draining = false;
    poll_fn(|cx| {
        progress.remember(cx.waker());
        if progress.is_cut.get() {
            return Poll::Ready(End::Cut);
        }
        if context.is_stopping() && !is_draining {
            is_draining = true;
            connection.as_mut().graceful_shutdown();
        }
        match connection.as_mut().poll(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(End::Closed),
            Poll::Ready(Err(error)) => Poll::Ready(End::Failed(error)),
            Poll::Pending => match channel.poll_flush(cx) {
                Poll::Ready(Err(_)) => Poll::Ready(End::Broken),
                _ => Poll::Pending,
            },
        }
    })
    .await
}

/// Reads and throws away what a client still sends after its request was
/// refused. To close at once would reset the connection, and the client might
/// lose the answer with it. The sweeper bounds the time, and time the bytes.
async fn linger(channel: &Channel) {
    channel.progress.enter(Phase::Lingering);
    poll_fn(|cx| {
        channel.progress.remember(cx.waker());
        // A fast sender must not keep the runtime to itself.
        for _ in 0..16 {
            if channel.progress.is_cut.get() {
                return Poll::Ready(());
            }
            match channel.poll_read(cx, SCRATCH_BYTES, |_| {}) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        idle: Duration::from_secs(75),
        head: Duration::from_secs(10),
        body: Duration::from_secs(5),
        stall: Duration::from_secs(30),
    };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn progress() -> Progress {
        Progress::new(Rc::new(Cell::new(at(100))))
    }

    #[test]
    fn an_idle_connection_may_be_idle_for_so_long() {
        let progress = progress();
        assert!(!progress.is_overdue(at(174), PATIENCE));
        assert!(progress.is_overdue(at(175), PATIENCE));
    }

    #[test]
    fn a_head_must_be_whole_in_time_however_it_trickles() {
        let progress = progress();
        progress.received(1);
        progress.now.set(at(105));
        progress.received(1);
        assert!(!progress.is_overdue(at(109), PATIENCE));
        assert!(progress.is_overdue(at(110), PATIENCE));
        progress.request_begins();
        assert!(!progress.is_overdue(at(110), PATIENCE));
        progress.request_ends();
        assert!(!progress.is_overdue(at(110), PATIENCE));
    }

    #[test]
    fn a_body_must_bring_its_least_in_each_span() {
        let progress = progress();
        progress.request_begins();
        progress.body_begins();
        let least = 5 * BODY_BYTES_PER_SECOND as usize;
        progress.received(least);
        assert!(!progress.is_overdue(at(105), PATIENCE));
        progress.received(least - 1);
        assert!(!progress.is_overdue(at(109), PATIENCE));
        assert!(progress.is_overdue(at(110), PATIENCE));
    }

    #[test]
    fn a_late_body_is_told_to_its_reader_and_other_delays_end_the_connection() {
        let progress = progress();
        progress.request_begins();
        progress.body_begins();
        progress.sweep(at(105), PATIENCE);
        assert_eq!(
            (progress.is_body_late(), progress.is_cut.get()),
            (true, false)
        );
        progress.blocked();
        progress.sweep(at(130), PATIENCE);
        assert!(progress.is_cut.get(), "the answer is not taken either");
    }

    #[test]
    fn an_answer_must_be_taken_whatever_the_phase() {
        let progress = progress();
        progress.request_begins();
        progress.blocked();
        progress.now.set(at(120));
        progress.blocked();
        assert!(!progress.is_overdue(at(129), PATIENCE));
        assert!(progress.is_overdue(at(130), PATIENCE));
        progress.blocked_since.set(None);
        assert!(!progress.is_overdue(at(130), PATIENCE));
    }
}
