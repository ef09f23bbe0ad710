//! The jobs of one job class, for an executor that runs each class on a thread.

use super::Job;
use crate::locks::lock;
use base::Clock;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The waiting jobs of a class, for the one thread that runs them.
///
/// The queue has no bound, because few jobs of a class wait at the same time (see
/// [`JobClass`](super::JobClass)).
pub struct JobQueue {
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
    /// The delayed job that the next one of its kind replaces.
    replaceable: Option<DelayedJob>,
    spawned: u64,
    /// Whether the thread runs a job. When that ends, it looks for the next one itself.
    is_running: bool,
    is_stopped: bool,
}

struct DelayedJob {
    due: Duration,
    number: u64,
    job: Job,
}

impl JobQueue {
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
            let delayed = self.delayed(&mut jobs, delay, job);
            jobs.delayed.push(Reverse(delayed));
        }
        self.wake(jobs);
    }

    /// Adds a job that becomes ready after `delay`, in place of the one that this method added
    /// before, if that still waits. A stopped queue drops it.
    pub fn replace(&self, delay: Duration, job: Job) {
        let mut jobs = lock(&self.jobs);
        if jobs.is_stopped {
            return;
        }
        let delayed = self.delayed(&mut jobs, delay, job);
        let replaced = jobs.replaceable.replace(delayed);
        self.wake(jobs);
        drop(replaced);
    }

    fn delayed(&self, jobs: &mut Jobs, delay: Duration, job: Job) -> DelayedJob {
        jobs.spawned += 1;
        DelayedJob {
            due: self.clock.monotonic().saturating_add(delay),
            number: jobs.spawned,
            job,
        }
    }

    /// Wakes the thread, if it waits. To wake costs a system call even if nobody does.
    fn wake(&self, jobs: MutexGuard<'_, Jobs>) {
        let is_running = jobs.is_running;
        drop(jobs);
        if !is_running {
            self.changed.notify_one();
        }
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
            let due = jobs.first_due();
            let wait = due.map(|due| due.saturating_sub(self.clock.monotonic()));
            let job = match wait {
                Some(Duration::ZERO) => jobs.pop_delayed(),
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
        !jobs.is_running && jobs.ready.is_empty() && jobs.first_due().is_none_or(|due| due > end)
    }

    /// Drops the waiting jobs, and from now on every new one.
    pub fn stop(&self) {
        let waiting = {
            let mut jobs = lock(&self.jobs);
            jobs.is_stopped = true;
            (
                std::mem::take(&mut jobs.ready),
                std::mem::take(&mut jobs.delayed),
                jobs.replaceable.take(),
            )
        };
        self.changed.notify_all();
        // Dropped without the lock, because what a job owns may spawn as it ends.
        drop(waiting);
    }
}

impl Jobs {
    /// When the first delayed job is due.
    fn first_due(&self) -> Option<Duration> {
        let others = self.delayed.peek().map(|Reverse(delayed)| delayed.due);
        let replaceable = self.replaceable.as_ref().map(|delayed| delayed.due);
        others.into_iter().chain(replaceable).min()
    }

    /// Takes the delayed job that is due first.
    fn pop_delayed(&mut self) -> Option<Job> {
        let other = self.delayed.peek().map(|Reverse(delayed)| delayed);
        let first = self
            .replaceable
            .take_if(|replaceable| other.is_none_or(|other| &*replaceable < other));
        let first = first.or_else(|| self.delayed.pop().map(|Reverse(delayed)| delayed));
        first.map(|delayed| delayed.job)
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
    use crate::testing::waiting::{guarded, until};
    use base::{ManualClock, SystemClock};
    use std::sync::mpsc::{Receiver, channel};

    /// A queue, its clock, and the numbers of the jobs that ran.
    fn queue(jobs: &[(u32, u64)]) -> (JobQueue, Arc<ManualClock>, Receiver<u32>) {
        let clock = Arc::new(ManualClock::new(0));
        let queue = JobQueue::new(Arc::clone(&clock) as _);
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
    fn a_replaceable_job_runs_when_due_unless_another_one_came() {
        let (queue, clock, ran) = queue(&[(2, 20), (4, 50)]);
        let (sender, replaceable) = channel();
        let replace = |number: u32, delay_ms| {
            let sender = sender.clone();
            let job = Box::new(move || sender.send(number).unwrap());
            queue.replace(Duration::from_millis(delay_ms), job);
        };
        let run_next = |advance_ms| {
            clock.advance(Duration::from_millis(advance_ms));
            queue.take().unwrap()();
        };
        replace(1, 10);
        run_next(10);
        assert_eq!(replaceable.try_recv(), Ok(1));
        replace(2, 5);
        replace(3, 20);
        run_next(10);
        assert_eq!(ran.try_recv(), Ok(2), "the replaced one did not run before");
        assert!(!queue.is_idle(Duration::from_millis(10)), "one is due soon");
        run_next(10);
        assert_eq!(replaceable.try_recv(), Ok(3));
        run_next(20);
        assert_eq!(ran.try_recv(), Ok(4));
        replace(5, 1);
        queue.stop();
        drop(sender);
        assert!(replaceable.recv().is_err(), "2 and 5 were dropped unrun");
    }

    #[test]
    fn a_job_that_comes_while_the_thread_waits_or_runs_is_taken() {
        guarded("the jobs of a thread", take_what_comes);
    }

    fn take_what_comes() {
        let queue = JobQueue::new(Arc::new(SystemClock::new()));
        let (sender, ran) = channel();
        let queue = &queue;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while let Some(job) = queue.take() {
                    job();
                }
            });
            for number in 0..1000 {
                let sender = sender.clone();
                let job = Box::new(move || sender.send(number).unwrap());
                match number % 3 {
                    0 => queue.push(Duration::ZERO, job),
                    1 => queue.push(Duration::from_micros(1), job),
                    _ => queue.replace(Duration::from_micros(1), job),
                }
                // Half of the jobs come when the last one has just been run.
                if number % 2 == 0 {
                    while ran.recv().unwrap() < number {}
                }
            }
            queue.stop();
        });
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
