//! Threads for the engine's jobs, one a job class, as a node has them.
//!
//! Unlike a node's threads they have no priorities, because the other engines' threads
//! have none.

use base::{Clock, SystemClock};
use lsm::{Executor, Job, JobClass, JobQueue};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A job that is due later than this only checks whether entries have expired. It does not
/// count as remaining work.
const SOON: Duration = Duration::from_secs(5);

/// Runs jobs until it is stopped.
pub struct JobThreads {
    classes: Vec<(JobClass, Arc<JobQueue>)>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl JobThreads {
    /// Starts the threads.
    pub fn start() -> io::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let queue = |class| (class, Arc::new(JobQueue::new(Arc::clone(&clock))));
        let executor = Self {
            classes: JobClass::ALL.map(queue).into(),
            threads: Mutex::default(),
        };
        for (class, queue) in &executor.classes {
            let queue = Arc::clone(queue);
            let thread = std::thread::Builder::new()
                .name(format!("{class:?}").to_lowercase())
                .spawn(move || {
                    while let Some(job) = queue.take() {
                        job();
                    }
                })?;
            executor.threads().push(thread);
        }
        Ok(executor)
    }

    /// Whether no flush and no compaction runs, waits or is due soon.
    pub fn is_idle(&self) -> bool {
        let is_background =
            |class: &JobClass| *class == JobClass::Flush || JobClass::COMPACTIONS.contains(class);
        let mut background = self
            .classes
            .iter()
            .filter(|(class, _)| is_background(class));
        background.all(|(_, queue)| queue.is_idle(SOON))
    }

    /// Drops the jobs that wait and waits for those that run.
    pub fn stop(&self) {
        for (_, queue) in &self.classes {
            queue.stop();
        }
        for thread in std::mem::take(&mut *self.threads()) {
            // A job that panicked has printed its message.
            let _ = thread.join();
        }
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Executor for JobThreads {
    fn spawn(&self, class: JobClass, delay: Duration, job: Job) {
        if let Some((_, queue)) = self.classes.iter().find(|(known, _)| *known == class) {
            queue.push(delay, job);
        }
    }
}
