//! Threads for work that blocks. The threads that tokio starts for such work end the caller
//! in a panic where the system refuses them.

use crate::failure::Failure;
use std::io;
use std::thread::Builder;
use tokio::sync::oneshot;

/// Does `work` on a thread of its own. What it returns comes over the channel, which closes
/// without it if the work panics.
///
/// # Errors
/// The system refuses a thread.
pub fn on_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<oneshot::Receiver<T>, Failure> {
    let (sender, done) = oneshot::channel();
    let thread = Builder::new().name(name.to_owned()).spawn(move || {
        // Whoever waited may have given up.
        let _awaited = sender.send(work()).is_ok();
    });
    match thread {
        Ok(_detached) => Ok(done),
        Err(error) => Err(Failure::failed(refusal_of_thread(&error))),
    }
}

/// What to do where the system refuses a thread or a process.
pub const RAISE_LIMIT: &str = "raise the limit of processes (TasksMax= of a service, ulimit -u, \
     pids.max of the control group)";

/// What is said where the system refuses a thread.
pub fn refusal_of_thread(error: &io::Error) -> String {
    format!("cannot start a thread: {error}; {RAISE_LIMIT}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_the_work_returns_comes_back_and_a_panic_does_not() {
        assert_eq!(on_thread("works", || 5).unwrap().await, Ok(5));
        let panics = on_thread("panics", || panic!("on purpose")).unwrap();
        assert!(panics.await.is_err());
    }
}
