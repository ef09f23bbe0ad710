//! Hints: writes that a peer missed, kept for it until it can take them.
//!
//! A coordinator keeps a hint for each replica that missed a write, its own
//! included, and hands it over when that replica is back. Hints are best
//! effort: none is an acknowledgement, none is ever served, and one that is
//! lost costs a read repair, no data. So what cannot be kept is dropped and counted, and never
//! fails the write.
//!
//! - [`HintStore`] (here) takes hints from all runtimes into one bounded queue
//!   and does what touches the disk in jobs of [`Lane::Owner`], syncs in those
//!   of [`Lane::Log`];
//! - `log` is the disk side: the segments of each peer, their bounds and age;
//! - `delivery` hands them over, at the peer's pace.
//!
//! # How durable a hint is
//!
//! A group of hints is written to the system, and the replies that wait for it
//! go out: it outlives the process at once and a power cut after
//! [`SYNC_DELAY`] or so. A sync for each group would make a write wait for a
//! disk on behalf of a copy that counts for nothing.
//!
//! # Bounds
//!
//! In memory: the queue ([`HintOptions::queue_bytes_max`], and one hint past it),
//! and one segment for each peer that is being served. On disk:
//! [`HintOptions::bytes_max`] over all peers, and [`HintOptions::age_max`]; the
//! oldest segment goes first ([`cluster::HintLimits`]).

mod delivery;
mod log;
mod options;
mod statistics;

#[cfg(test)]
mod tests;

pub(crate) use delivery::{Delivery, HintReceiver};
pub(crate) use log::Batch;
pub(crate) use options::{HintEnvironment, HintOptions};
pub(crate) use statistics::HintStatistics;
pub use statistics::HintsWaiting;

use base::Entry;
use cluster::NodeNumber;
use log::Logs;
use lsm::{Error, Executor, Lane};
use profile::lock;
use statistics::{Counters, Waiting};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// How long hints may be in the system's memory only.
const SYNC_DELAY: Duration = Duration::from_millis(100);

/// Told whether a hint was kept, once, from any thread.
pub(crate) type Kept = Box<dyn FnOnce(bool) + Send>;

/// What [`HintStore::next_batch`] answers: [`None`] when nothing waits.
pub(crate) type BatchReply = Box<dyn FnOnce(Result<Option<Batch>, Error>) + Send>;

/// The hints of a node, for all of its peers. Cheap to clone; the clones are one.
#[derive(Clone)]
pub(crate) struct HintStore {
    shared: Arc<Shared>,
}

struct Shared {
    options: HintOptions,
    executor: Arc<dyn Executor>,
    queue: Mutex<Queue>,
    /// Held by jobs while they use the disk, never by a runtime.
    logs: Mutex<Logs>,
    /// Held while upkeep is done, before `logs`.
    upkeep: Mutex<()>,
    waiting: Arc<Waiting>,
    counters: Arc<Counters>,
    /// By peer: told that there may be something to deliver.
    wakes: Vec<Notify>,
}

#[derive(Default)]
struct Queue {
    hints: Vec<Hint>,
    /// Of the hints here and of those being written.
    bytes: usize,
    is_write_scheduled: bool,
    is_closed: bool,
}

/// A hint on its way to the disk.
struct Hint {
    peer: NodeNumber,
    entry: Entry,
    done: Kept,
}

impl HintStore {
    /// Opens what an earlier run left, reading all of it once. `names` are the
    /// nodes' names in the order of their numbers; hints for others are dropped.
    /// Blocks.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::DiskFull`] when the folder cannot be made or
    /// listed. A segment that cannot be used is no error: it is reported and passed over.
    pub(crate) fn open<'a>(
        environment: HintEnvironment,
        options: HintOptions,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, Error> {
        let executor = Arc::clone(&environment.executor);
        let counters = Arc::new(Counters::default());
        let names: Vec<&str> = names.into_iter().collect();
        let waiting = Arc::new(Waiting::new(names.len()));
        let logs = Logs::open(environment, options, &names, &waiting, &counters)?;
        Ok(Self {
            shared: Arc::new(Shared {
                options,
                executor,
                queue: Mutex::default(),
                logs: Mutex::new(logs),
                upkeep: Mutex::new(()),
                waiting,
                counters,
                wakes: names.iter().map(|_| Notify::new()).collect(),
            }),
        })
    }

    /// Keeps a hint; does not block. `done` is told whether that was done, or
    /// at once that it cannot be: from a job, or from within this call.
    pub(crate) fn keep(&self, peer: NodeNumber, entry: Entry, done: Kept) {
        let Err(done) = self.shared.enqueue(Hint { peer, entry, done }) else {
            return;
        };
        self.shared.counters.dropped_from_queue(1);
        done(false);
    }

    /// Keeps no hint: there would be no use in it now.
    pub(crate) fn refuse(&self, done: Kept) {
        self.shared.counters.dropped_unwritten(1);
        done(false);
    }

    /// What waits for a peer on disk.
    pub(crate) fn waiting(&self, peer: NodeNumber) -> HintsWaiting {
        self.shared.waiting.of(peer)
    }

    /// What was kept, delivered and dropped since the start.
    pub(crate) fn statistics(&self) -> HintStatistics {
        self.shared.counters.read()
    }

    /// Reads the first segment of a peer that is numbered above `after`, or the
    /// oldest when there is none, and answers by `reply` from a job. The
    /// segment takes no more hints then. `reply` is dropped when the store is closed.
    pub(crate) fn next_batch(&self, peer: NodeNumber, after: u64, reply: BatchReply) {
        self.shared
            .spawn(Lane::Owner, Duration::ZERO, move |shared| {
                let (batch, schedule_upkeep) = {
                    let mut logs = lock(&shared.logs);
                    if logs.is_closed() {
                        return;
                    }
                    (logs.next_batch(peer, after), logs.wants_upkeep())
                };
                reply(batch);
                shared.schedule_upkeep(schedule_upkeep);
            });
    }

    /// Gives up a segment all of whose hints were delivered.
    pub(crate) fn delivered(&self, segment: u64) {
        self.shared
            .spawn(Lane::Owner, Duration::ZERO, move |shared| {
                lock(&shared.logs).delivered(segment);
            });
    }

    /// Gives up a segment whose hints were delivered but for those that are
    /// `left`: they go to the end of the log.
    pub(crate) fn put_back(&self, segment: u64, left: Vec<Entry>) {
        self.shared
            .spawn(Lane::Owner, Duration::ZERO, move |shared| {
                let schedule_upkeep = {
                    let mut logs = lock(&shared.logs);
                    logs.put_back(segment, &left);
                    logs.wants_upkeep()
                };
                shared.schedule_upkeep(schedule_upkeep);
            });
    }

    /// Drops what has become too old while nobody was there to take it.
    pub(crate) fn drop_expired(&self) {
        self.shared.spawn(Lane::Owner, Duration::ZERO, |shared| {
            lock(&shared.logs).drop_expired();
        });
    }

    /// What waits on disk, for all peers: for simulations. A segment that cannot
    /// be read is left out. Blocks.
    pub(crate) fn all(&self) -> Vec<Entry> {
        lock(&self.shared.logs).all()
    }

    /// Lets the delivery to a peer look whether there is something to do: the
    /// peer is back.
    pub(crate) fn wake(&self, peer: NodeNumber) {
        self.shared.wake(peer);
    }

    /// Waits until a hint for the peer was written or [`HintStore::wake`] was called.
    async fn woken(&self, peer: NodeNumber) {
        match self.shared.wakes.get(peer.index()) {
            Some(wake) => wake.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Writes what waits, makes it durable and takes no more. Blocks.
    pub(crate) fn close(&self) {
        lock(&self.shared.queue).is_closed = true;
        self.shared.write_queue();
        let _upkeep = lock(&self.shared.upkeep);
        let last = lock(&self.shared.logs).close();
        // Nobody is there to take note of it.
        let _ = last.run();
    }
}

impl Shared {
    /// Queues a hint, or hands back whom to tell that it cannot be kept.
    fn enqueue(self: &Arc<Self>, hint: Hint) -> Result<(), Kept> {
        let bytes = hint.entry.data_bytes();
        let schedule = {
            let mut queue = lock(&self.queue);
            let is_full = queue.bytes > 0 && queue.bytes + bytes > self.options.queue_bytes_max;
            if queue.is_closed || is_full || hint.peer.index() >= self.wakes.len() {
                return Err(hint.done);
            }
            queue.bytes += bytes;
            queue.hints.push(hint);
            !std::mem::replace(&mut queue.is_write_scheduled, true)
        };
        if schedule {
            self.spawn(Lane::Owner, Duration::ZERO, Self::write_queue);
        }
        Ok(())
    }

    /// The write job: all that waits goes to the logs, a group for each peer.
    fn write_queue(self: &Arc<Self>) {
        let mut hints = {
            let mut queue = lock(&self.queue);
            queue.is_write_scheduled = false;
            std::mem::take(&mut queue.hints)
        };
        // Stable: the hints of a peer stay in the order in which they came.
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
            (hint.done)(is_kept);
            if is_kept {
                self.wake(hint.peer);
            }
        }
        lock(&self.queue).bytes -= bytes;
        self.schedule_upkeep(schedule_upkeep);
    }

    /// Has what was written made durable soon. Not in the owner's lane: replies
    /// wait for what that writes, and a sync may take long.
    fn schedule_upkeep(self: &Arc<Self>, is_wanted: bool) {
        if is_wanted {
            self.spawn(Lane::Log, SYNC_DELAY, |shared| {
                let _upkeep = lock(&shared.upkeep);
                let upkeep = lock(&shared.logs).take_upkeep();
                let outcomes = upkeep.run();
                lock(&shared.logs).note_upkeep(outcomes);
            });
        }
    }

    fn wake(&self, peer: NodeNumber) {
        if let Some(wake) = self.wakes.get(peer.index()) {
            wake.notify_one();
        }
    }

    /// Gives a job to the executor. It does nothing when the store is gone by then.
    fn spawn(
        self: &Arc<Self>,
        lane: Lane,
        delay: Duration,
        job: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        let shared = Arc::downgrade(self);
        let job = Box::new(move || {
            if let Some(shared) = shared.upgrade() {
                job(&shared);
            }
        });
        self.executor.spawn(lane, delay, job);
    }
}
