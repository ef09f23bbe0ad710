//! Group commit: the life of a write.
//!
//! 1. A writer puts its entry in the queue, which is bounded in bytes.
//! 2. The commit job takes all that waits as one group. If the active memtable
//!    is full it is frozen first, and the log goes on in a new segment.
//! 3. The group is appended to the log and, with [`Durability::Sync`], synced.
//! 4. Only then is it inserted in the memtable: no reader sees a write that is
//!    less durable than its acknowledgement.
//! 5. Each outbox gets the outcomes of its writes, in one call.
//!
//! While a group syncs the next one gathers, so the groups grow with the load.

use super::Inner;
use super::state::State;
use crate::entry::{Entry, Kind, Record, VALUE_BYTES_MAX};
use crate::error::Error;
use crate::executor::Lane;
use crate::memtable::{Memtable, memory_bytes};
use crate::options::Durability;
use crate::sync::lock;
use crate::table::{Access, Interrupt};
use crate::timestamp::Timestamp;
use crate::wal::LogWriter;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// What a write found when it was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The greatest timestamp among the versions that the key held, the very
    /// same entry aside. Always exact when it is at or above the entry's own;
    /// a lesser one may go unreported, since nothing is read to find it.
    pub newest_held: Option<Timestamp>,
}

/// The end of a submitted write.
#[derive(Debug)]
pub struct Outcome {
    /// The number that the writer gave to [`super::Engine::submit`].
    pub ticket: u64,
    /// Stored as durably as the options say, or why not.
    pub result: Result<Applied, Error>,
}

/// Where the outcomes of submitted writes go. A writer thread has one of its
/// own, so that a group commit wakes each of them once.
pub trait Outbox: Send + Sync {
    /// Takes the outcomes of this outbox's writes in one group commit. Called
    /// on the commit lane; must not block.
    fn deliver(&self, outcomes: Vec<Outcome>);
}

/// The most bytes of entries that one group takes, its last entry aside. It
/// bounds how long the writes of the next group wait.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// After a group of so many writes, the next is given time to gather.
const LINGER_GROUP_MIN: usize = 8;

/// How long a group gathers under load. Short beside what the writers of a
/// large group wait anyway, long enough to halve the groups, and with them the
/// syncs and the wakes.
const LINGER: Duration = Duration::from_micros(200);

/// So many level-0 tables are no debt yet.
const LEVEL_0_TABLES_SLOW: usize = 12;

/// With so many level-0 tables, no memtable is frozen until compaction has caught up.
const LEVEL_0_TABLES_STOP: usize = 48;

/// The longest that a group is held back to slow the writers.
const SLOWDOWN_MAX: Duration = Duration::from_millis(20);

/// Slowdowns below this are not worth a timer.
const SLOWDOWN_MIN: Duration = Duration::from_micros(200);

/// A write that waits for its group.
pub(super) struct Pending {
    entry: Entry,
    outbox: Arc<dyn Outbox>,
    ticket: u64,
}

/// The writes that wait for the next group.
#[derive(Default)]
pub(super) struct Queue {
    pending: VecDeque<Pending>,
    bytes: usize,
    /// Whether a commit job is on its way, or will be woken by a flush or compaction.
    scheduled: bool,
    /// Whether the commit job waits for a flush or compaction to end.
    stalled: bool,
    closed: bool,
}

impl Queue {
    /// The least timestamp that waits here; the greatest possible when none does.
    pub(super) fn least_timestamp(&self) -> Timestamp {
        let timestamps = self.pending.iter().map(|pending| pending.entry.timestamp());
        timestamps.min().unwrap_or(Timestamp::MAX)
    }
}

/// What only the holder of the commit lock touches.
pub(super) struct Committer {
    pub(super) log: LogWriter,
    /// The arrival of the next record.
    pub(super) next_arrival: u64,
    /// Whether an interval sync is on its way.
    sync_scheduled: bool,
}

impl Committer {
    pub(super) fn new(log: LogWriter, next_arrival: u64) -> Self {
        Self {
            log,
            next_arrival,
            sync_scheduled: false,
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

/// What a stalled commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stall {
    Flush,
    Compaction,
}

impl Inner {
    /// Puts a write in the queue and makes sure that a commit job comes for it.
    pub(super) fn submit(
        self: &Arc<Self>,
        entry: Entry,
        outbox: &Arc<dyn Outbox>,
        ticket: u64,
    ) -> Result<(), Error> {
        let mut queue = lock(&self.queue);
        self.enqueue(&mut queue, entry, outbox, ticket)?;
        self.schedule_commits(queue);
        Ok(())
    }

    /// Puts many writes in the queue at once; those refused end there.
    pub(super) fn submit_batch(
        self: &Arc<Self>,
        batch: impl IntoIterator<Item = (Entry, u64)>,
        outbox: &Arc<dyn Outbox>,
    ) {
        let mut refused = Vec::new();
        let mut queue = lock(&self.queue);
        for (entry, ticket) in batch {
            if let Err(error) = self.enqueue(&mut queue, entry, outbox, ticket) {
                let result = Err(error);
                refused.push(Outcome { ticket, result });
            }
        }
        self.schedule_commits(queue);
        if !refused.is_empty() {
            outbox.deliver(refused);
        }
    }

    /// Writes on the caller's thread, as the leader of a group or by another's lead.
    pub(super) fn write(self: &Arc<Self>, entry: Entry) -> Result<Applied, Error> {
        let cell = Arc::new(OutcomeCell::default());
        let outbox: Arc<dyn Outbox> = Arc::clone(&cell) as _;
        self.enqueue(&mut lock(&self.queue), entry, &outbox, 0)?;
        loop {
            if let Some(result) = cell.take() {
                return result;
            }
            let progress = self.commit_group(&mut lock(&self.committer));
            match progress {
                Progress::Committed(_) => {}
                Progress::Stalled(stall) => self.relieve_or_refuse(stall),
                // Another leader has taken the write, and delivers it before
                // it lets go of the commit lock or soon after.
                Progress::Idle => return cell.wait(),
            }
        }
    }

    /// Makes sure that a commit job comes for what is in the queue.
    fn schedule_commits(self: &Arc<Self>, mut queue: MutexGuard<'_, Queue>) {
        let schedule = !queue.pending.is_empty() && !std::mem::replace(&mut queue.scheduled, true);
        drop(queue);
        if schedule {
            self.spawn_commits(Duration::ZERO);
        }
    }

    fn enqueue(
        &self,
        queue: &mut Queue,
        entry: Entry,
        outbox: &Arc<dyn Outbox>,
        ticket: u64,
    ) -> Result<(), Error> {
        check(&entry)?;
        self.check_poison()?;
        if entry.kind() == Kind::Value && self.space.is_full() {
            self.counters.refused_disk_full.fetch_add(1, Relaxed);
            return Err(Error::DiskFull);
        }
        if queue.closed {
            return Err(Error::Closed);
        }
        let bytes = memory_bytes(&entry);
        if queue.bytes + bytes > self.options.write_queue_bytes_max && !queue.pending.is_empty() {
            self.counters.refused_overloaded.fetch_add(1, Relaxed);
            return Err(Error::Overloaded);
        }
        queue.bytes += bytes;
        queue.pending.push_back(Pending {
            entry,
            outbox: Arc::clone(outbox),
            ticket,
        });
        Ok(())
    }

    fn spawn_commits(self: &Arc<Self>, delay: Duration) {
        self.spawn(Lane::Commit, delay, move |inner| {
            // A job that was delayed has paid for its first group.
            inner.run_commits(delay != Duration::ZERO);
        });
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
            let progress = self.commit_group(&mut lock(&self.committer));
            match progress {
                Progress::Committed(writes) if writes >= LINGER_GROUP_MIN => {
                    self.spawn_commits(LINGER);
                    return;
                }
                Progress::Committed(_) => {}
                Progress::Idle => {
                    let mut queue = lock(&self.queue);
                    if queue.pending.is_empty() {
                        queue.scheduled = false;
                        return;
                    }
                }
                Progress::Stalled(_) => {
                    lock(&self.queue).stalled = true;
                    // The stall may have ended before it was noted; whoever
                    // clears the note goes on.
                    if self.stall(&self.state.load()).is_some()
                        || !std::mem::take(&mut lock(&self.queue).stalled)
                    {
                        return;
                    }
                }
            }
        }
    }

    /// Ends a stall because what it waits for has failed: the writes that wait fail too.
    pub(super) fn fail_stall(self: &Arc<Self>, error: &Error) {
        if lock(&self.queue).stalled {
            self.refuse(self.take_group(), error);
            self.end_stall();
        }
    }

    /// Wakes a commit job that waited for a flush or a compaction.
    pub(super) fn end_stall(self: &Arc<Self>) {
        if std::mem::take(&mut lock(&self.queue).stalled) {
            self.spawn_commits(Duration::ZERO);
        }
    }

    /// Does what a stalled commit waits for, on this thread. If that fails,
    /// the writes that wait for it fail too.
    fn relieve_or_refuse(self: &Arc<Self>, stall: Stall) {
        let relieved = match stall {
            Stall::Flush => self.flush_oldest().map(|_| ()),
            Stall::Compaction => self.compact_once(),
        };
        if let Err(error) = relieved {
            self.refuse(self.take_group(), &error);
        }
    }

    /// How long the next group is held back so that flush and compaction keep
    /// up: nothing while they do, more the nearer the writers are to a stall.
    fn slowdown(&self) -> Duration {
        let state = self.state.load();
        let mut severity = 0.0_f64;
        if state.frozen.len() >= self.options.memtables_frozen_max {
            let fill = state.active.bytes() as f64 / self.options.memtable_bytes as f64;
            severity = severity.max(fill * 2.0 - 1.0);
        }
        if self.options.compaction {
            let tables = state.tables.levels()[0].len() as f64;
            let (slow, stop) = (LEVEL_0_TABLES_SLOW as f64, LEVEL_0_TABLES_STOP as f64);
            severity = severity.max((tables - slow) / (stop - slow));
        }
        SLOWDOWN_MAX.mul_f64(severity.clamp(0.0, 1.0).powi(2))
    }

    /// Why the active memtable may not be frozen now.
    fn stall(&self, state: &State) -> Option<Stall> {
        if state.active.bytes() < self.options.memtable_bytes {
            None
        } else if state.frozen.len() >= self.options.memtables_frozen_max {
            Some(Stall::Flush)
        } else if self.options.compaction
            // On a full disk compaction may have no room; deletes go on.
            && !self.space.is_full()
            && state.tables.levels()[0].len() >= LEVEL_0_TABLES_STOP
        {
            Some(Stall::Compaction)
        } else {
            None
        }
    }

    /// Commits the writes that wait now, as one group.
    fn commit_group(self: &Arc<Self>, committer: &mut Committer) -> Progress {
        if lock(&self.queue).pending.is_empty() {
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
        let mut group = self.take_group();
        let writes = group.len();
        let logged = prepared.and_then(|_| self.log_group(committer, &mut group));
        match logged {
            Ok(()) => self.apply(committer, group),
            Err(error) => self.refuse(group, &error),
        }
        Progress::Committed(writes)
    }

    /// Makes sure that the active memtable has room; tells what must end before it can.
    fn prepare_memtable(
        self: &Arc<Self>,
        committer: &mut Committer,
    ) -> Result<Option<Stall>, Error> {
        let state = self.state.load();
        if state.active.bytes() < self.options.memtable_bytes {
            return Ok(None);
        }
        if let Some(stall) = self.stall(&state) {
            return Ok(Some(stall));
        }
        self.freeze(committer)?;
        Ok(None)
    }

    fn take_group(&self) -> VecDeque<Pending> {
        let mut queue = lock(&self.queue);
        let mut bytes = 0;
        let mut count = 0;
        for pending in &queue.pending {
            if bytes >= GROUP_BYTES_MAX {
                break;
            }
            bytes += memory_bytes(&pending.entry);
            count += 1;
        }
        queue.bytes -= bytes;
        let mut group: VecDeque<Pending> = if count == queue.pending.len() {
            std::mem::take(&mut queue.pending)
        } else {
            queue.pending.drain(..count).collect()
        };
        drop(queue);
        // Nothing orders the writes that wait together. By their timestamps
        // most are newer than all before them, which the memtable takes faster.
        group
            .make_contiguous()
            .sort_by_key(|pending| pending.entry.timestamp());
        group
    }

    /// Makes a group as durable as the options say. When the disk is full the
    /// puts are refused and taken out of the group, and the deletes tried again.
    fn log_group(
        self: &Arc<Self>,
        committer: &mut Committer,
        group: &mut VecDeque<Pending>,
    ) -> Result<(), Error> {
        if self.space.is_full() {
            self.refuse_puts(group);
        }
        let mut appended = append(committer, group);
        if matches!(appended, Err(Error::DiskFull)) {
            self.enter_full();
            self.refuse_puts(group);
            appended = append(committer, group);
        }
        if group.is_empty() {
            return Ok(());
        }
        self.log_bytes
            .store(committer.log.allocated_bytes(), Relaxed);
        let written = match appended {
            Ok(written) => written,
            Err(Error::DiskFull) => return Err(Error::DiskFull),
            Err(error) => return Err(self.poison(error)),
        };
        self.counters.commits.fetch_add(1, Relaxed);
        self.counters.log_written_bytes.fetch_add(written, Relaxed);
        match self.options.durability {
            Durability::Sync => {
                self.counters.log_syncs.fetch_add(1, Relaxed);
                committer.log.sync().map_err(|error| self.poison(error))?;
            }
            Durability::Interval(interval) => {
                if !std::mem::replace(&mut committer.sync_scheduled, true) {
                    self.spawn(Lane::Log, interval, Self::sync_log);
                }
            }
            Durability::Os => {}
        }
        Ok(())
    }

    /// Ends the writes of a group with an error.
    fn refuse(&self, group: VecDeque<Pending>, error: &Error) {
        if matches!(error, Error::DiskFull) {
            self.counters
                .refused_disk_full
                .fetch_add(group.len() as u64, Relaxed);
        }
        let mut deliveries = Deliveries::new(group.len());
        for pending in group {
            deliveries.add(pending.outbox, pending.ticket, Err(error.clone()));
        }
        deliveries.send();
    }

    /// Refuses the puts of a group for want of space.
    fn refuse_puts(&self, group: &mut VecDeque<Pending>) {
        let (deletes, puts): (VecDeque<_>, VecDeque<_>) = std::mem::take(group)
            .into_iter()
            .partition(|pending| pending.entry.kind() == Kind::Tombstone);
        self.refuse(puts, &Error::DiskFull);
        *group = deletes;
    }

    /// Syncs what the log holds now without holding up the commits meanwhile.
    fn sync_log(self: &Arc<Self>) {
        let unsynced = {
            let mut committer = lock(&self.committer);
            committer.sync_scheduled = false;
            committer.log.unsynced()
        };
        let Some((segment, file, path, position)) = unsynced else {
            return;
        };
        self.counters.log_syncs.fetch_add(1, Relaxed);
        match file.sync() {
            Ok(()) => lock(&self.committer).log.synced_up_to(segment, position),
            Err(error) => {
                self.poison(Error::sync(&path, error));
            }
        }
    }

    /// Lets readers see a group that is in the log, and tells the writers.
    fn apply(&self, committer: &mut Committer, group: VecDeque<Pending>) {
        let state = self.state.load();
        let writes = group.len() as u64;
        let mut bytes = 0;
        let mut greatest = Timestamp::ZERO;
        let mut deliveries = Deliveries::new(group.len());
        for pending in group {
            let entry = pending.entry;
            bytes += entry.data_bytes() as u64;
            greatest = greatest.max(entry.timestamp());
            let elsewhere = newest_elsewhere(&state, &entry);
            let arrival = committer.next_arrival;
            committer.next_arrival += 1;
            let here = state.active.insert(Record { arrival, entry });
            let applied = Applied {
                newest_held: here.max(elsewhere),
            };
            deliveries.add(pending.outbox, pending.ticket, Ok(applied));
        }
        self.snapshots.publish(committer.next_arrival - 1);
        self.greatest_timestamp
            .fetch_max(greatest.as_u64(), Relaxed);
        self.counters.writes.fetch_add(writes, Relaxed);
        self.counters.written_bytes.fetch_add(bytes, Relaxed);
        deliveries.send();
    }

    /// Ends the active memtable: the log goes on in the next segment, and the
    /// memtable waits for its flush.
    pub(super) fn freeze(self: &Arc<Self>, committer: &mut Committer) -> Result<(), Error> {
        let next = match self.next_segment() {
            Err(Error::DiskFull) => {
                self.enter_full();
                self.next_segment()
            }
            next => next,
        };
        let next = next.map_err(|error| self.poison_unless_full(error))?;
        if let Err(error) = committer.log.seal() {
            *lock(&self.spare_segment) = Some(next);
            return Err(self.poison_unless_full(error));
        }
        let sealed = std::mem::replace(&mut committer.log, next);
        {
            let mut sealed_segments = lock(&self.sealed_segments);
            sealed_segments.insert(sealed.segment(), sealed.allocated_bytes());
            let mut state = State::clone(&self.state.load());
            state.frozen.push(state.active);
            state.active = Arc::new(Memtable::new(committer.log.segment()));
            self.state.store(Arc::new(state));
        }
        self.schedule_flush(Duration::ZERO);
        self.spawn(Lane::Log, Duration::ZERO, Self::prepare_segment);
        Ok(())
    }

    /// The segment after the current one: the one prepared, or one made now.
    fn next_segment(&self) -> Result<LogWriter, Error> {
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
        if spare.is_some() || self.space.is_full() || self.check_poison().is_err() {
            return;
        }
        match self.create_segment(self.log_segment.load(Relaxed) + 1) {
            Ok(segment) => *spare = Some(segment),
            // It is tried again when it is needed, and reported then.
            Err(error) => tracing::debug!(%error, "could not prepare a log segment"),
        }
    }

    fn create_segment(&self, segment: u64) -> Result<LogWriter, Error> {
        LogWriter::create(
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

    /// Refuses writes from now on and commits those that wait.
    pub(super) fn drain(self: &Arc<Self>) {
        lock(&self.queue).closed = true;
        loop {
            let progress = self.commit_group(&mut lock(&self.committer));
            match progress {
                Progress::Idle => return,
                Progress::Committed(_) => {}
                Progress::Stalled(stall) => self.relieve_or_refuse(stall),
            }
        }
    }

    /// The least timestamp of the writes that readers do not see yet. No group
    /// may be under way: the caller holds the commit lock.
    pub(super) fn least_timestamp_waiting(&self) -> Timestamp {
        lock(&self.queue).least_timestamp()
    }
}

fn check(entry: &Entry) -> Result<(), Error> {
    if entry.key().is_empty() || entry.key().len() > crate::KEY_BYTES_MAX {
        return Err(Error::Invalid(format!(
            "a key has 1 to {} bytes, not {}",
            crate::KEY_BYTES_MAX,
            entry.key().len()
        )));
    }
    if entry.value_bytes().len() > VALUE_BYTES_MAX {
        return Err(Error::Invalid(format!(
            "a value has at most {VALUE_BYTES_MAX} bytes, not {}",
            entry.value_bytes().len()
        )));
    }
    Ok(())
}

fn append(committer: &mut Committer, group: &VecDeque<Pending>) -> Result<u64, Error> {
    if group.is_empty() {
        // An empty group would seal the segment.
        return Ok(0);
    }
    committer
        .log
        .append(group.iter().map(|pending| &pending.entry))
}

/// The greatest timestamp at or above `entry`'s own among the versions of its
/// key outside the active memtable, the identical version aside. With sound
/// clocks nothing there is so new, and nothing is looked up.
fn newest_elsewhere(state: &State, entry: &Entry) -> Option<Timestamp> {
    let floor = entry.timestamp();
    let other = |held: Entry| (held.rank() != entry.rank()).then(|| held.timestamp());
    let mut newest = None;
    for memtable in &state.frozen {
        if memtable.greatest_timestamp() >= floor {
            newest = newest.max(memtable.newest(entry.key()).and_then(other));
        }
    }
    if state.tables.greatest_timestamp() >= floor {
        match state
            .tables
            .newest(entry.key(), None, floor, Access::MayRead)
        {
            Ok(held) => newest = newest.max(held.and_then(other)),
            Err(Interrupt::Failed(error)) => {
                // The write itself is stored. To claim the newest possible would
                // only make its coordinator stamp it anew, so claim what is known.
                tracing::error!(%error, "could not read a newer version of a key");
            }
            Err(Interrupt::WouldBlock) => {}
        }
    }
    newest
}

/// The outcomes of a group, by outbox.
struct Deliveries {
    /// A group comes from as many outboxes as a node has runtimes: a short list.
    outboxes: Vec<(Arc<dyn Outbox>, Vec<Outcome>)>,
    expected: usize,
}

impl Deliveries {
    fn new(expected: usize) -> Self {
        Self {
            outboxes: Vec::new(),
            expected,
        }
    }

    fn add(&mut self, outbox: Arc<dyn Outbox>, ticket: u64, result: Result<Applied, Error>) {
        let outcome = Outcome { ticket, result };
        let known = self
            .outboxes
            .iter_mut()
            .find(|(known, _)| Arc::ptr_eq(known, &outbox));
        match known {
            Some((_, outcomes)) => outcomes.push(outcome),
            None => {
                let mut outcomes = Vec::with_capacity(self.expected);
                outcomes.push(outcome);
                self.outboxes.push((outbox, outcomes));
            }
        }
    }

    /// Gives each outbox its outcomes, in one call.
    fn send(self) {
        for (outbox, outcomes) in self.outboxes {
            outbox.deliver(outcomes);
        }
    }
}

/// The outbox of one blocking write.
#[derive(Default)]
struct OutcomeCell {
    result: Mutex<Option<Result<Applied, Error>>>,
    arrived: Condvar,
}

impl OutcomeCell {
    fn take(&self) -> Option<Result<Applied, Error>> {
        lock(&self.result).take()
    }

    fn wait(&self) -> Result<Applied, Error> {
        let mut result = lock(&self.result);
        loop {
            if let Some(result) = result.take() {
                return result;
            }
            result = self
                .arrived
                .wait(result)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

impl Outbox for OutcomeCell {
    fn deliver(&self, outcomes: Vec<Outcome>) {
        if let Some(outcome) = outcomes.into_iter().next() {
            *lock(&self.result) = Some(outcome.result);
            self.arrived.notify_one();
        }
    }
}
