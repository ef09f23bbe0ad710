//! Permits: how many may run at a time, and how many may wait for that.
//!
//! Who finds a free permit runs at once. When none is free, a bounded number waits in a
//! queue, in the order of their arrival and up to their deadlines. Every further one is
//! refused at once. A permit returns when its guard is dropped, however its holder ended.
//!
//! All of it belongs to one thread, so the hot path needs no atomics.
//!
//! A batch takes many permits ([`BatchPermits`]). All batches together hold at most half of
//! them, and a batch waits instead of being refused. While both wait, permits that return go
//! to batches and to others in turn.

mod batch_permits;

pub use batch_permits::BatchPermits;

use super::Refused;
use batch_permits::BatchQueue;
use profile::{Stopwatch, WaitSite};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How many may run at a time on one thread.
pub struct Permits {
    in_flight: Cell<usize>,
    in_flight_max: usize,
    queued_max: usize,
    queue: RefCell<Queue>,
    batches: BatchQueue,
    /// Where the profile of the waits counts those in the queue.
    site: Option<&'static WaitSite>,
}

#[derive(Default)]
struct Queue {
    entries: Slab<QueueEntry>,
    /// The keys of the entries that wait, in the order of their arrival.
    order: VecDeque<usize>,
}

struct QueueEntry {
    waker: Option<Waker>,
    deadline: Duration,
    state: QueueState,
    stopwatch: Stopwatch,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum QueueState {
    Queued,
    /// It has a permit, which it has not picked up yet.
    Granted,
    Expired,
}

/// Lets its holder run, until it is dropped.
pub struct Permit {
    permits: Rc<Permits>,
}

/// Somebody who waits in the queue; as a future it resolves to a [`Permit`].
pub struct QueuedPermit {
    permits: Rc<Permits>,
    number: usize,
}

/// How somebody is admitted.
pub enum Admitted {
    /// It may run.
    Granted(Permit),
    /// It has to wait.
    Queued(QueuedPermit),
}

impl Permits {
    /// So many permits, for which nobody waits.
    #[must_use]
    pub fn new(in_flight_max: usize) -> Rc<Self> {
        Self::build(in_flight_max, 0, None)
    }

    /// So many permits, and a queue for `queued_max` who wait. The profile of the waits counts
    /// them at `site`.
    #[must_use]
    pub fn with_queue(
        in_flight_max: usize,
        queued_max: usize,
        site: &'static WaitSite,
    ) -> Rc<Self> {
        Self::build(in_flight_max, queued_max, Some(site))
    }

    fn build(in_flight_max: usize, queued_max: usize, site: Option<&'static WaitSite>) -> Rc<Self> {
        Rc::new(Self {
            in_flight: Cell::new(0),
            in_flight_max,
            queued_max,
            queue: RefCell::default(),
            batches: BatchQueue::new((in_flight_max / 2).max(1)),
            site,
        })
    }

    /// How many run.
    pub fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    /// How many wait.
    pub fn queued(&self) -> usize {
        self.queue.borrow().entries.len()
    }

    /// How many more [`Permits::admit`] would take, to run or to wait.
    pub fn left(&self) -> usize {
        let in_flight = self.in_flight_max.saturating_sub(self.in_flight.get());
        in_flight + self.queued_max.saturating_sub(self.queued())
    }

    /// Whether [`Permits::admit`] would refuse.
    pub fn is_full(&self) -> bool {
        self.left() == 0
    }

    /// Takes a permit, if one is free.
    #[must_use]
    pub fn try_take(self: &Rc<Self>) -> Option<Permit> {
        // While anybody is in the queue, no permit is free: one that returns goes to the first in the
        // queue. So nobody overtakes the queue.
        let in_flight = self.in_flight.get();
        (in_flight < self.in_flight_max).then(|| {
            self.in_flight.set(in_flight + 1);
            Permit {
                permits: Rc::clone(self),
            }
        })
    }

    /// Takes a permit, or waits for one until `deadline` at most.
    ///
    /// # Errors
    /// [`Refused`] when all permits are taken and the queue is full.
    pub fn admit(self: &Rc<Self>, deadline: Duration) -> Result<Admitted, Refused> {
        if let Some(permit) = self.try_take() {
            return Ok(Admitted::Granted(permit));
        }
        if self.is_full() {
            return Err(Refused);
        }
        let mut queue = self.queue.borrow_mut();
        let number = queue.entries.insert(QueueEntry {
            waker: None,
            deadline,
            state: QueueState::Queued,
            stopwatch: Stopwatch::start(),
        });
        queue.order.push_back(number);
        Ok(Admitted::Queued(QueuedPermit {
            permits: Rc::clone(self),
            number,
        }))
    }

    /// Refuses those in the queue whose deadline has passed.
    pub fn expire(&self, now: Duration) {
        let mut wakers = Vec::new();
        {
            let Queue { entries, order } = &mut *self.queue.borrow_mut();
            order.retain(|number| {
                let Some(entry) = entries.get_mut(*number) else {
                    return false;
                };
                if entry.deadline > now {
                    return true;
                }
                entry.state = QueueState::Expired;
                wakers.extend(entry.waker.take());
                false
            });
        }
        for waker in wakers {
            waker.wake();
        }
    }

    /// Passes a permit on to a batch or to the first in the queue, or frees it.
    fn release(&self) {
        let mut queue = self.queue.borrow_mut();
        if self.batches.grant(!queue.order.is_empty()) {
            return;
        }
        let first = queue.order.pop_front();
        match first.and_then(|number| queue.entries.get_mut(number)) {
            Some(entry) => {
                entry.state = QueueState::Granted;
                let waker = entry.waker.take();
                drop(queue);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            None => self.in_flight.set(self.in_flight.get().saturating_sub(1)),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.release();
    }
}

impl Future for QueuedPermit {
    type Output = Result<Permit, Refused>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut queue = self.permits.queue.borrow_mut();
        let Some(entry) = queue.entries.get_mut(self.number) else {
            return Poll::Ready(Err(Refused));
        };
        match entry.state {
            QueueState::Queued => {
                entry.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            QueueState::Granted => {
                // The guard releases the permit from now on, not this entry.
                entry.state = QueueState::Expired;
                drop(queue);
                Poll::Ready(Ok(Permit {
                    permits: Rc::clone(&self.permits),
                }))
            }
            QueueState::Expired => Poll::Ready(Err(Refused)),
        }
    }
}

impl Drop for QueuedPermit {
    fn drop(&mut self) {
        let mut queue = self.permits.queue.borrow_mut();
        let entry = queue.entries.try_remove(self.number);
        let state = entry.map(|entry| {
            if let Some(site) = self.permits.site {
                entry.stopwatch.stop(site);
            }
            entry.state
        });
        if state == Some(QueueState::Queued) {
            queue.order.retain(|number| *number != self.number);
        }
        drop(queue);
        if state == Some(QueueState::Granted) {
            self.permits.release();
        }
    }
}

#[cfg(test)]
mod tests;
