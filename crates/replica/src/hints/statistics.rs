//! Counts of hints, for the status page and the metrics.

use cluster::{NODES_MAX, NodeId};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The hints for a peer on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HintsWaiting {
    /// How many hints there are.
    pub hints: u64,
    /// The space that they take on disk.
    pub bytes: u64,
}

/// The hints on disk, by peer. They change under the lock of the logs; reading them
/// takes no lock.
pub(super) struct WaitingCounts(Box<[[AtomicU64; 2]]>);

impl WaitingCounts {
    /// No hints for any node that can ever be.
    pub(super) fn new() -> Self {
        let nodes = 0..NODES_MAX;
        Self(nodes.map(|_| <[AtomicU64; 2]>::default()).collect())
    }

    pub(super) fn of(&self, peer: NodeId) -> HintsWaiting {
        let Some([hints, bytes]) = self.0.get(peer.index()) else {
            return HintsWaiting::default();
        };
        HintsWaiting {
            hints: hints.load(Relaxed),
            bytes: bytes.load(Relaxed),
        }
    }

    pub(super) fn add(&self, peer: NodeId, more: HintsWaiting) {
        if let Some([hints, bytes]) = self.0.get(peer.index()) {
            hints.fetch_add(more.hints, Relaxed);
            bytes.fetch_add(more.bytes, Relaxed);
        }
    }

    pub(super) fn subtract(&self, peer: NodeId, less: HintsWaiting) {
        if let Some([hints, bytes]) = self.0.get(peer.index()) {
            hints.fetch_sub(less.hints, Relaxed);
            bytes.fetch_sub(less.bytes, Relaxed);
        }
    }
}

/// What happened to hints since the start of the node. Each hint is counted as
/// delivered or as dropped in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HintStatistics {
    /// Hints that were written to the log.
    pub kept: u64,
    /// Hints that their peer stored.
    pub delivered: u64,
    /// Dropped because too many hints waited to be written, or the store was closed.
    pub dropped_from_queue: u64,
    /// Dropped because the disk was full or failed, or the limit of hints was too low.
    pub dropped_unwritten: u64,
    /// Dropped to make room for newer hints.
    pub dropped_for_room: u64,
    /// Dropped because they were too old.
    pub dropped_for_age: u64,
    /// Dropped because they were older than what the peer's store still takes.
    pub dropped_obsolete: u64,
    /// Dropped because their segment was damaged on disk.
    pub dropped_damaged: u64,
    /// Dropped because their peer has left the cluster.
    pub dropped_with_peer: u64,
}

/// Why a segment is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentEnd {
    Delivered,
    ForRoom,
    ForAge,
    Damaged,
    WithPeer,
}

#[derive(Default)]
pub(super) struct HintCounters {
    kept: AtomicU64,
    delivered: AtomicU64,
    dropped_from_queue: AtomicU64,
    dropped_unwritten: AtomicU64,
    dropped_for_room: AtomicU64,
    dropped_for_age: AtomicU64,
    dropped_obsolete: AtomicU64,
    dropped_damaged: AtomicU64,
    dropped_with_peer: AtomicU64,
}

impl HintCounters {
    pub(super) fn kept(&self, hints: u64) {
        self.kept.fetch_add(hints, Relaxed);
    }

    pub(super) fn dropped_from_queue(&self, hints: u64) {
        self.dropped_from_queue.fetch_add(hints, Relaxed);
    }

    pub(super) fn dropped_unwritten(&self, hints: u64) {
        self.dropped_unwritten.fetch_add(hints, Relaxed);
    }

    /// Hints of a segment that is still to end as delivered.
    pub(super) fn dropped_obsolete(&self, hints: u64) {
        self.dropped_obsolete.fetch_add(hints, Relaxed);
    }

    pub(super) fn ended(&self, end: SegmentEnd, hints: u64) {
        let counter = match end {
            SegmentEnd::Delivered => &self.delivered,
            SegmentEnd::ForRoom => &self.dropped_for_room,
            SegmentEnd::ForAge => &self.dropped_for_age,
            SegmentEnd::Damaged => &self.dropped_damaged,
            SegmentEnd::WithPeer => &self.dropped_with_peer,
        };
        counter.fetch_add(hints, Relaxed);
    }

    pub(super) fn read(&self) -> HintStatistics {
        HintStatistics {
            kept: self.kept.load(Relaxed),
            delivered: self.delivered.load(Relaxed),
            dropped_from_queue: self.dropped_from_queue.load(Relaxed),
            dropped_unwritten: self.dropped_unwritten.load(Relaxed),
            dropped_for_room: self.dropped_for_room.load(Relaxed),
            dropped_for_age: self.dropped_for_age.load(Relaxed),
            dropped_obsolete: self.dropped_obsolete.load(Relaxed),
            dropped_damaged: self.dropped_damaged.load(Relaxed),
            dropped_with_peer: self.dropped_with_peer.load(Relaxed),
        }
    }
}
