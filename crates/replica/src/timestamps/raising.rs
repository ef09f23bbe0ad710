//! Raising the durable timestamp bound before timestamps reach it.

use super::peer_clocks::ClockReading;
use super::{AllocatorState, TimestampAllocator};
use base::Timestamp;
use lsm::JobClass;
use profile::lock;
use std::sync::Weak;
use std::time::Duration;

/// How long after a failure the node tries again to raise the timestamp bound.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(1);

impl TimestampAllocator {
    /// Schedules a job that raises the timestamp bound, if half of what is reserved lies below
    /// `timestamp`.
    pub(super) fn raise_if_low(&self, state: &mut AllocatorState, timestamp: Timestamp) {
        if state.reservation.is_low(timestamp) && !state.is_raising {
            state.is_raising = true;
            self.raise_later(Duration::ZERO);
        }
    }

    fn raise_later(&self, delay: Duration) {
        let own = Weak::clone(&self.own);
        let job = Box::new(move || {
            if let Some(timestamps) = own.upgrade() {
                timestamps.raise();
            }
        });
        self.executor.spawn(JobClass::Owner, delay, job);
    }

    /// Raises the timestamp bound if the node may allocate timestamps. Blocks.
    pub(super) fn raise(&self) {
        let mut file = lock(&self.bound_file);
        let Some(file) = &mut *file else { return };
        let now = ClockReading::now(&*self.clock);
        let (greatest, bound) = {
            let mut state = lock(&self.state);
            // A timestamp bound that follows a wrong clock would bind all later starts.
            let (Ok(_), Some(hybrid)) = (self.next(&state, now), &state.hybrid) else {
                state.is_raising = false;
                drop(state);
                // Requests that wait for the timestamp bound try again and get the new reason.
                self.changed.notify_waiters();
                return;
            };
            let greatest = hybrid.greatest();
            (greatest, state.reservation.next(greatest, now.unix_ms))
        };
        if let Err(error) = file.set(bound) {
            tracing::error!(
                %error,
                "the timestamp bound could not be raised: writes are refused once it is reached"
            );
            return self.raise_later(RETRY_DELAY);
        }
        {
            let mut state = lock(&self.state);
            state.reservation.raised(bound, greatest, now.unix_ms);
            state.is_raising = false;
        }
        self.changed.notify_waiters();
    }
}
