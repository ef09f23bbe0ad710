//! The executor seam: the engine starts no thread, it hands out jobs.

mod lane_queue;
mod step;

pub use lane_queue::LaneQueue;
pub use step::StepExecutor;

use std::time::Duration;

/// A piece of background work. It runs once, may block on the disk, and
/// schedules its own continuation.
pub type Job = Box<dyn FnOnce() + Send>;

/// What a job is for, so that an executor can give each its own thread and
/// priority. An executor runs the jobs of a lane one after another. Few wait at
/// a time: the engine schedules each kind of job once, and one for each memtable
/// that is frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Group commit: writers wait for it.
    Commit,
    /// Upkeep of the log: interval syncs, the next segment, the reserve.
    Log,
    /// Flush of memtables: writers wait for it when it falls behind.
    Flush,
    /// Compaction: nobody waits for it.
    Compaction,
    /// Work of the engine's owner that blocks on the disk, such as logs of its
    /// own. The engine itself gives no job to it; who does bounds how many wait.
    Owner,
}

impl Lane {
    /// Every lane.
    pub const ALL: [Self; 5] = [
        Self::Commit,
        Self::Log,
        Self::Flush,
        Self::Compaction,
        Self::Owner,
    ];
}

/// Runs the engine's jobs: threads in a node, a seeded order in a simulation.
pub trait Executor: Send + Sync {
    /// Runs `job` on `lane` once `delay` has passed. Jobs that still wait when
    /// the executor stops are dropped.
    fn spawn(&self, lane: Lane, delay: Duration, job: Job);
}
