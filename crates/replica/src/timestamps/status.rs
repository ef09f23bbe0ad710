//! The state of the node's clock, for other parts of the node and for operators.

use super::peer_clocks::ClockReading;
use super::{NoTimestamp, TimestampAllocator};
use base::Timestamp;
use cluster::{HybridClock, MedianAhead, Members, NodeId};
use profile::lock;

/// The state of a node's allocating timestamps, for the status page and the metrics.
#[derive(Clone, Copy, Debug)]
pub struct TimestampStatus {
    /// Why no timestamp is issued, if none is.
    pub refusal: Option<NoTimestamp>,
    /// The greatest timestamp issued or seen.
    pub greatest: Timestamp,
    /// How far the greatest timestamp is ahead of the wall clock, in milliseconds.
    pub timestamp_ahead_ms: u64,
    /// The durable timestamp bound.
    pub bound: Timestamp,
    /// How far the time that most nodes have is ahead of this node's clock, in milliseconds:
    /// the median of the clocks that are known, with this one. If they are split in halves, it
    /// is that of the other half. `None` if no peer's is known.
    pub peers_ahead_ms: Option<i64>,
    /// Whether the clock is near the clocks of a majority of all peers.
    pub is_proven: bool,
}

impl TimestampAllocator {
    /// The state of allocating timestamps.
    pub fn status(&self) -> TimestampStatus {
        let now = ClockReading::now(&*self.clock);
        let peers = || self.peer_clocks.all_ahead_ms(now);
        let is_any_known = peers().flatten().next().is_some();
        let median = MedianAhead::of(peers());
        let state = lock(&self.state);
        let hybrid = state.hybrid.as_ref();
        let greatest = hybrid.map_or(Timestamp::ZERO, HybridClock::greatest);
        TimestampStatus {
            refusal: self.next(&state, now).err(),
            greatest,
            timestamp_ahead_ms: greatest.unix_ms().saturating_sub(now.unix_ms),
            bound: state.reservation.bound(),
            peers_ahead_ms: is_any_known.then_some(median.further_ms),
            is_proven: self.bound.is_proven(peers()),
        }
    }

    /// The time that most nodes have, this one among them, in milliseconds since the Unix
    /// epoch. While no majority agrees on another one, it is that of the own clock.
    pub fn cluster_unix_ms(&self) -> u64 {
        let now = ClockReading::now(&*self.clock);
        let median = MedianAhead::of(self.peer_clocks.all_ahead_ms(now));
        now.unix_ms.saturating_add_signed(median.nearer_ms)
    }

    /// The nodes whose clocks are far from that of a majority of all nodes, as far as this
    /// one knows. None while no clock is that of a majority.
    pub fn wrong_clocks(&self, members: &Members) -> Vec<NodeId> {
        let now = ClockReading::now(&*self.clock);
        let ahead_ms = |node: NodeId| {
            if node == members.own() {
                Some(0)
            } else {
                self.peer_clocks.ahead_ms(node, now)
            }
        };
        let nodes: Vec<(NodeId, i64)> = members
            .ids()
            .filter_map(|node| Some((node, ahead_ms(node)?)))
            .collect();
        let median_ms = MedianAhead::of(self.peer_clocks.all_ahead_ms(now)).nearer_ms;
        let is_far = |ahead_ms: i64| !self.bound.is_near(ahead_ms.saturating_sub(median_ms));
        let far = nodes.iter().filter(|(_, ahead_ms)| is_far(*ahead_ms));
        let far: Vec<NodeId> = far.map(|(node, _)| *node).collect();
        if nodes.len() - far.len() > usize::from(members.count()) / 2 {
            far
        } else {
            Vec::new()
        }
    }

    /// The greatest timestamp issued or observed, for this node's hello.
    pub fn greatest(&self) -> Timestamp {
        lock(&self.state)
            .hybrid
            .as_ref()
            .map_or(Timestamp::ZERO, HybridClock::greatest)
    }

    /// The time on the wall clock, in milliseconds since the Unix epoch, if the
    /// clock is near the clocks of a majority of all peers. `None` for a node alone.
    pub fn proven_unix_ms(&self) -> Option<u64> {
        let now = ClockReading::now(&*self.clock);
        let peers = self.peer_clocks.all_ahead_ms(now);
        self.bound.is_proven(peers).then_some(now.unix_ms)
    }

    /// The bound below which the engine may drop tombstones: no write with a lower
    /// timestamp will arrive that the engine does not have yet.
    /// [`Timestamp::ZERO`] before [`TimestampAllocator::open`].
    pub fn drop_bound(&self) -> Timestamp {
        let state = lock(&self.state);
        match (&state.hybrid, state.pending.least()) {
            (None, _) => Timestamp::ZERO,
            (Some(_), Some(least)) => least,
            (Some(hybrid), None) => hybrid.greatest(),
        }
    }
}
