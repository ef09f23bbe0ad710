//! What nodes report about their stores.

use base::Timestamp;

/// What a node reports of its store with its heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreReport {
    /// The writes that its store has durably acknowledged.
    pub acknowledged: u64,
    /// Its GC threshold: what is dead below it may be dropped. [`Timestamp::ZERO`] if it has none.
    pub gc_threshold: Timestamp,
}
