//! Budgets: bounds on what requests take, of memory above all.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Values longer than this count against the budgets for long values while they are
/// sent or received.
pub const LONG_VALUE_BYTES: usize = 64 << 10;

/// The budget has too little left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// A bound on a sum over all runtimes, of bytes or of ranges.
#[derive(Debug)]
pub struct Budget {
    used: AtomicUsize,
    max: usize,
    /// The amount of the one share that is larger than the whole budget; 0 while there is none.
    oversized: AtomicUsize,
    /// Who waits until a part is freed, one at most; and whether there is one.
    waker: Mutex<Option<Waker>>,
    is_awaited: AtomicBool,
}

/// A part of a budget. Dropping it frees the part.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    amount: usize,
    /// Whether it has the place beside the budget ([`Budget::take_even_oversized`]). It is never
    /// divided then.
    is_oversized: bool,
}

impl Budget {
    /// A budget of `max`, all of it free.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            max,
            oversized: AtomicUsize::new(0),
            waker: Mutex::default(),
            is_awaited: AtomicBool::new(false),
        })
    }

    /// The size of the budget.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max
    }

    /// How much of it is taken, with what has the place beside it.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed) + self.oversized.load(Ordering::Relaxed)
    }

    /// Whether at least half of it is taken.
    pub fn is_half_used(&self) -> bool {
        self.used() >= self.max / 2
    }

    /// Takes a share.
    ///
    /// # Errors
    /// [`Refused`] if less is left.
    pub fn take(self: &Arc<Self>, amount: usize) -> Result<Share, Refused> {
        let mut share = Share {
            budget: Arc::clone(self),
            amount: 0,
            is_oversized: false,
        };
        share.grow(amount)?;
        Ok(share)
    }

    /// Takes a share of any amount. One that is larger than the whole budget has a place of its
    /// own, beside the budget, at which there is one at a time: what was stored when limits
    /// were higher, or by a node whose limits are, can be read and repaired nevertheless.
    ///
    /// # Errors
    /// [`Refused`] if less is left, or if another one has the place.
    pub fn take_even_oversized(self: &Arc<Self>, amount: usize) -> Result<Share, Refused> {
        if amount <= self.max {
            return self.take(amount);
        }
        let order = Ordering::Relaxed;
        let taken = self.oversized.compare_exchange(0, amount, order, order);
        taken.map_err(|_| Refused)?;
        Ok(Share {
            budget: Arc::clone(self),
            amount,
            is_oversized: true,
        })
    }

    /// How much of it is free, for one who waits: after [`Budget::wake_when_freed`], either this
    /// counts a part that is freed, or that wakes.
    pub fn left(&self) -> usize {
        self.max.saturating_sub(self.used.load(Ordering::SeqCst))
    }

    /// Wakes so when a part is freed next. Only one is woken: another one takes its place.
    pub fn wake_when_freed(&self, waker: Waker) {
        *self.waker() = Some(waker);
        self.is_awaited.store(true, Ordering::SeqCst);
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn free(&self, amount: usize) {
        self.used.fetch_sub(amount, Ordering::SeqCst);
        if self.is_awaited.load(Ordering::SeqCst) {
            self.is_awaited.store(false, Ordering::SeqCst);
            // The waker may come back here.
            let waker = self.waker().take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Takes the share for a value that will be sent to a client. Short values take none, and
    /// one that is longer than the whole budget has the place beside it.
    ///
    /// # Errors
    /// As [`Budget::take_even_oversized`].
    pub fn take_for_value(self: &Arc<Self>, value_bytes: usize) -> Result<Option<Share>, Refused> {
        if value_bytes <= LONG_VALUE_BYTES {
            return Ok(None);
        }
        self.take_even_oversized(value_bytes).map(Some)
    }
}

impl Share {
    /// Whether this is a share of `budget`.
    #[must_use]
    pub fn is_of(&self, budget: &Arc<Budget>) -> bool {
        Arc::ptr_eq(&self.budget, budget)
    }

    /// The size of this share.
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Takes more.
    ///
    /// # Errors
    /// [`Refused`] when there is not as much left; the part stays as it is.
    pub fn grow(&mut self, amount: usize) -> Result<(), Refused> {
        if self.is_oversized {
            return Err(Refused);
        }
        self.budget
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(amount)
                    .filter(|sum| *sum <= self.budget.max)
            })
            .map_err(|_| Refused)?;
        self.amount += amount;
        Ok(())
    }

    /// Moves a part of this share, or all of it if it is less, to a share of its own.
    #[must_use]
    pub fn split(&mut self, amount: usize) -> Self {
        let amount = if self.is_oversized {
            0
        } else {
            amount.min(self.amount)
        };
        self.amount -= amount;
        Self {
            budget: Arc::clone(&self.budget),
            amount,
            is_oversized: false,
        }
    }

    /// Adds another share of the same budget; a share of another one is freed.
    pub fn join(&mut self, mut other: Self) {
        if other.is_of(&self.budget) && !self.is_oversized && !other.is_oversized {
            self.amount += std::mem::take(&mut other.amount);
        }
    }

    /// Returns what is above `amount` to the budget.
    pub fn shrink_to(&mut self, amount: usize) {
        drop(self.split(self.amount.saturating_sub(amount)));
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.is_oversized {
            self.budget.oversized.store(0, Ordering::Relaxed);
        } else {
            self.budget.free(self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_never_exceeded_and_dropped_shares_free_it() {
        let budget = Budget::new(10);
        let mut share = budget.take(6).unwrap();
        assert!(budget.take(5).is_err());
        assert!(share.grow(5).is_err());
        share.grow(4).unwrap();
        assert_eq!((share.amount(), budget.used()), (10, 10));
        assert!(budget.take(usize::MAX).is_err());
        let mut part = share.split(7);
        assert_eq!((share.amount(), part.amount(), budget.used()), (3, 7, 10));
        assert_eq!(
            share.split(9).amount(),
            3,
            "no part is larger than the share"
        );
        part.shrink_to(2);
        assert_eq!((part.amount(), budget.used()), (2, 2));
        share.join(part.split(1));
        share.join(Budget::new(5).take(5).unwrap());
        assert_eq!((share.amount(), part.amount(), budget.used()), (1, 1, 2));
        drop((share, part));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_larger_than_the_budget_has_one_place_beside_it() {
        let budget = Budget::new(10);
        assert!(budget.take(11).is_err());
        let mut all = budget.take_even_oversized(10).unwrap();
        let mut oversized = budget.take_even_oversized(30).unwrap();
        assert_eq!((oversized.amount(), budget.used()), (30, 40));
        assert!(budget.take_even_oversized(11).is_err(), "one at a time");
        assert!(budget.take_even_oversized(1).is_err(), "none is left");
        // It stays in one piece.
        assert!(oversized.grow(1).is_err());
        oversized.shrink_to(1);
        assert_eq!((oversized.split(3).amount(), oversized.amount()), (0, 30));
        all.shrink_to(4);
        assert_eq!(budget.take_even_oversized(6).unwrap().amount(), 6);
        drop(oversized);
        assert_eq!(budget.used(), 4);
        assert!(budget.take_for_value(LONG_VALUE_BYTES + 1).is_ok());
        assert!(budget.take_for_value(LONG_VALUE_BYTES).unwrap().is_none());
    }

    #[test]
    fn who_waits_is_woken_when_a_part_is_freed() {
        struct Woken(AtomicUsize);
        impl std::task::Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let budget = Budget::new(10);
        let (first, second) = (budget.take(6).unwrap(), budget.take(4).unwrap());
        assert_eq!(budget.left(), 0);
        budget.wake_when_freed(Waker::from(Arc::clone(&woken)));
        drop(second);
        assert_eq!((woken.0.load(Ordering::SeqCst), budget.left()), (1, 4));
        drop(first);
        assert_eq!(woken.0.load(Ordering::SeqCst), 1, "once");
        assert_eq!(budget.left(), 10);
    }
}
