//! The code of each job, and what else takes the whole store.
//!
//! `commit` is group commit, `backpressure` what slows, holds and refuses writers, `store_snapshot`
//! the files for a backup, `set_aside` what an operator is to decide about, `statistics` and
//! `closing` what their names say.

pub(super) mod backpressure;
pub(super) mod closing;
pub(super) mod commit;
pub(super) mod set_aside;
pub(super) mod statistics;
pub(super) mod store_snapshot;

use super::background::{EngineJob, RunJob};
use super::store::Store;

/// Runs the jobs that the owners schedule.
impl RunJob for Store {
    fn run(&self, job: EngineJob) {
        let core = &self.core;
        // A job that comes after the close does nothing.
        let Ok(_folder_lock) = core.background.folder_lock().hold() else {
            return;
        };
        core.background.begin(job);
        match job {
            EngineJob::Commit => self.run_commits(),
            EngineJob::EndGathering(number) => self.end_gathering(number),
            EngineJob::RefuseHeldBack => self.refuse_held_back(),
            EngineJob::Flush => match self.flusher.run(core) {
                Ok(true) => self.after_flush(),
                Ok(false) => {}
                Err(error) => self.compactor.note_flush_failure(&error),
            },
            EngineJob::Compact => self.compactor.run(core),
            EngineJob::Merge(slot) => self.compactor.merge(slot, core),
            EngineJob::WakeCompaction(due) => self.compactor.wake(due, core),
            EngineJob::PrepareSegment | EngineJob::RetrySegment => core.log.prepare_segment(core),
            EngineJob::FillSegment => core.log.fill_segment(core),
            EngineJob::SyncLog => core.log.sync_aside(core),
            EngineJob::ClaimLog(seen) => core.log.claim_if_idle(seen, core),
            EngineJob::NoteDamage => core.note_damage(),
            EngineJob::WatchForRoom(watch) => core.watch_for_room(watch),
            EngineJob::GiveUpIdle => {
                core.held_scans
                    .give_up_idle(core.now(), &core.tables, &core.background);
            }
        }
    }
}
