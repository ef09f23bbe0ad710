//! The clock seam.

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
