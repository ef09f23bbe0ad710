//! The requests of one runtime that wait for answers.
//!
//! A [`Wait`] is a place in a slab; its tickets go out with what is asked, and
//! an answer comes back under one of them. A ticket names the place, the
//! place's generation, so that an answer that comes too late finds nobody
//! rather than somebody else, and a tag that says which answer it is: a request
//! may ask several replicas.
//!
//! ```text
//! ticket = generation: 30 bits | tag: 10 bits | place: 24 bits
//! ```
//!
//! Deadlines cost no timer each: the runtime sweeps the slab now and then
//! ([`Waiters::expire`]), which makes a deadline late by at most that period.

use crate::completion_queue::{Completion, CompletionQueue};
use peer::{AnswerHandler, PeerAnswer};
use slab::Slab;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const PLACE_BITS: u32 = 24;
// Requests in flight, four stragglers each, and as many again for peers and hints.
const _: () = assert!(8 * *crate::config::bounds::COUNTS.end() < 1 << PLACE_BITS);
const TAG_BITS: u32 = 10;

/// Which of a request's answers one is; below 1024.
pub(crate) type Tag = u16;

/// What to do with the only answer, for a wait that is no future's.
type Handler = Box<dyn FnOnce(Option<Completion>)>;

/// What sees to the answers that still come once nobody awaits them: cheaper
/// than a task of its own.
pub(crate) trait Follower {
    /// The next answer and its tag, or `None` at the deadline, which is the last.
    fn follow(&mut self, answer: Option<(Tag, Completion)>) -> Follows;
}

/// Whether a [`Follower`] waits for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// It does.
    On,
    /// It does not.
    Ended,
}

/// Those who wait.
pub(crate) struct Waiters {
    slots: RefCell<Slab<Slot>>,
    generation: Cell<u64>,
    completions: Arc<CompletionQueue>,
    writes: Arc<dyn lsm::Outbox>,
}

struct Slot {
    generation: u64,
    deadline: Duration,
    listener: Listener,
    /// Answers that were not taken yet: at most one for each ticket.
    answers: SmallVec<[(Tag, Completion); 2]>,
    is_expired: bool,
}

enum Listener {
    Future(Option<Waker>),
    Handler(Handler),
    /// Taken out while it works: it may use the waiters itself.
    Follower(Option<Box<dyn Follower>>),
}

/// Drops all waits with the task that would complete them: a follower may hold
/// what holds the waiters.
struct Clearing(Rc<Waiters>);

impl Drop for Clearing {
    fn drop(&mut self) {
        // Outside the borrow: waits look for their place as they are dropped.
        let slots = self.0.slots.take();
        drop(slots);
    }
}

impl Waiters {
    /// No waiters yet, and a queue for their answers.
    pub(crate) fn new() -> Rc<Self> {
        let completions = Arc::new(CompletionQueue::default());
        Rc::new(Self {
            slots: RefCell::default(),
            generation: Cell::new(0),
            writes: Arc::clone(&completions) as Arc<dyn lsm::Outbox>,
            completions,
        })
    }

    /// The queue, as the read pool takes it.
    pub(crate) fn completions(&self) -> &Arc<CompletionQueue> {
        &self.completions
    }

    /// The queue, as the engine takes it.
    pub(crate) fn writes(&self) -> &Arc<dyn lsm::Outbox> {
        &self.writes
    }

    /// Takes a place for answers, to come before `deadline` on the monotonic
    /// clock. Dropping the result gives the place up.
    pub(crate) fn register(self: &Rc<Self>, deadline: Duration) -> Wait {
        Wait {
            waiters: Rc::clone(self),
            ticket: self.insert(deadline, Listener::Future(None)),
        }
    }

    /// Has `handler` called with the one answer that comes under the ticket
    /// returned, or with `None` at the deadline.
    pub(crate) fn handle(
        &self,
        deadline: Duration,
        handler: impl FnOnce(Option<Completion>) + 'static,
    ) -> u64 {
        self.insert(deadline, Listener::Handler(Box::new(handler)))
    }

    /// Has `follower` get what comes for a wait from now on, which it may hold.
    pub(crate) fn follow(&self, ticket: u64, mut follower: Box<dyn Follower>) {
        loop {
            let mut slots = self.slots.borrow_mut();
            let Some(slot) = slot_of(&mut slots, ticket) else {
                return;
            };
            let next = if !slot.answers.is_empty() {
                Some(slot.answers.remove(0))
            } else if slot.is_expired {
                None
            } else {
                slot.listener = Listener::Follower(Some(follower));
                return;
            };
            drop(slots);
            let is_last = next.is_none();
            if follower.follow(next) == Follows::Ended || is_last {
                return self.remove(ticket);
            }
        }
    }

    /// Hands out answers of other threads as they come, for as long as the
    /// runtime lives. `look` may keep one back, to give it again when it is complete.
    pub(crate) async fn deliver_forever(
        self: Rc<Self>,
        look: impl Fn(u64, Completion) -> Option<Completion>,
    ) {
        let waiters = Clearing(self);
        let waiters = &waiters.0;
        let mut answers = Vec::new();
        loop {
            waiters.completions.take_all(&mut answers).await;
            for answer in answers.drain(..) {
                if let Some(completion) = look(answer.ticket, answer.completion) {
                    waiters.complete(answer.ticket, completion);
                }
            }
        }
    }

    /// Ends the waits whose deadline is not after `now`.
    pub(crate) fn expire(&self, now: Duration) {
        let mut wakers = Vec::new();
        let mut overdue = Vec::new();
        let mut slots = self.slots.borrow_mut();
        for (place, slot) in slots.iter_mut() {
            if slot.deadline > now || slot.is_expired {
                continue;
            }
            slot.is_expired = true;
            match &mut slot.listener {
                Listener::Future(waker) => wakers.extend(waker.take()),
                Listener::Handler(_) | Listener::Follower(_) => overdue.push(place),
            }
        }
        let overdue: Vec<Slot> = overdue
            .into_iter()
            .filter_map(|place| slots.try_remove(place))
            .collect();
        // Whoever is woken or called may register anew.
        drop(slots);
        for waker in wakers {
            waker.wake();
        }
        for slot in overdue {
            match slot.listener {
                Listener::Handler(handler) => handler(None),
                Listener::Follower(Some(mut follower)) => {
                    follower.follow(None);
                }
                Listener::Follower(None) | Listener::Future(_) => {}
            }
        }
    }

    fn insert(&self, deadline: Duration, listener: Listener) -> u64 {
        let generation =
            self.generation.get().wrapping_add(1) & (u64::MAX >> (PLACE_BITS + TAG_BITS));
        self.generation.set(generation);
        let place = self.slots.borrow_mut().insert(Slot {
            generation,
            deadline,
            listener,
            answers: SmallVec::new(),
            is_expired: false,
        });
        // Admission keeps the places far below their bound.
        debug_assert!(place < 1 << PLACE_BITS, "places are bounded by admission");
        (generation << (PLACE_BITS + TAG_BITS)) | place as u64
    }

    /// Hands an answer to whoever waits for it under `ticket`.
    pub(crate) fn complete(&self, ticket: u64, completion: Completion) {
        let tag = ((ticket >> PLACE_BITS) & ((1 << TAG_BITS) - 1)) as Tag;
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slot_of(&mut slots, ticket) else {
            return;
        };
        match &mut slot.listener {
            Listener::Future(waker) => {
                let waker = waker.take();
                slot.answers.push((tag, completion));
                drop(slots);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            Listener::Handler(_) => {
                let slot = slots.remove(place_of(ticket));
                drop(slots);
                if let Listener::Handler(handler) = slot.listener {
                    handler(Some(completion));
                }
            }
            Listener::Follower(follower) => {
                let Some(mut follower) = follower.take() else {
                    return;
                };
                drop(slots);
                if follower.follow(Some((tag, completion))) == Follows::On {
                    self.put_follower(ticket, follower);
                } else {
                    self.remove(ticket);
                }
            }
        }
    }

    /// Has a follower wait in the place of a ticket.
    fn put_follower(&self, ticket: u64, follower: Box<dyn Follower>) {
        if let Some(slot) = slot_of(&mut self.slots.borrow_mut(), ticket) {
            slot.listener = Listener::Follower(Some(follower));
        }
    }

    /// Gives up the place of a ticket, if it still is the ticket's.
    fn remove(&self, ticket: u64) {
        let mut slots = self.slots.borrow_mut();
        let slot = slot_of(&mut slots, ticket)
            .is_some()
            .then(|| slots.remove(place_of(ticket)));
        drop(slots);
        // Outside the borrow: an answer nobody took may own more than memory.
        drop(slot);
    }
}

fn place_of(ticket: u64) -> usize {
    (ticket & ((1 << PLACE_BITS) - 1)) as usize
}

/// The slot that a ticket is for, if that still is there.
fn slot_of(slots: &mut Slab<Slot>, ticket: u64) -> Option<&mut Slot> {
    let slot = slots.get_mut(place_of(ticket))?;
    (slot.generation == ticket >> (PLACE_BITS + TAG_BITS)).then_some(slot)
}

impl AnswerHandler for Waiters {
    fn answer(&self, ticket: u64, answer: PeerAnswer) {
        self.complete(ticket, Completion::Peer(answer));
    }
}

/// A place for answers, until it is dropped.
pub(crate) struct Wait {
    waiters: Rc<Waiters>,
    ticket: u64,
}

impl Wait {
    /// What the only answer has to be addressed to.
    pub(crate) fn ticket(&self) -> u64 {
        self.ticket
    }

    /// What the answer with this tag has to be addressed to.
    pub(crate) fn ticket_for(&self, tag: Tag) -> u64 {
        debug_assert!(tag < 1 << TAG_BITS, "a tag has ten bits");
        self.ticket | (u64::from(tag) << PLACE_BITS)
    }

    /// The next answer and its tag; `None` once the deadline has passed.
    pub(crate) async fn next(&mut self) -> Option<(Tag, Completion)> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The only answer; `None` once the deadline has passed.
    pub(crate) async fn only(mut self) -> Option<Completion> {
        self.next().await.map(|(_, completion)| completion)
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<(Tag, Completion)>> {
        let mut slots = self.waiters.slots.borrow_mut();
        let Some(slot) = slot_of(&mut slots, self.ticket) else {
            return Poll::Ready(None);
        };
        if !slot.answers.is_empty() {
            return Poll::Ready(Some(slot.answers.remove(0)));
        }
        if slot.is_expired {
            return Poll::Ready(None);
        }
        if let Listener::Future(waker) = &mut slot.listener {
            match waker {
                Some(waker) if waker.will_wake(cx.waker()) => {}
                _ => *waker = Some(cx.waker().clone()),
            }
        }
        Poll::Pending
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.waiters.remove(self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Verdict;
    use lsm::{Applied, Outcome};
    use std::future::Future;
    use std::pin::pin;

    fn poll(wait: &Wait) -> Poll<Option<(Tag, Completion)>> {
        wait.poll_next(&mut Context::from_waker(Waker::noop()))
    }

    fn stored() -> Completion {
        Completion::Written(Ok(Applied::Known(Verdict::Clean)))
    }

    #[test]
    fn an_answer_reaches_the_one_that_waits_for_it() {
        let waiters = Waiters::new();
        let first = waiters.register(Duration::MAX);
        let second = waiters.register(Duration::MAX);
        assert!(poll(&second).is_pending());
        waiters.complete(second.ticket(), stored());
        assert!(poll(&first).is_pending());
        assert!(matches!(poll(&second), Poll::Ready(Some((0, _)))));
    }

    #[test]
    fn several_answers_come_in_their_order_with_their_tags() {
        let waiters = Waiters::new();
        let wait = waiters.register(Duration::from_secs(1));
        for tag in [3, 1023, 0] {
            waiters.complete(wait.ticket_for(tag), stored());
        }
        waiters.expire(Duration::from_secs(1));
        for tag in [3, 1023, 0] {
            assert!(matches!(poll(&wait), Poll::Ready(Some((known, _))) if known == tag));
        }
        assert!(matches!(poll(&wait), Poll::Ready(None)));
    }

    #[test]
    fn a_late_answer_finds_nobody() {
        let waiters = Waiters::new();
        let gone = waiters.register(Duration::MAX);
        let late = gone.ticket();
        drop(gone);
        let next = waiters.register(Duration::MAX);
        assert_eq!(
            place_of(next.ticket),
            place_of(late),
            "the place is used again"
        );
        waiters.complete(late, stored());
        assert!(poll(&next).is_pending());
    }

    #[test]
    fn a_deadline_ends_a_wait() {
        let waiters = Waiters::new();
        let soon = waiters.register(Duration::from_secs(1));
        let later = waiters.register(Duration::from_secs(2));
        assert!(poll(&soon).is_pending());
        waiters.expire(Duration::from_secs(1));
        assert!(matches!(poll(&soon), Poll::Ready(None)));
        assert!(poll(&later).is_pending());
    }

    #[test]
    fn a_handler_is_called_once_with_the_answer_or_at_the_deadline() {
        let waiters = Waiters::new();
        let calls = Rc::new(RefCell::new(Vec::new()));
        let note = |name: &'static str| {
            let calls = Rc::clone(&calls);
            move |completion: Option<Completion>| {
                calls.borrow_mut().push((name, completion.is_some()));
            }
        };
        let answered = waiters.handle(Duration::from_secs(1), note("answered"));
        let overdue = waiters.handle(Duration::from_secs(1), note("overdue"));
        waiters.complete(answered, stored());
        waiters.complete(answered, stored());
        waiters.expire(Duration::from_secs(1));
        waiters.complete(overdue, stored());
        assert_eq!(*calls.borrow(), [("answered", true), ("overdue", false)]);
    }

    /// Notes what it is told, holds its wait, and ends with the answer tagged 9.
    struct Notes {
        notes: Rc<RefCell<Vec<Option<Tag>>>>,
        wait: Wait,
    }

    impl Follower for Notes {
        fn follow(&mut self, answer: Option<(Tag, Completion)>) -> Follows {
            let tag = answer.map(|(tag, _)| tag);
            self.notes.borrow_mut().push(tag);
            // As one does that has something to send.
            drop(self.wait.waiters.register(Duration::MAX));
            match tag {
                Some(9) => Follows::Ended,
                _ => Follows::On,
            }
        }
    }

    /// A wait for five seconds that has this answer already, and its follower's notes.
    fn followed(waiters: &Rc<Waiters>, first: Tag) -> (u64, Rc<RefCell<Vec<Option<Tag>>>>) {
        let wait = waiters.register(Duration::from_secs(5));
        let (ticket, notes) = (wait.ticket(), Rc::default());
        waiters.complete(wait.ticket_for(first), stored());
        let follower = Notes {
            notes: Rc::clone(&notes),
            wait,
        };
        waiters.follow(ticket, Box::new(follower));
        (ticket, notes)
    }

    fn tagged(ticket: u64, tag: Tag) -> u64 {
        ticket | (u64::from(tag) << PLACE_BITS)
    }

    #[test]
    fn a_follower_gets_all_answers_until_it_has_enough() {
        let waiters = Waiters::new();
        let (ticket, notes) = followed(&waiters, 1);
        for tag in [2, 9, 3] {
            waiters.complete(tagged(ticket, tag), stored());
        }
        assert_eq!(*notes.borrow(), [Some(1), Some(2), Some(9)]);
        assert!(waiters.slots.borrow().is_empty());
        let (_, notes) = followed(&waiters, 9);
        assert_eq!(*notes.borrow(), [Some(9)]);
        assert!(waiters.slots.borrow().is_empty());
    }

    #[test]
    fn a_follower_is_told_of_the_deadline_once_also_where_it_has_passed() {
        let waiters = Waiters::new();
        let (ticket, notes) = followed(&waiters, 1);
        for _ in 0..2 {
            waiters.expire(Duration::from_secs(5));
            waiters.complete(tagged(ticket, 2), stored());
        }
        assert_eq!(*notes.borrow(), [Some(1), None]);
        let wait = waiters.register(Duration::from_secs(1));
        waiters.expire(Duration::from_secs(1));
        let (ticket, notes) = (wait.ticket(), Rc::default());
        let follower = Notes {
            notes: Rc::clone(&notes),
            wait,
        };
        waiters.follow(ticket, Box::new(follower));
        assert_eq!(*notes.borrow(), [None]);
        assert!(waiters.slots.borrow().is_empty());
    }

    #[test]
    fn followers_that_hold_their_wait_go_with_the_runtime() {
        let waiters = Waiters::new();
        let (_, notes) = followed(&waiters, 1);
        drop(Rc::clone(&waiters).deliver_forever(|_, completion| Some(completion)));
        assert_eq!(Rc::strong_count(&notes), 2, "it had not begun");
        let mut delivery =
            Box::pin(Rc::clone(&waiters).deliver_forever(|_, completion| Some(completion)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(delivery.as_mut().poll(&mut context).is_pending());
        drop(delivery);
        assert_eq!(Rc::strong_count(&notes), 1);
        assert_eq!(Rc::strong_count(&waiters), 1);
    }

    #[test]
    fn a_group_of_answers_wakes_once() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let waiters = Waiters::new();
        let waits: Vec<Wait> = (0..3).map(|_| waiters.register(Duration::MAX)).collect();
        waiters.writes().deliver(
            waits
                .iter()
                .map(|wait| Outcome {
                    ticket: wait.ticket(),
                    result: Ok(Applied::Known(Verdict::Clean)),
                })
                .collect(),
        );
        let local = tokio::task::LocalSet::new();
        local.spawn_local(Rc::clone(&waiters).deliver_forever(|_, completion| Some(completion)));
        local.block_on(&runtime, async {
            for wait in waits {
                assert!(pin!(wait.only()).await.is_some());
            }
        });
    }
}
