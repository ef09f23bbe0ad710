//! How long to wait before a peer is dialled again.

use base::Random;
use std::time::Duration;

/// The longest that the first wait can be.
pub(super) const BACKOFF_MIN: Duration = Duration::from_millis(10);

/// The longest that any wait can be: a peer that is back is found within this
/// time even if it does not dial first.
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Waits that double, each with jitter, so that the links of a cluster do not all
/// dial a node at the moment when it comes back.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    /// A backoff that begins with the shortest wait.
    pub(super) fn new() -> Self {
        Self { next: BACKOFF_MIN }
    }

    /// Begins with the shortest wait again.
    pub(super) fn reset(&mut self) {
        self.next = BACKOFF_MIN;
    }

    /// The next wait: a random time between half of its longest and its longest.
    pub(super) fn next(&mut self, random: &dyn Random) -> Duration {
        let longest_us = self.next.as_micros() as u64;
        self.next = BACKOFF_MAX.min(self.next * 2);
        let half_us = longest_us / 2;
        Duration::from_micros(longest_us - random.next_u64() % (half_us + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SeededRandom;

    #[test]
    fn waits_double_with_jitter_up_to_the_longest() {
        let random = SeededRandom::new(7);
        let mut backoff = Backoff::new();
        for round in 0..2 {
            for longest_ms in [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000] {
                let longest = Duration::from_millis(longest_ms);
                let wait = backoff.next(&random);
                assert!((longest / 2..=longest).contains(&wait), "{round}: {wait:?}");
            }
            backoff.reset();
        }
        let waits: Vec<_> = (0..8)
            .map(|_| {
                backoff.reset();
                backoff.next(&random)
            })
            .collect();
        assert!(waits.iter().any(|wait| *wait != waits[0]), "{waits:?}");
    }
}
