//! Flush: frozen memtables become level-0 tables.
//!
//! A flush is a row of short jobs, each of which writes a few blocks, because one
//! long job would hold a core for so long that requests feel it. Between two jobs
//! the flush rests for the time that it worked, so it takes half of a core at most,
//! unless writers may soon have to wait for it.

use super::background::REST_MAX;
use super::compaction::{Retained, Retention};
use super::core::Core;
use super::health::failing::{RETRY_DELAY, Work};
use super::table_set::changes::Steps;
use super::table_set::{BlobOutput, FlushedMemtable, RecordedSequences, TableEdit, TableOutput};
use crate::error::Error;
use crate::locks::lock;
use crate::memtable::{Memtable, MemtableCursor};
use crate::record::RecordCursor;
use base::LogLimiter;
use std::ops::Bound;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How many bytes of keys and values a step of a flush takes: about a
/// millisecond's work where they are short.
const STEP_BYTES: usize = 64 << 10;

/// The owner of the flush under way.
///
/// Its lock is held while a step of the flush runs, and comes before all locks
/// but the folder's.
#[derive(Default)]
pub(super) struct Flusher {
    current: Mutex<Option<Flush>>,
    failures: Mutex<LogLimiter>,
}

/// A memtable on its way to a table.
struct Flush {
    memtable: Arc<Memtable>,
    records: Retained<RecordedSequences<MemtableCursor>>,
    output: TableOutput,
    blobs: BlobOutput,
    /// How old the versions are that it has written.
    steps: Steps,
}

impl Flush {
    /// How much of the memtable's memory it has read, in bytes.
    fn done_bytes(&self) -> u64 {
        self.records.records().read_bytes()
    }
}

/// How a step of a flush ended.
enum FlushStep {
    /// No memtable waits.
    Idle,
    /// There is more to write.
    Written,
    /// A table has taken a memtable's place.
    Finished,
}

impl Flusher {
    /// The flush job: takes one step, and schedules the next job. Returns whether a
    /// memtable was flushed.
    ///
    /// # Errors
    /// Why the step has failed. Unless the store is poisoned, the flush is tried again.
    pub(super) fn run(&self, core: &Core) -> Result<bool, Error> {
        let started = core.now();
        let step = step(&mut lock(&self.current), core);
        match step {
            Ok(FlushStep::Idle) => {}
            Ok(FlushStep::Written) => {
                let took = core.now().saturating_sub(started);
                core.schedule_flush(rest(took, core));
            }
            Ok(FlushStep::Finished) => {
                core.health.failing().worked(Work::Flush);
                core.schedule_flush(Duration::ZERO);
                return Ok(true);
            }
            Err(error) => {
                // Before the writes that wait, so that those that come next are refused at once.
                let is_noted = core.health.failing().note(Work::Flush, &error, core.now());
                core.fail_stall(&error);
                if !matches!(error, Error::Poisoned { .. }) {
                    let mut failures = lock(&self.failures);
                    if !is_noted && failures.admits_failure(&error.to_string(), core.now()) {
                        tracing::warn!(%error, "a flush failed and is tried again each second");
                    }
                    core.schedule_flush(RETRY_DELAY);
                }
                return Err(error);
            }
        }
        Ok(false)
    }

    /// Flushes the memtable that has waited longest, on this thread. Returns
    /// whether there was one.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Poisoned`], [`Error::Io`].
    pub(super) fn flush_oldest(&self, core: &Core) -> Result<bool, Error> {
        let mut current = lock(&self.current);
        loop {
            match step(&mut current, core)? {
                FlushStep::Idle => return Ok(false),
                FlushStep::Written => {}
                FlushStep::Finished => {
                    core.health.failing().worked(Work::Flush);
                    return Ok(true);
                }
            }
        }
    }
}

/// How long a flush rests after a step that took `took`.
fn rest(took: Duration, core: &Core) -> Duration {
    let state = core.tables.load();
    let is_next_near = state.active.bytes() > core.options.memtable_bytes / 2;
    if is_next_near || state.frozen.len() > 1 || core.health.is_closing() {
        Duration::ZERO
    } else {
        took.min(REST_MAX)
    }
}

/// Goes on with the flush under way, or begins one. After an error the memtable
/// waits as before, and its flush begins anew.
fn step(current: &mut Option<Flush>, core: &Core) -> Result<FlushStep, Error> {
    let started = core.now();
    let before_bytes = current.as_ref().map_or(0, Flush::done_bytes);
    let oldest_bytes = core.tables.load().frozen.first().map(|it| it.bytes());
    let step = try_step(current, core);
    let took = core.now().saturating_sub(started);
    let (read_bytes, done_bytes) = match (&step, &*current) {
        (Ok(FlushStep::Finished), _) => (oldest_bytes.unwrap_or(0) as u64, 0),
        (Ok(FlushStep::Written), Some(flush)) => (flush.done_bytes(), flush.done_bytes()),
        _ => (0, 0),
    };
    let bytes = read_bytes.saturating_sub(before_bytes);
    core.write_rate.note_flush(bytes, took, done_bytes);
    if step.is_err()
        && let Some(flush) = current.take()
    {
        core.tables.files().abandon(&flush.output);
        flush.blobs.abandon(core.tables.files());
    }
    match step {
        // The reserve that this gives back is for flushes like this one.
        Err(Error::DiskFull) if core.enter_full() => Ok(FlushStep::Written),
        step => step.map_err(|error| core.poison_if_sync(error)),
    }
}

fn try_step(current: &mut Option<Flush>, core: &Core) -> Result<FlushStep, Error> {
    let flush = match current {
        Some(flush) => flush,
        None => match begin(core)? {
            Some(flush) => current.insert(flush),
            None => return Ok(FlushStep::Idle),
        },
    };
    core.health.check_poison()?;
    let mut bytes = 0;
    while flush.records.advance()? {
        let record = flush.records.record();
        let files = core.tables.files();
        flush.blobs.add(record, None, &mut flush.output, files)?;
        flush.steps.add(record.entry);
        bytes += record.entry.data_bytes();
        if bytes >= STEP_BYTES {
            return Ok(FlushStep::Written);
        }
    }
    match current.take() {
        Some(flush) => complete(flush, core).map(|()| FlushStep::Finished),
        None => Ok(FlushStep::Idle),
    }
}

/// Begins to flush the memtable that has waited longest, if one waits.
fn begin(core: &Core) -> Result<Option<Flush>, Error> {
    let Some(memtable) = core.tables.load().frozen.first().cloned() else {
        return Ok(None);
    };
    core.health.check_poison()?;
    let records = memtable.cursor(Bound::Unbounded);
    let records = RecordedSequences::new(records, memtable.last_sequence());
    Ok(Some(Flush {
        records: Retained::new(records, Retention::of_flush(core.snapshots.living())),
        output: core.tables.files().create()?,
        blobs: BlobOutput::new(true),
        steps: Steps::default(),
        memtable,
    }))
}

fn complete(flush: Flush, core: &Core) -> Result<(), Error> {
    let Flush {
        memtable,
        output,
        mut blobs,
        records,
        steps,
    } = flush;
    // Drop the cursor here: it also holds the memtable, which is to be freed.
    let sequences = records.into_records().sequences();
    let files = core.tables.files();
    if let Err(error) = blobs.finish(files) {
        files.abandon(&output);
        blobs.abandon(files);
        return Err(error);
    }
    let table = files.finish(output, 0);
    let table = table.inspect_err(|_| blobs.abandon(files))?;
    let written = table.file_bytes() + blobs.file_bytes();
    let (last_sequence, segment) = (memtable.last_sequence(), memtable.segment());
    core.log.keep_promises(core)?;
    // Before readers miss the memtable: what it holds is always seen somewhere.
    core.changes.flushed(last_sequence, steps.finish());
    core.tables.apply(TableEdit {
        added: blobs.beside(vec![(0, Arc::clone(&table))]),
        flushed: Some(FlushedMemtable {
            memtable,
            sequences,
            at: core.now(),
        }),
        ..TableEdit::default()
    })?;
    core.frozen.note_flush(segment, table);
    core.counters.flushes.fetch_add(1, Relaxed);
    core.counters
        .flush_written_bytes
        .fetch_add(written, Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BlockingWrite, MemoryDisk, environment};
    use crate::{Engine, Options};
    use base::{Entry, Expiry, Timestamp};

    #[test]
    fn a_flushed_memtable_is_freed_with_its_flush() {
        let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
        let (engine, _) = Engine::open(environment, Options::default()).unwrap();
        let entry = Entry::value(b"k", Timestamp::from_u64(1), b"v", Expiry::NEVER, 1);
        engine.write(entry).unwrap();
        let memtable = Arc::downgrade(&engine.inner.core.tables.load().active);
        engine.flush().unwrap();
        assert_eq!(memtable.strong_count(), 0);
    }
}
