//! What other nodes send in bulk during a pass, on its way into the tables.

use base::Entry;
use lsm::Error;

/// What a pass brings in bulk. Nothing is pulled yet.
#[derive(Default)]
pub(super) struct Filling {
    /// In the order of their keys.
    waiting: Vec<Entry>,
}

impl Filling {
    /// Adds versions, whose keys are after all others.
    pub(super) fn add(&mut self, entries: Vec<Entry>) {
        match self.waiting.is_empty() {
            true => self.waiting = entries,
            false => self.waiting.extend(entries),
        }
    }

    /// Makes everything part of the store, durably.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is anything.
    pub(super) fn commit(&mut self) -> Result<(), Error> {
        match self.waiting.is_empty() {
            true => Ok(()),
            false => Err(Error::Invalid("a sweep stores nothing in bulk".into())),
        }
    }
}
