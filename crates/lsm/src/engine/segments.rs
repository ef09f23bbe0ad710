//! Upkeep of the log: the next segment, made ahead, syncs by interval, and the
//! claim on what is durable of it.

use super::Inner;
use super::commit::Committer;
use super::state::State;
use crate::error::Error;
use crate::executor::Lane;
use crate::manifest::LogClaim;
use crate::memtable::Memtable;
use crate::options::Durability;
use crate::sync::lock;
use crate::wal::SegmentWriter;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The pause between two pieces that are filled, which leaves the disk to others.
const FILL_PAUSE: Duration = Duration::from_millis(10);

/// How long nothing is written before the log is claimed.
const CLAIM_DELAY: Duration = Duration::from_secs(1);

impl Inner {
    /// Whether the active memtable is to be frozen before more is written. Its
    /// segment counts too: entries that came twice fill only that.
    pub(super) fn is_memtable_full(&self, committer: &Committer, state: &State) -> bool {
        let bytes_max = self.options.memtable_bytes;
        state.active.bytes() >= bytes_max
            || committer.log.allocated_bytes() >= 2 * bytes_max as u64 && !state.active.is_empty()
    }

    /// Ends the active memtable: the log goes on in the next segment, and the
    /// memtable waits for its flush.
    pub(super) fn freeze(self: &Arc<Self>, committer: &mut Committer) -> Result<(), Error> {
        // Nothing was written to a segment that could not be made, for want of
        // a file handle for one: this write fails, a later one may not.
        let next = self
            .retry_with_reserve(|| self.next_segment())
            .map_err(|error| self.poison_if_sync(error))?;
        let sealed = match self.with_reserve(|| committer.log.seal()) {
            Ok(()) => std::mem::replace(&mut committer.log, next),
            Err(error) => {
                *lock(&self.spare_segment) = Some(next);
                return Err(error);
            }
        };
        {
            let mut sealed_segments = lock(&self.sealed_segments);
            sealed_segments.insert(sealed.segment(), sealed.allocated_bytes());
            let mut state = State::clone(&self.state.load());
            state.frozen.push(state.active);
            state.active = Arc::new(Memtable::new(
                committer.log.segment(),
                self.options.memtable_bytes,
            ));
            self.state.store(Arc::new(state));
        }
        self.log_bytes
            .store(committer.log.allocated_bytes(), Relaxed);
        self.schedule_flush(Duration::ZERO);
        self.spawn(Lane::Log, Duration::ZERO, Self::prepare_segment);
        Ok(())
    }

    /// Writes to the log what needs room, and once more with the reserve given
    /// back. Any other failure of the log poisons the store.
    pub(super) fn with_reserve<T>(
        self: &Arc<Self>,
        attempt: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.retry_with_reserve(attempt)
            .map_err(|error| self.poison_unless_full(error))
    }

    /// Tries what needs room, and once more with the reserve given back.
    fn retry_with_reserve<T>(
        self: &Arc<Self>,
        mut attempt: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        match attempt() {
            Err(Error::DiskFull) => {
                self.enter_full();
                attempt()
            }
            result => result,
        }
    }

    /// The segment after the current one: the one prepared, or one made now.
    fn next_segment(&self) -> Result<SegmentWriter, Error> {
        let mut spare = lock(&self.spare_segment);
        let next = match spare.take() {
            Some(next) => next,
            None => self.create_segment(self.log_segment.load(Relaxed) + 1)?,
        };
        // Under the lock, so that the segment prepared next is the one after this.
        self.log_segment.store(next.segment(), Relaxed);
        Ok(next)
    }

    /// Makes the next segment ahead, so that no write has to wait for it.
    pub(super) fn prepare_segment(self: &Arc<Self>) {
        let mut spare = lock(&self.spare_segment);
        let is_wanted = spare.is_none() && !self.is_closing() && !self.space.is_full();
        if !is_wanted || self.check_poison().is_err() {
            return;
        }
        match self.create_segment(self.log_segment.load(Relaxed) + 1) {
            Ok(segment) => {
                *spare = Some(segment);
                self.schedule_fill(Duration::ZERO);
            }
            Err(error) => {
                // Short of a failed sync it is tried again when it is needed,
                // and reported then.
                let error = self.poison_if_sync(error);
                tracing::debug!(%error, "could not prepare a log segment");
            }
        }
    }

    /// Sees to it that the space of the log was written before its groups come,
    /// where each of them is synced; see [`SegmentWriter::fill_some`].
    pub(super) fn schedule_fill(self: &Arc<Self>, delay: Duration) {
        if self.options.durability == Durability::Sync && !self.fill_scheduled.swap(true, Relaxed) {
            self.spawn(Lane::Log, delay, Self::fill_segments);
        }
    }

    /// The fill job: fills a piece of the current segment or the one made
    /// ahead, syncs it, and comes again while there is more.
    fn fill_segments(self: &Arc<Self>) {
        self.fill_scheduled.store(false, Relaxed);
        if self.is_closing() || self.check_poison().is_err() {
            return;
        }
        let fill = |log: &mut SegmentWriter| {
            log.fill_some()
                .map(|more| more.then(|| log.background_sync()))
        };
        let mut filled = fill(&mut lock(&self.committer).log);
        if matches!(filled, Ok(None)) {
            // The lock keeps the segment from being taken meanwhile.
            filled = lock(&self.spare_segment).as_mut().map_or(Ok(None), fill);
        }
        match filled {
            Ok(None) => {}
            Ok(Some(sync)) => {
                if let Err(error) = sync.run() {
                    self.poison(error);
                }
                self.schedule_fill(FILL_PAUSE);
            }
            // What was not filled is only slower to sync.
            Err(error) => tracing::debug!(%error, "could not fill a log segment"),
        }
    }

    /// Sees to it that the log is claimed once nothing was written to it for a
    /// moment. One look costs a timer, so there is one a second at most.
    pub(super) fn schedule_claim(self: &Arc<Self>, committer: &mut Committer) {
        if !std::mem::replace(&mut committer.claim_scheduled, true) {
            self.claim_if_idle_since(committer);
        }
    }

    fn claim_if_idle_since(self: &Arc<Self>, committer: &Committer) {
        let log = &committer.log;
        let seen = (log.segment(), log.position(), log.claim());
        self.spawn(Lane::Log, CLAIM_DELAY, move |inner| {
            if inner.is_closing() || inner.check_poison().is_err() {
                return;
            }
            {
                let mut committer = lock(&inner.committer);
                let log = &committer.log;
                if (log.segment(), log.position(), log.claim()) != seen {
                    return inner.claim_if_idle_since(&committer);
                }
                committer.claim_scheduled = false;
            }
            if let Err(error) = inner.claim_log(seen.2) {
                // Short of a failed sync it is tried again after the next write.
                let error = inner.poison_if_sync(error);
                tracing::debug!(%error, "could not claim the log");
            }
        });
    }

    /// Takes note of what is durable of the log, in the manifest: else a start
    /// could take damage at the end of the log for a torn tail.
    fn claim_log(&self, claim: LogClaim) -> Result<(), Error> {
        let mut manifest = lock(&self.manifest);
        if manifest.log_claim >= claim {
            return Ok(());
        }
        let mut next = manifest.clone();
        next.log_claim = claim;
        next.store(&*self.environment.disk, &self.environment.folder)?;
        *manifest = next;
        Ok(())
    }

    /// Makes the log durable and claims it: the last write of a store.
    pub(super) fn conclude_log(&self) -> Result<(), Error> {
        let claim = {
            let mut committer = lock(&self.committer);
            if committer.log.unsynced_bytes() > 0 {
                committer.log.sync()?;
            }
            committer.log.claim()
        };
        self.claim_log(claim)
    }

    fn create_segment(&self, segment: u64) -> Result<SegmentWriter, Error> {
        SegmentWriter::create(
            &*self.environment.disk,
            &self.environment.folder,
            self.log_secret,
            segment,
            // Records take less room in the log than in the memtable. On a full
            // disk the segment grows as it must.
            if self.space.is_full() {
                0
            } else {
                self.options.memtable_bytes as u64
            },
        )
    }

    /// Syncs what the log holds now without holding up the commits meanwhile.
    pub(super) fn sync_log(self: &Arc<Self>) {
        let pending = {
            let mut committer = lock(&self.committer);
            committer.sync_scheduled = false;
            let pending = committer.log.pending_sync();
            committer.is_syncing_aside = pending.is_some();
            pending
        };
        let Some(sync) = pending else {
            return;
        };
        let result = self.timed_sync(|| sync.run());
        let mut committer = lock(&self.committer);
        committer.is_syncing_aside = false;
        match result {
            Ok(()) => {
                committer.log.synced(&sync);
                self.schedule_claim(&mut committer);
            }
            Err(error) => {
                self.poison(error);
            }
        }
    }
}
