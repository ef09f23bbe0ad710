//! Which key number a request takes.

use super::permutation::Permutation;
use super::zipf::Zipf;
use crate::plan::{KeyChoice, Plan};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The numbers that all threads take from in turn.
#[derive(Debug)]
pub(crate) struct KeyCounters {
    /// How many numbers a sequential choice has given.
    sequential: AtomicU64,
    /// The next number to insert: above all that are there.
    next_insert: AtomicU64,
}

impl KeyCounters {
    /// Where `keys` numbers are there from the beginning.
    pub(crate) fn new(keys: u64) -> Self {
        Self {
            sequential: AtomicU64::new(0),
            next_insert: AtomicU64::new(keys),
        }
    }

    /// A number that nobody had before, for an insert.
    pub(crate) fn insert(&self) -> u64 {
        self.next_insert.fetch_add(1, Relaxed)
    }

    /// The next of the numbers from 0 on.
    pub(crate) fn next(&self) -> u64 {
        self.sequential.fetch_add(1, Relaxed)
    }
}

/// Chooses key numbers; each thread has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyChooser {
    choice: KeyChoice,
    keys: u64,
    /// Inserts that may be on their way, which no read should ask for yet.
    inserts_in_flight_max: u64,
    zipf: Zipf,
    scatter: Permutation,
}

impl KeyChooser {
    pub(crate) fn new(plan: &Plan) -> Self {
        // What is popular is so for all threads, so it comes from the seed alone.
        Self {
            choice: plan.key_choice,
            keys: plan.keys,
            inserts_in_flight_max: plan.connections as u64,
            zipf: Zipf::new(plan.keys),
            scatter: Permutation::new(plan.keys, plan.seed),
        }
    }

    /// The next number.
    pub(crate) fn choose(&self, counters: &KeyCounters, random: &mut fastrand::Rng) -> u64 {
        match self.choice {
            KeyChoice::Sequential => counters.next() % self.keys,
            KeyChoice::Uniform => random.u64(..self.keys),
            KeyChoice::Zipfian => self.scatter.of(self.zipf.rank(random.f64())),
            KeyChoice::Latest => {
                let end = counters.next_insert.load(Relaxed);
                let settled = end.saturating_sub(self.inserts_in_flight_max);
                // Those that were there from the beginning are settled.
                let newest = settled.max(self.keys) - 1;
                newest.saturating_sub(self.zipf.rank(random.f64()))
            }
        }
    }
}

#[cfg(test)]
mod tests;
