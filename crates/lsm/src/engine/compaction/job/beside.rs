//! Which compactions run beside each other.
//!
//! **Tables of a level do not overlap.** A compaction begins only if none of its inputs is an input
//! of one that runs, and what it writes overlaps neither what stays on its level nor what another
//! one may write there ([`merges`](crate::engine::table_set::MergeRange)). What runs is known to
//! the pick, which passes over tables that are busy.
//!
//! **No tombstone goes before what it hides.** A compaction decides what it drops by the tables
//! that are live when it begins, without its own inputs
//! ([`retention`](crate::engine::compaction::retention)). The inputs of those that run beside it
//! are among them, for as long as it runs, even once they are replaced. A merge writes no
//! version that none of its inputs has, at most a tombstone of the same timestamp. So:
//! - An older version that is in an input of another compaction, or in what that writes, is seen
//!   in the input, and the tombstone stays. If the other one drops the version, the tombstone goes
//!   with a later compaction. The same holds for non-owned versions, and for values that have
//!   expired, which become tombstones first.
//! - A version that comes after the compaction has begun is no concern of others: it is above the
//!   GC threshold, which each compaction raises before it looks, or was in memory then.
//! - A version that is dropped because a newer one elsewhere hides it ([`Reason::Hidden`]) needs
//!   the newer one to stay, or one that is newer still. A merge drops the newest version of a key
//!   only if nothing older lies elsewhere, and there it sees the one that is being dropped.
//! - Snapshots are read after the tables, as ever: one that is taken later sees all that the
//!   inputs hold, and its scan keeps the tables that it reads.
//!
//! **What is not there for the shape of the levels runs once at a time.** Purges, the rewriting of
//! damaged tables and of those half of which are dead keep notes of what they do. A purge begins
//! when nothing else runs. Pieces of a whole
//! compaction run alone, so that nothing stays behind on a level that the walk leaves; and
//! on a full disk each compaction runs alone, because the room is counted for one.
//!
//! **Level 0 comes first**, because writers wait for it. One slot is kept for it. While it is due
//! and cannot begin, nothing begins that takes tables of the level where it is to go. And it
//! begins however much the disk holds of unfinished and removed tables; others wait until that is
//! little.

use super::CompactorState;
use crate::engine::compaction::pick::{Busy, Pick, Reason};
use crate::engine::core::Core;

impl CompactorState {
    /// Whether one that is not there for the shape of the levels runs.
    pub(super) fn runs_single(&self) -> bool {
        let mut running = self.running.iter().flatten();
        running.any(|reason| !shapes_levels(*reason))
    }

    /// What the pick has to leave alone.
    pub(super) fn busy(&self, core: &Core) -> Busy {
        let deep = self.running.iter().flatten();
        let deep = deep.filter(|reason| **reason != Reason::LevelZero).count();
        let deep_max = (self.running.len() - 1).max(1);
        let is_alone = self.running() == 0;
        Busy {
            only_level_zero: !is_alone && (deep >= deep_max || core.tables.has_much_overhead()),
            only_for_shape: self.runs_single(),
            merges: core.tables.merges(),
        }
    }

    /// Whether a pick may begin beside those that run.
    pub(super) fn may_begin(&self, pick: &Pick, busy: &Busy) -> bool {
        let is_level_zero = pick.reason == Reason::LevelZero;
        (is_level_zero || !busy.only_level_zero)
            && (shapes_levels(pick.reason) || !busy.only_for_shape)
    }
}

fn shapes_levels(reason: Reason) -> bool {
    match reason {
        Reason::LevelZero
        | Reason::LevelSize
        | Reason::LevelLeftOver
        | Reason::Wide
        | Reason::Room => true,
        Reason::Droppable
        | Reason::Expired
        | Reason::Purge
        | Reason::PushDown
        | Reason::Hidden
        | Reason::Damaged
        | Reason::Garbage
        | Reason::Whole => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::compaction::pick::Cuts;
    use crate::testing::{BlockingWrite, MemoryDisk, environment};
    use crate::{Engine, Options};
    use base::{Entry, Expiry, Timestamp};
    use std::sync::Arc;

    /// A store with one table.
    fn store() -> Engine {
        let (environment, _executor) = environment(Arc::new(MemoryDisk::new()));
        let options = Options {
            compaction: false,
            ..Options::default()
        };
        let (engine, _) = Engine::open(environment, options).unwrap();
        let entry = Entry::value(b"k", Timestamp::from_u64(1), b"v", Expiry::NEVER, 1);
        engine.write(entry).unwrap();
        engine.flush().unwrap();
        engine
    }

    fn running(reasons: &[Option<Reason>]) -> CompactorState {
        CompactorState {
            running: reasons.to_vec(),
            ..CompactorState::default()
        }
    }

    /// Which of these may begin beside those that run.
    fn may_begin(reasons: &[Option<Reason>], engine: &Engine) -> Vec<Reason> {
        let (state, core) = (running(reasons), &engine.inner.core);
        let busy = state.busy(core);
        let pick = |reason| Pick {
            inputs: Vec::new(),
            output_level: 6,
            reason,
            cursor: None,
            cuts: Cuts::default(),
        };
        [Reason::LevelZero, Reason::LevelSize, Reason::Expired]
            .into_iter()
            .filter(|reason| state.may_begin(&pick(*reason), &busy))
            .collect()
    }

    #[test]
    fn level_zero_has_a_slot_and_what_shapes_no_level_runs_once() {
        use Reason::{Expired, LevelSize, LevelZero, Whole};
        let engine = store();
        let all = [LevelZero, LevelSize, Expired];
        for (reasons, expected) in [
            (&[None; 3][..], &all[..]),
            (&[Some(LevelSize), None, None], &all),
            (&[Some(LevelSize), Some(LevelSize), None], &[LevelZero]),
            (&[Some(LevelZero), None, Some(LevelSize)], &all),
            (&[Some(Expired), None, None], &[LevelZero, LevelSize]),
            (&[None, Some(Whole), None], &[LevelZero, LevelSize]),
            (&[Some(Expired), Some(LevelSize), None], &[LevelZero]),
        ] {
            assert_eq!(may_begin(reasons, &engine), expected, "{reasons:?}");
        }
    }

    #[test]
    fn much_overhead_stops_all_but_level_zero_and_what_runs_alone() {
        use Reason::{LevelSize, LevelZero};
        let engine = store();
        let tables = &engine.inner.core.tables;
        let table = tables.load().tables.levels()[0].get(0).unwrap().id();
        let merge = tables.begin_merge(6, &[(0, table)]).unwrap();
        merge.note_written(u64::MAX / 2, 0);
        assert_eq!(
            may_begin(&[Some(LevelZero), None, None], &engine),
            [LevelZero]
        );
        assert_eq!(may_begin(&[None; 3], &engine).len(), 3);
        merge.note_written(0, 0);
        let beside = may_begin(&[Some(LevelZero), None, None], &engine);
        assert!(beside.contains(&LevelSize));
    }
}
