//! Watches whether a peer has restarted since a connection was made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A start of a peer, shared by all connections with it: whether it is the one that
/// this node remembers, whether a later one is known, and whether it is live.
#[derive(Debug, Default)]
pub struct PeerStart {
    is_remembered: AtomicBool,
    is_superseded: AtomicBool,
    is_barred: AtomicBool,
    live_links: AtomicUsize,
    live_incoming: AtomicUsize,
}

impl PeerStart {
    /// Marks that it is the start that this node remembers.
    pub fn remember(&self) {
        self.is_remembered.store(true, Ordering::Release);
    }

    /// Marks that the peer has connected with a later start.
    pub fn supersede(&self) {
        self.is_superseded.store(true, Ordering::Release);
    }

    /// Says whether this start is only handed lists of members, because it may still have requests of
    /// an earlier list.
    pub fn bar(&self, is_barred: bool) {
        self.is_barred.store(is_barred, Ordering::Release);
    }

    /// Whether this start has a live link: one that is open, and whose peer is
    /// not suspected.
    pub fn has_live_link(&self) -> bool {
        self.live_links() > 0
    }

    /// How many links to this start are live.
    fn live_links(&self) -> usize {
        self.live_links.load(Ordering::Acquire)
    }

    /// Whether this start has a live link, or has sent something a moment ago on a
    /// connection that it dialled.
    pub fn is_live(&self) -> bool {
        self.has_live_link() || self.live_incoming.load(Ordering::Acquire) > 0
    }
}

/// Tells a connection what this node knows of the start of its peer. If the peer has
/// connected with a later one, frames that still arrive come from a process that has
/// ended, or from one whose folder was copied and started elsewhere. They must not
/// count.
#[derive(Clone, Debug)]
pub struct StartWatch(Arc<PeerStart>);

impl StartWatch {
    /// The watch of a connection with `start`.
    pub fn new(start: Arc<PeerStart>) -> Self {
        Self(start)
    }

    /// Whether it watches `start`.
    pub fn is_of(&self, start: &Arc<PeerStart>) -> bool {
        Arc::ptr_eq(&self.0, start)
    }

    /// Whether this node remembers the start of the peer.
    pub fn is_remembered(&self) -> bool {
        self.0.is_remembered.load(Ordering::Acquire)
    }

    /// Whether the peer has connected with a later start.
    pub fn is_superseded(&self) -> bool {
        self.0.is_superseded.load(Ordering::Acquire)
    }

    /// Whether the peer is only handed lists of members.
    pub(crate) fn is_barred(&self) -> bool {
        self.0.is_barred.load(Ordering::Acquire)
    }

    /// How many links of this node to the start are live.
    pub(crate) fn live_links(&self) -> usize {
        self.0.live_links()
    }

    /// Marks that a link to this start is live, until the guard is dropped.
    pub fn mark_live(&self) -> LiveLink {
        LiveLink::new(&self.0, Way::Outgoing)
    }

    /// Marks that this start is heard on a connection that it dialled, until the guard
    /// is dropped.
    pub fn mark_heard(&self) -> LiveLink {
        LiveLink::new(&self.0, Way::Incoming)
    }
}

/// Which side dialled a connection.
#[derive(Clone, Copy, Debug)]
enum Way {
    Outgoing,
    Incoming,
}

/// Keeps a start live while it exists.
#[derive(Debug)]
pub struct LiveLink {
    start: Arc<PeerStart>,
    way: Way,
}

impl LiveLink {
    fn new(start: &Arc<PeerStart>, way: Way) -> Self {
        let live = Self {
            start: Arc::clone(start),
            way,
        };
        live.count().fetch_add(1, Ordering::AcqRel);
        live
    }

    fn count(&self) -> &AtomicUsize {
        match self.way {
            Way::Outgoing => &self.start.live_links,
            Way::Incoming => &self.start.live_incoming,
        }
    }
}

impl Drop for LiveLink {
    fn drop(&mut self) {
        self.count().fetch_sub(1, Ordering::AcqRel);
    }
}
