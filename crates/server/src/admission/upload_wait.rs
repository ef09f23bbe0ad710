//! How request bodies wait in line for memory.
//!
//! A body that has partly arrived comes before all that hold nothing. Of the others, one that does
//! not fit yet lets some pass that do. An admitted body has a **promise** of its length until it
//! has arrived, so that nobody else is admitted for the same bytes. A client may never send what it
//! announced, so promises do not bind for long: a body that has waited for [`PROMISE_WAIT_MAX`]
//! ignores them.

use base::{InLine, Promise, Quota, Refused, Turn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// How long a body heeds what others were promised: long enough for a long body to arrive over
/// a fast network.
const PROMISE_WAIT_MAX: Duration = Duration::from_secs(1);

/// A body that waits for memory, until this is dropped.
pub(crate) struct UploadWait {
    in_line: InLine,
    until: Instant,
    /// When it heeds no promises any more, and then when it ends.
    next: Pin<Box<Sleep>>,
}

impl UploadWait {
    /// Joins the line of the quota.
    ///
    /// # Errors
    /// [`Refused`] if too many wait.
    pub(super) fn begin(quota: &Arc<Quota>, turn: Turn, until: Instant) -> Result<Self, Refused> {
        let in_line = quota.join(turn)?;
        let now = Instant::now();
        let patience = PROMISE_WAIT_MAX.min(until.saturating_duration_since(now) / 2);
        Ok(Self {
            in_line,
            until,
            next: Box::pin(tokio::time::sleep_until(now + patience)),
        })
    }

    /// Waits until so much is free.
    ///
    /// # Errors
    /// [`Refused`] when it is not in time, or never can be.
    pub(crate) fn poll(&mut self, bytes: usize, cx: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        if bytes > self.in_line.quota().max() {
            return Poll::Ready(Err(Refused));
        }
        loop {
            if self.in_line.poll_free(bytes, cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            ready!(self.next.as_mut().poll(cx));
            if Instant::now() >= self.until {
                return Poll::Ready(Err(Refused));
            }
            self.next.as_mut().reset(self.until);
            self.in_line.ignore_promises();
        }
    }

    /// Ends a wait for so many bytes that has had success: nobody else is let in for them.
    pub(super) fn into_promise(self, bytes: usize) -> Promise {
        self.in_line.into_promise(bytes)
    }
}

#[cfg(test)]
mod tests;
