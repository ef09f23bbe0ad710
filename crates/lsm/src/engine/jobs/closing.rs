//! What writes everything in memory to tables, and ends an engine.

use crate::engine::store::Store;
use crate::error::Error;

impl Store {
    /// Flushes the memtable that has waited longest, on this thread. Returns
    /// whether there was one.
    pub(in crate::engine) fn flush_oldest(&self) -> Result<bool, Error> {
        let has_flushed = self.flusher.flush_oldest(&self.core)?;
        if has_flushed {
            self.after_flush();
        }
        Ok(has_flushed)
    }

    /// Wakes what waits for a flush.
    pub(in crate::engine) fn after_flush(&self) {
        self.core.end_stall();
        self.compactor.schedule_after_flush(&self.core);
    }

    /// Writes everything in memory to tables, on this thread.
    pub(in crate::engine) fn flush_all(&self) -> Result<(), Error> {
        let core = &self.core;
        core.health.check_poison()?;
        {
            let mut committer = core.log.lock();
            if !core.tables.load().active.is_empty() {
                core.log.freeze(&mut committer, core)?;
            }
        }
        while self.flush_oldest()? {}
        Ok(())
    }

    pub(in crate::engine) fn close(&self) -> Result<(), Error> {
        let folder_lock = self.core.background.folder_lock();
        let finished = match folder_lock.hold() {
            Ok(_held) => {
                let finished = self.finish();
                self.core.tables.close();
                finished
            }
            Err(_) => return Ok(()),
        };
        folder_lock.release();
        finished
    }

    /// The last writes of this engine.
    fn finish(&self) -> Result<(), Error> {
        let core = &self.core;
        core.queue.lock().close();
        core.log.lock().hold.give_up();
        self.commit_waiting();
        // What is left waits for promises.
        core.refuse_waiting(&Error::Closed);
        core.health.close();
        core.held_scans.give_up_all();
        self.compactor.abandon(core);
        let flushed = self.flush_all();
        // It is unknown how much of a poisoned log is durable, so the log is not claimed.
        core.health.check_poison()?;
        flushed.and(core.log.conclude(core))
    }
}
