//! What the store has set aside, for the operator: jobs read and discard it, one at a time.

use base::{Quota, Refused, Timestamp};
use lsm::{CopiesPage, Engine, Error, Executor, JobClass};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Reads and discards what the store has set aside.
pub(super) struct SetAside {
    engine: Engine,
    executor: Arc<dyn Executor>,
    /// The job under way.
    turn: Arc<Quota>,
}

impl SetAside {
    pub(super) fn new(engine: Engine, executor: Arc<dyn Executor>) -> Self {
        Self {
            engine,
            executor,
            turn: Quota::new(1),
        }
    }

    /// As [`Engine::copies_set_aside`].
    pub(super) async fn copies(
        &self,
        start: Vec<u8>,
        bytes_max: usize,
    ) -> Result<CopiesPage, Error> {
        self.run(move |engine| engine.copies_set_aside(&start, bytes_max))
            .await
    }

    /// As [`Engine::discard_set_aside`].
    pub(super) async fn discard(&self, up_to: Timestamp) -> Result<(), Error> {
        self.run(move |engine| engine.discard_set_aside(up_to))
            .await
    }

    /// Does work in a job, unless another one is under way.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Engine) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let turn = self.turn.try_reserve(1);
        let turn = turn.map_err(|Refused| Error::Overloaded)?;
        let (sender, done) = oneshot::channel();
        let engine = self.engine.clone();
        let job = Box::new(move || {
            let result = work(&engine);
            drop(turn);
            // Whoever asked may have left.
            let _is_awaited = sender.send(result).is_ok();
        });
        self.executor.spawn(JobClass::Scan, Duration::ZERO, job);
        // An executor that stops drops its jobs.
        done.await.unwrap_or(Err(Error::Closed))
    }
}
