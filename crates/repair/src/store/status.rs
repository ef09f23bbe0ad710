//! What an operator hears about tombstone GC.

use super::HeldBack;
use base::Timestamp;

/// What a node knows of tombstone GC, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GcStatus {
    /// Below it this node takes no ordinary writes.
    pub closed: Timestamp,
    /// What is dead below it is dropped. [`Timestamp::ZERO`] before the first one.
    pub gc_threshold: Timestamp,
    /// Non-owned copies below it are dropped: it follows `gc_threshold`, for sessions in which
    /// this store took part.
    pub non_owned_below: Timestamp,
    /// The greatest GC threshold that this node has heard of. It is greater than `gc_threshold`
    /// while the store is behind, or does not know yet.
    pub greatest: Timestamp,
    /// How often read repairs of old versions have kept a session from raising the threshold,
    /// since the process started.
    pub voided_by_read_repairs: u64,
    /// What kept the threshold from rising in the last full session that this node has led.
    pub held_back: Option<HeldBack>,
}
