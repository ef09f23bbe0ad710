//! The requests of one runtime that wait for answers.
//!
//! Each has a slot in a slab. The address of an answer (`ticket`) names the slot and the position
//! among the request's answers, because a request may ask several replicas. Three kinds of requests
//! wait:
//!
//! - a [`Wait`] belongs to a future, which takes the answers itself;
//! - a handler is called once, with the only answer;
//! - an [`AnswerReceiver`] acts on each answer as it comes, whether a client
//!   still waits or not: the requests of the coordinator.
//!
//! A deadline costs no timer. The runtime checks the slab at short intervals
//! ([`PendingRequests::expire`]), so a deadline is late by at most one interval.

mod queue;
mod ticket;

#[cfg(test)]
mod tests;

pub use ticket::{AnswerKind, AnswerTag, SLOTS_MAX, Ticket};

use peer::{AnswerHandler, PeerAnswer};
pub use queue::{Completion, CompletionQueue, KeyRead};
use slab::Slab;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What is called with the only answer, or with `None` at the deadline.
type Handler = Box<dyn FnOnce(Option<Completion>)>;

/// A request that acts on its answers as they come.
pub trait AnswerReceiver {
    /// Acts on an answer; `None` is the deadline, which is the last.
    fn receive(&self, answer: Option<(AnswerTag, Completion)>) -> Awaits;

    /// Gives up this handle; the last handle may keep the memory for another request.
    fn release(self: Rc<Self>);
}

/// Whether a request waits for further answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaits {
    /// It does.
    More,
    /// It does not.
    Nothing,
}

/// The requests that wait.
pub struct PendingRequests {
    slots: RefCell<Slab<Slot>>,
    /// How many requests there have been.
    requests: Cell<u64>,
    completions: Arc<CompletionQueue>,
}

struct Slot {
    generation: u64,
    deadline: Duration,
    listener: Listener,
}

enum Listener {
    /// A request that has not begun to listen: no answer comes before it does.
    None,
    Future(FutureListener),
    Handler(Handler),
    Receiver(Rc<dyn AnswerReceiver>),
}

#[derive(Default)]
struct FutureListener {
    waker: Option<Waker>,
    /// The answers that were not taken yet: at most one for each address.
    answers: SmallVec<[Completion; 1]>,
    is_expired: bool,
}

/// Drops all requests with the task that would complete them, because a request
/// may own what owns the slab.
struct Clearing(Rc<PendingRequests>);

impl Drop for Clearing {
    fn drop(&mut self) {
        // Outside the borrow: a request gives up its slot as it is dropped.
        let slots = self.0.slots.take();
        drop(slots);
    }
}

impl PendingRequests {
    /// No requests yet, and a queue for their answers.
    pub fn new() -> Rc<Self> {
        Rc::new(Self {
            slots: RefCell::default(),
            requests: Cell::new(0),
            completions: Arc::default(),
        })
    }

    /// Where other threads leave answers: those that commit, those of the read pool, and those
    /// that keep hints.
    pub fn completions(&self) -> &Arc<CompletionQueue> {
        &self.completions
    }

    /// Takes a slot for a future's answers, which come before `deadline` on the
    /// monotonic clock.
    pub fn wait(self: &Rc<Self>, deadline: Duration) -> Wait {
        let listener = Listener::Future(FutureListener::default());
        Wait(self.enter(deadline, listener))
    }

    /// Takes a slot for a request that is to ask now and to listen before it
    /// gives the runtime back.
    pub fn reserve(self: &Rc<Self>, deadline: Duration) -> Registration {
        self.enter(deadline, Listener::None)
    }

    /// Calls `handler` with the one answer to the address that is returned, or with
    /// `None` at the deadline.
    pub fn handle(
        &self,
        deadline: Duration,
        handler: impl FnOnce(Option<Completion>) + 'static,
    ) -> u64 {
        let handler = Listener::Handler(Box::new(handler));
        self.insert(deadline, handler).for_only_answer()
    }

    /// Hands out the answers of other threads as they come, until the runtime
    /// ends.
    pub async fn deliver_forever(self: Rc<Self>) {
        let clearing = Clearing(self);
        let pending = &clearing.0;
        let mut deliveries = Vec::new();
        loop {
            pending.completions.take_all(&mut deliveries).await;
            for delivery in deliveries.drain(..) {
                pending.complete(delivery.address, delivery.completion);
            }
        }
    }

    /// Ends the requests whose deadline is not after `now`.
    pub fn expire(&self, now: Duration) {
        let mut wakers = Vec::new();
        let mut overdue = Vec::new();
        let mut slots = self.slots.borrow_mut();
        for (index, slot) in slots.iter_mut() {
            if slot.deadline > now {
                continue;
            }
            match &mut slot.listener {
                Listener::Future(future) => {
                    future.is_expired = true;
                    wakers.extend(future.waker.take());
                }
                Listener::None | Listener::Handler(_) | Listener::Receiver(_) => {
                    overdue.push(index);
                }
            }
        }
        let overdue: Vec<Slot> = overdue
            .into_iter()
            .filter_map(|index| slots.try_remove(index))
            .collect();
        // What is woken or called may take a slot.
        drop(slots);
        for waker in wakers {
            waker.wake();
        }
        for slot in overdue {
            match slot.listener {
                Listener::Handler(handler) => handler(None),
                Listener::Receiver(receiver) => {
                    receiver.receive(None);
                    receiver.release();
                }
                Listener::None | Listener::Future(_) => {}
            }
        }
    }

    /// Hands an answer to the request that it is addressed to, if that still waits.
    pub fn complete(&self, address: u64, completion: Completion) {
        let (ticket, tag) = Ticket::parse(address);
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slot_of(&mut slots, ticket) else {
            return;
        };
        match &mut slot.listener {
            Listener::Future(future) => {
                let waker = future.waker.take();
                future.answers.push(completion);
                drop(slots);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            Listener::Handler(_) => {
                let slot = slots.remove(ticket.slot());
                drop(slots);
                if let Listener::Handler(handler) = slot.listener {
                    handler(Some(completion));
                }
            }
            Listener::Receiver(receiver) => {
                let Some(tag) = tag else {
                    return;
                };
                let receiver = Rc::clone(receiver);
                // What it does with the answer may take a slot.
                drop(slots);
                if receiver.receive(Some((tag, completion))) == Awaits::Nothing {
                    self.remove(ticket);
                }
                receiver.release();
            }
            Listener::None => {}
        }
    }

    fn enter(self: &Rc<Self>, deadline: Duration, listener: Listener) -> Registration {
        Registration {
            pending: Rc::clone(self),
            ticket: self.insert(deadline, listener),
            is_owner: true,
        }
    }

    fn insert(&self, deadline: Duration, listener: Listener) -> Ticket {
        let requests = self.requests.get().wrapping_add(1);
        self.requests.set(requests);
        let generation = Ticket::generation_of(requests);
        let slot = self.slots.borrow_mut().insert(Slot {
            generation,
            deadline,
            listener,
        });
        Ticket::new(generation, slot)
    }

    /// Frees the slot of a ticket, if it still is the ticket's.
    fn remove(&self, ticket: Ticket) {
        let mut slots = self.slots.borrow_mut();
        let slot = slot_of(&mut slots, ticket)
            .is_some()
            .then(|| slots.remove(ticket.slot()));
        drop(slots);
        // Outside the borrow: an answer that was not taken may own more than memory.
        if let Some(Slot {
            listener: Listener::Receiver(receiver),
            ..
        }) = slot
        {
            receiver.release();
        }
    }
}

/// The slot that a ticket is for, if it still is the ticket's.
fn slot_of(slots: &mut Slab<Slot>, ticket: Ticket) -> Option<&mut Slot> {
    let slot = slots.get_mut(ticket.slot())?;
    (slot.generation == ticket.generation()).then_some(slot)
}

impl AnswerHandler for PendingRequests {
    fn answer(&self, ticket: u64, answer: PeerAnswer) {
        self.complete(ticket, Completion::Peer(answer));
    }
}

/// A slot for a request's answers. It is freed when this is dropped, unless it was left to the
/// [`AnswerReceiver`], which then frees it.
pub struct Registration {
    pending: Rc<PendingRequests>,
    ticket: Ticket,
    is_owner: bool,
}

impl Registration {
    /// What answers are to be addressed to.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Delivers the answers to a request from now on.
    pub fn listen(&self, receiver: Rc<dyn AnswerReceiver>) {
        if let Some(slot) = slot_of(&mut self.pending.slots.borrow_mut(), self.ticket) {
            slot.listener = Listener::Receiver(receiver);
        }
    }

    /// Lets the receiver keep the slot until it awaits nothing.
    pub fn leave_to_receiver(&mut self) {
        self.is_owner = false;
    }

    /// Frees the slot, unless it was left to the receiver.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.is_owner) {
            self.pending.remove(self.ticket);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.end();
    }
}

/// A slot for a future's answers, until it is dropped.
pub struct Wait(Registration);

impl Wait {
    /// What the answer has to be addressed to.
    pub fn address(&self) -> u64 {
        self.0.ticket.for_only_answer()
    }

    /// The next answer; `None` once the deadline has passed.
    pub async fn next(&mut self) -> Option<Completion> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The only answer; `None` once the deadline has passed.
    pub async fn only(mut self) -> Option<Completion> {
        self.next().await
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Completion>> {
        let mut slots = self.0.pending.slots.borrow_mut();
        let Some(Slot {
            listener: Listener::Future(future),
            ..
        }) = slot_of(&mut slots, self.0.ticket)
        else {
            return Poll::Ready(None);
        };
        if !future.answers.is_empty() {
            return Poll::Ready(Some(future.answers.remove(0)));
        }
        if future.is_expired {
            return Poll::Ready(None);
        }
        match &future.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => future.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}
