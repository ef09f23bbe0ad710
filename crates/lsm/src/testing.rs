//! Shared by tests of the store: an environment without chance, and a write that waits
//! for its outcome.

use crate::disk::Disk;
use crate::engine::{Applied, Engine, Outbox, Outcome};
use crate::error::Error;
use crate::executor::StepExecutor;
use crate::options::Environment;
use crate::sync::lock;
use base::{Entry, ManualClock, SeededRandom, Timestamp, Verdict};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// An environment in which nothing happens by chance: the store lies in
/// `/store` on `disk`, and its jobs run when the test runs them.
#[must_use]
pub fn environment(disk: Arc<dyn Disk>) -> (Environment, Arc<StepExecutor>) {
    let clock = Arc::new(ManualClock::new(0));
    let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
    let environment = Environment {
        folder: "/store".into(),
        disk,
        clock,
        random: Arc::new(SeededRandom::new(1)),
        executor: Arc::clone(&executor) as _,
        drop_bound: Arc::new(|| Timestamp::ZERO),
        surplus: None,
        expired_before_unix_ms: Arc::new(|| 0),
        rest_after: Arc::new(|took, _urgency| took),
    };
    (environment, executor)
}

/// A write whose caller waits for its outcome.
pub trait BlockingWrite {
    /// Writes an entry and waits until it is stored. The calling thread does the
    /// commit, and the flush or compaction that the commit waits for, unless
    /// the executor's threads are faster.
    ///
    /// # Errors
    /// As [`Engine::submit`].
    fn write(&self, entry: Entry) -> Result<Applied, Error>;
}

impl BlockingWrite for Engine {
    fn write(&self, entry: Entry) -> Result<Applied, Error> {
        let inbox = Arc::new(Inbox::default());
        let outbox: Arc<dyn Outbox> = Arc::clone(&inbox) as _;
        self.submit(entry, &outbox, 0)?;
        self.commit_waiting();
        inbox.wait()
    }
}

/// The verdict on a write, after reading what the verdict needs.
#[must_use]
pub fn verdict_of(applied: &Applied) -> Verdict {
    match applied {
        Applied::Known(verdict) => *verdict,
        Applied::Pending(pending) => pending.finish(),
    }
}

/// The outbox of one write.
#[derive(Default)]
struct Inbox {
    result: Mutex<Option<Result<Applied, Error>>>,
    delivered: Condvar,
}

impl Inbox {
    fn wait(&self) -> Result<Applied, Error> {
        let mut result = lock(&self.result);
        loop {
            if let Some(result) = result.take() {
                return result;
            }
            result = self
                .delivered
                .wait(result)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Outbox for Inbox {
    fn deliver(&self, outcomes: Vec<Outcome>) {
        for outcome in outcomes {
            *lock(&self.result) = Some(outcome.result);
        }
        self.delivered.notify_one();
    }
}
