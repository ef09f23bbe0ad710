//! Parts of a table that are set aside: readers, scans and merges pass over them, and whoever
//! reads what is kept for the operator sees nothing else.

use super::format::TableProperties;
use crate::manifest::SetAsidePart;
use arc_swap::ArcSwapOption;
use base::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What of a table is set aside.
#[derive(Default)]
pub(super) struct SetAside {
    /// All of it is below this timestamp; 0 while nothing is.
    below: AtomicU64,
    /// All versions of the table that are below this timestamp are.
    all_below: AtomicU64,
    parts: ArcSwapOption<Vec<SetAsidePart>>,
    /// Whether only what is kept of the parts is shown.
    pub(super) shows_kept: bool,
}

impl SetAside {
    /// Replaces the parts.
    pub(super) fn set(&self, parts: Vec<SetAsidePart>, properties: &TableProperties) {
        let below = parts.iter().map(|part| part.below.as_u64());
        let below = below.max().unwrap_or(0);
        let is_whole = |part: &&SetAsidePart| {
            *part.first_key <= *properties.least_key && *part.last_key >= *properties.greatest_key
        };
        let all_below = parts.iter().filter(is_whole);
        let all_below = all_below.map(|part| part.below.as_u64());
        let all_below = all_below.max().unwrap_or(0);
        self.parts
            .store((!parts.is_empty()).then(|| Arc::new(parts)));
        self.all_below.store(all_below, Relaxed);
        self.below.store(below, Relaxed);
    }

    /// Whether walks pass over some versions.
    #[inline]
    pub(super) fn hides_some(&self) -> bool {
        self.below.load(Relaxed) > 0
    }

    /// Whether walks pass over a version.
    pub(super) fn hides(&self, key: &[u8], timestamp: Timestamp) -> bool {
        if timestamp.as_u64() >= self.below.load(Relaxed) {
            return self.shows_kept;
        }
        let parts = self.parts.load();
        let parts = parts.iter().flat_map(|parts| parts.iter());
        let mut including = parts
            .filter(|part| part.includes(key, timestamp))
            .peekable();
        if self.shows_kept {
            // What the operator has discarded lies in a part that is not kept.
            including.peek().is_none() || including.any(|part| !part.is_kept)
        } else {
            including.peek().is_some()
        }
    }

    /// Whether walks pass over all versions up to this timestamp.
    #[inline]
    pub(super) fn hides_all_up_to(&self, timestamp: Timestamp) -> bool {
        timestamp.as_u64() < self.all_below.load(Relaxed) && !self.shows_kept
    }
}
