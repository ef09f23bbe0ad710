//! What nodes report about their stores.

use base::Timestamp;

/// What a node reports of its store with its heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreReport {
    /// The writes that its store has durably acknowledged.
    pub acknowledged: u64,
    /// The greatest forget bound that it knows: what is dead below it may be dropped.
    /// [`Timestamp::ZERO`] if it knows none.
    pub forgotten: Timestamp,
    /// Its durable fence: below it, its store takes no ordinary writes.
    /// [`Timestamp::ZERO`] if it has none, or is of a release without fences.
    pub fence: Timestamp,
}
