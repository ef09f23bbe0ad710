//! Reading ahead of values that lie in blob tables.
//!
//! The values of keys that follow each other lie apart, so the system cannot know what comes next.
//! A walk over a block of references knows, and says so for the values that come soon. So several
//! are read at the same time. They wait in the system's memory, not in that of the walk.

use crate::record::BlobReference;

/// The most bytes of values that are asked for before a walk comes to them.
const BYTES_MAX: u64 = 8 << 20;

/// How far a walk has asked for the values of a block. `W` is another walk over the block.
pub(in crate::table) struct ValuesAhead<W> {
    /// Stands at the record up to which values were asked for.
    walk: W,
    /// How many records of the block that walk has come past.
    asked: u64,
    /// How many the walk has come past that takes the values.
    taken: u64,
    /// The bytes of the values that were asked for and that the walk has not come past.
    bytes: u64,
    /// How many bytes may be. It grows with each value that is taken, because a scan may end soon.
    bytes_max: u64,
}

impl<W> ValuesAhead<W> {
    /// For a walk that stands at the first record of `walk`, and has asked for so many bytes at most
    /// in the block before.
    pub(in crate::table) fn new(walk: W, bytes_max: u64) -> Self {
        Self {
            walk,
            asked: 0,
            taken: 0,
            bytes: 0,
            bytes_max,
        }
    }

    /// How many bytes of values it asks for at most by now.
    pub(in crate::table) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The walk moves to the next record. `passed` is where the value of the one before lies.
    pub(in crate::table) fn pass(&mut self, passed: Option<BlobReference>) {
        let was_asked = self.taken > 0 && self.taken <= self.asked;
        if let Some(reference) = passed.filter(|_| was_asked) {
            self.bytes = self.bytes.saturating_sub(u64::from(reference.bytes));
        }
        self.taken += 1;
    }

    /// The walk takes the value of the record at which it stands. Asks for those that come next.
    /// `next` moves to the next record, if there is one, and returns where its value lies, if that is
    /// a blob table.
    pub(in crate::table) fn take(
        &mut self,
        taken: BlobReference,
        mut next: impl FnMut(&mut W) -> Option<Option<BlobReference>>,
        mut ask: impl FnMut(BlobReference),
    ) {
        let grown = (2 * self.bytes_max).max(u64::from(taken.bytes));
        self.bytes_max = grown.min(BYTES_MAX);
        while self.bytes < self.bytes_max
            && let Some(reference) = next(&mut self.walk)
        {
            self.asked += 1;
            if let Some(reference) = reference.filter(|_| self.asked > self.taken) {
                ask(reference);
                self.bytes += u64::from(reference.bytes);
            }
        }
    }
}
