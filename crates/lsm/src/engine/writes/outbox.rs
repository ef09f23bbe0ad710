//! The outcomes of writes, and how they are delivered to the writers.

use super::newer_versions::PendingCheck;
use crate::error::Error;
use base::NewerVersion;
use std::sync::Arc;

/// The newer-version check of a write that is stored.
#[derive(Clone, Debug)]
pub enum Applied {
    /// Reached without reading the disk.
    Known(NewerVersion),
    /// Needs blocks from the disk. If clocks are right this does not happen: a fresh
    /// write is newer than every table.
    Pending(PendingCheck),
    /// No version was stored, but a ballot was promised.
    Promised {
        /// The epoch of the promise of a lower ballot that was given up for it; 0 if that promise is
        /// older than the opening of the store.
        replaced: Option<u64>,
    },
    /// A promise was released, if it was kept.
    Released,
}

/// The outcome of a submitted write.
#[derive(Debug)]
pub struct Outcome {
    /// The number with which the write was submitted; see [`crate::engine::Engine::submit`].
    pub ticket: u64,
    /// The write is stored as durably as the options say, or was refused.
    pub result: Result<Applied, Error>,
}

/// Where the engine delivers the outcomes of submitted writes. Each thread that
/// writes has an outbox of its own, so that a group commit wakes it once.
pub trait Outbox: Send + Sync {
    /// Takes the outcomes of this outbox's writes in one group commit. The thread
    /// that commits calls it: the commit job, a thread that submits, before its
    /// call returns, or a thread that closes the store. Must not block, and must
    /// not submit.
    fn deliver(&self, outcomes: Vec<Outcome>);
}

/// The outcomes of a group, by outbox.
pub(in crate::engine) struct Deliveries {
    /// A short list: a group has at most as many outboxes as a node has runtimes.
    outboxes: Vec<(Arc<dyn Outbox>, Vec<Outcome>)>,
    expected: usize,
}

impl Deliveries {
    /// Deliveries for a group of `expected` writes.
    pub(in crate::engine) fn new(expected: usize) -> Self {
        Self {
            outboxes: Vec::new(),
            expected,
        }
    }

    /// Adds the outcome of one write.
    pub(in crate::engine) fn add(
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

    /// Delivers to each outbox its outcomes, in one call.
    pub(in crate::engine) fn send(self) {
        for (outbox, outcomes) in self.outboxes {
            outbox.deliver(outcomes);
        }
    }
}
