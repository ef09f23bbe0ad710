//! How far the rebuild of this node's store has come.

use super::{rate, time_left};
use base::Clock;
use cluster::repair::{SESSION_IDLE_MAX, SessionId};
use profile::lock;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a session has streamed to this node so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuildProgress {
    /// The bytes of keys and values that peers have sent.
    pub received_bytes: u64,
    /// The keys that they belong to.
    pub received_keys: u64,
    /// How far the session has come, about, in thousandths of the bytes that the sender keeps.
    pub position_permille: u16,
    /// How many of the bytes came in a second; [`None`] as long as that cannot be told.
    pub bytes_per_second: Option<u64>,
    /// How long the session still takes, about, if it goes on as fast as so far; [`None`]
    /// as long as that cannot be told.
    pub time_left: Option<Duration>,
}

/// Follows what sessions stream. A node's runtimes share it.
pub(in crate::session) struct Rebuild {
    clock: Arc<dyn Clock>,
    state: Mutex<RebuildState>,
}

#[derive(Default)]
struct RebuildState {
    current: Option<Current>,
    received_bytes: u64,
    received_keys: u64,
}

/// The session that last streamed something.
struct Current {
    session: SessionId,
    /// When the first run arrived, on the monotonic clock.
    began: Duration,
    /// Where the sender was then.
    began_permille: u16,
    last_received: Duration,
    received_bytes: u64,
    received_keys: u64,
    position_permille: u16,
}

impl Rebuild {
    /// Nothing has arrived yet.
    pub(in crate::session) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Mutex::default(),
        }
    }

    /// A run has brought versions of `keys` that this node lacked.
    pub(in crate::session) fn received(
        &self,
        session: SessionId,
        keys: u64,
        bytes: u64,
        position_permille: u16,
    ) {
        let now = self.clock.monotonic();
        let mut state = lock(&self.state);
        state.received_bytes += bytes;
        state.received_keys += keys;
        if state
            .current
            .as_ref()
            .is_none_or(|current| current.session != session)
        {
            state.current = Some(Current {
                session,
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

    /// A session is over.
    pub(in crate::session) fn ended(&self, session: SessionId) {
        let mut state = lock(&self.state);
        state.current.take_if(|current| current.session == session);
    }

    /// All that was streamed since this node started: keys, and bytes.
    pub(in crate::session) fn totals(&self) -> (u64, u64) {
        let state = lock(&self.state);
        (state.received_keys, state.received_bytes)
    }

    /// What the running session has streamed; [`None`] if nothing, or if there is none.
    pub(in crate::session) fn progress(&self) -> Option<RebuildProgress> {
        let now = self.clock.monotonic();
        let state = lock(&self.state);
        let current = state.current.as_ref()?;
        if now.saturating_sub(current.last_received) >= SESSION_IDLE_MAX {
            return None;
        }
        let came = current
            .position_permille
            .saturating_sub(current.began_permille);
        let left = 1000_u16.saturating_sub(current.position_permille);
        let took = current.last_received.saturating_sub(current.began);
        let time_left = time_left(came.into(), left.into(), took);
        Some(RebuildProgress {
            received_bytes: current.received_bytes,
            received_keys: current.received_keys,
            position_permille: current.position_permille,
            bytes_per_second: rate(current.received_bytes, took),
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
        let rebuild = Rebuild::new(Arc::clone(&clock) as Arc<dyn Clock>);
        assert_eq!(rebuild.progress(), None);
        // A session that goes on begins in the middle.
        rebuild.received(SessionId::Incremental(1), 10, 1_000, 500);
        assert_eq!(rebuild.progress().unwrap().time_left, None);
        clock.advance(Duration::from_secs(10));
        rebuild.received(SessionId::Incremental(1), 5, 500, 600);
        let expected = RebuildProgress {
            received_bytes: 1_500,
            received_keys: 15,
            position_permille: 600,
            bytes_per_second: Some(150),
            time_left: Some(Duration::from_secs(40)),
        };
        assert_eq!(rebuild.progress(), Some(expected));
        // The next session counts for itself; the totals go on.
        rebuild.received(SessionId::Incremental(2), 1, 100, 0);
        rebuild.ended(SessionId::Incremental(1));
        assert_eq!(rebuild.progress().unwrap().received_keys, 1);
        assert_eq!(rebuild.totals(), (16, 1_600));
        clock.advance(SESSION_IDLE_MAX);
        assert_eq!(rebuild.progress(), None);
    }

    #[test]
    fn a_session_that_is_over_is_not_shown() {
        let clock = Arc::new(ManualClock::new(0));
        let rebuild = Rebuild::new(clock);
        rebuild.received(SessionId::Incremental(1), 10, 1_000, 500);
        rebuild.ended(SessionId::Incremental(1));
        assert_eq!(rebuild.progress(), None);
    }
}
