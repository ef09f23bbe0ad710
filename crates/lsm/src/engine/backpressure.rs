//! Back-pressure: when flush or compaction falls behind, writers are slowed more
//! and more, then wait, and are refused once the queue is full.

use super::Inner;
use super::table_set::ReadState;
use std::time::Duration;

/// Up to this many level-0 tables, writers are not slowed.
const LEVEL_0_TABLES_SLOW: usize = 12;

/// From this many level-0 tables on, no memtable is frozen until compaction has caught up.
pub(super) const LEVEL_0_TABLES_STOP: usize = 48;

/// The longest that a group is held back to slow the writers.
const SLOWDOWN_MAX: Duration = Duration::from_millis(20);

/// What a stalled commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stall {
    /// A flush: too many or too large memtables are frozen.
    Flush,
    /// A compaction: too many tables lie on level 0.
    Compaction,
}

impl Inner {
    /// How long the next group is held back so that flush and compaction keep up.
    /// Zero while they do; the nearer the writers are to a stall, the longer.
    pub(super) fn slowdown(&self) -> Duration {
        let state = self.core.tables.load();
        let mut severity = 0.0_f64;
        if self.is_flush_behind(&state) {
            let fill = state.active.bytes() as f64 / self.core.options.memtable_bytes as f64;
            severity = severity.max(fill * 2.0 - 1.0);
        }
        if state.tables.has_level_zero_tables(LEVEL_0_TABLES_SLOW) && self.is_compaction_awaited() {
            let tables = state.tables.level_zero_tables() as f64;
            let (slow, stop) = (LEVEL_0_TABLES_SLOW as f64, LEVEL_0_TABLES_STOP as f64);
            severity = severity.max((tables - slow) / (stop - slow));
        }
        SLOWDOWN_MAX.mul_f64(severity.clamp(0.0, 1.0).powi(2))
    }

    /// Why a full memtable may not be frozen now.
    pub(super) fn stall(&self, state: &ReadState) -> Option<Stall> {
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
    pub(super) fn note_stall(&self) -> bool {
        let core = &self.core;
        core.queue.lock().stall();
        let lasts = core.health.check_poison().is_ok() && self.stall(&core.tables.load()).is_some();
        // The caller that takes the note goes on, and no other does.
        !lasts && core.queue.lock().take_stall()
    }

    /// Does what a stalled commit waits for, on this thread. If that fails, the
    /// writes that wait for it fail too.
    pub(super) fn relieve_or_refuse(&self, stall: Stall) {
        let relieved = match stall {
            Stall::Flush => self.flush_oldest().map(|_| ()),
            Stall::Compaction => self.compactor.compact_once(&self.core),
        };
        if let Err(error) = relieved {
            self.core.refuse_waiting(&error);
        }
    }
}
