//! A cursor over the records of a whole level, and one over any part of a store.

use super::tables::Level;
use crate::error::Error;
use crate::memtable::MemtableCursor;
use crate::record::{BlobReference, EitherCursor, Record, RecordCursor, RecordRef, no_record};
use crate::table::{Purpose, ScanAhead, TableCursor};
use std::ops::{Bound, Range};

/// A cursor over tables of a level, one after another. Only one table at a time holds a
/// block.
pub(crate) struct LevelCursor {
    tables: Level,
    /// The tables that come, by their places on the level.
    places: Range<usize>,
    current: Option<TableCursor>,
    start: Bound<Vec<u8>>,
    purpose: Purpose,
    /// What walks over its tables have read ahead, where others go on with it.
    ahead: Option<ScanAhead>,
}

impl LevelCursor {
    /// The records from `start` on of tables that are sorted and do not overlap, at these places.
    /// Of level 0 that is a single one.
    pub(crate) fn new(
        tables: &Level,
        places: Range<usize>,
        start: Bound<&[u8]>,
        purpose: Purpose,
    ) -> Self {
        Self {
            places,
            tables: tables.clone(),
            current: None,
            start: start.map(<[u8]>::to_vec),
            purpose,
            ahead: None,
        }
    }

    /// The same, which goes on with what was read ahead, and leaves what it reads ahead there.
    pub(crate) fn with_read_ahead(mut self, ahead: Option<&ScanAhead>) -> Self {
        self.ahead = ahead.cloned();
        self
    }
}

impl Drop for LevelCursor {
    fn drop(&mut self) {
        if let (Some(ahead), Some(current)) = (&self.ahead, &mut self.current) {
            current.leave_ahead(ahead);
        }
    }
}

impl RecordCursor for LevelCursor {
    fn advance(&mut self) -> Result<bool, Error> {
        loop {
            if let Some(current) = &mut self.current
                && current.advance()?
            {
                return Ok(true);
            }
            let Some(table) = self.places.next().and_then(|place| self.tables.get(place)) else {
                return Ok(false);
            };
            let greatest = table.properties().greatest_timestamp;
            if self.purpose.passes_over(greatest) {
                continue;
            }
            let start = self.start.as_ref().map(Vec::as_slice);
            let mut cursor = table.cursor(start, self.purpose);
            if let Some(ahead) = &self.ahead {
                cursor.take_ahead(ahead);
            }
            self.current = Some(cursor);
        }
    }

    fn record(&self) -> RecordRef<'_> {
        match &self.current {
            Some(current) => current.record(),
            None => RecordRef::NONE,
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], TableCursor::key)
    }

    fn data_bytes(&self) -> usize {
        self.current.as_ref().map_or(0, TableCursor::data_bytes)
    }

    fn can_drop_value(&self) -> bool {
        self.current
            .as_ref()
            .is_some_and(TableCursor::can_drop_value)
    }

    fn drop_value(&mut self) {
        if let Some(current) = &mut self.current {
            current.drop_value();
        }
    }

    fn lacks_value(&self) -> bool {
        self.current.as_ref().is_some_and(TableCursor::lacks_value)
    }

    fn fetch_value(&mut self) -> Result<(), Error> {
        match &mut self.current {
            Some(current) => current.fetch_value(),
            None => Ok(()),
        }
    }

    fn reference(&self) -> Option<BlobReference> {
        self.current.as_ref().and_then(TableCursor::reference)
    }

    fn take(&mut self) -> Record {
        match &mut self.current {
            Some(current) => current.take(),
            None => no_record(),
        }
    }
}

/// A cursor over a memtable, or over tables that do not overlap.
pub(crate) type StoreCursor = EitherCursor<MemtableCursor, LevelCursor>;
