//! How long a thread works.

use crate::Clock;
use std::time::Duration;

/// Measures how long a thread works, but for the time that it waits for a processor:
/// meanwhile it keeps nobody from anything.
#[derive(Clone, Copy, Debug)]
pub struct WorkTimer {
    started: Duration,
    waited: Duration,
}

impl WorkTimer {
    /// Work of the calling thread that starts now.
    #[must_use]
    pub fn start(clock: &dyn Clock) -> Self {
        Self {
            started: clock.monotonic(),
            waited: clock.waited_for_processor(),
        }
    }

    /// How long the thread, which is the calling one, has worked since.
    #[must_use]
    pub fn worked(&self, clock: &dyn Clock) -> Duration {
        let took = clock.monotonic().saturating_sub(self.started);
        took.saturating_sub(clock.waited_for_processor().saturating_sub(self.waited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;

    #[test]
    fn a_thread_that_waits_for_a_processor_does_not_work() {
        let clock = ManualClock::new(0);
        clock.wait_for_processor(Duration::from_millis(30));
        let work = WorkTimer::start(&clock);
        clock.wait_for_processor(Duration::from_millis(40));
        assert_eq!(work.worked(&clock), Duration::ZERO);
        clock.advance(Duration::from_millis(10));
        assert_eq!(work.worked(&clock), Duration::from_millis(10));
    }
}
