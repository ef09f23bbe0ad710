//! What the gate and the uploads admit.

use super::*;
use std::pin::pin;

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

#[test]
fn a_budget_is_never_exceeded_and_comes_back() {
    let budget = Budget::new(10);
    let mut share = budget.take(6).unwrap();
    assert!(budget.take(5).is_err());
    assert!(share.grow(5).is_err());
    share.grow(4).unwrap();
    assert_eq!((share.amount(), budget.used()), (10, 10));
    assert!(budget.take(usize::MAX).is_err());
    drop(share);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_body_counts_as_it_comes_and_a_long_one_leaves_room_for_short_ones() {
    let (short, long) = (2 * LONG_VALUE_BYTES, 1 << 20);
    let uploads = Uploads::new(short, long);
    let bytes_max = long;
    let mut slow = None;
    uploads.cover(&mut slow, 1, bytes_max).unwrap();
    assert_eq!(uploads.used(), 1, "what is announced takes nothing");
    uploads
        .cover(&mut slow, LONG_VALUE_BYTES + 1, bytes_max)
        .unwrap();
    assert_eq!(
        (uploads.short.used(), uploads.long.used()),
        (0, UPLOAD_STEP_BYTES)
    );
    assert!(uploads.check_room(long).is_err());
    assert_eq!(uploads.check_room(long - UPLOAD_STEP_BYTES), Ok(()));
    uploads.cover(&mut slow, long, bytes_max).unwrap();
    assert_eq!(uploads.used(), long);
    let mut other = None;
    assert!(
        uploads
            .cover(&mut other, LONG_VALUE_BYTES + 1, bytes_max)
            .is_err()
    );
    uploads
        .cover(&mut other, LONG_VALUE_BYTES, bytes_max)
        .unwrap();
    assert_eq!(uploads.check_room(LONG_VALUE_BYTES), Ok(()));
    drop((slow, other));
    assert_eq!(uploads.used(), 0);
}

#[test]
fn bytes_are_waited_for_in_turn_and_given_back_in_part() {
    let budget = TurnBudget::new(10);
    let mut context = Context::from_waker(Waker::noop());
    let mut first = pin!(budget.take(8));
    let Poll::Ready(Ok(mut allotment)) = first.as_mut().poll(&mut context) else {
        panic!("there is room");
    };
    let mut second = pin!(budget.take(9));
    assert!(second.as_mut().poll(&mut context).is_pending());
    let mut third = pin!(budget.take(1));
    assert!(
        third.as_mut().poll(&mut context).is_pending(),
        "it is behind the second"
    );
    allotment.shrink_to(1);
    assert!(matches!(
        second.as_mut().poll(&mut context),
        Poll::Ready(Ok(_))
    ));
    assert!(matches!(
        third.as_mut().poll(&mut context),
        Poll::Ready(Ok(_))
    ));
    drop(allotment);
    assert_eq!(budget.used(), 0);
}

#[test]
fn what_is_more_than_there_is_waits_for_all_of_it() {
    let budget = TurnBudget::new(10);
    let mut take = pin!(budget.take(usize::MAX));
    let taken = take.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(taken, Poll::Ready(Ok(_))));
}
