//! The engine: what ties memtables, log, tables and compaction together.
//!
//! - `queue`, `commit`, `outbox`: the life of a write; `verdicts`: what newer was there before it, and
//!   `flushed`: of what a flush has taken out of memory; `segments`: upkeep
//!   of the log;
//! - `backpressure`: how writers are slowed when flush or compaction is behind;
//! - `state`: what readers see, one immutable value;
//! - `flush`, `compact`: the jobs that move records down, and how the set of
//!   live tables changes; `merging`: a compaction under way; `retry`: when
//!   compaction wakes by itself;
//! - `scan`, `snapshots`: reads of ranges;
//! - `space`: the full disk, and the poisoned store; `reclaim`: what deletes
//!   hide, on a full disk;
//! - `statistics`, `sync_times`: what the store holds and has done;
//! - `recovery`: opening, and `recovered_log`: what the log holds then;
//!   `folder_lock`: until when the folder is this engine's.
//!
//! # Locks, in the order in which they are taken
//!
//! `folder_lock`, for as long as a job or a call may write; `flushing` or `compacting`; `committer`; `spare_segment`; `manifest`;
//! `sealed_segments`; `queue`; a memtable's. Readers take none but the last: they
//! load the state.

mod backpressure;
mod commit;
mod compact;
mod flush;
mod flushed;
mod folder_lock;
mod future;
mod merging;
mod outbox;
mod queue;
mod reclaim;
mod recovered_log;
mod recovery;
mod retry;
mod scan;
mod segments;
mod snapshots;
mod space;
mod state;
mod statistics;
mod sync_times;
mod verdicts;

pub use outbox::{Applied, Outbox, Outcome};
pub use recovery::RecoveryReport;
pub use scan::Scan;
pub use statistics::{LevelStatistics, Statistics};
pub use sync_times::SyncTimeStatistics;
pub use verdicts::PendingVerdict;

use crate::cache::BlockCache;
use crate::error::Error;
use crate::executor::Lane;
use crate::manifest::Manifest;
use crate::memtable::Memtable;
use crate::options::{Environment, Options};
use crate::sync::lock;
use crate::table::{Access, Interrupt};
use crate::wal::SegmentWriter;
use arc_swap::ArcSwap;
use base::{Entry, Timestamp};
use commit::Committer;
use compact::Compacting;
use flush::Flushing;
use folder_lock::FolderLock;
use queue::Queue;
use retry::Retry;
use snapshots::Snapshots;
use space::Space;
use state::State;
use statistics::Counters;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

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

/// What the clones of an engine and its jobs share.
pub(crate) struct Inner {
    environment: Environment,
    options: Options,
    /// Tags the log's groups; see [`crate::wal`].
    log_secret: u64,
    store_id: u64,
    cache: Arc<BlockCache>,
    state: ArcSwap<State>,
    snapshots: Snapshots,
    queue: Mutex<Queue>,
    committer: Mutex<Committer>,
    /// The segment after the committer's, made ahead.
    spare_segment: Mutex<Option<SegmentWriter>>,
    /// The number of the committer's segment. Changes under the lock of `spare_segment`.
    log_segment: AtomicU64,
    /// The manifest in force. Held while it is replaced, across the disk's syncs.
    manifest: Mutex<Manifest>,
    /// Sealed segments that are not removed yet, and the space they take, in
    /// bytes. Held, briefly, while the state is replaced.
    sealed_segments: Mutex<BTreeMap<u64, u64>>,
    /// The space that the committer's segment takes, in bytes.
    log_bytes: AtomicU64,
    next_table: AtomicU64,
    greatest_timestamp: AtomicU64,
    /// The flush under way. Held while a step of it runs.
    flushing: Mutex<Flushing>,
    flush_scheduled: AtomicBool,
    fill_scheduled: AtomicBool,
    compacting: Mutex<Compacting>,
    compaction_retry: Retry,
    compaction_scheduled: AtomicBool,
    /// Whether the engine is being closed: no job begins anything new.
    closing: AtomicBool,
    folder_lock: FolderLock,
    space: Space,
    poison: OnceLock<Arc<str>>,
    counters: Counters,
    /// Flushed memtables that a reader may still hold.
    retired: Mutex<Vec<Arc<Memtable>>>,
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
        match self.inner.state.load().newest(key, Access::Cached) {
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
        let state = self.inner.state.load_full();
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
        let _folder_lock = self.inner.folder_lock.hold()?;
        self.inner.flush_all()
    }

    /// Merges all tables into the last level, even when automatic compaction is off. Blocks.
    ///
    /// # Errors
    /// As [`Engine::flush`], and [`Error::Corrupt`].
    pub fn compact(&self) -> Result<(), Error> {
        let _folder_lock = self.inner.folder_lock.hold()?;
        self.inner.compact_all()
    }

    /// What the store holds and has done.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    /// Whether puts are taken now: the disk has room, and no sync has failed.
    /// Looks at nothing but memory.
    #[must_use]
    pub fn takes_puts(&self) -> bool {
        !self.inner.space.is_full() && self.inner.check_poison().is_ok()
    }

    /// The greatest timestamp that was ever written to this store.
    #[must_use]
    pub fn greatest_timestamp(&self) -> Timestamp {
        self.inner.greatest_timestamp()
    }

    /// A random number that this store was given when it was made.
    #[must_use]
    pub fn store_id(&self) -> u64 {
        self.inner.store_id
    }

    /// A number that only this store knows, for what its owner keeps beside it
    /// and names by `purpose`: the secret of a log of the owner's, for one.
    #[must_use]
    pub fn derive_secret(&self, purpose: &str) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(purpose.as_bytes(), self.inner.log_secret)
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

impl Inner {
    /// Gives a job to the executor. It does nothing when the store is gone or
    /// closed by then.
    fn spawn(
        self: &Arc<Self>,
        lane: Lane,
        delay: Duration,
        job: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        let inner = Arc::downgrade(self);
        let job = Box::new(move || {
            if let Some(inner) = inner.upgrade()
                && let Ok(_folder_lock) = inner.folder_lock.hold()
            {
                job(&inner);
            }
        });
        self.environment.executor.spawn(lane, delay, job);
    }

    fn flush_all(self: &Arc<Self>) -> Result<(), Error> {
        self.check_poison()?;
        {
            let mut committer = lock(&self.committer);
            if !self.state.load().active.is_empty() {
                self.freeze(&mut committer)?;
            }
        }
        while self.flush_oldest()? {}
        Ok(())
    }

    fn close(self: &Arc<Self>) -> Result<(), Error> {
        let finished = match self.folder_lock.hold() {
            Ok(_folder_lock) => self.finish(),
            Err(_) => return Ok(()),
        };
        self.folder_lock.release();
        finished
    }

    /// The last writes of this engine.
    fn finish(self: &Arc<Self>) -> Result<(), Error> {
        self.drain();
        self.closing.store(true, Relaxed);
        self.abandon_compaction();
        let flushed = self.flush_all();
        // What is in a poisoned log is unknown: it ends where it ends.
        self.check_poison()?;
        flushed.and(self.conclude_log())
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    fn greatest_timestamp(&self) -> Timestamp {
        Timestamp::from_u64(self.greatest_timestamp.load(Relaxed))
    }
}
