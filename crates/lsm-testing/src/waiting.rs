//! Ends for tests whose threads wait for each other.

use super::PATIENCE;
use std::sync::mpsc;
use std::time::Instant;

/// Waits until a condition holds that other threads bring about; `what` names it.
///
/// # Panics
/// It does not hold in time.
#[expect(clippy::disallowed_methods, reason = "the threads run in real time")]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(
            began.elapsed() < PATIENCE,
            "timed out while waiting for {what}"
        );
        std::thread::yield_now();
    }
}

/// Runs a test on a thread of its own, and fails it when it does not end; `what` names what
/// it then waits for. A test needs this if its threads wait for each other, because a scope
/// waits for its threads even if one of them has panicked.
///
/// # Panics
/// The test panics, or does not end in time.
#[expect(
    clippy::disallowed_methods,
    clippy::panic,
    reason = "the test runs in real time, and one that hangs panics"
)]
pub fn guarded(what: &str, test: impl FnOnce() + Send + 'static) {
    let (sender, ended) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let _sender = sender;
        test();
    });
    if ended.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("the test hangs: timed out while waiting for {what}");
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}
