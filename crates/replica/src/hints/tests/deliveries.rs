//! How hints are delivered to a peer.

use super::*;
use crate::background::{Background, WorkKind};
use base::SeededRandom;
use cluster::Miss;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

/// A peer that a test controls.
#[derive(Default)]
struct Peer {
    is_down: Cell<bool>,
    /// The miss to return instead of storing a hint.
    miss: Cell<Option<Miss>>,
    /// A key whose hints it never stores.
    refused: RefCell<Option<Vec<u8>>>,
    /// The closed timestamp of its store.
    closed: Cell<Timestamp>,
    stored: RefCell<Vec<Entry>>,
    asked: Cell<usize>,
    in_flight: Cell<usize>,
    in_flight_max: Cell<usize>,
}

impl HintReceiver for Peer {
    fn is_up(&self) -> bool {
        !self.is_down.get()
    }

    async fn store(&self, hint: Entry) -> Result<(), Miss> {
        self.asked.update(|asked| asked + 1);
        self.in_flight.update(|count| count + 1);
        let most = self.in_flight_max.get().max(self.in_flight.get());
        self.in_flight_max.set(most);
        sleep(Duration::from_millis(1)).await;
        self.in_flight.update(|count| count - 1);
        if self.refused.borrow().as_deref() == Some(hint.key()) {
            return Err(Miss::Failed);
        }
        let below = self.closed.get();
        if hint.timestamp() < below {
            return Err(Miss::Obsolete { below });
        }
        if let Some(miss) = self.miss.get() {
            return Err(miss);
        }
        self.stored.borrow_mut().push(hint);
        Ok(())
    }
}

impl Peer {
    fn keys(&self) -> BTreeSet<Vec<u8>> {
        let stored = self.stored.borrow();
        stored.iter().map(|hint| hint.key().to_vec()).collect()
    }
}

/// A store of hints whose jobs run while time passes, and its deliveries.
struct World {
    machine: Rc<Machine>,
    store: HintStore,
    reading: Arc<Semaphore>,
    background: Arc<Background>,
}

impl World {
    fn run<F: Future<Output = ()>>(test: impl FnOnce(Rc<Self>) -> F) {
        let machine = Rc::new(Machine::new());
        let background = Background::new(Arc::clone(&machine.clock) as _);
        Self::run_with(machine, background, test);
    }

    fn run_with<F: Future<Output = ()>>(
        machine: Rc<Machine>,
        background: Arc<Background>,
        test: impl FnOnce(Rc<Self>) -> F,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let world = Rc::new(Self {
            store: machine.open(),
            machine: Rc::clone(&machine),
            reading: Arc::new(Semaphore::new(1)),
            background,
        });
        let local = tokio::task::LocalSet::new();
        local.spawn_local(async move {
            loop {
                machine.executor.run_for(Duration::from_millis(1));
                sleep(Duration::from_millis(1)).await;
            }
        });
        let test = async {
            let ended = timeout(Duration::from_secs(3600), test(world)).await;
            ended.expect("the test waits without an end");
        };
        local.block_on(&runtime, test);
    }

    fn deliver_to(&self, number: NodeId) -> Rc<Peer> {
        let peer = Rc::new(Peer::default());
        let delivery = HintDelivery::new(
            self.store.clone(),
            number,
            Rc::clone(&peer),
            Arc::clone(&self.reading),
            Arc::new(SeededRandom::new(7)),
            Arc::clone(&self.background),
        );
        tokio::task::spawn_local(delivery.run());
        peer
    }

    fn keep(&self, peer: NodeId, keys: std::ops::Range<usize>, value: &[u8]) {
        for key in keys {
            let hint = self.machine.hint(&format!("{key}"), value);
            self.store.keep(peer, hint, Box::new(|kept| assert!(kept)));
        }
    }

    /// Waits until no hint waits for a peer, and returns how long that took.
    async fn drained(&self, peer: NodeId) -> Duration {
        let began = Instant::now();
        let drained = async {
            sleep(Duration::from_millis(10)).await;
            while self.store.waiting(peer).hints > 0 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(600), drained).await.unwrap();
        began.elapsed()
    }
}

#[test]
fn a_delivery_rests_while_clients_feel_it_and_does_not_starve() {
    let machine = Rc::new(Machine::new());
    let background = crate::background::overloaded(&machine.clock);
    World::run_with(machine, background, async |world| {
        world.deliver_to(A);
        world.keep(A, 0..1_000, b"v");
        let took = world.drained(A).await;
        let rested = world.background.times(WorkKind::Hints).1;
        assert!(took > rested && rested > Duration::from_secs(1), "{took:?}");
        assert!(took < Duration::from_secs(5), "{took:?}");
    });
}

#[test]
fn hints_reach_their_peer_soon_and_are_removed() {
    World::run(async |world| {
        let peer = world.deliver_to(A);
        let other = world.deliver_to(B);
        world.keep(A, 0..500, b"v");
        assert!(world.drained(A).await < Duration::from_secs(1));
        assert_eq!(peer.keys().len(), 500);
        assert_eq!(peer.asked.get(), 500, "each once");
        assert_eq!(peer.in_flight_max.get(), 32);
        assert_eq!(other.asked.get(), 0);
        assert_eq!(world.store.statistics().delivered, 500);
        // One more hint wakes the delivery again.
        world.keep(A, 500..501, b"v");
        world.drained(A).await;
        assert_eq!(peer.keys().len(), 501);
    });
}

#[test]
fn a_peer_that_is_down_gets_no_hint_until_it_is_back() {
    World::run(async |world| {
        let peer = world.deliver_to(A);
        peer.is_down.set(true);
        world.keep(A, 0..10, b"v");
        sleep(Duration::from_secs(60)).await;
        assert_eq!(peer.asked.get(), 0);
        peer.is_down.set(false);
        world.store.wake(A);
        assert!(world.drained(A).await < Duration::from_millis(500));
        assert_eq!(peer.keys().len(), 10);
    });
}

#[test]
fn hints_of_a_peer_that_stays_down_are_dropped_when_they_are_too_old() {
    World::run(async |world| {
        let peer = world.deliver_to(A);
        peer.is_down.set(true);
        world.keep(A, 0..10, b"v");
        sleep(Duration::from_secs(1)).await;
        assert_eq!(world.store.waiting(A).hints, 10);
        world.machine.clock.advance(options().age_max);
        sleep(Duration::from_secs(6)).await;
        assert_eq!(world.store.waiting(A), HintsWaiting::default());
        assert_eq!(world.store.statistics().dropped_for_age, 10);
    });
}

#[test]
fn an_overloaded_peer_is_sent_fewer_and_fewer_hints() {
    World::run(async |world| {
        let peer = world.deliver_to(A);
        peer.miss.set(Some(Miss::Overloaded));
        world.keep(A, 0..1000, b"v");
        sleep(Duration::from_secs(60)).await;
        let asked = peer.asked.get();
        // At most one window every few seconds, once the delivery has slowed down.
        assert!((32..=32 * 40).contains(&asked), "{asked}");
        sleep(Duration::from_secs(60)).await;
        let later = peer.asked.get() - asked;
        assert!((32..=32 * 25).contains(&later), "{later}");
        peer.miss.set(None);
        assert!(world.drained(A).await < Duration::from_secs(6));
        assert_eq!(peer.keys().len(), 1000);
    });
}

#[test]
fn one_hint_that_is_never_stored_delays_no_other() {
    World::run(async |world| {
        let peer = world.deliver_to(A);
        *peer.refused.borrow_mut() = Some(b"3".to_vec());
        world.keep(A, 0..100, b"v");
        sleep(Duration::from_secs(20)).await;
        assert_eq!(peer.keys().len(), 99);
        world.keep(A, 100..200, b"v");
        sleep(Duration::from_secs(20)).await;
        assert_eq!(peer.keys().len(), 199);
        assert_eq!(peer.stored.borrow().len(), 199, "no hint twice");
        assert_eq!(world.store.waiting(A).hints, 1);
        *peer.refused.borrow_mut() = None;
        world.drained(A).await;
        assert_eq!(peer.keys().len(), 200);
    });
}

#[test]
fn a_restart_in_the_middle_delivers_the_rest() {
    World::run(async |world| {
        let peer = world.deliver_to(A);
        world.keep(A, 0..300, b"v");
        while peer.stored.borrow().len() < 100 {
            sleep(Duration::from_millis(1)).await;
        }
        let taken = peer.keys();
        assert!(taken.len() < 300);
        let after = world.machine.after_kill();
        let left: BTreeSet<Vec<u8>> = after
            .keys(&after.open(), A)
            .into_iter()
            .map(String::into_bytes)
            .collect();
        assert_eq!(taken.union(&left).count(), 300);
    });
}

#[test]
fn long_segments_are_in_memory_one_at_a_time() {
    World::run(async |world| {
        let peers = [A, B].map(|number| world.deliver_to(number));
        for (peer, number) in peers.iter().zip([A, B]) {
            peer.miss.set(Some(Miss::Overloaded));
            world.keep(number, 0..1, &vec![0; 7 << 20]);
            sleep(Duration::from_millis(100)).await;
        }
        // Both deliveries go on, and neither waits for the other forever.
        sleep(Duration::from_secs(30)).await;
        assert!(peers.iter().all(|peer| peer.asked.get() > 2));
        peers[1].miss.set(None);
        world.drained(B).await;
        assert_eq!(peers[1].keys().len(), 1);
        assert_eq!(world.store.waiting(A).hints, 1);
    });
}

#[test]
fn a_delivery_ends_with_its_store() {
    World::run(async |world| {
        let peer = Rc::new(Peer::default());
        world.keep(A, 0..1, b"v");
        sleep(Duration::from_millis(10)).await;
        world.store.close();
        let random = Arc::new(SeededRandom::new(7));
        let reading = Arc::clone(&world.reading);
        let background = Arc::clone(&world.background);
        let delivery = HintDelivery::new(world.store.clone(), A, peer, reading, random, background);
        let ended = timeout(Duration::from_secs(10), delivery.run()).await;
        assert!(ended.is_ok());
    });
}

#[test]
fn hints_below_the_closed_timestamp_of_the_peer_are_dropped_at_once_and_counted() {
    World::run(async |world| {
        let peer = world.deliver_to(A);
        peer.closed.set(Timestamp::from_u64(u64::MAX));
        world.keep(A, 0..300, b"v");
        // Not retried, not put back, and no pause.
        assert!(world.drained(A).await < Duration::from_secs(1));
        assert_eq!(peer.asked.get(), 300, "each once");
        let statistics = world.store.statistics();
        assert_eq!(
            (statistics.delivered, statistics.dropped_obsolete),
            (0, 300)
        );
    });
}

#[test]
fn an_obsolete_hint_is_not_put_back_with_those_that_failed() {
    World::run(async |world| {
        let peer = world.deliver_to(A);
        peer.closed.set(Timestamp::from_u64(u64::MAX));
        *peer.refused.borrow_mut() = Some(b"7".to_vec());
        world.keep(A, 0..10, b"v");
        let has_dropped = async {
            while world.store.statistics().dropped_obsolete == 0 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(60), has_dropped).await.unwrap();
        assert_eq!(world.store.waiting(A).hints, 1, "only the one that failed");
        *peer.refused.borrow_mut() = None;
        world.drained(A).await;
        assert_eq!(world.store.statistics().dropped_obsolete, 10, "each once");
        assert_eq!(world.store.statistics().delivered, 0);
    });
}
