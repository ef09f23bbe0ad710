//! The permits of batches.
//!
//! Each operation of a batch holds a permit while it runs. A batch takes as many as are
//! free and asks for the rest; it never waits with permits that it does not use, so
//! batches cannot block each other. All batches together hold at most half of the permits,
//! so that others always find some.

use super::Permits;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Waker};

/// The batches that wait for permits, in the order in which they began to wait.
pub(super) struct BatchQueue {
    /// How many permits all batches hold.
    held: Cell<usize>,
    held_max: usize,
    waiting: RefCell<VecDeque<Rc<WaitingBatch>>>,
    /// Whether a batch is next, of the batches and the others that wait.
    is_next: Cell<bool>,
}

/// A batch in the queue.
#[derive(Default)]
struct WaitingBatch {
    waker: RefCell<Option<Waker>>,
    is_queued: Cell<bool>,
    wanted: Cell<usize>,
    /// How many permits it was granted and has not picked up.
    granted: Cell<usize>,
}

/// The permits of one batch, which return when this is dropped.
pub struct BatchPermits {
    all: Rc<Permits>,
    held: Cell<usize>,
    waiting: Rc<WaitingBatch>,
}

impl BatchQueue {
    /// A queue of batches that may hold `held_max` permits.
    pub(super) fn new(held_max: usize) -> Self {
        Self {
            held: Cell::new(0),
            held_max,
            waiting: RefCell::default(),
            is_next: Cell::new(false),
        }
    }

    /// Grants a permit that has returned to the first batch, if that is its turn. The
    /// turns change while others wait as well.
    pub(super) fn grant(&self, do_others_wait: bool) -> bool {
        if do_others_wait && !self.is_next.replace(true) {
            return false;
        }
        if self.held.get() == self.held_max {
            return false;
        }
        let mut waiting = self.waiting.borrow_mut();
        let Some(first) = waiting.front() else {
            return false;
        };
        self.is_next.set(false);
        self.held.set(self.held.get() + 1);
        first.granted.set(first.granted.get() + 1);
        let waker = first.waker.take();
        if first.granted == first.wanted {
            first.is_queued.set(false);
            waiting.pop_front();
        }
        drop(waiting);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    fn remove(&self, batch: &Rc<WaitingBatch>) {
        if !batch.is_queued.replace(false) {
            return;
        }
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain(|known| !Rc::ptr_eq(known, batch));
    }
}

impl BatchPermits {
    /// No permits yet.
    pub fn new(all: &Rc<Permits>) -> Self {
        Self {
            all: Rc::clone(all),
            held: Cell::new(0),
            waiting: Rc::default(),
        }
    }

    /// Takes up to `wanted` permits, and returns how many. If there is none, it wakes
    /// `cx` when there is one. A batch that wants none any more gives back what it was granted.
    pub fn poll_take(&self, cx: &mut Context<'_>, wanted: usize) -> usize {
        let batches = &self.all.batches;
        let granted = self.waiting.granted.take();
        self.held.set(self.held.get() + granted);
        if granted > wanted {
            // Otherwise what it returns would come back to it.
            batches.remove(&self.waiting);
            self.release(granted - wanted);
            return wanted;
        }
        let mut taken = granted;
        let is_turn = match batches.waiting.borrow().front() {
            Some(first) => Rc::ptr_eq(first, &self.waiting),
            None => true,
        };
        if is_turn {
            let of_batches = batches.held_max - batches.held.get();
            let free = self.all.in_flight_max - self.all.in_flight.get();
            let more = free.min(of_batches).min(wanted - taken);
            batches.held.set(batches.held.get() + more);
            self.all.in_flight.set(self.all.in_flight.get() + more);
            self.held.set(self.held.get() + more);
            taken += more;
        }
        if taken > 0 || wanted == 0 {
            batches.remove(&self.waiting);
            return taken;
        }
        self.waiting.wanted.set(wanted);
        *self.waiting.waker.borrow_mut() = Some(cx.waker().clone());
        // A batch that asks again keeps its place in the queue.
        if !self.waiting.is_queued.replace(true) {
            let batch = Rc::clone(&self.waiting);
            batches.waiting.borrow_mut().push_back(batch);
        }
        0
    }

    /// Returns permits.
    pub fn release(&self, count: usize) {
        let count = count.min(self.held.get());
        self.held.set(self.held.get() - count);
        let held = &self.all.batches.held;
        held.set(held.get() - count);
        for _ in 0..count {
            self.all.release();
        }
    }
}

impl Drop for BatchPermits {
    fn drop(&mut self) {
        self.all.batches.remove(&self.waiting);
        let granted = self.waiting.granted.take();
        self.held.set(self.held.get() + granted);
        self.release(self.held.get());
    }
}

#[cfg(test)]
mod tests {
    use super::super::Admitted;
    use super::*;
    use profile::WaitSite;
    use std::time::Duration;

    static SITE: WaitSite = WaitSite::new("queue;of the test");

    fn take(permits: &BatchPermits, wanted: usize) -> usize {
        permits.poll_take(&mut Context::from_waker(Waker::noop()), wanted)
    }

    #[test]
    fn all_batches_together_hold_half_of_the_permits() {
        let all = Permits::with_queue(10, 1, &SITE);
        let (first, second) = (BatchPermits::new(&all), BatchPermits::new(&all));
        assert_eq!(take(&first, 3), 3);
        assert_eq!(take(&second, 9), 2);
        assert_eq!((take(&first, 9), take(&second, 9)), (0, 0));
        assert_eq!(all.in_flight(), 5);
        let Ok(Admitted::Granted(_request)) = all.admit(Duration::MAX) else {
            panic!("the other half is for requests");
        };
        // What returns goes to the batch that has waited longest, up to what it wants.
        second.release(2);
        assert_eq!((take(&second, 9), take(&first, 9)), (0, 2));
        drop(first);
        assert_eq!(take(&second, 9), 5);
        drop(second);
        assert_eq!(all.in_flight(), 1);
    }

    #[test]
    fn a_batch_that_wants_none_any_more_keeps_none_from_others() {
        let all = Permits::with_queue(8, 1, &SITE);
        let [holder, waiting, other] = [(); 3].map(|()| BatchPermits::new(&all));
        assert_eq!((take(&holder, 9), take(&waiting, 3)), (4, 0));
        holder.release(1);
        assert_eq!(take(&other, 1), 0, "it was granted to the batch that waits");
        assert_eq!(take(&waiting, 0), 0);
        assert_eq!(take(&other, 1), 1);
        holder.release(3);
        assert_eq!(take(&other, 9), 3);
        assert_eq!(all.in_flight(), 4);
    }

    #[test]
    fn permits_that_return_go_to_requests_and_batches_in_turn() {
        let all = Permits::with_queue(2, 9, &SITE);
        let hold = || match all.admit(Duration::MAX) {
            Ok(Admitted::Granted(permit)) => permit,
            _ => panic!("a permit is free"),
        };
        let (one, other) = (hold(), hold());
        let (first, second) = (all.admit(Duration::MAX), all.admit(Duration::MAX));
        let batch = BatchPermits::new(&all);
        assert_eq!(take(&batch, 4), 0);
        drop(one);
        assert_eq!(
            all.queued(),
            2,
            "a granted request has not left the queue yet"
        );
        drop(first);
        // The permit of the first went on to the batch, which may hold one of two.
        assert_eq!(take(&batch, 4), 1);
        drop(other);
        drop(second);
        assert_eq!((take(&batch, 4), all.in_flight()), (0, 1));
        batch.release(1);
        assert_eq!(take(&batch, 4), 1, "what returns goes round");
    }

    #[test]
    fn a_batch_that_ends_returns_what_it_was_granted() {
        let all = Permits::with_queue(2, 0, &SITE);
        let (first, second) = (BatchPermits::new(&all), BatchPermits::new(&all));
        assert_eq!((take(&first, 1), take(&second, 1)), (1, 0));
        drop(first);
        assert_eq!(all.in_flight(), 1, "it was passed on");
        drop(second);
        assert_eq!(all.in_flight(), 0);
    }
}
