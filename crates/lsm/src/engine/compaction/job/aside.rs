//! Damaged tables are set aside, so that they stop no compaction.

use crate::engine::core::Core;
use crate::engine::table_set::TableEdit;
use crate::error::Error;
use crate::manifest::LEVELS;

/// Moves the tables that are damaged to level 0, where tables may overlap.
///
/// # Errors
/// As [`TableSet::apply`](crate::engine::table_set::TableSet::apply).
pub(in crate::engine::compaction) fn move_damaged_aside(core: &Core) -> Result<(), Error> {
    let damaged = core.tables.damaged_tables().into_iter();
    let damaged = damaged.filter(|(level, _)| (1..LEVELS).contains(level));
    let moved: Vec<_> = damaged.map(|(_, table)| (0, table)).collect();
    if moved.is_empty() {
        return Ok(());
    }
    let edit = TableEdit {
        moved,
        ..TableEdit::default()
    };
    core.tables
        .apply(edit)
        .map_err(|error| core.poison_if_sync(error))
}
