//! Where a store ends, in the order of its commits and in that of its keys, and how old
//! the versions are that came behind a position.

use super::{Engine, LeastTimestamps};
use crate::error::Error;

impl Engine {
    /// The sequence number of the last record that was committed.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.inner.core.snapshots.visible()
    }

    /// How old the versions are that were committed after `sequence`, a number
    /// that [`Engine::last_sequence`] gave since the store was opened. All of them
    /// are at or above the bound of their key in one of the lists.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn changes_since(&self, sequence: u64) -> Result<Vec<LeastTimestamps>, Error> {
        self.inner.core.changes.since(sequence, &self.inner.core)
    }

    /// The last key of the store, or one behind it. Reads nothing but memory.
    #[must_use]
    pub fn last_key(&self) -> Option<Vec<u8>> {
        self.inner.core.tables.load().last_key()
    }
}
