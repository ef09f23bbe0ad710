//! Writes on their way to the engine, gathered for one turn of the runtime.
//!
//! When the poller wakes many connections at once, each of their writes would take the engine's
//! lock and might wake its commit thread. So a request only queues its write. The first one wakes
//! the task that hands them to the engine, and that task runs after all tasks that were woken
//! before it. It also waits until the runtime has polled for events once more, and takes the writes
//! that these cause. This makes group commits larger: they cost fewer syncs and wakes, and a single
//! write waits for one poll.

use crate::or_abort::or_abort;
use crate::pending::{Completion, CompletionQueue};
use crate::read_pool::{PoolFull, Read, ReadJob, ReadPool};
use crate::timestamps::AllocatedTimestamp;
use crate::wait_sites;
use base::{Entry, NewerVersion};
use lsm::{Admission, Applied, Engine, Outbox, Outcome};
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
    outcomes: Arc<dyn Outbox>,
    noted: RefCell<Vec<Submission>>,
    arrived: Notify,
}

/// Where the engine leaves the outcomes of the writes of one runtime. The runtime gets each
/// outcome once, and complete: if a newer-version check needs reads, the thread that commits
/// hands it to the read pool instead.
struct WriteOutcomes {
    completions: Arc<CompletionQueue>,
    read_pool: Arc<ReadPool>,
}

impl Outbox for WriteOutcomes {
    fn deliver(&self, outcomes: Vec<Outcome>) {
        let mut pending = Vec::new();
        let known = outcomes.into_iter().filter_map(|outcome| {
            let address = outcome.ticket;
            let result = match outcome.result {
                Ok(Applied::Promised { replaced }) => {
                    return Some((address, Completion::Promised { replaced }));
                }
                Ok(Applied::Known(newer_version)) => Ok(newer_version),
                Ok(Applied::Pending(check)) => {
                    pending.push((address, check));
                    return None;
                }
                // Done as asked, and no version is newer than none.
                Ok(Applied::Released) => Ok(NewerVersion::None),
                Err(error) => Err(error),
            };
            Some((address, Completion::Written(result)))
        });
        self.completions.extend(known);
        for (address, check) in pending {
            let submitted = self.read_pool.submit(ReadJob {
                read: Read::NewerVersion(check.clone()),
                completions: Arc::clone(&self.completions),
                address,
            });
            if let Err(PoolFull) = submitted {
                let unknown = Completion::Written(Ok(check.give_up()));
                self.completions.complete(address, unknown);
            }
        }
    }
}

struct Submission {
    entry: Entry,
    address: u64,
    /// Pending until the engine has the write: see `timestamps`. `None` for a write that
    /// another node gave its timestamp.
    allocated: Option<AllocatedTimestamp>,
    admission: Admission,
    stopwatch: Stopwatch,
}

impl Submissions {
    /// No writes yet; their outcomes will go to `completions`, those that need reads by way of
    /// `read_pool`.
    pub fn new(
        engine: Engine,
        completions: Arc<CompletionQueue>,
        read_pool: Arc<ReadPool>,
    ) -> Self {
        Self {
            engine,
            outcomes: Arc::new(WriteOutcomes {
                completions,
                read_pool,
            }),
            noted: RefCell::default(),
            arrived: Notify::new(),
        }
    }

    /// Notes a write. Its outcome, also a refusal, goes to the queue with `address`.
    /// `admission` says whether it is taken below the store's closed timestamp.
    pub fn push(
        &self,
        entry: Entry,
        allocated: Option<AllocatedTimestamp>,
        admission: Admission,
        address: u64,
    ) {
        let mut noted = self.noted.borrow_mut();
        noted.push(Submission {
            entry,
            address,
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
                (submission.entry, submission.admission, submission.address)
            });
            // A panic would end this task but not the runtime, which would store nothing.
            or_abort(|| self.engine.submit_batch(batch, &self.outcomes));
            // Only the engine knows these writes, so their timestamps were pending until here.
            AllocatedTimestamp::end_all(allocated.drain(..));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_pool::ReadsRun;
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
        let read_pool = Arc::new(ReadPool::new(&engine, 1, ReadsRun::OnTheSpot));
        let submissions = Submissions::new(engine.clone(), Arc::clone(&completions), read_pool);
        let submissions = Rc::new(submissions);
        let write = |number: u64| {
            let timestamp = Timestamp::from_unix_ms(NOW_MS + number);
            let entry = Entry::value(b"k", timestamp, b"v", Expiry::NEVER, 1);
            submissions.push(entry, None, Admission::Ordinary, number);
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
