//! How much compaction has to do, and how fast it has to be.

use super::pick::PickSettings;
use crate::engine::core::Core;
use std::time::Duration;

/// From this many level-0 tables on, their compaction is due.
pub(super) const LEVEL_0_TABLES_DUE: usize = 4;

/// From this many level-0 tables on, compaction does not rest: writers are slowed from
/// a few more on.
const LEVEL_0_TABLES_HURRY: usize = 8;

/// The share of the store that is garbage in blob tables from which on compaction rests less, and
/// from which on it does not rest. While it keeps up the share is about 0.3.
const GARBAGE_SHARE_DUE: f64 = 0.4;
const GARBAGE_SHARE_HURRY: f64 = 0.6;

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

/// How urgent compaction is: from 0 to 1, at which writers will soon wait for it, or blob tables have
/// become mostly garbage.
pub(super) fn urgency(core: &Core) -> f64 {
    let state = core.tables.load();
    let tables = state.tables.level_zero_tables() as f64;
    let (due, hurry) = (LEVEL_0_TABLES_DUE as f64, LEVEL_0_TABLES_HURRY as f64);
    let of_level_zero = ((tables - due) / (hurry - due)).clamp(0.0, 1.0);
    let share = state.tables.blobs().garbage_bytes() as f64 / state.tables.bytes().max(1) as f64;
    let (due, hurry) = (GARBAGE_SHARE_DUE, GARBAGE_SHARE_HURRY);
    let of_garbage = ((share - due) / (hurry - due)).clamp(0.0, 1.0);
    of_level_zero.max(of_garbage)
}

/// How long `bytes` may take at the configured rate.
pub(super) fn pace(bytes: u64, core: &Core) -> Duration {
    let rate = core.options.compaction_bytes_per_second.max(1);
    Duration::from_secs_f64(bytes as f64 / rate as f64)
}
