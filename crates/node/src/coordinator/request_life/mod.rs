//! The life cycle of a request, from its first call to its last answer.
//!
//! A write or a read ([`Request`]) begins in its client's future and asks its replicas. If they
//! answer at once, it is done. Otherwise it moves into a cell, which its slot among the pending
//! requests and the client's future share:
//!
//! ```text
//! start --> asked --answers, triggers--> decided --answers--> done
//!             |                             |
//!             +-- client gone: dropped      +-- client gets its reply, once
//! ```
//!
//! 1. The request acts on each answer as it comes, in the task that brought the answer.
//! 2. The answer that decides the request leaves the reply in the cell and wakes the
//!    client. From then on the request has a permit of those in the background.
//! 3. A decided request continues in its slot, for hints and the repairs of stale replicas, until
//!    nothing is left to do or until the deadline.
//!
//! The client's future waits for the request's [`Trigger`] and for the reply. If it is dropped
//! before the decision, the request is dropped with it. Cells are reused, so a request allocates
//! nothing for its cell.
//!
//! A client with many requests needs no future for each: a [`ReplyReceiver`] takes their
//! replies. Only a request with a trigger, as few writes have, still gets one.

use base::{Permit, Permits};
use replica::Completion;
use replica::pending::{AnswerReceiver, AnswerTag, Awaits, Registration};
use replica::timestamps::TimestampAllocator;
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};
use tokio::time::Instant;

/// How many cells of ended requests are kept, by runtime and kind of request.
const SPARE_CELLS_MAX: usize = 256;

/// What a write and a read have in common.
pub(super) trait Request: Sized + 'static {
    /// What its client gets.
    type Reply;

    /// Acts on an answer of a replica, or on the deadline, which is `None`.
    fn receive(&mut self, answer: Option<(AnswerTag, Completion)>) -> Option<Self::Reply>;

    /// What it waits for besides answers, until it is decided.
    fn trigger(&self) -> Option<Trigger>;

    /// Acts on its trigger.
    fn fire(&mut self) -> Option<Self::Reply>;

    /// Whether nothing is left to do.
    fn is_done(&self) -> bool;

    /// Prepares to go on without a client. `has_room` says whether the limit of the
    /// background admits the request. Returns whether the request goes on.
    fn continue_in_background(&mut self, has_room: bool) -> bool;
}

/// What a request waits for besides answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// A time.
    At(Instant),
    /// A change after which the hybrid clock may issue a timestamp.
    TimestampAllocator,
}

/// The requests of one kind.
pub(super) struct Requests<R: Request> {
    background: Rc<Permits>,
    spare: Rc<SpareCells<R>>,
}

struct SpareCells<R: Request>(RefCell<Vec<Rc<RequestCell<R>>>>);

/// A request that waits for answers.
struct RequestCell<R: Request> {
    running: RefCell<Option<Running<R>>>,
    /// For the client.
    reply: RefCell<Option<R::Reply>>,
    client: RefCell<Client<R>>,
    background: Rc<Permits>,
    spare: Weak<SpareCells<R>>,
}

/// Who waits for the reply to a request.
enum Client<R: Request> {
    /// Nobody is to be told.
    None,
    /// A future.
    Future(Waker),
    /// A client with many requests, and the number of this one.
    Many(Rc<dyn ReplyReceiver<R>>, usize),
}

/// Takes the replies to many requests of one client.
pub(super) trait ReplyReceiver<R: Request> {
    /// The request with this number has its reply.
    fn decided(&self, number: usize, reply: R::Reply);

    /// The request with this number has another trigger, which is to be watched.
    fn triggered(&self, number: usize);
}

struct Running<R> {
    request: R,
    /// Once it is decided.
    background: Option<Permit>,
}

impl<R: Request> Requests<R> {
    /// No requests, which share the permits for the background with those of other kinds.
    pub(super) fn new(background: &Rc<Permits>) -> Self {
        Self {
            background: Rc::clone(background),
            spare: Rc::new(SpareCells(RefCell::default())),
        }
    }

    /// Takes a request that has asked its replicas, for as long as it waits for anything.
    /// `reply` is there if the request is decided.
    ///
    /// # Errors
    /// The request is not decided; the client waits for the result.
    pub(super) fn enter(
        &self,
        mut request: R,
        reply: Option<R::Reply>,
        mut registration: Registration,
    ) -> Result<R::Reply, PendingReply<R>> {
        let Some(reply) = reply else {
            let cell = self.cell();
            *cell.running.borrow_mut() = Some(Running {
                request,
                background: None,
            });
            registration.listen(Rc::clone(&cell) as Rc<dyn AnswerReceiver>);
            return Err(PendingReply { cell, registration });
        };
        if !request.is_done()
            && let Some(background) = move_to_background(&mut request, &self.background)
        {
            let cell = self.cell();
            *cell.running.borrow_mut() = Some(Running {
                request,
                background: Some(background),
            });
            registration.listen(cell);
            registration.leave_to_receiver();
        }
        Ok(reply)
    }

    fn cell(&self) -> Rc<RequestCell<R>> {
        let spare = self.spare.0.borrow_mut().pop();
        spare.unwrap_or_else(|| {
            Rc::new(RequestCell {
                running: RefCell::default(),
                reply: RefCell::new(None),
                client: RefCell::new(Client::None),
                background: Rc::clone(&self.background),
                spare: Rc::downgrade(&self.spare),
            })
        })
    }
}

/// Lets a decided request go on, if there is room and anything to wait for.
fn move_to_background<R: Request>(request: &mut R, permits: &Rc<Permits>) -> Option<Permit> {
    let permit = permits.try_take();
    let goes_on = request.continue_in_background(permit.is_some());
    permit.filter(|_| goes_on)
}

impl<R: Request> RequestCell<R> {
    /// Lets the request act. Hands its reply to the client, and ends it if it is done.
    fn act(&self, act: impl FnOnce(&mut R) -> Option<R::Reply>) -> Awaits {
        let mut running = self.running.borrow_mut();
        let Some(Running {
            request,
            background,
        }) = running.as_mut()
        else {
            return Awaits::Nothing;
        };
        let before = request.trigger();
        let reply = act(request);
        let (mut wakes_client, mut is_decided) = (false, reply.is_some());
        if is_decided {
            if !request.is_done() {
                *background = move_to_background(request, &self.background);
            }
        } else if background.is_none() {
            wakes_client = request.trigger() != before;
        }
        is_decided |= background.is_some() || self.reply.borrow().is_some();
        let is_over = is_decided && (request.is_done() || background.is_none());
        let ended = is_over.then(|| running.take());
        drop(running);
        // Outside the borrow: a request owns a timestamp, and reservations of memory.
        drop(ended);
        if wakes_client || reply.is_some() {
            self.notify_client(reply);
        }
        if is_over {
            Awaits::Nothing
        } else {
            Awaits::More
        }
    }

    /// Tells the client of the reply, or else of another trigger.
    fn notify_client(&self, reply: Option<R::Reply>) {
        match (self.client.replace(Client::None), reply) {
            (Client::Many(client, number), Some(reply)) => client.decided(number, reply),
            (Client::Many(client, number), None) => client.triggered(number),
            (Client::Future(waker), reply) => {
                self.keep_reply(reply);
                waker.wake();
            }
            (Client::None, reply) => self.keep_reply(reply),
        }
    }

    fn keep_reply(&self, reply: Option<R::Reply>) {
        if reply.is_some() {
            *self.reply.borrow_mut() = reply;
        }
    }

    fn trigger(&self) -> Option<Trigger> {
        let running = self.running.borrow();
        running
            .as_ref()
            .and_then(|running| running.request.trigger())
    }

    fn fire(&self) {
        self.act(R::fire);
    }

    /// Waits for the reply; gives none once the trigger is another one.
    async fn changed(&self, trigger: Option<Trigger>) -> Option<R::Reply> {
        poll_fn(|cx| {
            if let Some(reply) = self.reply.take() {
                return Poll::Ready(Some(reply));
            }
            if self.trigger() != trigger {
                return Poll::Ready(None);
            }
            let mut client = self.client.borrow_mut();
            match &*client {
                Client::Future(waker) if waker.will_wake(cx.waker()) => {}
                _ => *client = Client::Future(cx.waker().clone()),
            }
            Poll::Pending
        })
        .await
    }

    fn is_in_background(&self) -> bool {
        let running = self.running.borrow();
        running
            .as_ref()
            .is_some_and(|running| running.background.is_some())
    }

    /// Keeps the memory of the cell for another request, if this is the last
    /// handle to it.
    fn spare_if_last(self: &Rc<Self>) {
        if Rc::strong_count(self) > 1 {
            return;
        }
        // Empty unless the client has gone before the decision, or before it took its reply. To
        // take nothing out of such a large cell takes time, too.
        if self.running.borrow().is_some() {
            drop(self.running.take());
        }
        if self.reply.borrow().is_some() {
            drop(self.reply.take());
        }
        drop(self.client.replace(Client::None));
        if let Some(spare) = self.spare.upgrade() {
            let mut cells = spare.0.borrow_mut();
            if cells.len() < SPARE_CELLS_MAX {
                cells.push(Rc::clone(self));
            }
        }
    }
}

impl<R: Request> AnswerReceiver for RequestCell<R> {
    fn receive(&self, answer: Option<(AnswerTag, Completion)>) -> Awaits {
        let is_over = answer.is_none();
        let awaits = self.act(|request| request.receive(answer));
        if is_over {
            // At the deadline the request asks only for hints, whose keeping it need not see.
            let ended = self.running.take();
            drop(ended);
            return Awaits::Nothing;
        }
        awaits
    }

    fn release(self: Rc<Self>) {
        self.spare_if_last();
    }
}

/// A client's wait for the decision of its request. Dropped before the decision,
/// it ends the request.
pub(super) struct PendingReply<R: Request> {
    cell: Rc<RequestCell<R>>,
    registration: Registration,
}

impl<R: Request> PendingReply<R> {
    /// Hands the reply to a client with many requests. Returns whether that is all that it
    /// takes: a request that has a trigger needs [`PendingReply::decided`].
    pub(super) fn reply_to(&self, client: &Rc<dyn ReplyReceiver<R>>, number: usize) -> bool {
        if self.cell.trigger().is_some() {
            return false;
        }
        *self.cell.client.borrow_mut() = Client::Many(Rc::clone(client), number);
        true
    }

    /// Keeps the reply for [`PendingReply::decided`], whoever was to get it.
    pub(super) fn keep_reply(&self) {
        *self.cell.client.borrow_mut() = Client::None;
    }

    /// Watches the clock for the request until it is decided.
    pub(super) async fn decided(self, timestamps: &TimestampAllocator) -> R::Reply {
        let cell = &*self.cell;
        loop {
            let trigger = cell.trigger();
            let decided = cell.changed(trigger);
            match trigger {
                None => {
                    if let Some(reply) = decided.await {
                        return reply;
                    }
                }
                Some(Trigger::At(at)) => tokio::select! {
                    biased;
                    reply = decided => if let Some(reply) = reply {
                        return reply;
                    },
                    () = tokio::time::sleep_until(at) => cell.fire(),
                },
                Some(Trigger::TimestampAllocator) => {
                    // Before the attempt, so that no change between the two is missed.
                    let changed = timestamps.changed();
                    cell.fire();
                    tokio::select! {
                        biased;
                        reply = decided => if let Some(reply) = reply {
                            return reply;
                        },
                        () = changed => {}
                    }
                }
            }
        }
    }
}

impl<R: Request> Drop for PendingReply<R> {
    fn drop(&mut self) {
        if self.cell.is_in_background() {
            self.registration.leave_to_receiver();
            // If the client has gone before it took the reply, nobody takes it. A long
            // value in it must not count until the request ends.
            drop(self.cell.reply.take());
        }
        self.registration.end();
        self.cell.spare_if_last();
    }
}

#[cfg(test)]
mod tests;
