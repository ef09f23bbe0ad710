//! Seeded choices.
//!
//! Every part of a world (network, disks, faults, clients) has its own dice, forked from
//! those of the seed. So one more throw in one part does not change the other parts.

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

    /// Separate dice, determined by these.
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

    /// An index into a list of `length` elements, at least one.
    pub(crate) fn place(&self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// A number of a range.
    pub(crate) fn within(&self, range: &RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of a list that is not empty.
    pub(crate) fn pick<'a, T>(&self, list: &'a [T]) -> &'a T {
        &list[self.place(list.len())]
    }
}
