//! Issuing stamps, and the reasons not to.

use super::peer_clocks::ClockReading;
use super::{NoStamp, Stamp, Stamping, StampingState};
use base::Timestamp;
use profile::lock;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The latest time of a clock by which stamps are given. Timestamps reach a century further, which
/// is for those that follow a clock that was wrong.
const LATEST_UNIX_MS: u64 = Timestamp::MAX.unix_ms() - 100 * 365 * 24 * 3600 * 1000;

impl Stamping {
    /// The next stamp, above all stamps issued or observed. Waits until the
    /// deadline, on the monotonic clock, for a ceiling that is about to be raised,
    /// and for a first peer shortly after a start.
    ///
    /// # Errors
    /// Why no stamp is issued.
    pub(crate) async fn stamp_by(self: &Arc<Self>, deadline: Duration) -> Result<Stamp, NoStamp> {
        loop {
            // Before the attempt, so that no change between the two is missed.
            let changed = self.changed.notified();
            let why = match self.stamp() {
                Ok(stamp) => return Ok(stamp),
                Err(why) => why,
            };
            let until = match why {
                NoStamp::Ceiling => deadline,
                NoStamp::Unmet | NoStamp::Unheard { .. } => {
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

    /// The next stamp, above all stamps issued or observed, without waiting.
    ///
    /// # Errors
    /// Why no stamp is issued. After [`NoStamp::Ceiling`] a stamp will be issued
    /// soon: wait for [`Stamping::changed`].
    pub(crate) fn stamp(self: &Arc<Self>) -> Result<Stamp, NoStamp> {
        let now = ClockReading::now(&*self.clock);
        let mut state = lock(&self.state);
        let timestamp = self.next(&state, now)?;
        self.raise_if_low(&mut state, timestamp);
        if timestamp > state.reservation.ceiling() {
            return Err(NoStamp::Ceiling);
        }
        if let Some(hybrid) = &mut state.hybrid {
            hybrid.observe(timestamp);
        }
        state.last_issued = timestamp;
        state.last_issued_at = now.monotonic;
        state.pending.push(timestamp);
        Ok(Stamp::pending(Arc::clone(self), timestamp))
    }

    /// Waits until a stamp that was refused may be issued.
    pub(crate) fn changed(&self) -> impl Future<Output = ()> {
        self.changed.notified()
    }

    /// The next stamp if the ceiling is high enough for it.
    pub(super) fn next(
        &self,
        state: &StampingState,
        now: ClockReading,
    ) -> Result<Timestamp, NoStamp> {
        let hybrid = state.hybrid.as_ref().ok_or(NoStamp::Closed)?;
        // The ceiling that such a clock leads to would leave no timestamp, for good.
        if now.unix_ms > LATEST_UNIX_MS {
            return Err(NoStamp::NoTime);
        }
        let next = hybrid.next(now.unix_ms).ok_or(NoStamp::End)?;
        if self.is_single_node {
            return Ok(next);
        }
        if self.is_outdated.load(Ordering::Acquire) {
            return Err(NoStamp::Outdated);
        }
        if !self.bound.may_stamp(self.peer_clocks.all_ahead_ms(now)) {
            return Err(NoStamp::Far);
        }
        if !self.is_vouched(state, now) {
            return Err(NoStamp::Unmet);
        }
        self.check_heard(state, now)?;
        if !self.bound.accepts(next, now.unix_ms) {
            let ahead_ms = next.unix_ms().saturating_sub(now.unix_ms);
            return Err(NoStamp::Ahead { ahead_ms });
        }
        Ok(next)
    }
}
