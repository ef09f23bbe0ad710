//! The log: the owner of the segment that the commits append to, and its upkeep.
//!
//! A segment holds the records of one memtable. When the memtable is frozen its
//! segment is sealed, and the log goes on in the next segment, which was made
//! ahead, in the file of a free segment if there is one. [`crate::wal`] explains
//! segments, groups and seals. Jobs beside the commits make that segment, write zeros
//! to its space if that was never written, sync the log where commits do not, and
//! **claim** it: they write to the manifest how much of the log is durable, once the
//! store is idle for a moment.
//!
//! Locks: the commit lock (`committer`), then `spare`, then that of the free segments. A
//! thread that holds the commit lock may take those of the queue and of the table set,
//! except the manifest's, but not the reverse.

use super::Core;
use crate::disk::Disk;
use crate::engine::background::EngineJob;
use crate::engine::health::failing::Work;
use crate::engine::writes::committer::{Committer, LogPosition};
use crate::engine::writes::newer_versions::NewerVersionChecks;
use crate::engine::writes::promises::Promises;
use crate::error::Error;
use crate::locks::{lock, try_lock};
use crate::memtable::Memtable;
use crate::options::{Durability, Environment, Options};
use crate::wal::{FreeSegments, SegmentPlace, SegmentWriter};
use base::Hold;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The pause between two pieces of a segment that are filled, which leaves the
/// disk to others.
const FILL_PAUSE: Duration = Duration::from_millis(10);

/// How long nothing is written before the log is claimed.
const CLAIM_DELAY: Duration = Duration::from_secs(1);

/// With [`Durability::Os`] the log is synced beside the commits whenever this many
/// bytes are unsynced. Otherwise the freeze of a memtable, which ends with a
/// synced segment, would sync all of it while the writers wait.
const WRITEBACK_BYTES: u64 = 1 << 20;

/// The owner of the log.
pub(in crate::engine) struct Log {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    /// Tags the groups of this store's log; see [`crate::wal`].
    secret: u64,
    memtable_bytes: u64,
    committer: Mutex<Committer>,
    /// The segment after the committer's, made ahead.
    spare: Mutex<Option<SegmentWriter>>,
    /// Files of earlier segments, in which new ones begin.
    free_segments: Arc<FreeSegments>,
    /// The number of the committer's segment. Changes under the lock of `spare`.
    segment: AtomicU64,
    /// The space that the committer's segment takes, in bytes.
    segment_bytes: AtomicU64,
    /// How many promises the committer keeps.
    promises_kept: Arc<AtomicUsize>,
}

impl Log {
    /// The log of a store that is being opened: it goes on with `writer`, and the
    /// next record gets `next_sequence`.
    pub(in crate::engine) fn new(
        environment: &Environment,
        options: &Options,
        secret: u64,
        writer: SegmentWriter,
        next_sequence: u64,
        promises: Promises,
        free_segments: Arc<FreeSegments>,
    ) -> Self {
        Self {
            disk: Arc::clone(&environment.disk),
            folder: environment.folder.clone(),
            secret,
            memtable_bytes: options.memtable_bytes as u64,
            promises_kept: promises.count(),
            segment: AtomicU64::new(writer.segment()),
            segment_bytes: AtomicU64::new(writer.allocated_bytes()),
            committer: Mutex::new(Committer {
                writer,
                next_sequence,
                sync_scheduled: false,
                is_syncing_aside: false,
                claim_scheduled: false,
                newer_versions: NewerVersionChecks::new(
                    options.newer_version_checks_kept,
                    next_sequence,
                ),
                promises,
                hold: Hold::default(),
            }),
            spare: Mutex::new(None),
            free_segments,
        }
    }

    /// How many promises the store keeps.
    pub(in crate::engine) fn promises_kept(&self) -> usize {
        self.promises_kept.load(Relaxed)
    }

    /// The number that tags the groups of this store's log.
    pub(in crate::engine) fn secret(&self) -> u64 {
        self.secret
    }

    /// Takes the commit lock.
    pub(in crate::engine) fn lock(&self) -> MutexGuard<'_, Committer> {
        lock(&self.committer)
    }

    /// Takes the commit lock, if it is free.
    pub(in crate::engine) fn try_lock(&self) -> Option<MutexGuard<'_, Committer>> {
        try_lock(&self.committer)
    }

    /// The space that the current segment takes, in bytes.
    pub(in crate::engine) fn segment_bytes(&self) -> u64 {
        self.segment_bytes.load(Relaxed)
    }

    /// Records an append, and schedules the upkeep that is due after it.
    pub(in crate::engine) fn after_append(&self, committer: &mut Committer, core: &Core) {
        let segment_bytes = committer.writer.allocated_bytes();
        self.segment_bytes.store(segment_bytes, Relaxed);
        self.schedule_claim(committer, core);
        let delay = match core.options.durability {
            Durability::Interval(interval) => interval,
            Durability::Os if committer.writer.unsynced_bytes() >= WRITEBACK_BYTES => {
                Duration::ZERO
            }
            Durability::Sync | Durability::Os => return,
        };
        if !std::mem::replace(&mut committer.sync_scheduled, true) {
            core.background.schedule(EngineJob::SyncLog, delay);
        }
    }

    /// Whether the active memtable is to be frozen before more is written. The
    /// size of its segment counts too: an entry that is submitted twice takes
    /// space in the log twice, but in the memtable once.
    pub(in crate::engine) fn is_memtable_full(
        &self,
        committer: &Committer,
        active: &Memtable,
    ) -> bool {
        active.bytes() as u64 >= self.memtable_bytes
            || committer.writer.position() >= 2 * self.memtable_bytes && !active.is_empty()
    }

    /// Freezes the active memtable: the log goes on in the next segment, and the
    /// memtable waits for its flush.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Poisoned`], [`Error::Io`].
    pub(in crate::engine) fn freeze(
        &self,
        committer: &mut Committer,
        core: &Core,
    ) -> Result<(), Error> {
        // A segment that could not be made, for example because file handles are
        // short, holds nothing. This write fails, and a later one may succeed.
        let next = core
            .retry_with_reserve(|| self.next_segment(core))
            .map_err(|error| core.poison_if_sync(error))
            .inspect_err(|error| core.note_log_failure(error))?;
        core.health.failing().worked(Work::Log);
        let sealed = match core.with_reserve(|| committer.writer.seal()) {
            Ok(()) => std::mem::replace(&mut committer.writer, next),
            Err(error) => {
                *lock(&self.spare) = Some(next);
                return Err(error);
            }
        };
        // The seal was synced, and with it all groups before.
        core.acknowledged.note_synced(core.acknowledged.committed());
        core.tables.freeze_active(
            committer.writer.segment(),
            (sealed.segment(), sealed.space()),
        );
        let segment_bytes = committer.writer.allocated_bytes();
        self.segment_bytes.store(segment_bytes, Relaxed);
        core.schedule_flush(Duration::ZERO);
        core.background
            .schedule(EngineJob::PrepareSegment, Duration::ZERO);
        Ok(())
    }

    /// Freezes the active memtable before it is full, if a look at it says that this is
    /// useful and no other memtable waits for its flush. Returns whether it has tried.
    pub(in crate::engine) fn freeze_early(
        &self,
        core: &Core,
        is_useful: impl FnOnce(&Memtable) -> bool,
    ) -> bool {
        let mut committer = self.lock();
        let state = core.tables.load();
        if !state.frozen.is_empty() || state.active.is_empty() || !is_useful(&state.active) {
            return false;
        }
        if let Err(error) = self.freeze(&mut committer, core) {
            tracing::debug!(%error, "could not flush a memtable before it is full");
        }
        true
    }

    /// The segment after the current one: the one made ahead, or one made now.
    fn next_segment(&self, core: &Core) -> Result<SegmentWriter, Error> {
        let mut spare = lock(&self.spare);
        let next = match spare.take() {
            Some(next) => next,
            None => self.create_segment(core)?,
        };
        // Stored under the lock, so that the segment made ahead from now on is
        // the one after this.
        self.segment.store(next.segment(), Relaxed);
        Ok(next)
    }

    /// Makes the segment after the current one.
    fn create_segment(&self, core: &Core) -> Result<SegmentWriter, Error> {
        let segment = self.segment.load(Relaxed) + 1;
        if let Some(begun) = self.free_segments.begin(segment)? {
            return Ok(begun);
        }
        // Records take less room in the log than in the memtable. On a full disk
        // the segment starts empty and grows as it must.
        let bytes = if core.health.is_full() {
            0
        } else {
            self.memtable_bytes
        };
        let place = SegmentPlace {
            disk: &*self.disk,
            folder: &self.folder,
            secret: self.secret,
            segment,
        };
        SegmentWriter::create(place, bytes)
    }

    /// Removes the free segments, for the room that they take.
    pub(in crate::engine) fn return_free_segments(&self) {
        self.free_segments.give_back();
    }

    /// The job that makes the next segment ahead, so that no write waits for it.
    pub(in crate::engine) fn prepare_segment(&self, core: &Core) {
        let mut spare = lock(&self.spare);
        if spare.is_some() {
            return core.health.failing().worked(Work::Log);
        }
        if core.health.is_full() || !core.health.may_begin() {
            // It is not tried again before there is room, and a freeze tries it meanwhile. So
            // what was noted before must not keep the writes out.
            core.health.failing().forget(Work::Log);
            return;
        }
        match self.create_segment(core) {
            Ok(segment) => {
                core.health.failing().worked(Work::Log);
                *spare = Some(segment);
                self.schedule_fill(core, Duration::ZERO);
            }
            Err(error) => {
                // Unless a sync failed, it is tried again, also by the freeze that needs the
                // segment.
                let error = core.poison_if_sync(error);
                core.note_log_failure(&error);
                tracing::debug!(%error, "could not make a log segment ahead");
            }
        }
    }

    /// If every commit syncs, schedules the job that writes zeros to that space of the log
    /// which was never written, before groups reach it; see [`SegmentWriter::fill_some`].
    pub(in crate::engine) fn schedule_fill(&self, core: &Core, delay: Duration) {
        if core.options.durability == Durability::Sync {
            core.background.schedule(EngineJob::FillSegment, delay);
        }
    }

    /// The fill job: writes a piece of the current segment or of the one made
    /// ahead, syncs it, and comes again while there is more.
    pub(in crate::engine) fn fill_segment(&self, core: &Core) {
        if !core.health.may_begin() {
            return;
        }
        let fill = |writer: &mut SegmentWriter| {
            let more = writer.fill_some()?;
            Ok(more.then(|| writer.background_sync()))
        };
        let mut filled = fill(&mut self.lock().writer);
        if matches!(filled, Ok(None)) {
            // The lock keeps a freeze from taking the segment meanwhile.
            filled = lock(&self.spare).as_mut().map_or(Ok(None), fill);
        }
        match filled {
            Ok(None) => {}
            Ok(Some(sync)) => {
                if let Err(error) = sync.run() {
                    core.poison(error);
                }
                self.schedule_fill(core, FILL_PAUSE);
            }
            Err::<_, Error>(error) => {
                // The segment works all the same, only its syncs are slower.
                tracing::debug!(%error, "could not fill a log segment");
            }
        }
    }

    /// The job that syncs the log without holding up the commits.
    pub(in crate::engine) fn sync_aside(&self, core: &Core) {
        let (pending, committed) = {
            let mut committer = self.lock();
            committer.sync_scheduled = false;
            let pending = committer.writer.pending_sync();
            committer.is_syncing_aside = pending.is_some();
            (pending, core.acknowledged.committed())
        };
        let Some(sync) = pending else {
            return;
        };
        let result = core
            .counters
            .time_sync(&*core.environment.clock, || sync.run());
        let mut committer = self.lock();
        committer.is_syncing_aside = false;
        match result {
            Ok(()) => {
                committer.writer.synced(&sync);
                core.acknowledged.note_synced(committed);
                self.schedule_claim(&mut committer, core);
            }
            Err(error) => {
                core.poison(error);
            }
        }
    }

    /// Syncs what is not synced yet.
    ///
    /// # Errors
    /// [`Error::Sync`]; the store is poisoned then.
    pub(in crate::engine) fn sync(&self, core: &Core) -> Result<(), Error> {
        let mut committer = self.lock();
        if committer.writer.unsynced_bytes() == 0 {
            return Ok(());
        }
        core.counters
            .time_sync(&*core.environment.clock, || committer.sync())
            .map_err(|error| core.poison(error))?;
        core.acknowledged.note_synced(core.acknowledged.committed());
        Ok(())
    }

    /// Logs the promises that the store keeps once more, and the greatest ballot of the past,
    /// durably, so that the segments up to now may be freed.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Poisoned`].
    pub(in crate::engine) fn keep_promises(&self, core: &Core) -> Result<(), Error> {
        let mut committer = self.lock();
        let promises = committer.promises.logged(core.now());
        if promises.is_empty() {
            return Ok(());
        }
        core.health.check_poison()?;
        core.with_reserve(|| committer.append_promises(&promises))?;
        core.counters
            .time_sync(&*core.environment.clock, || committer.sync())
            .map_err(|error| core.poison(error))?;
        core.acknowledged.note_synced(core.acknowledged.committed());
        Ok(())
    }

    /// Schedules a claim of the log, which is made once nothing was written to it
    /// for a moment. A timer is not free, so at most one is set a second.
    fn schedule_claim(&self, committer: &mut Committer, core: &Core) {
        if !std::mem::replace(&mut committer.claim_scheduled, true) {
            let job = EngineJob::ClaimLog(committer.position());
            core.background.schedule(job, CLAIM_DELAY);
        }
    }

    /// The claim job: claims the log if it still ends at `seen`, or else comes
    /// again.
    pub(in crate::engine) fn claim_if_idle(&self, seen: LogPosition, core: &Core) {
        if !core.health.may_begin() {
            return;
        }
        {
            let mut committer = self.lock();
            committer.claim_scheduled = false;
            if committer.position() != seen {
                return self.schedule_claim(&mut committer, core);
            }
        }
        if let Err(error) = core.tables.claim_log(seen.claim) {
            // Unless a sync failed, it is tried again after the next write.
            let error = core.poison_if_sync(error);
            tracing::debug!(%error, "could not record the synced length of the log");
        }
    }

    /// Makes the log durable and claims it: the last write of a store.
    ///
    /// # Errors
    /// [`Error::Sync`], [`Error::Io`].
    pub(in crate::engine) fn conclude(&self, core: &Core) -> Result<(), Error> {
        let claim = {
            let mut committer = self.lock();
            if committer.writer.unsynced_bytes() > 0 {
                committer.writer.sync()?;
            }
            core.acknowledged.note_synced(core.acknowledged.committed());
            committer.writer.claim()
        };
        core.tables.claim_log(claim)
    }
}
