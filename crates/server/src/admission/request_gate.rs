//! The gate: how many requests run at a time, and how many may wait.
//!
//! A request that finds a free permit runs at once. When no permit is free, a
//! bounded number of requests waits in a queue, in the order of their arrival and
//! up to their deadlines. Every further request is refused at once.
//!
//! Each runtime has a gate of its own with an even share of the bounds, so the hot
//! path needs no atomics. The acceptor keeps the runtimes' connections even.
//!
//! A permit returns when its guard is dropped, however the request ended.
//!
//! The operations of batches need permits, too (`batch_permits`). All batches together
//! hold at most half of them, and a batch waits instead of being refused. While requests
//! and batches wait, permits that return go to both in turn.

mod batch_permits;

pub(crate) use batch_permits::BatchPermits;

use crate::wait_sites;
use base::Refused;
use batch_permits::BatchQueue;
use profile::Stopwatch;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Admits the requests of one runtime.
pub(crate) struct Gate {
    in_flight: Cell<usize>,
    in_flight_max: usize,
    queued_max: usize,
    queue: RefCell<Queue>,
    batches: BatchQueue,
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
    /// The request has a permit, which it has not picked up yet.
    Granted,
    Expired,
}

/// Lets one request run, until it is dropped.
pub(crate) struct Permit {
    gate: Rc<Gate>,
}

/// A request that waits in the queue; as a future it resolves to its [`Permit`].
pub(crate) struct QueuedRequest {
    gate: Rc<Gate>,
    number: usize,
}

/// How the gate admits a request.
pub(crate) enum Admission {
    /// The request may run.
    Granted(Permit),
    /// The request has to wait.
    Queued(QueuedRequest),
}

impl Gate {
    /// A gate for `in_flight_max` requests, and `queued_max` more that wait.
    pub(crate) fn new(in_flight_max: usize, queued_max: usize) -> Rc<Self> {
        Rc::new(Self {
            in_flight: Cell::new(0),
            in_flight_max,
            queued_max,
            queue: RefCell::default(),
            batches: BatchQueue::new((in_flight_max / 2).max(1)),
        })
    }

    /// The number of requests that run.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    /// The number of requests that wait.
    pub(crate) fn queued(&self) -> usize {
        self.queue.borrow().entries.len()
    }

    /// How many more requests [`Gate::admit`] would take, to run or to wait.
    pub(crate) fn room(&self) -> usize {
        let in_flight = self.in_flight_max.saturating_sub(self.in_flight.get());
        in_flight + self.queued_max.saturating_sub(self.queued())
    }

    /// Whether [`Gate::admit`] would refuse a request.
    pub(crate) fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// Admits a request. If it has to wait, it waits until `deadline` at most.
    ///
    /// # Errors
    /// [`Refused`] when all permits are taken and the queue is full.
    pub(crate) fn admit(self: &Rc<Self>, deadline: Duration) -> Result<Admission, Refused> {
        // While requests wait, no permit is free: a permit that returns goes to
        // the first in the queue. So a new request cannot overtake the queue.
        if self.in_flight.get() < self.in_flight_max {
            self.in_flight.set(self.in_flight.get() + 1);
            return Ok(Admission::Granted(Permit {
                gate: Rc::clone(self),
            }));
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
        Ok(Admission::Queued(QueuedRequest {
            gate: Rc::clone(self),
            number,
        }))
    }

    /// Refuses the queued requests whose deadline has passed.
    pub(crate) fn expire(&self, now: Duration) {
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
        self.gate.release();
    }
}

impl Future for QueuedRequest {
    type Output = Result<Permit, Refused>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut queue = self.gate.queue.borrow_mut();
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
                    gate: Rc::clone(&self.gate),
                }))
            }
            QueueState::Expired => Poll::Ready(Err(Refused)),
        }
    }
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        let mut queue = self.gate.queue.borrow_mut();
        let entry = queue.entries.try_remove(self.number);
        let state = entry.map(|entry| {
            entry.stopwatch.stop(&wait_sites::ADMISSION);
            entry.state
        });
        if state == Some(QueueState::Queued) {
            queue.order.retain(|number| *number != self.number);
        }
        drop(queue);
        if state == Some(QueueState::Granted) {
            self.gate.release();
        }
    }
}

#[cfg(test)]
mod tests;
