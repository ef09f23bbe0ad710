//! Threads for the engine's jobs, one a lane, as a node has them.
//!
//! Unlike a node's threads they have no priorities, because the other engines' threads
//! have none.

use base::{Clock, SystemClock};
use lsm::{Executor, Job, Lane, LaneQueue};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A job that is due later than this only checks whether entries have expired. It does not
/// count as remaining work.
const SOON: Duration = Duration::from_secs(5);

/// Runs jobs until it is stopped.
pub struct LaneThreads {
    lanes: Vec<(Lane, Arc<LaneQueue>)>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl LaneThreads {
    /// Starts the threads.
    pub fn start() -> io::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let queue = |lane| (lane, Arc::new(LaneQueue::new(Arc::clone(&clock))));
        let executor = Self {
            lanes: Lane::ALL.map(queue).into(),
            threads: Mutex::default(),
        };
        for (lane, queue) in &executor.lanes {
            let queue = Arc::clone(queue);
            let thread = std::thread::Builder::new()
                .name(format!("{lane:?}").to_lowercase())
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
        let is_background = |lane: &Lane| matches!(lane, Lane::Flush | Lane::Compaction);
        let mut background = self.lanes.iter().filter(|(lane, _)| is_background(lane));
        background.all(|(_, queue)| queue.is_idle(SOON))
    }

    /// Drops the jobs that wait and waits for those that run.
    pub fn stop(&self) {
        for (_, queue) in &self.lanes {
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

impl Executor for LaneThreads {
    fn spawn(&self, lane: Lane, delay: Duration, job: Job) {
        if let Some((_, queue)) = self.lanes.iter().find(|(known, _)| *known == lane) {
            queue.push(delay, job);
        }
    }
}
