//! What peers say about clocks: whether they confirm this node's clock, and which timestamps they
//! have seen.

use super::peer_clocks::{ClockReading, ahead_of_monotonic_ms};
use super::{AllocatorState, NoTimestamp, TimestampAllocator};
use base::Timestamp;
use cluster::NodeId;
use profile::lock;
use std::time::Duration;

/// How long after a timestamp the timestamp bound is kept ahead of the clock, so that the next
/// timestamp need not wait. Later it is not, so that an idle node leaves its disk alone.
pub(super) const KEPT_WARM: Duration = Duration::from_secs(60);

impl TimestampAllocator {
    /// Records a peer's hello: the time on its wall clock, and the greatest timestamp
    /// that it has issued or seen.
    pub fn record_hello(&self, peer: NodeId, unix_ms: u64, greatest_seen: Timestamp) {
        let ahead_ms = ahead_of_monotonic_ms(unix_ms, self.clock.monotonic());
        self.peer_clocks.record(peer, ahead_ms);
        lock(&self.state)
            .greatest_seen_by_peers
            .insert(peer, greatest_seen);
        self.upkeep();
    }

    /// Records how far a peer's wall clock is ahead of this node's monotonic clock.
    pub fn record_clock(&self, peer: NodeId, ahead_of_monotonic_ms: i64) {
        self.peer_clocks.record(peer, ahead_of_monotonic_ms);
    }

    /// The work to do from time to time: observes what peers have seen, once their clocks
    /// are near or this clock is right, keeps the timestamp bound ahead of the clock, and logs when the node
    /// stops or begins to allocate timestamps.
    pub fn upkeep(&self) {
        let now = ClockReading::now(&*self.clock);
        let mut state = lock(&self.state);
        let was_refused = self.next(&state, now).is_err();
        let AllocatorState {
            hybrid: Some(hybrid),
            greatest_seen_by_peers,
            observed_peers,
            confirmed_ahead_ms,
            ..
        } = &mut *state
        else {
            return;
        };
        let is_near = |ahead_ms: Option<i64>| ahead_ms.is_some_and(|ms| self.bound.is_near(ms));
        // What a peer has seen waits as long as this clock may be the wrong one, by which no
        // timestamp can be judged. If it is that of a majority, the peer's own clock does not
        // matter, unless the timestamp seems to come from the future.
        let is_right = (self.bound).is_of_majority(self.peer_clocks.all_ahead_ms(now));
        greatest_seen_by_peers.retain(|peer, greatest_seen| {
            let can_judge = is_near(self.peer_clocks.ahead_ms(*peer, now))
                || is_right && self.bound.accepts(*greatest_seen, now.unix_ms);
            if can_judge {
                // A timestamp that is too far ahead cannot be one of this node's own.
                hybrid.observe_within(*greatest_seen, self.bound, now.unix_ms);
                observed_peers.insert(*peer);
            }
            !can_judge
        });
        if self.peer_clocks.all_ahead_ms(now).any(is_near) {
            *confirmed_ahead_ms = Some(now.ahead_of_monotonic_ms);
        }
        let next = self.next(&state, now);
        if let Ok(timestamp) = next
            && now.monotonic.saturating_sub(state.last_issued_at) < KEPT_WARM
        {
            self.raise_if_low(&mut state, timestamp);
        }
        self.log_change(&mut state, next.err());
        drop(state);
        if next.is_ok() && was_refused {
            self.changed.notify_waiters();
        }
    }

    /// Whether the timestamps that a peer has seen are observed. Those of a peer whose clock is
    /// far from this one's wait until it is near, or this clock is that of a majority.
    pub fn has_observed(&self, peer: NodeId) -> bool {
        lock(&self.state).observed_peers.contains(&peer)
    }

    /// Whether a peer has confirmed the clock, and the clock was not set since.
    pub(super) fn is_confirmed(&self, state: &AllocatorState, now: ClockReading) -> bool {
        let step_ms = state
            .confirmed_ahead_ms
            .map(|ahead_ms| now.ahead_of_monotonic_ms.saturating_sub(ahead_ms));
        step_ms.is_some_and(|step_ms| self.bound.is_near(step_ms))
    }

    /// Checks that no timestamp can be given a second time, if a lost store may have given some: the
    /// timestamps that peers have seen are observed. A peer that is away may have seen a greater
    /// one; but a timestamp was at most the bound ahead of the time when it was given, and a clock
    /// that is near the others is at most the bound behind. So after twice the bound a new timestamp
    /// is above all of them anyway.
    pub(super) fn check_heard(
        &self,
        state: &AllocatorState,
        now: ClockReading,
    ) -> Result<(), NoTimestamp> {
        let Some(opened) = state.new_since else {
            return Ok(());
        };
        let all_after = self.drift_max.saturating_mul(2);
        let are_heard = state.observed_peers.len() >= self.peer_clocks.peers();
        if are_heard || now.monotonic.saturating_sub(opened) >= all_after {
            Ok(())
        } else {
            Err(NoTimestamp::Unheard { all_after })
        }
    }

    fn log_change(&self, state: &mut AllocatorState, refusal: Option<NoTimestamp>) {
        let kind = |refusal: &Option<NoTimestamp>| refusal.as_ref().map(std::mem::discriminant);
        if kind(&refusal) == kind(&state.logged) {
            return;
        }
        match refusal {
            Some(
                why @ (NoTimestamp::Unmet | NoTimestamp::NoneNear | NoTimestamp::Unheard { .. }),
            ) => {
                if self.clock.monotonic() < state.first_peer_deadline {
                    return;
                }
                tracing::warn!("writes are refused: {why}");
            }
            Some(why) => tracing::error!("writes are refused: {why}"),
            None => {
                tracing::info!("this node's clock is within the bound: it accepts writes");
            }
        }
        state.logged = refusal;
    }
}
