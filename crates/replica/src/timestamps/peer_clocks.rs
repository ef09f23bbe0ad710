//! The clocks of the other nodes, as all runtimes of this node know them.

use base::Clock;
use cluster::NodeId;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

/// In place of a clock that is not known yet.
const UNKNOWN: i64 = i64::MIN;

/// One reading of this node's two clocks. A conclusion from several values uses
/// one reading, so that it cannot span a step of the wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockReading {
    /// The wall clock, in milliseconds since the Unix epoch.
    pub(super) unix_ms: u64,
    /// The monotonic clock.
    pub(super) monotonic: Duration,
    /// How far the wall clock is ahead of the monotonic clock.
    pub(super) ahead_of_monotonic_ms: i64,
}

impl ClockReading {
    /// Reads the clocks.
    pub(super) fn now(clock: &dyn Clock) -> Self {
        let (unix_ms, monotonic) = (clock.unix_ms(), clock.monotonic());
        Self {
            unix_ms,
            monotonic,
            ahead_of_monotonic_ms: ahead_of_monotonic_ms(unix_ms, monotonic),
        }
    }
}

/// How far a wall clock with the time `unix_ms` is ahead of this node's monotonic clock.
pub(super) fn ahead_of_monotonic_ms(unix_ms: u64, monotonic: Duration) -> i64 {
    let ahead_ms = i128::from(unix_ms) - monotonic.as_millis() as i128;
    ahead_ms.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// How far each peer's wall clock is ahead of this node's monotonic clock. Peers are
/// compared with the monotonic clock because a step of this node's own wall clock
/// then shows at once.
pub(super) struct PeerClocks {
    /// By node, in milliseconds; the cell of this node itself is not used.
    ahead_of_monotonic_ms: Vec<AtomicI64>,
    own: NodeId,
}

impl PeerClocks {
    /// The clocks of a cluster with this many nodes, none of which is known yet.
    pub(super) fn new(nodes: u8, own: NodeId) -> Self {
        let unknown = || AtomicI64::new(UNKNOWN);
        Self {
            ahead_of_monotonic_ms: (0..nodes).map(|_| unknown()).collect(),
            own,
        }
    }

    /// Records a node's clock.
    pub(super) fn record(&self, node: NodeId, ahead_of_monotonic_ms: i64) {
        if let Some(cell) = self.ahead_of_monotonic_ms.get(node.index()) {
            cell.store(ahead_of_monotonic_ms.max(UNKNOWN + 1), Relaxed);
        }
    }

    /// How many milliseconds a node's clock is ahead of this node's wall clock.
    /// `None` if it is not known.
    pub(super) fn ahead_ms(&self, node: NodeId, now: ClockReading) -> Option<i64> {
        ahead_ms(self.ahead_of_monotonic_ms.get(node.index())?, now)
    }

    /// The same for all peers.
    pub(super) fn all_ahead_ms(&self, now: ClockReading) -> impl Iterator<Item = Option<i64>> {
        let own = self.own.index();
        let cells = self.ahead_of_monotonic_ms.iter().enumerate();
        cells
            .filter(move |(node, _)| *node != own)
            .map(move |(_, cell)| ahead_ms(cell, now))
    }
}

fn ahead_ms(cell: &AtomicI64, now: ClockReading) -> Option<i64> {
    match cell.load(Relaxed) {
        UNKNOWN => None,
        ahead_ms => Some(ahead_ms.saturating_sub(now.ahead_of_monotonic_ms)),
    }
}
