//! Requests in flight, and those that wait to be. Each runtime has a gate of
//! its own with an even share of the bounds (the acceptor keeps the runtimes
//! even), so that the hot path needs no atomics.
//!
//! Places are given back when their guards are dropped, whatever happened in
//! between.

use crate::wait_sites;
use base::Refused;
use profile::Stopwatch;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Counts the requests of one runtime.
pub(crate) struct Gate {
    in_flight: Cell<usize>,
    in_flight_max: usize,
    queued_max: usize,
    /// Those who wait, and the order in which they came.
    queue: RefCell<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: Slab<Waiting>,
    order: VecDeque<usize>,
}

struct Waiting {
    waker: Option<Waker>,
    deadline: Duration,
    state: WaitingState,
    stopwatch: Stopwatch,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitingState {
    Queued,
    /// The place of one who left was handed over and counts as taken.
    Granted,
    Expired,
}

/// A request's place among those in flight.
pub(crate) struct Place {
    gate: Rc<Gate>,
}

/// A request's place in the queue; as a future it gives a [`Place`].
pub(crate) struct Queued {
    gate: Rc<Gate>,
    number: usize,
}

/// What the gate says to a request.
pub(crate) enum Entrance {
    /// Come in.
    Open(Place),
    /// Wait for your turn.
    Queue(Queued),
}

impl Gate {
    /// A gate for `in_flight_max` requests and `queued_max` more that wait.
    pub(crate) fn new(in_flight_max: usize, queued_max: usize) -> Rc<Self> {
        Rc::new(Self {
            in_flight: Cell::new(0),
            in_flight_max,
            queued_max,
            queue: RefCell::default(),
        })
    }

    /// Requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    /// Requests that wait.
    pub(crate) fn queued(&self) -> usize {
        self.queue.borrow().waiting.len()
    }

    /// How many more requests [`Gate::enter`] would take.
    pub(crate) fn room(&self) -> usize {
        let in_flight = self.in_flight_max.saturating_sub(self.in_flight.get());
        in_flight + self.queued_max.saturating_sub(self.queued())
    }

    /// Whether [`Gate::enter`] would refuse.
    pub(crate) fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// Asks for a place; one in the queue is void after `deadline`.
    ///
    /// # Errors
    /// [`Refused`] when as many wait as may.
    pub(crate) fn enter(self: &Rc<Self>, deadline: Duration) -> Result<Entrance, Refused> {
        // A queue is only there while all places are taken: one that becomes
        // free is handed over, so nobody can overtake those who wait.
        if self.in_flight.get() < self.in_flight_max {
            self.in_flight.set(self.in_flight.get() + 1);
            return Ok(Entrance::Open(Place {
                gate: Rc::clone(self),
            }));
        }
        if self.is_full() {
            return Err(Refused);
        }
        let mut queue = self.queue.borrow_mut();
        let number = queue.waiting.insert(Waiting {
            waker: None,
            deadline,
            state: WaitingState::Queued,
            stopwatch: Stopwatch::start(),
        });
        queue.order.push_back(number);
        Ok(Entrance::Queue(Queued {
            gate: Rc::clone(self),
            number,
        }))
    }

    /// Sends away those who have waited until their deadline.
    pub(crate) fn expire(&self, now: Duration) {
        let mut wakers = Vec::new();
        {
            let Queue { waiting, order } = &mut *self.queue.borrow_mut();
            order.retain(|number| {
                let Some(who) = waiting.get_mut(*number) else {
                    return false;
                };
                if who.deadline > now {
                    return true;
                }
                who.state = WaitingState::Expired;
                wakers.extend(who.waker.take());
                false
            });
        }
        for waker in wakers {
            waker.wake();
        }
    }

    /// Hands a place on to the first who waits, or makes it free.
    fn leave(&self) {
        let mut queue = self.queue.borrow_mut();
        let first = queue.order.pop_front();
        match first.and_then(|number| queue.waiting.get_mut(number)) {
            Some(who) => {
                who.state = WaitingState::Granted;
                let waker = who.waker.take();
                drop(queue);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            None => self.in_flight.set(self.in_flight.get().saturating_sub(1)),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gate.leave();
    }
}

impl Future for Queued {
    type Output = Result<Place, Refused>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut queue = self.gate.queue.borrow_mut();
        let Some(who) = queue.waiting.get_mut(self.number) else {
            return Poll::Ready(Err(Refused));
        };
        match who.state {
            WaitingState::Queued => {
                who.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            WaitingState::Granted => {
                // The place now belongs to the guard, not to this wait.
                who.state = WaitingState::Expired;
                drop(queue);
                Poll::Ready(Ok(Place {
                    gate: Rc::clone(&self.gate),
                }))
            }
            WaitingState::Expired => Poll::Ready(Err(Refused)),
        }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let mut queue = self.gate.queue.borrow_mut();
        let waiting = queue.waiting.try_remove(self.number);
        let state = waiting.map(|waiting| {
            waiting.stopwatch.stop(&wait_sites::ADMISSION);
            waiting.state
        });
        if state == Some(WaitingState::Queued) {
            queue.order.retain(|number| *number != self.number);
        }
        drop(queue);
        if state == Some(WaitingState::Granted) {
            self.gate.leave();
        }
    }
}

#[cfg(test)]
mod tests;
