//! Writes on their way to the engine, gathered for one turn of the runtime.
//!
//! When the poller wakes many connections at once, each of their writes would take the engine's
//! lock and might wake its commit thread. So a request only queues its write. The first one wakes
//! the task that hands them to the engine, and that task runs after all tasks that were woken
//! before it. It also waits until the runtime has polled for events once more, and takes the writes
//! that these cause. This makes group commits larger: they cost fewer syncs and wakes, and a single
//! write waits for one poll.

use crate::or_abort::or_abort;
use crate::pending::CompletionQueue;
use crate::timestamps::AllocatedTimestamp;
use crate::wait_sites;
use base::Entry;
use lsm::{Admission, Engine, Outbox};
use profile::Stopwatch;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::task::yield_now;

/// The writes of one runtime that the engine does not have yet. There is at most one for
/// each request in flight, so admission bounds them.
pub struct Submissions {
    engine: Engine,
    outbox: Arc<dyn Outbox>,
    noted: RefCell<Vec<Submission>>,
    arrived: Notify,
}

struct Submission {
    entry: Entry,
    ticket: u64,
    /// Pending until the engine has the write: see `timestamps`. `None` for a write that
    /// another node gave its timestamp.
    allocated: Option<AllocatedTimestamp>,
    admission: Admission,
    stopwatch: Stopwatch,
}

impl Submissions {
    /// No writes yet; their outcomes will go to `completions`.
    pub fn new(engine: Engine, completions: Arc<CompletionQueue>) -> Self {
        Self {
            engine,
            outbox: completions,
            noted: RefCell::default(),
            arrived: Notify::new(),
        }
    }

    /// Notes a write. Its outcome, also a refusal, goes to the queue with `ticket`.
    /// `admission` says whether it is taken below the store's fence.
    pub fn push(
        &self,
        entry: Entry,
        allocated: Option<AllocatedTimestamp>,
        admission: Admission,
        ticket: u64,
    ) {
        let mut noted = self.noted.borrow_mut();
        noted.push(Submission {
            entry,
            ticket,
            allocated,
            admission,
            stopwatch: Stopwatch::start(),
        });
        if noted.len() == 1 {
            self.arrived.notify_one();
        }
    }

    /// Hands the noted writes to the engine, until the runtime ends.
    pub async fn submit_forever(self: Rc<Self>) {
        let mut noted = Vec::new();
        let mut allocated = Vec::new();
        loop {
            self.arrived.notified().await;
            // The runtime polls for events before it wakes a task that has yielded.
            yield_now().await;
            std::mem::swap(&mut noted, &mut *self.noted.borrow_mut());
            let batch = noted.drain(..).map(|submission| {
                submission.stopwatch.stop(&wait_sites::TURN);
                allocated.extend(submission.allocated);
                (submission.entry, submission.admission, submission.ticket)
            });
            // A panic would end this task but not the runtime, which would store nothing.
            or_abort(|| self.engine.submit_batch(batch, &self.outbox));
            // Only the engine knows these writes, so their timestamps were pending until here.
            AllocatedTimestamp::end_all(allocated.drain(..));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Expiry, Timestamp};
    use lsm::{Durability, Options};
    use lsm_testing::{MemoryDisk, environment};
    use tokio::task::LocalSet;

    const NOW_MS: u64 = 1_700_000_000_000;

    #[tokio::test]
    async fn writes_that_the_next_events_bring_share_a_commit() {
        let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
        let options = Options {
            durability: Durability::Os,
            ..Options::default()
        };
        let (engine, _) = Engine::open(environment, options).unwrap();
        let completions = Arc::<CompletionQueue>::default();
        let submissions = Rc::new(Submissions::new(engine.clone(), Arc::clone(&completions)));
        let write = |ticket: u64| {
            let timestamp = Timestamp::from_unix_ms(NOW_MS + ticket);
            let entry = Entry::value(b"k", timestamp, b"v", Expiry::NEVER, 1);
            submissions.push(entry, None, Admission::Ordinary, ticket);
        };
        let tasks = LocalSet::new();
        tasks.spawn_local(Rc::clone(&submissions).submit_forever());
        let test = async {
            yield_now().await;
            write(1);
            // The runtime polls for events before it comes back to this task.
            yield_now().await;
            write(2);
            yield_now().await;
            assert_eq!(engine.statistics().commits, 1);
            let mut answers = Vec::new();
            completions.take_all(&mut answers).await;
            assert_eq!(answers.len(), 2);
            // A single write waits for one poll.
            write(3);
            yield_now().await;
            yield_now().await;
            assert_eq!(engine.statistics().commits, 2);
        };
        tasks.run_until(test).await;
    }
}
