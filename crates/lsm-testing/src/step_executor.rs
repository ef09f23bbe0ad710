//! An executor without threads: jobs wait until a test runs them.

use base::{Clock, ManualClock};
use lsm::{Executor, Job, JobClass};
use profile::lock;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Runs one job at a time on the caller's thread, for tests and simulations. A
/// [`ManualClock`] decides which jobs are due. Each class offers its first due job, and
/// the caller chooses the class.
///
/// No lock is held while a job runs, so a job may spawn others.
pub struct StepExecutor {
    clock: Arc<ManualClock>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    jobs: Vec<Waiting>,
    spawned: u64,
    stopped: bool,
}

struct Waiting {
    class: JobClass,
    due: Duration,
    /// Orders jobs that are due at the same time: first spawned, first run.
    number: u64,
    job: Job,
}

impl Queue {
    /// The index of the job that a class runs next, if it is due by now.
    fn first_due(&self, class: JobClass, now: Duration) -> Option<usize> {
        let due = self.jobs.iter().enumerate();
        let due = due.filter(|(_, job)| job.class == class && job.due <= now);
        due.min_by_key(|(_, job)| (job.due, job.number))
            .map(|(index, _)| index)
    }
}

impl StepExecutor {
    /// An executor without jobs.
    #[must_use]
    pub fn new(clock: Arc<ManualClock>) -> Self {
        Self {
            clock,
            queue: Mutex::default(),
        }
    }

    /// Runs one due job. `pick` gets the number of classes that have one, at least 1, and
    /// returns the index of the class to run, modulo that number. The classes are in the
    /// order of [`JobClass`]. Returns `false` without calling `pick` if no job is due.
    pub fn run_one(&self, pick: impl FnOnce(usize) -> usize) -> bool {
        let now = self.clock.monotonic();
        let job = {
            let mut queue = lock(&self.queue);
            let mut firsts: Vec<usize> = Vec::new();
            for class in JobClass::ALL {
                firsts.extend(queue.first_due(class, now));
            }
            if firsts.is_empty() {
                return false;
            }
            let picked = firsts[pick(firsts.len()) % firsts.len()];
            queue.jobs.swap_remove(picked).job
        };
        job();
        true
    }

    /// Runs due jobs in the order of classes until none is due. Returns how many ran. The
    /// clock does not advance, so delayed jobs keep waiting.
    pub fn run_all_due(&self) -> u64 {
        let mut run = 0;
        while self.run_one(|_| 0) {
            run += 1;
        }
        run
    }

    /// Runs jobs until none waits. Whenever no job is due, it advances the clock to the
    /// next one. It never returns if a job spawns itself again for ever.
    pub fn run_until_idle(&self) {
        loop {
            self.run_all_due();
            let Some(due) = self.next_due() else { return };
            self.clock
                .advance(due.saturating_sub(self.clock.monotonic()));
        }
    }

    /// Runs the due jobs of one job class until none is due. Returns how many ran.
    pub fn run_class(&self, class: JobClass) -> u64 {
        let mut run = 0;
        loop {
            let now = self.clock.monotonic();
            let job = {
                let mut queue = lock(&self.queue);
                let Some(first) = queue.first_due(class, now) else {
                    return run;
                };
                queue.jobs.swap_remove(first).job
            };
            job();
            run += 1;
        }
    }

    /// Advances the clock by `span`, and runs each job that becomes due at its time.
    pub fn run_for(&self, span: Duration) {
        let end = self.clock.monotonic().saturating_add(span);
        loop {
            self.run_all_due();
            let next = self.next_due().filter(|due| *due <= end);
            let until = next.unwrap_or(end);
            self.clock
                .advance(until.saturating_sub(self.clock.monotonic()));
            if next.is_none() {
                return;
            }
        }
    }

    /// When the first waiting job is or was due, in the clock's monotonic time.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        lock(&self.queue).jobs.iter().map(|job| job.due).min()
    }

    /// Drops the waiting jobs, and from now on every new one, as the end of a process
    /// does.
    pub fn stop(&self) {
        let jobs = {
            let mut queue = lock(&self.queue);
            queue.stopped = true;
            std::mem::take(&mut queue.jobs)
        };
        // Dropped without the lock, because what a job owns may spawn as it ends.
        drop(jobs);
    }
}

impl Executor for StepExecutor {
    fn spawn(&self, class: JobClass, delay: Duration, job: Job) {
        let due = self.clock.monotonic().saturating_add(delay);
        let mut queue = lock(&self.queue);
        if queue.stopped {
            drop(queue);
            drop(job);
            return;
        }
        let number = queue.spawned;
        queue.spawned += 1;
        queue.jobs.push(Waiting {
            class,
            due,
            number,
            job,
        });
    }
}

impl fmt::Debug for StepExecutor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("StepExecutor")
            .field("waiting", &lock(&self.queue).jobs.len())
            .finish_non_exhaustive()
    }
}
