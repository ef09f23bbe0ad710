//! An executor without threads: jobs wait until a test runs them.

use super::{Executor, Job, Lane};
use crate::sync::lock;
use base::{Clock, ManualClock};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Runs one job at a time on the caller's thread, for tests and simulations. A
/// [`ManualClock`] decides which jobs are due. Each lane offers its first due job, and
/// the caller chooses the lane.
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
    lane: Lane,
    due: Duration,
    /// Orders jobs that are due at the same time: first spawned, first run.
    number: u64,
    job: Job,
}

impl Queue {
    /// The index of the job that a lane runs next, if it is due by now.
    fn first_due(&self, lane: Lane, now: Duration) -> Option<usize> {
        let due = self.jobs.iter().enumerate();
        let due = due.filter(|(_, job)| job.lane == lane && job.due <= now);
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

    /// Runs one due job. `pick` gets the number of lanes that have one, at least 1, and
    /// returns the index of the lane to run, modulo that number. The lanes are in the
    /// order of [`Lane`]. Returns `false` without calling `pick` if no job is due.
    pub fn run_one(&self, pick: impl FnOnce(usize) -> usize) -> bool {
        let now = self.clock.monotonic();
        let job = {
            let mut queue = lock(&self.queue);
            let mut firsts: Vec<usize> = Vec::new();
            for lane in Lane::ALL {
                firsts.extend(queue.first_due(lane, now));
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

    /// Runs due jobs in the order of lanes until none is due. Returns how many ran. The
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

    /// Runs the due jobs of one lane until none is due. Returns how many ran.
    pub fn run_lane(&self, lane: Lane) -> u64 {
        let mut run = 0;
        loop {
            let now = self.clock.monotonic();
            let job = {
                let mut queue = lock(&self.queue);
                let Some(first) = queue.first_due(lane, now) else {
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
    fn spawn(&self, lane: Lane, delay: Duration, job: Job) {
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
            lane,
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture {
        clock: Arc<ManualClock>,
        executor: Arc<StepExecutor>,
        log: Arc<Mutex<Vec<&'static str>>>,
    }

    impl Fixture {
        fn new() -> Self {
            let clock = Arc::new(ManualClock::new(0));
            Self {
                executor: Arc::new(StepExecutor::new(Arc::clone(&clock))),
                clock,
                log: Arc::default(),
            }
        }

        fn spawn(&self, lane: Lane, delay_ms: u64, name: &'static str) {
            let log = Arc::clone(&self.log);
            let job = Box::new(move || log.lock().unwrap().push(name));
            self.executor
                .spawn(lane, Duration::from_millis(delay_ms), job);
        }

        fn take_log(&self) -> Vec<&'static str> {
            std::mem::take(&mut *self.log.lock().unwrap())
        }
    }

    #[test]
    fn the_caller_picks_among_the_first_due_jobs_of_the_lanes() {
        let fixture = Fixture::new();
        fixture.spawn(Lane::Compaction, 0, "compaction");
        fixture.spawn(Lane::Commit, 0, "first commit");
        fixture.spawn(Lane::Commit, 0, "second commit");
        fixture.spawn(Lane::Flush, 1, "flush");
        let mut offered = Vec::new();
        for wanted in [1, 0, 3] {
            assert!(fixture.executor.run_one(|count| {
                offered.push(count);
                wanted
            }));
        }
        assert!(!fixture.executor.run_one(|_| unreachable!("nothing is due")));
        assert_eq!(offered, [2, 1, 1]);
        assert_eq!(
            fixture.take_log(),
            ["compaction", "first commit", "second commit"]
        );
        fixture.clock.advance(Duration::from_millis(1));
        assert_eq!(fixture.executor.run_all_due(), 1);
        assert_eq!(fixture.take_log(), ["flush"]);
    }

    #[test]
    fn time_moves_on_to_the_next_job() {
        let fixture = Fixture::new();
        fixture.spawn(Lane::Commit, 30, "late");
        fixture.spawn(Lane::Commit, 10, "early");
        let executor = Arc::clone(&fixture.executor);
        let log = Arc::clone(&fixture.log);
        let outer = Box::new(move || {
            let job = Box::new(move || log.lock().unwrap().push("spawned by a job"));
            executor.spawn(Lane::Flush, Duration::from_millis(5), job);
        });
        fixture
            .executor
            .spawn(Lane::Flush, Duration::from_millis(20), outer);
        fixture.executor.run_until_idle();
        assert_eq!(fixture.take_log(), ["early", "spawned by a job", "late"]);
        assert_eq!(fixture.clock.monotonic(), Duration::from_millis(30));
    }

    #[test]
    fn a_stopped_executor_drops_its_jobs() {
        let fixture = Fixture::new();
        fixture.spawn(Lane::Commit, 0, "before");
        fixture.executor.stop();
        fixture.spawn(Lane::Commit, 0, "after");
        fixture.executor.run_until_idle();
        assert!(fixture.take_log().is_empty());
    }
}
