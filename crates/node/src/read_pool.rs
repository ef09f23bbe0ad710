//! Threads for reads that may block on the disk.
//!
//! A bounded queue and a fixed number of threads. What does not fit is refused
//! at once: by then the node is as busy as it may be, and waiting longer would
//! only make every answer later. Answers go to the asking runtime's completion queue.
//!
//! A pool without threads reads on the spot, for simulations, whose disk does
//! not block.

use crate::completion_queue::{Completion, CompletionQueue};
use crate::turn_budget::Allotment;
use crate::wait_sites;
use base::Entry;
use base::{Budget, Refused};
use lsm::{Applied, Engine, PendingVerdict, Scan};
use profile::Stopwatch;
use profile::lock;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What to read.
pub(crate) enum Read {
    /// The newest version of a key; a long value takes its share of the budget
    /// here, so that values that wait to be answered are bounded too.
    Key(Box<[u8]>, Arc<Budget>),
    /// What newer was there before a write.
    Newer(PendingVerdict),
    /// The next entries of a scan, up to so many bytes of them. The allotment
    /// is what they may take; what they do not is given back.
    Batch(Box<Scan>, usize, Allotment),
}

/// A read, and who wants to know.
pub(crate) struct ReadJob {
    /// What to read.
    pub(crate) read: Read,
    /// Where the answer goes.
    pub(crate) completions: Arc<CompletionQueue>,
    /// Whom it is for.
    pub(crate) ticket: u64,
}

/// As many reads wait as may.
#[derive(Debug)]
pub(crate) struct PoolFull;

/// The threads and their queue, until [`ReadPool::stop`].
pub(crate) struct ReadPool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Reads on the spot, if there are no threads.
    on_the_spot: Option<Work>,
}

type Work = Box<dyn Fn(ReadJob) + Send + Sync>;

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    queue_max: usize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(ReadJob, Stopwatch)>,
    /// Threads that have nothing to do.
    idle: usize,
    stopped: bool,
}

impl ReadPool {
    /// Starts `threads` threads that read from `engine`; up to `queue_max`
    /// reads wait beside those under way.
    ///
    /// # Errors
    /// Those of the system when it has no thread to give.
    pub(crate) fn start(engine: &Engine, threads: usize, queue_max: usize) -> io::Result<Self> {
        let engine = engine.clone();
        Self::start_with(threads, queue_max, move |job| serve(&engine, job))
    }

    /// A pool whose threads do `work`.
    fn start_with(
        threads: usize,
        queue_max: usize,
        work: impl Fn(ReadJob) + Clone + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let pool = Self {
            shared: Arc::new(Shared {
                queue: Mutex::default(),
                changed: Condvar::new(),
                queue_max,
            }),
            threads: Mutex::default(),
            on_the_spot: (threads == 0).then(|| Box::new(work.clone()) as Work),
        };
        for number in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let work = work.clone();
            let thread = std::thread::Builder::new()
                .name(format!("read-{number}"))
                .spawn(move || {
                    while let Some(job) = shared.take() {
                        // A bug in one read must not cost a thread: whoever
                        // waits gets a timeout, and the hook has told of the panic.
                        let worked = catch_unwind(AssertUnwindSafe(|| work(job)));
                        if worked.is_err() {
                            tracing::error!("a read panicked");
                        }
                    }
                })?;
            lock(&pool.threads).push(thread);
        }
        Ok(pool)
    }

    /// Queues a read.
    ///
    /// # Errors
    /// [`PoolFull`], or the pool has stopped: then no answer comes.
    pub(crate) fn submit(&self, job: ReadJob) -> Result<(), PoolFull> {
        if let Some(work) = &self.on_the_spot {
            work(job);
            return Ok(());
        }
        let mut queue = lock(&self.shared.queue);
        if queue.stopped || queue.jobs.len() >= self.shared.queue_max.saturating_add(queue.idle) {
            return Err(PoolFull);
        }
        queue.jobs.push_back((job, Stopwatch::start()));
        let wake = queue.idle > 0;
        drop(queue);
        if wake {
            self.shared.changed.notify_one();
        }
        Ok(())
    }

    /// How many reads wait.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.shared.queue).jobs.len()
    }

    /// Drops the reads that wait and waits for those under way.
    pub(crate) fn stop(&self) {
        let mut queue = lock(&self.shared.queue);
        queue.stopped = true;
        let waiting = std::mem::take(&mut queue.jobs);
        drop(queue);
        drop(waiting);
        self.shared.changed.notify_all();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            if thread.join().is_err() {
                tracing::error!("a read thread ended in a panic");
            }
        }
    }
}

impl Drop for ReadPool {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// Waits for the next read; `None` once stopped.
    fn take(&self) -> Option<ReadJob> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.stopped {
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

/// What an entry takes in memory, in bytes.
fn memory_bytes(entry: &Entry) -> usize {
    entry.data_bytes() + size_of::<Entry>()
}

fn serve(engine: &Engine, job: ReadJob) {
    let completion = match job.read {
        Read::Key(key, budget) => Completion::Read(engine.get(&key).and_then(|entry| {
            let value_bytes = entry.as_ref().map_or(0, |entry| entry.value_bytes().len());
            match budget.take_for_value(value_bytes) {
                Ok(share) => Ok((entry, share)),
                Err(Refused) => Err(lsm::Error::Overloaded),
            }
        })),
        Read::Newer(pending) => Completion::Written(Ok(Applied::Known(pending.finish()))),
        Read::Batch(mut scan, bytes_max, mut allotment) => {
            let entries = scan.next_batch(bytes_max);
            let held = entries.as_deref().unwrap_or_default().iter();
            allotment.shrink_to(held.map(memory_bytes).sum());
            Completion::Scanned(scan, entries, allotment)
        }
    };
    job.completions.complete(job.ticket, completion);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn job(ticket: u64) -> ReadJob {
        ReadJob {
            read: Read::Key(Box::from(*b"key"), Budget::new(0)),
            completions: Arc::default(),
            ticket,
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_what_fits_is_done() {
        let (started_sender, started) = mpsc::channel();
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let pool = ReadPool::start_with(1, 1, move |job| {
            started_sender.send(job.ticket).unwrap();
            lock(&gate).recv().unwrap_or(());
        })
        .unwrap();
        pool.submit(job(1)).unwrap();
        assert_eq!(started.recv(), Ok(1), "the only thread is busy now");
        pool.submit(job(2)).unwrap();
        assert!(pool.submit(job(3)).is_err());
        assert_eq!(pool.waiting(), 1);
        release.send(()).unwrap();
        assert_eq!(started.recv(), Ok(2));
        drop(release);
        pool.stop();
        assert!(pool.submit(job(4)).is_err());
    }

    #[test]
    fn a_panic_costs_no_thread() {
        let (sender, receiver) = mpsc::channel();
        let pool = ReadPool::start_with(1, 8, move |job| {
            assert_ne!(job.ticket, 1, "planted");
            sender.send(job.ticket).unwrap();
        })
        .unwrap();
        pool.submit(job(1)).unwrap();
        pool.submit(job(2)).unwrap();
        assert_eq!(receiver.recv(), Ok(2));
    }
}
