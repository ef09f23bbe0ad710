//! The clock seam, and how often what is overdue by it is looked for.

use profile::ProcessorTimes;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The source of time for the engine and all layers above it.
pub trait Clock: Send + Sync {
    /// The wall clock, in milliseconds since the Unix epoch. It may jump.
    fn unix_ms(&self) -> u64;

    /// The wall clock, in nanoseconds since the Unix epoch, for those that tell events apart which
    /// are closer than a millisecond. A clock that knows no more gives whole milliseconds.
    fn unix_ns(&self) -> u64 {
        self.unix_ms().saturating_mul(1_000_000)
    }

    /// The monotonic clock: the time since some fixed moment. It never goes back.
    fn monotonic(&self) -> Duration;

    /// How long the calling thread has been ready to run while others had the processors;
    /// zero where that is not counted.
    fn waited_for_processor(&self) -> Duration {
        Duration::ZERO
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: std::time::Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts at zero now.
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
    fn unix_ms(&self) -> u64 {
        self.unix_ns() / 1_000_000
    }

    #[expect(clippy::disallowed_methods, reason = "the real side of the clock seam")]
    fn unix_ns(&self) -> u64 {
        // A clock set before 1970 reads as 1970. The numbers last until the year 2554.
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64)
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }

    fn waited_for_processor(&self) -> Duration {
        thread_local! {
            static OWN: ProcessorTimes = ProcessorTimes::of_this_thread();
        }
        OWN.with(|times| times.read().waited)
    }
}

/// A clock that moves only when a test or a simulation moves it.
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<ManualTime>,
}

#[derive(Clone, Copy, Debug)]
struct ManualTime {
    since_epoch: Duration,
    monotonic: Duration,
    waited_for_processor: Duration,
}

impl ManualClock {
    /// A clock that shows `unix_ms` milliseconds since the Unix epoch and a monotonic
    /// time of zero.
    #[must_use]
    pub fn new(unix_ms: u64) -> Self {
        Self {
            now: Mutex::new(ManualTime {
                since_epoch: Duration::from_millis(unix_ms),
                monotonic: Duration::ZERO,
                waited_for_processor: Duration::ZERO,
            }),
        }
    }

    /// Advances the wall clock and the monotonic clock.
    pub fn advance(&self, by: Duration) {
        let mut now = self.lock();
        now.since_epoch = now.since_epoch.saturating_add(by);
        now.monotonic = now.monotonic.saturating_add(by);
    }

    /// Advances the clocks while all threads wait for a processor.
    pub fn wait_for_processor(&self, time: Duration) {
        self.advance(time);
        let mut now = self.lock();
        now.waited_for_processor = now.waited_for_processor.saturating_add(time);
    }

    /// Sets the wall clock; the monotonic clock does not jump.
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

    fn unix_ns(&self) -> u64 {
        self.lock().since_epoch.as_nanos() as u64
    }

    fn monotonic(&self) -> Duration {
        self.lock().monotonic
    }

    fn waited_for_processor(&self) -> Duration {
        self.lock().waited_for_processor
    }
}

/// The time between two checks for what is overdue. `shortest` is the shortest timeout
/// that the checks enforce: there are eight checks in it, and at least four a second.
#[must_use]
pub fn overdue_check_period(shortest: Duration) -> Duration {
    (shortest / 8).clamp(Duration::from_millis(5), Duration::from_millis(250))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_of_the_wall_clock_does_not_change_monotonic_time() {
        let clock = ManualClock::new(1_000);
        clock.advance(Duration::from_micros(2_500));
        assert_eq!(clock.unix_ns(), 1_002_500_000);
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
