//! Places for which one waits in line: those of ranges.
//!
//! A range holds memory that no budget counts, so the number of ranges is bounded, and they last
//! as long as their clients read. Most ranges are short, so one that finds no place waits in line
//! for a while, as a request waits for its permit. It holds nothing meanwhile: neither memory,
//! nor a permit, nor anything of another node. The line is bounded, too.

use base::Refused;
use profile::{Stopwatch, WaitSite};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places that all runtimes share, and the line before them.
pub(crate) struct Places {
    free: Arc<Semaphore>,
    max: usize,
    waiting: AtomicUsize,
    waiting_max: usize,
    /// Where the profile of the waits counts those in line.
    site: &'static WaitSite,
}

/// A place, until this is dropped.
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
}

/// One that waits in line, until this is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Places {
    /// So many places, all of them free, and room for so many who wait.
    pub(crate) fn new(max: usize, waiting_max: usize, site: &'static WaitSite) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(max)),
            max,
            waiting: AtomicUsize::new(0),
            waiting_max,
            site,
        }
    }

    /// How many are taken.
    pub(crate) fn used(&self) -> usize {
        self.max.saturating_sub(self.free.available_permits())
    }

    /// How many wait.
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
    pub(crate) async fn take(&self, wait_max: Duration) -> Result<Place, Refused> {
        if let Ok(place) = self.take_at_once() {
            return Ok(place);
        }
        let _waiting = self.join_line()?;
        let stopwatch = Stopwatch::start();
        let taken = Arc::clone(&self.free).acquire_owned();
        let taken = tokio::time::timeout(wait_max, taken).await;
        stopwatch.stop(self.site);
        match taken {
            Ok(Ok(permit)) => Ok(Place { _permit: permit }),
            _ => Err(Refused),
        }
    }

    /// Takes a place that is free.
    ///
    /// # Errors
    /// [`Refused`] if none is.
    pub(crate) fn take_at_once(&self) -> Result<Place, Refused> {
        // Nobody waits while a place is free, so this overtakes nobody.
        let taken = Arc::clone(&self.free).try_acquire_owned();
        taken
            .map(|permit| Place { _permit: permit })
            .map_err(|_| Refused)
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

    static SITE: WaitSite = WaitSite::new("test;place");

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn those_who_wait_come_in_turn_and_in_a_line_that_is_bounded() {
        let places = Places::new(1, 2, &SITE);
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
        let places = Places::new(1, 1, &SITE);
        let first = places.take(LONG).await.unwrap();
        let late = places.take(Duration::ZERO).await;
        assert!(late.is_err());
        assert_eq!(places.waiting(), 0);
        drop(first);
        assert!(places.take(Duration::ZERO).await.is_ok());
    }
}
