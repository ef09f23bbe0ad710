//! An executor of real threads, one a lane.

use base::{Clock, SystemClock};
use lsm::{Executor, Job, Lane, LaneQueue};
use std::sync::Arc;
use std::thread::Scope;
use std::time::Duration;

/// The lanes' queues. Their threads end with [`Lanes::stop`], which drops what waits.
pub(crate) struct Lanes {
    queues: [LaneQueue; Lane::ALL.len()],
}

impl Default for Lanes {
    fn default() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        Self {
            queues: std::array::from_fn(|_| LaneQueue::new(Arc::clone(&clock))),
        }
    }
}

impl Lanes {
    /// Starts a thread for each lane.
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

impl Executor for Lanes {
    fn spawn(&self, lane: Lane, delay: Duration, job: Job) {
        self.queues[lane as usize].push(delay, job);
    }

    fn replace(&self, lane: Lane, delay: Duration, job: Job) {
        self.queues[lane as usize].replace(delay, job);
    }
}
