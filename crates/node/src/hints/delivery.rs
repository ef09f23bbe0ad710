//! Hands the hints of a peer over to it, at its own pace.
//!
//! One [`Delivery`] a peer runs on one of the node's runtimes. It rests while
//! there is nothing to do: no hint, or a peer that is down. Otherwise it reads
//! one segment after another, sends its hints with at most [`WINDOW`] on their
//! way, and gives the segment up when all were taken. Hints may reach the peer
//! in any order and more than once: the engine decides by timestamps.
//!
//! A hint that the peer does not take goes to the end of its segment, and the
//! delivery slows down: it waits, from [`DELAY_MIN`], doubled each time that
//! nothing got through, up to [`DELAY_MAX`]. Where nothing gets through several
//! times, what is left of the segment is put back, which frees its memory, and
//! the next one has its turn: one hint that a peer can never take neither holds
//! up the others nor has them sent again and again.
//!
//! Memory: one segment for each peer. Of segments with long values, which may be
//! several times as long, one for all peers of the node.

use super::{Batch, HintStore};
use base::{Entry, Random};
use cluster::{Miss, NodeNumber};
use lsm::Error;
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Hints on their way to a peer at a time.
const WINDOW: usize = 32;

/// The pause after the first time that a peer did not take a hint.
const DELAY_MIN: Duration = Duration::from_millis(50);

/// The longest such pause, and how often a delivery that rests looks around.
const DELAY_MAX: Duration = Duration::from_secs(5);

/// How often nothing may get through before a segment is put back.
const FAILURES_MAX: u32 = 5;

/// How long hints are let gather before a segment with few of them is read:
/// each segment costs the disk two syncs.
const GATHER_DELAY: Duration = Duration::from_millis(200);

/// The way to a peer.
pub(crate) trait HintReceiver: 'static {
    /// Whether there is any use in sending.
    fn is_up(&self) -> bool;

    /// Has the peer store a hint. Ends in bounded time.
    fn store(&self, hint: Entry) -> impl Future<Output = Result<(), Miss>>;
}

/// Delivers the hints of one peer.
pub(crate) struct Delivery<R> {
    store: HintStore,
    peer: NodeNumber,
    receiver: Rc<R>,
    reading: Arc<Semaphore>,
    random: Arc<dyn Random>,
    /// How often in a row nothing got through.
    failures: u32,
}

/// A segment in memory.
struct Held {
    batch: Batch,
    /// That to hold it, if it is long: there is one for the node.
    _permit: Option<OwnedSemaphorePermit>,
}

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Delivered,
    PutBack,
}

impl<R: HintReceiver> Delivery<R> {
    /// The delivery to `peer`. All deliveries of a node share `reading`, a
    /// semaphore of one permit, which is taken to read a segment, and kept for
    /// as long as that is held if it is a long one.
    pub(crate) fn new(
        store: HintStore,
        peer: NodeNumber,
        receiver: Rc<R>,
        reading: Arc<Semaphore>,
        random: Arc<dyn Random>,
    ) -> Self {
        Self {
            store,
            peer,
            receiver,
            reading,
            random,
            failures: 0,
        }
    }

    /// Delivers until the store is closed or the future is dropped. Runs on a
    /// single-threaded runtime, since it spawns local tasks.
    pub(crate) async fn run(mut self) {
        let mut after = 0;
        let mut let_gather = true;
        loop {
            if !self.receiver.is_up() || self.store.waiting(self.peer).hints == 0 {
                self.rest().await;
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
                Ok(Some(held)) => {
                    after = held.batch.segment;
                    let_gather = held.batch.is_short();
                    self.deliver(held).await
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot read hints");
                    self.failures = self.failures.saturating_add(1);
                    Outcome::PutBack
                }
            };
            if outcome == Outcome::PutBack && self.receiver.is_up() {
                self.back_off().await;
            }
        }
    }

    /// Waits until a hint has come or the peer is back, or for a while.
    async fn rest(&self) {
        let woken = timeout(self.jittered(DELAY_MAX), self.store.woken(self.peer)).await;
        if woken.is_err() && self.store.waiting(self.peer).hints > 0 {
            self.store.drop_expired();
        }
    }

    /// The next segment. [`None`] when the store is closed.
    async fn read(&self, after: u64) -> Option<Result<Option<Held>, Error>> {
        let permit = Arc::clone(&self.reading).acquire_owned().await.ok()?;
        let (sender, answer) = oneshot::channel();
        let reply = Box::new(move |batch| {
            // Who asked may have gone.
            let _ = sender.send(batch);
        });
        self.store.next_batch(self.peer, after, reply);
        let held = |batch: Batch| Held {
            _permit: batch.is_long().then_some(permit),
            batch,
        };
        let answer = answer.await.ok()?;
        Some(answer.map(|batch| batch.map(held)))
    }

    /// Sends the hints of a segment until all are taken, or none is for long.
    async fn deliver(&mut self, held: Held) -> Outcome {
        let Batch {
            segment, entries, ..
        } = held.batch;
        let count = entries.len();
        let mut left = VecDeque::from(entries);
        loop {
            let before = left.len();
            self.send_until_missed(&mut left).await;
            if left.is_empty() {
                self.failures = 0;
                self.store.delivered(segment);
                return Outcome::Delivered;
            }
            if left.len() < before {
                self.failures = 0;
            }
            self.failures = self.failures.saturating_add(1);
            if !self.receiver.is_up() || self.failures >= FAILURES_MAX {
                if left.len() < count {
                    self.store.put_back(segment, left.into());
                }
                return Outcome::PutBack;
            }
            self.back_off().await;
        }
    }

    /// Sends hints off the front of `left` until none is left or one is not
    /// taken. Those that are not taken are at the end of `left` then.
    async fn send_until_missed(&self, left: &mut VecDeque<Entry>) {
        let mut on_their_way = JoinSet::new();
        let mut missed = VecDeque::new();
        loop {
            while missed.is_empty()
                && on_their_way.len() < WINDOW
                && let Some(hint) = left.pop_front()
            {
                let receiver = Rc::clone(&self.receiver);
                on_their_way.spawn_local(async move {
                    let result = receiver.store(hint.clone()).await;
                    (hint, result)
                });
            }
            match on_their_way.join_next().await {
                Some(Ok((_, Ok(())))) => {}
                Some(Ok((hint, Err(_)))) => missed.push_back(hint),
                // Nobody aborts these tasks, so this is a panic, which is a bug.
                Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
                None => break,
            }
        }
        left.append(&mut missed);
    }

    async fn back_off(&self) {
        let doublings = self.failures.saturating_sub(1).min(16);
        let delay = DELAY_MIN.saturating_mul(1 << doublings).min(DELAY_MAX);
        sleep(self.jittered(delay)).await;
    }

    /// Between a half and all of `delay`, so that many nodes do not come at once.
    fn jittered(&self, delay: Duration) -> Duration {
        let half_us = (delay / 2).as_micros() as u64;
        Duration::from_micros(half_us + self.random.next_u64() % (half_us + 1))
    }
}
