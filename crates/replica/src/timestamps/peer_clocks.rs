//! The clocks of the other nodes, as all runtimes of this node know them.

use base::Clock;
use cluster::{Members, NODES_MAX, NodeId};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// In place of the clock of a node that is no peer.
const NO_PEER: i64 = i64::MIN;

/// In place of a clock that is not known yet.
const UNKNOWN: i64 = i64::MIN + 1;

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
    /// By node, in milliseconds. Each timestamp asks all of them, so the cells have no lock.
    ahead_of_monotonic_ms: Box<[AtomicI64]>,
    /// How many of the cells are used: those up to the greatest ID.
    cells: AtomicUsize,
}

impl PeerClocks {
    /// The clocks of the peers, none of which is known yet.
    pub(super) fn new(members: &Members) -> Self {
        let no_peer = || AtomicI64::new(NO_PEER);
        let clocks = Self {
            ahead_of_monotonic_ms: (0..NODES_MAX).map(|_| no_peer()).collect(),
            cells: AtomicUsize::new(0),
        };
        clocks.follow(members);
        clocks
    }

    /// Forgets the clocks of nodes that are no peers any more, and knows none of the new ones.
    pub(super) fn follow(&self, members: &Members) {
        let peers: Vec<usize> = members.peers().map(NodeId::index).collect();
        for (node, cell) in self.ahead_of_monotonic_ms.iter().enumerate() {
            let is_peer = peers.contains(&node);
            if !is_peer {
                cell.store(NO_PEER, Relaxed);
            } else if cell.load(Relaxed) == NO_PEER {
                cell.store(UNKNOWN, Relaxed);
            }
        }
        let cells = peers.last().map_or(0, |last| last + 1);
        self.cells.store(cells, Relaxed);
    }

    /// Records a peer's clock.
    pub(super) fn record(&self, node: NodeId, ahead_of_monotonic_ms: i64) {
        if let Some(cell) = self.ahead_of_monotonic_ms.get(node.index())
            && cell.load(Relaxed) != NO_PEER
        {
            cell.store(ahead_of_monotonic_ms.max(UNKNOWN + 1), Relaxed);
        }
    }

    /// How many peers there are.
    pub(super) fn peers(&self) -> usize {
        let is_peer = |cell: &&AtomicI64| cell.load(Relaxed) != NO_PEER;
        self.used().iter().filter(is_peer).count()
    }

    fn used(&self) -> &[AtomicI64] {
        let cells = self.cells.load(Relaxed);
        self.ahead_of_monotonic_ms.get(..cells).unwrap_or_default()
    }

    /// How many milliseconds a node's clock is ahead of this node's wall clock.
    /// `None` if it is not known.
    pub(super) fn ahead_ms(&self, node: NodeId, now: ClockReading) -> Option<i64> {
        let ahead = self.ahead_of_monotonic_ms.get(node.index())?;
        ahead_ms(ahead.load(Relaxed), now)
    }

    /// The same for all peers.
    pub(super) fn all_ahead_ms(&self, now: ClockReading) -> impl Iterator<Item = Option<i64>> {
        let peers = self.used().iter().map(|cell| cell.load(Relaxed));
        let peers = peers.filter(|ahead| *ahead != NO_PEER);
        peers.map(move |ahead| ahead_ms(ahead, now))
    }
}

fn ahead_ms(ahead_of_monotonic_ms: i64, now: ClockReading) -> Option<i64> {
    match ahead_of_monotonic_ms {
        NO_PEER | UNKNOWN => None,
        ahead_ms => Some(ahead_ms.saturating_sub(now.ahead_of_monotonic_ms)),
    }
}
