//! An environment without chance, a write that waits for its
//! outcome, and what ends the threads of a test.

use super::StepExecutor;
use base::{Entry, ManualClock, NewerVersion, SeededRandom, Timestamp};
use lsm::{Applied, Disk, Engine, Environment, Error, Outbox, Outcome};
use profile::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a test waits for anything. It is long, because only a test that fails waits for
/// all of it.
pub const PATIENCE: Duration = Duration::from_secs(120);

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
        gc_threshold: Arc::new(|| Timestamp::ZERO),
        non_owned: None,
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

/// The newer-version check of a write, after reading what the newer-version check needs.
#[must_use]
pub fn newer_version_of(applied: &Applied) -> NewerVersion {
    match applied {
        Applied::Known(newer_version) => *newer_version,
        Applied::Pending(pending) => pending.finish(),
        Applied::Promised { .. } | Applied::Released => NewerVersion::None,
    }
}

/// The outbox of one write.
#[derive(Default)]
struct Inbox {
    result: Mutex<Option<Result<Applied, Error>>>,
    delivered: Condvar,
}

impl Inbox {
    #[expect(clippy::panic, reason = "only tests wait for an outcome")]
    fn wait(&self) -> Result<Applied, Error> {
        let result = lock(&self.result);
        let (mut result, _) = self
            .delivered
            .wait_timeout_while(result, PATIENCE, |result| result.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        match result.take() {
            Some(result) => result,
            None => panic!("timed out while waiting for the outcome of a write"),
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

/// Sets the flag that ends the other threads of a test, also when its own thread panics.
#[derive(Debug)]
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
