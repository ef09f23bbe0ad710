//! The simulated executor: it runs the background jobs of a host after seeded delays.
//!
//! The jobs of a class run one after another, in the order in which they are due. Before
//! each job the class waits for some time, which stands for the work and the disk. So the
//! dice decide the order of jobs of different classes, and how late each class is.
//!
//! The jobs run in the task set of the host's process: a frozen process runs none, and
//! the jobs of a process that crashes are gone.

use crate::dice::Dice;
use crate::trace::Trace;
use lsm::{Executor, Job, JobClass};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Runs the jobs of one process.
pub(crate) struct SimExecutor {
    host: usize,
    queue: Mutex<JobQueue>,
    arrived: Notify,
    trace: Trace,
    /// How long a job may take, in milliseconds. All processes of a host share it.
    work_ms_max: Arc<AtomicU64>,
    /// For how long each commit waits before its work, in milliseconds, as if writers were held
    /// back.
    commit_wait_ms: Arc<AtomicU64>,
}

struct JobQueue {
    dice: Dice,
    waiting: Vec<WaitingJob>,
    spawned: u64,
    /// The job that each class is busy with, and when it ends.
    busy: BTreeMap<JobClass, (Instant, Job)>,
}

struct WaitingJob {
    class: JobClass,
    due: Instant,
    number: u64,
    job: Job,
}

impl SimExecutor {
    /// An executor for a process of this host. A job takes up to `work_ms_max`
    /// milliseconds, most of them far less, and a commit `commit_wait_ms` more.
    pub(crate) fn new(
        host: usize,
        dice: Dice,
        trace: Trace,
        work_ms_max: Arc<AtomicU64>,
        commit_wait_ms: Arc<AtomicU64>,
    ) -> Arc<Self> {
        Arc::new(Self {
            host,
            queue: Mutex::new(JobQueue {
                dice,
                waiting: Vec::new(),
                spawned: 0,
                busy: BTreeMap::new(),
            }),
            arrived: Notify::new(),
            trace,
            work_ms_max,
            commit_wait_ms,
        })
    }

    /// Runs jobs while it is polled.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            let arrived = self.arrived.notified();
            let now = Instant::now();
            let next = {
                let mut queue = self.lock();
                let load = |ms: &AtomicU64| ms.load(Ordering::Relaxed);
                queue.begin_due(now, load(&self.work_ms_max), load(&self.commit_wait_ms));
                queue.next_end(now)
            };
            match next {
                Next::Run(class, job) => {
                    self.trace
                        .note(format_args!("job  {} {class:?}", self.host));
                    // Without the lock, because a job may spawn other jobs.
                    job();
                }
                Next::At(time) => {
                    tokio::select! {
                        biased;
                        () = sleep_until(time) => {}
                        () = arrived => {}
                    }
                }
                Next::Nothing => arrived.await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, JobQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Next {
    Run(JobClass, Job),
    At(Instant),
    Nothing,
}

impl JobQueue {
    /// Gives each idle class its first due job.
    fn begin_due(&mut self, now: Instant, work_ms_max: u64, commit_wait_ms: u64) {
        for class in JobClass::ALL {
            if self.busy.contains_key(&class) {
                continue;
            }
            let due = self.waiting.iter().enumerate();
            let due = due.filter(|(_, job)| job.class == class && job.due <= now);
            let first = due.min_by_key(|(_, job)| (job.due, job.number));
            if let Some((index, _)) = first {
                // Most jobs are quick.
                let bound = 1 + self.dice.below(work_ms_max.max(1));
                let wait_ms = if class == JobClass::Commit {
                    commit_wait_ms
                } else {
                    0
                };
                let work = Duration::from_millis(wait_ms + self.dice.below(bound));
                let job = self.waiting.swap_remove(index).job;
                self.busy.insert(class, (now + work, job));
            }
        }
    }

    /// The first job to run, or when there may be one.
    fn next_end(&mut self, now: Instant) -> Next {
        let first = self.busy.iter().min_by_key(|(_, (end, _))| *end);
        let first = first.map(|(class, (end, _))| (*class, *end));
        if let Some((class, _)) = first.filter(|(_, end)| *end <= now)
            && let Some((_, job)) = self.busy.remove(&class)
        {
            return Next::Run(class, job);
        }
        let starts = self.waiting.iter();
        let starts = starts.filter(|job| !self.busy.contains_key(&job.class));
        let next_start = starts.map(|job| job.due).min();
        match first
            .map(|(_, end)| end)
            .into_iter()
            .chain(next_start)
            .min()
        {
            Some(time) => Next::At(time),
            None => Next::Nothing,
        }
    }
}

impl Executor for SimExecutor {
    fn spawn(&self, class: JobClass, delay: Duration, job: Job) {
        let mut queue = self.lock();
        let number = queue.spawned;
        queue.spawned += 1;
        queue.waiting.push(WaitingJob {
            class,
            due: Instant::now() + delay,
            number,
            job,
        });
        drop(queue);
        self.arrived.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[tokio::test(start_paused = true)]
    async fn the_jobs_of_a_class_run_one_after_another_in_their_order() {
        let trace = Trace::new();
        let work_ms_max = Arc::new(AtomicU64::new(50));
        let executor = SimExecutor::new(0, Dice::new(3), trace, work_ms_max, Arc::default());
        let order = Arc::new(Mutex::new(Vec::new()));
        for number in 0..20 {
            for class in [JobClass::Commit, JobClass::Flush] {
                let order = Arc::clone(&order);
                let job = Box::new(move || order.lock().unwrap().push((class, number)));
                executor.spawn(class, Duration::ZERO, job);
            }
        }
        let late = Arc::clone(&order);
        let first = Box::new(move || late.lock().unwrap().push((JobClass::Commit, 1_000)));
        executor.spawn(JobClass::Commit, Duration::from_secs(60), first);
        let running = Rc::new(executor);
        let began = Instant::now();
        let run = Arc::clone(&running).run();
        assert!(
            tokio::time::timeout(Duration::from_secs(59), run)
                .await
                .is_err()
        );
        assert_eq!(began.elapsed(), Duration::from_secs(59));
        let all = order.lock().unwrap().clone();
        for class in [JobClass::Commit, JobClass::Flush] {
            let of_class: Vec<i32> = all
                .iter()
                .filter(|(of, _)| *of == class)
                .map(|(_, number)| *number)
                .collect();
            assert_eq!(of_class, (0..20).collect::<Vec<_>>());
        }
        assert!(
            all.windows(2).any(|two| two[0].0 == two[1].0),
            "the classes do not simply alternate"
        );
        let run = Arc::clone(&running).run();
        assert!(
            tokio::time::timeout(Duration::from_secs(2), run)
                .await
                .is_err()
        );
        assert_eq!(
            order.lock().unwrap().last(),
            Some(&(JobClass::Commit, 1_000))
        );
    }
}
