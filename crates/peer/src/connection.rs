//! A connection once both sides know each other: one task reads, acts and writes.
//!
//! A turn of the task reads what has come, lets its side act on each frame,
//! and then writes what that and everything else has queued meanwhile. So a
//! hundred requests cost one system call to read, one wake, and one system
//! call to write their answers.

use super::Stream;
use super::frame::{Decoder, Frame, FrameError};
use super::outgoing::Outgoing;
use crate::start_watch::StartWatch;
use base::Clock;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

/// So many reads a turn: a peer that always has more to say must not keep the
/// runtime to itself.
const READS_PER_TURN: usize = 8;

/// A stream and what was read of it.
pub(super) struct Connection {
    /// The stream.
    pub(super) stream: Box<dyn Stream>,
    /// Its frames.
    pub(super) decoder: Decoder,
    /// Whether the other side's start is still the last that is known of it.
    pub(super) start: StartWatch,
}

/// How a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    /// The other side closed it.
    #[error("the other side closed the connection")]
    Closed,
    /// The network did.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// What came makes no sense.
    #[error("the connection is closed because of {0}")]
    Malformed(#[from] FrameError),
    /// The other side was silent for too long.
    #[error("the other side is silent")]
    Silent,
    /// The other node has started anew, or a copy of it has.
    #[error("the other node has come with another start")]
    Superseded,
}

/// What a side of a connection does.
pub(super) trait Side {
    /// What it has to send.
    fn outgoing(&self) -> &Outgoing;

    /// Whether it can take more: while it cannot, nothing is read.
    fn can_take(&self) -> bool;

    /// Something came.
    fn heard(&mut self, now: Duration);

    /// A frame came.
    ///
    /// # Errors
    /// What is wrong with it.
    fn take(&mut self, frame: Frame<'_>, now: Duration) -> Result<(), FrameError>;

    /// Its timers; ready when the connection is to be closed.
    fn poll_timers(&mut self, cx: &mut Context<'_>) -> Poll<End>;
}

impl Connection {
    /// Lets a side talk until the connection ends.
    pub(super) async fn run(mut self, clock: &dyn Clock, side: &mut impl Side) -> End {
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
        // Frames that came with the handshake, then what the stream has.
        self.take_all(side, now)?;
        let mut reads = 0;
        while side.can_take() && reads < READS_PER_TURN {
            match self.decoder.poll_fill(cx, &mut *self.stream)? {
                Poll::Ready(0) => return Err(End::Closed),
                Poll::Ready(_) => side.heard(now),
                Poll::Pending => break,
            }
            self.take_all(side, now)?;
            reads += 1;
        }
        if self.start.is_superseded() {
            return Err(End::Superseded);
        }
        let could_take = side.can_take();
        // After the reads: what came while this node stood still must count.
        if let Poll::Ready(end) = side.poll_timers(cx) {
            return Ok(Poll::Ready(end));
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
