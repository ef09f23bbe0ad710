//! How far the filling of this node's store has come.

use super::PASS_IDLE_MAX;
use base::Clock;
use cluster::sweep::PassId;
use profile::lock;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a pass has brought to this node in bulk so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefillProgress {
    /// The bytes of keys and values that peers have sent.
    pub received_bytes: u64,
    /// The keys that they belong to.
    pub received_keys: u64,
    /// How far the pass has come, about, in thousandths of what the sender keeps.
    pub position_permille: u16,
    /// How long the pass still takes, about, if it goes on as fast as so far; [`None`]
    /// as long as that cannot be told.
    pub time_left: Option<Duration>,
}

/// Follows what passes bring in bulk. A node's runtimes share it.
pub(super) struct Refill {
    clock: Arc<dyn Clock>,
    state: Mutex<RefillState>,
}

#[derive(Default)]
struct RefillState {
    current: Option<Current>,
    received_bytes: u64,
    received_keys: u64,
}

/// The pass that last brought something.
struct Current {
    pass: PassId,
    /// When the first run arrived, on the monotonic clock.
    began: Duration,
    /// Where the sender was then.
    began_permille: u16,
    last_received: Duration,
    received_bytes: u64,
    received_keys: u64,
    position_permille: u16,
}

impl Refill {
    /// Nothing has arrived yet.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Mutex::default(),
        }
    }

    /// A run has brought versions of `keys` that this node lacked.
    pub(super) fn received(&self, pass: PassId, keys: u64, bytes: u64, position_permille: u16) {
        let now = self.clock.monotonic();
        let mut state = lock(&self.state);
        state.received_bytes += bytes;
        state.received_keys += keys;
        if state
            .current
            .as_ref()
            .is_none_or(|current| current.pass != pass)
        {
            state.current = Some(Current {
                pass,
                began: now,
                began_permille: position_permille,
                last_received: now,
                received_bytes: 0,
                received_keys: 0,
                position_permille,
            });
        }
        if let Some(current) = &mut state.current {
            current.last_received = now;
            current.received_bytes += bytes;
            current.received_keys += keys;
            // Peers that take turns do not keep the same.
            current.position_permille = current.position_permille.max(position_permille);
        }
    }

    /// A pass is over.
    pub(super) fn ended(&self, pass: PassId) {
        let mut state = lock(&self.state);
        state.current.take_if(|current| current.pass == pass);
    }

    /// All that was received in bulk since this node started: keys, and bytes.
    pub(super) fn totals(&self) -> (u64, u64) {
        let state = lock(&self.state);
        (state.received_keys, state.received_bytes)
    }

    /// What the running pass has brought; [`None`] if nothing, or if there is none.
    pub(super) fn progress(&self) -> Option<RefillProgress> {
        let now = self.clock.monotonic();
        let state = lock(&self.state);
        let current = state.current.as_ref()?;
        if now.saturating_sub(current.last_received) >= PASS_IDLE_MAX {
            return None;
        }
        let came = current
            .position_permille
            .saturating_sub(current.began_permille);
        let left = 1000_u16.saturating_sub(current.position_permille);
        let took = current.last_received.saturating_sub(current.began);
        let time_left = (came > 0).then(|| took * u32::from(left) / u32::from(came));
        Some(RefillProgress {
            received_bytes: current.received_bytes,
            received_keys: current.received_keys,
            position_permille: current.position_permille,
            time_left,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ManualClock;

    #[test]
    fn the_time_left_follows_from_how_far_the_sender_has_come() {
        let clock = Arc::new(ManualClock::new(0));
        let refill = Refill::new(Arc::clone(&clock) as Arc<dyn Clock>);
        assert_eq!(refill.progress(), None);
        // A pass that is resumed begins in the middle.
        refill.received(PassId(1), 10, 1_000, 500);
        assert_eq!(refill.progress().unwrap().time_left, None);
        clock.advance(Duration::from_secs(10));
        refill.received(PassId(1), 5, 500, 600);
        let expected = RefillProgress {
            received_bytes: 1_500,
            received_keys: 15,
            position_permille: 600,
            time_left: Some(Duration::from_secs(40)),
        };
        assert_eq!(refill.progress(), Some(expected));
        // The next pass counts for itself; the totals go on.
        refill.received(PassId(2), 1, 100, 0);
        refill.ended(PassId(1));
        assert_eq!(refill.progress().unwrap().received_keys, 1);
        assert_eq!(refill.totals(), (16, 1_600));
        clock.advance(PASS_IDLE_MAX);
        assert_eq!(refill.progress(), None);
    }

    #[test]
    fn a_pass_that_is_over_is_not_shown() {
        let clock = Arc::new(ManualClock::new(0));
        let refill = Refill::new(clock);
        refill.received(PassId(1), 10, 1_000, 500);
        refill.ended(PassId(1));
        assert_eq!(refill.progress(), None);
    }
}
