//! The clock of a host: the simulated time, and a wall clock with a skew that faults set.

use base::Clock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The correct time when a world begins, in milliseconds since the Unix epoch.
pub(crate) const BEGIN_UNIX_MS: u64 = 1_800_000_000_000;

/// The clock of one host.
pub(crate) struct SimClock {
    began: Instant,
    /// How far the wall clock is ahead, in milliseconds.
    skew_ms: AtomicI64,
}

impl SimClock {
    /// A clock without skew, of a world that began at `began`.
    pub(crate) fn new(began: Instant) -> Self {
        Self {
            began,
            skew_ms: AtomicI64::new(0),
        }
    }

    /// How far the wall clock is ahead of the correct time, in milliseconds.
    pub(crate) fn skew_ms(&self) -> i64 {
        self.skew_ms.load(Ordering::Relaxed)
    }

    /// Sets how far the wall clock is ahead of the correct time, in milliseconds.
    pub(crate) fn set_skew_ms(&self, skew_ms: i64) {
        self.skew_ms.store(skew_ms, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn unix_ms(&self) -> u64 {
        let right = BEGIN_UNIX_MS + self.monotonic().as_millis() as u64;
        right.saturating_add_signed(self.skew_ms.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        self.began.elapsed()
    }
}
