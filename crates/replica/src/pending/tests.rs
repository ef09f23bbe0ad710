use super::*;
use base::NewerVersion;
use cluster::ReplicaIndex;
use std::future::Future;
use std::pin::pin;

fn poll(wait: &Wait) -> Poll<Option<Completion>> {
    wait.poll_next(&mut Context::from_waker(Waker::noop()))
}

fn stored() -> Completion {
    Completion::Written(Ok(NewerVersion::None))
}

fn tag(replica: u8) -> AnswerTag {
    AnswerTag {
        kind: AnswerKind::Read,
        replica: ReplicaIndex::new(replica),
    }
}

#[test]
fn an_answer_reaches_the_request_that_it_is_addressed_to() {
    let pending = PendingRequests::new();
    let first = pending.wait(Duration::MAX);
    let second = pending.wait(Duration::MAX);
    assert!(poll(&second).is_pending());
    pending.complete(second.address(), stored());
    assert!(poll(&first).is_pending());
    assert!(matches!(poll(&second), Poll::Ready(Some(_))));
}

#[test]
fn an_answer_before_the_deadline_is_given_before_its_end() {
    let pending = PendingRequests::new();
    let wait = pending.wait(Duration::from_secs(1));
    pending.complete(wait.address(), stored());
    pending.expire(Duration::from_secs(1));
    assert!(matches!(poll(&wait), Poll::Ready(Some(_))));
    assert!(matches!(poll(&wait), Poll::Ready(None)));
}

#[test]
fn a_late_answer_finds_no_request() {
    let pending = PendingRequests::new();
    let gone = pending.wait(Duration::MAX);
    let late = gone.address();
    drop(gone);
    let next = pending.wait(Duration::MAX);
    assert_eq!(
        Ticket::parse(next.address()).0.slot(),
        Ticket::parse(late).0.slot(),
        "the slot is used again"
    );
    pending.complete(late, stored());
    assert!(poll(&next).is_pending());
}

#[test]
fn a_deadline_ends_a_wait() {
    let pending = PendingRequests::new();
    let soon = pending.wait(Duration::from_secs(1));
    let later = pending.wait(Duration::from_secs(2));
    assert!(poll(&soon).is_pending());
    pending.expire(Duration::from_secs(1));
    assert!(matches!(poll(&soon), Poll::Ready(None)));
    assert!(poll(&later).is_pending());
}

#[test]
fn a_handler_is_called_once_with_the_answer_or_at_the_deadline() {
    let pending = PendingRequests::new();
    let calls = Rc::new(RefCell::new(Vec::new()));
    let note = |name: &'static str| {
        let calls = Rc::clone(&calls);
        move |completion: Option<Completion>| {
            calls.borrow_mut().push((name, completion.is_some()));
        }
    };
    let answered = pending.handle(Duration::from_secs(1), note("answered"));
    let overdue = pending.handle(Duration::from_secs(1), note("overdue"));
    pending.complete(answered, stored());
    pending.complete(answered, stored());
    pending.expire(Duration::from_secs(1));
    pending.complete(overdue, stored());
    assert_eq!(*calls.borrow(), [("answered", true), ("overdue", false)]);
}

/// Notes the replicas that answer, owns the slab, and ends with the answer of
/// replica 9.
struct Notes {
    replicas: RefCell<Vec<Option<u8>>>,
    pending: Rc<PendingRequests>,
}

impl AnswerReceiver for Notes {
    fn receive(&self, answer: Option<(AnswerTag, Completion)>) -> Awaits {
        let replica = answer.map(|(tag, _)| tag.replica.as_u8());
        self.replicas.borrow_mut().push(replica);
        // A request that has something to send takes a slot, too.
        drop(self.pending.wait(Duration::MAX));
        match replica {
            Some(9) => Awaits::Nothing,
            _ => Awaits::More,
        }
    }

    fn release(self: Rc<Self>) {}
}

/// A receiver that waits for five seconds, and its ticket.
fn listening(pending: &Rc<PendingRequests>) -> (Rc<Notes>, Registration) {
    let registration = pending.reserve(Duration::from_secs(5));
    let notes = Rc::new(Notes {
        replicas: RefCell::default(),
        pending: Rc::clone(pending),
    });
    registration.listen(Rc::clone(&notes) as Rc<dyn AnswerReceiver>);
    (notes, registration)
}

#[test]
fn a_receiver_gets_all_answers_until_it_awaits_nothing() {
    let pending = PendingRequests::new();
    let (notes, mut registration) = listening(&pending);
    let ticket = registration.ticket();
    registration.leave_to_receiver();
    drop(registration);
    for replica in [1, 2, 9, 3] {
        pending.complete(ticket.with(tag(replica)), stored());
    }
    assert_eq!(*notes.replicas.borrow(), [Some(1), Some(2), Some(9)]);
    assert!(pending.slots.borrow().is_empty());
}

#[test]
fn a_receiver_whose_registration_is_dropped_gets_no_answer() {
    let pending = PendingRequests::new();
    let (notes, registration) = listening(&pending);
    let address = registration.ticket().with(tag(1));
    drop(registration);
    pending.complete(address, stored());
    assert!(notes.replicas.borrow().is_empty());
    assert_eq!(Rc::strong_count(&notes), 1);
}

#[test]
fn a_receiver_gets_the_deadline_once() {
    let pending = PendingRequests::new();
    let (notes, registration) = listening(&pending);
    for _ in 0..2 {
        pending.expire(Duration::from_secs(5));
        pending.complete(registration.ticket().with(tag(1)), stored());
    }
    assert_eq!(*notes.replicas.borrow(), [None]);
    assert!(pending.slots.borrow().is_empty());
}

#[test]
fn receivers_that_own_the_slab_end_with_the_runtime() {
    let pending = PendingRequests::new();
    let (notes, mut registration) = listening(&pending);
    registration.leave_to_receiver();
    drop(registration);
    let deliver = || Rc::clone(&pending).deliver_forever();
    drop(deliver());
    assert_eq!(Rc::strong_count(&notes), 2, "it had not begun");
    let mut delivery = Box::pin(deliver());
    let mut context = Context::from_waker(Waker::noop());
    assert!(delivery.as_mut().poll(&mut context).is_pending());
    drop(delivery);
    assert_eq!(Rc::strong_count(&notes), 1);
    drop(notes);
    assert_eq!(Rc::strong_count(&pending), 1);
}

#[test]
fn a_group_of_answers_wakes_once() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let pending = PendingRequests::new();
    let waits: Vec<Wait> = (0..3).map(|_| pending.wait(Duration::MAX)).collect();
    let answers = waits.iter().map(|wait| (wait.address(), stored()));
    pending.completions().extend(answers);
    let local = tokio::task::LocalSet::new();
    local.spawn_local(Rc::clone(&pending).deliver_forever());
    local.block_on(&runtime, async {
        for wait in waits {
            assert!(pin!(wait.only()).await.is_some());
        }
    });
}
