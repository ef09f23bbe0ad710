//! Room for the bodies of requests: a budget, and the line of those that wait for a part of it.
//!
//! A body of which a part is here stands before all that hold nothing, and there is one such at
//! a time, lest two wait for each other's. Otherwise those that came first go first. But one
//! that does not fit yet lets pass those behind it that do, a bounded number of times: what it
//! wants need never become free while clients are slow.
//!
//! A body that is let in has a **promise** of its length until it is here, so that others are
//! not let in for the same bytes. A promise binds nobody for long, because the client need not
//! send a byte of what it announced: who has waited for [`PROMISE_WAIT_MAX`] heeds none.

use base::{Budget, Refused};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// How long a body heeds what others were promised: long enough for a long body to arrive over
/// a fast network.
const PROMISE_WAIT_MAX: Duration = Duration::from_secs(1);

/// How many may pass one that does not fit.
const PASSED_MAX: u32 = 64;

/// A budget, and the line of those who wait for a part of it.
pub(super) struct Room {
    pub(super) budget: Arc<Budget>,
    /// How many that hold nothing may wait behind the first.
    waiting_max: usize,
    /// How many are in line.
    waiting: AtomicUsize,
    line: Mutex<Line>,
    /// Wakes those in line that may go on.
    freed: Waker,
}

#[derive(Default)]
struct Line {
    waiters: VecDeque<Waiter>,
    /// What was promised to bodies that are not here yet.
    promised_bytes: usize,
    next_number: u64,
}

struct Waiter {
    number: u64,
    bytes: usize,
    is_partly_here: bool,
    heeds_promises: bool,
    passed: u32,
    waker: Option<Waker>,
}

/// Who waits for room, until this is dropped.
pub(crate) struct RoomWait {
    room: Arc<Room>,
    number: u64,
    until: Instant,
    /// When it heeds no promises any more, and then when it ends.
    next: Pin<Box<Sleep>>,
}

/// The bytes that a body was promised and has not received.
pub(crate) struct Promise {
    room: Arc<Room>,
    announced_bytes: usize,
    left_bytes: usize,
}

/// Is woken when a part of a budget is freed.
struct Freed(Weak<Room>);

impl Wake for Freed {
    fn wake(self: Arc<Self>) {
        if let Some(room) = self.0.upgrade() {
            room.wake();
        }
    }
}

impl Room {
    pub(super) fn new(bytes: usize, waiting_max: usize) -> Arc<Self> {
        Arc::new_cyclic(|room| Self {
            budget: Budget::new(bytes),
            waiting_max,
            waiting: AtomicUsize::new(0),
            line: Mutex::default(),
            freed: Waker::from(Arc::new(Freed(Weak::clone(room)))),
        })
    }

    /// Whether so much is free, and nobody waits.
    pub(super) fn is_free(&self, bytes: usize) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0 && bytes <= self.budget.left()
    }

    /// Joins the line, of bodies that hold nothing or of the one that does.
    ///
    /// # Errors
    /// [`Refused`] if too many wait.
    pub(super) fn join(
        self: &Arc<Self>,
        is_partly_here: bool,
        until: Instant,
    ) -> Result<RoomWait, Refused> {
        let mut line = self.line();
        let has_partial = line
            .waiters
            .front()
            .is_some_and(|first| first.is_partly_here);
        let others = line.waiters.len() - usize::from(has_partial);
        if (is_partly_here && has_partial) || (!is_partly_here && others > self.waiting_max) {
            return Err(Refused);
        }
        let waiter = Waiter {
            number: line.next_number,
            bytes: 0,
            is_partly_here,
            heeds_promises: !is_partly_here,
            // Nobody passes it.
            passed: if is_partly_here { PASSED_MAX } else { 0 },
            waker: None,
        };
        let number = waiter.number;
        line.next_number += 1;
        if is_partly_here {
            line.waiters.push_front(waiter);
        } else {
            line.waiters.push_back(waiter);
        }
        self.waiting.store(line.waiters.len(), Ordering::Relaxed);
        drop(line);
        let now = Instant::now();
        let patience = PROMISE_WAIT_MAX.min(until.saturating_duration_since(now) / 2);
        Ok(RoomWait {
            room: Arc::clone(self),
            number,
            until,
            next: Box::pin(tokio::time::sleep_until(now + patience)),
        })
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has this room told when a part of the budget is freed. Whoever looks at the budget
    /// afterwards misses nothing.
    fn watch(&self) {
        self.budget.wake_when_freed(self.freed.clone());
    }

    /// Wakes those in line that may go on.
    fn wake(&self) {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.watch();
        let mut line = self.line();
        let going_on = line.going_on(self.budget.left());
        let wakers: Vec<Waker> = going_on
            .into_iter()
            .filter_map(|index| line.waiters.get_mut(index)?.waker.take())
            .collect();
        // What a waker does is not known here.
        drop(line);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Line {
    /// The positions of those that may go on while so much is free. Each counts what those before
    /// it are about to take.
    fn going_on(&self, free_bytes: usize) -> Vec<usize> {
        let mut taken_bytes: usize = 0;
        let mut found = Vec::new();
        for (index, waiter) in self.waiters.iter().enumerate() {
            let promised_bytes = if waiter.heeds_promises {
                self.promised_bytes
            } else {
                0
            };
            let others = taken_bytes.saturating_add(promised_bytes);
            if waiter.bytes <= free_bytes.saturating_sub(others) {
                taken_bytes += waiter.bytes;
                found.push(index);
            } else if waiter.passed >= PASSED_MAX {
                break;
            }
        }
        found
    }

    fn position(&self, number: u64) -> Option<usize> {
        let mut waiters = self.waiters.iter();
        waiters.position(|waiter| waiter.number == number)
    }
}

impl RoomWait {
    /// Waits until so much is free.
    ///
    /// # Errors
    /// [`Refused`] when it is not in time, or never can be.
    pub(crate) fn poll(&mut self, bytes: usize, cx: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        if bytes > self.room.budget.max() {
            return Poll::Ready(Err(Refused));
        }
        loop {
            if self.may_go_on(bytes, cx.waker()) {
                return Poll::Ready(Ok(()));
            }
            ready!(self.next.as_mut().poll(cx));
            if Instant::now() >= self.until {
                return Poll::Ready(Err(Refused));
            }
            self.next.as_mut().reset(self.until);
            self.heed_no_promises();
        }
    }

    fn may_go_on(&self, bytes: usize, waker: &Waker) -> bool {
        self.room.watch();
        let mut line = self.room.line();
        let Some(index) = line.position(self.number) else {
            return false;
        };
        let waiter = &mut line.waiters[index];
        waiter.bytes = bytes;
        waiter.waker = Some(waker.clone());
        line.going_on(self.room.budget.left()).contains(&index)
    }

    fn heed_no_promises(&self) {
        let mut line = self.room.line();
        if let Some(index) = line.position(self.number) {
            line.waiters[index].heeds_promises = false;
        }
    }

    /// Ends a wait for so many bytes that has had success: nobody else is let in for them.
    pub(super) fn into_promise(self, bytes: usize) -> Promise {
        let mut line = self.room.line();
        line.promised_bytes += bytes;
        let index = line.position(self.number).unwrap_or_default();
        for passed in line.waiters.iter_mut().take(index) {
            passed.passed += 1;
        }
        drop(line);
        Promise {
            room: Arc::clone(&self.room),
            announced_bytes: bytes,
            left_bytes: bytes,
        }
    }
}

impl Drop for RoomWait {
    fn drop(&mut self) {
        let mut line = self.room.line();
        if let Some(index) = line.position(self.number) {
            line.waiters.remove(index);
        }
        self.room
            .waiting
            .store(line.waiters.len(), Ordering::Relaxed);
        drop(line);
        // Those behind it may go on.
        self.room.wake();
    }
}

impl Promise {
    /// Keeps it in part: the body has a share of so many bytes.
    pub(crate) fn keep(&mut self, share_bytes: usize) {
        let left_bytes = self.announced_bytes.saturating_sub(share_bytes);
        let kept_bytes = self.left_bytes.saturating_sub(left_bytes);
        if kept_bytes > 0 {
            self.left_bytes = left_bytes;
            self.room.line().promised_bytes -= kept_bytes;
            self.room.wake();
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.keep(self.announced_bytes);
    }
}

#[cfg(test)]
mod tests;
