//! How often a runtime ends what is overdue.

use std::time::Duration;

/// The time between two checks for what is overdue. `shortest` is the shortest timeout
/// that the checks enforce: there are eight checks in it, and at least four a second.
#[must_use]
pub fn overdue_check_period(shortest: Duration) -> Duration {
    (shortest / 8).clamp(Duration::from_millis(5), Duration::from_millis(250))
}
