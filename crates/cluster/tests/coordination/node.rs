//! A node of the model: a clock, and a list of versions for a store.

use base::{Entry, NewerVersion, Timestamp};
use cluster::HybridClock;

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A former rule: a write is given a timestamp again when one of the first `ack` answers names
    /// something newer at its own arrival, and every repair counts.
    FirstAnswersDecide,
    /// A write does not wait for further replicas.
    Impatience,
    /// A repair counts though something newer was there.
    RepairsCount,
    /// A replica answers with what it held at the last arrival of the version.
    LastArrival,
    /// A replica that does not know what it held answers that it held nothing newer.
    UnknownIsNone,
}

pub(crate) struct Node {
    pub(crate) clock: HybridClock,
    pub(crate) skew_ms: i64,
    pub(crate) is_down: bool,
    /// Whether it no longer knows what newer versions it held, as with damaged blocks.
    pub(crate) forgets: bool,
    /// All versions that it was ever sent, in the order of arrival, with the newer-version check of
    /// the first arrival.
    pub(crate) versions: Vec<(Entry, NewerVersion)>,
}

impl Node {
    /// A node without versions, whose clock runs right.
    pub(crate) fn new(number: u8) -> Self {
        Self {
            clock: HybridClock::new(number + 1, Timestamp::ZERO),
            skew_ms: 0,
            is_down: false,
            forgets: false,
            versions: Vec::new(),
        }
    }

    /// Stores a version; returns what newer versions were there when it first arrived.
    pub(crate) fn store(&mut self, entry: &Entry, bug: Option<Bug>) -> NewerVersion {
        let timestamp = entry.timestamp();
        let timestamps = self.versions.iter().map(|(held, _)| held.timestamp());
        let newest = timestamps.max().filter(|newest| *newest > timestamp);
        let now = newest.map_or(NewerVersion::None, NewerVersion::At);
        let known = self.versions.iter().find(|(held, _)| held == entry);
        let first = known.map_or(now, |(_, first)| *first);
        if known.is_none() {
            self.versions.push((entry.clone(), now));
        }
        match (bug, newest) {
            (Some(Bug::LastArrival | Bug::FirstAnswersDecide), _) => now,
            (Some(Bug::UnknownIsNone), _) if self.forgets => NewerVersion::None,
            (_, Some(newest)) if self.forgets => NewerVersion::Unknown(newest),
            _ => first,
        }
    }
}
