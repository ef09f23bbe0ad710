//! Back-pressure: when flush or compaction falls behind, writers are slowed
//! smoothly, then wait, and, once the queue is full, are refused.

use super::Inner;
use super::state::State;
use crate::error::Error;
use crate::sync::lock;
use std::sync::Arc;
use std::time::Duration;

/// So many level-0 tables are no debt yet.
const LEVEL_0_TABLES_SLOW: usize = 12;

/// With so many level-0 tables, no memtable is frozen until compaction has caught up.
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
    /// How long the next group is held back so that flush and compaction keep
    /// up: nothing while they do, more the nearer the writers are to a stall.
    pub(super) fn slowdown(&self) -> Duration {
        let state = self.state.load();
        let mut severity = 0.0_f64;
        if self.is_flush_behind(&state) {
            let fill = state.active.bytes() as f64 / self.options.memtable_bytes as f64;
            severity = severity.max(fill * 2.0 - 1.0);
        }
        if state.tables.are_level_zero(LEVEL_0_TABLES_SLOW) && self.is_compaction_awaited() {
            let tables = state.tables.level_zero_tables() as f64;
            let (slow, stop) = (LEVEL_0_TABLES_SLOW as f64, LEVEL_0_TABLES_STOP as f64);
            severity = severity.max((tables - slow) / (stop - slow));
        }
        SLOWDOWN_MAX.mul_f64(severity.clamp(0.0, 1.0).powi(2))
    }

    /// Why a full memtable may not be frozen now.
    pub(super) fn stall(&self, state: &State) -> Option<Stall> {
        if self.is_flush_behind(state) {
            Some(Stall::Flush)
        } else if self.is_compaction_awaited() && state.tables.are_level_zero(LEVEL_0_TABLES_STOP) {
            Some(Stall::Compaction)
        } else {
            None
        }
    }

    /// Whether writers may be held back until compaction has caught up. On a
    /// full disk it may have no room, and deletes go on; so do all writes while
    /// it cannot work.
    fn is_compaction_awaited(&self) -> bool {
        self.options.compaction && !self.space.is_full() && !self.is_compaction_stuck()
    }

    /// Whether as many memtables wait for their flush as may; a few with long
    /// values count as many.
    fn is_flush_behind(&self, state: &State) -> bool {
        let frozen_max = self.options.memtables_frozen_max;
        let bytes: usize = state.frozen.iter().map(|memtable| memtable.bytes()).sum();
        state.frozen.len() >= frozen_max || bytes >= frozen_max * self.options.memtable_bytes
    }

    /// Notes that the commit job waits for a stall to end. Returns whether the
    /// job is to go on at once, because it has ended before it was noted.
    pub(super) fn note_stall(self: &Arc<Self>) -> bool {
        lock(&self.queue).stalled = true;
        let lasts = self.check_poison().is_ok() && self.stall(&self.state.load()).is_some();
        // Whoever clears the note goes on, and nobody else.
        !lasts && std::mem::take(&mut lock(&self.queue).stalled)
    }

    /// Wakes a commit job that waited for a flush or a compaction.
    pub(super) fn end_stall(self: &Arc<Self>) {
        if std::mem::take(&mut lock(&self.queue).stalled) {
            self.spawn_commits(Duration::ZERO);
        }
    }

    /// Ends a stall because what it waits for has failed: the writes that wait fail too.
    pub(super) fn fail_stall(self: &Arc<Self>, error: &Error) {
        if lock(&self.queue).stalled {
            self.refuse_waiting(error);
            self.end_stall();
        }
    }

    /// Does what a stalled commit waits for, on this thread. If that fails,
    /// the writes that wait for it fail too.
    pub(super) fn relieve_or_refuse(self: &Arc<Self>, stall: Stall) {
        let relieved = match stall {
            Stall::Flush => self.flush_oldest().map(|_| ()),
            Stall::Compaction => self.compact_once(),
        };
        if let Err(error) = relieved {
            self.refuse_waiting(&error);
        }
    }
}
