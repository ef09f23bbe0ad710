//! The executor seam: the engine keeps no threads, but spawns jobs.

mod job_queue;

pub use job_queue::JobQueue;

use std::time::Duration;

/// A piece of background work. It runs once, may block on the disk, and spawns the
/// job that continues it.
pub type Job = Box<dyn FnOnce() + Send>;

/// The kind of work that a job does. An executor can run each class on a thread of its
/// own, with a priority of its own. It runs the jobs of a class one after another. Few
/// jobs of a class wait at the same time: at most one flush, one compaction, one merge and one
/// fill, and a few others. Most of the others are timers; one that is no longer needed
/// still waits unless another one replaces it, and does nothing when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobClass {
    /// Group commit: writers wait for it.
    Commit,
    /// Maintenance of the log: interval syncs, the next segment, the reserve.
    Log,
    /// Flush of memtables: writers wait for it when it falls behind.
    Flush,
    /// Compaction: no writer waits for it as long as it keeps up.
    Compaction,
    /// The second of the compactions that run at a time. The others have a class each, so
    /// that they run beside each other.
    Compaction2,
    /// The third.
    Compaction3,
    /// The fourth.
    Compaction4,
    /// Work of the engine's owner that blocks on the disk, for example on the owner's
    /// own logs. The engine spawns no job here. The owner bounds how many jobs wait.
    Owner,
    /// Long scans of the engine's owner, a step a job: nobody waits for them, so they
    /// keep away from the jobs of [`JobClass::Owner`], which requests wait for. The engine
    /// spawns no job here.
    Scan,
    /// Ingests of the engine's owner, which write and sync megabytes at a time, while
    /// [`JobClass::Scan`] reads on. Nobody waits for them. The engine spawns no job here.
    Ingest,
    /// Reads and writes of the engine's owner at places that may be slow, or not answer for long:
    /// backups. The engine spawns no job here.
    Backup,
}

impl JobClass {
    /// The classes on which compactions run beside each other.
    pub const COMPACTIONS: [Self; 4] = [
        Self::Compaction,
        Self::Compaction2,
        Self::Compaction3,
        Self::Compaction4,
    ];

    /// Every job class.
    pub const ALL: [Self; 11] = [
        Self::Commit,
        Self::Log,
        Self::Flush,
        Self::Compaction,
        Self::Compaction2,
        Self::Compaction3,
        Self::Compaction4,
        Self::Owner,
        Self::Scan,
        Self::Ingest,
        Self::Backup,
    ];
}

/// Runs the engine's jobs: threads in a node, a seeded order in a simulation.
pub trait Executor: Send + Sync {
    /// Runs `job` on `class` after `delay`. The executor drops jobs that still wait when
    /// it stops.
    fn spawn(&self, class: JobClass, delay: Duration, job: Job);

    /// Runs `job` on `class` after `delay`, in place of the job that was given to this method
    /// for the class before, if that still waits: one timer a class that is often set anew. Only
    /// one owner may use it on a class. An executor may run both, because a job that comes
    /// late does nothing.
    fn replace(&self, class: JobClass, delay: Duration, job: Job) {
        self.spawn(class, delay, job);
    }
}
