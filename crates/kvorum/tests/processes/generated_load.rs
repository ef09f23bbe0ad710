//! The load of the load generator, on a thread of the test.

use load::{Error, Plan, Run};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

/// A load that runs until it is ended or dropped.
pub(crate) struct GeneratedLoad {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Run, Error>>>,
}

impl GeneratedLoad {
    /// Starts the load that a plan describes.
    pub(crate) fn start(plan: Plan) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen_by_load = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .spawn(move || load::run(&plan, &seen_by_load, &mut |_second| {}));
        Self {
            stop,
            thread: Some(thread.unwrap()),
        }
    }

    /// Ends the load, and returns what it measured.
    pub(crate) fn end(mut self) -> Run {
        self.stop.store(true, Relaxed);
        let thread = self.thread.take().unwrap();
        thread.join().unwrap().unwrap()
    }
}

impl Drop for GeneratedLoad {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A test that panics has its own reason.
            let _ended = thread.join();
        }
    }
}
