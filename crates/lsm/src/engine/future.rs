//! Dropping versions from the future, as an operator asks of a start.
//!
//! A clock that was wrong stamps versions that nobody can overwrite until their
//! time has come. Here every version above a limit goes: out of the memtables
//! that the log has filled, which are flushed without them, and out of the
//! tables that have any, which are written anew without them. What such a
//! version replaced may be gone; where it is still there it is seen again.
//!
//! It happens before any job runs and before anybody reads. Each table is
//! replaced by a change of the manifest, so a crash leaves some of it done, and
//! the next start that asks for it does the rest.

use super::Inner;
use super::flush::Change;
use crate::compaction::retention::Retained;
use crate::error::Error;
use crate::record::{Record, RecordSource};
use crate::table::{Purpose, Table};
use base::Timestamp;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The records of a source but for those above a limit.
struct NotAbove<'a, S> {
    source: S,
    limit: Timestamp,
    dropped: &'a mut u64,
}

impl<S: RecordSource> RecordSource for NotAbove<'_, S> {
    fn next(&mut self) -> Result<Option<Record>, Error> {
        loop {
            match self.source.next()? {
                Some(record) if record.entry.timestamp() > self.limit => *self.dropped += 1,
                next => return Ok(next),
            }
        }
    }
}

impl Inner {
    /// Drops all versions above `limit`, and says how many. Nothing else may
    /// use the store yet.
    ///
    /// # Errors
    /// Those of reading the tables, damage aside, and of writing them:
    /// [`Error::DiskFull`] where there is no room for one of them a second time.
    pub(super) fn drop_above(self: &Arc<Self>, limit: Timestamp) -> Result<u64, Error> {
        if self.greatest_timestamp() <= limit {
            return Ok(0);
        }
        // Each change below writes it into the manifest; whatever is left above
        // it says so itself when the store is opened.
        self.greatest_timestamp.store(limit.as_u64(), Relaxed);
        let mut dropped = 0;
        let frozen = self.state.load().frozen.clone();
        if frozen
            .iter()
            .any(|memtable| memtable.greatest_timestamp() > limit)
        {
            for memtable in frozen {
                let source = NotAbove {
                    source: memtable.source(Bound::Unbounded),
                    limit,
                    dropped: &mut dropped,
                };
                let source = Retained::new(source, self.flush_retention());
                let added = self.write_table(source, 0)?;
                self.install(Change {
                    added: added.into_iter().map(|table| (0, table)).collect(),
                    flushed: Some(memtable),
                    ..Change::default()
                })?;
            }
        }
        let tables = Arc::clone(&self.state.load().tables);
        for (level, table) in tables.iter() {
            if table.properties().timestamp_greatest > limit {
                dropped += self.rewrite_without(level, table, limit)?;
            }
        }
        self.note_greatest()?;
        Ok(dropped)
    }

    /// Writes a table anew without the versions above `limit`; how many there
    /// were. One that is damaged is left as it is.
    fn rewrite_without(
        self: &Arc<Self>,
        level: usize,
        table: &Arc<Table>,
        limit: Timestamp,
    ) -> Result<u64, Error> {
        let mut dropped = 0;
        let source = NotAbove {
            source: table.iter(Bound::Unbounded, Purpose::Compaction),
            limit,
            dropped: &mut dropped,
        };
        let added = match self.write_table(source, level) {
            Err(error @ Error::Corrupt { .. }) => {
                tracing::error!(%error, "versions from the future stay in a damaged table");
                return Ok(0);
            }
            written => written?,
        };
        self.install(Change {
            added: added.into_iter().map(|table| (level, table)).collect(),
            removed: vec![table.id()],
            ..Change::default()
        })?;
        Ok(dropped)
    }

    /// Writes all that a source gives into one table of a level; none where
    /// that is nothing.
    fn write_table(
        &self,
        mut source: impl RecordSource,
        level: usize,
    ) -> Result<Option<Arc<Table>>, Error> {
        let mut output = None;
        loop {
            let record = match source.next() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) => {
                    if let Some(output) = &output {
                        self.abandon_table(output);
                    }
                    return Err(error);
                }
            };
            let writing = match &mut output {
                Some(writing) => writing,
                None => output.insert(self.create_table()?),
            };
            if let Err(error) = writing.writer.add(&record) {
                self.abandon_table(writing);
                return Err(error);
            }
        }
        output
            .map(|output| self.finish_table(output, level))
            .transpose()
    }

    /// Makes what is the greatest timestamp now durable.
    fn note_greatest(self: &Arc<Self>) -> Result<(), Error> {
        let state = self.state.load();
        let memtables = state
            .frozen
            .iter()
            .map(|memtable| memtable.greatest_timestamp());
        let greatest = memtables.fold(state.tables.greatest_timestamp(), Timestamp::max);
        drop(state);
        self.greatest_timestamp.store(greatest.as_u64(), Relaxed);
        self.install(Change::default())
    }
}
