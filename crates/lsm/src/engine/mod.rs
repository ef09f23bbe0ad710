//! The engine.

mod background;
mod backpressure;
mod commit;
mod compaction;
mod core;
mod counters;
mod flush;
mod folder_lock;
mod full_disk;
mod health;
mod log;
mod outbox;
mod queue;
mod recovered_log;
mod recovery;
mod scan;
mod snapshots;
mod statistics;
mod sync_times;
mod table_set;
mod verdicts;

pub use outbox::{Applied, Outbox, Outcome};
pub use recovery::RecoveryReport;
pub use scan::Scan;
pub use statistics::{LevelStatistics, Statistics};
pub use sync_times::SyncTimeStatistics;
pub use verdicts::PendingVerdict;

use crate::error::Error;
use crate::options::{Environment, Options};
use crate::table::{Access, Interrupt};
use background::{EngineJob, RunJob};
use base::{Entry, Timestamp};
use compaction::Compactor;
use core::Core;
use flush::Flusher;
use std::sync::Arc;

/// The answer of a read that must not block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The newest version, be it a tombstone or expired; `None` when there is none.
    Found(Option<Entry>),
    /// Only a read of the disk can tell: call [`Engine::get`] where blocking is allowed.
    MayBlock,
}

/// A log-structured store. Cheap to clone; the clones are one store.
///
/// A store that is dropped without [`Engine::close`] loses nothing: its log is
/// replayed when it is opened again.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// What the clones of an engine and its jobs share: the core, and above it the
/// jobs that take several steps.
struct Inner {
    core: Core,
    flusher: Flusher,
    compactor: Compactor,
}

impl Engine {
    /// Opens the store in a folder, or makes one there.
    ///
    /// # Errors
    /// [`Error::Locked`] when another process has it, [`Error::Corrupt`] when
    /// something is missing or damaged that was synced, [`Error::Invalid`] for
    /// a format of another version, [`Error::DiskFull`] when there is not even
    /// room for an empty log, [`Error::Io`].
    pub fn open(
        environment: Environment,
        options: Options,
    ) -> Result<(Self, RecoveryReport), Error> {
        options.validate()?;
        let (inner, report) = Inner::open(environment, options)?;
        Ok((Self { inner }, report))
    }

    /// Hands a write to the next group commit, without waiting; its end comes
    /// to `outbox` under `ticket`. Unless each commit is synced, a small one may
    /// be done here, so that the end has come when this returns.
    ///
    /// # Errors
    /// [`Error::Overloaded`], [`Error::DiskFull`] (puts only),
    /// [`Error::Poisoned`], [`Error::Closed`], [`Error::Invalid`]: then nothing comes to `outbox`.
    pub fn submit(&self, entry: Entry, outbox: &Arc<dyn Outbox>, ticket: u64) -> Result<(), Error> {
        self.inner.submit(entry, outbox, ticket)
    }

    /// Hands many writes to the next group commit, as [`Engine::submit`] does
    /// one: under one lock, and with one wake of the commit lane. Each is an
    /// entry and its ticket; the end of each comes to `outbox`, that of a
    /// refused one before this returns.
    pub fn submit_batch(
        &self,
        batch: impl IntoIterator<Item = (Entry, u64)>,
        outbox: &Arc<dyn Outbox>,
    ) {
        self.inner.submit_batch(batch, outbox);
    }

    /// Commits what was submitted, on this thread, for tests that wait for a write.
    pub(crate) fn commit_waiting(&self) {
        self.inner.commit_waiting();
    }

    /// The newest version of a key, if that can be told without reading the disk.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn get_cached(&self, key: &[u8]) -> Result<Lookup, Error> {
        match self.inner.core.tables.load().newest(key, Access::Cached) {
            Ok(newest) => Ok(Lookup::Found(newest)),
            Err(Interrupt::WouldBlock) => Ok(Lookup::MayBlock),
            Err(Interrupt::Failed(error)) => Err(error),
        }
    }

    /// The newest version of a key, be it a tombstone or expired. May read the disk.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        let state = self.inner.core.tables.load_full();
        state
            .newest(key, Access::MayRead)
            .map_err(|interrupt| match interrupt {
                Interrupt::Failed(error) => error,
                Interrupt::WouldBlock => unreachable!("a read that may block never would"),
            })
    }

    /// Starts a scan of the keys from `start` up to, but without, `end` (to the
    /// last key for `None`), as of now.
    #[must_use]
    pub fn scan(&self, start: &[u8], end: Option<&[u8]>) -> Scan {
        Scan::new(Arc::clone(&self.inner), start, end)
    }

    /// Writes everything in memory to tables. Blocks.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Poisoned`], [`Error::Closed`], [`Error::Io`].
    pub fn flush(&self) -> Result<(), Error> {
        let _folder_lock = self.inner.core.background.folder_lock().hold()?;
        self.inner.flush_all()
    }

    /// Merges all tables into the last level, even when automatic compaction is off. Blocks.
    ///
    /// # Errors
    /// As [`Engine::flush`], and [`Error::Corrupt`].
    pub fn compact(&self) -> Result<(), Error> {
        let _folder_lock = self.inner.core.background.folder_lock().hold()?;
        self.inner.flush_all()?;
        self.inner.compactor.compact_all(&self.inner.core)
    }

    /// What the store holds and has done.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.inner.core.statistics()
    }

    /// Whether puts are taken now: the disk has room, and no sync has failed.
    /// Looks at nothing but memory.
    #[must_use]
    pub fn takes_puts(&self) -> bool {
        let health = &self.inner.core.health;
        !health.is_full() && health.check_poison().is_ok()
    }

    /// The greatest timestamp that was ever written to this store.
    #[must_use]
    pub fn greatest_timestamp(&self) -> Timestamp {
        self.inner.core.tables.greatest_timestamp()
    }

    /// A random number that this store was given when it was made.
    #[must_use]
    pub fn store_id(&self) -> u64 {
        self.inner.core.tables.store_id()
    }

    /// A number that only this store knows, for what its owner keeps beside it
    /// and names by `purpose`: the secret of a log of the owner's, for one.
    #[must_use]
    pub fn derive_secret(&self, purpose: &str) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(purpose.as_bytes(), self.inner.core.log.secret())
    }

    /// Commits what was submitted, refuses what comes after, flushes the
    /// memtables, claims the log and gives the folder back, also when one of
    /// these fails. Blocks until no job or call of this engine can write any
    /// more, so that the folder can be opened anew at once. Reads go on, from
    /// what this engine holds. A second call does nothing.
    ///
    /// # Errors
    /// As [`Engine::flush`]; what was acknowledged is in the log then, and the
    /// next start replays it.
    pub fn close(&self) -> Result<(), Error> {
        self.inner.close()
    }
}

/// Runs the jobs that the owners schedule.
impl RunJob for Inner {
    fn run(&self, job: EngineJob) {
        let core = &self.core;
        // A job that comes after the close does nothing.
        let Ok(_folder_lock) = core.background.folder_lock().hold() else {
            return;
        };
        core.background.begin(job);
        match job {
            EngineJob::Commit { was_slowed } => self.run_commits(was_slowed),
            EngineJob::EndGathering(number) => self.end_gathering(number),
            EngineJob::Flush => {
                if self.flusher.run(core) {
                    self.after_flush();
                }
            }
            EngineJob::Compact => self.compactor.run(core),
            EngineJob::WakeCompaction(due) => self.compactor.wake(due, core),
            EngineJob::PrepareSegment => core.log.prepare_segment(core),
            EngineJob::FillSegment => core.log.fill_segment(core),
            EngineJob::SyncLog => core.log.sync_aside(core),
            EngineJob::ClaimLog(seen) => core.log.claim_if_idle(seen, core),
            EngineJob::WatchForRoom(watch) => core.watch_for_room(watch),
        }
    }
}

impl Inner {
    /// Flushes the memtable that has waited longest, on this thread. Returns
    /// whether there was one.
    fn flush_oldest(&self) -> Result<bool, Error> {
        let has_flushed = self.flusher.flush_oldest(&self.core)?;
        if has_flushed {
            self.after_flush();
        }
        Ok(has_flushed)
    }

    /// Wakes what waits for a flush.
    fn after_flush(&self) {
        self.core.end_stall();
        self.compactor.schedule_after_flush(&self.core);
    }

    /// Writes everything in memory to tables, on this thread.
    fn flush_all(&self) -> Result<(), Error> {
        let core = &self.core;
        core.health.check_poison()?;
        {
            let mut committer = core.log.lock();
            if !core.tables.load().active.is_empty() {
                core.log.freeze(&mut committer, core)?;
            }
        }
        while self.flush_oldest()? {}
        Ok(())
    }

    fn close(&self) -> Result<(), Error> {
        let folder_lock = self.core.background.folder_lock();
        let finished = match folder_lock.hold() {
            Ok(_held) => self.finish(),
            Err(_) => return Ok(()),
        };
        folder_lock.release();
        finished
    }

    /// The last writes of this engine.
    fn finish(&self) -> Result<(), Error> {
        let core = &self.core;
        core.queue.lock().close();
        self.commit_waiting();
        core.health.close();
        self.compactor.abandon(core);
        let flushed = self.flush_all();
        // What is in a poisoned log is unknown: the log ends where it ends.
        core.health.check_poison()?;
        flushed.and(core.log.conclude(core))
    }
}
