//! Issuing timestamps, and the reasons not to.

use super::peer_clocks::ClockReading;
use super::{AllocatedTimestamp, AllocatorState, NoTimestamp, TimestampAllocator};
use base::Timestamp;
use profile::lock;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The latest time of a clock by which timestamps are given. Timestamps reach a century further, which
/// is for those that follow a clock that was wrong.
const LATEST_UNIX_MS: u64 = Timestamp::MAX.unix_ms() - 100 * 365 * 24 * 3600 * 1000;

impl TimestampAllocator {
    /// The next timestamp, above all timestamps issued or observed. Waits until the
    /// deadline, on the monotonic clock, for a timestamp bound that is about to be raised,
    /// and for a first peer shortly after a start.
    ///
    /// # Errors
    /// Why no timestamp is issued.
    pub async fn allocate_by(
        self: &Arc<Self>,
        deadline: Duration,
    ) -> Result<AllocatedTimestamp, NoTimestamp> {
        loop {
            // Before the attempt, so that no change between the two is missed.
            let changed = self.changed.notified();
            let why = match self.allocate() {
                Ok(allocated) => return Ok(allocated),
                Err(why) => why,
            };
            let until = match why {
                NoTimestamp::Bound => deadline,
                NoTimestamp::Unmet | NoTimestamp::NoneNear | NoTimestamp::Unheard { .. } => {
                    deadline.min(lock(&self.state).first_peer_deadline)
                }
                _ => return Err(why),
            };
            let left = until.saturating_sub(self.clock.monotonic());
            if left.is_zero() || tokio::time::timeout(left, changed).await.is_err() {
                return Err(why);
            }
        }
    }

    /// The next timestamp, above all timestamps issued or observed, without waiting.
    ///
    /// # Errors
    /// Why no timestamp is issued. After [`NoTimestamp::Bound`] a timestamp will be issued
    /// soon: wait for [`TimestampAllocator::changed`].
    pub fn allocate(self: &Arc<Self>) -> Result<AllocatedTimestamp, NoTimestamp> {
        let now = ClockReading::now(&*self.clock);
        let mut state = lock(&self.state);
        let timestamp = self.next(&state, now)?;
        self.raise_if_low(&mut state, timestamp);
        if timestamp > state.reservation.bound() {
            return Err(NoTimestamp::Bound);
        }
        if let Some(hybrid) = &mut state.hybrid {
            hybrid.observe(timestamp);
        }
        state.last_issued = timestamp;
        state.last_issued_at = now.monotonic;
        state.pending.push(timestamp);
        Ok(AllocatedTimestamp::pending(Arc::clone(self), timestamp))
    }

    /// Waits until a timestamp that was refused may be issued.
    pub fn changed(&self) -> impl Future<Output = ()> {
        self.changed.notified()
    }

    /// The next timestamp if the timestamp bound is high enough for it.
    pub(super) fn next(
        &self,
        state: &AllocatorState,
        now: ClockReading,
    ) -> Result<Timestamp, NoTimestamp> {
        let hybrid = state.hybrid.as_ref().ok_or(NoTimestamp::Closed)?;
        // The timestamp bound that such a clock leads to would leave no timestamp, for good.
        if now.unix_ms > LATEST_UNIX_MS {
            return Err(NoTimestamp::NoTime);
        }
        let next = hybrid.peek(now.unix_ms).ok_or(NoTimestamp::End)?;
        if self.is_single_node {
            return Ok(next);
        }
        if self.is_outdated.load(Ordering::Acquire) {
            return Err(NoTimestamp::Outdated);
        }
        if !self
            .bound
            .may_allocate_timestamps(self.peer_clocks.all_ahead_ms(now))
        {
            return Err(NoTimestamp::Far);
        }
        if !self.is_confirmed(state, now) {
            let is_compared = self
                .peer_clocks
                .all_ahead_ms(now)
                .flatten()
                .next()
                .is_some();
            return Err(if is_compared {
                NoTimestamp::NoneNear
            } else {
                NoTimestamp::Unmet
            });
        }
        self.check_heard(state, now)?;
        if !self.bound.accepts(next, now.unix_ms) {
            let ahead_ms = next.unix_ms().saturating_sub(now.unix_ms);
            return Err(NoTimestamp::Ahead { ahead_ms });
        }
        Ok(next)
    }
}
