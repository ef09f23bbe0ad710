//! The trace of a world: a line for each message, job, fault and result, in order. A
//! hash over all lines allows two runs to be compared. The last lines are kept, to be
//! printed when a promise was broken. The nodes log into it (`log`), and a panic in one of
//! their tasks ends the world (`panics`).

pub(crate) mod log;
pub(crate) mod panics;

use std::collections::VecDeque;
use std::fmt::Arguments;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How many lines are kept by default.
const LINES_KEPT: usize = 300;

/// The trace of a world. Clones share one trace.
#[derive(Clone)]
pub(crate) struct Trace {
    state: Arc<Mutex<TraceState>>,
    started: Instant,
}

struct TraceState {
    hash: u64,
    count: u64,
    last: VecDeque<String>,
    lines_kept: usize,
}

impl Trace {
    /// A trace that starts now.
    pub(crate) fn new() -> Self {
        Self {
            state: Arc::new(Mutex::new(TraceState {
                hash: 0,
                count: 0,
                last: VecDeque::new(),
                lines_kept: lines_kept(),
            })),
            started: Instant::now(),
        }
    }

    /// Adds a line.
    pub(crate) fn note(&self, what: Arguments<'_>) {
        let now = self.elapsed();
        let line = format!("{:>9.3} {what}", now.as_secs_f64() * 1e3);
        let mut state = self.lock();
        state.hash = xxh3_64_with_seed(line.as_bytes(), state.hash);
        state.count += 1;
        if state.last.len() == state.lines_kept {
            state.last.pop_front();
        }
        state.last.push_back(line);
    }

    /// The simulated time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The hash of all lines so far.
    pub(crate) fn hash(&self) -> u64 {
        self.lock().hash
    }

    /// How many lines there were.
    pub(crate) fn count(&self) -> u64 {
        self.lock().count
    }

    /// The last lines.
    pub(crate) fn tail(&self) -> Vec<String> {
        self.lock().last.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, TraceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many of the last lines to keep: `KVORUM_LINES`, or the default.
fn lines_kept() -> usize {
    let lines = std::env::var("KVORUM_LINES").ok();
    let lines = lines.and_then(|lines| lines.parse().ok());
    lines.unwrap_or(LINES_KEPT).max(1)
}
