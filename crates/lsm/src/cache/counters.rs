//! Counts of what reads of tables find.

use std::sync::atomic::{AtomicU64, Ordering};

/// What reads of tables have found since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadCounts {
    /// Lookups of the cache that found the block.
    pub(crate) cache_hits: u64,
    /// Lookups of the cache that did not find the block, so the disk was read.
    pub(crate) cache_misses: u64,
    /// Filter checks that ruled a table out.
    pub(crate) filter_negatives: u64,
    /// Filter checks that admitted a key which the table has.
    pub(crate) filter_true_positives: u64,
    /// Filter checks that admitted a key which the table does not have.
    pub(crate) filter_false_positives: u64,
    /// Data blocks that gets and scans fetched, from the cache or the disk.
    pub(crate) data_blocks_fetched: u64,
}

/// The number of stripes, a power of two.
const STRIPES: usize = 16;

/// Counters in stripes. A get counts in the stripe of its key, whatever the table,
/// so that cores seldom write to the same stripe at the same time.
#[derive(Default)]
pub(crate) struct ReadCounters {
    stripes: [CountsStripe; STRIPES],
}

impl ReadCounters {
    /// The stripe that the low bits of `number` choose.
    pub(crate) fn stripe(&self, number: u64) -> &CountsStripe {
        &self.stripes[number as usize % STRIPES]
    }

    /// The sums over all stripes. Each sum includes all reads that ended before the
    /// call.
    pub(crate) fn sum(&self) -> ReadCounts {
        let total = |count: fn(&CountsStripe) -> &AtomicU64| {
            let stripes = self.stripes.iter();
            stripes
                .map(|stripe| count(stripe).load(Ordering::Relaxed))
                .sum()
        };
        ReadCounts {
            cache_hits: total(|stripe| &stripe.cache_hits),
            cache_misses: total(|stripe| &stripe.cache_misses),
            filter_negatives: total(|stripe| &stripe.filter_negatives),
            filter_true_positives: total(|stripe| &stripe.filter_true_positives),
            filter_false_positives: total(|stripe| &stripe.filter_false_positives),
            data_blocks_fetched: total(|stripe| &stripe.data_blocks_fetched),
        }
    }
}

/// One stripe of the counters, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct CountsStripe {
    cache_hits: AtomicU64,
    cache_misses: AtomicU64,
    filter_negatives: AtomicU64,
    filter_true_positives: AtomicU64,
    filter_false_positives: AtomicU64,
    data_blocks_fetched: AtomicU64,
}

impl CountsStripe {
    /// Counts a fetch: a block was found in the cache, or has to be read.
    pub(crate) fn count_fetch(&self, is_hit: bool, is_data: bool) {
        increment(if is_hit {
            &self.cache_hits
        } else {
            &self.cache_misses
        });
        if is_data {
            increment(&self.data_blocks_fetched);
        }
    }

    /// Counts a filter that ruled its table out.
    pub(crate) fn count_filter_negative(&self) {
        increment(&self.filter_negatives);
    }

    /// Counts a filter that admitted a key which the table has.
    pub(crate) fn count_filter_true_positive(&self) {
        increment(&self.filter_true_positives);
    }

    /// Counts a filter that admitted a key which the table does not have.
    pub(crate) fn count_filter_false_positive(&self) {
        increment(&self.filter_false_positives);
    }
}

fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_stripes_add_up() {
        let counters = ReadCounters::default();
        for number in 0..100 {
            counters.stripe(number).count_fetch(number % 4 == 0, true);
            counters.stripe(number).count_filter_negative();
        }
        let expected = ReadCounts {
            cache_hits: 25,
            cache_misses: 75,
            filter_negatives: 100,
            data_blocks_fetched: 100,
            ..ReadCounts::default()
        };
        assert_eq!(counters.sum(), expected);
    }
}
