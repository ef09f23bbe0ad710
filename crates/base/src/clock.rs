//! The clock seam.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Where the engine and those above it take the time from.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch, by the wall clock: it may jump.
    fn unix_ms(&self) -> u64;

    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: std::time::Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "reading the time is no default")]
    #[expect(clippy::disallowed_methods, reason = "the real side of the clock seam")]
    pub fn new() -> Self {
        Self {
            origin: std::time::Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the real side of the clock seam")]
    fn unix_ms(&self) -> u64 {
        // A clock set before 1970 reads as 1970.
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64)
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A clock that moves only when told: for tests and simulations.
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<ManualTime>,
}

#[derive(Clone, Copy, Debug)]
struct ManualTime {
    since_epoch: Duration,
    monotonic: Duration,
}

impl ManualClock {
    /// A clock that stands at `unix_ms` milliseconds since the Unix epoch,
    /// with its monotonic time at zero.
    #[must_use]
    pub fn new(unix_ms: u64) -> Self {
        Self {
            now: Mutex::new(ManualTime {
                since_epoch: Duration::from_millis(unix_ms),
                monotonic: Duration::ZERO,
            }),
        }
    }

    /// Lets time pass, by the wall clock and the monotonic one.
    pub fn advance(&self, by: Duration) {
        let mut now = self.lock();
        now.since_epoch = now.since_epoch.saturating_add(by);
        now.monotonic = now.monotonic.saturating_add(by);
    }

    /// Makes the wall clock jump; the monotonic one goes on from where it is.
    pub fn set_unix_ms(&self, unix_ms: u64) {
        self.lock().since_epoch = Duration::from_millis(unix_ms);
    }

    fn lock(&self) -> MutexGuard<'_, ManualTime> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn unix_ms(&self) -> u64 {
        self.lock().since_epoch.as_millis() as u64
    }

    fn monotonic(&self) -> Duration {
        self.lock().monotonic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_of_the_wall_clock_leaves_monotonic_time() {
        let clock = ManualClock::new(1_000);
        clock.advance(Duration::from_micros(2_500));
        clock.advance(Duration::from_micros(500));
        assert_eq!(
            (clock.unix_ms(), clock.monotonic()),
            (1_003, Duration::from_millis(3))
        );
        clock.set_unix_ms(7);
        clock.advance(Duration::from_millis(1));
        assert_eq!(
            (clock.unix_ms(), clock.monotonic()),
            (8, Duration::from_millis(4))
        );
    }
}
