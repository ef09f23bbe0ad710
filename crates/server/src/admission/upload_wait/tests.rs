use super::super::Uploads;
use super::super::uploads::UPLOAD_STEP_BYTES as STEP;
use super::*;
use base::{LONG_VALUE_BYTES, Reservation};
use std::pin::pin;
use std::task::Waker;

/// How many may pass one that does not fit.
const PASSED_MAX: usize = 64;

const HOUR: Duration = Duration::from_secs(3600);

/// Room for four steps, for which `1 + waiting_max` wait for an hour.
fn four_steps(waiting_max: usize) -> Uploads {
    Uploads::new((LONG_VALUE_BYTES, 4 * STEP), waiting_max, HOUR)
}

/// What a body holds that has arrived.
fn held(uploads: &Uploads, bytes: usize) -> Option<Reservation> {
    let mut reservation = None;
    uploads.cover(&mut reservation, bytes, usize::MAX).unwrap();
    reservation
}

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test(start_paused = true)]
async fn a_body_waits_in_line_for_what_those_before_it_hold() {
    let uploads = four_steps(1);
    let answered = held(&uploads, 3 * STEP);
    let mut next = pin!(uploads.wait_for_memory(2 * STEP));
    assert!(poll(next.as_mut()).is_pending());
    let mut behind = pin!(uploads.wait_for_memory(3 * STEP));
    assert!(poll(behind.as_mut()).is_pending());
    assert!(uploads.wait_for_memory(2 * STEP).await.is_err(), "too many");
    assert!(uploads.wait_for_memory(LONG_VALUE_BYTES).await.is_ok());
    drop(answered);
    assert!(poll(behind.as_mut()).is_pending(), "in turn");
    let next = next.await.unwrap();
    assert!(
        poll(behind.as_mut()).is_pending(),
        "the next has what is free"
    );
    drop(next);
    assert!(behind.await.is_ok());
    assert!(uploads.wait_for_memory(5 * STEP).await.is_err(), "never");
}

#[tokio::test(start_paused = true)]
async fn a_body_waits_for_so_long_and_no_longer() {
    let uploads = four_steps(1);
    let _answered = held(&uploads, 3 * STEP);
    let began = Instant::now();
    assert!(uploads.wait_for_memory(2 * STEP).await.is_err());
    assert_eq!(began.elapsed(), HOUR);
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_woken_when_memory_is_freed_and_when_a_promise_ends() {
    let uploads = Arc::new(four_steps(1));
    let waits = |bytes| {
        let uploads = Arc::clone(&uploads);
        tokio::spawn(async move {
            let began = Instant::now();
            let promise = uploads.wait_for_memory(bytes).await.unwrap();
            (promise, began.elapsed())
        })
    };
    let answered = held(&uploads, 4 * STEP);
    let (first, second) = (waits(3 * STEP), waits(2 * STEP));
    tokio::task::yield_now().await;
    drop(answered);
    let (promise, waited) = first.await.unwrap();
    assert_eq!(waited, Duration::ZERO);
    tokio::task::yield_now().await;
    drop(promise);
    assert_eq!(second.await.unwrap().1, Duration::ZERO);
}

/// Those that are let in have room for all that they announced.
#[tokio::test(start_paused = true)]
async fn what_a_body_was_promised_is_for_nobody_else_until_it_has_arrived() {
    let uploads = four_steps(8);
    let mut promise = uploads.wait_for_memory(3 * STEP).await.unwrap().unwrap();
    let mut next = pin!(uploads.wait_for_memory(STEP + 1));
    assert!(poll(next.as_mut()).is_pending());
    let mut reservation = None;
    // The first bytes are in the quota of short bodies, and keep nothing of the promise.
    for bytes in [LONG_VALUE_BYTES, STEP + 1, 3 * STEP] {
        uploads.cover(&mut reservation, bytes, 3 * STEP).unwrap();
        promise.keep(reservation.as_ref().unwrap());
        assert!(poll(next.as_mut()).is_pending(), "{bytes}");
    }
    assert!(
        uploads.wait_for_memory(STEP).await.is_ok(),
        "it fits as well"
    );
    drop((promise, reservation));
    assert!(next.await.is_ok());
}

/// A client may announce what it never sends.
#[tokio::test(start_paused = true)]
async fn a_promise_binds_others_for_a_second() {
    let uploads = four_steps(8);
    let _promise = uploads.wait_for_memory(4 * STEP).await.unwrap();
    let began = Instant::now();
    let (first, second) = tokio::join!(
        uploads.wait_for_memory(4 * STEP),
        uploads.wait_for_memory(4 * STEP)
    );
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(began.elapsed(), PROMISE_WAIT_MAX);
}

#[tokio::test(start_paused = true)]
async fn those_that_fit_pass_one_that_does_not_so_many_times() {
    let uploads = four_steps(8);
    let mut slow = held(&uploads, 4 * STEP);
    let mut large = pin!(uploads.wait_for_memory(3 * STEP));
    assert!(poll(large.as_mut()).is_pending());
    let mut small = pin!(uploads.wait_for_memory(STEP));
    assert!(poll(small.as_mut()).is_pending());
    slow.as_mut().unwrap().shrink_to(3 * STEP);
    assert!(poll(large.as_mut()).is_pending());
    assert!(poll(small.as_mut()).is_ready(), "also from within the line");
    for number in 1..PASSED_MAX {
        let promise = uploads.wait_for_memory(STEP).await;
        assert!(promise.is_ok(), "{number}");
    }
    let mut small = pin!(uploads.wait_for_memory(STEP));
    assert!(poll(small.as_mut()).is_pending(), "the large one is next");
    drop(slow);
    let _large = large.await.unwrap();
    assert!(small.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn of_bodies_that_are_partly_here_one_waits_and_the_others_give_way() {
    let uploads = four_steps(1);
    let [mut first, mut second] = [held(&uploads, 2 * STEP), held(&uploads, 2 * STEP)];
    let mut whole = pin!(uploads.wait_for_memory(2 * STEP));
    assert!(poll(whole.as_mut()).is_pending());
    let mut growing = Box::pin(uploads.cover_patiently(&mut first, 3 * STEP, usize::MAX));
    assert!(poll(growing.as_mut()).is_pending(), "it has a place");
    let refused = uploads.cover_patiently(&mut second, 3 * STEP, usize::MAX);
    assert_eq!(refused.await, Err(Refused));
    drop(second);
    assert!(poll(whole.as_mut()).is_pending(), "it holds nothing");
    assert_eq!(growing.as_mut().await, Ok(()));
    drop(growing);
    assert_eq!(uploads.used(), 3 * STEP);
    drop(first);
    assert!(whole.await.is_ok());
}
