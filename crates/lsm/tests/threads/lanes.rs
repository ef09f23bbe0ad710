//! An executor of real threads, one a lane.

use lsm::{Executor, Job, Lane};
use std::sync::{Condvar, Mutex};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// The lanes' queues. Their threads end with [`Lanes::stop`], which drops what waits.
#[derive(Default)]
pub(crate) struct Lanes {
    queues: [Queue; Lane::ALL.len()],
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: Vec<(Instant, Job)>,
    stopped: bool,
}

impl Lanes {
    /// Starts a thread for each lane.
    pub(crate) fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        for queue in &self.queues {
            scope.spawn(|| {
                while let Some(job) = queue.next() {
                    job();
                }
            });
        }
    }

    pub(crate) fn stop(&self) {
        for queue in &self.queues {
            let waiting = {
                let mut jobs = queue.jobs.lock().unwrap();
                jobs.stopped = true;
                std::mem::take(&mut jobs.waiting)
            };
            queue.changed.notify_all();
            // Outside the lock: what a job holds may spawn as it is dropped.
            drop(waiting);
        }
    }
}

impl Executor for Lanes {
    fn spawn(&self, lane: Lane, delay: Duration, job: Job) {
        let queue = &self.queues[lane as usize];
        let mut jobs = queue.jobs.lock().unwrap();
        if !jobs.stopped {
            jobs.waiting.push((Instant::now() + delay, job));
            queue.changed.notify_all();
        }
    }
}

impl Queue {
    /// Waits for the job that is due first; `None` once stopped.
    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock().unwrap();
        while !jobs.stopped {
            let numbers = 0..jobs.waiting.len();
            // Of two that are due at once the one that came first.
            let first = numbers.min_by_key(|number| jobs.waiting[*number].0);
            let Some(first) = first else {
                jobs = self.changed.wait(jobs).unwrap();
                continue;
            };
            let wait = jobs.waiting[first]
                .0
                .saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Some(jobs.waiting.remove(first).1);
            }
            jobs = self.changed.wait_timeout(jobs, wait).unwrap().0;
        }
        None
    }
}
