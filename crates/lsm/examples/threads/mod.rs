//! An executor for examples on real disks: each job class has a thread.

use base::Clock;
use lsm::{Executor, Job, JobClass, JobQueue};
use std::sync::Arc;
use std::time::Duration;

/// Runs each job class on a thread.
pub(crate) struct Threads {
    classes: Vec<(JobClass, Arc<JobQueue>)>,
}

impl Threads {
    /// Starts the threads, which live as long as the process.
    #[expect(
        clippy::disallowed_methods,
        reason = "the real side of the executor seam"
    )]
    pub(crate) fn start(clock: &Arc<dyn Clock>) -> Self {
        let start = |class| {
            let queue = Arc::new(JobQueue::new(Arc::clone(clock)));
            let jobs = Arc::clone(&queue);
            std::thread::spawn(move || {
                while let Some(job) = jobs.take() {
                    job();
                }
            });
            (class, queue)
        };
        Self {
            classes: JobClass::ALL.map(start).into(),
        }
    }

    fn queue(&self, class: JobClass) -> Option<&JobQueue> {
        let (_, queue) = self.classes.iter().find(|(of, _)| *of == class)?;
        Some(queue)
    }
}

impl Executor for Threads {
    fn spawn(&self, class: JobClass, delay: Duration, job: Job) {
        if let Some(queue) = self.queue(class) {
            queue.push(delay, job);
        }
    }

    fn replace(&self, class: JobClass, delay: Duration, job: Job) {
        if let Some(queue) = self.queue(class) {
            queue.replace(delay, job);
        }
    }
}
