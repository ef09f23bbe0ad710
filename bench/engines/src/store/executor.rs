//! Threads for the engine's jobs, one a lane, as a node has them.
//!
//! Unlike a node's they have no priorities, since the threads of the other
//! engines have none; and they can be asked whether there is anything to do.

use lsm::{Executor, Job, Lane};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A job further away than this only looks whether time alone has made
/// something due, which is no work left over.
const SOON: Duration = Duration::from_secs(5);

/// Runs jobs until it is stopped.
pub struct LaneThreads {
    lanes: Vec<(Lane, Arc<LaneQueue>)>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct LaneQueue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    ready: VecDeque<Job>,
    /// Few: the engine delays one job of a kind at a time.
    delayed: Vec<(Instant, Job)>,
    running: bool,
    stopped: bool,
}

impl LaneThreads {
    /// Starts the threads.
    pub fn start() -> io::Result<Self> {
        let executor = Self {
            lanes: Lane::ALL.map(|lane| (lane, Arc::default())).into(),
            threads: Mutex::default(),
        };
        for (lane, queue) in &executor.lanes {
            let queue: Arc<LaneQueue> = Arc::clone(queue);
            let thread = std::thread::Builder::new()
                .name(format!("{lane:?}").to_lowercase())
                .spawn(move || queue.run())?;
            lock(&executor.threads).push(thread);
        }
        Ok(executor)
    }

    /// Whether no flush and no compaction runs, waits or will soon.
    pub fn is_idle(&self) -> bool {
        let background = |lane: &Lane| matches!(lane, Lane::Flush | Lane::Compaction);
        let soon = Instant::now() + SOON;
        self.lanes
            .iter()
            .filter(|(lane, _)| background(lane))
            .all(|(_, queue)| {
                let jobs = lock(&queue.jobs);
                !jobs.running
                    && jobs.ready.is_empty()
                    && jobs.delayed.iter().all(|(due, _)| *due > soon)
            })
    }

    /// Drops the jobs that wait and waits for those that run.
    pub fn stop(&self) {
        for (_, queue) in &self.lanes {
            queue.stop();
        }
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            // A job that panics has said so itself.
            let _ = thread.join();
        }
    }
}

impl Executor for LaneThreads {
    fn spawn(&self, lane: Lane, delay: Duration, job: Job) {
        if let Some((_, queue)) = self.lanes.iter().find(|(known, _)| *known == lane) {
            queue.push(delay, job);
        }
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
            jobs.delayed.push((Instant::now() + delay, job));
        }
        drop(jobs);
        self.changed.notify_one();
    }

    fn run(&self) {
        while let Some(job) = self.take() {
            job();
        }
    }

    /// Waits for the next job that is due; `None` once stopped.
    fn take(&self) -> Option<Job> {
        let mut jobs = lock(&self.jobs);
        jobs.running = false;
        loop {
            if jobs.stopped {
                return None;
            }
            let first = (0..jobs.delayed.len()).min_by_key(|&at| jobs.delayed[at].0);
            let wait = first.map(|at| jobs.delayed[at].0.saturating_duration_since(Instant::now()));
            let job = match (first, wait) {
                (Some(at), Some(Duration::ZERO)) => Some(jobs.delayed.swap_remove(at).1),
                _ => jobs.ready.pop_front(),
            };
            if job.is_some() {
                jobs.running = true;
                return job;
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
