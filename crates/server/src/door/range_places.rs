//! Places of ranges. Each holds memory that no budget counts, so their number is bounded, and
//! they last as long as their clients read.
//!
//! Most ranges are short, so one that finds no place waits in line for a while, as a request
//! waits for its permit. It holds nothing meanwhile: neither memory, nor a permit, nor anything
//! of another node. The line is bounded, too.

use crate::wait_sites;
use base::Refused;
use profile::Stopwatch;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of the ranges of all runtimes, and the line before them.
pub(crate) struct RangePlaces {
    free: Arc<Semaphore>,
    max: usize,
    waiting: AtomicUsize,
    waiting_max: usize,
}

/// The place of one range, until this is dropped.
pub(crate) struct RangePlace {
    _permit: OwnedSemaphorePermit,
}

/// One that waits in line, until this is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl RangePlaces {
    /// So many places, all of them free, and room for so many ranges that wait.
    pub(crate) fn new(max: usize, waiting_max: usize) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(max)),
            max,
            waiting: AtomicUsize::new(0),
            waiting_max,
        }
    }

    /// How many are taken.
    pub(crate) fn used(&self) -> usize {
        self.max.saturating_sub(self.free.available_permits())
    }

    /// How many ranges wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How many may wait.
    pub(crate) fn waiting_max(&self) -> usize {
        self.waiting_max
    }

    /// Takes a place, behind those that came before; waits for so long at most.
    ///
    /// # Errors
    /// [`Refused`] at once if too many wait, and later if no place has become free.
    pub(crate) async fn take(&self, wait_max: Duration) -> Result<RangePlace, Refused> {
        // Nobody waits while a place is free, so this overtakes nobody.
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Ok(RangePlace { _permit: permit });
        }
        let _waiting = self.join_line()?;
        let stopwatch = Stopwatch::start();
        let taken = Arc::clone(&self.free).acquire_owned();
        let taken = tokio::time::timeout(wait_max, taken).await;
        stopwatch.stop(&wait_sites::RANGE_PLACE);
        match taken {
            Ok(Ok(permit)) => Ok(RangePlace { _permit: permit }),
            _ => Err(Refused),
        }
    }

    fn join_line(&self) -> Result<Waiting<'_>, Refused> {
        let order = Ordering::Relaxed;
        let joined = self.waiting.fetch_update(order, order, |waiting| {
            (waiting < self.waiting_max).then_some(waiting + 1)
        });
        joined.map(|_| Waiting(&self.waiting)).map_err(|_| Refused)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn ranges_wait_in_turn_and_in_a_line_that_is_bounded() {
        let places = RangePlaces::new(1, 2);
        let mut context = Context::from_waker(Waker::noop());
        let first = places.take(LONG).await.unwrap();
        assert_eq!((places.used(), places.waiting()), (1, 0));
        let mut second = Box::pin(places.take(LONG));
        assert!(second.as_mut().poll(&mut context).is_pending());
        let mut third = Box::pin(places.take(LONG));
        assert!(third.as_mut().poll(&mut context).is_pending());
        let refused = pin!(places.take(LONG)).poll(&mut context);
        assert!(matches!(refused, Poll::Ready(Err(Refused))));
        assert_eq!((places.used(), places.waiting()), (1, 2));
        drop(first);
        assert!(third.as_mut().poll(&mut context).is_pending(), "in turn");
        let Poll::Ready(Ok(second)) = second.as_mut().poll(&mut context) else {
            panic!("the second is next");
        };
        assert_eq!((places.used(), places.waiting()), (1, 1));
        drop(third);
        assert_eq!(places.waiting(), 0, "a client that leaves leaves the line");
        drop(second);
        assert_eq!(places.used(), 0);
    }

    #[tokio::test]
    async fn who_waits_too_long_is_refused() {
        let places = RangePlaces::new(1, 1);
        let first = places.take(LONG).await.unwrap();
        let late = places.take(Duration::ZERO).await;
        assert!(late.is_err());
        assert_eq!(places.waiting(), 0);
        drop(first);
        assert!(places.take(Duration::ZERO).await.is_ok());
    }
}
