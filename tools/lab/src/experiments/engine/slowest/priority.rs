//! Gives the generator a higher priority than the nodes, for this experiment.

use std::panic::resume_unwind;

/// The niceness of the generator: the system runs its threads before those of the nodes.
const NICENESS: i32 = -10;

/// Does some work on a thread of its own that the system runs before others, if it allows
/// that. Threads that the work starts inherit this.
pub(super) fn before_others<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let led = std::thread::scope(|scope| {
        let leader = scope.spawn(|| {
            take_lead();
            work()
        });
        leader.join()
    });
    led.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Whether the system allows that.
pub(super) fn is_allowed() -> bool {
    std::thread::scope(|scope| scope.spawn(take_lead).join()).unwrap_or(false)
}

/// Whether this thread has priority from now on.
fn take_lead() -> bool {
    // On Linux each thread has a priority, and its id counts as a process id.
    let thread = rustix::thread::gettid();
    rustix::process::setpriority_process(Some(thread), NICENESS).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn niceness() -> i32 {
        rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap()
    }

    #[test]
    fn work_and_the_threads_that_it_starts_have_priority_where_the_system_allows_it() {
        let own = niceness();
        let expected = if is_allowed() { NICENESS } else { own };
        let started = || std::thread::spawn(niceness).join().unwrap();
        assert_eq!(
            before_others(|| (niceness(), started())),
            (expected, expected)
        );
        assert_eq!(niceness(), own, "only that thread");
    }
}
