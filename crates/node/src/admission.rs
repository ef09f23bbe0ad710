//! Admission: what a node takes on at a time, decided at the door.
//!
//! - [`Gate`]: requests in flight and requests that wait for that. Each
//!   runtime has its own with an even share of the bounds (the acceptor keeps
//!   the runtimes even), so that the hot path needs no atomics.
//! - [`Budget`]: bytes of long answers and of long heads, and ranges, over all runtimes.
//! - [`Uploads`]: bytes of bodies on their way in, counted as they arrive.
//! - [`TurnBudget`]: bytes of ranges' batches, which are waited for in turn.
//!
//! Uploads, long answers and ranges have budgets of their own, so that clients
//! that stall in one of them hold up nobody in another.
//!
//! Places are given back when their guards are dropped, whatever happened in
//! between.

use crate::waits;
use base::{Budget, LONG_VALUE_BYTES, Refused, Share};
use profile::Stopwatch;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The share of a long body grows by so many bytes at a time.
const UPLOAD_STEP_BYTES: usize = 256 << 10;

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
            waiting.stopwatch.stop(&waits::ADMISSION);
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

/// Bytes of bodies on their way in. A body counts by what has arrived of it,
/// so that one that is announced and does not come takes no room from others,
/// and short bodies have a budget of their own, so that long ones that are
/// slow to come do not keep them out.
#[derive(Debug)]
pub(crate) struct Uploads {
    short: Arc<Budget>,
    long: Arc<Budget>,
}

impl Uploads {
    /// So many bytes for bodies that have brought up to [`LONG_VALUE_BYTES`],
    /// and so many for longer ones.
    pub(crate) fn new(short_bytes: usize, long_bytes: usize) -> Self {
        Self {
            short: Budget::new(short_bytes),
            long: Budget::new(long_bytes),
        }
    }

    /// How many bytes are taken.
    pub(crate) fn used(&self) -> usize {
        self.short.used() + self.long.used()
    }

    /// Whether a body of this length would fit as things are, which is no promise.
    ///
    /// # Errors
    /// [`Refused`] when not: then it had better not begin.
    pub(crate) fn check_room(&self, announced_bytes: usize) -> Result<(), Refused> {
        let free = self.long.max().saturating_sub(self.long.used());
        if announced_bytes > LONG_VALUE_BYTES && announced_bytes > free {
            return Err(Refused);
        }
        Ok(())
    }

    /// Makes `share` cover the `bytes` that have arrived of a body that has at
    /// most `bytes_max`.
    ///
    /// # Errors
    /// [`Refused`] when there is not as much left.
    pub(crate) fn cover(
        &self,
        share: &mut Option<Share>,
        bytes: usize,
        bytes_max: usize,
    ) -> Result<(), Refused> {
        let covered = share.as_ref().map_or(0, Share::amount);
        if bytes <= covered {
            return Ok(());
        }
        let (budget, wanted) = if bytes <= LONG_VALUE_BYTES {
            (&self.short, bytes)
        } else {
            let stepped = bytes
                .checked_next_multiple_of(UPLOAD_STEP_BYTES)
                .unwrap_or(bytes);
            (&self.long, stepped.min(bytes_max).max(bytes))
        };
        match share {
            Some(share) if share.is_of(budget) => share.grow(wanted - covered),
            _ => {
                *share = Some(budget.take(wanted)?);
                Ok(())
            }
        }
    }
}

/// Bytes over all runtimes that are waited for in turn.
#[derive(Debug)]
pub(crate) struct TurnBudget {
    free: Arc<Semaphore>,
    max: usize,
}

/// A part of a [`TurnBudget`], until it is dropped.
#[derive(Debug)]
pub(crate) struct Allotment(OwnedSemaphorePermit);

impl TurnBudget {
    /// A budget of `max` bytes, all of it free.
    pub(crate) fn new(max: usize) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(max)),
            max,
        }
    }

    /// How many bytes are taken.
    pub(crate) fn used(&self) -> usize {
        self.max.saturating_sub(self.free.available_permits())
    }

    /// Waits until so many bytes are free, behind those who came before, and
    /// takes them; no more than there are.
    ///
    /// # Errors
    /// None in practice: the budget is never closed.
    pub(crate) async fn take(&self, bytes: usize) -> Result<Allotment, Refused> {
        let bytes = u32::try_from(bytes.min(self.max)).unwrap_or(u32::MAX);
        let stopwatch = Stopwatch::start();
        let taken = Arc::clone(&self.free).acquire_many_owned(bytes).await;
        stopwatch.stop(&waits::RANGE_MEMORY);
        taken.map(Allotment).map_err(|_| Refused)
    }
}

impl Allotment {
    /// Gives back what is above `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let excess = self.0.num_permits().saturating_sub(bytes);
        drop(self.0.split(excess));
    }
}

#[cfg(test)]
mod tests;
