//! The node's hybrid logical clock, and the bound that follows from it.
//!
//! A stamp is *pending* from when it is given until its write was handed to
//! the engine. The bound below which the engine may drop tombstones is the
//! least pending stamp, or the greatest stamp given when none is pending:
//! writes yet to come are stamped above that, and writes below it are already
//! the engine's. That is all a node without peers needs to prove.

use crate::executor::lock;
use cluster::{ClockBound, HybridClock};
use lsm::{Clock, Timestamp};
use std::sync::{Arc, Mutex};

/// Stamps writes.
pub(crate) struct Stamping {
    clock: Arc<dyn Clock>,
    bound: ClockBound,
    /// This node's number, which all its stamps carry.
    node: u8,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` until the store is open: before that, what it holds is unknown.
    hybrid: Option<HybridClock>,
    /// In their order. As many as there are writes between stamp and engine:
    /// up to the requests in flight when many come at once.
    pending: Vec<Timestamp>,
}

/// A stamp that is pending until it is dropped.
pub(crate) struct Stamp {
    stamping: Arc<Stamping>,
    timestamp: Timestamp,
    is_pending: bool,
}

impl Stamping {
    /// The clock of the node with this number. It gives no stamps before
    /// [`Stamping::begin`].
    pub(crate) fn new(clock: Arc<dyn Clock>, bound: ClockBound, node: u8) -> Self {
        Self {
            clock,
            bound,
            node,
            state: Mutex::default(),
        }
    }

    /// Starts to give stamps, all above the greatest timestamp that the store holds.
    pub(crate) fn begin(&self, greatest_stored: Timestamp) {
        lock(&self.state).hybrid = Some(HybridClock::new(self.node, greatest_stored));
    }

    /// The next stamp, above all given or observed; `None` before
    /// [`Stamping::begin`] or when the clock has reached its end.
    pub(crate) fn stamp(self: &Arc<Self>) -> Option<Stamp> {
        let now_unix_ms = self.clock.unix_ms();
        let mut state = lock(&self.state);
        let timestamp = state.hybrid.as_mut()?.stamp(now_unix_ms)?;
        state.pending.push(timestamp);
        Some(Stamp {
            stamping: Arc::clone(self),
            timestamp,
            is_pending: true,
        })
    }

    /// Takes note of a timestamp that another node gave, so that the next
    /// stamp is above it; `false` if it is too far ahead of this node's clock,
    /// or before [`Stamping::begin`].
    pub(crate) fn observe(&self, seen: Timestamp) -> bool {
        let now_unix_ms = self.clock.unix_ms();
        let mut state = lock(&self.state);
        let hybrid = state.hybrid.as_mut();
        hybrid.is_some_and(|hybrid| hybrid.observe_within(seen, self.bound, now_unix_ms))
    }

    /// The greatest stamp given or observed.
    pub(crate) fn greatest(&self) -> Timestamp {
        lock(&self.state)
            .hybrid
            .as_ref()
            .map_or(Timestamp::ZERO, HybridClock::greatest)
    }

    /// No write with a lower timestamp will come any more, except those that
    /// the engine has; [`Timestamp::ZERO`] before [`Stamping::begin`].
    pub(crate) fn drop_bound(&self) -> Timestamp {
        let state = lock(&self.state);
        match (&state.hybrid, state.pending.first()) {
            (None, _) => Timestamp::ZERO,
            (Some(_), Some(least)) => *least,
            (Some(hybrid), None) => hybrid.greatest(),
        }
    }
}

impl Stamp {
    /// The timestamp.
    pub(crate) fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// Drops stamps of one clock at the cost of one, if they come in their order.
    pub(crate) fn end_all(stamps: impl Iterator<Item = Self>) {
        let mut stamps = stamps.peekable();
        let Some(first) = stamps.peek() else { return };
        let stamping = Arc::clone(&first.stamping);
        let mut state = lock(&stamping.state);
        state.pending.retain(|pending| {
            let ended = stamps.next_if(|stamp| stamp.timestamp == *pending);
            ended.is_none_or(|mut stamp| {
                stamp.is_pending = false;
                false
            })
        });
        // What came out of order takes the lock itself.
        drop(state);
    }
}

impl Drop for Stamp {
    fn drop(&mut self) {
        if !self.is_pending {
            return;
        }
        let mut state = lock(&self.stamping.state);
        if let Ok(place) = state.pending.binary_search(&self.timestamp) {
            state.pending.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    struct Stopped(u64);

    impl Clock for Stopped {
        fn unix_ms(&self) -> u64 {
            self.0
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
    }

    const NODE: u8 = 3;

    fn seen(ms: u64) -> Timestamp {
        Timestamp::from_unix_ms(Timestamp::EPOCH_UNIX_MS + ms)
    }

    fn at(unix_ms: u64) -> Arc<Stamping> {
        Arc::new(Stamping::new(
            Arc::new(Stopped(Timestamp::EPOCH_UNIX_MS + unix_ms)),
            ClockBound::new(Duration::from_secs(3600)),
            NODE,
        ))
    }

    #[test]
    fn nothing_is_stamped_or_dropped_before_the_store_is_open() {
        let stamping = at(1_000);
        assert!(stamping.stamp().is_none());
        assert!(!stamping.observe(seen(5)));
        assert_eq!(stamping.drop_bound(), Timestamp::ZERO);
    }

    #[test]
    fn stamps_are_above_what_the_store_holds() {
        let stamping = at(1_000);
        stamping.begin(seen(2_000));
        let stamp = stamping.stamp().unwrap();
        assert!(stamp.timestamp() > seen(2_000));
    }

    #[test]
    fn the_bound_is_the_least_pending_stamp_then_the_greatest_given() {
        let stamping = at(1_000);
        stamping.begin(Timestamp::ZERO);
        let first = stamping.stamp().unwrap();
        let second = stamping.stamp().unwrap();
        let (least, greatest) = (first.timestamp(), second.timestamp());
        assert_eq!(stamping.drop_bound(), least);
        drop(second);
        assert_eq!(stamping.drop_bound(), least, "the first is still pending");
        drop(first);
        assert_eq!(stamping.drop_bound(), greatest);
    }

    #[test]
    fn stamps_that_end_together_are_pending_no_more_in_whatever_order() {
        let stamping = at(1_000);
        stamping.begin(Timestamp::ZERO);
        for order in [[0, 2], [2, 0]] {
            let mut stamps: Vec<_> = (0..4).map(|_| stamping.stamp()).collect();
            let between = stamps[1].as_ref().unwrap().timestamp();
            let ended: Vec<_> = order.map(|number| stamps[number].take().unwrap()).into();
            Stamp::end_all(ended.into_iter());
            assert_eq!(stamping.drop_bound(), between);
            Stamp::end_all(stamps.into_iter().flatten());
            assert_eq!(stamping.drop_bound(), stamping.greatest());
        }
    }
}
