//! The ends of writes, and how they get back to the writers.

use super::verdicts::PendingVerdict;
use crate::error::Error;
use base::Verdict;
use std::sync::Arc;

/// What a stored write found.
#[derive(Clone, Debug)]
pub enum Applied {
    /// This.
    Known(Verdict),
    /// Blocks have to be read to tell. With sound clocks, never: no table is
    /// newer than a fresh write.
    Pending(PendingVerdict),
}

impl Applied {
    /// What was held, after reading whatever it takes. May block.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::Known(verdict) => *verdict,
            Self::Pending(pending) => pending.finish(),
        }
    }
}

/// The end of a submitted write.
#[derive(Debug)]
pub struct Outcome {
    /// The number that the writer gave to [`super::Engine::submit`].
    pub ticket: u64,
    /// Stored as durably as the options say, or why not.
    pub result: Result<Applied, Error>,
}

/// Where the outcomes of submitted writes go. A writer thread has one of its
/// own, so that a group commit wakes each of them once.
pub trait Outbox: Send + Sync {
    /// Takes the outcomes of this outbox's writes in one group commit. Called
    /// by whoever commits: the commit lane, a thread that submits, before that
    /// returns, or one that closes the store. Must not block, nor submit itself.
    fn deliver(&self, outcomes: Vec<Outcome>);
}

/// The outcomes of a group, by outbox.
pub(super) struct Deliveries {
    /// A group comes from as many outboxes as a node has runtimes: a short list.
    outboxes: Vec<(Arc<dyn Outbox>, Vec<Outcome>)>,
    expected: usize,
}

impl Deliveries {
    /// Deliveries for a group of so many writes.
    pub(super) fn new(expected: usize) -> Self {
        Self {
            outboxes: Vec::new(),
            expected,
        }
    }

    /// Adds the outcome of one write.
    pub(super) fn add(
        &mut self,
        outbox: Arc<dyn Outbox>,
        ticket: u64,
        result: Result<Applied, Error>,
    ) {
        let outcome = Outcome { ticket, result };
        let known = self
            .outboxes
            .iter_mut()
            .find(|(known, _)| Arc::ptr_eq(known, &outbox));
        match known {
            Some((_, outcomes)) => outcomes.push(outcome),
            None => {
                let mut outcomes = Vec::with_capacity(self.expected);
                outcomes.push(outcome);
                self.outboxes.push((outbox, outcomes));
            }
        }
    }

    /// Gives each outbox its outcomes, in one call.
    pub(super) fn send(self) {
        for (outbox, outcomes) in self.outboxes {
            outbox.deliver(outcomes);
        }
    }
}
