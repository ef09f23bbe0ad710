//! Chooses the key numbers of requests.

use super::permutation::Permutation;
use super::zipf::Zipf;
use crate::plan::{KeyChoice, Plan};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counters that all threads share.
#[derive(Debug)]
pub(crate) struct KeyCounters {
    /// How many numbers have been taken in sequence.
    sequential: AtomicU64,
    /// The next number to insert, above all existing ones.
    next_insert: AtomicU64,
}

impl KeyCounters {
    /// Counters for a store with `keys` keys at the beginning.
    pub(crate) fn new(keys: u64) -> Self {
        Self {
            sequential: AtomicU64::new(0),
            next_insert: AtomicU64::new(keys),
        }
    }

    /// A new number for an insert.
    pub(crate) fn insert(&self) -> u64 {
        self.next_insert.fetch_add(1, Relaxed)
    }

    /// The next number in sequence, from 0.
    pub(crate) fn next(&self) -> u64 {
        self.sequential.fetch_add(1, Relaxed)
    }
}

/// Chooses key numbers for a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyChooser {
    choice: KeyChoice,
    keys: u64,
    /// The most inserts that may be in flight; reads should not request their
    /// keys yet.
    inserts_in_flight_max: u64,
    zipf: Zipf,
    scatter: Permutation,
}

impl KeyChooser {
    pub(crate) fn new(plan: &Plan) -> Self {
        // The same keys are popular on all threads, so the permutation depends
        // on the seed only.
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
                // The keys that existed at the beginning are settled.
                let newest = settled.max(self.keys) - 1;
                newest.saturating_sub(self.zipf.rank(random.f64()))
            }
        }
    }
}

#[cfg(test)]
mod tests;
