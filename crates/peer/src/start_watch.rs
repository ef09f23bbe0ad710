//! Watches whether a peer has come with another start.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells a connection that the peer has come with another start since. Then
/// what still comes over the connection is of a process that is gone, or of one
/// beside which a copy of its folder was started: it must not count.
#[derive(Clone, Debug)]
pub struct StartWatch {
    latest: Arc<AtomicU64>,
    noted: u64,
}

impl StartWatch {
    /// Watches from now on.
    pub fn new(latest: Arc<AtomicU64>) -> Self {
        let noted = latest.load(Ordering::Acquire);
        Self { latest, noted }
    }

    /// Whether the peer has come with another start.
    pub fn is_over(&self) -> bool {
        self.latest.load(Ordering::Acquire) != self.noted
    }
}
