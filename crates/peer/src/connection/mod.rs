//! A connection after its handshake: one task reads, acts and writes.
//!
//! A turn of the task reads what has arrived, lets its side act on each frame, and
//! then writes everything that was queued in the meantime. So a hundred requests
//! cost one system call to read, one wake, and one system call to write their
//! answers.
//!
//! A turn that has little to write leaves it to the next turn, after the runtime has polled for
//! events. Frames that these events cause, here or at clients' connections, join the same write,
//! and the other side reads them at once. No frame waits for a second poll. An idle connection pays
//! one poll for this, a busy one saves system calls and wakes on both sides.

pub(crate) mod assembly;
pub(crate) mod outgoing;

use crate::Stream;
use crate::handshake::StartWatch;
use crate::wire::frame::{Decoder, Frame, FrameError};
use base::Clock;
use outgoing::Outgoing;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

/// The most reads in one turn, so that a peer that always sends more does not keep
/// the runtime to itself.
const READS_PER_TURN: usize = 8;

/// A stream whose handshake has succeeded, and the bytes read from it.
pub(crate) struct Connection {
    /// The stream.
    pub(crate) stream: Box<dyn Stream>,
    /// The frames in those bytes.
    pub(crate) decoder: Decoder,
    /// Whether the other side has restarted since the handshake.
    pub(crate) start: StartWatch,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    /// The other side closed it.
    #[error("the other side closed the connection")]
    Closed,
    /// The network failed.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// The other side sent something malformed.
    #[error("closed because the other side sent {0}")]
    Malformed(#[from] FrameError),
    /// The other side was silent for too long.
    #[error("the other side has been silent for too long")]
    Silent,
    /// The other node, or a copy of it, has connected with a later start.
    #[error("the other node has connected with a later start")]
    Superseded,
    /// The other node's store was rebuilt, and this node has to learn which starts it
    /// includes now.
    #[error("closed to shake hands again, because the other node's store was rebuilt")]
    Rebuilt,
}

/// One side of a connection: the dialler's or the acceptor's.
pub(crate) trait Side {
    /// What is to be sent.
    fn outgoing(&self) -> &Outgoing;

    /// Whether the side can take more frames. While it cannot, nothing is read.
    fn can_take(&self) -> bool;

    /// Notes that the other side has sent so many bytes.
    fn heard(&mut self, bytes: usize, now: Duration);

    /// Acts on a frame.
    ///
    /// # Errors
    /// What is wrong with the frame.
    fn take(&mut self, frame: Frame<'_>, now: Duration) -> Result<(), FrameError>;

    /// Polls the side's timers; ready when the connection must close.
    fn poll_timers(&mut self, cx: &mut Context<'_>) -> Poll<End>;
}

impl Connection {
    /// Runs the connection until it ends.
    pub(crate) async fn run(mut self, clock: &dyn Clock, side: &mut impl Side) -> End {
        poll_fn(|cx| {
            side.outgoing().begin_turn();
            let result = self.turn(cx, clock, side);
            side.outgoing().end_turn(cx.waker());
            match result {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(end)) | Err(end) => Poll::Ready(end),
            }
        })
        .await
    }

    fn turn(
        &mut self,
        cx: &mut Context<'_>,
        clock: &dyn Clock,
        side: &mut impl Side,
    ) -> Result<Poll<End>, End> {
        let now = clock.monotonic();
        // Frames that arrived together with the handshake come first.
        self.take_all(side, now)?;
        let mut reads = 0;
        while side.can_take() && reads < READS_PER_TURN {
            match self.decoder.poll_fill(cx, &mut *self.stream) {
                Poll::Ready(Ok(0)) => return Err(End::Closed),
                // TLS reports an end that was not announced as an error.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(End::Closed);
                }
                Poll::Ready(Ok(bytes)) => side.heard(bytes, now),
                Poll::Ready(Err(error)) => return Err(error.into()),
                Poll::Pending => break,
            }
            self.take_all(side, now)?;
            reads += 1;
        }
        if self.start.is_superseded() {
            return Err(End::Superseded);
        }
        let could_take = side.can_take();
        // After the reads, so that frames which arrived while this node was paused
        // count before the timers judge the silence.
        if let Poll::Ready(end) = side.poll_timers(cx) {
            return Ok(Poll::Ready(end));
        }
        if side.outgoing().poll_gather(cx).is_pending() {
            return Ok(Poll::Pending);
        }
        if let Poll::Ready(written) = side.outgoing().poll_flush(cx, &mut *self.stream, now) {
            written?;
        }
        if reads == READS_PER_TURN || (!could_take && side.can_take()) {
            cx.waker().wake_by_ref();
        }
        Ok(Poll::Pending)
    }

    fn take_all(&mut self, side: &mut impl Side, now: Duration) -> Result<(), End> {
        while side.can_take()
            && let Some(frame) = self.decoder.next()?
        {
            if self.start.is_superseded() {
                return Err(End::Superseded);
            }
            side.take(frame, now)?;
        }
        Ok(())
    }
}
