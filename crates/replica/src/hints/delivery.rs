//! Delivers the hints of a peer at the pace of the peer.
//!
//! One [`HintDelivery`] for each peer runs on one of the node's runtimes. It sleeps
//! while there is no hint or the peer is down. Otherwise it reads one segment after
//! another, sends the hints with at most [`WINDOW`] in flight, and removes the segment
//! when the peer has stored all of them. Hints may reach the peer in any order and
//! more than once, because the engine orders them by timestamps.
//!
//! A hint that the peer does not store goes to the end of its segment, and delivery slows down: it
//! pauses for [`DELAY_MIN`], and doubles the pause after each consecutive failure, up to
//! [`DELAY_MAX`]. After [`FAILURES_MAX`] consecutive failures it gives the segment up and continues
//! with the next one, which frees the memory; if the peer has stored some hints, the remaining ones
//! are put back as a segment of their own. So a hint that a peer can never
//! store neither delays the others nor causes them to be resent.
//!
//! A hint that is too old for the peer's store ([`Miss::Obsolete`]) is dropped and counted, because
//! it will never be stored.
//!
//! Memory: one segment for each peer. Segments with long values may be several times
//! as long, so only one of them is in memory for all peers of the node.

use super::{HintBatch, HintStore};
use crate::background::{Background, WorkKind};
use base::{Backoff, Entry, Random, jittered};
use cluster::{Miss, NodeId};
use lsm::Error;
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How many hints to a peer are in flight at a time.
const WINDOW: usize = 32;

/// The pause after the first failure.
const DELAY_MIN: Duration = Duration::from_millis(50);

/// The longest pause after a failure, and how often a sleeping delivery drops hints
/// that are too old.
const DELAY_MAX: Duration = Duration::from_secs(5);

/// After this many failures in a row a delivery gives a segment up.
const FAILURES_MAX: u32 = 5;

/// After so many hints a delivery rests as long as the budget of background work says.
const STEP_HINTS: usize = 128;

/// How long a delivery waits for more hints before it reads a segment that has few,
/// because each segment costs two syncs.
const GATHER_DELAY: Duration = Duration::from_millis(200);

/// Stores hints at a peer.
pub trait HintReceiver: 'static {
    /// Whether the peer is up, so that sending makes sense.
    fn is_up(&self) -> bool;

    /// Asks the peer to store a hint. Ends within a bounded time.
    fn store(&self, hint: Entry) -> impl Future<Output = Result<(), Miss>>;
}

/// Delivers the hints of one peer.
pub struct HintDelivery<R> {
    store: HintStore,
    peer: NodeId,
    receiver: Rc<R>,
    reading: Arc<Semaphore>,
    random: Arc<dyn Random>,
    background: Arc<Background>,
    /// How often in a row the peer did not store a hint.
    backoff: Backoff,
}

/// A segment in memory.
struct SegmentInMemory {
    batch: HintBatch,
    /// The permit to hold a long segment; the node has one.
    _permit: Option<OwnedSemaphorePermit>,
}

/// How an attempt to deliver a segment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeliveryOutcome {
    /// The peer has stored all hints, but for those that no store takes any more.
    Delivered,
    /// The segment could not be read, or the peer has not stored all of it. What it has not
    /// stored stays, and is tried again after a pause.
    GaveUp,
}

impl<R: HintReceiver> HintDelivery<R> {
    /// The delivery to `peer`. All deliveries of a node share the semaphore `reading`,
    /// which has one permit. A delivery takes the permit to read a segment, and keeps
    /// it with a long segment until that is dropped.
    pub fn new(
        store: HintStore,
        peer: NodeId,
        receiver: Rc<R>,
        reading: Arc<Semaphore>,
        random: Arc<dyn Random>,
        background: Arc<Background>,
    ) -> Self {
        Self {
            store,
            peer,
            receiver,
            reading,
            random,
            background,
            backoff: Backoff::new(DELAY_MIN, DELAY_MAX),
        }
    }

    /// Delivers until the store is closed or the future is dropped. Needs a
    /// single-threaded runtime, because it spawns local tasks.
    pub async fn run(mut self) {
        let mut after = 0;
        let mut let_gather = true;
        loop {
            if !self.receiver.is_up() || self.store.waiting(self.peer).hints == 0 {
                self.sleep_until_woken().await;
                let_gather = true;
                continue;
            }
            if let_gather {
                sleep(GATHER_DELAY).await;
            }
            let Some(read) = self.read(after).await else {
                return;
            };
            let outcome = match read {
                Ok(None) => continue,
                Ok(Some(segment)) => {
                    after = segment.batch.segment;
                    let_gather = segment.batch.is_short();
                    self.deliver(segment).await
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot read hints");
                    self.backoff.fail();
                    DeliveryOutcome::GaveUp
                }
            };
            if outcome == DeliveryOutcome::GaveUp && self.receiver.is_up() {
                self.back_off().await;
            }
        }
    }

    /// Waits until a hint was written or the peer is back, at most about [`DELAY_MAX`].
    async fn sleep_until_woken(&self) {
        let woken = timeout(
            jittered(DELAY_MAX, &*self.random),
            self.store.woken(self.peer),
        )
        .await;
        if woken.is_err() && self.store.waiting(self.peer).hints > 0 {
            self.store.drop_expired();
        }
    }

    /// Reads the next segment. [`None`] if the store is closed.
    async fn read(&self, after: u64) -> Option<Result<Option<SegmentInMemory>, Error>> {
        let permit = Arc::clone(&self.reading).acquire_owned().await.ok()?;
        let (sender, answer) = oneshot::channel();
        let reply = Box::new(move |batch| {
            // The delivery may have been dropped meanwhile.
            let _ = sender.send(batch);
        });
        self.store.next_batch(self.peer, after, reply);
        let segment = |batch: HintBatch| SegmentInMemory {
            _permit: batch.is_long().then_some(permit),
            batch,
        };
        let answer = answer.await.ok()?;
        Some(answer.map(|batch| batch.map(segment)))
    }

    /// Sends the hints of a segment until the peer has stored all of them, or until it
    /// has stored none several times in a row.
    async fn deliver(&mut self, segment: SegmentInMemory) -> DeliveryOutcome {
        let HintBatch {
            segment, entries, ..
        } = segment.batch;
        let count = entries.len();
        let mut left = VecDeque::from(entries);
        let mut obsolete = 0;
        loop {
            let before = left.len();
            obsolete += self.send_until_missed(&mut left).await;
            if left.is_empty() {
                self.backoff.reset();
                self.store.delivered(segment, obsolete);
                return DeliveryOutcome::Delivered;
            }
            if left.len() < before {
                self.backoff.reset();
            }
            self.backoff.fail();
            if !self.receiver.is_up() || self.backoff.failures() >= FAILURES_MAX {
                if left.len() < count {
                    self.store.put_back(segment, left.into(), obsolete);
                }
                return DeliveryOutcome::GaveUp;
            }
            self.back_off().await;
        }
    }

    /// Sends hints from the front of `left` until none is left or the peer does not
    /// store one. Hints that the peer did not store are at the end of `left` afterwards,
    /// but for the obsolete ones, whose number is returned.
    async fn send_until_missed(&self, left: &mut VecDeque<Entry>) -> u64 {
        let mut in_flight = JoinSet::new();
        let mut missed = VecDeque::new();
        let mut obsolete = 0;
        let (mut step_began, mut step_hints) = (self.background.now(), 0);
        loop {
            if step_hints >= STEP_HINTS {
                let took = self.background.now().saturating_sub(step_began);
                let rest = self.background.rest_after(WorkKind::Hints, took);
                if !rest.is_zero() {
                    sleep(rest).await;
                }
                (step_began, step_hints) = (self.background.now(), 0);
            }
            while missed.is_empty()
                && in_flight.len() < WINDOW
                && step_hints < STEP_HINTS
                && let Some(hint) = left.pop_front()
            {
                step_hints += 1;
                let receiver = Rc::clone(&self.receiver);
                in_flight.spawn_local(async move {
                    let result = receiver.store(hint.clone()).await;
                    (hint, result)
                });
            }
            match in_flight.join_next().await {
                Some(Ok((_, Ok(())))) => {}
                Some(Ok((_, Err(Miss::Obsolete { .. })))) => obsolete += 1,
                Some(Ok((hint, Err(_)))) => missed.push_back(hint),
                // These tasks are never aborted, so the task has panicked, which is a bug.
                Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
                None => break,
            }
        }
        left.append(&mut missed);
        obsolete
    }

    async fn back_off(&self) {
        sleep(self.backoff.jittered_wait(&*self.random)).await;
    }
}
