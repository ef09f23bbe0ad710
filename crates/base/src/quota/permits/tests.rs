//! Which requests run, which wait, and which are refused.

use super::*;

static SITE: WaitSite = WaitSite::new("queue;of the test");

fn granted(admission: Result<Admitted, Refused>) -> Permit {
    match admission {
        Ok(Admitted::Granted(permit)) => permit,
        _ => panic!("the request should run at once"),
    }
}

fn queued(admission: Result<Admitted, Refused>) -> QueuedPermit {
    match admission {
        Ok(Admitted::Queued(request)) => request,
        _ => panic!("the request should wait"),
    }
}

fn poll(request: &mut QueuedPermit) -> Poll<Result<Permit, Refused>> {
    Pin::new(request).poll(&mut Context::from_waker(Waker::noop()))
}

const LATER: Duration = Duration::from_secs(9);

#[test]
fn queued_requests_get_permits_in_the_order_of_their_arrival() {
    let permits = Permits::with_queue(1, 2, &SITE);
    let permit = granted(permits.admit(LATER));
    let mut first = queued(permits.admit(LATER));
    let mut second = queued(permits.admit(LATER));
    assert!(permits.is_full());
    assert!(permits.admit(LATER).is_err());
    assert!(poll(&mut first).is_pending());
    drop(permit);
    assert!(poll(&mut second).is_pending());
    let Poll::Ready(Ok(permit)) = poll(&mut first) else {
        panic!("the first in the queue is next");
    };
    drop(first);
    assert_eq!((permits.in_flight(), permits.queued()), (1, 1));
    drop(permit);
    assert!(matches!(poll(&mut second), Poll::Ready(Ok(_))));
    drop(second);
    assert_eq!((permits.in_flight(), permits.queued()), (0, 0));
}

#[test]
fn a_request_that_leaves_the_queue_loses_no_permit() {
    let permits = Permits::with_queue(1, 2, &SITE);
    let permit = granted(permits.admit(LATER));
    let first = queued(permits.admit(LATER));
    let second = queued(permits.admit(LATER));
    drop(first);
    drop(permit);
    // The second was granted the permit, and ends before it picks it up.
    drop(second);
    assert_eq!((permits.in_flight(), permits.queued()), (0, 0));
    drop(granted(permits.admit(LATER)));
}

#[test]
fn a_queued_request_is_refused_at_its_deadline() {
    let permits = Permits::with_queue(1, 2, &SITE);
    let permit = granted(permits.admit(LATER));
    let mut soon = queued(permits.admit(Duration::from_secs(1)));
    let mut later = queued(permits.admit(LATER));
    permits.expire(Duration::from_secs(1));
    assert!(matches!(poll(&mut soon), Poll::Ready(Err(Refused))));
    assert!(poll(&mut later).is_pending());
    drop(permit);
    assert!(matches!(poll(&mut later), Poll::Ready(Ok(_))));
}

#[test]
fn permits_without_a_queue_are_taken_or_refused() {
    let permits = Permits::new(1);
    let permit = permits.try_take().unwrap();
    assert!(permits.try_take().is_none() && permits.admit(LATER).is_err());
    drop(permit);
    assert!(permits.try_take().is_some());
    assert_eq!(permits.in_flight(), 0);
}
