//! Settles the keys whose promises nobody meets: a coordinator has crashed, or an answer was lost.
//! Until then writes of the key would wait.
//!
//! Each node looks at the promises of its own store. All replicas of a key may keep a promise, and
//! two that settle a key at a time only disturb each other; so the first one in the key's preference
//! list begins first, and the others later if that was not enough.
//!
//! A store that does not count needs to settle nothing: before it counts again it is compared with
//! all others. It gives its promises up, so that what it lacks can come in.

use super::settling::Settlement;
use crate::coordinator::Coordinator;
use bytes::Bytes;
use cluster::{NodeId, Replicas};
use lsm::{Engine, Executor, JobClass, KeptPromise};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// For how long the first replica in the preference list keeps a promise before it settles the key:
/// twice as long as whoever meets it waits, which is this share of the time of a request, but not less
/// than this. Each next one waits for as long again, but none for more than three times that.
const STALE_SHARE: u32 = 25;
const STALE_MIN: Duration = Duration::from_millis(200);
const RANK_MAX: usize = 2;

/// How many keys are settled at a time.
const SETTLING_MAX: usize = 64;

/// How many promises a look takes from the store.
const FOUND_MAX: usize = 256;

/// Settles stale promises of this node's own store, until the runtime ends.
pub(crate) async fn settle_stale_forever(
    coordinator: Rc<Coordinator>,
    executor: Arc<dyn Executor>,
) {
    let engine = coordinator.replicas.own().engine.clone();
    let opened = coordinator.clock.monotonic();
    let stale_after = STALE_MIN.max(coordinator.timeout / STALE_SHARE);
    // Where the next look begins, so that keys that cannot be settled do not hide others.
    let mut after: Box<[u8]> = Box::default();
    loop {
        tokio::time::sleep(stale_after / 2).await;
        let has_room = coordinator.conditional.settling.borrow().len() < SETTLING_MAX;
        if engine.promises_kept() == 0 || !has_room {
            continue;
        }
        let found = find(&engine, &*executor, stale_after, after).await;
        let is_all = found.len() < FOUND_MAX;
        after = match found.last() {
            Some(last) if !is_all => last.key.clone(),
            _ => Box::default(),
        };
        let now = coordinator.clock.monotonic();
        for promise in &found {
            let kept_for = promise
                .kept_for
                .unwrap_or_else(|| now.saturating_sub(opened));
            coordinator.settle_stale(promise, kept_for, stale_after);
        }
    }
}

/// The promises that were kept for long. The look waits for a commit, so it is a job.
async fn find(
    engine: &Engine,
    executor: &dyn Executor,
    stale_after: Duration,
    after: Box<[u8]>,
) -> Vec<KeptPromise> {
    let (sender, found) = oneshot::channel();
    let engine = engine.clone();
    let job = Box::new(move || {
        let promises = engine.promises_kept_for(stale_after, &after, FOUND_MAX);
        // The runtime may have ended.
        let _is_awaited = sender.send(promises).is_ok();
    });
    executor.spawn(JobClass::Owner, Duration::ZERO, job);
    // An executor that stops drops its jobs.
    found.await.unwrap_or_default()
}

impl Coordinator {
    /// Settles the key of a promise, if it is this node's turn.
    fn settle_stale(
        self: &Rc<Self>,
        promise: &KeptPromise,
        kept_for: Duration,
        stale_after: Duration,
    ) {
        let own = self.replicas.own();
        if !own.is_settled() {
            // Whether the store counts is not known yet.
            return;
        }
        let replicas = Replicas::quorum(promise.copies.max(1));
        // In a change of the members those of both lists.
        let (preference_list, _) = self.peers.for_request(&promise.key, replicas);
        let is_own = |node: &NodeId| self.peers.is_own(*node);
        let rank = preference_list.iter().position(is_own);
        let Some(rank) = rank.filter(|_| own.counts_for(&promise.key)) else {
            return self.release(self.peers.own(), &promise.key, promise.ballot);
        };
        let turns = rank.min(RANK_MAX) as u32 + 1;
        let settling = &self.conditional.settling;
        let key = Bytes::copy_from_slice(&promise.key);
        if kept_for < stale_after * turns
            || settling.borrow().len() >= SETTLING_MAX
            || !settling.borrow_mut().insert(key.clone())
        {
            return;
        }
        let settled = Settlement::begin(self, key.clone(), replicas);
        let coordinator = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let _is_settled = settled.await;
            coordinator.conditional.settling.borrow_mut().remove(&key);
        });
    }
}
