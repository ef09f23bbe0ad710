//! Runs the operations of a batch, for which one client waits.
//!
//! A future for each of them would cost a task and two wakes. So a write hands its reply to the
//! client directly ([`ReplyReceiver`]), and all replies of a turn wake the client once. Only an
//! operation that waits for more than answers gets its own task: a write that must wait for a
//! timestamp or for half of its time, and a read that asks peers, because it may hedge.

use super::request_life::{PendingReply, ReplyReceiver};
use super::write::Writing;
use super::{
    Change, ConditionalChange, ConditionalReply, Coordinator, Failure, Found, Terms, Written,
};
use base::Reservation;
use bytes::Bytes;
use cluster::Condition;
use slab::Slab;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::task::JoinSet;

/// How an operation has ended.
pub enum Ended {
    /// A write.
    Write(Result<Written, Failure>),
    /// A conditional write.
    Conditional(ConditionalReply),
    /// A read.
    Read(Result<Found, Failure>),
}

/// Many operations that run at a time. Dropping this ends those that are not decided.
pub struct Operations {
    coordinator: Rc<Coordinator>,
    /// The writes that are not decided, with the numbers of their operations.
    writes: Slab<(u64, PendingReply<Writing>)>,
    arrived: Rc<Arrived>,
    /// The same, as those writes know it.
    receiver: Rc<dyn ReplyReceiver<Writing>>,
    /// The operations that were decided at once.
    ended: VecDeque<(u64, Ended)>,
    /// The operations that have tasks.
    tasks: JoinSet<(u64, Ended)>,
}

/// What has become of writes since the client last looked.
#[derive(Default)]
struct Arrived {
    replies: RefCell<VecDeque<(usize, Result<Written, Failure>)>>,
    triggered: RefCell<Vec<usize>>,
    client: RefCell<Option<Waker>>,
}

impl Arrived {
    fn wake(&self) {
        if let Some(client) = self.client.take() {
            client.wake();
        }
    }
}

impl ReplyReceiver<Writing> for Arrived {
    fn decided(&self, number: usize, reply: Result<Written, Failure>) {
        self.replies.borrow_mut().push_back((number, reply));
        self.wake();
    }

    fn triggered(&self, number: usize) {
        self.triggered.borrow_mut().push(number);
        self.wake();
    }
}

impl Operations {
    /// No operations yet.
    #[must_use]
    pub fn new(coordinator: &Rc<Coordinator>) -> Self {
        let arrived = Rc::<Arrived>::default();
        Self {
            coordinator: Rc::clone(coordinator),
            writes: Slab::new(),
            receiver: Rc::clone(&arrived) as Rc<dyn ReplyReceiver<Writing>>,
            arrived,
            ended: VecDeque::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Begins to write a key, as [`Coordinator::write`]. The result comes with `number`.
    pub fn write(
        &mut self,
        number: u64,
        key: Bytes,
        change: Change,
        reservation: Option<Reservation>,
        terms: Terms,
    ) {
        let coordinator = &self.coordinator;
        let allocated = coordinator.replicas.own().is_settled();
        let Some(allocated) = allocated
            .then(|| coordinator.timestamps.allocate().ok())
            .flatten()
        else {
            let coordinator = Rc::clone(coordinator);
            self.tasks.spawn_local(async move {
                let written = coordinator.write(&key, change, reservation, terms);
                (number, Ended::Write(written.await))
            });
            return;
        };
        match coordinator.begin_write(&key, change, reservation, terms, allocated) {
            Ok(reply) => self.ended.push_back((number, Ended::Write(reply))),
            Err(pending) => {
                let entry = self.writes.vacant_entry();
                if pending.reply_to(&self.receiver, entry.key()) {
                    entry.insert((number, pending));
                } else {
                    self.watch(number, pending);
                }
            }
        }
    }

    /// Begins a conditional write of a key, as [`Coordinator::write_if`]. The result comes with
    /// `number`.
    pub fn write_if(
        &mut self,
        number: u64,
        key: Bytes,
        change: ConditionalChange,
        condition: Condition,
        reservation: Option<Reservation>,
        terms: Terms,
    ) {
        let coordinator = Rc::clone(&self.coordinator);
        self.tasks.spawn_local(async move {
            let reply = coordinator.write_if(&key, change, condition, reservation, terms);
            (number, Ended::Conditional(reply.await))
        });
    }

    /// Begins to read a key, as [`Coordinator::read`]. The result comes with `number`.
    pub fn read(&mut self, number: u64, key: Bytes, terms: Terms) {
        let coordinator = Rc::clone(&self.coordinator);
        self.tasks.spawn_local(async move {
            let found = coordinator.read(&key, terms);
            (number, Ended::Read(found.await))
        });
    }

    /// The next operation that has ended. An operation that panics ends the task that waits
    /// for it.
    pub fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<(u64, Ended)> {
        if let Some(ended) = self.ended.pop_front() {
            return Poll::Ready(ended);
        }
        let reply = self.arrived.replies.borrow_mut().pop_front();
        if let Some((slot, reply)) = reply
            && let Some((number, _pending)) = self.writes.try_remove(slot)
        {
            return Poll::Ready((number, Ended::Write(reply)));
        }
        for slot in self.arrived.triggered.take() {
            if let Some((number, pending)) = self.writes.try_remove(slot) {
                self.watch(number, pending);
            }
        }
        match self.tasks.poll_join_next(cx) {
            Poll::Ready(Some(Ok(ended))) => return Poll::Ready(ended),
            Poll::Ready(Some(Err(error))) => {
                if let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
            Poll::Ready(None) | Poll::Pending => {}
        }
        *self.arrived.client.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Gives a write a task that watches its trigger.
    fn watch(&mut self, number: u64, pending: PendingReply<Writing>) {
        // The task may begin later than the reply comes.
        pending.keep_reply();
        let coordinator = Rc::clone(&self.coordinator);
        self.tasks.spawn_local(async move {
            let written = pending.decided(&coordinator.timestamps).await;
            (number, Ended::Write(written))
        });
    }
}
