//! Whom the gate lets in.

use super::*;

fn open(entrance: Result<Entrance, Refused>) -> Place {
    match entrance {
        Ok(Entrance::Open(place)) => place,
        _ => panic!("expected an open gate"),
    }
}

fn queue(entrance: Result<Entrance, Refused>) -> Queued {
    match entrance {
        Ok(Entrance::Queue(queued)) => queued,
        _ => panic!("expected a queue"),
    }
}

fn poll(queued: &mut Queued) -> Poll<Result<Place, Refused>> {
    Pin::new(queued).poll(&mut Context::from_waker(Waker::noop()))
}

const LATER: Duration = Duration::from_secs(9);

#[test]
fn places_go_to_those_who_wait_in_their_order() {
    let gate = Gate::new(1, 2);
    let place = open(gate.enter(LATER));
    let mut first = queue(gate.enter(LATER));
    let mut second = queue(gate.enter(LATER));
    assert!(gate.is_full());
    assert!(gate.enter(LATER).is_err());
    assert!(poll(&mut first).is_pending());
    drop(place);
    assert!(poll(&mut second).is_pending());
    let Poll::Ready(Ok(place)) = poll(&mut first) else {
        panic!("the first in the queue is next");
    };
    drop(first);
    assert_eq!((gate.in_flight(), gate.queued()), (1, 1));
    drop(place);
    assert!(matches!(poll(&mut second), Poll::Ready(Ok(_))));
    drop(second);
    assert_eq!((gate.in_flight(), gate.queued()), (0, 0));
}

#[test]
fn those_who_leave_the_queue_lose_no_place() {
    let gate = Gate::new(1, 2);
    let place = open(gate.enter(LATER));
    let first = queue(gate.enter(LATER));
    let second = queue(gate.enter(LATER));
    drop(first);
    drop(place);
    // Granted, but gone before it noticed.
    drop(second);
    assert_eq!((gate.in_flight(), gate.queued()), (0, 0));
    drop(open(gate.enter(LATER)));
}

#[test]
fn those_who_waited_too_long_are_sent_away() {
    let gate = Gate::new(1, 2);
    let place = open(gate.enter(LATER));
    let mut soon = queue(gate.enter(Duration::from_secs(1)));
    let mut later = queue(gate.enter(LATER));
    gate.expire(Duration::from_secs(1));
    assert!(matches!(poll(&mut soon), Poll::Ready(Err(Refused))));
    assert!(poll(&mut later).is_pending());
    drop(place);
    assert!(matches!(poll(&mut later), Poll::Ready(Ok(_))));
}
