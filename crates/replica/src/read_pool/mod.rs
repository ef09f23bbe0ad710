//! Reads that may block on the disk.
//!
//! The runtimes queue reads; threads that the owner of the node starts execute them
//! ([`ReadPool::run_until_closed`]). The queue is bounded, and reads that do not fit are refused at
//! once: the node is fully busy by then, and a longer queue would only delay every answer. Answers
//! go to the completion queue of the runtime that asked.
//!
//! A simulation has no threads and its disk does not block, so there the runtime executes each read
//! itself ([`ReadsRun::OnTheSpot`]).

mod page_read;

pub use page_read::{PAGE_BYTES_MAX, PageRead};

use crate::pending::{Completion, CompletionQueue, KeyRead};
use crate::range_digest::RangeDigest;
use crate::shared_bounds::BeforeRead;
use crate::wait_sites;
use base::{Entry, Quota, Refused, Reservation};
use lsm::{Engine, PendingCheck, Scan};
use profile::Stopwatch;
use profile::lock;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// What to read.
pub enum Read {
    /// The newest version of a key.
    Key {
        /// The key.
        key: Box<[u8]>,
        /// Long values reserve from this, which bounds those waiting to be sent.
        quota: Arc<Quota>,
        /// What held for the store before the read.
        before: BeforeRead,
    },
    /// The newer versions that the store held when a write arrived.
    NewerVersion(PendingCheck),
    /// The next entries of a scan, up to this number of bytes. The entries may take the
    /// reservation; the read returns the rest of it. A value that is longer than any that clients
    /// may send takes a reservation besides; without one it is left for a later read.
    Batch(Box<Scan>, usize, Reservation, Arc<Quota>),
    /// The next keys of a sum over a range. They are dropped once they are added, and the
    /// reservation stands for them until then.
    Digest(Box<RangeDigest>, Reservation),
    /// A page of a scan of the cluster; the reservation stands for it while it is read.
    Page(Box<PageRead>, Reservation),
}

/// A read, and where its answer goes.
pub struct ReadJob {
    /// What to read.
    pub read: Read,
    /// Where the answer is left.
    pub completions: Arc<CompletionQueue>,
    /// What the answer is addressed to.
    pub address: u64,
}

/// As many reads wait as may wait, or the pool is closed.
#[derive(Debug)]
pub struct PoolFull;

/// Which thread does a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadsRun {
    /// One of the pool's.
    OnThreads,
    /// The one that asks for it.
    OnTheSpot,
}

/// The queue of reads, until [`ReadPool::close`].
pub struct ReadPool {
    queue: Mutex<Queue>,
    changed: Condvar,
    queue_max: usize,
    work: Box<dyn Fn(ReadJob) + Send + Sync>,
    reads_run: ReadsRun,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(ReadJob, Stopwatch)>,
    /// Threads that wait for a read.
    idle: usize,
    is_closed: bool,
}

impl ReadPool {
    /// A pool for reads from `engine`. Up to `queue_max` reads wait beside those that
    /// threads do.
    pub fn new(engine: &Engine, queue_max: usize, reads_run: ReadsRun) -> Self {
        let engine = engine.clone();
        Self::with_work(queue_max, reads_run, move |job| read(&engine, job))
    }

    fn with_work(
        queue_max: usize,
        reads_run: ReadsRun,
        work: impl Fn(ReadJob) + Send + Sync + 'static,
    ) -> Self {
        Self {
            queue: Mutex::default(),
            changed: Condvar::new(),
            queue_max,
            work: Box::new(work),
            reads_run,
        }
    }

    /// Does reads as they come, until the pool is closed. Each call occupies a thread.
    pub fn run_until_closed(&self) {
        while let Some(job) = self.take() {
            // A bug in one read must not cost a thread: its request times out, and the
            // panic hook has logged the panic.
            let worked = catch_unwind(AssertUnwindSafe(|| (self.work)(job)));
            if worked.is_err() {
                tracing::error!("a read panicked");
            }
        }
    }

    /// Queues a read.
    ///
    /// # Errors
    /// [`PoolFull`]: then no answer comes.
    pub fn submit(&self, job: ReadJob) -> Result<(), PoolFull> {
        let mut queue = lock(&self.queue);
        if queue.is_closed || queue.jobs.len() >= self.queue_max.saturating_add(queue.idle) {
            return Err(PoolFull);
        }
        if self.reads_run == ReadsRun::OnTheSpot {
            drop(queue);
            (self.work)(job);
            return Ok(());
        }
        queue.jobs.push_back((job, Stopwatch::start()));
        let wakes = queue.idle > 0;
        drop(queue);
        if wakes {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// How many reads wait.
    pub fn waiting(&self) -> usize {
        lock(&self.queue).jobs.len()
    }

    /// Drops the reads that wait, and ends [`ReadPool::run_until_closed`] once the reads
    /// under way are done.
    pub fn close(&self) {
        let mut queue = lock(&self.queue);
        queue.is_closed = true;
        let waiting = std::mem::take(&mut queue.jobs);
        drop(queue);
        drop(waiting);
        self.changed.notify_all();
    }

    /// Waits for the next read; `None` once the pool is closed.
    fn take(&self) -> Option<ReadJob> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.is_closed {
                return None;
            }
            if let Some((job, stopwatch)) = queue.jobs.pop_front() {
                stopwatch.stop(&wait_sites::READ_POOL);
                return Some(job);
            }
            queue.idle += 1;
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

fn read(engine: &Engine, job: ReadJob) {
    let completion = match job.read {
        Read::Key { key, quota, before } => Completion::Read(engine.get(&key).and_then(|entry| {
            let value_bytes = entry.as_ref().map_or(0, |entry| entry.value_bytes().len());
            match quota.try_reserve_for_value(value_bytes) {
                Ok(reservation) => Ok(KeyRead {
                    entry,
                    reservation,
                    before,
                }),
                Err(Refused) => Err(lsm::Error::Overloaded),
            }
        })),
        Read::NewerVersion(check) => Completion::Written(Ok(check.finish())),
        Read::Batch(mut scan, bytes_max, mut reservation, quota) => {
            let mut entries = scan.next_batch(bytes_max);
            let entries_read = entries.as_deref().unwrap_or_default().iter();
            let bytes = entries_read.map(Entry::memory_bytes).sum();
            let mut oversized = None;
            if bytes > reservation.amount() {
                oversized = quota.try_reserve_oversized(bytes).ok();
            }
            if bytes > reservation.amount() && oversized.is_none() {
                scan.take_back();
                entries = Err(lsm::Error::Overloaded);
            }
            reservation.shrink_to(bytes);
            Completion::Scanned(scan, entries, (reservation, oversized))
        }
        Read::Digest(mut digest, reservation) => {
            let is_complete = digest.step();
            drop(reservation);
            Completion::Digested(digest, is_complete)
        }
        Read::Page(page, reservation) => {
            let page = page.read(engine);
            drop(reservation);
            Completion::Paged(page)
        }
    };
    job.completions.complete(job.address, completion);
}

#[cfg(test)]
mod tests {
    use super::*;
    use lsm_testing::PATIENCE;
    use std::sync::mpsc;

    fn job(address: u64) -> ReadJob {
        ReadJob {
            read: Read::Key {
                key: Box::from(*b"key"),
                quota: Quota::new(0),
                before: BeforeRead::default(),
            },
            completions: Arc::default(),
            address,
        }
    }

    /// A pool with a thread, until it is closed.
    fn start(queue_max: usize, work: impl Fn(ReadJob) + Send + Sync + 'static) -> Arc<ReadPool> {
        let pool = ReadPool::with_work(queue_max, ReadsRun::OnThreads, work);
        let pool = Arc::new(pool);
        let running = Arc::clone(&pool);
        let thread = std::thread::Builder::new();
        thread.spawn(move || running.run_until_closed()).unwrap();
        pool
    }

    #[test]
    fn a_read_that_does_not_fit_is_refused_and_one_that_fits_is_done() {
        let (started_sender, started) = mpsc::channel();
        let (release, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let pool = start(1, move |job| {
            started_sender.send(job.address).unwrap();
            lock(&gate).recv_timeout(PATIENCE).unwrap_or(());
        });
        pool.submit(job(1)).unwrap();
        assert_eq!(
            started.recv_timeout(PATIENCE),
            Ok(1),
            "the only thread is busy now"
        );
        pool.submit(job(2)).unwrap();
        assert!(pool.submit(job(3)).is_err());
        assert_eq!(pool.waiting(), 1);
        release.send(()).unwrap();
        assert_eq!(started.recv_timeout(PATIENCE), Ok(2));
        drop(release);
        pool.close();
        assert!(pool.submit(job(4)).is_err());
    }

    #[test]
    fn a_panic_costs_no_thread() {
        let (sender, receiver) = mpsc::channel();
        let pool = start(8, move |job| {
            assert_ne!(job.address, 1, "planted");
            sender.send(job.address).unwrap();
        });
        pool.submit(job(1)).unwrap();
        pool.submit(job(2)).unwrap();
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(2));
        pool.close();
    }

    #[test]
    fn closing_ends_the_threads_and_drops_what_waits() {
        let pool = ReadPool::with_work(8, ReadsRun::OnThreads, |_| {});
        pool.submit(job(1)).unwrap();
        pool.close();
        pool.run_until_closed();
        assert_eq!(pool.waiting(), 0);
    }

    #[test]
    fn a_simulation_reads_on_the_spot_until_the_pool_is_closed() {
        let (sender, receiver) = mpsc::channel();
        let pool = ReadPool::with_work(1, ReadsRun::OnTheSpot, move |job| {
            sender.send(job.address).unwrap();
        });
        for address in 0..3 {
            pool.submit(job(address)).unwrap();
            assert_eq!(receiver.try_recv(), Ok(address));
        }
        pool.close();
        assert!(pool.submit(job(3)).is_err());
    }
}
