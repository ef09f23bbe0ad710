//! A memtable that nobody fills any more.
//!
//! Compaction drops what lies in tables. If an application deletes what it has and then
//! falls silent, the tombstones stay in a memtable that never gets full, and what they hide
//! stays on the disk. And one old version in memory is enough to stop all purges: it could
//! be what a tombstone in a table hides. So once the GC threshold has passed something in the
//! active memtable, and there is something to drop, the memtable is flushed as it is.
//!
//! Compaction looks for that once a minute while there is something dead anywhere. That it
//! finds something is rare: under load a memtable is full long before the bound gets to it. And it
//! flushes at most once for each value of the bound.

use crate::engine::core::Core;
use crate::memtable::Memtable;
use base::Timestamp;

/// Whether compaction may drop something once the GC threshold or the clock has advanced.
pub(super) fn has_dead(core: &Core) -> bool {
    core.tables.summaries().may_become_due() || core.tables.load().active.has_tombstones()
}

/// What is known of flushes of memtables that are not full.
#[derive(Default)]
pub(super) struct QuietMemtable {
    /// The GC threshold at the last one.
    flushed_below: Timestamp,
}

impl QuietMemtable {
    /// Begins the flush of the active memtable, if that lets compaction drop something.
    pub(super) fn flush_if_due(&mut self, core: &Core) {
        let bound = (core.environment.gc_threshold)();
        if !core.options.compaction || bound <= self.flushed_below {
            return;
        }
        if !has_dead(core) {
            return;
        }
        let is_useful = |active: &Memtable| active.least_timestamp() < bound;
        // If it cannot be frozen now, the next look tries again.
        if core.log.freeze_early(core, is_useful) && !is_useful(&core.tables.load().active) {
            self.flushed_below = bound;
        }
    }
}
