//! What other parts of the node, and operators, learn about its clock.

use super::peer_clocks::ClockReading;
use super::{NoStamp, Stamping};
use base::Timestamp;
use cluster::HybridClock;
use profile::lock;

/// The state of a node's stamping, for the status page and the metrics.
#[derive(Clone, Copy, Debug)]
pub struct StampingStatus {
    /// Why no stamp is issued, if none is.
    pub refusal: Option<NoStamp>,
    /// The greatest stamp issued or seen.
    pub greatest: Timestamp,
    /// How far the greatest stamp is ahead of the wall clock, in milliseconds.
    pub stamp_ahead_ms: u64,
    /// The durable ceiling of stamps.
    pub ceiling: Timestamp,
    /// How far the clocks of the peers are ahead of this node's clock, in
    /// milliseconds: the median of those that are known.
    pub peers_ahead_ms: Option<i64>,
    /// Whether the clock is near the clocks of a majority of all peers.
    pub is_proven: bool,
}

impl Stamping {
    /// The state of stamping.
    pub(crate) fn status(&self) -> StampingStatus {
        let now = ClockReading::now(&*self.clock);
        let peers = self.peer_clocks.all_ahead_ms(now);
        let mut known: Vec<i64> = peers.flatten().collect();
        known.sort_unstable();
        let state = lock(&self.state);
        let hybrid = state.hybrid.as_ref();
        let greatest = hybrid.map_or(Timestamp::ZERO, HybridClock::greatest);
        StampingStatus {
            refusal: self.next(&state, now).err(),
            greatest,
            stamp_ahead_ms: greatest.unix_ms().saturating_sub(now.unix_ms),
            ceiling: state.reservation.ceiling(),
            peers_ahead_ms: known.get(known.len() / 2).copied(),
            is_proven: self.bound.is_proven(self.peer_clocks.all_ahead_ms(now)),
        }
    }

    /// The greatest stamp issued or observed, for this node's hello.
    pub(crate) fn greatest(&self) -> Timestamp {
        lock(&self.state)
            .hybrid
            .as_ref()
            .map_or(Timestamp::ZERO, HybridClock::greatest)
    }

    /// The time on the wall clock, in milliseconds since the Unix epoch, if the
    /// clock is near the clocks of a majority of all peers. `None` for a node alone.
    pub(crate) fn proven_unix_ms(&self) -> Option<u64> {
        let now = ClockReading::now(&*self.clock);
        let peers = self.peer_clocks.all_ahead_ms(now);
        self.bound.is_proven(peers).then_some(now.unix_ms)
    }

    /// The bound below which the engine may drop tombstones: no write with a lower
    /// timestamp will arrive that the engine does not have yet.
    /// [`Timestamp::ZERO`] before [`Stamping::open`].
    pub(crate) fn drop_bound(&self) -> Timestamp {
        let state = lock(&self.state);
        match (&state.hybrid, state.pending.least()) {
            (None, _) => Timestamp::ZERO,
            (Some(_), Some(least)) => least,
            (Some(hybrid), None) => hybrid.greatest(),
        }
    }
}
