//! The real side of the executor seam: one thread a lane.
//!
//! Jobs of a lane run one after another. The engine hands out at most one job
//! of a lane at a time, delayed ones aside, so the queues need no bound of
//! their own.
//!
//! A job that panics ends the process, as does a runtime that commits a write
//! in the lane's stead: every writer would wait for it in vain, and what is in
//! memory could not be trusted. The log restores all that was acknowledged.

use base::Clock;
use lsm::{Executor, Job, Lane};
use node::or_abort;
use profile::lock;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Runs the engine's jobs on threads of its own, until [`ThreadExecutor::stop`].
pub(crate) struct ThreadExecutor {
    commit: Arc<LaneQueue>,
    log: Arc<LaneQueue>,
    flush: Arc<LaneQueue>,
    compaction: Arc<LaneQueue>,
    owner: Arc<LaneQueue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct LaneQueue {
    clock: Arc<dyn Clock>,
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    ready: VecDeque<Job>,
    /// The earliest first; among equals the one that came first.
    delayed: BinaryHeap<Reverse<Delayed>>,
    spawned: u64,
    stopped: bool,
}

struct Delayed {
    due: Duration,
    number: u64,
    job: Job,
}

impl Delayed {
    fn order(&self) -> (Duration, u64) {
        (self.due, self.number)
    }
}

impl PartialEq for Delayed {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Delayed {}

impl PartialOrd for Delayed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Delayed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl ThreadExecutor {
    /// Starts the threads.
    ///
    /// # Errors
    /// Those of the system when it has no thread to give.
    pub(crate) fn start(clock: &Arc<dyn Clock>) -> io::Result<Self> {
        let lane = || {
            Arc::new(LaneQueue {
                clock: Arc::clone(clock),
                jobs: Mutex::default(),
                changed: Condvar::new(),
            })
        };
        let executor = Self {
            commit: lane(),
            log: lane(),
            flush: lane(),
            compaction: lane(),
            owner: lane(),
            threads: Mutex::default(),
        };
        // Every writer waits for the commit, which needs little time but needs
        // it soon; for the flush they wait only once it falls behind.
        for (name, lane, niceness) in [
            ("commit", Lane::Commit, -10),
            ("log", Lane::Log, 0),
            ("flush", Lane::Flush, 10),
            ("compaction", Lane::Compaction, 15),
            ("owner", Lane::Owner, 0),
        ] {
            let queue = Arc::clone(executor.queue(lane));
            let thread = std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || {
                    set_priority(niceness);
                    queue.run();
                });
            match thread {
                Ok(thread) => lock(&executor.threads).push(thread),
                Err(error) => {
                    executor.stop();
                    return Err(error);
                }
            }
        }
        Ok(executor)
    }

    /// Drops the jobs that wait and waits for those that run. What is spawned
    /// afterwards is dropped.
    pub(crate) fn stop(&self) {
        for lane in Lane::ALL {
            self.queue(lane).stop();
        }
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                tracing::error!("a thread of the store ended in a panic");
            }
        }
    }

    fn queue(&self, lane: Lane) -> &Arc<LaneQueue> {
        match lane {
            Lane::Commit => &self.commit,
            Lane::Log => &self.log,
            Lane::Flush => &self.flush,
            Lane::Compaction => &self.compaction,
            Lane::Owner => &self.owner,
        }
    }
}

impl Executor for ThreadExecutor {
    fn spawn(&self, lane: Lane, delay: Duration, job: Job) {
        self.queue(lane).push(delay, job);
    }
}

impl Drop for ThreadExecutor {
    fn drop(&mut self) {
        self.stop();
    }
}

impl LaneQueue {
    fn push(&self, delay: Duration, job: Job) {
        let mut jobs = lock(&self.jobs);
        if jobs.stopped {
            return;
        }
        if delay.is_zero() {
            jobs.ready.push_back(job);
        } else {
            jobs.spawned += 1;
            let delayed = Delayed {
                due: self.clock.monotonic().saturating_add(delay),
                number: jobs.spawned,
                job,
            };
            jobs.delayed.push(Reverse(delayed));
        }
        drop(jobs);
        self.changed.notify_one();
    }

    fn run(&self) {
        while let Some(job) = self.take() {
            or_abort(job);
        }
    }

    /// Waits for the next job that is due; `None` once stopped.
    fn take(&self) -> Option<Job> {
        let mut jobs = lock(&self.jobs);
        loop {
            if jobs.stopped {
                return None;
            }
            let due = jobs.delayed.peek().map(|Reverse(delayed)| delayed.due);
            let wait = due.map(|due| due.saturating_sub(self.clock.monotonic()));
            if wait == Some(Duration::ZERO) {
                return jobs.delayed.pop().map(|Reverse(delayed)| delayed.job);
            }
            if let Some(job) = jobs.ready.pop_front() {
                return Some(job);
            }
            jobs = match wait {
                Some(wait) => {
                    self.changed
                        .wait_timeout(jobs, wait)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self
                    .changed
                    .wait(jobs)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn stop(&self) {
        let mut jobs = lock(&self.jobs);
        jobs.stopped = true;
        let waiting = (
            std::mem::take(&mut jobs.ready),
            std::mem::take(&mut jobs.delayed),
        );
        drop(jobs);
        self.changed.notify_all();
        // Outside the lock: what a job holds may spawn as it is dropped.
        drop(waiting);
    }
}

/// Lets the calling thread yield to others by so many steps of niceness, or go
/// before them if it is negative. A system that refuses, as it does the latter
/// to all but privileged processes, is no reason not to run.
fn set_priority(niceness: i32) {
    if niceness == 0 {
        return;
    }
    let thread = rustix::thread::gettid();
    // On Linux priorities belong to threads, and a process id may be a thread's.
    if let Err(error) = rustix::process::setpriority_process(Some(thread), niceness) {
        tracing::debug!(%error, niceness, "cannot set the priority of a thread");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn executor() -> ThreadExecutor {
        let clock: Arc<dyn Clock> = Arc::new(base::SystemClock::new());
        ThreadExecutor::start(&clock).unwrap()
    }

    #[test]
    fn jobs_of_a_lane_run_in_their_order_and_delayed_ones_when_due() {
        let executor = executor();
        let (sender, receiver) = mpsc::channel();
        for (number, delay_ms) in [(4, 40), (3, 20), (1, 0), (2, 0)] {
            let sender = sender.clone();
            executor.spawn(
                Lane::Flush,
                Duration::from_millis(delay_ms),
                Box::new(move || sender.send(number).unwrap()),
            );
        }
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    #[test]
    fn lanes_do_not_wait_for_each_other() {
        let executor = executor();
        let (blocked, release) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        executor.spawn(
            Lane::Compaction,
            Duration::ZERO,
            Box::new(move || release.recv().unwrap_or(())),
        );
        executor.spawn(
            Lane::Commit,
            Duration::ZERO,
            Box::new(move || sender.send(()).unwrap()),
        );
        receiver.recv().unwrap();
        drop(blocked);
    }

    #[test]
    fn a_stopped_executor_drops_what_waits_and_what_comes() {
        let executor = executor();
        let (sender, receiver) = mpsc::channel::<()>();
        let waiting = sender.clone();
        executor.spawn(
            Lane::Commit,
            Duration::from_secs(3600),
            Box::new(move || waiting.send(()).unwrap()),
        );
        executor.stop();
        executor.spawn(
            Lane::Commit,
            Duration::ZERO,
            Box::new(move || sender.send(()).unwrap()),
        );
        assert!(receiver.recv().is_err(), "both jobs were dropped unrun");
    }
}
