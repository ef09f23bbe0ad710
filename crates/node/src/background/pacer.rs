//! Paces the jobs of a lane: each job delays the next one, and none blocks its thread.

use super::{Background, REST_MAX, WorkKind};
use lsm::{Executor, Lane};
use profile::lock;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// The most rests that are left to the next job. Several jobs may wait at a time and run
/// in a row, and each leaves its rest.
const RESTS_MAX: u32 = 4;

/// Runs jobs of one kind of background work on a lane, and rests between them.
pub(crate) struct Pacer {
    background: Arc<Background>,
    kind: WorkKind,
    executor: Arc<dyn Executor>,
    lane: Lane,
    /// Until when the lane rests, on the monotonic clock.
    rests_until: Mutex<Duration>,
}

impl Pacer {
    /// Paces jobs of this kind on this lane. None has run yet.
    pub(crate) fn new(
        background: Arc<Background>,
        kind: WorkKind,
        executor: Arc<dyn Executor>,
        lane: Lane,
    ) -> Arc<Self> {
        Arc::new(Self {
            background,
            kind,
            executor,
            lane,
            rests_until: Mutex::default(),
        })
    }

    /// Has a job run once the lane has rested from those before. The receiver gets what
    /// the job returns, or an error if the executor has stopped.
    pub(crate) fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, done) = oneshot::channel();
        let delay = lock(&self.rests_until).saturating_sub(self.background.now());
        let pacer = Arc::clone(self);
        let job = Box::new(move || {
            // Nobody may wait for it any more.
            let _waits = sender.send(pacer.run(job)).is_ok();
        });
        self.executor.spawn(self.lane, delay, job);
        done
    }

    /// Runs a job, whose rest delays the next one.
    fn run<T>(&self, job: impl FnOnce() -> T) -> T {
        let began = self.background.now();
        let done = job();
        let now = self.background.now();
        let took = now.saturating_sub(began);
        let rest = self.background.rest_after(self.kind, took);
        let mut until = lock(&self.rests_until);
        let latest = now.saturating_add(REST_MAX * RESTS_MAX);
        *until = until.max(now).saturating_add(rest).min(latest);
        done
    }
}
