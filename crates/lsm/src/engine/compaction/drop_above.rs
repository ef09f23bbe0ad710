//! Dropping versions above a timestamp when a store is opened.
//!
//! A clock that was wrong timestamps versions that no write can replace until their
//! time has come. An operator can set a limit above which every version is dropped:
//! the memtables that the log has filled are flushed without such versions, and the
//! tables that hold any are rewritten without them. A version that such a version
//! replaced may be gone already; if it is still there, readers see it again.
//!
//! This happens before any job runs and before anyone reads. Each table is replaced
//! by one edit of the table set. So a crash leaves part of the work done, and the
//! next start with the same limit does the rest.

use super::retention::{Retained, Retention};
use crate::engine::core::Core;
use crate::engine::table_set::{FlushedMemtable, TableEdit, VersionSequences};
use crate::error::Error;
use crate::record::{BlobReference, Record, RecordCursor, RecordRef};
use crate::table::{Purpose, Table};
use base::Timestamp;
use std::ops::Bound;
use std::sync::Arc;

/// The records of a cursor, except those above a limit.
struct NotAbove<'a, C> {
    records: C,
    limit: Timestamp,
    dropped: &'a mut u64,
}

impl<C: RecordCursor> RecordCursor for NotAbove<'_, C> {
    fn advance(&mut self) -> Result<bool, Error> {
        while self.records.advance()? {
            if self.records.record().entry.timestamp() <= self.limit {
                return Ok(true);
            }
            *self.dropped += 1;
        }
        Ok(false)
    }

    fn record(&self) -> RecordRef<'_> {
        self.records.record()
    }

    fn fetch_value(&mut self) -> Result<(), Error> {
        self.records.fetch_value()
    }

    fn reference(&self) -> Option<BlobReference> {
        self.records.reference()
    }

    fn take(&mut self) -> Record {
        self.records.take()
    }
}

/// Drops all versions above `limit`. Returns how many. Nothing else may use the
/// store yet.
///
/// # Errors
/// Those of reading the tables, damage aside, and of writing them:
/// [`Error::DiskFull`] if one of them does not fit a second time, or if there is no room for
/// another log segment.
pub(crate) fn drop_above(core: &Core, limit: Timestamp) -> Result<u64, Error> {
    if core.tables.greatest_timestamp() <= limit {
        return Ok(0);
    }
    // Without room for another segment the log goes on in that of the active memtable, and no
    // table could take its place.
    if core.tables.load().active.greatest_timestamp() > limit {
        return Err(Error::DiskFull);
    }
    // Each of the edits that follow stores the limit as the greatest timestamp. If
    // a crash leaves versions above it, the next start finds their timestamps in
    // the tables and the log.
    core.tables.set_greatest_timestamp(limit);
    let mut dropped = 0;
    let frozen = core.tables.load().frozen.clone();
    if frozen
        .iter()
        .any(|memtable| memtable.greatest_timestamp() > limit)
    {
        for memtable in frozen {
            let records = NotAbove {
                records: memtable.cursor(Bound::Unbounded),
                limit,
                dropped: &mut dropped,
            };
            let retention = Retention::of_flush(core.snapshots.living());
            let records = Retained::new(records, retention);
            let added = core.tables.files().write(records, 0)?;
            core.tables.apply(TableEdit {
                added: added.into_iter().map(|table| (0, table)).collect(),
                flushed: Some(FlushedMemtable {
                    memtable,
                    sequences: VersionSequences::default(),
                    at: core.now(),
                }),
                ..TableEdit::default()
            })?;
        }
    }
    let state = core.tables.load_full();
    let above = state.tables.iter();
    let above = above.filter(|(_, table)| table.properties().greatest_timestamp > limit);
    let above: Vec<_> = above
        .map(|(level, table)| (level, Arc::clone(table)))
        .collect();
    // A table that somebody has keeps its room.
    drop(state);
    for (level, table) in above {
        dropped += rewrite_without(core, level, table, limit)?;
    }
    note_greatest(core)?;
    Ok(dropped)
}

/// Writes a table anew without the versions above `limit`. Returns how many
/// there were. A damaged table is left as it is.
fn rewrite_without(
    core: &Core,
    level: usize,
    table: Arc<Table>,
    limit: Timestamp,
) -> Result<u64, Error> {
    let mut dropped = 0;
    let records = NotAbove {
        records: table.cursor(Bound::Unbounded, Purpose::Compaction),
        limit,
        dropped: &mut dropped,
    };
    let added = match core.tables.files().write(records, level) {
        Err(error @ Error::Corrupt { .. }) => {
            tracing::error!(
                %error,
                "a table is damaged, so versions above the limit stay in it"
            );
            return Ok(0);
        }
        written => written?,
    };
    let id = table.id();
    // The edit frees it if nobody has it any more.
    drop(table);
    core.tables.apply(TableEdit {
        added: added.into_iter().map(|table| (level, table)).collect(),
        removed: vec![id],
        ..TableEdit::default()
    })?;
    Ok(dropped)
}

/// Makes durable what the greatest timestamp is now.
fn note_greatest(core: &Core) -> Result<(), Error> {
    let state = core.tables.load();
    let memtables = state
        .frozen
        .iter()
        .map(|memtable| memtable.greatest_timestamp());
    let greatest = memtables.fold(state.tables.greatest_timestamp(), Timestamp::max);
    drop(state);
    core.tables.set_greatest_timestamp(greatest);
    core.tables.apply(TableEdit::default())
}
