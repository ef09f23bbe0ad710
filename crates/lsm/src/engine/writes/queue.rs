//! The queue of writes that wait for the next group commit, bounded in bytes.

use super::admission::Admission;
use super::outbox::Outbox;
use crate::error::Error;
use crate::locks::lock;
use crate::locks::sites as wait_sites;
use crate::memtable::memory_bytes;
use crate::options::Options;
use base::{Entry, KEY_BYTES_MAX, Kind, Timestamp, VALUE_BYTES_MAX};
use profile::Stopwatch;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The most memory that the entries of a group take, in bytes, unless it is one
/// entry. It bounds how long the writes of the next group wait.
pub(in crate::engine) const GROUP_BYTES_MAX: usize = 4 << 20;

/// Writes that promises hold back take at most this share of the queue's bytes.
const HELD_BACK_SHARE: usize = 4;

/// Writes that promises hold back, by their keys.
#[derive(Default)]
struct HeldBack {
    writes: BTreeMap<Box<[u8]>, Vec<HeldWrite>>,
    bytes: usize,
    /// Whether a look for those that have waited for too long is to come.
    is_watched: bool,
}

/// A write that is held back.
struct HeldWrite {
    pending: PendingWrite,
    /// Since when, by the monotonic clock.
    since: Duration,
}

/// A write that waits for its group, or is in one.
pub(in crate::engine) struct PendingWrite {
    pub(in crate::engine) entry: Entry,
    pub(in crate::engine) admission: Admission,
    pub(in crate::engine) outbox: Arc<dyn Outbox>,
    pub(in crate::engine) ticket: u64,
    /// How long it waits: first for its group, then for the group's end.
    pub(in crate::engine) stopwatch: Stopwatch,
}

/// Writes that are committed together.
pub(in crate::engine) type Group = VecDeque<PendingWrite>;

/// A group that gathers: the commit job waits until it is large enough.
struct Gathering {
    /// Tells this gathering from later ones, because the job that ends it when
    /// its time is over may come late.
    number: u64,
    /// The number of waiting writes that ends it.
    writes: usize,
    /// The memory of the waiting writes that ends it, in bytes.
    bytes: usize,
}

/// What is left to do so that the writes that were just added to the queue are
/// committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum CommitStart {
    /// A commit job is scheduled or will be woken, or another thread commits: do
    /// nothing.
    Scheduled,
    /// No commit is scheduled: commit in place, or schedule a commit job.
    Unscheduled,
    /// The commit job waited for these writes to gather: schedule it now.
    Gathered,
}

/// The owner of the writes that wait.
///
/// Its one lock is the last that the engine takes, but for those of a memtable.
/// It is held briefly, and never across a call to the disk.
pub(in crate::engine) struct WriteQueue {
    state: Mutex<QueueState>,
}

/// The writes that wait for the next group, and the state of the commit job.
pub(in crate::engine) struct QueueState {
    waiting: Group,
    /// Writes that wait until a [promise](super::promises) is gone.
    held_back: HeldBack,
    bytes: usize,
    bytes_max: usize,
    group_bytes_max: usize,
    /// The least timestamp of the group under way, which has left the queue and
    /// is not in a memtable yet.
    least_timestamp_under_way: Option<Timestamp>,
    /// Whether a commit is certain to come: a commit job is scheduled or will be
    /// woken when a stall ends, or a submitting thread commits in place.
    scheduled: bool,
    /// What the commit job waits for while a group gathers.
    gathering: Option<Gathering>,
    /// How many groups have gathered so far.
    gatherings: u64,
    /// When the last group was committed after which the next might gather, by the monotonic
    /// clock.
    cycle_ended: Duration,
    /// Whether the commit job waits for a flush or a compaction to end.
    stalled: bool,
    /// Whether writes are refused because the store is being closed.
    closed: bool,
}

impl WriteQueue {
    /// An empty queue.
    pub(in crate::engine) fn new(options: &Options) -> Self {
        Self {
            state: Mutex::new(QueueState {
                waiting: Group::new(),
                held_back: HeldBack::default(),
                bytes: 0,
                bytes_max: options.write_queue_bytes_max,
                group_bytes_max: options.memtable_bytes / 2,
                least_timestamp_under_way: None,
                scheduled: false,
                gathering: None,
                gatherings: 0,
                cycle_ended: Duration::ZERO,
                stalled: false,
                closed: false,
            }),
        }
    }

    /// Locks the queue.
    pub(in crate::engine) fn lock(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }

    /// Takes the next group, of at most `bytes_max` bytes of memory unless it is one
    /// entry. Until [`QueueState::end_group`] it counts as under way.
    pub(in crate::engine) fn take_group(&self, bytes_max: usize) -> Group {
        let mut group = self.lock().take_group(bytes_max);
        // The writes of a group have no order yet. In timestamp order most of them
        // are newer than everything before, and the memtable inserts such records
        // faster.
        group
            .make_contiguous()
            .sort_by_key(|pending| pending.entry.timestamp());
        for pending in &mut group {
            let tag = pending.entry.timestamp().as_u64();
            pending.stopwatch.stop_tagged(&wait_sites::GATHER, tag);
            pending.stopwatch = Stopwatch::start();
        }
        group
    }
}

impl QueueState {
    /// Whether no write waits.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The memory of the writes that wait, in bytes.
    pub(in crate::engine) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Checks that a closed store gets no writes.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(in crate::engine) fn check_closed(&self) -> Result<(), Error> {
        if self.closed {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// Refuses all writes from now on.
    pub(in crate::engine) fn close(&mut self) {
        self.closed = true;
    }

    /// Adds a write.
    ///
    /// # Errors
    /// [`Error::Overloaded`]: the queue is full.
    pub(in crate::engine) fn push(
        &mut self,
        entry: Entry,
        admission: Admission,
        outbox: &Arc<dyn Outbox>,
        ticket: u64,
    ) -> Result<(), Error> {
        let bytes = memory_bytes(&entry);
        if self.bytes + bytes > self.bytes_max && !self.is_empty() {
            return Err(Error::Overloaded);
        }
        self.bytes += bytes;
        self.waiting.push_back(PendingWrite {
            entry,
            admission,
            outbox: Arc::clone(outbox),
            ticket,
            stopwatch: Stopwatch::start(),
        });
        Ok(())
    }

    /// Marks a commit as certain to come for the writes that wait. Returns what the
    /// caller has to do for that.
    pub(in crate::engine) fn start_commit(&mut self) -> CommitStart {
        let is_first = !self.is_empty() && !std::mem::replace(&mut self.scheduled, true);
        if is_first {
            CommitStart::Unscheduled
        } else if self.has_gathered() {
            CommitStart::Gathered
        } else {
            CommitStart::Scheduled
        }
    }

    /// Notes that no commit is scheduled any more, if no write waits. Returns
    /// whether that is so.
    pub(in crate::engine) fn end_commits_if_empty(&mut self) -> bool {
        if self.is_empty() {
            self.scheduled = false;
        }
        self.is_empty()
    }

    /// Notes that a group was committed after which the next might gather. Returns how long ago
    /// the last such group was: in that time the writes of this one have come.
    pub(in crate::engine) fn end_cycle(&mut self, now: Duration) -> Duration {
        now.saturating_sub(std::mem::replace(&mut self.cycle_ended, now))
    }

    /// Makes the commit job wait until `writes` writes wait, or many bytes. Returns
    /// the number for [`QueueState::end_gathering`], or [`None`] if as many wait
    /// already.
    pub(in crate::engine) fn gather(&mut self, writes: usize) -> Option<u64> {
        let gathering = Gathering {
            number: self.gatherings + 1,
            writes,
            // Where values are long, the queue would fill and refuse writes.
            bytes: GROUP_BYTES_MAX.min(self.bytes_max / 2),
        };
        if self.suffices(&gathering) {
            return None;
        }
        self.gatherings = gathering.number;
        self.gathering = Some(gathering);
        Some(self.gatherings)
    }

    fn suffices(&self, gathering: &Gathering) -> bool {
        self.waiting.len() >= gathering.writes || self.bytes >= gathering.bytes
    }

    /// Ends a gathering whose time is over. Returns whether it was still under way.
    pub(in crate::engine) fn end_gathering(&mut self, number: u64) -> bool {
        let ended = self
            .gathering
            .take_if(|under_way| under_way.number == number);
        ended.is_some()
    }

    /// Ends a gathering that is large enough. Returns whether there was one.
    fn has_gathered(&mut self) -> bool {
        let is_enough = |gathering: &Gathering| self.suffices(gathering);
        let has_gathered = self.gathering.as_ref().is_some_and(is_enough);
        if has_gathered {
            self.gathering = None;
        }
        has_gathered
    }

    /// The least timestamp of the writes that no memtable has yet; the greatest
    /// possible when there are none.
    pub(in crate::engine) fn least_timestamp(&self) -> Timestamp {
        let held = self.held_back.writes.values().flatten();
        let waiting = (self.waiting.iter()).chain(held.map(|held| &held.pending));
        let waiting = waiting.map(|pending| pending.entry.timestamp());
        let all = waiting.chain(self.least_timestamp_under_way);
        all.min().unwrap_or(Timestamp::MAX)
    }

    fn take_group(&mut self, bytes_max: usize) -> Group {
        let bytes_max = bytes_max.min(self.group_bytes_max);
        let mut bytes = 0;
        let mut count = 0;
        for pending in &self.waiting {
            let more = memory_bytes(&pending.entry);
            if count > 0 && bytes + more > bytes_max {
                break;
            }
            bytes += more;
            count += 1;
        }
        self.bytes -= bytes;
        let group: Group = if count == self.waiting.len() {
            std::mem::take(&mut self.waiting)
        } else {
            self.waiting.drain(..count).collect()
        };
        let timestamps = group.iter().map(|pending| pending.entry.timestamp());
        self.least_timestamp_under_way = timestamps.min();
        group
    }

    /// Notes that the group under way is in the memtable, or was refused.
    pub(in crate::engine) fn end_group(&mut self) {
        self.least_timestamp_under_way = None;
    }

    /// Takes all writes that wait, to refuse them.
    pub(in crate::engine) fn take_waiting(&mut self) -> Group {
        self.bytes = 0;
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.extend(self.take_held_back(Duration::MAX));
        waiting
    }

    /// Takes back writes of a group, which wait until a promise of their key is gone. Returns those
    /// for which there is no room: all together take at most a share of the queue's bytes, unless
    /// it is one entry, so that other keys do not suffer.
    pub(in crate::engine) fn hold_back(&mut self, writes: Group, since: Duration) -> Group {
        let held_back = &mut self.held_back;
        let mut refused = Group::new();
        for pending in writes {
            let bytes = held_back.bytes + memory_bytes(&pending.entry);
            if bytes > self.bytes_max / HELD_BACK_SHARE && !held_back.writes.is_empty() {
                refused.push_back(pending);
            } else {
                held_back.bytes = bytes;
                let of_key = match held_back.writes.get_mut(pending.entry.key()) {
                    Some(of_key) => of_key,
                    None => held_back
                        .writes
                        .entry(pending.entry.key().into())
                        .or_default(),
                };
                of_key.push(HeldWrite { pending, since });
            }
        }
        refused
    }

    /// Whether a look for writes that are held back for too long is to be scheduled, which then
    /// counts as scheduled until [`QueueState::take_held_back`].
    pub(in crate::engine) fn begin_watch(&mut self) -> bool {
        let held_back = &mut self.held_back;
        !held_back.writes.is_empty() && !std::mem::replace(&mut held_back.is_watched, true)
    }

    /// Takes the writes that are held back since this time or longer.
    pub(in crate::engine) fn take_held_back(&mut self, until: Duration) -> Group {
        let held_back = &mut self.held_back;
        held_back.is_watched = false;
        let mut taken = Group::new();
        for of_key in held_back.writes.values_mut() {
            let old = of_key.extract_if(.., |held| held.since <= until);
            taken.extend(old.map(|held| held.pending));
        }
        held_back.writes.retain(|_, of_key| !of_key.is_empty());
        let bytes = taken.iter().map(|pending| memory_bytes(&pending.entry));
        held_back.bytes -= bytes.sum::<usize>();
        taken
    }

    /// Has the writes go on that a promise of this key has held back. The caller commits, or sees
    /// to it that a commit comes.
    pub(in crate::engine) fn let_go(&mut self, key: &[u8]) {
        let Some(freed) = self.held_back.writes.remove(key) else {
            return;
        };
        let bytes = freed.iter().map(|held| memory_bytes(&held.pending.entry));
        let bytes = bytes.sum::<usize>();
        self.held_back.bytes -= bytes;
        self.bytes += bytes;
        self.waiting
            .extend(freed.into_iter().map(|held| held.pending));
    }

    /// Notes that the commit job waits for a flush or a compaction.
    pub(in crate::engine) fn stall(&mut self) {
        self.stalled = true;
    }

    /// Whether the commit job waits for a flush or a compaction.
    pub(in crate::engine) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Ends the stall. Returns whether there was one: the caller that gets `true` has
    /// to continue the commits, and no other caller does.
    pub(in crate::engine) fn take_stall(&mut self) -> bool {
        std::mem::take(&mut self.stalled)
    }
}

/// Checks that the store can hold an entry.
///
/// # Errors
/// [`Error::Invalid`].
pub(in crate::engine) fn check_lengths(entry: &Entry) -> Result<(), Error> {
    if entry.key().is_empty() || entry.key().len() > KEY_BYTES_MAX {
        return Err(Error::Invalid(format!(
            "a key has 1 to {KEY_BYTES_MAX} bytes, not {}",
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

/// Splits a group into its deletes and its puts.
pub(in crate::engine) fn split_deletes(group: Group) -> (Group, Group) {
    group
        .into_iter()
        .partition(|pending| pending.entry.kind() == Kind::Tombstone)
}
