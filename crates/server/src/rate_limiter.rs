//! How many lines of a kind may be written, so that whoever causes them cannot fill a disk
//! or hide others of their kind for long.

use std::time::Duration;

/// How many lines may come at once.
const BURST: f64 = 50.0;

/// How many lines may come a second, for a long time.
const PER_SECOND: f64 = 10.0;

/// Admits lines of one kind, and counts those that it does not.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    /// How many lines may come now.
    room: f64,
    /// When that was last reckoned, on the monotonic clock.
    reckoned: Duration,
    left_out: u64,
}

impl Default for RateLimiter {
    fn default() -> Self {
        Self {
            room: BURST,
            reckoned: Duration::ZERO,
            left_out: 0,
        }
    }
}

impl RateLimiter {
    /// Whether a line may be written now; otherwise it counts as left out.
    pub(crate) fn admits(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.reckoned).as_secs_f64();
        self.room = (self.room + passed * PER_SECOND).min(BURST);
        self.reckoned = self.reckoned.max(now);
        if self.room < 1.0 {
            self.left_out += 1;
            return false;
        }
        self.room -= 1.0;
        true
    }

    /// Counts a line that was admitted and could not be written.
    pub(crate) fn leave_out(&mut self) {
        self.left_out += 1;
    }

    /// How many lines were left out since [`RateLimiter::take_left_out`].
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// How many lines were left out since the last call.
    pub(crate) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_so_many_a_second() {
        let mut limiter = RateLimiter::default();
        let mut admitted = |seconds: u64, lines: usize| {
            let now = Duration::from_secs(seconds);
            (0..lines).filter(|_| limiter.admits(now)).count()
        };
        assert_eq!(admitted(0, 200), 50);
        assert_eq!(admitted(1, 200), 10);
        assert_eq!(admitted(3, 15), 15);
        assert_eq!(admitted(3, 10), 5);
        assert_eq!(admitted(2, 10), 0, "a time that is older adds nothing");
        assert_eq!(admitted(1000, 200), 50);
        let left_out = 150 + 190 + 5 + 10 + 150;
        assert_eq!(limiter.take_left_out(), left_out);
        assert_eq!(limiter.take_left_out(), 0);
    }
}
