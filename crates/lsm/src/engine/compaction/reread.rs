//! What a rewrite reads again of a damaged table.
//!
//! A part that was noted as damaged may be readable by the time that its table is rewritten:
//! the system could not read it for a while. What it holds is kept then, because it may be the
//! only copy. But no comparison has seen it, so a tombstone that hides a live version in it
//! may be forgotten everywhere else. Nothing below the closed timestamp comes into the store
//! any more without being compared with others, and this would. So a live version below the
//! closed timestamp is left out, unless it has a single copy, of which nobody else could tell.
//! The comparison that lets the table be rewritten has brought all others from those that have
//! them. A single copy on a store that is not its replica is left out, too: only its replica
//! can tell whether it was deleted.

use crate::error::Error;
use crate::options::NonOwned;
use crate::record::{BlobReference, Record, RecordCursor, RecordRef};
use crate::table::{Purpose, Table, TableCursor};
use base::{EntryRef, Kind, Timestamp};
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

/// The records of a damaged table, without what must not come back of its damaged parts.
pub(super) struct Reread {
    all: TableCursor,
    /// Those in the sound parts.
    sound: TableCursor,
    stand: Stand,
    /// The closed timestamp when the compaction began.
    closed_timestamp: Timestamp,
    non_owned: Option<NonOwned>,
}

/// Where the cursor over the sound parts stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    BeforeFirst,
    AtRecord,
    AtEnd,
}

impl Reread {
    pub(super) fn new(
        table: &Arc<Table>,
        closed_timestamp: Timestamp,
        non_owned: Option<NonOwned>,
    ) -> Self {
        Self {
            all: table.cursor(Bound::Unbounded, Purpose::Rewrite),
            sound: table.cursor(Bound::Unbounded, Purpose::RewriteSound),
            stand: Stand::BeforeFirst,
            closed_timestamp,
            non_owned,
        }
    }

    fn is_non_owned(&self, entry: EntryRef<'_>) -> bool {
        let non_owned = self.non_owned.as_ref();
        non_owned.is_some_and(|non_owned| non_owned.includes(entry))
    }

    /// Whether the record that is due is in a sound part of the table.
    fn is_sound(&mut self) -> Result<bool, Error> {
        loop {
            let order = match self.stand {
                Stand::BeforeFirst => Ordering::Less,
                Stand::AtRecord => self.sound.record().order(self.all.record()),
                Stand::AtEnd => return Ok(false),
            };
            if order != Ordering::Less {
                return Ok(order == Ordering::Equal);
            }
            self.stand = if self.sound.advance()? {
                Stand::AtRecord
            } else {
                Stand::AtEnd
            };
        }
    }
}

impl RecordCursor for Reread {
    fn advance(&mut self) -> Result<bool, Error> {
        while self.all.advance()? {
            let entry = self.all.record().entry;
            let may_return = entry.timestamp() >= self.closed_timestamp
                || entry.copies() <= 1 && !self.is_non_owned(entry)
                || entry.kind() == Kind::Tombstone;
            if may_return || self.is_sound()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn record(&self) -> RecordRef<'_> {
        self.all.record()
    }

    fn key(&self) -> &[u8] {
        self.all.key()
    }

    fn data_bytes(&self) -> usize {
        self.all.data_bytes()
    }

    fn can_drop_value(&self) -> bool {
        self.all.can_drop_value()
    }

    fn drop_value(&mut self) {
        self.all.drop_value();
    }

    fn lacks_value(&self) -> bool {
        self.all.lacks_value()
    }

    fn fetch_value(&mut self) -> Result<(), Error> {
        self.all.fetch_value()
    }

    fn reference(&self) -> Option<BlobReference> {
        self.all.reference()
    }

    fn take(&mut self) -> Record {
        self.all.take()
    }
}
