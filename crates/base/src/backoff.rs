//! How long to wait after failures in a row, before the next attempt.

use crate::Random;
use std::time::Duration;

/// Waits that double with each failure, up to a longest one.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// No failures yet. The wait after the first is `first`, and none is longer than `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            failures: 0,
        }
    }

    /// How many failures there were in a row.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// Notes a failure.
    pub const fn fail(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// Notes that there may be less reason to fail: no more than so many failures count.
    pub fn count_at_most(&mut self, failures: u32) {
        self.failures = self.failures.min(failures);
    }

    /// Notes a success.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }

    /// How long to wait before the next attempt: not at all without a failure.
    #[must_use]
    pub fn wait(&self) -> Duration {
        let Some(doublings) = self.failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let wait = self.first.saturating_mul(2_u32.saturating_pow(doublings));
        wait.min(self.longest)
    }

    /// As [`Backoff::wait`], with jitter, so that many nodes do not try at once.
    pub fn jittered_wait(&self, random: &dyn Random) -> Duration {
        jittered(self.wait(), random)
    }
}

/// A random time between half of `longest` and all of it.
pub fn jittered(longest: Duration, random: &dyn Random) -> Duration {
    let longest_us = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
    let half_us = longest_us / 2;
    Duration::from_micros(longest_us - random.next_u64() % (half_us + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRandom;

    #[test]
    fn waits_double_with_jitter_up_to_the_longest() {
        let random = SeededRandom::new(7);
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));
        for round in 0..2 {
            assert_eq!(backoff.jittered_wait(&random), Duration::ZERO);
            for longest_ms in [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000] {
                let longest = Duration::from_millis(longest_ms);
                backoff.fail();
                assert_eq!(backoff.wait(), longest);
                let wait = backoff.jittered_wait(&random);
                assert!((longest / 2..=longest).contains(&wait), "{round}: {wait:?}");
            }
            assert_eq!(backoff.failures(), 9);
            backoff.reset();
        }
        backoff.fail();
        let waits: Vec<_> = (0..8).map(|_| backoff.jittered_wait(&random)).collect();
        assert!(waits.iter().any(|wait| *wait != waits[0]), "{waits:?}");
    }

    #[test]
    fn any_number_of_failures_waits_for_the_longest_until_fewer_count() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, 60 * second);
        (0..100).for_each(|_| backoff.fail());
        assert_eq!(backoff.wait(), 60 * second);
        backoff.count_at_most(2);
        assert_eq!((backoff.failures(), backoff.wait()), (2, 2 * second));
    }
}
