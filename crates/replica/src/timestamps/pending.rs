//! Timestamps that were issued, and which of them are pending.

use super::TimestampAllocator;
use base::Timestamp;
use profile::lock;
use std::iter::Peekable;
use std::sync::Arc;

/// A timestamp that is pending until it is dropped.
pub struct AllocatedTimestamp {
    timestamps: Arc<TimestampAllocator>,
    timestamp: Timestamp,
    is_pending: bool,
}

/// The timestamps that are pending, in ascending order. There are as many as there are
/// writes between their timestamp and the engine: up to the number of requests in
/// flight when many arrive at once.
#[derive(Debug, Default)]
pub(super) struct PendingTimestamps(Vec<Timestamp>);

impl PendingTimestamps {
    /// The least pending timestamp.
    pub(super) fn least(&self) -> Option<Timestamp> {
        self.0.first().copied()
    }

    /// Adds a timestamp that is above all others.
    pub(super) fn push(&mut self, timestamp: Timestamp) {
        self.0.push(timestamp);
    }

    fn remove(&mut self, timestamp: Timestamp) {
        if let Ok(index) = self.0.binary_search(&timestamp) {
            self.0.remove(index);
        }
    }

    /// Removes the timestamps at the front that come in ascending order, and leaves the
    /// others: they take the lock that the caller holds when they are dropped.
    fn remove_ascending(
        &mut self,
        allocated: &mut Peekable<impl Iterator<Item = AllocatedTimestamp>>,
    ) {
        self.0.retain(|pending| {
            let ended = allocated.next_if(|allocated| allocated.timestamp == *pending);
            ended.is_none_or(|mut allocated| {
                allocated.is_pending = false;
                false
            })
        });
    }
}

impl AllocatedTimestamp {
    /// A timestamp that was added to the pending ones of `timestamps`.
    pub(super) fn pending(timestamps: Arc<TimestampAllocator>, timestamp: Timestamp) -> Self {
        Self {
            timestamps,
            timestamp,
            is_pending: true,
        }
    }

    /// The timestamp.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// Ends many timestamps of one node with one acquisition of the lock, if they come
    /// in ascending order. A timestamp that does not takes the lock when it is dropped.
    pub fn end_all(allocated: impl Iterator<Item = Self>) {
        let mut allocated = allocated.peekable();
        let Some(first) = allocated.peek() else {
            return;
        };
        let timestamps = Arc::clone(&first.timestamps);
        lock(&timestamps.state)
            .pending
            .remove_ascending(&mut allocated);
    }
}

impl Drop for AllocatedTimestamp {
    fn drop(&mut self) {
        if self.is_pending {
            lock(&self.timestamps.state).pending.remove(self.timestamp);
        }
    }
}
