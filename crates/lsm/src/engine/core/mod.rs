//! The core: the owners that every job uses, and what concerns several of them.
//!
//! Each owner keeps its fields to itself. The core wires them together: a failed
//! sync poisons the store, and also ends the waits of the writers; a full disk
//! also wakes the compaction, which can make room. Flush and compaction lie above
//! the core, and the core reaches them only by the jobs that it schedules.

pub(super) mod log;

use super::background::{Background, EngineJob};
use super::counters::Counters;
use super::counters::acknowledged::AcknowledgedCounter;
use super::health::Health;
use super::health::failing::{RETRY_DELAY, Work};
use super::health::full_disk::RoomWatch;
use super::snapshots::Snapshots;
use super::snapshots::frozen::FrozenMemtables;
use super::snapshots::held_scans::HeldScans;
use super::table_set::changes::Changes;
use super::table_set::damage::Damage;
use super::table_set::{NotedRange, TableEdit, TableSet};
use super::writes::closed_timestamp::ClosedTimestamp;
use super::writes::ingests_under_way::Ingests;
use super::writes::outbox::Deliveries;
use super::writes::queue::{Group, WriteQueue};
use super::writes::write_rate::WriteRate;
use crate::disk::DiskSpace;
use crate::error::Error;
use crate::locks::sites as wait_sites;
use crate::manifest::BLOB_LEVEL;
use crate::memtable::Memtable;
use crate::options::{Environment, Options};
use base::Timestamp;
use log::Log;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How long the job waits after a failure before it tries again to note damage.
const NOTE_DAMAGE_DELAY: Duration = Duration::from_secs(1);

/// The owners that every job uses.
pub(super) struct Core {
    /// The outside world of the store.
    pub(super) environment: Environment,
    /// The settings of the store.
    pub(super) options: Options,
    /// Owns the folder lock and the jobs that wait.
    pub(super) background: Background,
    /// Owns what restricts the store: poisoned, full, closing.
    pub(super) health: Health,
    /// Owns the writes that wait for their commit.
    pub(super) queue: WriteQueue,
    /// Owns the log, and with it the commit lock.
    pub(super) log: Log,
    /// Owns the timestamp below which ordinary writes are refused.
    pub(super) closed_timestamp: ClosedTimestamp,
    /// Owns the manifest and the read state.
    pub(super) tables: TableSet,
    /// Owns the living snapshots.
    pub(super) snapshots: Snapshots,
    /// Knows which memtables the snapshot of a backup waits for.
    pub(super) frozen: FrozenMemtables,
    /// Owns what scans hold between their batches.
    pub(super) held_scans: HeldScans,
    /// Remembers what flushes have seen.
    pub(super) changes: Changes,
    /// Owns what is known of damaged tables.
    pub(super) damage: Damage,
    /// Knows the ingests under way.
    pub(super) ingests: Ingests,
    /// Counts the records that were ever committed.
    pub(super) acknowledged: AcknowledgedCounter,
    /// Owns the pace of the writers while flush or compaction is behind.
    pub(super) write_rate: WriteRate,
    /// Counts what was done.
    pub(super) counters: Counters,
}

impl Core {
    /// The monotonic time.
    pub(super) fn now(&self) -> Duration {
        self.environment.clock.monotonic()
    }

    /// Schedules the commit job after `delay`.
    pub(super) fn schedule_commits(&self, delay: Duration) {
        self.background.schedule(EngineJob::Commit, delay);
    }

    /// Schedules a flush job after `delay`.
    pub(super) fn schedule_flush(&self, delay: Duration) {
        self.background.schedule(EngineJob::Flush, delay);
    }

    /// Schedules a compaction job after `delay`, if compaction is on.
    pub(super) fn schedule_compaction(&self, delay: Duration) {
        if self.options.compaction {
            self.background.schedule(EngineJob::Compact, delay);
        }
    }

    /// The least timestamp of everything that no live table has yet: the writes that
    /// wait, the group under way, the memtables and the ingests under way. A write that
    /// was submitted or pushed before this call is counted, or is in a live table.
    pub(super) fn least_timestamp_in_memory(&self) -> Timestamp {
        let waiting = self.queue.lock().least_timestamp();
        let waiting = waiting.min(self.ingests.least_timestamp());
        // The read state is loaded afterwards, so a write that has left the
        // queue by then is in one of its memtables.
        let state = self.tables.load();
        state
            .memtables()
            .map(|memtable| memtable.least_timestamp())
            .fold(waiting, Timestamp::min)
    }

    /// Makes the store read-only because of `error`. Returns the error that
    /// writes get from now on.
    pub(super) fn poison(&self, error: Error) -> Error {
        if let Error::Poisoned { .. } = error {
            return error;
        }
        let poisoned = self.health.poison(error);
        // No flush or compaction will ever end the stall of a poisoned store.
        self.end_stall();
        poisoned
    }

    /// Poisons the store, unless the disk is merely full.
    pub(super) fn poison_unless_full(&self, error: Error) -> Error {
        match error {
            Error::DiskFull => error,
            error => self.poison(error),
        }
    }

    /// Poisons the store if `error` is a failed sync. The kernel may have dropped
    /// the pages, so a later sync that succeeds would prove nothing.
    pub(super) fn poison_if_sync(&self, error: Error) -> Error {
        if error.is_sync() {
            self.poison(error)
        } else {
            error
        }
    }

    /// Notes that the next log segment could not be made, and has it tried again.
    pub(super) fn note_log_failure(&self, error: &Error) {
        if self.health.failing().note(Work::Log, error, self.now()) {
            self.background
                .schedule(EngineJob::RetrySegment, RETRY_DELAY);
        }
    }

    /// Looks at the folder and at the log's file in it. While they are not there the store is
    /// failing. Returns the space of the file system.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn look_at_folder(&self) -> Result<DiskSpace, Error> {
        let Environment { disk, folder, .. } = &self.environment;
        let free_bytes = match disk.available_bytes(folder) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(None),
            Err(error) => Err(Error::io("use", folder, error)),
        };
        if let Ok(Some(free_bytes)) = free_bytes {
            self.ingests.note_free_bytes(free_bytes);
        }
        let looked = free_bytes.and_then(|free_bytes| {
            self.log.lock().writer.check_name()?;
            let size_bytes = disk.size_bytes(folder).ok();
            Ok(DiskSpace {
                free_bytes,
                size_bytes,
            })
        });
        match &looked {
            Ok(_) => self.health.failing().worked(Work::Folder),
            Err(error) => {
                let _is_new = self.health.failing().note(Work::Folder, error, self.now());
            }
        }
        looked
    }

    /// Checks that a compaction or an ingest that takes so many bytes leaves the room that the
    /// log and the flushes may need. If not, what waits to be freed is freed first.
    ///
    /// # Errors
    /// [`Error::DiskFull`].
    pub(super) fn check_compaction_room(&self, bytes: u64) -> Result<(), Error> {
        let has_room = || bytes <= self.health.full_disk().compaction_bytes_max();
        if has_room() || (self.tables.free_removed() && has_room()) {
            Ok(())
        } else {
            Err(Error::DiskFull)
        }
    }

    /// Notes that the disk is full, and gives back the reserve, the free log segments and what
    /// is left of removed tables. Returns whether the store was not full before.
    pub(super) fn enter_full(&self) -> bool {
        let is_new = self.health.full_disk().enter();
        if is_new {
            self.log.return_free_segments();
            self.tables.free_removed();
            self.schedule_room_watch(RoomWatch::new());
            // Earlier deletes may have left space that compaction can free.
            self.schedule_compaction(Duration::ZERO);
        }
        is_new
    }

    /// Makes a write to the log that needs room, and if the disk is full once
    /// more with the room of the reserve. Any other failure poisons the store.
    pub(super) fn with_reserve<T>(
        &self,
        attempt: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.retry_with_reserve(attempt)
            .map_err(|error| self.poison_unless_full(error))
    }

    /// Makes an attempt that needs room, and if the disk is full once more with
    /// the room of the reserve.
    pub(super) fn retry_with_reserve<T>(
        &self,
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

    /// The job: notes the ranges of what tables have reported.
    pub(super) fn note_damage(&self) {
        if !self.health.may_begin() {
            return;
        }
        let state = self.tables.load_full();
        let reports = self.tables.files().cache().damage_reports();
        let taken = reports.take();
        let mut noted: Vec<NotedRange> = Vec::new();
        for (id, offset) in &taken {
            let Some((level, table)) = state.tables.all().find(|(_, table)| table.id() == *id)
            else {
                continue;
            };
            let is_known =
                |known: &NotedRange| known.range.table == *id && known.range.bytes.contains(offset);
            if table.is_noted(*offset) || noted.iter().any(is_known) {
                continue;
            }
            let range = table.locate_damage(*offset, level == BLOB_LEVEL);
            let number = self.damage.next_number();
            noted.push(NotedRange { number, range });
        }
        if noted.is_empty() {
            return;
        }
        let edit = TableEdit {
            damaged: noted.clone(),
            ..TableEdit::default()
        };
        if let Err(error) = self.tables.apply(edit) {
            tracing::warn!(%error, "could not record damage; will try again");
            self.poison_if_sync(error);
            reports.put_back(taken);
            self.background
                .schedule(EngineJob::NoteDamage, NOTE_DAMAGE_DELAY);
            return;
        }
        for NotedRange { range, .. } in noted {
            tracing::error!(
                table = range.table.0,
                from_byte = range.bytes.start,
                to_byte = range.bytes.end,
                "a part of a table is damaged: the keys of this part do not count until a full \
                 repair with all other nodes"
            );
        }
    }

    /// Schedules a job that finds out later whether there is room again.
    pub(super) fn schedule_room_watch(&self, watch: RoomWatch) {
        self.background
            .schedule(EngineJob::WatchForRoom(watch), watch.delay());
    }

    /// The job that ends the full state once there is room. Until then it comes
    /// again, and flushes deletes from time to time for the room that they make.
    pub(super) fn watch_for_room(&self, watch: RoomWatch) {
        if !self.health.is_full() || !self.health.may_begin() {
            return;
        }
        let now = self.now();
        let has_room = self.health.full_disk().has_room_for_reserve();
        let is_due = watch.is_due(now, has_room);
        let watch = watch.looked(has_room);
        if !is_due {
            return self.schedule_room_watch(watch);
        }
        match self.health.full_disk().try_leave() {
            Ok(true) => {
                tracing::info!("the disk has space again: puts are accepted");
                self.log.prepare_segment(self);
                self.schedule_compaction(Duration::ZERO);
                return;
            }
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "could not create the disk reserve; will try \
             again"),
        }
        // Compaction can make room of deletes only once they are in a table.
        let makes_room = |active: &Memtable| self.options.compaction && active.has_tombstones();
        let has_flushed = watch.is_flush_due(now) && self.log.freeze_early(self, makes_room);
        // There may be room now for a compaction that did not fit before.
        self.schedule_compaction(Duration::ZERO);
        self.schedule_room_watch(watch.acted(now, has_flushed));
    }

    /// Wakes a commit job that waits for a flush or a compaction.
    pub(super) fn end_stall(&self) {
        if self.queue.lock().take_stall() {
            self.schedule_commits(Duration::ZERO);
        }
    }

    /// Ends a stall whose flush or compaction has failed: the writes that wait
    /// for it fail too.
    pub(super) fn fail_stall(&self, error: &Error) {
        let is_stalled = self.queue.lock().is_stalled();
        if is_stalled {
            self.refuse_waiting(error);
            self.end_stall();
        }
    }

    /// For how long a promise may hold a write back: no request waits for it any more then.
    pub(super) fn held_back_max(&self) -> Duration {
        self.options.newer_version_checks_kept
    }

    /// Ends the writes that wait with an error.
    pub(super) fn refuse_waiting(&self, error: &Error) {
        let waiting = self.queue.lock().take_waiting();
        self.refuse(waiting, error);
    }

    /// Ends the writes of a group with an error.
    pub(super) fn refuse(&self, group: Group, error: &Error) {
        if matches!(error, Error::DiskFull) {
            self.counters
                .refused_disk_full
                .fetch_add(group.len() as u64, Relaxed);
        }
        let mut deliveries = Deliveries::new(group.len());
        for pending in group {
            pending.stopwatch.stop(&wait_sites::COMMIT);
            deliveries.add(pending.outbox, pending.ticket, Err(error.clone()));
        }
        deliveries.send();
    }
}
