//! Budgets: bounds on what requests take, of memory above all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
}

/// A part of a budget. Dropping it frees the part.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    amount: usize,
}

impl Budget {
    /// A budget of `max`, all of it free.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            max,
        })
    }

    /// The size of the budget.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max
    }

    /// How much of it is taken.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
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
        };
        share.grow(amount)?;
        Ok(share)
    }

    /// Takes the share for a value that will be sent to a client. Short values take none.
    ///
    /// # Errors
    /// [`Refused`] if less is left.
    pub fn take_for_value(self: &Arc<Self>, value_bytes: usize) -> Result<Option<Share>, Refused> {
        if value_bytes <= LONG_VALUE_BYTES {
            return Ok(None);
        }
        self.take(value_bytes).map(Some)
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
        let amount = amount.min(self.amount);
        self.amount -= amount;
        Self {
            budget: Arc::clone(&self.budget),
            amount,
        }
    }

    /// Adds another share of the same budget; a share of another one is freed.
    pub fn join(&mut self, mut other: Self) {
        if other.is_of(&self.budget) {
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
        self.budget.used.fetch_sub(self.amount, Ordering::Relaxed);
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
}
