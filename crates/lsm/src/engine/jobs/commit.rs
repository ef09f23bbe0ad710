//! Group commit: how writes that wait become durable, then visible.
//!
//! While a group syncs, the next one gathers, so the groups grow with the load.
//! With [`Durability::Sync`](crate::Durability::Sync) and under load the next group also
//! gets a moment to gather, because each group costs a sync and the wakes of the waiting
//! threads, however small it is. The moment ends once as many writes wait as the last
//! group had, because those may be all the writers that there are. If writers do not wait for
//! acks, waiting for as many as last time only delays them; so the moment lasts at most 400 us,
//! or 1.5 ms above 30,000 writes a second.
//!
//! Without a sync, a commit is a write to the system's memory. The thread that
//! submits then commits in place, if no other thread commits and nothing makes
//! the commit long: two wakes of threads cost several times as much.

use super::backpressure::Stall;
use crate::engine::background::EngineJob;
use crate::engine::health::failing::Work;
use crate::engine::store::Store;
use crate::engine::writes::admission::Admission;
use crate::engine::writes::committer::Committer;
use crate::engine::writes::newer_versions::check;
use crate::engine::writes::outbox::{Applied, Deliveries, Outbox, Outcome};
use crate::engine::writes::queue::{
    CommitStart, GROUP_BYTES_MAX, Group, QueueState, check_lengths, split_deletes,
};
use crate::engine::writes::write_rate::group_bytes_max;
use crate::error::Error;
use crate::locks::sites as wait_sites;
use crate::memtable::memory_bytes;
use crate::record::Record;
use base::{Entry, Kind, Timestamp};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// After a group of at least this many writes, the next one gets time to gather.
const GATHER_GROUP_MIN: usize = 4;

/// A group of this many writes does not wait for more: its sync is already shared by
/// enough writes.
const GATHER_WRITES_MAX: usize = 64;

/// The longest that a group gathers, in case the writers do not come back.
const GATHER_MAX: Duration = Duration::from_micros(400);

/// The same where writes come fast: then the processor has little time to spare, and what a
/// sync costs it matters more than how long a write waits.
const GATHER_FAST_MAX: Duration = Duration::from_micros(1500);

/// Writes come fast at 30,000 a second or more; this is the time per write.
const FAST_INTERVAL: Duration = Duration::from_nanos(33_333);

/// The most that is written to the log in place, in bytes. More would hold the
/// submitting thread up for longer than a wake of the commit job's thread.
const IN_PLACE_BYTES_MAX: usize = 64 << 10;

/// The most groups that one submission commits in place. Those after the first
/// hold writes that other threads have submitted meanwhile.
const IN_PLACE_GROUPS_MAX: usize = 4;

/// Slowdowns below this are not worth a timer.
const SLOWDOWN_MIN: Duration = Duration::from_micros(200);

/// How an attempt to commit a group ended.
enum CommitAttempt {
    /// No write waits.
    Idle,
    /// A group of this many writes was committed or refused.
    Committed(usize),
    /// The active memtable is full and cannot be frozen yet.
    Stalled(Stall),
    /// Commits are held off, for at most so long.
    Held(Duration),
}

/// Submission.
impl Store {
    /// Puts a write in the queue and makes sure that it is committed.
    pub(in crate::engine) fn submit(
        &self,
        entry: Entry,
        outbox: &Arc<dyn Outbox>,
        ticket: u64,
    ) -> Result<(), Error> {
        let mut queue = self.core.queue.lock();
        self.enqueue(&mut queue, entry, Admission::Ordinary, outbox, ticket)?;
        self.start_commit(queue);
        Ok(())
    }

    /// Puts many writes in the queue at once. Those that are refused get their
    /// outcomes before this returns.
    pub(in crate::engine) fn submit_batch(
        &self,
        batch: impl IntoIterator<Item = (Entry, Admission, u64)>,
        outbox: &Arc<dyn Outbox>,
    ) {
        let mut refused = Vec::new();
        let mut queue = self.core.queue.lock();
        for (entry, admission, ticket) in batch {
            if let Err(error) = self.enqueue(&mut queue, entry, admission, outbox, ticket) {
                let result = Err(error);
                refused.push(Outcome { ticket, result });
            }
        }
        self.start_commit(queue);
        if !refused.is_empty() {
            outbox.deliver(refused);
        }
    }

    /// Puts a write in the queue, or says why it is refused.
    fn enqueue(
        &self,
        queue: &mut QueueState,
        entry: Entry,
        admission: Admission,
        outbox: &Arc<dyn Outbox>,
        ticket: u64,
    ) -> Result<(), Error> {
        let core = &self.core;
        check_lengths(&entry)?;
        queue.check_closed()?;
        core.health.check_poison()?;
        if entry.kind() == Kind::Value && core.health.is_full() {
            core.counters.refused_disk_full.fetch_add(1, Relaxed);
            return Err(Error::DiskFull);
        }
        queue
            .push(entry, admission, outbox, ticket)
            .inspect_err(|_| {
                core.counters.refused_overloaded.fetch_add(1, Relaxed);
            })
    }

    /// Commits the writes that wait, if no commit is scheduled and it takes but
    /// microseconds. Otherwise makes sure that a commit job comes.
    fn start_commit(&self, mut queue: MutexGuard<'_, QueueState>) {
        let start = queue.start_commit();
        drop(queue);
        let is_done = match start {
            CommitStart::Scheduled => true,
            CommitStart::Unscheduled => self.commit_in_place(),
            CommitStart::Gathered => false,
        };
        if !is_done {
            self.core.schedule_commits(Duration::ZERO);
        }
    }

    /// Commits the writes that wait on the submitting thread, which does the work
    /// of the commit job meanwhile. Returns whether it has committed all of them;
    /// otherwise a commit job has to go on.
    fn commit_in_place(&self) -> bool {
        let core = &self.core;
        if core.options.durability.syncs_commits() {
            return false;
        }
        let Ok(_folder_lock) = core.background.folder_lock().hold() else {
            return false;
        };
        for _ in 0..IN_PLACE_GROUPS_MAX {
            let bytes = {
                let mut queue = core.queue.lock();
                if queue.end_commits_if_empty() {
                    return true;
                }
                queue.bytes()
            };
            // The thread that holds the lock may be about to sync.
            let Some(mut committer) = core.log.try_lock() else {
                return false;
            };
            if bytes > IN_PLACE_BYTES_MAX || !self.is_commit_brief(&mut committer, bytes) {
                return false;
            }
            self.commit_group(&mut committer, IN_PLACE_BYTES_MAX);
        }
        false
    }

    /// Whether a group that takes `bytes` bytes of memory would be committed by
    /// a write to the system's memory and nothing else.
    fn is_commit_brief(&self, committer: &mut Committer, bytes: usize) -> bool {
        let core = &self.core;
        committer.hold.left(core.now()).is_none()
            && committer.is_append_brief(bytes)
            && !core
                .log
                .is_memtable_full(committer, &core.tables.load().active)
            && !core.health.is_full()
            && self.slowdown() < SLOWDOWN_MIN
    }
}

/// The commit job.
impl Store {
    /// Commits groups until no write waits, or the next group is to be held back.
    pub(in crate::engine) fn run_commits(&self) {
        loop {
            let slowdown = self.slowdown();
            if slowdown >= SLOWDOWN_MIN {
                self.core.counters.slowdowns.fetch_add(1, Relaxed);
                self.core.schedule_commits(slowdown);
                return;
            }
            let rate = self.write_rate(&self.core.tables.load());
            let bytes_max = rate.map_or(GROUP_BYTES_MAX, group_bytes_max);
            let bytes_max = bytes_max.min(GROUP_BYTES_MAX);
            let progress = self.commit_group(&mut self.core.log.lock(), bytes_max);
            match progress {
                CommitAttempt::Committed(writes) => {
                    // While writers are slowed, that delay is enough for a group to
                    // gather.
                    let is_slowed = self.slowdown() >= SLOWDOWN_MIN;
                    if writes >= GATHER_GROUP_MIN && !is_slowed && self.gather(writes) {
                        return;
                    }
                }
                CommitAttempt::Idle => {
                    if self.core.queue.lock().end_commits_if_empty() {
                        return;
                    }
                }
                CommitAttempt::Stalled(_) => {
                    if !self.note_stall() {
                        return;
                    }
                }
                CommitAttempt::Held(left) => {
                    self.core.schedule_commits(left);
                    return;
                }
            }
        }
    }

    /// Lets the next group gather after one of `writes` writes. Returns `false` if
    /// it need not, because as many wait already or because it costs no sync.
    fn gather(&self, writes: usize) -> bool {
        let core = &self.core;
        if !core.options.durability.syncs_commits() {
            return false;
        }
        let (gathering, took) = {
            let mut queue = core.queue.lock();
            let took = queue.end_cycle(core.now());
            (queue.gather(writes.min(GATHER_WRITES_MAX)), took)
        };
        let Some(number) = gathering else {
            return false;
        };
        let is_fast = took <= FAST_INTERVAL * writes as u32;
        let most = if is_fast { GATHER_FAST_MAX } else { GATHER_MAX };
        core.background
            .schedule(EngineJob::EndGathering(number), most);
        true
    }

    /// The job that ends a gathering whose time is over.
    pub(in crate::engine) fn end_gathering(&self, number: u64) {
        let was_under_way = self.core.queue.lock().end_gathering(number);
        if was_under_way {
            self.run_commits();
        }
    }

    /// Commits the writes that wait, on this thread. If a stall holds them back, this thread does
    /// what ends it, or refuses them. While commits are held off it leaves them to a job.
    pub(in crate::engine) fn commit_waiting(&self) {
        loop {
            let progress = self.commit_group(&mut self.core.log.lock(), GROUP_BYTES_MAX);
            match progress {
                CommitAttempt::Idle => return,
                CommitAttempt::Committed(_) => {}
                CommitAttempt::Stalled(stall) => self.relieve_or_refuse(stall),
                CommitAttempt::Held(left) => return self.core.schedule_commits(left),
            }
        }
    }
}

/// One group.
impl Store {
    /// Commits the writes that wait now as one group, or the first of them that fit
    /// `bytes_max` bytes of memory.
    fn commit_group(&self, committer: &mut Committer, bytes_max: usize) -> CommitAttempt {
        let core = &self.core;
        if core.queue.lock().is_empty() {
            return CommitAttempt::Idle;
        }
        if let Some(left) = committer.hold.left(core.now()) {
            return CommitAttempt::Held(left);
        }
        let prepared = match core.health.check_poison() {
            Ok(()) => self.prepare_memtable(committer),
            Err(error) => Err(error),
        };
        if let Ok(Some(stall)) = prepared {
            core.counters.stalls.fetch_add(1, Relaxed);
            return CommitAttempt::Stalled(stall);
        }
        let mut group = core.queue.take_group(bytes_max);
        let writes = group.len();
        for (refused, error) in core
            .closed_timestamp
            .take_refused(&mut group)
            .into_iter()
            .flatten()
        {
            if !refused.is_empty() {
                core.refuse(refused, &error);
            }
        }
        self.sift(committer, &mut group);
        if !group.is_empty() {
            let logged = prepared.and_then(|_| self.log_group(committer, &mut group));
            match logged {
                Ok(()) => self.apply(committer, group),
                Err(error) => core.refuse(group, &error),
            }
        }
        core.queue.lock().end_group();
        CommitAttempt::Committed(writes)
    }

    /// Takes out of a group what [promises](crate::engine::writes::promises) hold back, refuse or
    /// end.
    fn sift(&self, committer: &mut Committer, group: &mut Group) {
        if committer.promises.concern_none_of(group) {
            return;
        }
        let core = &self.core;
        let now = core.now();
        let sifted = committer.promises.sift(group, now);
        let mut deliveries = Deliveries::new(sifted.refused.len() + sifted.released.len());
        let mut queue = core.queue.lock();
        let too_many = queue.hold_back(sifted.waiting, now);
        for pending in sifted.released {
            queue.let_go(pending.entry.key());
            deliveries.add(pending.outbox, pending.ticket, Ok(Applied::Released));
        }
        let is_watched = queue.begin_watch();
        drop(queue);
        if is_watched {
            core.background
                .schedule(EngineJob::RefuseHeldBack, core.held_back_max());
        }
        self.refuse_overloaded(too_many);
        for (pending, error) in sifted.refused {
            deliveries.add(pending.outbox, pending.ticket, Err(error));
        }
        deliveries.send();
    }

    /// The job that refuses the writes that promises hold back for longer than a request waits: the
    /// key cannot be settled, and they take the room of others.
    pub(in crate::engine) fn refuse_held_back(&self) {
        let core = &self.core;
        let longest = core.held_back_max();
        let mut queue = core.queue.lock();
        let held = match core.now().checked_sub(longest) {
            Some(until) => queue.take_held_back(until),
            None => Group::new(),
        };
        let is_watched = queue.begin_watch();
        drop(queue);
        if is_watched {
            core.background.schedule(EngineJob::RefuseHeldBack, longest);
        }
        self.refuse_overloaded(held);
    }

    fn refuse_overloaded(&self, writes: Group) {
        if writes.is_empty() {
            return;
        }
        let core = &self.core;
        core.counters
            .refused_overloaded
            .fetch_add(writes.len() as u64, Relaxed);
        core.refuse(writes, &Error::Overloaded);
    }

    /// Makes sure that the active memtable has room. Returns the stall that must end first.
    fn prepare_memtable(&self, committer: &mut Committer) -> Result<Option<Stall>, Error> {
        let core = &self.core;
        if let Some(error) = core.health.failing().refuses(Work::Folder) {
            return Err(error);
        }
        let state = core.tables.load();
        if !core.log.is_memtable_full(committer, &state.active) {
            return Ok(None);
        }
        if let Some(stall) = self.stall(&state) {
            let refuses = || core.health.failing().refuses(Work::Flush);
            return match stall {
                Stall::Flush => refuses().map_or(Ok(Some(stall)), Err),
                Stall::Compaction => Ok(Some(stall)),
            };
        }
        core.log.freeze(committer, core).inspect_err(|_| {
            // It is noted, so that the store says that it refuses writes.
            let _same = core.health.failing().refuses(Work::Log);
        })?;
        Ok(None)
    }

    /// Makes a group as durable as the options say. When the disk is full, the
    /// puts are refused and taken out of the group, and the deletes tried again.
    fn log_group(&self, committer: &mut Committer, group: &mut Group) -> Result<(), Error> {
        let core = &self.core;
        let written = core.with_reserve(|| {
            if core.health.is_full() {
                let (deletes, puts) = split_deletes(std::mem::take(group));
                *group = deletes;
                core.refuse(puts, &Error::DiskFull);
            }
            let promises = group
                .iter()
                .filter(|pending| !pending.admission.is_version());
            let promises: Vec<Entry> = promises.map(|pending| pending.entry.clone()).collect();
            let written = committer.append_promises(&promises)?;
            let versions = group
                .iter()
                .filter(|pending| pending.admission.is_version());
            Ok(written + committer.append(versions.map(|pending| &pending.entry))?)
        })?;
        if group.is_empty() {
            return Ok(());
        }
        core.counters.commits.fetch_add(1, Relaxed);
        core.counters.log_written_bytes.fetch_add(written, Relaxed);
        core.log.after_append(committer, core);
        if core.options.durability.syncs_commits() {
            core.counters
                .time_sync(&*core.environment.clock, || committer.sync())
                .map_err(|error| core.poison(error))?;
        }
        Ok(())
    }

    /// Lets readers see a group that is in the log, and delivers the outcomes.
    fn apply(&self, committer: &mut Committer, group: Group) {
        let core = &self.core;
        let state = core.tables.load();
        let had_tombstones = state.active.has_tombstones();
        let mut writes = 0;
        let mut bytes = 0;
        let mut bytes_in_memory = 0;
        let mut greatest = Timestamp::ZERO;
        let now = core.now();
        let next_sequence = committer.next_sequence();
        committer.newer_versions.age(now, next_sequence);
        let mut deliveries = Deliveries::new(group.len());
        let keys = group.iter().map(|pending| pending.entry.key());
        state.active.prefetch(keys);
        for pending in group {
            let entry = pending.entry;
            let tag = entry.timestamp().as_u64();
            pending.stopwatch.stop_tagged(&wait_sites::COMMIT, tag);
            if let Admission::Promise { epoch, .. } = pending.admission {
                let replaced = committer.promises.make(&entry, epoch, now);
                let promised = Applied::Promised { replaced };
                deliveries.add(pending.outbox, pending.ticket, Ok(promised));
                continue;
            }
            writes += 1;
            bytes += entry.data_bytes() as u64;
            bytes_in_memory += memory_bytes(&entry) as u64;
            greatest = greatest.max(entry.timestamp());
            let sequence = committer.issue_sequence();
            let record = Record { sequence, entry };
            let rivals = state.active.insert(&record);
            let promises = &committer.promises;
            let is_overtaken = || promises.has_overtaken(&record.entry);
            let checks = &mut committer.newer_versions;
            let applied = check(checks, &state, &record, rivals, is_overtaken, now);
            if committer.promises.stored(&record.entry, pending.admission) {
                core.queue.lock().let_go(record.entry.key());
            }
            deliveries.add(pending.outbox, pending.ticket, Ok(applied));
        }
        if !had_tombstones && state.active.has_tombstones() {
            self.compactor.schedule_check(core);
        }
        core.acknowledged.add(writes);
        if core.options.durability.syncs_commits() {
            core.acknowledged.note_synced(core.acknowledged.committed());
        }
        core.snapshots.publish(committer.next_sequence() - 1);
        core.tables.note_timestamp(greatest);
        core.counters.writes.fetch_add(writes, Relaxed);
        core.counters.written_bytes.fetch_add(bytes, Relaxed);
        if let Some(rate) = self.write_rate(&state) {
            core.write_rate.charge(bytes_in_memory, rate, now);
        }
        deliveries.send();
    }
}
