//! Budgets for the bodies of requests that are being received.

use super::places::{Place, Places};
use crate::wait_sites;
use base::{Budget, LONG_VALUE_BYTES, Refused, Share};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// By how many bytes at a time the share of a long body grows.
const UPLOAD_STEP_BYTES: usize = 256 << 10;

/// Budgets for the bodies of requests that are being received, in bytes.
///
/// A body counts by the bytes that were received, not by those that were announced,
/// so that a body that never arrives takes no room from others. Short bodies have a
/// budget of their own, so that slow long bodies do not keep them out.
///
/// A write keeps its body until the last replica has it or a hint is kept for it, which may be
/// `--timeout` after its client has the answer. A client that sends the next body at once must
/// not be refused because of that. So a body that finds no room waits that long for some: in
/// line, before any of it is read. A body of which a part is here waits only if nobody else
/// does, so two that lack memory do not wait for each other's.
pub(crate) struct Uploads {
    short: Room,
    long: Room,
    /// How long a body waits.
    wait_max: Duration,
}

/// A budget, and the line of those who wait for a part of it.
struct Room {
    budget: Arc<Budget>,
    /// One place: its owner is woken when a part of the budget is freed.
    line: Places,
}

/// Who waits for room, at the head of the line.
pub(crate) struct RoomWait {
    budget: Arc<Budget>,
    ends: Pin<Box<Sleep>>,
    _place: Place,
}

impl Uploads {
    /// A budget of `short_bytes` for bodies of which up to [`LONG_VALUE_BYTES`] were
    /// received, and one of `long_bytes` for longer ones. For each so many may wait, for so long.
    pub(crate) fn new(
        (short_bytes, long_bytes): (usize, usize),
        waiting_max: usize,
        wait_max: Duration,
    ) -> Self {
        Self {
            short: Room::new(short_bytes, waiting_max),
            long: Room::new(long_bytes, waiting_max),
            wait_max,
        }
    }

    /// How many bytes are in use.
    pub(crate) fn used(&self) -> usize {
        self.short.budget.used() + self.long.budget.used()
    }

    /// Waits until a body of this length would fit. This reserves nothing, so the body may be
    /// refused later all the same.
    ///
    /// # Errors
    /// [`Refused`] when it does not fit in time, or too many wait, so that the client need not
    /// send it.
    pub(crate) async fn wait_for_room(&self, announced_bytes: usize) -> Result<(), Refused> {
        let room = self.room(announced_bytes);
        if announced_bytes > room.budget.max() {
            return Err(Refused);
        }
        if room.is_free(announced_bytes) {
            return Ok(());
        }
        let until = self.deadline();
        let place = room.line.take(self.wait_max).await?;
        let mut wait = RoomWait::new(room, place, until);
        poll_fn(|cx| wait.poll(announced_bytes, cx)).await
    }

    /// Makes `share` cover the `bytes` that were received of a body that has at most
    /// `bytes_max`.
    ///
    /// # Errors
    /// [`Refused`] when the budget is used up.
    pub(crate) fn cover(
        &self,
        share: &mut Option<Share>,
        bytes: usize,
        bytes_max: usize,
    ) -> Result<(), Refused> {
        let more = self.lacking(share.as_ref(), bytes, bytes_max);
        if more == 0 {
            return Ok(());
        }
        let budget = &self.room(bytes).budget;
        match share {
            Some(share) if share.is_of(budget) => share.grow(more),
            _ => {
                *share = Some(budget.take(more)?);
                Ok(())
            }
        }
    }

    /// As [`Uploads::cover`], but waits for room as [`Uploads`] says.
    ///
    /// # Errors
    /// [`Refused`] when the budget stays used up.
    pub(crate) async fn cover_patiently(
        &self,
        share: &mut Option<Share>,
        bytes: usize,
        bytes_max: usize,
    ) -> Result<(), Refused> {
        if self.cover(share, bytes, bytes_max).is_ok() {
            return Ok(());
        }
        let mut wait = self.begin_wait(bytes, self.deadline())?;
        loop {
            let more = self.lacking(share.as_ref(), bytes, bytes_max);
            poll_fn(|cx| wait.poll(more, cx)).await?;
            if self.cover(share, bytes, bytes_max).is_ok() {
                return Ok(());
            }
        }
    }

    /// Until when a body waits that begins to wait now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.wait_max
    }

    /// Begins to wait for room for a body of which so many bytes were received.
    ///
    /// # Errors
    /// [`Refused`] if anybody else waits.
    pub(crate) fn begin_wait(&self, bytes: usize, until: Instant) -> Result<RoomWait, Refused> {
        let room = self.room(bytes);
        let place = room.line.take_at_once()?;
        Ok(RoomWait::new(room, place, until))
    }

    /// How much more a share takes to cover so many bytes.
    pub(crate) fn lacking(&self, share: Option<&Share>, bytes: usize, bytes_max: usize) -> usize {
        if bytes <= share.map_or(0, Share::amount) {
            return 0;
        }
        let room = self.room(bytes);
        let wanted = if bytes <= LONG_VALUE_BYTES {
            bytes
        } else {
            let stepped = bytes
                .checked_next_multiple_of(UPLOAD_STEP_BYTES)
                .unwrap_or(bytes);
            stepped.min(bytes_max).max(bytes)
        };
        let covered = share.filter(|share| share.is_of(&room.budget));
        wanted - covered.map_or(0, Share::amount)
    }

    fn room(&self, bytes: usize) -> &Room {
        match bytes <= LONG_VALUE_BYTES {
            true => &self.short,
            false => &self.long,
        }
    }
}

impl Room {
    fn new(bytes: usize, waiting_max: usize) -> Self {
        Self {
            budget: Budget::new(bytes),
            line: Places::new(1, waiting_max, &wait_sites::UPLOAD_ROOM),
        }
    }

    /// Whether so much is free, and nobody waits.
    fn is_free(&self, bytes: usize) -> bool {
        let free = self.budget.max().saturating_sub(self.budget.used());
        bytes <= free && self.line.used() == 0
    }
}

impl RoomWait {
    fn new(room: &Room, place: Place, until: Instant) -> Self {
        Self {
            budget: Arc::clone(&room.budget),
            ends: Box::pin(tokio::time::sleep_until(until)),
            _place: place,
        }
    }

    /// Waits until so much is free.
    ///
    /// # Errors
    /// [`Refused`] when it is not in time, or never can be.
    pub(crate) fn poll(&mut self, bytes: usize, cx: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        if bytes > self.budget.max() {
            return Poll::Ready(Err(Refused));
        }
        if self.budget.poll_free(bytes, cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        ready!(self.ends.as_mut().poll(cx));
        Poll::Ready(Err(Refused))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Waker;

    const STEP: usize = UPLOAD_STEP_BYTES;

    /// Room for four steps, for which `waiting_max` wait for an hour.
    fn four_steps(waiting_max: usize) -> Uploads {
        let bytes = (LONG_VALUE_BYTES, 4 * STEP);
        Uploads::new(bytes, waiting_max, Duration::from_secs(3600))
    }

    fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn a_body_waits_in_line_for_what_those_before_it_hold() {
        let uploads = four_steps(1);
        let mut answered = None;
        uploads.cover(&mut answered, 3 * STEP, usize::MAX).unwrap();
        let mut next = pin!(uploads.wait_for_room(2 * STEP));
        assert!(poll(next.as_mut()).is_pending());
        // Its turn comes later, although it would fit.
        let mut behind = pin!(uploads.wait_for_room(STEP));
        assert!(poll(behind.as_mut()).is_pending());
        assert_eq!(uploads.wait_for_room(STEP).await, Err(Refused), "too many");
        assert_eq!(uploads.wait_for_room(5 * STEP).await, Err(Refused), "never");
        assert_eq!(uploads.wait_for_room(LONG_VALUE_BYTES).await, Ok(()));
        drop(answered);
        assert_eq!(next.await, Ok(()));
        assert_eq!(behind.await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_for_so_long_and_no_longer() {
        let uploads = four_steps(1);
        let mut answered = None;
        uploads.cover(&mut answered, 3 * STEP, usize::MAX).unwrap();
        let began = Instant::now();
        assert_eq!(uploads.wait_for_room(2 * STEP).await, Err(Refused));
        assert_eq!(began.elapsed(), Duration::from_secs(3600));
    }

    #[tokio::test]
    async fn of_bodies_that_are_partly_here_one_waits_and_the_others_give_way() {
        let uploads = four_steps(1);
        let [mut first, mut second] = [None, None];
        uploads.cover(&mut first, 2 * STEP, usize::MAX).unwrap();
        uploads.cover(&mut second, 2 * STEP, usize::MAX).unwrap();
        let mut growing = pin!(uploads.cover_patiently(&mut first, 3 * STEP, usize::MAX));
        assert!(poll(growing.as_mut()).is_pending());
        let refused = uploads.cover_patiently(&mut second, 3 * STEP, usize::MAX);
        assert_eq!(refused.await, Err(Refused));
        drop(second);
        assert_eq!(growing.await, Ok(()));
        assert_eq!(uploads.used(), 3 * STEP);
    }

    #[tokio::test]
    async fn a_body_counts_by_its_received_bytes_and_a_long_one_leaves_room_for_short_ones() {
        let (short, long) = (2 * LONG_VALUE_BYTES, 1 << 20);
        let uploads = Uploads::new((short, long), 0, Duration::ZERO);
        let bytes_max = long;
        let mut slow = None;
        uploads.cover(&mut slow, 1, bytes_max).unwrap();
        assert_eq!(uploads.used(), 1, "announced bytes do not count");
        uploads
            .cover(&mut slow, LONG_VALUE_BYTES + 1, bytes_max)
            .unwrap();
        assert_eq!(
            (uploads.short.budget.used(), uploads.long.budget.used()),
            (0, UPLOAD_STEP_BYTES)
        );
        assert!(uploads.wait_for_room(long).await.is_err());
        assert_eq!(uploads.wait_for_room(long - STEP).await, Ok(()));
        uploads.cover(&mut slow, long, bytes_max).unwrap();
        assert_eq!(uploads.used(), long);
        let mut other = None;
        assert!(
            uploads
                .cover(&mut other, LONG_VALUE_BYTES + 1, bytes_max)
                .is_err()
        );
        uploads
            .cover(&mut other, LONG_VALUE_BYTES, bytes_max)
            .unwrap();
        assert_eq!(uploads.wait_for_room(LONG_VALUE_BYTES).await, Ok(()));
        drop((slow, other));
        assert_eq!(uploads.used(), 0);
    }
}
