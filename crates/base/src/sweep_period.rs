//! How often a runtime looks for what is overdue.

use std::time::Duration;

/// The time between two sweeps that end what is overdue. `shortest` is the shortest
/// timeout that the sweep ends: there are eight sweeps in it, and at least four a second.
#[must_use]
pub fn sweep_period(shortest: Duration) -> Duration {
    (shortest / 8).clamp(Duration::from_millis(5), Duration::from_millis(250))
}
