//! Which requests run, which wait, and which are refused.

use super::*;

fn granted(admission: Result<Admission, Refused>) -> Permit {
    match admission {
        Ok(Admission::Granted(permit)) => permit,
        _ => panic!("the request should run at once"),
    }
}

fn queued(admission: Result<Admission, Refused>) -> QueuedRequest {
    match admission {
        Ok(Admission::Queued(request)) => request,
        _ => panic!("the request should wait"),
    }
}

fn poll(request: &mut QueuedRequest) -> Poll<Result<Permit, Refused>> {
    Pin::new(request).poll(&mut Context::from_waker(Waker::noop()))
}

const LATER: Duration = Duration::from_secs(9);

#[test]
fn queued_requests_get_permits_in_the_order_of_their_arrival() {
    let gate = Gate::new(1, 2);
    let permit = granted(gate.admit(LATER));
    let mut first = queued(gate.admit(LATER));
    let mut second = queued(gate.admit(LATER));
    assert!(gate.is_full());
    assert!(gate.admit(LATER).is_err());
    assert!(poll(&mut first).is_pending());
    drop(permit);
    assert!(poll(&mut second).is_pending());
    let Poll::Ready(Ok(permit)) = poll(&mut first) else {
        panic!("the first in the queue is next");
    };
    drop(first);
    assert_eq!((gate.in_flight(), gate.queued()), (1, 1));
    drop(permit);
    assert!(matches!(poll(&mut second), Poll::Ready(Ok(_))));
    drop(second);
    assert_eq!((gate.in_flight(), gate.queued()), (0, 0));
}

#[test]
fn a_request_that_leaves_the_queue_loses_no_permit() {
    let gate = Gate::new(1, 2);
    let permit = granted(gate.admit(LATER));
    let first = queued(gate.admit(LATER));
    let second = queued(gate.admit(LATER));
    drop(first);
    drop(permit);
    // The second was granted the permit, and ends before it picks it up.
    drop(second);
    assert_eq!((gate.in_flight(), gate.queued()), (0, 0));
    drop(granted(gate.admit(LATER)));
}

#[test]
fn a_queued_request_is_refused_at_its_deadline() {
    let gate = Gate::new(1, 2);
    let permit = granted(gate.admit(LATER));
    let mut soon = queued(gate.admit(Duration::from_secs(1)));
    let mut later = queued(gate.admit(LATER));
    gate.expire(Duration::from_secs(1));
    assert!(matches!(poll(&mut soon), Poll::Ready(Err(Refused))));
    assert!(poll(&mut later).is_pending());
    drop(permit);
    assert!(matches!(poll(&mut later), Poll::Ready(Ok(_))));
}
