//! The queue of writes that wait for the next group commit, bounded in bytes.

use super::Inner;
use super::outbox::{Deliveries, Outbox, Outcome};
use crate::error::Error;
use crate::memtable::memory_bytes;
use crate::sync::lock;
use crate::wait_sites;
use base::{Entry, KEY_BYTES_MAX, Kind, Timestamp, VALUE_BYTES_MAX};
use profile::Stopwatch;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// The most memory that the entries of any group take, unless it is one entry.
/// It bounds how long the writes of the next group wait.
pub(super) const GROUP_BYTES_MAX: usize = 4 << 20;

/// A write that waits for its group, or is in one.
pub(super) struct Pending {
    pub(super) entry: Entry,
    pub(super) outbox: Arc<dyn Outbox>,
    pub(super) ticket: u64,
    /// How long it waits: first for its group, then for the group's end.
    pub(super) stopwatch: Stopwatch,
}

/// Writes that are committed together.
pub(super) type Group = VecDeque<Pending>;

/// A group that gathers.
struct Gathering {
    /// Which one it is: the job that ends it when its time is over may come late.
    number: u64,
    /// It ends once so many writes wait,
    writes: usize,
    /// or writes of so many bytes.
    bytes: usize,
}

/// The writes that wait for the next group, and the state of the commit job.
#[derive(Default)]
pub(super) struct Queue {
    pending: Group,
    bytes: usize,
    /// The least timestamp of the group under way, which is neither here nor
    /// in a memtable yet.
    least_timestamp_under_way: Option<Timestamp>,
    /// Whether somebody is committing or will: a commit job that is on its way
    /// or will be woken when a stall ends, or a writer in place.
    pub(super) scheduled: bool,
    /// What the commit job waits for while a group gathers.
    gathering: Option<Gathering>,
    /// How many groups have gathered so far.
    gatherings: u64,
    /// Whether the commit job waits for a flush or a compaction to end.
    pub(super) stalled: bool,
    /// Whether writes are refused because the store is being closed.
    pub(super) closed: bool,
}

impl Queue {
    /// Whether no write waits.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// What the writes that wait take, in bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Has the commit job wait until so many writes, or bytes, wait; [`None`]
    /// where they do. Gives the number for [`Queue::end_gathering`].
    pub(super) fn gather(&mut self, writes: usize, bytes: usize) -> Option<u64> {
        let gathering = Gathering {
            number: self.gatherings + 1,
            writes,
            bytes,
        };
        if self.suffices(&gathering) {
            return None;
        }
        self.gatherings = gathering.number;
        self.gathering = Some(gathering);
        Some(self.gatherings)
    }

    fn suffices(&self, gathering: &Gathering) -> bool {
        self.pending.len() >= gathering.writes || self.bytes >= gathering.bytes
    }

    /// The time of a gathering is over; tells whether it still was under way.
    pub(super) fn end_gathering(&mut self, number: u64) -> bool {
        let ended = self
            .gathering
            .take_if(|under_way| under_way.number == number);
        ended.is_some()
    }

    /// Whether the commit job has to be told that what it waits for is there.
    fn has_gathered(&mut self) -> bool {
        let is_enough = |gathering: &Gathering| self.suffices(gathering);
        let has_gathered = self.gathering.as_ref().is_some_and(is_enough);
        if has_gathered {
            self.gathering = None;
        }
        has_gathered
    }

    /// The least timestamp of the writes that no memtable has yet; the
    /// greatest possible when there are none.
    pub(super) fn least_timestamp(&self) -> Timestamp {
        let waiting = self.pending.iter().map(|pending| pending.entry.timestamp());
        let all = waiting.chain(self.least_timestamp_under_way);
        all.min().unwrap_or(Timestamp::MAX)
    }
}

impl Inner {
    /// Puts a write in the queue and makes sure that it is committed.
    pub(super) fn submit(
        self: &Arc<Self>,
        entry: Entry,
        outbox: &Arc<dyn Outbox>,
        ticket: u64,
    ) -> Result<(), Error> {
        let mut queue = lock(&self.queue);
        self.enqueue(&mut queue, entry, outbox, ticket)?;
        self.begin_commits(queue);
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
        self.begin_commits(queue);
        if !refused.is_empty() {
            outbox.deliver(refused);
        }
    }

    /// Commits what is in the queue if nobody is about to and it takes but
    /// microseconds, or else makes sure that a commit job comes for it.
    fn begin_commits(self: &Arc<Self>, mut queue: MutexGuard<'_, Queue>) {
        let is_first = !queue.is_empty() && !std::mem::replace(&mut queue.scheduled, true);
        let is_due = is_first || queue.has_gathered();
        drop(queue);
        if is_due && !(is_first && self.commit_in_place()) {
            self.spawn_commits(Duration::ZERO);
        }
    }

    /// Puts a write in the queue, without a commit job, or says why not.
    pub(super) fn enqueue(
        &self,
        queue: &mut Queue,
        entry: Entry,
        outbox: &Arc<dyn Outbox>,
        ticket: u64,
    ) -> Result<(), Error> {
        check(&entry)?;
        if queue.closed {
            return Err(Error::Closed);
        }
        self.check_poison()?;
        if entry.kind() == Kind::Value && self.space.is_full() {
            self.counters.refused_disk_full.fetch_add(1, Relaxed);
            return Err(Error::DiskFull);
        }
        let bytes = memory_bytes(&entry);
        if queue.bytes + bytes > self.options.write_queue_bytes_max && !queue.is_empty() {
            self.counters.refused_overloaded.fetch_add(1, Relaxed);
            return Err(Error::Overloaded);
        }
        queue.bytes += bytes;
        queue.pending.push_back(Pending {
            entry,
            outbox: Arc::clone(outbox),
            ticket,
            stopwatch: Stopwatch::start(),
        });
        Ok(())
    }

    /// Takes the next group, of at most so many bytes of memory unless it is one
    /// entry. Until [`Inner::end_group`] it counts as under way.
    pub(super) fn take_group(&self, bytes_max: usize) -> Group {
        let bytes_max = bytes_max.min(self.options.memtable_bytes / 2);
        let mut queue = lock(&self.queue);
        let mut bytes = 0;
        let mut count = 0;
        for pending in &queue.pending {
            let more = memory_bytes(&pending.entry);
            if count > 0 && bytes + more > bytes_max {
                break;
            }
            bytes += more;
            count += 1;
        }
        queue.bytes -= bytes;
        let mut group = if count == queue.pending.len() {
            std::mem::take(&mut queue.pending)
        } else {
            queue.pending.drain(..count).collect()
        };
        let timestamps = group.iter().map(|pending| pending.entry.timestamp());
        queue.least_timestamp_under_way = timestamps.min();
        drop(queue);
        // Nothing orders the writes that wait together. By their timestamps
        // most are newer than all before them, which the memtable takes faster.
        group
            .make_contiguous()
            .sort_by_key(|pending| pending.entry.timestamp());
        for pending in &mut group {
            pending.stopwatch.stop(&wait_sites::GATHER);
            pending.stopwatch = Stopwatch::start();
        }
        group
    }

    /// The group that was taken is in the memtable, or was refused.
    pub(super) fn end_group(&self) {
        lock(&self.queue).least_timestamp_under_way = None;
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

    /// Refuses the puts of a group for want of space.
    pub(super) fn refuse_puts(&self, group: &mut Group) {
        let (deletes, puts): (Group, Group) = std::mem::take(group)
            .into_iter()
            .partition(|pending| pending.entry.kind() == Kind::Tombstone);
        self.refuse(puts, &Error::DiskFull);
        *group = deletes;
    }

    /// Ends the writes that wait with an error.
    pub(super) fn refuse_waiting(&self, error: &Error) {
        let waiting = {
            let mut queue = lock(&self.queue);
            queue.bytes = 0;
            std::mem::take(&mut queue.pending)
        };
        self.refuse(waiting, error);
    }
}

fn check(entry: &Entry) -> Result<(), Error> {
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
