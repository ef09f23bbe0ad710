//! Seeded choices.
//!
//! Every part of a world (network, disks, faults, clients) throws dice of its
//! own, forked from those of the seed, so that one more throw in one part
//! leaves the others as they were.

use base::{Random, SeededRandom};
use std::ops::RangeInclusive;

/// A stream of choices that a seed determines.
pub(crate) struct Dice {
    random: SeededRandom,
}

impl Dice {
    /// The choices of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: SeededRandom::new(seed),
        }
    }

    /// Dice of their own, determined by these.
    pub(crate) fn fork(&self) -> Self {
        Self::new(self.next())
    }

    /// Any number.
    pub(crate) fn next(&self) -> u64 {
        self.random.next_u64()
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        // The bias of the remainder does not matter to a test.
        self.next() % bound
    }

    /// A place in a list of `length` things, of which there is at least one.
    pub(crate) fn place(&self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// A number of a range.
    pub(crate) fn within(&self, range: &RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of a list that is not empty.
    pub(crate) fn pick<'a, T>(&self, list: &'a [T]) -> &'a T {
        &list[self.place(list.len())]
    }
}
