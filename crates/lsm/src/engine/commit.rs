//! Group commit: the life of a write.
//!
//! 1. A writer puts its entry in the queue, which is bounded in bytes.
//! 2. The commit job takes what waits as one group. If the active memtable is
//!    full it is frozen first, and the log goes on in a new segment.
//! 3. The group is appended to the log and, with [`Durability::Sync`], synced.
//! 4. Only then is it inserted in the memtable: no reader sees a write that is
//!    less durable than its acknowledgement.
//! 5. Each outbox gets the outcomes of its writes, in one call.
//!
//! While a group syncs the next one gathers, so the groups grow with the load.
//! With [`Durability::Sync`] and under load the next group is also given a moment
//! to gather, because each costs a sync and the wakes of the threads that wait,
//! whatever its size: until as many wait as the last group had, which then may be
//! all that there are.
//!
//! Otherwise a commit is a write to the system's memory, and the thread that
//! submits makes it in place, as long as it is alone and nothing is in the way:
//! two wakes of threads cost several times as much.

use super::Inner;
use super::backpressure::Stall;
use super::outbox::Deliveries;
use super::queue::{GROUP_BYTES_MAX, Group};
use super::verdicts::{Verdicts, judge};
use crate::error::Error;
use crate::executor::Lane;
use crate::options::Durability;
use crate::record::Record;
use crate::sync::{lock, try_lock};
use crate::wait_sites;
use crate::wal::SegmentWriter;
use base::Timestamp;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// After a group of so many writes, the next is given time to gather.
const GATHER_GROUP_MIN: usize = 4;

/// A group of so many gathers no further: what it costs is spread enough, and
/// the writers had better work on the next meanwhile.
const GATHER_WRITES_MAX: usize = 64;

/// How long a group gathers at most: where the writers do not come back.
const GATHER_MAX: Duration = Duration::from_micros(1500);

/// More than this is not written to the log in place, in bytes: it would hold
/// the submitting thread up for longer than a wake of the commit job's.
const IN_PLACE_BYTES_MAX: usize = 64 << 10;

/// So many groups at most are committed in place by one submission. Those after
/// the first are of writers who came meanwhile.
const IN_PLACE_GROUPS_MAX: usize = 4;

/// Slowdowns below this are not worth a timer.
const SLOWDOWN_MIN: Duration = Duration::from_micros(200);

/// With [`Durability::Os`] the log is synced, aside from the commits, whenever
/// so many bytes are not: else the freeze of a memtable, whose segment ends
/// synced, would sync all of it while the writers wait.
const WRITEBACK_BYTES: u64 = 1 << 20;

/// What only the holder of the commit lock touches.
pub(super) struct Committer {
    pub(super) log: SegmentWriter,
    /// The sequence number of the next record.
    pub(super) next_sequence: u64,
    /// Whether a sync aside from the commits will begin.
    pub(super) sync_scheduled: bool,
    /// Whether one is under way.
    pub(super) is_syncing_aside: bool,
    /// Whether somebody will look whether the store is idle, to claim the log.
    pub(super) claim_scheduled: bool,
    /// What writes found that may be asked for again.
    pub(super) verdicts: Verdicts,
}

impl Committer {
    pub(super) fn new(log: SegmentWriter, next_sequence: u64, verdicts_kept: Duration) -> Self {
        Self {
            log,
            verdicts: Verdicts::new(verdicts_kept, next_sequence),
            next_sequence,
            sync_scheduled: false,
            is_syncing_aside: false,
            claim_scheduled: false,
        }
    }
}

/// How an attempt to commit a group ended.
enum Progress {
    /// Nothing waits.
    Idle,
    /// A group of so many writes was committed or refused.
    Committed(usize),
    /// The active memtable is full and cannot be frozen yet.
    Stalled(Stall),
}

impl Inner {
    pub(super) fn spawn_commits(self: &Arc<Self>, delay: Duration) {
        self.spawn(Lane::Commit, delay, move |inner| {
            // A job that was delayed has paid for its first group.
            inner.run_commits(delay != Duration::ZERO);
        });
    }

    /// Lets the next group gather after one of so many writes; `false` where
    /// it need not, because as many wait already or because it costs no sync.
    fn gather(self: &Arc<Self>, writes: usize) -> bool {
        if !self.options.durability.syncs_commits() {
            return false;
        }
        let writes = writes.min(GATHER_WRITES_MAX);
        // Where values are long the queue fills, and would refuse meanwhile.
        let bytes = GROUP_BYTES_MAX.min(self.options.write_queue_bytes_max / 2);
        let Some(gathering) = lock(&self.queue).gather(writes, bytes) else {
            return false;
        };
        self.spawn(Lane::Commit, GATHER_MAX, move |inner| {
            if lock(&inner.queue).end_gathering(gathering) {
                inner.run_commits(false);
            }
        });
        true
    }

    /// The commit job: commits groups until none waits.
    fn run_commits(self: &Arc<Self>, mut paid: bool) {
        loop {
            let slowdown = self.slowdown();
            if slowdown >= SLOWDOWN_MIN && !paid {
                self.counters.slowdowns.fetch_add(1, Relaxed);
                self.spawn_commits(slowdown);
                return;
            }
            paid = false;
            let progress = self.commit_group(&mut lock(&self.committer), GROUP_BYTES_MAX);
            match progress {
                Progress::Committed(writes) => {
                    // Where writers are slowed, a group gathers anyway.
                    let is_slow = slowdown >= SLOWDOWN_MIN;
                    if writes >= GATHER_GROUP_MIN && !is_slow && self.gather(writes) {
                        return;
                    }
                }
                Progress::Idle => {
                    let mut queue = lock(&self.queue);
                    if queue.is_empty() {
                        queue.scheduled = false;
                        return;
                    }
                }
                Progress::Stalled(_) => {
                    if !self.note_stall() {
                        return;
                    }
                }
            }
        }
    }

    /// Commits what waits on the thread of who has submitted it, who acts as
    /// the commit job meanwhile. Returns whether that was all: else a commit
    /// job has to go on.
    pub(super) fn commit_in_place(self: &Arc<Self>) -> bool {
        if self.options.durability.syncs_commits() {
            return false;
        }
        let Ok(_folder_lock) = self.folder_lock.hold() else {
            return false;
        };
        for _ in 0..IN_PLACE_GROUPS_MAX {
            let bytes = {
                let mut queue = lock(&self.queue);
                if queue.is_empty() {
                    queue.scheduled = false;
                    return true;
                }
                queue.bytes()
            };
            // Whoever has it may be about to sync.
            let Some(mut committer) = try_lock(&self.committer) else {
                return false;
            };
            if bytes > IN_PLACE_BYTES_MAX || !self.is_commit_brief(&committer, bytes) {
                return false;
            }
            self.commit_group(&mut committer, IN_PLACE_BYTES_MAX);
        }
        false
    }

    /// Whether a group that takes so many bytes of memory would be committed by
    /// a write to the system's memory and nothing else.
    fn is_commit_brief(&self, committer: &Committer, bytes: usize) -> bool {
        // A write beside the log's sync may wait for it in the file system. What
        // the entries take in memory is more than they do in the log.
        !committer.is_syncing_aside
            && committer.log.has_room(bytes)
            && !self.is_memtable_full(committer, &self.state.load())
            && !self.space.is_full()
            && self.slowdown() < SLOWDOWN_MIN
    }

    /// Commits the writes that wait now, or those of them that fit so many
    /// bytes of memory, as one group.
    fn commit_group(self: &Arc<Self>, committer: &mut Committer, bytes_max: usize) -> Progress {
        if lock(&self.queue).is_empty() {
            return Progress::Idle;
        }
        let prepared = match self.check_poison() {
            Ok(()) => self.prepare_memtable(committer),
            Err(error) => Err(error),
        };
        if let Ok(Some(stall)) = prepared {
            self.counters.stalls.fetch_add(1, Relaxed);
            return Progress::Stalled(stall);
        }
        let mut group = self.take_group(bytes_max);
        let writes = group.len();
        let logged = prepared.and_then(|_| self.log_group(committer, &mut group));
        match logged {
            Ok(()) => self.apply(committer, group),
            Err(error) => self.refuse(group, &error),
        }
        self.end_group();
        Progress::Committed(writes)
    }

    /// Makes sure that the active memtable has room; tells what must end before it can.
    fn prepare_memtable(
        self: &Arc<Self>,
        committer: &mut Committer,
    ) -> Result<Option<Stall>, Error> {
        let state = self.state.load();
        if !self.is_memtable_full(committer, &state) {
            return Ok(None);
        }
        if let Some(stall) = self.stall(&state) {
            return Ok(Some(stall));
        }
        self.freeze(committer)?;
        Ok(None)
    }

    /// Makes a group as durable as the options say. When the disk is full the
    /// puts are refused and taken out of the group, and the deletes tried again.
    fn log_group(
        self: &Arc<Self>,
        committer: &mut Committer,
        group: &mut Group,
    ) -> Result<(), Error> {
        let written = self.with_reserve(|| {
            if self.space.is_full() {
                self.refuse_puts(group);
            }
            append(committer, group)
        })?;
        if group.is_empty() {
            return Ok(());
        }
        self.log_bytes
            .store(committer.log.allocated_bytes(), Relaxed);
        self.counters.commits.fetch_add(1, Relaxed);
        self.counters.log_written_bytes.fetch_add(written, Relaxed);
        self.schedule_claim(committer);
        match self.options.durability {
            Durability::Sync => {
                self.timed_sync(|| committer.log.sync())
                    .map_err(|error| self.poison(error))?;
            }
            Durability::Interval(interval) => {
                if !std::mem::replace(&mut committer.sync_scheduled, true) {
                    self.spawn(Lane::Log, interval, Self::sync_log);
                }
            }
            Durability::Os => {
                if committer.log.unsynced_bytes() >= WRITEBACK_BYTES
                    && !std::mem::replace(&mut committer.sync_scheduled, true)
                {
                    self.spawn(Lane::Log, Duration::ZERO, Self::sync_log);
                }
            }
        }
        Ok(())
    }

    /// Lets readers see a group that is in the log, and tells the writers.
    fn apply(&self, committer: &mut Committer, group: Group) {
        let state = self.state.load();
        let writes = group.len() as u64;
        let mut bytes = 0;
        let mut greatest = Timestamp::ZERO;
        let now = self.environment.clock.monotonic();
        committer.verdicts.age(now, committer.next_sequence);
        let mut deliveries = Deliveries::new(group.len());
        for pending in group {
            pending.stopwatch.stop(&wait_sites::COMMIT);
            let entry = pending.entry;
            bytes += entry.data_bytes() as u64;
            greatest = greatest.max(entry.timestamp());
            let sequence = committer.next_sequence;
            committer.next_sequence += 1;
            let record = Arc::new(Record { sequence, entry });
            let rivals = state.active.insert(&record);
            let applied = judge(&mut committer.verdicts, &state, &record, rivals, now);
            deliveries.add(pending.outbox, pending.ticket, Ok(applied));
        }
        self.snapshots.publish(committer.next_sequence - 1);
        self.greatest_timestamp
            .fetch_max(greatest.as_u64(), Relaxed);
        self.counters.writes.fetch_add(writes, Relaxed);
        self.counters.written_bytes.fetch_add(bytes, Relaxed);
        deliveries.send();
    }

    /// Refuses writes from now on and commits those that wait.
    pub(super) fn drain(self: &Arc<Self>) {
        lock(&self.queue).closed = true;
        self.commit_waiting();
    }

    /// Commits the writes that wait, on this thread.
    pub(super) fn commit_waiting(self: &Arc<Self>) {
        loop {
            let progress = self.commit_group(&mut lock(&self.committer), GROUP_BYTES_MAX);
            match progress {
                Progress::Idle => return,
                Progress::Committed(_) => {}
                Progress::Stalled(stall) => self.relieve_or_refuse(stall),
            }
        }
    }
}

fn append(committer: &mut Committer, group: &Group) -> Result<u64, Error> {
    committer
        .log
        .append(group.iter().map(|pending| &pending.entry))
}
