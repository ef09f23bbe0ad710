//! Stamps that were issued, and which of them are pending.

use super::Stamping;
use base::Timestamp;
use profile::lock;
use std::iter::Peekable;
use std::sync::Arc;

/// A stamp that is pending until it is dropped.
pub(crate) struct Stamp {
    stamping: Arc<Stamping>,
    timestamp: Timestamp,
    is_pending: bool,
}

/// The stamps that are pending, in ascending order. There are as many as there are
/// writes between their stamp and the engine: up to the number of requests in
/// flight when many arrive at once.
#[derive(Debug, Default)]
pub(super) struct PendingStamps(Vec<Timestamp>);

impl PendingStamps {
    /// The least pending stamp.
    pub(super) fn least(&self) -> Option<Timestamp> {
        self.0.first().copied()
    }

    /// Adds a stamp that is above all others.
    pub(super) fn push(&mut self, timestamp: Timestamp) {
        self.0.push(timestamp);
    }

    fn remove(&mut self, timestamp: Timestamp) {
        if let Ok(index) = self.0.binary_search(&timestamp) {
            self.0.remove(index);
        }
    }

    /// Removes the stamps at the front that come in ascending order, and leaves the
    /// others: they take the lock that the caller holds when they are dropped.
    fn remove_ascending(&mut self, stamps: &mut Peekable<impl Iterator<Item = Stamp>>) {
        self.0.retain(|pending| {
            let ended = stamps.next_if(|stamp| stamp.timestamp == *pending);
            ended.is_none_or(|mut stamp| {
                stamp.is_pending = false;
                false
            })
        });
    }
}

impl Stamp {
    /// A stamp that was added to the pending ones of `stamping`.
    pub(super) fn pending(stamping: Arc<Stamping>, timestamp: Timestamp) -> Self {
        Self {
            stamping,
            timestamp,
            is_pending: true,
        }
    }

    /// The timestamp.
    pub(crate) fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// Ends many stamps of one node with one acquisition of the lock, if they come
    /// in ascending order. A stamp that does not takes the lock when it is dropped.
    pub(crate) fn end_all(stamps: impl Iterator<Item = Self>) {
        let mut stamps = stamps.peekable();
        let Some(first) = stamps.peek() else { return };
        let stamping = Arc::clone(&first.stamping);
        lock(&stamping.state).pending.remove_ascending(&mut stamps);
    }
}

impl Drop for Stamp {
    fn drop(&mut self) {
        if self.is_pending {
            lock(&self.stamping.state).pending.remove(self.timestamp);
        }
    }
}
