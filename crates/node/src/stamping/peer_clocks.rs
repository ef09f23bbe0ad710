//! What the clocks of the other nodes show, as all runtimes know it.

use base::Clock;
use cluster::NodeNumber;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

/// In place of a clock that was never heard of.
const UNHEARD: i64 = i64::MIN;

/// One reading of this node's clocks: what is concluded from several must not
/// span a step of the wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// What the wall clock shows, in milliseconds since the Unix epoch.
    pub(super) unix_ms: u64,
    /// What the monotonic clock shows.
    pub(super) monotonic: Duration,
    /// How far that is ahead of the monotonic clock.
    pub(super) ahead_of_monotonic_ms: i64,
}

impl Moment {
    /// Now.
    pub(super) fn now(clock: &dyn Clock) -> Self {
        let (unix_ms, monotonic) = (clock.unix_ms(), clock.monotonic());
        Self {
            unix_ms,
            monotonic,
            ahead_of_monotonic_ms: ahead_of_monotonic_ms(unix_ms, monotonic),
        }
    }
}

/// How far a wall clock that shows this is ahead of this node's monotonic one.
pub(super) fn ahead_of_monotonic_ms(unix_ms: u64, monotonic: Duration) -> i64 {
    let ahead_ms = i128::from(unix_ms) - monotonic.as_millis() as i128;
    ahead_ms.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// How far each peer's wall clock is ahead of this node's monotonic one: so a
/// step of this node's own wall clock shows at once.
pub(super) struct PeerClocks {
    /// By node, in milliseconds; nothing of this node itself.
    ahead_of_monotonic_ms: Vec<AtomicI64>,
    own: NodeNumber,
}

impl PeerClocks {
    /// The clocks of a cluster of so many nodes, none of which was heard of.
    pub(super) fn new(nodes: u8, own: NodeNumber) -> Self {
        let unheard = || AtomicI64::new(UNHEARD);
        Self {
            ahead_of_monotonic_ms: (0..nodes).map(|_| unheard()).collect(),
            own,
        }
    }

    /// A node's clock was heard of.
    pub(super) fn heard(&self, node: NodeNumber, ahead_of_monotonic_ms: i64) {
        if let Some(cell) = self.ahead_of_monotonic_ms.get(node.index()) {
            cell.store(ahead_of_monotonic_ms.max(UNHEARD + 1), Relaxed);
        }
    }

    /// How many milliseconds a node's clock is ahead of this one's.
    pub(super) fn ahead_ms(&self, node: NodeNumber, moment: Moment) -> Option<i64> {
        ahead_ms(self.ahead_of_monotonic_ms.get(node.index())?, moment)
    }

    /// The same of all peers.
    pub(super) fn all_ahead_ms(&self, moment: Moment) -> impl Iterator<Item = Option<i64>> {
        let own = self.own.index();
        let cells = self.ahead_of_monotonic_ms.iter().enumerate();
        cells
            .filter(move |(node, _)| *node != own)
            .map(move |(_, cell)| ahead_ms(cell, moment))
    }
}

fn ahead_ms(cell: &AtomicI64, moment: Moment) -> Option<i64> {
    match cell.load(Relaxed) {
        UNHEARD => None,
        ahead_ms => Some(ahead_ms.saturating_sub(moment.ahead_of_monotonic_ms)),
    }
}
