//! What the conditional writes of one runtime share. Those of a key wait for each other, so that
//! they do not spoil each other's ballots.
//!
//! Each that ends tells the others of the version that a majority holds then. No older one can be
//! current any more, so a write whose condition names only older ones is answered without a round trip.
//! If many clients read a value and want to replace it, one succeeds, and all others learn that at once.

use base::Permits;
use bytes::Bytes;
use cluster::{Condition, Newest};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many conditional writes of one key may be under way on a runtime. All but one wait.
const TURNS_MAX: usize = 64;

/// The keys that have conditional writes under way on one runtime.
#[derive(Default)]
pub(crate) struct KeyTurns(RefCell<BTreeMap<Bytes, KeyTurn>>);

struct KeyTurn {
    semaphore: Arc<Semaphore>,
    /// How many have the turn or wait for it.
    count: usize,
    /// The newest version that a majority held when one of them had ended.
    newest: Newest,
}

/// A place in the queue of a key, until it is dropped.
pub(super) struct Place {
    turns: Rc<KeyTurns>,
    key: Bytes,
    semaphore: Arc<Semaphore>,
}

/// The turn at a key, until it is dropped.
pub(super) struct Turn {
    // The permit goes first: the others of the queue wait for it.
    _permit: OwnedSemaphorePermit,
    place: Place,
}

impl KeyTurns {
    /// A place in the queue of a key; [`None`] if there are too many.
    pub(super) fn queue(self: &Rc<Self>, key: &Bytes) -> Option<Place> {
        let mut keys = self.0.borrow_mut();
        let turn = keys.entry(key.clone()).or_insert_with(|| KeyTurn {
            semaphore: Arc::new(Semaphore::new(1)),
            count: 0,
            newest: Newest::NOTHING,
        });
        if turn.count == TURNS_MAX {
            return None;
        }
        turn.count += 1;
        Some(Place {
            turns: Rc::clone(self),
            key: key.clone(),
            semaphore: Arc::clone(&turn.semaphore),
        })
    }
}

impl Place {
    /// Waits for the turn. None comes once there is no queue.
    pub(super) async fn turn(self) -> Option<Turn> {
        let permit = Arc::clone(&self.semaphore).acquire_owned().await.ok()?;
        Some(Turn {
            _permit: permit,
            place: self,
        })
    }
}

impl Turn {
    /// Tells those that wait what a majority holds.
    pub(super) fn tell(&self, newest: Newest) {
        let mut keys = self.place.turns.0.borrow_mut();
        if let Some(turn) = keys.get_mut(&self.place.key)
            && turn.newest.timestamp < newest.timestamp
        {
            turn.newest = newest;
        }
    }

    /// What a majority has held before this turn, if a condition cannot hold any more because of that.
    pub(super) fn refutes(&self, condition: &Condition) -> Option<Newest> {
        let keys = self.place.turns.0.borrow();
        let newest = keys.get(&self.place.key)?.newest;
        condition.is_older_than(newest.timestamp?).then_some(newest)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut keys = self.turns.0.borrow_mut();
        if let Some(turn) = keys.get_mut(&self.key) {
            turn.count -= 1;
            if turn.count == 0 {
                keys.remove(&self.key);
            }
        }
    }
}

/// What the conditional writes of one runtime share.
pub(crate) struct ConditionalWrites {
    /// The queues of keys.
    pub(super) turns: Rc<KeyTurns>,
    /// How many may be under way, with a client or without.
    pub(super) permits: Rc<Permits>,
    /// The keys that are being settled because nobody has met their promises.
    pub(super) settling: RefCell<BTreeSet<Bytes>>,
}

impl ConditionalWrites {
    /// None yet, and at most so many at a time.
    pub(crate) fn new(writes_max: usize) -> Self {
        Self {
            turns: Rc::default(),
            permits: Permits::new(writes_max),
            settling: RefCell::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_has_the_turn_and_the_others_wait_in_their_order() {
        let turns = Rc::<KeyTurns>::default();
        let key = Bytes::from_static(b"k");
        let first = turns.queue(&key).unwrap();
        let second = turns.queue(&key).unwrap();
        let other = turns.queue(&Bytes::from_static(b"j")).unwrap();
        let turn = first.turn().await;
        let other = other.turn().await;
        assert!(turn.is_some() && other.is_some());
        let mut second = Box::pin(second.turn());
        tokio::select! {
            biased;
            _ = &mut second => unreachable!("the first has the turn"),
            () = tokio::task::yield_now() => {}
        }
        drop(turn);
        let second = second.await;
        assert!(second.is_some());
        drop((second, other));
        assert!(turns.0.borrow().is_empty());
    }

    #[test]
    fn the_queue_of_a_key_is_bounded() {
        let turns = Rc::<KeyTurns>::default();
        let key = Bytes::from_static(b"k");
        let mut places: Vec<Place> = (0..TURNS_MAX).filter_map(|_| turns.queue(&key)).collect();
        assert_eq!(places.len(), TURNS_MAX);
        assert!(turns.queue(&key).is_none());
        places.pop();
        assert!(turns.queue(&key).is_some());
    }
}
