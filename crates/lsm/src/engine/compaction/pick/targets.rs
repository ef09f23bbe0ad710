//! The sizes that the levels should have.
//!
//! The last level may hold all bytes of the sorted levels, and the level above it a tenth of
//! them. Each level above that may hold a fifth of the one below, so that all of them hold an
//! eighth, and about a seventh of the data is stored twice. The **base level**, into which level 0 is merged, is the level with the lowest
//! number whose target is at least two fifths of what level 0 holds when it is due, so it is at most
//! twice that: a merge of level 0 takes the whole base level, so the two should be about equally
//! large.
//!
//! RocksDB and pebble have a tenth everywhere. But a byte that goes down a level is written about
//! `(fanout + 1) / 2` times there, so the fewest bytes are written where each level is three to
//! five times as large as the one above. That takes more levels. Of these the one above the last
//! decides how much is stored twice. If there are not enough levels, the factor grows.

use super::choice::PickSettings;
use crate::engine::table_set::Levels;
use crate::manifest::LEVELS;

/// The last level.
const LAST: usize = LEVELS - 1;

/// How many times larger the last level may be than the one above.
const LAST_FANOUT: f64 = 10.0;

/// How many times larger each other level may be than the one above, at least.
const FANOUT: f64 = 5.0;

/// The base level may hold what level 0 holds, divided by this, at least.
const BASE_DIVISOR: f64 = 2.5;

/// The sizes that the levels should have.
pub(super) struct Targets {
    /// The level that level 0 is merged into.
    pub(super) base: usize,
    /// The bytes that each level from the base level on may hold; of the last, those of all.
    bytes: [u64; LEVELS],
}

impl Targets {
    pub(super) fn new(levels: &Levels, settings: &PickSettings) -> Self {
        // The total does not change when a table moves down, so neither does the base
        // level: the targets do not depend on the compactions that they cause.
        Self::of_total(levels.sorted_bytes(), settings.base_bytes)
    }

    fn of_total(total: u64, base_bytes: u64) -> Self {
        let mut bytes = [0; LEVELS];
        bytes[LAST] = total;
        let base_bytes = base_bytes.max(1) as f64;
        let mut target = total as f64 / LAST_FANOUT;
        let steps = (LAST - 2) as f64;
        let fanout = (target / base_bytes).powf(1.0 / steps).max(FANOUT);
        let mut base = LAST;
        while base > 1 && target >= base_bytes / BASE_DIVISOR {
            base -= 1;
            bytes[base] = target.round() as u64;
            target /= fanout;
        }
        Self { base, bytes }
    }

    /// The bytes that a level may hold.
    pub(super) fn of(&self, level: usize) -> u64 {
        self.bytes[level]
    }

    /// How urgent it is that a level other than 0 gets smaller; from 1 on it is due.
    pub(super) fn score(&self, level: usize, bytes: u64) -> f64 {
        if level < self.base {
            // It is due, but after every level that exceeds its target.
            return if bytes > 0 { 1.0 } else { 0.0 };
        }
        // A level at its target is as large as it should be, not too large.
        match self.of(level) {
            target if bytes > target => bytes as f64 / target.max(1) as f64,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_a_few_times_larger_than_the_one_above() {
        // The total, and the targets from the base level on.
        let cases: [(u64, &[u64]); 7] = [
            (3_990, &[3_990]),
            (4_000, &[400, 4_000]),
            (19_990, &[1_999, 19_990]),
            (20_000, &[400, 2_000, 20_000]),
            (100_000, &[400, 2_000, 10_000, 100_000]),
            (
                6_250_000,
                &[1_000, 5_000, 25_000, 125_000, 625_000, 6_250_000],
            ),
            // There are no further levels.
            (
                1_600_000_000,
                &[
                    1_000,
                    20_000,
                    400_000,
                    8_000_000,
                    160_000_000,
                    1_600_000_000,
                ],
            ),
        ];
        for (total, expected) in cases {
            let targets = Targets::of_total(total, 1_000);
            assert_eq!(targets.bytes[targets.base..], *expected, "{total}");
            assert!(
                targets.bytes[..targets.base]
                    .iter()
                    .all(|bytes| *bytes == 0)
            );
        }
    }
}
