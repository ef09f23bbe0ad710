//! The records of a whole level.

use crate::error::Error;
use crate::record::{Record, RecordSource};
use crate::table::{Purpose, Table, TableIterator};
use std::ops::Bound;
use std::sync::Arc;

/// The records of a level's tables, one table after another. Only one table at a
/// time holds a block.
pub(crate) struct LevelSource {
    tables: std::vec::IntoIter<Arc<Table>>,
    current: Option<TableIterator>,
    start: Bound<Vec<u8>>,
    purpose: Purpose,
}

impl LevelSource {
    /// The records from `start` on of tables that are sorted and do not overlap.
    pub(crate) fn new(tables: Vec<Arc<Table>>, start: Bound<&[u8]>, purpose: Purpose) -> Self {
        Self {
            tables: tables.into_iter(),
            current: None,
            start: start.map(<[u8]>::to_vec),
            purpose,
        }
    }
}

impl RecordSource for LevelSource {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if let Some(current) = &mut self.current
                && let Some(record) = current.next()?
            {
                return Ok(Some(record));
            }
            let Some(table) = self.tables.next() else {
                return Ok(None);
            };
            self.current = Some(table.iter(self.start.as_ref().map(Vec::as_slice), self.purpose));
        }
    }

    fn is_rereadable(&self) -> bool {
        self.current
            .as_ref()
            .is_some_and(TableIterator::is_rereadable)
    }

    fn reread(&mut self) -> Result<Option<Record>, Error> {
        self.current
            .as_mut()
            .map_or(Ok(None), TableIterator::reread)
    }
}
