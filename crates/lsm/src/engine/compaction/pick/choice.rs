//! What a choice is made by, and what it is.

use super::cuts::Cuts;
use crate::engine::table_set::Levels;
use crate::manifest::LEVELS;
use crate::table_id::TableId;
use bytes::Bytes;

/// What sizes the levels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PickSettings {
    /// How many tables on level 0 make a compaction due. At least 1.
    pub(crate) level_zero_tables: usize,
    /// The target of the base level, in bytes, unless the store is small: about what level 0
    /// holds when its compaction is due. At least 1.
    pub(crate) base_bytes: u64,
    /// The size at which a compaction starts the next table, in bytes.
    pub(crate) table_bytes: u64,
    /// The most that a compaction takes, in bytes.
    pub(crate) input_bytes_max: u64,
    /// The room for what a compaction writes, in bytes.
    pub(crate) room_bytes: u64,
}

/// A compaction to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    /// The tables to merge, each with its level.
    pub(crate) inputs: Vec<(usize, TableId)>,
    /// The level that the result goes to.
    pub(crate) output_level: usize,
    /// Why it is done.
    pub(crate) reason: Reason,
    /// The level whose cursor moves, and the key it moves to, once the compaction is done.
    pub(crate) cursor: Option<(usize, Bytes)>,
    /// Where the outputs end.
    pub(crate) cuts: Cuts,
}

impl Pick {
    /// Rewrites a table on its own level.
    pub(crate) fn rewrite(level: usize, table: TableId, reason: Reason) -> Self {
        Self {
            inputs: vec![(level, table)],
            output_level: level,
            reason,
            cursor: None,
            cuts: Cuts::default(),
        }
    }

    /// The same, whose outputs overlap no more on the level below than a compaction may take, also
    /// when that level has grown a little.
    pub(super) fn cut(mut self, levels: &Levels, base: usize, settings: &PickSettings) -> Self {
        let below = base.max(self.output_level + 1);
        if self.output_level == 0 || below >= LEVELS {
            return self;
        }
        let tables = self.inputs.iter().filter_map(|(_, id)| levels.get(*id));
        let tables: Vec<_> = tables.map(|(_, table)| table).collect();
        let least_key = tables.iter().map(|table| &table.least_key).min();
        let greatest_key = tables.iter().map(|table| &table.greatest_key).max();
        if let Some((least_key, greatest_key)) = least_key.zip(greatest_key) {
            let overlapped = levels.between(below, least_key, greatest_key);
            self.cuts = Cuts {
                below: overlapped
                    .map(|table| (table.least_key.clone(), table.bytes))
                    .collect(),
                table_bytes: settings.table_bytes,
                overlap_max: settings.input_bytes_max / 4 * 3,
            };
        }
        self
    }
}

/// Why a compaction is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Level 0 has many tables, or many bytes for the store's size.
    LevelZero,
    /// A level is larger than its target.
    LevelSize,
    /// A level above the base level still holds tables.
    LevelLeftOver,
    /// A table overlaps so many on the level below that it is divided first.
    Wide,
    /// Half of a table are tombstones or non-owned versions that may be dropped.
    Droppable,
    /// Half of a table has expired.
    Expired,
    /// Some tombstones or non-owned versions of a table may be dropped, and it has waited long
    /// enough.
    Purge,
    /// It brings down what the tombstones of a table below may hide, or these tombstones.
    PushDown,
    /// What is due does not fit the room, and this compaction makes it smaller.
    Room,
    /// The disk is full, and newer versions elsewhere hide a part of the table.
    Hidden,
    /// A part of the table is damaged, and was compared with other stores.
    Damaged,
    /// Little of what the table refers to in some blob tables is left there.
    Garbage,
    /// It is a piece of a whole compaction.
    Whole,
}

/// The bytes of a compaction's tables.
pub(super) fn input_bytes(levels: &Levels, inputs: &[(usize, TableId)]) -> u64 {
    let inputs = inputs.iter().filter_map(|(_, id)| levels.get(*id));
    inputs.map(|(_, table)| table.bytes).sum()
}

/// The bytes of the tables of a level that lie, even in part, between two keys.
pub(super) fn bytes_between(levels: &Levels, level: usize, least: &Bytes, greatest: &Bytes) -> u64 {
    let tables = levels.between(level, least, greatest);
    tables.map(|table| table.bytes).sum()
}
