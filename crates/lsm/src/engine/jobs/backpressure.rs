//! Back-pressure: when flush or compaction falls behind, writers are slowed more and more
//! ([`write_rate`](crate::engine::writes::write_rate)), then wait, and are refused once the
//! queue is full.

use crate::engine::store::Store;
use crate::engine::table_set::ReadState;
use crate::engine::writes::write_rate::Backlog;
use std::time::Duration;

/// Up to this many level-0 tables, writers are not slowed.
const LEVEL_0_TABLES_SLOW: usize = 12;

/// From this many level-0 tables on, no memtable is frozen until compaction has caught up.
pub(in crate::engine) const LEVEL_0_TABLES_STOP: usize = 48;

/// To complete a flush once all records are read takes as long as to read this part of a
/// memtable: the rest of the table is written, and it and the manifest are synced.
const COMPLETION_DIVISOR: usize = 16;

/// What a stalled commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Stall {
    /// A flush: too many or too large memtables are frozen.
    Flush,
    /// A compaction: too many tables lie on level 0.
    Compaction,
}

impl Store {
    /// How long the next group is held back so that flush and compaction keep up.
    /// Zero while they do.
    pub(in crate::engine) fn slowdown(&self) -> Duration {
        match self.write_rate(&self.core.tables.load()) {
            Some(_) => self.core.write_rate.wait(self.core.now()),
            None => Duration::ZERO,
        }
    }

    /// The bytes a second at which writers may write so that they need not wait for flush
    /// or compaction; `None` while neither is behind.
    pub(in crate::engine) fn write_rate(&self, state: &ReadState) -> Option<f64> {
        let core = &self.core;
        let oldest = self.is_flush_behind(state).then(|| state.frozen.first());
        let flush = oldest.flatten().map(|oldest| {
            let memtable_bytes = core.options.memtable_bytes;
            let unread = oldest.bytes() as f64 - core.write_rate.flush_done_bytes() as f64;
            Backlog {
                room: memtable_bytes as f64 - state.active.bytes() as f64,
                left: unread.max(0.0) + (memtable_bytes / COMPLETION_DIVISOR) as f64,
            }
        });
        let is_slow =
            state.tables.has_level_zero_tables(LEVEL_0_TABLES_SLOW) && self.is_compaction_awaited();
        let compaction = is_slow.then(|| {
            let tables = state.tables.level_zero_tables() as f64;
            Backlog {
                room: LEVEL_0_TABLES_STOP as f64 - tables,
                left: tables - LEVEL_0_TABLES_SLOW as f64,
            }
        });
        core.write_rate.rate(flush, compaction)
    }

    /// Why a full memtable may not be frozen now.
    pub(in crate::engine) fn stall(&self, state: &ReadState) -> Option<Stall> {
        if self.is_flush_behind(state) {
            Some(Stall::Flush)
        } else if self.is_compaction_awaited()
            && state.tables.has_level_zero_tables(LEVEL_0_TABLES_STOP)
        {
            Some(Stall::Compaction)
        } else {
            None
        }
    }

    /// Whether writers may be held back until compaction has caught up. They are not
    /// on a full disk, where compaction may have no room and deletes must go on, nor
    /// while compaction cannot work.
    fn is_compaction_awaited(&self) -> bool {
        self.core.options.compaction && !self.core.health.is_full() && !self.compactor.is_stuck()
    }

    /// Whether the number of frozen memtables has reached its limit. Memtables that have
    /// grown large because of long values count by their bytes.
    fn is_flush_behind(&self, state: &ReadState) -> bool {
        let frozen_max = self.core.options.memtables_frozen_max;
        let bytes: usize = state.frozen.iter().map(|memtable| memtable.bytes()).sum();
        state.frozen.len() >= frozen_max || bytes >= frozen_max * self.core.options.memtable_bytes
    }

    /// Notes that the commit job waits for a stall to end. Returns whether the
    /// job is to go on at once, because the stall ended before it was noted.
    pub(in crate::engine) fn note_stall(&self) -> bool {
        let core = &self.core;
        core.queue.lock().stall();
        let lasts = core.health.check_poison().is_ok() && self.stall(&core.tables.load()).is_some();
        // The caller that takes the note goes on, and no other does.
        !lasts && core.queue.lock().take_stall()
    }

    /// Does what a stalled commit waits for, on this thread. If that fails, the
    /// writes that wait for it fail too.
    pub(in crate::engine) fn relieve_or_refuse(&self, stall: Stall) {
        let relieved = match stall {
            Stall::Flush => self.flush_oldest().map(|_| ()),
            Stall::Compaction => self.compactor.compact_once(&self.core),
        };
        if let Err(error) = relieved {
            self.core.refuse_waiting(&error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::lock;
    use crate::testing::{BlockingWrite, HookedDisk, MemoryDisk, SyncHook, environment};
    use crate::{Engine, Options};
    use base::{Entry, Expiry, Timestamp};
    use std::io;
    use std::path::Path;
    use std::sync::{Arc, Mutex, OnceLock, Weak};

    /// All of the memtable is read by then, and its room comes only with the end.
    #[test]
    fn writers_are_slowed_until_a_flush_is_complete() {
        let disk = Arc::new(HookedDisk::new(Arc::new(MemoryDisk::new())));
        let (environment, _executor) = environment(Arc::clone(&disk) as _);
        let options = Options {
            memtables_frozen_max: 1,
            compaction: false,
            ..Options::default()
        };
        let (engine, _) = Engine::open(environment, options).unwrap();
        let behind: Arc<OnceLock<Weak<Store>>> = Arc::default();
        let rates: Arc<Mutex<Vec<Option<f64>>>> = Arc::default();
        let (hooked, noted) = (Arc::clone(&behind), Arc::clone(&rates));
        disk.hook_syncs(
            Arc::new(move |path: &Path, sync: &dyn Fn() -> io::Result<()>| {
                if path.extension().is_some_and(|kind| kind == "sst")
                    && let Some(inner) = hooked.get().and_then(Weak::upgrade)
                {
                    lock(&noted).push(inner.write_rate(&inner.core.tables.load()));
                }
                sync()
            }) as Arc<SyncHook>,
        );
        let write = |number: u64| {
            let timestamp = Timestamp::from_u64(number);
            let key = number.to_be_bytes();
            let entry = Entry::value(&key, timestamp, b"value", Expiry::NEVER, 1);
            engine.write(entry).unwrap();
        };
        write(1);
        // A flush of a microsecond a byte.
        let rate = &engine.inner.core.write_rate;
        rate.note_flush(1_000_000, Duration::from_secs(1), 0);
        behind.set(Arc::downgrade(&engine.inner)).unwrap();
        engine.flush().unwrap();
        let rates = std::mem::take(&mut *lock(&rates));
        let divisor = COMPLETION_DIVISOR as f64;
        assert!(!rates.is_empty());
        for rate in rates {
            let rate = rate.unwrap_or(f64::INFINITY);
            assert!(rate <= 1.1e6 * divisor, "{rate} bytes a second");
        }
    }
}
