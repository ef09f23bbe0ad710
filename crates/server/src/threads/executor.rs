//! The real side of the executor seam: one thread for each job class.
//!
//! A panic in a job ends the process, and so does a panic in a runtime while it commits a write.
//! Otherwise writers would wait forever, and the state in memory could be wrong. The WAL restores
//! all acknowledged writes.

use base::Clock;
use lsm::{Executor, Job, JobClass, JobQueue};
use node::or_abort;
use profile::lock;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Runs the engine's jobs on threads of its own, until [`ThreadExecutor::stop`].
pub(crate) struct ThreadExecutor {
    /// In the order of the classes.
    queues: [Arc<JobQueue>; JobClass::ALL.len()],
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ThreadExecutor {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start(clock: &Arc<dyn Clock>) -> io::Result<Self> {
        let executor = Self {
            queues: JobClass::ALL.map(|_| Arc::new(JobQueue::new(Arc::clone(clock)))),
            threads: Mutex::default(),
        };
        // Every writer waits for the commit, which needs little processor time but
        // needs it soon. Writers wait for the flush only when it falls behind.
        for (name, class, niceness) in [
            ("commit", JobClass::Commit, -10),
            ("log", JobClass::Log, 0),
            ("flush", JobClass::Flush, 10),
            ("compaction", JobClass::Compaction, 15),
            ("compaction-2", JobClass::Compaction2, 15),
            ("compaction-3", JobClass::Compaction3, 15),
            ("compaction-4", JobClass::Compaction4, 15),
            ("owner", JobClass::Owner, 0),
            ("repair", JobClass::Scan, 15),
            ("ingest", JobClass::Ingest, 15),
            ("backup", JobClass::Backup, 15),
        ] {
            let queue = Arc::clone(executor.queue(class));
            let thread = std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || {
                    set_priority(niceness);
                    while let Some(job) = queue.take() {
                        or_abort(job);
                    }
                });
            match thread {
                Ok(thread) => lock(&executor.threads).push(thread),
                Err(error) => {
                    executor.stop();
                    return Err(error);
                }
            }
        }
        Ok(executor)
    }

    /// Drops the jobs that wait, and waits for those that run. Jobs that are spawned
    /// afterwards are dropped.
    pub(crate) fn stop(&self) {
        for class in JobClass::ALL {
            self.queue(class).stop();
        }
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
    }

    fn queue(&self, class: JobClass) -> &Arc<JobQueue> {
        &self.queues[class as usize]
    }
}

impl Executor for ThreadExecutor {
    fn spawn(&self, class: JobClass, delay: Duration, job: Job) {
        self.queue(class).push(delay, job);
    }

    fn replace(&self, class: JobClass, delay: Duration, job: Job) {
        self.queue(class).replace(delay, job);
    }
}

impl Drop for ThreadExecutor {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Sets the niceness of the calling thread: a positive one lets other threads run
/// first, a negative one lets it run before them. The system allows negative ones only
/// to privileged processes, and the thread runs without.
fn set_priority(niceness: i32) {
    if niceness == 0 {
        return;
    }
    let thread = rustix::thread::gettid();
    // On Linux each thread has a priority, and its id counts as a process id.
    if let Err(error) = rustix::process::setpriority_process(Some(thread), niceness) {
        tracing::debug!(%error, niceness, "cannot set the priority of a thread");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lsm_testing::PATIENCE;
    use std::sync::mpsc;

    fn executor() -> ThreadExecutor {
        let clock: Arc<dyn Clock> = Arc::new(base::SystemClock::new());
        ThreadExecutor::start(&clock).unwrap()
    }

    #[test]
    fn jobs_of_a_class_run_in_their_order_and_delayed_ones_when_due() {
        let executor = executor();
        let (sender, receiver) = mpsc::channel();
        // A job that is due much later comes first.
        const HOUR_MS: u64 = 3_600_000;
        for (number, delay_ms) in [(5, HOUR_MS), (1, 0), (2, 0), (3, 20), (4, 40)] {
            let sender = sender.clone();
            executor.spawn(
                JobClass::Flush,
                Duration::from_millis(delay_ms),
                Box::new(move || sender.send(number).unwrap()),
            );
        }
        let ran = [(); 4].map(|()| receiver.recv_timeout(PATIENCE).unwrap());
        // One that has become due may pass one that was due at once, if the thread of the class has
        // waited for a processor.
        let in_order = |of: [i32; 2]| ran.iter().filter(|it| of.contains(*it)).eq(&of);
        assert!(in_order([1, 2]) && in_order([3, 4]), "{ran:?}");
    }

    #[test]
    fn job_classes_do_not_wait_for_each_other() {
        let executor = executor();
        let (blocked, release) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        executor.spawn(
            JobClass::Compaction,
            Duration::ZERO,
            Box::new(move || release.recv().unwrap_or(())),
        );
        executor.spawn(
            JobClass::Commit,
            Duration::ZERO,
            Box::new(move || sender.send(()).unwrap()),
        );
        receiver.recv_timeout(PATIENCE).unwrap();
        drop(blocked);
    }

    #[test]
    fn a_stopped_executor_drops_what_waits_and_what_comes() {
        let executor = executor();
        let (sender, receiver) = mpsc::channel::<()>();
        let waiting = sender.clone();
        executor.spawn(
            JobClass::Commit,
            Duration::from_secs(3600),
            Box::new(move || waiting.send(()).unwrap()),
        );
        executor.stop();
        executor.spawn(
            JobClass::Commit,
            Duration::ZERO,
            Box::new(move || sender.send(()).unwrap()),
        );
        assert!(receiver.recv().is_err(), "both jobs were dropped unrun");
    }
}
