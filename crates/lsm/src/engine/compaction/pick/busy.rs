//! What a pick has to leave alone because compactions run.

use super::choice::{Pick, Reason};
use crate::engine::table_set::{Levels, MergeRange, TableSummary};
use std::sync::Arc;

/// The compactions that run, and what may begin beside them.
#[derive(Default)]
pub(crate) struct Busy {
    /// The merges in progress.
    pub(crate) merges: Vec<Arc<MergeRange>>,
    /// Whether only a compaction of level 0 may begin.
    pub(crate) only_level_zero: bool,
    /// Whether only what gives the levels their shape may begin.
    pub(crate) only_for_shape: bool,
}

impl Busy {
    /// Whether a merge in progress reads a table.
    pub(crate) fn reads(&self, table: &TableSummary) -> bool {
        self.merges.iter().any(|merge| merge.reads(table.id))
    }

    /// The bytes of those tables of a level that no merge in progress reads.
    pub(super) fn bytes_left(&self, levels: &Levels, level: usize) -> u64 {
        let read = self.merges.iter().flat_map(|merge| merge.inputs());
        let read = read.filter_map(|id| levels.get(id));
        let read = read.filter(|(of_level, _)| *of_level == level);
        let read: u64 = read.map(|(_, table)| table.bytes).sum();
        levels.bytes(level).saturating_sub(read)
    }

    /// Whether these tables may be merged into a level.
    pub(super) fn is_free<'a>(
        &self,
        output_level: usize,
        inputs: impl Iterator<Item = &'a Arc<TableSummary>>,
    ) -> bool {
        if self.merges.is_empty() {
            return true;
        }
        let inputs: Vec<_> = inputs.collect();
        let least = inputs.iter().map(|table| &table.least_key).min();
        let greatest = inputs.iter().map(|table| &table.greatest_key).max();
        let (Some(least), Some(greatest)) = (least, greatest) else {
            return false;
        };
        let mut merges = self.merges.iter();
        if merges.any(|merge| merge.overlaps(output_level, least, greatest)) {
            return false;
        }
        inputs.iter().all(|table| !self.reads(table))
    }

    /// Whether a pick may begin. If level 0 is due and compactions run, then `way` is the level
    /// that it goes to, and nothing else takes tables there.
    pub(super) fn admits(&self, levels: &Levels, pick: &Pick, way: Option<usize>) -> bool {
        if self.merges.is_empty() {
            return true;
        }
        let is_level_zero = pick.reason == Reason::LevelZero;
        let mut touched = pick.inputs.iter().map(|(level, _)| *level);
        let is_in_the_way =
            way.is_some_and(|way| pick.output_level == way || touched.any(|level| level == way));
        if !is_level_zero && (self.only_level_zero || is_in_the_way) {
            return false;
        }
        let inputs = pick.inputs.iter().filter_map(|(_, id)| levels.get(*id));
        self.is_free(pick.output_level, inputs.map(|(_, table)| table))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LEVELS, PickSettings, pick_beside};
    use super::*;
    use crate::engine::compaction::gc_thresholds::GcThresholds;
    use crate::table_id::TableId;
    use base::{Expiry, Timestamp};
    use bytes::Bytes;

    fn table(id: u64, keys: (&str, &str), bytes: u64) -> TableSummary {
        TableSummary {
            id: TableId(id),
            bytes,
            entry_bytes: bytes,
            has_blobs: false,
            least_key: Bytes::copy_from_slice(keys.0.as_bytes()),
            greatest_key: Bytes::copy_from_slice(keys.1.as_bytes()),
            least_timestamp: Timestamp::from_u64(1),
            greatest_timestamp: Timestamp::from_u64(2),
            entries: 1,
            tombstones: 0,
            half_expired: Expiry::NEVER,
            oldest_tombstone: Timestamp::MAX,
            least_expiry: Expiry::NEVER,
            non_owned: 0,
            oldest_non_owned: Timestamp::MAX,
            is_damaged: false,
        }
    }

    /// Level 0 and all levels from the base level 4 on are due, the lower ones more so.
    fn levels() -> Levels {
        let mut levels = Levels::default();
        for id in 1..=4 {
            levels.insert(0, table(id, ("a", "m"), 50));
        }
        for (level, table) in [
            (4, table(40, ("a", "c"), 1_000)),
            (4, table(41, ("d", "f"), 1_000)),
            (4, table(42, ("q", "r"), 2_200)),
            (5, table(50, ("a", "b"), 10_000)),
            (5, table(51, ("d", "e"), 10_000)),
            (5, table(52, ("n", "o"), 20_000)),
            (6, table(60, ("a", "c"), 20_000)),
            (6, table(61, ("d", "f"), 20_000)),
            (6, table(62, ("n", "z"), 20_000)),
        ] {
            levels.insert(level, table);
        }
        levels
    }

    /// The tables that are picked beside merges.
    fn picked(busy: &Busy) -> Vec<u64> {
        let settings = PickSettings {
            level_zero_tables: 4,
            base_bytes: 2_000,
            table_bytes: 1_600,
            input_bytes_max: 40_000,
            room_bytes: u64::MAX,
        };
        let cursors: [Option<Bytes>; LEVELS] = Default::default();
        let none = GcThresholds::NONE;
        let pick = pick_beside(&mut levels(), &settings, &cursors, 0, none, busy);
        pick.map_or(Vec::new(), |pick| {
            pick.inputs.iter().map(|(_, id)| id.0).collect()
        })
    }

    fn beside(merges: &[Arc<MergeRange>]) -> Busy {
        Busy {
            merges: merges.to_vec(),
            ..Busy::default()
        }
    }

    #[test]
    fn tables_that_are_merged_are_passed_over() {
        assert_eq!(picked(&Busy::default()), [50, 60], "level 5 is due most");
        let merge = MergeRange::between(6, ("a", "c"), &[50, 60]);
        assert_eq!(picked(&beside(&[merge])), [51, 61]);
        // A merge of other tables may write between these keys.
        let merge = MergeRange::between(6, ("cc", "dd"), &[7]);
        assert_eq!(picked(&beside(&[merge])), [50, 60]);
        let merge = MergeRange::between(6, ("b", "dd"), &[7]);
        assert_eq!(picked(&beside(&[merge])), [52, 62]);
    }

    #[test]
    fn level_zero_has_a_slot_for_itself() {
        let busy = Busy {
            only_level_zero: true,
            ..beside(&[MergeRange::between(6, ("n", "z"), &[52, 62])])
        };
        assert_eq!(picked(&busy), [1, 2, 3, 4, 40, 41]);
    }

    /// Otherwise it might wait for one after another.
    #[test]
    fn nothing_takes_tables_where_level_zero_is_to_go() {
        // Levels 5 and 6 are busy, and so is a table of level 4 that level 0 needs.
        let deep = || MergeRange::between(6, ("a", "z"), &[50, 51, 52, 60, 61, 62]);
        let base = MergeRange::between(5, ("d", "f"), &[41]);
        assert_eq!(picked(&beside(&[deep(), base])), [0; 0]);
        assert_eq!(picked(&beside(&[deep()])), [1, 2, 3, 4, 40, 41]);
        // Once level 0 is on its way, others may.
        let of_zero = MergeRange::between(4, ("a", "m"), &[1, 2, 3, 4, 40, 41]);
        assert_eq!(picked(&beside(&[deep(), of_zero])), [42]);
    }
}
