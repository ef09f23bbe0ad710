//! How much compaction has to do, and how fast it has to be.

use super::pick::PickSettings;
use crate::engine::core::Core;
use std::time::Duration;

/// From this many level-0 tables on, their compaction is due.
pub(super) const LEVEL_0_TABLES_DUE: usize = 4;

/// From this many level-0 tables on, compaction does not rest: writers are slowed from
/// a few more on.
const LEVEL_0_TABLES_HURRY: usize = 8;

/// A compaction takes at most so many full tables, as in RocksDB.
const TABLES_MAX: u64 = 25;

/// What sizes the levels of this store, and the room for a compaction beside those that run.
pub(super) fn pick_settings(core: &Core) -> PickSettings {
    let base_bytes = (LEVEL_0_TABLES_DUE * core.options.memtable_bytes) as u64;
    let table_bytes = core.options.table_bytes;
    PickSettings {
        level_zero_tables: LEVEL_0_TABLES_DUE,
        base_bytes,
        table_bytes,
        // Level 0 is merged with the whole base level.
        input_bytes_max: (TABLES_MAX * table_bytes).max(2 * base_bytes),
        room_bytes: {
            let merges = core.tables.merges();
            let left: u64 = merges.iter().map(|merge| merge.left_bytes()).sum();
            let room = core.health.full_disk().compaction_bytes_max();
            room.saturating_sub(left)
        },
    }
}

/// How urgent compaction is: from 0 to 1, at which writers will soon wait for it.
pub(super) fn urgency(core: &Core) -> f64 {
    let tables = core.tables.load().tables.level_zero_tables() as f64;
    let (due, hurry) = (LEVEL_0_TABLES_DUE as f64, LEVEL_0_TABLES_HURRY as f64);
    ((tables - due) / (hurry - due)).clamp(0.0, 1.0)
}

/// How long `bytes` may take at the configured rate.
pub(super) fn pace(bytes: u64, core: &Core) -> Duration {
    let rate = core.options.compaction_bytes_per_second.max(1);
    Duration::from_secs_f64(bytes as f64 / rate as f64)
}
