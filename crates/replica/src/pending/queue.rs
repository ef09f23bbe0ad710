//! Delivers the answers of other threads to a runtime.
//!
//! A runtime has one [`CompletionQueue`], the only part of it that other threads touch: a
//! list behind a lock. A thread wakes the runtime only when the list stops being empty, so
//! a group commit of a thousand writes costs each runtime one wake.

use crate::range_digest::RangeDigest;
use crate::shared_bounds::BeforeRead;
use crate::wait_sites;
use base::{Entry, NewerVersion, Reservation};
use cluster::pages::ScanPage;
use lsm::{Error, Scan};
use peer::PeerAnswer;
use profile::Stopwatch;
use profile::lock;
use std::sync::Mutex;
use tokio::sync::Notify;

/// An answer that a request waits for.
pub enum Completion {
    /// A write is stored, and what its newer-version check has found; or it is not.
    Written(Result<NewerVersion, Error>),
    /// A ballot is promised.
    Promised {
        /// The epoch of the promise of a lower ballot that was given up for it.
        replaced: Option<u64>,
    },
    /// A key was read.
    Read(Result<KeyRead, Error>),
    /// The scan, its next entries, and the reservation of memory that they take.
    Scanned(
        Box<Scan>,
        Result<Vec<Entry>, Error>,
        (Reservation, Option<Reservation>),
    ),
    /// The sum over a range, and whether it is complete.
    Digested(Box<RangeDigest>, Result<bool, Error>),
    /// A page of a scan.
    Paged(Result<ScanPage, Error>),
    /// A peer answered, or no answer of it can come.
    Peer(PeerAnswer),
    /// A hint is kept, or could not be kept.
    HintKept,
}

/// The newest version of a key in the store.
pub struct KeyRead {
    /// The version.
    pub entry: Option<Entry>,
    /// The reservation of memory for a long value.
    pub reservation: Option<Reservation>,
    /// What held for the store before the read.
    pub before: BeforeRead,
}

/// An answer in the queue.
pub struct Delivery {
    /// What it is addressed to.
    pub address: u64,
    /// The answer.
    pub completion: Completion,
    stopwatch: Stopwatch,
}

/// Where other threads leave answers for one runtime.
#[derive(Default)]
pub struct CompletionQueue {
    delivered: Mutex<Vec<Delivery>>,
    arrived: Notify,
}

impl CompletionQueue {
    /// Leaves one answer.
    pub fn complete(&self, address: u64, completion: Completion) {
        self.extend(std::iter::once((address, completion)));
    }

    /// Leaves many answers, and wakes the runtime once.
    pub fn extend(&self, completions: impl Iterator<Item = (u64, Completion)>) {
        let mut delivered = lock(&self.delivered);
        let was_empty = delivered.is_empty();
        delivered.extend(completions.map(|(address, completion)| Delivery {
            address,
            completion,
            stopwatch: Stopwatch::start(),
        }));
        let wake = was_empty && !delivered.is_empty();
        drop(delivered);
        if wake {
            self.arrived.notify_one();
        }
    }

    /// Waits for an answer, and takes all answers into `answers`.
    pub async fn take_all(&self, answers: &mut Vec<Delivery>) {
        self.arrived.notified().await;
        std::mem::swap(answers, &mut *lock(&self.delivered));
        for answer in answers {
            answer.stopwatch.stop(&wait_sites::COMPLETIONS);
        }
    }
}
