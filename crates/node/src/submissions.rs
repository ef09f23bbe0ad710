//! Writes on their way to the engine, a turn of the runtime at a time.
//!
//! When the poller wakes many connections at once, each of their writes would
//! take the engine's lock and might wake its commit thread alone. So a write is
//! only noted; the task that hands the notes over is woken by the first and
//! runs after all that were woken before it. The group commits are larger for
//! it, and a single write loses no time.

use crate::or_abort::or_abort;
use crate::stamping::Stamp;
use crate::wait_sites;
use base::Entry;
use lsm::{Engine, Outbox};
use profile::Stopwatch;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;

/// The writes of one runtime that the engine has yet to be given. As many as
/// its requests in flight, so bounded with them.
pub(crate) struct Submissions {
    engine: Engine,
    outbox: Arc<dyn Outbox>,
    noted: RefCell<Vec<Submission>>,
    arrived: Notify,
}

struct Submission {
    entry: Entry,
    ticket: u64,
    /// Pending until the engine has the write: see `stamping`. None for a
    /// write that another node stamped.
    stamp: Option<Stamp>,
    stopwatch: Stopwatch,
}

impl Submissions {
    /// Nothing noted yet; the ends of the writes will come to `outbox`.
    pub(crate) fn new(engine: Engine, outbox: Arc<dyn Outbox>) -> Self {
        Self {
            engine,
            outbox,
            noted: RefCell::default(),
            arrived: Notify::new(),
        }
    }

    /// Notes a write. Its end, be it a refusal, comes to the outbox under `ticket`.
    pub(crate) fn push(&self, entry: Entry, stamp: Option<Stamp>, ticket: u64) {
        let mut noted = self.noted.borrow_mut();
        noted.push(Submission {
            entry,
            ticket,
            stamp,
            stopwatch: Stopwatch::start(),
        });
        if noted.len() == 1 {
            self.arrived.notify_one();
        }
    }

    /// Hands over what is noted, for as long as the runtime lives.
    pub(crate) async fn submit_forever(self: Rc<Self>) {
        let mut noted = Vec::new();
        let mut stamps = Vec::new();
        loop {
            self.arrived.notified().await;
            std::mem::swap(&mut noted, &mut *self.noted.borrow_mut());
            let batch = noted.drain(..).map(|submission| {
                submission.stopwatch.stop(&wait_sites::TURN);
                stamps.extend(submission.stamp);
                (submission.entry, submission.ticket)
            });
            // The runtime would outlive a panic of its task, and the store would not.
            or_abort(|| self.engine.submit_batch(batch, &self.outbox));
            // Not before: until now nobody else knew of these writes.
            Stamp::end_all(stamps.drain(..));
        }
    }
}
