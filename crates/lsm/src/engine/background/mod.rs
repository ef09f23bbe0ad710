//! Background work: the owner of the folder lock and of the jobs that wait.
//!
//! An owner that wants something done names the job, and knows nothing of the
//! code that does it: the engine maps each [`EngineJob`] to that code. So a
//! flush can wake the commits, and a full disk the compaction, although neither
//! imports the other.
//!
//! Locks: the [`FolderLock`] is held while a job runs. It comes before every
//! other lock of the engine.

pub(super) mod folder_lock;

use super::health::full_disk::RoomWatch;
use super::writes::committer::LogPosition;
use crate::executor::{Executor, JobClass};
use folder_lock::FolderLock;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// The longest rest of a flush between two steps, even if the step before took longer.
pub(super) const REST_MAX: Duration = Duration::from_millis(20);

/// A job of the engine, which runs once on its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EngineJob {
    /// Commit groups of writes until none waits.
    Commit,
    /// End the gathering of this number, and commit.
    EndGathering(u64),
    /// Refuse the writes that promises hold back for too long.
    RefuseHeldBack,
    /// Take one step of a flush.
    Flush,
    /// Begin the compactions that are due.
    Compact,
    /// Take one step of the compaction in this slot.
    Merge(usize),
    /// Schedule a compaction, if this time of the monotonic clock is still the
    /// time at which compaction wakes.
    WakeCompaction(Duration),
    /// Make the next log segment ahead.
    PrepareSegment,
    /// Try again to make it, after a failure.
    RetrySegment,
    /// Write zeros to a piece of a log segment.
    FillSegment,
    /// Sync the log beside the commits.
    SyncLog,
    /// Claim the log, if it still ends where it ended when this was scheduled.
    ClaimLog(LogPosition),
    /// Note what tables have reported as damaged.
    NoteDamage,
    /// Find out whether a full disk has room again.
    WatchForRoom(RoomWatch),
    /// Give up what scans hold and have not needed for a while.
    GiveUpIdle,
}

impl EngineJob {
    fn class(self) -> JobClass {
        match self {
            Self::Commit | Self::EndGathering(_) | Self::RefuseHeldBack => JobClass::Commit,
            Self::Flush => JobClass::Flush,
            Self::Compact | Self::WakeCompaction(_) | Self::NoteDamage | Self::GiveUpIdle => {
                JobClass::Compaction
            }
            Self::Merge(slot) => {
                let classes = JobClass::COMPACTIONS;
                classes.get(slot).copied().unwrap_or(JobClass::Compaction)
            }
            Self::PrepareSegment
            | Self::RetrySegment
            | Self::FillSegment
            | Self::SyncLog
            | Self::ClaimLog(_)
            | Self::WatchForRoom(_) => JobClass::Log,
        }
    }
}

/// Runs the engine's jobs.
pub(super) trait RunJob: Send + Sync {
    /// Runs a job to its end.
    fn run(&self, job: EngineJob);
}

/// For each kind of job that is scheduled once at a time, whether one waits.
#[derive(Default)]
struct Scheduled {
    flush: AtomicBool,
    compact: AtomicBool,
    merge: [AtomicBool; JobClass::COMPACTIONS.len()],
    retry_segment: AtomicBool,
    fill_segment: AtomicBool,
    note_damage: AtomicBool,
}

impl Scheduled {
    fn flag(&self, job: EngineJob) -> Option<&AtomicBool> {
        match job {
            EngineJob::Flush => Some(&self.flush),
            EngineJob::Compact => Some(&self.compact),
            EngineJob::Merge(slot) => self.merge.get(slot),
            EngineJob::RetrySegment => Some(&self.retry_segment),
            EngineJob::FillSegment => Some(&self.fill_segment),
            EngineJob::NoteDamage => Some(&self.note_damage),
            _ => None,
        }
    }
}

/// The owner of the folder lock and of the jobs that wait.
pub(super) struct Background {
    executor: Arc<dyn Executor>,
    folder_lock: FolderLock,
    scheduled: Scheduled,
    /// Set once, before the first job is scheduled.
    runner: OnceLock<Weak<dyn RunJob>>,
}

impl Background {
    /// Background work on a folder that is locked. Nothing runs before
    /// [`Background::start`].
    pub(super) fn new(executor: Arc<dyn Executor>, folder_lock: FolderLock) -> Self {
        Self {
            executor,
            folder_lock,
            scheduled: Scheduled::default(),
            runner: OnceLock::new(),
        }
    }

    /// Sets the runner of the jobs. Only a weak reference is kept.
    pub(super) fn start(&self, runner: Weak<dyn RunJob>) {
        // A second start would be a bug, and the first one stays in force.
        let _first = self.runner.set(runner);
    }

    /// The lock that a job or a call holds while it may write to the folder.
    pub(super) fn folder_lock(&self) -> &FolderLock {
        &self.folder_lock
    }

    /// Schedules a job after `delay`. At most one flush, one begin of compactions, one merge a
    /// slot, one fill, one retry and one note of damage wait at a time; scheduling another does nothing. The job does
    /// nothing if the engine is gone or closed by then.
    pub(super) fn schedule(&self, job: EngineJob, delay: Duration) {
        let Some(runner) = self.runner.get().cloned() else {
            return;
        };
        let flag = self.scheduled.flag(job);
        // If a job waits already, it sees what this thread has done until now,
        // because its own swap in `begin` comes after this one.
        if flag.is_some_and(|flag| flag.swap(true, AcqRel)) {
            return;
        }
        let run = move || {
            if let Some(runner) = runner.upgrade() {
                runner.run(job);
            }
        };
        match job {
            // One gathers at a time, so the end of an earlier one is no longer needed.
            EngineJob::EndGathering(_) => self.executor.replace(job.class(), delay, Box::new(run)),
            _ => self.executor.spawn(job.class(), delay, Box::new(run)),
        }
    }

    /// Notes that a job begins, so that the next one of its kind may be scheduled.
    pub(super) fn begin(&self, job: EngineJob) {
        if let Some(flag) = self.scheduled.flag(job) {
            // A store would let the job read what it needs before the flag is clear:
            // it could miss what a thread did that found the flag set.
            flag.swap(false, AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::StepExecutor;
    use base::ManualClock;
    use std::sync::Mutex;

    /// Notes the jobs that run.
    struct Runner {
        background: Background,
        ran: Mutex<Vec<EngineJob>>,
    }

    impl RunJob for Runner {
        fn run(&self, job: EngineJob) {
            self.background.begin(job);
            self.ran.lock().unwrap().push(job);
        }
    }

    fn fixture() -> (Arc<Runner>, Arc<StepExecutor>) {
        let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(0))));
        let folder_lock = FolderLock::new(Box::new(()));
        let runner = Arc::new(Runner {
            background: Background::new(Arc::clone(&executor) as _, folder_lock),
            ran: Mutex::default(),
        });
        let weak: Weak<Runner> = Arc::downgrade(&runner);
        runner.background.start(weak);
        (runner, executor)
    }

    #[test]
    fn of_flush_compaction_and_fill_one_job_waits_at_a_time() {
        let (runner, executor) = fixture();
        for job in [
            EngineJob::Flush,
            EngineJob::Compact,
            EngineJob::Merge(0),
            EngineJob::Merge(3),
            EngineJob::FillSegment,
        ] {
            runner.background.schedule(job, Duration::ZERO);
            runner.background.schedule(job, Duration::ZERO);
            assert_eq!(executor.run_all_due(), 1, "{job:?}");
            runner.background.schedule(job, Duration::ZERO);
            assert_eq!(executor.run_all_due(), 1, "{job:?} may come again");
        }
        for _ in 0..2 {
            let job = EngineJob::PrepareSegment;
            runner.background.schedule(job, Duration::ZERO);
        }
        assert_eq!(
            executor.run_all_due(),
            2,
            "other jobs come as often as asked"
        );
        assert_eq!(runner.ran.lock().unwrap().len(), 12);
    }

    #[test]
    fn a_job_that_comes_before_the_runner_does_not_keep_later_ones_away() {
        let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(0))));
        let background = Background::new(Arc::clone(&executor) as _, FolderLock::new(Box::new(())));
        background.schedule(EngineJob::Flush, Duration::ZERO);
        assert_eq!(executor.run_all_due(), 0);
        let (other, _) = fixture();
        let runner: Weak<Runner> = Arc::downgrade(&other);
        background.start(runner);
        background.schedule(EngineJob::Flush, Duration::ZERO);
        assert_eq!(executor.run_all_due(), 1);
    }

    #[test]
    fn a_job_of_an_engine_that_is_gone_does_nothing() {
        let (runner, executor) = fixture();
        runner
            .background
            .schedule(EngineJob::Flush, Duration::from_secs(1));
        assert_eq!(Arc::strong_count(&runner), 1, "a job keeps no engine alive");
        drop(runner);
        executor.run_until_idle();
    }
}
