//! When compaction wakes by itself: after a failure, less and less often, and
//! once in a while for what time alone has made due.
//!
//! One timer counts, the earliest. One that an earlier has taken the place of
//! finds out when it fires, and does nothing.

use super::Inner;
use super::flush::RETRY_DELAY;
use crate::executor::Lane;
use crate::sync::lock;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The longest that a failed compaction waits before it is tried again.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(60);

/// How compaction has fared, and when it wakes. Times are of the monotonic clock.
#[derive(Default)]
pub(super) struct Retry {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How often compaction has failed since it last succeeded.
    failures: u32,
    failed_at: Duration,
    /// When the timer that counts is due.
    wakes_at: Option<Duration>,
}

impl Retry {
    /// When the next attempt may be made.
    pub(super) fn due(&self) -> Duration {
        let state = lock(&self.state);
        if state.failures == 0 {
            return Duration::ZERO;
        }
        let delay = RETRY_DELAY * 2_u32.saturating_pow(state.failures - 1);
        state.failed_at + delay.min(RETRY_DELAY_MAX)
    }

    /// Takes note of a failure; gives how many there were in a row.
    pub(super) fn fail(&self, now: Duration) -> u32 {
        let mut state = lock(&self.state);
        state.failed_at = now;
        state.failures = state.failures.saturating_add(1);
        state.failures
    }

    /// Takes note that compaction works, or has nothing to do.
    pub(super) fn succeed(&self) {
        lock(&self.state).failures = 0;
    }
}

impl Inner {
    /// Whether the last attempt to compact has failed, so that nothing is
    /// gained by waiting for the next.
    pub(super) fn is_compaction_stuck(&self) -> bool {
        lock(&self.compaction_retry.state).failures > 0
    }

    /// As [`Inner::schedule_compaction`], after a flush: it has changed what
    /// there is to compact, so that the failures before it say less.
    pub(super) fn compact_after_flush(self: &Arc<Self>) {
        {
            let mut state = lock(&self.compaction_retry.state);
            state.failures = state.failures.min(1);
        }
        self.schedule_compaction(Duration::ZERO);
    }

    /// Makes sure that a compaction job comes at a time of the monotonic clock.
    pub(super) fn wake_compaction_at(self: &Arc<Self>, due: Duration) {
        {
            let mut state = lock(&self.compaction_retry.state);
            if state.wakes_at.is_some_and(|wakes_at| wakes_at <= due) {
                return;
            }
            state.wakes_at = Some(due);
        }
        let delay = due.saturating_sub(self.environment.clock.monotonic());
        self.spawn(Lane::Compaction, delay, move |inner| {
            {
                let mut state = lock(&inner.compaction_retry.state);
                if state.wakes_at != Some(due) {
                    return;
                }
                state.wakes_at = None;
            }
            inner.schedule_compaction(Duration::ZERO);
        });
    }
}
