//! Watches whether a peer has restarted since a connection was made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A start of a peer, shared by all connections with it: whether a later start
/// is known, and how many live links it has.
#[derive(Debug, Default)]
pub struct PeerStart {
    is_superseded: AtomicBool,
    live_links: AtomicUsize,
}

impl PeerStart {
    /// Marks that the peer has connected with a later start.
    pub fn supersede(&self) {
        self.is_superseded.store(true, Ordering::Release);
    }

    /// Whether this start has a live link: one that is open, and whose peer is
    /// not suspected.
    pub fn has_live_link(&self) -> bool {
        self.live_links.load(Ordering::Acquire) > 0
    }
}

/// Tells a connection whether its peer has connected with a later start. If it
/// has, frames that still arrive come from a process that has ended, or from one
/// whose folder was copied and started elsewhere. They must not count.
#[derive(Clone, Debug)]
pub struct StartWatch {
    start: Arc<PeerStart>,
    /// Whether the connection is with `start` itself.
    is_with_start: bool,
}

impl StartWatch {
    /// The watch of a connection with `start`.
    pub fn new(start: Arc<PeerStart>) -> Self {
        Self {
            start,
            is_with_start: true,
        }
    }

    /// The watch of a connection with another store than the remembered one,
    /// whose last start is `start`. It ends with `start`, but does not keep
    /// `start` alive.
    pub fn in_place_of(start: Arc<PeerStart>) -> Self {
        Self {
            start,
            is_with_start: false,
        }
    }

    /// Whether the peer has connected with a later start.
    pub fn is_superseded(&self) -> bool {
        self.start.is_superseded.load(Ordering::Acquire)
    }

    /// Marks that a link to this start is live, until the guard is dropped.
    /// Returns `None` if the connection is with another store.
    pub fn mark_live(&self) -> Option<LiveLink> {
        self.is_with_start.then(|| {
            self.start.live_links.fetch_add(1, Ordering::AcqRel);
            LiveLink(Arc::clone(&self.start))
        })
    }
}

/// Counts as a live link to a start while it exists.
#[derive(Debug)]
pub struct LiveLink(Arc<PeerStart>);

impl Drop for LiveLink {
    fn drop(&mut self) {
        self.0.live_links.fetch_sub(1, Ordering::AcqRel);
    }
}
