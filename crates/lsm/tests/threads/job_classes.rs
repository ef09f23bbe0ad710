//! An executor of real threads, one a job class.

use base::{Clock, SystemClock};
use lsm::{Executor, Job, JobClass, JobQueue};
use std::sync::Arc;
use std::thread::Scope;
use std::time::Duration;

/// The classes' queues. Their threads end with [`JobClasses::stop`], which drops what waits.
pub(crate) struct JobClasses {
    queues: [JobQueue; JobClass::ALL.len()],
}

impl Default for JobClasses {
    fn default() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        Self {
            queues: std::array::from_fn(|_| JobQueue::new(Arc::clone(&clock))),
        }
    }
}

impl JobClasses {
    /// Starts a thread for each class.
    pub(crate) fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        for queue in &self.queues {
            scope.spawn(|| {
                while let Some(job) = queue.take() {
                    job();
                }
            });
        }
    }

    pub(crate) fn stop(&self) {
        for queue in &self.queues {
            queue.stop();
        }
    }
}

impl Executor for JobClasses {
    fn spawn(&self, class: JobClass, delay: Duration, job: Job) {
        self.queues[class as usize].push(delay, job);
    }

    fn replace(&self, class: JobClass, delay: Duration, job: Job) {
        self.queues[class as usize].replace(delay, job);
    }
}
