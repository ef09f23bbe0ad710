//! What a worker counts of its dealings with the other nodes.

use super::Cell;
use cluster::Miss;
use peer::{LinkState, LinkStatus};

/// What a request that too few replicas answered may have failed for.
pub(crate) const MISSES: [Miss; 7] = [
    Miss::Timeout,
    Miss::Suspected,
    Miss::Refused,
    Miss::Overloaded,
    Miss::Full,
    Miss::Failed,
    Miss::Unfilled,
];

/// What one runtime counts of the requests that it coordinates.
#[derive(Default)]
pub(crate) struct CoordinationMetrics {
    /// Writes that were stamped once more.
    pub(crate) restamps: Cell,
    /// Versions that reads wrote to stale replicas.
    pub(crate) repairs: Cell,
    /// Reads that asked one replica more because one was slow.
    pub(crate) hedges: Cell,
    /// Requests that too few replicas answered, by what became of them at the
    /// first of the others that did not just keep them waiting.
    pub(crate) not_enough: [Cell; MISSES.len()],
}

impl CoordinationMetrics {
    /// Counts a request that too few replicas answered.
    pub(crate) fn not_enough(&self, why: Miss) {
        for (miss, cell) in MISSES.iter().zip(&self.not_enough) {
            if *miss == why {
                cell.add(1);
            }
        }
    }
}

/// One runtime's link to a peer, as of the last sweep.
#[derive(Default)]
pub(crate) struct LinkMetrics {
    /// Whether it is up.
    pub(crate) is_up: Cell,
    /// Calls that wait.
    pub(crate) in_flight: Cell,
    /// Calls that were answered.
    pub(crate) answered: Cell,
    /// Calls that were given up.
    pub(crate) timeouts: Cell,
    /// Calls that were lost with the connection.
    pub(crate) lost: Cell,
    /// Calls that were not sent, or refused, for too many.
    pub(crate) overloaded: Cell,
    /// Handshakes.
    pub(crate) connects: Cell,
    /// How often the peer was suspected.
    pub(crate) suspicions: Cell,
    /// One more than the code of how the peer says that its store stands; 0
    /// while it is not connected.
    pub(crate) standing: Cell,
    /// How long reads take, smoothed.
    pub(crate) read_us: Cell,
    /// How long writes take, smoothed.
    pub(crate) write_us: Cell,
    /// The bits of how far the peer's clock is ahead, in milliseconds.
    pub(crate) clock_ahead_ms: Cell,
}

impl LinkMetrics {
    /// Takes over what the link counts.
    pub(crate) fn publish(&self, status: &LinkStatus) {
        let counts = status.counts;
        self.is_up.set(u64::from(status.state == LinkState::Up));
        self.in_flight.set(status.in_flight as u64);
        self.answered.set(counts.answered);
        self.timeouts.set(counts.timeouts);
        self.lost.set(counts.lost);
        self.overloaded.set(counts.overloaded);
        self.connects.set(counts.connects);
        self.suspicions.set(counts.suspicions);
        for (cell, latency) in [
            (&self.read_us, status.read_latency),
            (&self.write_us, status.write_latency),
        ] {
            let micros = latency.unwrap_or_default().as_micros();
            cell.set(u64::try_from(micros).unwrap_or(u64::MAX));
        }
        let standing = status.standing.map_or(0, |standing| 1 + standing as u64);
        self.standing.set(standing);
        let ahead_ms = status.drift_ms.unwrap_or_default();
        self.clock_ahead_ms.set(ahead_ms.cast_unsigned());
    }
}
