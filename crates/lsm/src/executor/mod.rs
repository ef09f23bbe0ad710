//! The executor seam: the engine starts no threads, but spawns jobs.

mod lane_queue;

pub use lane_queue::LaneQueue;

use std::time::Duration;

/// A piece of background work. It runs once, may block on the disk, and spawns the
/// job that continues it.
pub type Job = Box<dyn FnOnce() + Send>;

/// The kind of work that a job does. An executor can run each lane on a thread of its
/// own, with a priority of its own. It runs the jobs of a lane one after another. Few
/// jobs of a lane wait at the same time: at most one flush, one compaction and one
/// fill, and a few others. Most of the others are timers; one that is no longer needed
/// still waits unless another one replaces it, and does nothing when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Group commit: writers wait for it.
    Commit,
    /// Maintenance of the log: interval syncs, the next segment, the reserve.
    Log,
    /// Flush of memtables: writers wait for it when it falls behind.
    Flush,
    /// Compaction: no writer waits for it as long as it keeps up.
    Compaction,
    /// Work of the engine's owner that blocks on the disk, for example on the owner's
    /// own logs. The engine spawns no job here. The owner bounds how many jobs wait.
    Owner,
    /// Long scans of the engine's owner, a step a job: nobody waits for them, so they
    /// keep away from the jobs of [`Lane::Owner`], which requests wait for. The engine
    /// spawns no job here.
    Scan,
}

impl Lane {
    /// Every lane.
    pub const ALL: [Self; 6] = [
        Self::Commit,
        Self::Log,
        Self::Flush,
        Self::Compaction,
        Self::Owner,
        Self::Scan,
    ];
}

/// Runs the engine's jobs: threads in a node, a seeded order in a simulation.
pub trait Executor: Send + Sync {
    /// Runs `job` on `lane` after `delay`. The executor drops jobs that still wait when
    /// it stops.
    fn spawn(&self, lane: Lane, delay: Duration, job: Job);

    /// Runs `job` on `lane` after `delay`, in place of the job that was given to this method
    /// for the lane before, if that still waits: one timer a lane that is often set anew. Only
    /// one owner may use it on a lane. An executor may run both, because a job that comes
    /// late does nothing.
    fn replace(&self, lane: Lane, delay: Duration, job: Job) {
        self.spawn(lane, delay, job);
    }
}
