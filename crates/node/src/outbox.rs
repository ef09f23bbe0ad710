//! How answers of other threads reach the requests that wait for them.
//!
//! A runtime has one [`Outbox`], the only part that other threads touch: a
//! list behind a lock, and one wake when the list stops being empty, so that a
//! group commit of a thousand writes costs each runtime one wake. Everything
//! else is local to the runtime: [`Waiters`] is a slab of those who wait, and
//! a ticket is a place in it with a generation, so that an answer that comes
//! too late finds nobody rather than somebody else.
//!
//! Deadlines cost no timer each: the runtime sweeps the slab now and then
//! ([`Waiters::expire`]), which makes a deadline late by at most that period.

use crate::admission::{Allotment, Share};
use crate::executor::lock;
use lsm::{Applied, Entry, Error, Outcome, Scan};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;

/// What a request waits for.
pub(crate) enum Completion {
    /// A write is stored, or not.
    Written(Result<Applied, Error>),
    /// A key was read; a long value comes with what it counts for.
    Read(Result<(Option<Entry>, Option<Share>), Error>),
    /// The next entries of a scan, which is handed back, and what they count for.
    Scanned(Box<Scan>, Result<Vec<Entry>, Error>, Allotment),
}

/// Where other threads leave answers for one runtime.
#[derive(Default)]
pub(crate) struct Outbox {
    delivered: Mutex<Vec<(u64, Completion)>>,
    arrived: Notify,
}

impl Outbox {
    /// Leaves one answer.
    pub(crate) fn complete(&self, ticket: u64, completion: Completion) {
        self.extend(std::iter::once((ticket, completion)));
    }

    fn extend(&self, completions: impl Iterator<Item = (u64, Completion)>) {
        let mut delivered = lock(&self.delivered);
        let was_empty = delivered.is_empty();
        delivered.extend(completions);
        let wake = was_empty && !delivered.is_empty();
        drop(delivered);
        if wake {
            self.arrived.notify_one();
        }
    }
}

impl lsm::Outbox for Outbox {
    fn deliver(&self, outcomes: Vec<Outcome>) {
        self.extend(
            outcomes
                .into_iter()
                .map(|outcome| (outcome.ticket, Completion::Written(outcome.result))),
        );
    }
}

/// The requests of one runtime that wait for an answer.
pub(crate) struct Waiters {
    slots: RefCell<Slab<Slot>>,
    generation: Cell<u32>,
    outbox: Arc<Outbox>,
    writes: Arc<dyn lsm::Outbox>,
}

struct Slot {
    generation: u32,
    deadline: Duration,
    state: State,
}

enum State {
    Waiting(Option<Waker>),
    Answered(Completion),
    Expired,
}

impl Waiters {
    /// No waiters yet, and an outbox for their answers.
    pub(crate) fn new() -> Rc<Self> {
        let outbox = Arc::new(Outbox::default());
        Rc::new(Self {
            slots: RefCell::default(),
            generation: Cell::new(0),
            writes: Arc::clone(&outbox) as Arc<dyn lsm::Outbox>,
            outbox,
        })
    }

    /// The outbox, as the read pool takes it.
    pub(crate) fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// The outbox, as the engine takes it.
    pub(crate) fn writes(&self) -> &Arc<dyn lsm::Outbox> {
        &self.writes
    }

    /// Takes a place for one answer, to come before `deadline` on the
    /// monotonic clock. Dropping the result gives the place up.
    pub(crate) fn register(self: &Rc<Self>, deadline: Duration) -> Wait {
        let generation = self.generation.get().wrapping_add(1);
        self.generation.set(generation);
        let place = self.slots.borrow_mut().insert(Slot {
            generation,
            deadline,
            state: State::Waiting(None),
        });
        Wait {
            waiters: Rc::clone(self),
            place,
            ticket: (u64::from(generation) << 32) | (place as u64 & u64::from(u32::MAX)),
        }
    }

    /// Hands out answers as they come, for as long as the runtime lives.
    pub(crate) async fn deliver_forever(self: Rc<Self>) {
        let mut answers = Vec::new();
        loop {
            self.outbox.arrived.notified().await;
            std::mem::swap(&mut answers, &mut *lock(&self.outbox.delivered));
            for (ticket, completion) in answers.drain(..) {
                self.answer(ticket, completion);
            }
        }
    }

    fn answer(&self, ticket: u64, completion: Completion) {
        let place = (ticket & u64::from(u32::MAX)) as usize;
        let generation = (ticket >> 32) as u32;
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(place) else {
            return;
        };
        if slot.generation != generation {
            return;
        }
        let before = match slot.state {
            State::Waiting(_) => std::mem::replace(&mut slot.state, State::Answered(completion)),
            State::Answered(_) | State::Expired => return,
        };
        drop(slots);
        if let State::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }

    /// Ends the waits whose deadline is not after `now`.
    pub(crate) fn expire(&self, now: Duration) {
        let mut wakers = Vec::new();
        for (_, slot) in self.slots.borrow_mut().iter_mut() {
            if slot.deadline <= now
                && let State::Waiting(waker) = &mut slot.state
            {
                wakers.extend(waker.take());
                slot.state = State::Expired;
            }
        }
        for waker in wakers {
            waker.wake();
        }
    }
}

/// A place for one answer; as a future it gives the answer, or `None` once the
/// deadline has passed.
pub(crate) struct Wait {
    waiters: Rc<Waiters>,
    place: usize,
    ticket: u64,
}

impl Wait {
    /// What the answer has to be addressed to.
    pub(crate) fn ticket(&self) -> u64 {
        self.ticket
    }
}

impl Future for Wait {
    type Output = Option<Completion>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slots = self.waiters.slots.borrow_mut();
        let Some(slot) = slots.get_mut(self.place) else {
            return Poll::Ready(None);
        };
        match std::mem::replace(&mut slot.state, State::Expired) {
            State::Waiting(waker) => {
                let waker = match waker {
                    Some(waker) if waker.will_wake(cx.waker()) => waker,
                    _ => cx.waker().clone(),
                };
                slot.state = State::Waiting(Some(waker));
                Poll::Pending
            }
            State::Answered(completion) => Poll::Ready(Some(completion)),
            State::Expired => Poll::Ready(None),
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let slot = self.waiters.slots.borrow_mut().try_remove(self.place);
        // Outside the borrow: an answer nobody took may own more than memory.
        drop(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(wait: &mut Wait) -> Poll<Option<Completion>> {
        Pin::new(wait).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn stored() -> Completion {
        Completion::Written(Ok(Applied { newest_held: None }))
    }

    #[test]
    fn an_answer_reaches_the_one_that_waits_for_it() {
        let waiters = Waiters::new();
        let mut first = waiters.register(Duration::MAX);
        let mut second = waiters.register(Duration::MAX);
        assert!(poll(&mut second).is_pending());
        waiters.answer(second.ticket(), stored());
        assert!(poll(&mut first).is_pending());
        assert!(matches!(poll(&mut second), Poll::Ready(Some(_))));
    }

    #[test]
    fn a_late_answer_finds_nobody() {
        let waiters = Waiters::new();
        let gone = waiters.register(Duration::MAX);
        let late = gone.ticket();
        drop(gone);
        let mut next = waiters.register(Duration::MAX);
        assert_eq!(next.place, 0, "the place is used again");
        waiters.answer(late, stored());
        assert!(poll(&mut next).is_pending());
    }

    #[test]
    fn a_deadline_ends_a_wait_and_an_answer_after_it_changes_nothing() {
        let waiters = Waiters::new();
        let mut soon = waiters.register(Duration::from_secs(1));
        let mut later = waiters.register(Duration::from_secs(2));
        assert!(poll(&mut soon).is_pending());
        waiters.expire(Duration::from_secs(1));
        waiters.answer(soon.ticket(), stored());
        assert!(matches!(poll(&mut soon), Poll::Ready(None)));
        assert!(poll(&mut later).is_pending());
    }

    #[test]
    fn a_group_of_answers_wakes_once() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let waiters = Waiters::new();
        let mut waits: Vec<Wait> = (0..3).map(|_| waiters.register(Duration::MAX)).collect();
        waiters.writes().deliver(
            waits
                .iter()
                .map(|wait| Outcome {
                    ticket: wait.ticket(),
                    result: Ok(Applied { newest_held: None }),
                })
                .collect(),
        );
        let local = tokio::task::LocalSet::new();
        local.spawn_local(Rc::clone(&waiters).deliver_forever());
        local.block_on(&runtime, async {
            for wait in &mut waits {
                assert!(wait.await.is_some());
            }
        });
        waiters.writes().deliver(Vec::new());
        assert!(lock(&waiters.outbox.delivered).is_empty());
    }
}
