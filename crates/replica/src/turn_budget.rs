//! A budget of memory that requests wait for in turn: that of the batches and pages of ranges.

use crate::wait_sites;
use base::Refused;
use profile::Stopwatch;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A number of bytes, over all runtimes, for which requests wait in turn.
#[derive(Debug)]
pub struct TurnBudget {
    free: Arc<Semaphore>,
    max: usize,
}

/// A part of a `TurnBudget`, until it is dropped.
#[derive(Debug)]
pub struct Allotment(OwnedSemaphorePermit);

impl TurnBudget {
    /// A budget of `max` bytes, all of it free.
    pub fn new(max: usize) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(max)),
            max,
        }
    }

    /// The size of the budget, in bytes.
    pub fn max(&self) -> usize {
        self.max
    }

    /// How many bytes are taken.
    pub fn used(&self) -> usize {
        self.max.saturating_sub(self.free.available_permits())
    }

    /// Waits until `bytes` are free, behind the requests that came before, and takes them.
    /// Takes the whole budget if that is less.
    ///
    /// # Errors
    /// None in practice: the budget is never closed.
    pub async fn take(&self, bytes: usize) -> Result<Allotment, Refused> {
        let bytes = u32::try_from(bytes.min(self.max)).unwrap_or(u32::MAX);
        let stopwatch = Stopwatch::start();
        let taken = Arc::clone(&self.free).acquire_many_owned(bytes).await;
        stopwatch.stop(&wait_sites::RANGE_MEMORY);
        taken.map(Allotment).map_err(|_| Refused)
    }

    /// Adds `bytes` to a part if at most half of the budget is taken then. So whoever grows
    /// waits for nobody, and the other half is for those who have nothing yet. Returns whether
    /// it was added.
    pub fn grow_within_half(&self, allotment: &mut Allotment, bytes: usize) -> bool {
        if self.used().saturating_add(bytes) > self.max / 2 {
            return false;
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.free).try_acquire_many_owned(bytes);
        taken.map(|more| allotment.0.merge(more)).is_ok()
    }
}

impl Allotment {
    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.0.num_permits()
    }

    /// Returns what is above `bytes` to the budget.
    pub fn shrink_to(&mut self, bytes: usize) {
        let excess = self.0.num_permits().saturating_sub(bytes);
        drop(self.0.split(excess));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn requests_wait_for_bytes_in_turn_and_return_them_in_part() {
        let budget = TurnBudget::new(10);
        let mut context = Context::from_waker(Waker::noop());
        let mut first = pin!(budget.take(8));
        let Poll::Ready(Ok(mut allotment)) = first.as_mut().poll(&mut context) else {
            panic!("there is room");
        };
        let mut second = pin!(budget.take(9));
        assert!(second.as_mut().poll(&mut context).is_pending());
        let mut third = pin!(budget.take(1));
        assert!(
            third.as_mut().poll(&mut context).is_pending(),
            "the third waits behind the second"
        );
        allotment.shrink_to(1);
        assert!(matches!(
            second.as_mut().poll(&mut context),
            Poll::Ready(Ok(_))
        ));
        assert!(matches!(
            third.as_mut().poll(&mut context),
            Poll::Ready(Ok(_))
        ));
        drop(allotment);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn who_grows_leaves_half_to_those_who_have_nothing() {
        let budget = TurnBudget::new(10);
        let mut context = Context::from_waker(Waker::noop());
        let mut take = |bytes| match pin!(budget.take(bytes)).poll(&mut context) {
            Poll::Ready(Ok(allotment)) => allotment,
            _ => panic!("there is room"),
        };
        let mut long = take(2);
        assert!(budget.grow_within_half(&mut long, 3));
        assert!(!budget.grow_within_half(&mut long, 1));
        assert_eq!(budget.used(), 5);
        let short = take(5);
        assert!(!budget.grow_within_half(&mut long, 0), "nothing is spare");
        drop(short);
        drop(long);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_request_for_more_than_the_budget_waits_for_all_of_it() {
        let budget = TurnBudget::new(10);
        let mut take = pin!(budget.take(usize::MAX));
        let taken = take.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(taken, Poll::Ready(Ok(_))));
    }
}
