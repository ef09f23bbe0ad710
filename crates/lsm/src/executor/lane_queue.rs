//! The jobs of one lane, for an executor that runs each lane on a thread.

use super::Job;
use crate::sync::lock;
use base::Clock;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The waiting jobs of a lane, for the one thread that runs them.
///
/// The queue has no bound, because few jobs of a lane wait at the same time (see
/// [`Lane`](super::Lane)).
pub struct LaneQueue {
    clock: Arc<dyn Clock>,
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    ready: VecDeque<Job>,
    /// The job that is due first is on top; of two due at the same time, the one that
    /// was spawned first.
    delayed: BinaryHeap<Reverse<DelayedJob>>,
    spawned: u64,
    /// Whether the thread runs a job.
    is_running: bool,
    is_stopped: bool,
}

struct DelayedJob {
    due: Duration,
    number: u64,
    job: Job,
}

impl LaneQueue {
    /// A queue without jobs; delays are measured by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            jobs: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Adds a job that becomes ready after `delay`. A stopped queue drops it.
    pub fn push(&self, delay: Duration, job: Job) {
        let mut jobs = lock(&self.jobs);
        if jobs.is_stopped {
            return;
        }
        if delay.is_zero() {
            jobs.ready.push_back(job);
        } else {
            jobs.spawned += 1;
            let delayed = DelayedJob {
                due: self.clock.monotonic().saturating_add(delay),
                number: jobs.spawned,
                job,
            };
            jobs.delayed.push(Reverse(delayed));
        }
        drop(jobs);
        self.changed.notify_one();
    }

    /// Waits for the next job that is due; `None` when the queue is stopped. The caller
    /// has run the previous job to its end.
    pub fn take(&self) -> Option<Job> {
        let mut jobs = lock(&self.jobs);
        jobs.is_running = false;
        loop {
            if jobs.is_stopped {
                return None;
            }
            let due = jobs.delayed.peek().map(|Reverse(delayed)| delayed.due);
            let wait = due.map(|due| due.saturating_sub(self.clock.monotonic()));
            let job = match wait {
                Some(Duration::ZERO) => jobs.delayed.pop().map(|Reverse(delayed)| delayed.job),
                _ => jobs.ready.pop_front(),
            };
            if job.is_some() {
                jobs.is_running = true;
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

    /// Whether no job runs and none will be due before `soon` has passed.
    #[must_use]
    pub fn is_idle(&self, soon: Duration) -> bool {
        let jobs = lock(&self.jobs);
        let end = self.clock.monotonic().saturating_add(soon);
        let first = jobs.delayed.peek();
        !jobs.is_running
            && jobs.ready.is_empty()
            && first.is_none_or(|Reverse(delayed)| delayed.due > end)
    }

    /// Drops the waiting jobs, and from now on every new one.
    pub fn stop(&self) {
        let waiting = {
            let mut jobs = lock(&self.jobs);
            jobs.is_stopped = true;
            (
                std::mem::take(&mut jobs.ready),
                std::mem::take(&mut jobs.delayed),
            )
        };
        self.changed.notify_all();
        // Dropped without the lock, because what a job owns may spawn as it ends.
        drop(waiting);
    }
}

impl DelayedJob {
    fn order(&self) -> (Duration, u64) {
        (self.due, self.number)
    }
}

impl PartialEq for DelayedJob {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for DelayedJob {}

impl PartialOrd for DelayedJob {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DelayedJob {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::{guarded, until};
    use base::ManualClock;
    use std::sync::mpsc::{Receiver, channel};

    /// A queue, its clock, and the numbers of the jobs that ran.
    fn queue(jobs: &[(u32, u64)]) -> (LaneQueue, Arc<ManualClock>, Receiver<u32>) {
        let clock = Arc::new(ManualClock::new(0));
        let queue = LaneQueue::new(Arc::clone(&clock) as _);
        let (sender, receiver) = channel();
        for (number, delay_ms) in jobs.iter().copied() {
            let sender = sender.clone();
            let job = Box::new(move || sender.send(number).unwrap());
            queue.push(Duration::from_millis(delay_ms), job);
        }
        (queue, clock, receiver)
    }

    #[test]
    fn jobs_run_in_their_order_and_delayed_ones_when_due() {
        let (queue, clock, ran) = queue(&[(5, 40), (3, 20), (4, 20), (1, 0), (2, 0)]);
        for advance_ms in [0, 0, 20, 0, 20] {
            clock.advance(Duration::from_millis(advance_ms));
            queue.take().unwrap()();
        }
        drop(queue);
        assert_eq!(ran.iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_queue_is_idle_when_nothing_runs_and_nothing_is_due_soon() {
        guarded("the end of a queue", watch_an_idle_queue);
    }

    fn watch_an_idle_queue() {
        let (queue, clock, _ran) = queue(&[(1, 0), (2, 30)]);
        let soon = Duration::from_millis(10);
        assert!(!queue.is_idle(soon), "a job waits");
        let job = queue.take().unwrap();
        assert!(!queue.is_idle(soon), "a job runs");
        job();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(queue.take().is_none()));
            until("the queue to be idle", || queue.is_idle(soon));
            clock.advance(Duration::from_millis(20));
            assert!(!queue.is_idle(soon), "a job is due soon");
            queue.stop();
        });
    }

    #[test]
    fn a_stopped_queue_drops_what_waits_and_what_comes() {
        let (queue, _clock, ran) = queue(&[(1, 0), (2, 30)]);
        queue.stop();
        assert!(ran.recv().is_err(), "both jobs were dropped unrun");
        queue.push(Duration::ZERO, Box::new(|| panic!("the queue is stopped")));
        assert!(queue.take().is_none());
    }
}
