use super::*;
use base::{Clock, ManualClock, Permits};
use cluster::{Members, NodeUrl, ReplicaIndex};
use lsm_testing::StepExecutor;
use peer::PeerAnswer;
use replica::pending::{AnswerKind, PendingRequests};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(1);

/// A request that one number of answers decides and another one ends. It notes what
/// happens to it.
struct Fake {
    answers: u8,
    decided_by: u8,
    done_by: u8,
    trigger: Option<Trigger>,
    notes: Rc<RefCell<Vec<&'static str>>>,
}

impl Request for Fake {
    type Reply = u8;

    fn receive(&mut self, answer: Option<(AnswerTag, Completion)>) -> Option<u8> {
        if answer.is_none() {
            self.notes.borrow_mut().push("deadline");
            return (self.answers < self.decided_by).then_some(u8::MAX);
        }
        self.answers += 1;
        self.notes.borrow_mut().push("answer");
        (self.answers == self.decided_by).then_some(self.answers)
    }

    fn trigger(&self) -> Option<Trigger> {
        self.trigger
    }

    fn fire(&mut self) -> Option<u8> {
        self.trigger = None;
        self.notes.borrow_mut().push("trigger");
        None
    }

    fn is_done(&self) -> bool {
        self.answers >= self.done_by
    }

    fn continue_in_background(&mut self, has_room: bool) -> bool {
        let note = if has_room { "goes on" } else { "has no room" };
        self.notes.borrow_mut().push(note);
        has_room
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.notes.borrow_mut().push("ends");
    }
}

struct World {
    pending: Rc<PendingRequests>,
    requests: Requests<Fake>,
    timestamps: Arc<TimestampAllocator>,
    notes: Rc<RefCell<Vec<&'static str>>>,
}

/// Counts how often a client is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl World {
    fn new(background_max: usize) -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000_000));
        let url: NodeUrl = "http://a:1".parse().unwrap();
        Self {
            pending: PendingRequests::new(),
            requests: Requests::new(&Permits::new(background_max)),
            timestamps: TimestampAllocator::new(
                Arc::clone(&clock) as Arc<dyn Clock>,
                Arc::new(StepExecutor::new(clock)),
                &Members::from(url),
                TIMEOUT,
            ),
            notes: Rc::default(),
        }
    }

    /// A request that is not decided yet, and the address of its answers.
    fn enter(&self, decided_by: u8, done_by: u8) -> (PendingReply<Fake>, u64) {
        let registration = self.pending.reserve(TIMEOUT);
        let address = registration.ticket().with(AnswerTag {
            kind: AnswerKind::Read,
            replica: ReplicaIndex::new(0),
        });
        let fake = Fake {
            answers: 0,
            decided_by,
            done_by,
            trigger: None,
            notes: Rc::clone(&self.notes),
        };
        match self.requests.enter(fake, None, registration) {
            Ok(_) => panic!("nothing has decided it"),
            Err(pending) => (pending, address),
        }
    }

    fn answer(&self, address: u64) {
        let answer = Completion::Peer(PeerAnswer::Found(None));
        self.pending.complete(address, answer);
    }

    fn notes(&self) -> Vec<&'static str> {
        self.notes.take()
    }

    fn spare_cells(&self) -> usize {
        self.requests.spare.0.borrow().len()
    }
}

fn poll<F: Future>(future: Pin<&mut F>, wakes: &Arc<Wakes>) -> Poll<F::Output> {
    let waker = Waker::from(Arc::clone(wakes));
    future.poll(&mut Context::from_waker(&waker))
}

#[test]
fn only_the_deciding_answer_wakes_the_client_and_the_request_goes_on() {
    let world = World::new(1);
    let (reply, address) = world.enter(2, 3);
    let wakes = Arc::default();
    {
        let mut decided = pin!(reply.decided(&world.timestamps));
        assert!(poll(decided.as_mut(), &wakes).is_pending());
        world.answer(address);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
        world.answer(address);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert_eq!(poll(decided, &wakes), Poll::Ready(2));
    }
    assert_eq!(world.notes(), ["answer", "answer", "goes on"]);
    world.answer(address);
    assert_eq!(world.notes(), ["answer", "ends"]);
    world.answer(address);
    assert_eq!(world.notes(), [""; 0], "no answer reaches an ended request");
    assert_eq!(world.spare_cells(), 1);
}

#[test]
fn a_client_that_goes_before_the_decision_ends_its_request() {
    let world = World::new(1);
    let (reply, address) = world.enter(2, 3);
    world.answer(address);
    drop(reply);
    assert_eq!(world.notes(), ["answer", "ends"]);
    world.answer(address);
    assert_eq!(world.notes(), [""; 0]);
    assert_eq!(world.spare_cells(), 1);
}

#[test]
fn a_client_that_goes_after_the_decision_ends_nothing() {
    let world = World::new(1);
    let (reply, address) = world.enter(1, 2);
    world.answer(address);
    drop(reply);
    assert_eq!(world.notes(), ["answer", "goes on"]);
    world.answer(address);
    assert_eq!(world.notes(), ["answer", "ends"]);
}

#[test]
fn the_deadline_decides_a_request_and_ends_one_that_goes_on() {
    let world = World::new(1);
    let wakes = Arc::default();
    let (reply, _) = world.enter(2, 3);
    world.pending.expire(TIMEOUT);
    let decided = pin!(reply.decided(&world.timestamps));
    assert_eq!(poll(decided, &wakes), Poll::Ready(u8::MAX));
    assert_eq!(world.notes(), ["deadline", "goes on", "ends"]);
    let (reply, address) = world.enter(1, 3);
    world.answer(address);
    drop(reply);
    world.pending.expire(TIMEOUT);
    assert_eq!(world.notes(), ["answer", "goes on", "deadline", "ends"]);
}

#[test]
fn a_request_without_room_in_the_background_ends_with_its_decision() {
    let world = World::new(1);
    let (first, first_address) = world.enter(1, 2);
    let (second, second_address) = world.enter(1, 2);
    world.answer(first_address);
    world.answer(second_address);
    assert_eq!(
        world.notes(),
        ["answer", "goes on", "answer", "has no room", "ends"]
    );
    drop((first, second));
    world.answer(first_address);
    assert_eq!(world.notes(), ["answer", "ends"]);
    let (third, third_address) = world.enter(1, 2);
    world.answer(third_address);
    assert_eq!(world.notes(), ["answer", "goes on"], "there is room again");
    drop(third);
}

#[test]
fn requests_use_the_cells_of_ended_ones_again() {
    let world = World::new(1);
    for _ in 0..3 {
        let (reply, address) = world.enter(1, 1);
        assert_eq!(world.spare_cells(), 0);
        world.answer(address);
        drop(reply);
        assert_eq!(world.spare_cells(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_clients_future_fires_the_trigger_in_time() {
    let world = World::new(1);
    let (reply, address) = world.enter(1, 1);
    let at = Instant::now() + TIMEOUT / 2;
    if let Some(running) = &mut *reply.cell.running.borrow_mut() {
        running.request.trigger = Some(Trigger::At(at));
    }
    let mut decided = pin!(reply.decided(&world.timestamps));
    assert!(
        tokio::time::timeout(TIMEOUT / 4, &mut decided)
            .await
            .is_err()
    );
    assert_eq!(world.notes(), [""; 0]);
    assert!(
        tokio::time::timeout(TIMEOUT / 2, &mut decided)
            .await
            .is_err()
    );
    assert_eq!(world.notes(), ["trigger"]);
    world.answer(address);
    assert_eq!(decided.await, 1);
}
