//! Hints: writes that a peer missed, kept until the peer can store them.
//!
//! A coordinator keeps a hint for each replica that missed a write, for its own
//! replica too, and delivers the hint when that replica is back. Hints are best
//! effort: a hint does not count as an acknowledgement, reads never return it, and a
//! lost hint costs a read repair but no data. A hint that cannot be kept is dropped
//! and counted; it never fails the write.
//!
//! - [`HintStore`] (here) takes hints from all runtimes into one bounded queue. Jobs
//!   of [`JobClass::Owner`] read and write the disk, jobs of [`JobClass::Log`] sync it.
//! - `log` holds the segments of each peer on disk, with their bounds and ages.
//! - `delivery` delivers hints at the pace of the peer.
//!
//! # How durable a hint is
//!
//! A group of hints is written without a sync, then the requests that wait for it continue. From
//! then on the group survives the end of the process, and a power cut after about `SYNC_DELAY`. A
//! sync for each group would make writes wait for the disk because of a copy that does not count.
//!
//! # Bounds
//!
//! In memory: the queue ([`HintOptions::queue_bytes_max`], or one longer hint), and
//! one segment for each peer that hints are delivered to. On disk:
//! [`HintOptions::bytes_max`] for all peers together, and [`HintOptions::age_max`].
//! The oldest segment is dropped first ([`cluster::HintLimits`]).

mod delivery;
mod log;
mod options;
mod statistics;

#[cfg(test)]
mod tests;

pub use delivery::{HintDelivery, HintReceiver};
pub use log::HintBatch;
pub use options::{HintEnvironment, HintOptions};
pub use statistics::HintStatistics;
pub use statistics::HintsWaiting;

use base::Entry;
use cluster::{Members, NodeId, NodeTable};
use log::HintLogs;
use lsm::{Error, Executor, JobClass};
use profile::lock;
use statistics::{HintCounters, WaitingCounts};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// How long written hints may stay unsynced.
const SYNC_DELAY: Duration = Duration::from_millis(100);

/// Called once, on any thread, with whether a hint was kept.
pub type KeepReply = Box<dyn FnOnce(bool) + Send>;

/// Called with the batch that [`HintStore::next_batch`] read; [`None`] if no hint waits.
pub type BatchReply = Box<dyn FnOnce(Result<Option<HintBatch>, Error>) + Send>;

/// The hints of a node for all its peers. Clones share one store.
#[derive(Clone)]
pub struct HintStore {
    inner: Arc<HintStoreInner>,
}

struct HintStoreInner {
    options: HintOptions,
    executor: Arc<dyn Executor>,
    queue: Mutex<HintQueue>,
    /// Jobs hold this lock while they use the disk. Runtimes never take it.
    logs: Mutex<HintLogs>,
    /// Held during upkeep. Taken before `logs`.
    upkeep: Mutex<()>,
    waiting: Arc<WaitingCounts>,
    counters: Arc<HintCounters>,
    /// By node: notified when there may be a hint to deliver. Hints are kept for these nodes.
    wakes: Mutex<NodeTable<Arc<Notify>>>,
}

#[derive(Default)]
struct HintQueue {
    hints: Vec<QueuedHint>,
    /// The bytes of the hints in the queue and of those being written.
    bytes: usize,
    is_write_scheduled: bool,
    is_closed: bool,
}

/// A hint that is not written yet.
struct QueuedHint {
    peer: NodeId,
    entry: Entry,
    reply: KeepReply,
}

impl HintStore {
    /// Opens the hints of an earlier run for these nodes and reads all of them once; hints for
    /// other nodes are dropped. Blocks.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::DiskFull`] if the folder cannot be created or
    /// listed. A segment that cannot be read is logged and skipped.
    pub fn open(
        environment: HintEnvironment,
        options: HintOptions,
        members: &Members,
    ) -> Result<Self, Error> {
        let executor = Arc::clone(&environment.executor);
        let counters = Arc::new(HintCounters::default());
        let waiting = Arc::new(WaitingCounts::new());
        let logs = HintLogs::open(environment, options, members, &waiting, &counters)?;
        Ok(Self {
            inner: Arc::new(HintStoreInner {
                options,
                executor,
                queue: Mutex::default(),
                logs: Mutex::new(logs),
                upkeep: Mutex::new(()),
                waiting,
                counters,
                wakes: Mutex::new(members.ids().map(|node| (node, Arc::default())).collect()),
            }),
        })
    }

    /// Takes note of the nodes of a layout before it is in force: keeps hints for those that have
    /// joined, and drops those for nodes that have left. Blocks.
    pub fn follow(&self, members: &Members) {
        {
            let mut wakes = lock(&self.inner.wakes);
            wakes.retain(|node, _| members.contains(node));
        }
        lock(&self.inner.logs).follow(members);
        let mut wakes = lock(&self.inner.wakes);
        for node in members.ids() {
            wakes.get_or_insert_with(node, Arc::default);
        }
    }

    /// Keeps a hint, without blocking. A job calls `reply` with whether the hint was
    /// kept; if the queue does not take the hint, this function does.
    pub fn keep(&self, peer: NodeId, entry: Entry, reply: KeepReply) {
        let Err(reply) = self.inner.enqueue(QueuedHint { peer, entry, reply }) else {
            return;
        };
        self.inner.counters.dropped_from_queue(1);
        reply(false);
    }

    /// Drops and counts a hint that is useless now.
    pub fn refuse(&self, reply: KeepReply) {
        self.inner.counters.dropped_unwritten(1);
        reply(false);
    }

    /// The hints for a peer on disk.
    pub fn waiting(&self, peer: NodeId) -> HintsWaiting {
        self.inner.waiting.of(peer)
    }

    /// How many hints were kept, delivered and dropped since the start.
    pub fn statistics(&self) -> HintStatistics {
        self.inner.counters.read()
    }

    /// Reads the first segment of a peer with a number above `after`, or the oldest
    /// segment if there is none. A job calls `reply`. The segment takes no more hints
    /// afterwards. `reply` is dropped without a call if the store is closed.
    pub fn next_batch(&self, peer: NodeId, after: u64, reply: BatchReply) {
        self.inner
            .spawn(JobClass::Owner, Duration::ZERO, move |inner| {
                let (batch, schedule_upkeep) = {
                    let mut logs = lock(&inner.logs);
                    if logs.is_closed() {
                        return;
                    }
                    (logs.next_batch(peer, after), logs.wants_upkeep())
                };
                reply(batch);
                inner.schedule_upkeep(schedule_upkeep);
            });
    }

    /// Removes a segment whose hints were delivered, except `obsolete` of them, which the peer
    /// refused for good.
    pub fn delivered(&self, segment: u64, obsolete: u64) {
        self.inner
            .spawn(JobClass::Owner, Duration::ZERO, move |inner| {
                lock(&inner.logs).delivered(segment, obsolete);
            });
    }

    /// Removes a segment whose hints were delivered, except `left`, which go to the end of the
    /// log, and `obsolete` of them, which the peer refused for good.
    pub fn put_back(&self, segment: u64, left: Vec<Entry>, obsolete: u64) {
        self.inner
            .spawn(JobClass::Owner, Duration::ZERO, move |inner| {
                let schedule_upkeep = {
                    let mut logs = lock(&inner.logs);
                    logs.put_back(segment, &left, obsolete);
                    logs.wants_upkeep()
                };
                inner.schedule_upkeep(schedule_upkeep);
            });
    }

    /// Drops hints that have become too old. A delivery drops them, too, but only while
    /// its peer is up.
    pub fn drop_expired(&self) {
        self.inner.spawn(JobClass::Owner, Duration::ZERO, |inner| {
            lock(&inner.logs).drop_expired();
        });
    }

    /// The hints on disk for all peers, for simulations. Segments that cannot be read
    /// are left out. Blocks.
    pub fn all(&self) -> Vec<Entry> {
        lock(&self.inner.logs).all()
    }

    /// Wakes the delivery to a peer, because the peer is back.
    pub fn wake(&self, peer: NodeId) {
        self.inner.wake(peer);
    }

    /// Waits until a hint for the peer was written or [`HintStore::wake`] was called.
    async fn woken(&self, peer: NodeId) {
        let wake = lock(&self.inner.wakes).get(peer).map(Arc::clone);
        match wake {
            Some(wake) => wake.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Writes and syncs the queued hints, and takes no more. Blocks.
    pub fn close(&self) {
        lock(&self.inner.queue).is_closed = true;
        self.inner.write_queue();
        let _upkeep = lock(&self.inner.upkeep);
        let last = lock(&self.inner.logs).close();
        // The store is closed, so its results need not be recorded.
        let _ = last.run();
    }
}

impl HintStoreInner {
    /// Queues a hint. Returns its callback if the queue does not take it.
    fn enqueue(self: &Arc<Self>, hint: QueuedHint) -> Result<(), KeepReply> {
        let bytes = hint.entry.data_bytes();
        let schedule = {
            let mut queue = lock(&self.queue);
            let is_full = queue.bytes > 0 && queue.bytes + bytes > self.options.queue_bytes_max;
            if queue.is_closed || is_full || !lock(&self.wakes).contains(hint.peer) {
                return Err(hint.reply);
            }
            queue.bytes += bytes;
            queue.hints.push(hint);
            !std::mem::replace(&mut queue.is_write_scheduled, true)
        };
        if schedule {
            self.spawn(JobClass::Owner, Duration::ZERO, Self::write_queue);
        }
        Ok(())
    }

    /// The job that writes all queued hints to the logs, a group for each peer.
    fn write_queue(self: &Arc<Self>) {
        let mut hints = {
            let mut queue = lock(&self.queue);
            queue.is_write_scheduled = false;
            std::mem::take(&mut queue.hints)
        };
        // A stable sort keeps the hints of a peer in their order.
        hints.sort_by_key(|hint| hint.peer);
        let mut kept = Vec::with_capacity(hints.len());
        let schedule_upkeep = {
            let mut logs = lock(&self.logs);
            for group in hints.chunk_by(|one, next| one.peer == next.peer) {
                let peer = group[0].peer;
                let entries: Vec<&Entry> = group.iter().map(|hint| &hint.entry).collect();
                kept.extend(logs.keep(peer, &entries));
            }
            logs.wants_upkeep()
        };
        let mut bytes = 0;
        for (hint, is_kept) in hints.into_iter().zip(kept) {
            bytes += hint.entry.data_bytes();
            (hint.reply)(is_kept);
            if is_kept {
                self.wake(hint.peer);
            }
        }
        lock(&self.queue).bytes -= bytes;
        self.schedule_upkeep(schedule_upkeep);
    }

    /// Schedules a job that syncs the written hints soon. The job does not run in the
    /// class of the owner, because requests wait for the writes in it and a sync may
    /// take long.
    fn schedule_upkeep(self: &Arc<Self>, is_wanted: bool) {
        if is_wanted {
            self.spawn(JobClass::Log, SYNC_DELAY, |inner| {
                let _upkeep = lock(&inner.upkeep);
                let upkeep = lock(&inner.logs).take_upkeep();
                let outcomes = upkeep.run();
                lock(&inner.logs).record_upkeep(outcomes);
            });
        }
    }

    fn wake(&self, peer: NodeId) {
        if let Some(wake) = lock(&self.wakes).get(peer) {
            wake.notify_one();
        }
    }

    /// Schedules a job, which does nothing if the store was dropped meanwhile.
    fn spawn(
        self: &Arc<Self>,
        class: JobClass,
        delay: Duration,
        job: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        let inner = Arc::downgrade(self);
        let job = Box::new(move || {
            if let Some(inner) = inner.upgrade() {
                job(&inner);
            }
        });
        self.executor.spawn(class, delay, job);
    }
}
