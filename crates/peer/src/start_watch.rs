//! Watches whether a peer has come with another start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A start of a peer, as all connections with it share it: whether it is the
/// last that is known, and how many links hear from it.
#[derive(Debug, Default)]
pub struct PeerStart {
    is_superseded: AtomicBool,
    hearing: AtomicUsize,
}

impl PeerStart {
    /// The peer has come with another start.
    pub fn end(&self) {
        self.is_superseded.store(true, Ordering::Release);
    }

    /// Whether a link to it is up: neither closed nor silent for so long that
    /// the peer is suspected.
    pub fn has_live_link(&self) -> bool {
        self.hearing.load(Ordering::Acquire) > 0
    }
}

/// Tells a connection that the peer has come with another start since. Then
/// what still comes over the connection is of a process that is gone, or of one
/// beside which a copy of its folder was started: it must not count.
#[derive(Clone, Debug)]
pub struct StartWatch {
    start: Arc<PeerStart>,
    is_of_it: bool,
}

impl StartWatch {
    /// That of a connection with this start.
    pub fn new(start: Arc<PeerStart>) -> Self {
        Self {
            start,
            is_of_it: true,
        }
    }

    /// That of a connection with another store in the place of the one that is
    /// known: it is over with `start`, the last that counts, and is no sign of
    /// life of that.
    pub fn in_place_of(start: Arc<PeerStart>) -> Self {
        Self {
            start,
            is_of_it: false,
        }
    }

    /// Whether the peer has come with another start.
    pub fn is_superseded(&self) -> bool {
        self.start.is_superseded.load(Ordering::Acquire)
    }

    /// A link hears from the start, for as long as what is given lives.
    pub fn mark_live(&self) -> Option<LiveLink> {
        self.is_of_it.then(|| {
            self.start.hearing.fetch_add(1, Ordering::AcqRel);
            LiveLink(Arc::clone(&self.start))
        })
    }
}

/// A link that hears from a start.
#[derive(Debug)]
pub struct LiveLink(Arc<PeerStart>);

impl Drop for LiveLink {
    fn drop(&mut self) {
        self.0.hearing.fetch_sub(1, Ordering::AcqRel);
    }
}
