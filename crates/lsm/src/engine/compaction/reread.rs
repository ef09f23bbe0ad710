//! What a mend reads again of a damaged table.
//!
//! A part that was noted as damaged may be readable by the time that its table is rewritten: the
//! system could not read it for a while. What it holds is kept then, because it may be the only
//! copy. But no sweep has seen it, so a tombstone that hides a live version in it may be
//! forgotten everywhere else. Nothing below the fence comes into the store any more without
//! being compared with others, and this would. So a live version below the fence is left out,
//! unless it has a single copy, of which nobody else could tell. The comparison that lets the
//! table be rewritten has brought all others from those that have them.

use crate::error::Error;
use crate::record::{Record, RecordSource};
use crate::table::{Purpose, Table, TableIterator};
use base::{Kind, Timestamp};
use std::ops::Bound;
use std::sync::Arc;

/// The records of a damaged table, without what must not come back of its damaged parts.
pub(super) struct Reread {
    all: TableIterator,
    /// Those in the sound parts.
    sound: TableIterator,
    next_sound: Option<Record>,
    has_begun: bool,
    /// The fence when the compaction began.
    fence: Timestamp,
}

impl Reread {
    pub(super) fn new(table: &Arc<Table>, fence: Timestamp) -> Self {
        let in_sound_parts = Purpose::Sweep {
            least_timestamp: Timestamp::ZERO,
            checks_disk: false,
        };
        Self {
            all: table.iter(Bound::Unbounded, Purpose::Mend),
            sound: table.iter(Bound::Unbounded, in_sound_parts),
            next_sound: None,
            has_begun: false,
            fence,
        }
    }

    /// Whether a record is in a sound part of the table.
    fn is_sound(&mut self, record: &Record) -> Result<bool, Error> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.next_sound = self.sound.next()?;
        }
        while let Some(sound) = &self.next_sound {
            match sound.order(record) {
                std::cmp::Ordering::Less => self.next_sound = self.sound.next()?,
                order => return Ok(order.is_eq()),
            }
        }
        Ok(false)
    }
}

impl RecordSource for Reread {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        while let Some(record) = self.all.next()? {
            let entry = &record.entry;
            let may_return = entry.timestamp() >= self.fence
                || entry.copies() <= 1
                || entry.kind() == Kind::Tombstone;
            if may_return || self.is_sound(&record)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    fn is_rereadable(&self) -> bool {
        self.all.is_rereadable()
    }

    fn reread(&mut self) -> Result<Option<Record>, Error> {
        self.all.reread()
    }
}
