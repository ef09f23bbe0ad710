//! The space of the disk of the data folder.

use super::FRESH;
use base::Clock;
use lsm::{DiskSpace, Executor, JobClass};
use profile::lock;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// Looks at the data folder, and returns the space of its disk. Blocks.
pub(super) type Look = Box<dyn Fn() -> DiskSpace + Send + Sync>;

/// Asks the disk what it has left: by one job of [`JobClass::Owner`] at a time, whose answer all
/// who wait get, and those who come within [`FRESH`].
pub(crate) struct FreeSpace {
    look: Look,
    clock: Arc<dyn Clock>,
    executor: Arc<dyn Executor>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last answer, and when it came on the monotonic clock.
    last: Option<(DiskSpace, Duration)>,
    /// Whether a job is under way.
    is_asked: bool,
    /// Those who wait for it.
    waiting: Vec<oneshot::Sender<DiskSpace>>,
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

    /// The space of the disk; nothing is known if it does not say so within `wait_max`.
    pub(crate) async fn space(self: &Arc<Self>, wait_max: Duration) -> DiskSpace {
        let answer = {
            let mut state = lock(&self.state);
            let now = self.clock.monotonic();
            if let Some((space, at)) = state.last
                && now.saturating_sub(at) < FRESH
            {
                return space;
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
        answer.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// The job.
    fn ask(&self) {
        let space = (self.look)();
        let mut state = lock(&self.state);
        state.last = Some((space, self.clock.monotonic()));
        state.is_asked = false;
        for waiting in state.waiting.drain(..) {
            // It may have given up.
            let _is_told = waiting.send(space).is_ok();
        }
    }
}
