//! Batches: many requests of a client at a time, to one node and with one pair. Each is an
//! operation of its own in the history. It begins when the node begins it, so the checker knows
//! that of two on one key the second began after the first had ended.

use super::{PATIENCE, REFUSED_PAUSE, World};
use crate::dice::Dice;
use crate::host::{BatchClient, SentRequest};
use crate::{value, workload};
use base::Clock;
use bytes::Bytes;
use checker::{OperationId, Outcome, Request};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How many requests a batch has.
const REQUESTS: std::ops::RangeInclusive<u64> = 2..=8;

/// A batch that a client has sent.
struct Batch {
    world: Rc<World>,
    requests: Vec<Request>,
    /// The operations that have begun, until they are answered.
    begun: RefCell<Vec<Option<OperationId>>>,
    answered: RefCell<Vec<OperationId>>,
    /// Whether the client still waits.
    is_open: Cell<bool>,
}

impl World {
    /// Sends a batch, and records what it answers. Returns how many requests it had.
    pub(super) async fn ask_batch(self: &Rc<Self>, client: usize, dice: &Dice) -> usize {
        let first = workload::request(client, &self.scenario, dice);
        let requests = (0..dice.within(&REQUESTS)).map(|_| Request {
            node: first.node,
            ack: first.ack,
            from: first.from,
            ..workload::request(client, &self.scenario, dice)
        });
        let requests: Vec<Request> = requests.collect();
        let count = requests.len();
        let batch = Rc::new(Batch {
            world: Rc::clone(self),
            begun: RefCell::new(vec![None; count]),
            answered: RefCell::default(),
            requests: requests.clone(),
            is_open: Cell::new(true),
        });
        let client = Rc::clone(&batch) as Rc<dyn BatchClient>;
        let asked = self.hosts[first.node].ask_batch(requests, client);
        let Some(SentRequest { answer, leave }) = asked else {
            sleep(REFUSED_PAUSE).await;
            return count;
        };
        if timeout(PATIENCE, answer).await.is_err() {
            leave.abort();
        }
        batch.close();
        sleep(Duration::from_millis(1)).await;
        count
    }
}

impl Batch {
    fn complete(&self, id: OperationId, outcome: Outcome) {
        let world = &self.world;
        let clock = &world.hosts[self.requests[0].node].clock;
        world
            .history
            .borrow_mut()
            .complete(id, outcome, clock.unix_ms());
        world.timeline.borrow_mut().completed(id);
        world.trace.note(format_args!("tell #{} {outcome}", id.0));
        self.answered.borrow_mut().push(id);
    }

    /// The client waits no longer. What was not answered is lost to it.
    fn close(&self) {
        self.is_open.set(false);
        for id in self.begun.take().into_iter().flatten() {
            self.complete(id, Outcome::Lost);
        }
        // No host can be asked while one runs, which is when answers come.
        let gc_threshold = self.world.gc_threshold();
        for id in self.answered.take() {
            self.world
                .history
                .borrow_mut()
                .ended_below(id, gc_threshold);
        }
    }
}

impl BatchClient for Batch {
    fn begins(&self, number: usize) -> Bytes {
        let (world, request) = (&self.world, self.requests[number]);
        if !self.is_open.get() {
            return Bytes::new();
        }
        let clock = &world.hosts[request.node].clock;
        let id = world.history.borrow_mut().invoke(request, clock.unix_ms());
        world.timeline.borrow_mut().invoked();
        world
            .trace
            .note(format_args!("ask  #{} {request} in a batch", id.0));
        self.begun.borrow_mut()[number] = Some(id);
        if request.action.is_put() {
            value::of(id, workload::value_bytes(&world.value_dice))
        } else {
            Bytes::new()
        }
    }

    fn answered(&self, number: usize, outcome: Outcome) {
        let id = self
            .begun
            .borrow_mut()
            .get_mut(number)
            .and_then(Option::take);
        if let Some(id) = id {
            self.complete(id, outcome);
        }
    }
}
