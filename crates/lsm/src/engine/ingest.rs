//! Ingest: sorted entries become tables of the store, past the log and the memtables.
//!
//! A store that is filled with much data would otherwise write each byte to the log, to
//! a table of level 0 and through every level below. An ingest writes it once.
//!
//! # What holds for ingested versions
//!
//! They are versions as any others, only their way is another. So everything that the
//! engine says of a write has to hold for them:
//!
//! - **Rank.** Reads compare versions by rank wherever they lie, and a lookup ends early
//!   only by the greatest timestamps of tables. So an old version of a key does not come
//!   back to life above a newer one in a memtable, and a tombstone hides older versions
//!   on every level.
//! - **Levels.** Tables of a level below 0 must not overlap, and a compaction in progress
//!   is going to add tables. The table set therefore chooses the level of each table when
//!   it edits the manifest ([`MergeRange`](super::table_set::MergeRange)).
//! - **All or nothing.** One edit of the manifest names all tables. Before it they are
//!   orphans, which the next start removes.
//! - **Snapshots.** A scan seeks anew in each batch, so it meets the tables in its middle.
//!   All records get one sequence number, issued under the commit lock as that of a group
//!   of one write, and no snapshot is taken between the moment at which the tables become
//!   visible and the moment at which the number does. So a snapshot sees all or none of
//!   them. The files are written before the number is known. They hold 0, and the open
//!   table adds the number; after a restart 0 is right, because no snapshot is left.
//! - **Newer-version checks.** A check describes the first arrival of a version, which may be
//!   the ingest. What was newer then is not remembered, so for as long as checks are kept, any
//!   version between the least and the greatest ingested timestamp may have arrived, and the
//!   answer is "unknown" unless there is nothing newer anyway.
//! - **Changes.** Ingested versions are arrivals: [`Changes`](super::table_set::changes::Changes)
//!   remembers their least timestamps before anybody can see them.
//! - **The GC threshold.** A compaction drops a tombstone if no older version of its key
//!   lies in another table, in memory or in a write that waits. An entry that was pushed
//!   is a write that waits: [`Ingests`](super::writes::ingests_under_way::Ingests) knows the least
//!   timestamp of each ingest under way, from before the push returns until after the
//!   tables are live.
//! - **The counter of acknowledged writes** counts ingested records with the edit.
//! - **The closed timestamp** is checked with the edit, and does not rise before the tables are
//!   visible. The GC threshold of compactions and the generation are checked with it: all entries
//!   count as admitted when the ingest began.
//!
//! The caller answers for what the commit job does not check either: that no timestamp is
//! too far ahead of the clock, and that none lay below the GC threshold when the ingest began,
//! unless the store lacks something ([`closed_timestamp`](super::writes::closed_timestamp)).
//!
//! # Failures
//!
//! The files of an ingest are removed when it is dropped or fails, unless the engine was
//! closed meanwhile: the folder may be another engine's by then, with other tables of the
//! same names. The next start removes them. A failed sync poisons the store, as that of a
//! flush does. An ingest leaves the room that the log and the flushes may need, and takes
//! none of a full disk, so it ends with [`Error::DiskFull`] before they suffer.

use super::core::Core;
use super::store::Store;
use super::table_set::changes::Steps;
use super::table_set::{IngestedRecords, TableOutput};
use super::writes::admission::Admission;
use super::writes::queue::check_lengths;
use crate::error::Error;
use crate::manifest::LEVELS;
use crate::record::RecordRef;
use crate::table::{DiskAccess, KeyHash, Table};
use base::{Entry, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// What a commit has added to the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ingested {
    /// How many tables.
    pub tables: u64,
    /// The bytes of their files.
    pub bytes: u64,
    /// How many records they hold.
    pub records: u64,
}

/// Entries on their way to tables of a store, in the order of their keys.
///
/// It takes the memory of one table that is written. It holds no lock between calls, so a
/// job may hold it for long and hand it to the next; but for as long as it lives,
/// compaction drops no tombstone that is as new as an entry that was pushed. A table has at
/// least one record of the ingest and no others, so many small ingests make many small
/// tables.
pub struct Ingest {
    inner: Arc<Store>,
    number: u64,
    admission: Admission,
    /// The table that is being written.
    output: Option<TableOutput>,
    /// The tables that are complete and durable.
    tables: Vec<Arc<Table>>,
    steps: Steps,
    last_key: Vec<u8>,
    records: u64,
    least_timestamp: Timestamp,
    greatest_timestamp: Timestamp,
    /// Why it cannot go on.
    failure: Option<Error>,
}

impl Ingest {
    pub(super) fn begin(inner: Arc<Store>, admission: Admission) -> Result<Self, Error> {
        {
            let _folder_lock = inner.core.background.folder_lock().hold()?;
            check_health(&inner.core)?;
        }
        Ok(Self {
            number: inner.core.ingests.begin(),
            inner,
            admission,
            output: None,
            tables: Vec::new(),
            steps: Steps::default(),
            last_key: Vec::new(),
            records: 0,
            least_timestamp: Timestamp::MAX,
            greatest_timestamp: Timestamp::ZERO,
            failure: None,
        })
    }

    /// Writes the next entry, whose key is above that of the entry before. Blocks.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key out of order and for lengths beyond the limits,
    /// [`Error::DiskFull`], [`Error::Poisoned`], [`Error::Closed`], [`Error::Io`]. After
    /// an error the ingest has removed its files, and all further calls fail.
    pub fn push(&mut self, entry: &Entry) -> Result<(), Error> {
        let inner = Arc::clone(&self.inner);
        let _folder_lock = inner.core.background.folder_lock().hold()?;
        self.try_push(entry, &inner.core)
            .map_err(|error| self.fail(error, &inner.core))
    }

    fn try_push(&mut self, entry: &Entry, core: &Core) -> Result<(), Error> {
        self.check(core)?;
        check_lengths(entry)?;
        if self.records > 0 && entry.key() <= self.last_key.as_slice() {
            let what = "the keys of an ingest do not ascend";
            return Err(Error::Invalid(what.to_owned()));
        }
        let timestamp = entry.timestamp();
        if timestamp < self.least_timestamp {
            self.least_timestamp = timestamp;
            core.ingests.note(self.number, timestamp);
        }
        self.greatest_timestamp = self.greatest_timestamp.max(timestamp);
        self.last_key.clear();
        self.last_key.extend_from_slice(entry.key());
        let output = match &mut self.output {
            Some(output) => output,
            None => {
                core.check_compaction_room(core.options.table_bytes)?;
                self.output.insert(core.tables.files().create_direct()?)
            }
        };
        let entry = entry.lend();
        output.add(RecordRef { sequence: 0, entry })?;
        self.steps.add(entry);
        self.records += 1;
        if output.file_bytes() >= core.options.table_bytes {
            self.finish_output(core)?;
        }
        Ok(())
    }

    /// Makes everything that was pushed part of the store, durably and at once. Blocks.
    ///
    /// # Errors
    /// As [`Ingest::push`], [`Error::Obsolete`] and [`Error::Overloaded`]. Nothing of it is
    /// part of the store then, unless a failed sync leaves that unknown until the next start.
    pub fn commit(mut self) -> Result<Ingested, Error> {
        let inner = Arc::clone(&self.inner);
        let _folder_lock = inner.core.background.folder_lock().hold()?;
        self.try_commit(&inner.core)
            .map_err(|error| self.fail(error, &inner.core))
    }

    fn try_commit(&mut self, core: &Core) -> Result<Ingested, Error> {
        self.check(core)?;
        self.finish_output(core)?;
        let tables = std::mem::take(&mut self.tables);
        let ingested = Ingested {
            tables: tables.len() as u64,
            bytes: tables.iter().map(|table| table.file_bytes()).sum(),
            records: self.records,
        };
        if tables.is_empty() {
            return Ok(ingested);
        }
        // Before the edit, whose manifest names it.
        core.tables.note_timestamp(self.greatest_timestamp);
        let records = IngestedRecords {
            records: self.records,
            least_timestamp: self.least_timestamp,
            greatest_timestamp: self.greatest_timestamp,
        };
        // The closed timestamp does not rise between this check and the moment at which the tables
        // are visible. So nothing below it slips in behind a scan that begins after it.
        let _held = core.closed_timestamp.hold();
        if let Err(error) = core
            .closed_timestamp
            .check(self.least_timestamp, self.admission)
        {
            self.tables = tables;
            return Err(error);
        }
        let keys = match (tables.first(), tables.last()) {
            (Some(first), Some(last)) => (
                first.properties().least_key.clone(),
                last.properties().greatest_key.clone(),
            ),
            _ => return Ok(ingested),
        };
        // From here on no promise is made that the tables might break.
        let promised = core.log.lock().promises.ingest(&keys.0, &keys.1);
        let promised = match promised {
            Ok(promised) => promised,
            Err(error) => {
                self.tables = tables;
                return Err(error);
            }
        };
        if promised.iter().any(|key| may_hold(&tables, key)) {
            core.log.lock().promises.ingested(&keys.0, &keys.1);
            self.tables = tables;
            return Err(Error::Overloaded);
        }
        let stored = core.tables.store_ingested(tables.clone(), records);
        let stored = stored.inspect_err(|_| core.log.lock().promises.ingested(&keys.0, &keys.1))?;
        {
            let mut committer = core.log.lock();
            let sequence = committer.issue_sequence();
            for table in &tables {
                table.ingest_as(sequence);
            }
            // Before anybody sees the tables.
            let steps = std::mem::take(&mut self.steps);
            core.changes.flushed(sequence, steps.finish());
            core.acknowledged.add_ingested(self.records);
            let now = core.now();
            let publish = || stored.show_ingested(now);
            core.snapshots.publish_with(sequence, publish);
            committer.promises.ingested(&keys.0, &keys.1);
        }
        core.ingests.note_room();
        core.schedule_compaction(Duration::ZERO);
        Ok(ingested)
    }

    /// Checks that it can go on.
    fn check(&self, core: &Core) -> Result<(), Error> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => check_health(core),
        }
    }

    /// Completes the table that is being written, if there is one.
    fn finish_output(&mut self, core: &Core) -> Result<(), Error> {
        if let Some(output) = self.output.take() {
            // Its level is not known yet, and is hardly ever level 0.
            let table = core.tables.files().finish(output, LEVELS - 1)?;
            self.tables.push(table);
        }
        Ok(())
    }

    /// Gives it up because of `error`. Returns the error that its calls return.
    fn fail(&mut self, error: Error, core: &Core) -> Error {
        if matches!(error, Error::DiskFull) && self.failure.is_none() {
            core.ingests.note_lack_of_room(self.room_wanted_bytes(core));
        }
        self.remove_files(core);
        let error = core.poison_if_sync(error);
        self.failure.get_or_insert(error).clone()
    }

    /// How much room it needs to write one more table, once its files are removed.
    fn room_wanted_bytes(&self, core: &Core) -> u64 {
        let tables = self.tables.iter().map(|table| table.file_bytes());
        let output = self.output.as_ref().map(TableOutput::file_bytes);
        let own = tables.chain(output).fold(0, u64::saturating_add);
        let next = core.options.table_bytes;
        let room = core.health.full_disk().room_to_compact_bytes(next);
        own.saturating_add(room)
    }

    fn remove_files(&mut self, core: &Core) {
        let files = core.tables.files();
        if let Some(output) = self.output.take() {
            files.abandon(&output);
        }
        for table in self.tables.drain(..) {
            files.remove(table.id());
        }
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        let core = &self.inner.core;
        // After the tables are live, or when they never will be.
        core.ingests.end(self.number);
        let inner = Arc::clone(&self.inner);
        if let Ok(_folder_lock) = inner.core.background.folder_lock().hold() {
            self.remove_files(&inner.core);
        }
    }
}

/// Checks that the store takes what is ingested.
///
/// # Errors
/// Whether one of these tables holds the key, as far as can be read.
fn may_hold(tables: &[Arc<Table>], key: &[u8]) -> bool {
    let found = |table: &Arc<Table>| table.get(key, KeyHash::of(key), DiskAccess::Compaction);
    tables.iter().any(|table| !matches!(found(table), Ok(None)))
}

/// [`Error::DiskFull`], [`Error::Poisoned`], [`Error::Closed`].
fn check_health(core: &Core) -> Result<(), Error> {
    core.health.check_poison()?;
    if core.health.is_closing() {
        return Err(Error::Closed);
    }
    if core.health.is_full() {
        Err(Error::DiskFull)
    } else {
        Ok(())
    }
}
