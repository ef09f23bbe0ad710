//! The free space on the disk of the data folder.

use super::FRESH;
use base::Clock;
use lsm::{Executor, JobClass};
use profile::lock;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// Looks at the data folder, and returns how many bytes its disk has left, if it says so. Blocks.
pub(super) type Look = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// Asks the disk what it has left: by one job of [`JobClass::Owner`] at a time, whose answer all
/// who wait get, and those who come within [`FRESH`].
pub(super) struct FreeSpace {
    look: Look,
    clock: Arc<dyn Clock>,
    executor: Arc<dyn Executor>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last answer, in bytes, and when it came on the monotonic clock.
    last: Option<(Option<u64>, Duration)>,
    /// Whether a job is under way.
    is_asked: bool,
    /// Those who wait for it.
    waiting: Vec<oneshot::Sender<Option<u64>>>,
}

impl FreeSpace {
    pub(super) fn new(look: Look, clock: Arc<dyn Clock>, executor: Arc<dyn Executor>) -> Arc<Self> {
        Arc::new(Self {
            look,
            clock,
            executor,
            state: Mutex::default(),
        })
    }

    /// What the disk has left for the node, in bytes; `None` if it does not say so within
    /// `wait_max`.
    pub(super) async fn free_bytes(self: &Arc<Self>, wait_max: Duration) -> Option<u64> {
        let answer = {
            let mut state = lock(&self.state);
            let now = self.clock.monotonic();
            if let Some((free, at)) = state.last
                && now.saturating_sub(at) < FRESH
            {
                return free;
            }
            // While a disk hangs, nobody waits for longer than `wait_max`.
            state.waiting.retain(|waiting| !waiting.is_closed());
            let (sender, answer) = oneshot::channel();
            state.waiting.push(sender);
            if !std::mem::replace(&mut state.is_asked, true) {
                let space = Arc::clone(self);
                let job = Box::new(move || space.ask());
                self.executor.spawn(JobClass::Owner, Duration::ZERO, job);
            }
            answer
        };
        let answer = tokio::time::timeout(wait_max, answer).await;
        answer.ok()?.ok().flatten()
    }

    /// The job.
    fn ask(&self) {
        let free = (self.look)();
        let mut state = lock(&self.state);
        state.last = Some((free, self.clock.monotonic()));
        state.is_asked = false;
        for waiting in state.waiting.drain(..) {
            // It may have given up.
            let _is_told = waiting.send(free).is_ok();
        }
    }
}
