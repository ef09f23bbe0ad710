//! Paces the jobs of a class: each job delays the next one, and none blocks its thread.
//!
//! The jobs run in the order in which they were spawned. The executor may swap two that become due
//! at the same time, so it is not given the jobs but *turns*, and each turn runs the first job that
//! waits.

use super::{Background, REST_MAX, WorkKind};
use base::WorkTimer;
use lsm::{Executor, Job, JobClass};
use profile::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// The most rests that are left to the next job. Several jobs may wait at a time and run
/// in a row, and each leaves its rest.
const RESTS_MAX: u32 = 4;

/// Runs jobs of one kind of background work in a job class, and rests between them.
pub struct Pacer {
    background: Arc<Background>,
    kind: WorkKind,
    executor: Arc<dyn Executor>,
    class: JobClass,
    /// The jobs that wait for a turn; as many turns wait.
    waiting: Mutex<VecDeque<Job>>,
    /// Until when it rests, on the monotonic clock.
    rests_until: Arc<Mutex<Duration>>,
}

impl Pacer {
    /// Paces jobs of this kind on this class. None has run yet.
    pub fn new(
        background: Arc<Background>,
        kind: WorkKind,
        executor: Arc<dyn Executor>,
        class: JobClass,
    ) -> Arc<Self> {
        Arc::new(Self {
            background,
            kind,
            executor,
            class,
            waiting: Mutex::default(),
            rests_until: Arc::default(),
        })
    }

    /// Paces jobs of the same kind on another class. The two run at the same time, and rest
    /// together: each job delays the next one of both, so they use no more of the time than one.
    pub fn beside(&self, class: JobClass) -> Arc<Self> {
        Arc::new(Self {
            background: Arc::clone(&self.background),
            kind: self.kind,
            executor: Arc::clone(&self.executor),
            class,
            waiting: Mutex::default(),
            rests_until: Arc::clone(&self.rests_until),
        })
    }

    /// Has a job run once the class has rested from those before. The receiver gets what
    /// the job returns, or an error if the executor has stopped.
    pub fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, done) = oneshot::channel();
        lock(&self.waiting).push_back(Box::new(move || {
            // Nobody may wait for it any more.
            let _waits = sender.send(job()).is_ok();
        }));
        let delay = lock(&self.rests_until).saturating_sub(self.background.now());
        let turn = Turn {
            pacer: Arc::clone(self),
            is_taken: false,
        };
        self.executor
            .spawn(self.class, delay, Box::new(move || turn.run()));
        done
    }

    fn first(&self) -> Option<Job> {
        lock(&self.waiting).pop_front()
    }

    /// Runs a job, whose rest delays the next one.
    fn run(&self, job: Job) {
        let clock = &*self.background.clock;
        let work = WorkTimer::start(clock);
        job();
        let took = work.worked(clock);
        let rest = self.background.rest_after(self.kind, took);
        let now = self.background.now();
        let mut until = lock(&self.rests_until);
        let latest = now.saturating_add(REST_MAX * RESTS_MAX);
        *until = until.max(now).saturating_add(rest).min(latest);
    }
}

/// A turn of the class for one job. An executor that has stopped drops its turns, and each
/// of them drops a job.
struct Turn {
    pacer: Arc<Pacer>,
    is_taken: bool,
}

impl Turn {
    fn run(mut self) {
        self.is_taken = true;
        if let Some(job) = self.pacer.first() {
            self.pacer.run(job);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_taken {
            drop(self.pacer.first());
        }
    }
}
