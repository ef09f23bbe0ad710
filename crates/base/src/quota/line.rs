//! The queue for a quota.
//!
//! The order is first come, first served, with two exceptions. A waiter may let later ones that fit
//! pass it, a bounded number of times ([`Turn::Passable`]), because its amount may never become
//! free while clients are slow. And a waiter that already holds a part comes before all others
//! ([`Turn::First`]). There is only one such waiter at a time, because two would wait for each
//! other's part.
//!
//! An admitted waiter may take a [`Promise`] of its amount instead of a reservation, so that nobody
//! else is admitted for the same. Each waiter decides how long it respects promises, because their
//! holders may never use them.

use super::{Quota, Refused, Reservation};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// How many may pass one that does not fit.
const PASSED_MAX: u32 = 64;

/// Where somebody stands in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Behind those that came before. Nobody passes.
    InOrder,
    /// Behind those that came before. Some may pass who want less.
    Passable,
    /// Before all others, because it holds a part already.
    First,
}

/// The line of a quota.
#[derive(Debug)]
pub(super) struct Line {
    /// How many wait: what is given back looks for them only if there are any.
    waiting: AtomicUsize,
    /// How many may wait, besides the first who holds a part.
    waiting_max: usize,
    waiters: Mutex<Waiters>,
}

#[derive(Debug, Default)]
struct Waiters {
    in_turn: VecDeque<Waiter>,
    /// What was promised and not taken yet.
    promised: usize,
    next_number: u64,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    amount: usize,
    turn: Turn,
    respects_promises: bool,
    passed: u32,
    waker: Option<Waker>,
}

/// Somebody who waits for a part of a quota, until this is dropped.
#[derive(Debug)]
pub struct InLine {
    quota: Arc<Quota>,
    number: u64,
}

/// What somebody was let in for and has not taken yet.
#[derive(Debug)]
pub struct Promise {
    quota: Arc<Quota>,
    announced: usize,
    left: usize,
}

impl Line {
    pub(super) fn new(waiting_max: usize) -> Self {
        Self {
            waiting: AtomicUsize::new(0),
            waiting_max,
            waiters: Mutex::default(),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    pub(super) fn waiting_max(&self) -> usize {
        self.waiting_max
    }

    pub(super) fn join(&self, quota: &Arc<Quota>, turn: Turn) -> Result<InLine, Refused> {
        let mut waiters = self.waiters();
        let first = waiters.in_turn.front();
        let has_first = first.is_some_and(|first| first.turn == Turn::First);
        let others = waiters.in_turn.len() - usize::from(has_first);
        let is_full = if turn == Turn::First {
            has_first
        } else {
            others >= self.waiting_max
        };
        if is_full {
            return Err(Refused);
        }
        let number = waiters.next_number;
        waiters.next_number += 1;
        let waiter = Waiter {
            number,
            amount: 0,
            turn,
            respects_promises: turn != Turn::First,
            passed: if turn == Turn::Passable {
                0
            } else {
                PASSED_MAX
            },
            waker: None,
        };
        if turn == Turn::First {
            waiters.in_turn.push_front(waiter);
        } else {
            waiters.in_turn.push_back(waiter);
        }
        self.count(&waiters);
        Ok(InLine {
            quota: Arc::clone(quota),
            number,
        })
    }

    /// Wakes those who may go on while so much is free.
    pub(super) fn wake(&self, free: impl FnOnce() -> usize) {
        let mut waiters = self.waiters();
        let admissible = waiters.admissible(free());
        let wakers: Vec<Waker> = admissible
            .into_iter()
            .filter_map(|index| waiters.in_turn.get_mut(index)?.waker.take())
            .collect();
        // What a waker does is not known here.
        drop(waiters);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, waiters: &Waiters) {
        self.waiting.store(waiters.in_turn.len(), Ordering::SeqCst);
    }
}

impl Waiters {
    /// The positions of those that may go on while so much is free. Each counts what those before
    /// it are about to take.
    fn admissible(&self, free: usize) -> Vec<usize> {
        let mut taken: usize = 0;
        let mut found = Vec::new();
        for (index, waiter) in self.in_turn.iter().enumerate() {
            let promised = if waiter.respects_promises {
                self.promised
            } else {
                0
            };
            let others = taken.saturating_add(promised);
            if waiter.amount <= free.saturating_sub(others) {
                taken += waiter.amount;
                found.push(index);
            } else if waiter.passed >= PASSED_MAX {
                break;
            }
        }
        found
    }

    fn position(&self, number: u64) -> Option<usize> {
        let mut in_turn = self.in_turn.iter();
        in_turn.position(|waiter| waiter.number == number)
    }
}

impl InLine {
    /// The quota.
    #[must_use]
    pub fn quota(&self) -> &Arc<Quota> {
        &self.quota
    }

    /// Waits until so much is free, and nobody before wants it. It stays in line.
    pub fn poll_free(&self, amount: usize, cx: &mut Context<'_>) -> Poll<()> {
        let mut waiters = self.quota.line.waiters();
        let Some(index) = waiters.position(self.number) else {
            return Poll::Pending;
        };
        let waiter = &mut waiters.in_turn[index];
        waiter.amount = amount;
        waiter.waker = Some(cx.waker().clone());
        // What is given back from now on wakes it.
        if waiters.admissible(self.quota.left()).contains(&index) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Waits until so much is free, and takes it.
    pub(super) fn poll_reserve(&self, amount: usize, cx: &mut Context<'_>) -> Poll<Reservation> {
        match self.poll_free(amount, cx) {
            // Who does not wait may have been faster. What that gives back wakes this one.
            Poll::Ready(()) => self
                .quota
                .try_reserve(amount)
                .map_or(Poll::Pending, Poll::Ready),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Ignores from now on what others were promised.
    pub fn ignore_promises(&self) {
        let mut waiters = self.quota.line.waiters();
        if let Some(index) = waiters.position(self.number) {
            waiters.in_turn[index].respects_promises = false;
        }
    }

    /// Leaves the line once so much is free: nobody else is let in for it.
    #[must_use]
    pub fn into_promise(self, amount: usize) -> Promise {
        let mut waiters = self.quota.line.waiters();
        waiters.promised += amount;
        let index = waiters.position(self.number).unwrap_or_default();
        for passed in waiters.in_turn.iter_mut().take(index) {
            passed.passed += 1;
        }
        drop(waiters);
        Promise {
            quota: Arc::clone(&self.quota),
            announced: amount,
            left: amount,
        }
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let line = &self.quota.line;
        let mut waiters = line.waiters();
        if let Some(index) = waiters.position(self.number) {
            waiters.in_turn.remove(index);
        }
        line.count(&waiters);
        drop(waiters);
        // Those behind it may go on.
        self.quota.wake_line();
    }
}

impl Promise {
    /// Keeps it in part: this reservation has so much of what was announced by now. What it has of
    /// another quota counts for nothing.
    pub fn keep(&mut self, taken: &Reservation) {
        if taken.is_of(&self.quota) {
            self.keep_up_to(taken.amount());
        }
    }

    fn keep_up_to(&mut self, taken: usize) {
        let left = self.announced.saturating_sub(taken);
        let kept = self.left.saturating_sub(left);
        if kept > 0 {
            self.left = left;
            self.quota.line.waiters().promised -= kept;
            self.quota.wake_line();
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.keep_up_to(self.announced);
    }
}
