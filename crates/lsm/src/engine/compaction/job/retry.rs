//! When compaction wakes by itself: after a failure, less and less often, and
//! once in a while for what time alone has made due.
//!
//! Several timers may run at a time, and only the earliest counts. A timer that
//! an earlier one has replaced finds that out when it fires, and does nothing.

use crate::locks::lock;
use base::Backoff;
use std::sync::Mutex;
use std::time::Duration;

/// How long a compaction waits after its first failure.
const RETRY_DELAY_MIN: Duration = Duration::from_secs(1);

/// The longest that a failed compaction waits before it is tried again.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(60);

/// The failures of compaction, and when it wakes. Times are of the monotonic clock.
///
/// Its lock is held briefly, and no other lock is taken meanwhile.
#[derive(Default)]
pub(crate) struct Retry {
    state: Mutex<RetryState>,
}

struct RetryState {
    /// How often compaction has failed since it last succeeded.
    backoff: Backoff,
    /// How often it has ever failed. What began before the last failure says nothing of whether
    /// the next attempt can work.
    attempt: u64,
    /// Whether no step of what began since the last failure has made progress.
    is_stuck: bool,
    failed_at: Duration,
    /// When the timer that counts is due.
    wakes_at: Option<Duration>,
}

impl Default for RetryState {
    fn default() -> Self {
        Self {
            backoff: Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX),
            attempt: 0,
            is_stuck: false,
            failed_at: Duration::ZERO,
            wakes_at: None,
        }
    }
}

impl Retry {
    /// When the next attempt may be made.
    pub(crate) fn due(&self) -> Duration {
        let state = lock(&self.state);
        if state.backoff.failures() == 0 {
            return Duration::ZERO;
        }
        state.failed_at + state.backoff.wait()
    }

    /// Whether the last attempt has failed and none has made progress since, so
    /// that nothing is gained by waiting for compaction.
    pub(crate) fn is_stuck(&self) -> bool {
        lock(&self.state).is_stuck
    }

    /// Notes a failure. Returns how many there were in a row.
    pub(crate) fn note_failure(&self, now: Duration) -> u32 {
        let mut state = lock(&self.state);
        state.failed_at = now;
        state.backoff.fail();
        state.is_stuck = true;
        state.attempt += 1;
        state.backoff.failures()
    }

    /// The number of what begins now.
    pub(crate) fn attempt(&self) -> u64 {
        lock(&self.state).attempt
    }

    /// Notes that what began as this attempt has merged something. The failures still count,
    /// because it may fail where the last one did.
    pub(crate) fn note_progress(&self, attempt: u64) {
        let mut state = lock(&self.state);
        state.is_stuck &= attempt != state.attempt;
    }

    /// Notes that what began as this attempt has worked, or had nothing to do.
    pub(crate) fn note_success(&self, attempt: u64) {
        let mut state = lock(&self.state);
        if attempt == state.attempt {
            state.backoff.reset();
            state.is_stuck = false;
        }
    }

    /// Notes that a flush has changed what there is to compact, so that earlier
    /// failures say less about the next attempt.
    pub(crate) fn note_flush(&self) {
        lock(&self.state).backoff.count_at_most(1);
    }

    /// Notes that compaction is to wake at `due`. Returns whether that needs a
    /// timer, because no earlier one runs.
    pub(crate) fn set_timer(&self, due: Duration) -> bool {
        let mut state = lock(&self.state);
        if state.wakes_at.is_some_and(|wakes_at| wakes_at <= due) {
            return false;
        }
        state.wakes_at = Some(due);
        true
    }

    /// Notes that the timer for `due` fires. Returns whether it is the one that
    /// counts.
    pub(crate) fn fire_timer(&self, due: Duration) -> bool {
        let mut state = lock(&self.state);
        state
            .wakes_at
            .take_if(|wakes_at| *wakes_at == due)
            .is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn failures_make_the_pause_longer_until_a_success() {
        let retry = Retry::default();
        assert_eq!(retry.due(), Duration::ZERO);
        let now = 100 * SECOND;
        let pauses = [1, 2, 4, 8, 16, 32, 60, 60];
        for (failures, pause) in (1..).zip(pauses) {
            assert_eq!(retry.note_failure(now), failures);
            assert_eq!(retry.due(), now + pause * SECOND);
        }
        assert!(retry.is_stuck());
        retry.note_flush();
        assert!(retry.is_stuck());
        assert_eq!(retry.due(), now + SECOND, "a flush shortens the pause");
        retry.note_success(retry.attempt());
        assert!(!retry.is_stuck());
        retry.note_flush();
        assert!(!retry.is_stuck());
    }

    #[test]
    fn an_attempt_that_makes_progress_is_not_stuck_but_its_failure_counts_on() {
        let retry = Retry::default();
        assert_eq!(retry.note_failure(SECOND), 1);
        retry.note_progress(retry.attempt());
        assert!(!retry.is_stuck());
        assert_eq!(retry.note_failure(3 * SECOND), 2);
        assert!(retry.is_stuck());
        assert_eq!(retry.due(), 5 * SECOND);
    }

    #[test]
    fn what_began_before_a_failure_says_nothing_of_it() {
        let retry = Retry::default();
        let beside = retry.attempt();
        assert_eq!(retry.note_failure(SECOND), 1);
        retry.note_progress(beside);
        retry.note_success(beside);
        assert!(retry.is_stuck());
        assert_eq!(retry.due(), 2 * SECOND);
        retry.note_success(retry.attempt());
        assert!(!retry.is_stuck());
    }

    #[test]
    fn the_earliest_timer_counts() {
        let retry = Retry::default();
        assert!(retry.set_timer(5 * SECOND));
        assert!(!retry.set_timer(6 * SECOND), "an earlier one runs");
        assert!(retry.set_timer(2 * SECOND));
        assert!(retry.fire_timer(2 * SECOND));
        assert!(!retry.fire_timer(5 * SECOND), "it was replaced");
        assert!(retry.set_timer(5 * SECOND));
    }
}
