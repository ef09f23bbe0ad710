//! The first step of a compaction job: it makes of the next pick a compaction with its inputs,
//! thresholds and urgency.

use super::CompactorState;
use super::aside::move_damaged_aside;
use super::garbage::pick_garbage;
use crate::engine::compaction::gc_thresholds::GcThresholds;
use crate::engine::compaction::merging::Compaction;
use crate::engine::compaction::moves::move_down;
use crate::engine::compaction::pick::{Busy, Pick, PickSettings, Reason, pick_beside};
use crate::engine::compaction::pressure::{pick_settings, urgency};
use crate::engine::compaction::whole::{Orders, Whole};
use crate::engine::core::Core;
use crate::error::Error;

/// What comes next.
pub(in crate::engine::compaction) enum Beginning {
    /// A compaction.
    Compaction(Box<Compaction>),
    /// Tables have moved down, and there may be more to do.
    Moved,
    /// No compaction yet: this number of bytes was surveyed, and the next step looks again.
    Surveyed(u64),
    /// Nothing may begin beside those that run.
    Busy,
    /// There is nothing to do, and none runs.
    Nothing,
}

impl CompactorState {
    /// Begins the compaction that comes first: tables that were damaged, then what makes room
    /// on a full disk, then what is due.
    ///
    /// # Errors
    /// Those of [`move_damaged_aside`] and [`move_down`].
    pub(in crate::engine::compaction) fn begin(
        &mut self,
        orders: &Orders,
        core: &Core,
    ) -> Result<Beginning, Error> {
        let is_alone = self.running() == 0;
        if !is_alone && (core.health.is_full() || orders.is_under_way()) {
            return Ok(Beginning::Busy);
        }
        self.retry_unreadable(core);
        move_damaged_aside(core)?;
        if !self.runs_single() {
            let compaction = self.begin_rewrite(core);
            let compaction = compaction.or_else(|| self.begin_hidden(core));
            if let Some(compaction) = compaction {
                return Ok(Beginning::Compaction(Box::new(compaction)));
            }
        }
        if let Some(bytes) = self.survey_part(core) {
            return Ok(Beginning::Surveyed(bytes));
        }
        let busy = self.busy(core);
        let pick = self.pick(orders, &busy, core);
        let Some(pick) = pick.filter(|pick| self.may_begin(pick, &busy)) else {
            return Ok(if is_alone {
                Beginning::Nothing
            } else {
                Beginning::Busy
            });
        };
        if move_down(&pick, core)? {
            if let Some((level, key)) = pick.cursor {
                self.cursors[level] = Some(key);
            }
            return Ok(Beginning::Moved);
        }
        Ok(match Compaction::start(pick, None, core) {
            Some(compaction) => Beginning::Compaction(Box::new(compaction)),
            // An ingest has come in the way. The next step picks again.
            None if is_alone => Beginning::Surveyed(0),
            None => Beginning::Busy,
        })
    }

    /// Allows another try of the tables that could not be read, when it is time.
    fn retry_unreadable(&mut self, core: &Core) {
        if self.unreadable.is_due(core.now()) {
            for (_, table) in core.tables.damaged_tables() {
                table.try_again();
            }
        }
    }

    /// Begins to rewrite a table without its damaged parts, if one was compared.
    fn begin_rewrite(&mut self, core: &Core) -> Option<Compaction> {
        if std::mem::take(&mut self.rewrite_failed) {
            return None;
        }
        let (level, table) = core.damage.rewritable(&core.tables.load())?;
        let pick = Pick::rewrite(level, table, Reason::Damaged);
        Compaction::start(pick, None, core)
    }

    /// On a full disk, begins to rewrite a table without what is hidden in it, if
    /// one is worth it.
    fn begin_hidden(&self, core: &Core) -> Option<Compaction> {
        let (pick, left_bytes) = self.reclaim.pick(core)?;
        let compaction = Compaction::start(pick, Some(left_bytes), core)?;
        // A scan that has begun since the pick sees what the compaction would drop.
        (!compaction.has_snapshots()).then_some(compaction)
    }

    /// On a full disk, looks for what is hidden. Returns the bytes that were read.
    fn survey_part(&mut self, core: &Core) -> Option<u64> {
        core.options
            .compaction
            .then(|| self.reclaim.survey_part(core))?
    }

    /// What is to be merged next. A whole compaction takes turns with what is due, and
    /// waits while compaction is behind.
    fn pick(&mut self, orders: &Orders, busy: &Busy, core: &Core) -> Option<Pick> {
        let settings = pick_settings(core);
        let is_whole_next = urgency(core) < 1.0 && !self.whole.had_turn;
        self.whole.had_turn = false;
        let pick_whole = |whole: &mut Whole| {
            let bounds = GcThresholds::of(&core.environment);
            let pick = whole.pick(&settings, bounds, orders, core);
            whole.had_turn = pick.is_some();
            pick
        };
        if is_whole_next && let Some(pick) = pick_whole(&mut self.whole) {
            return Some(pick);
        }
        let due = if core.options.compaction {
            self.pick_due(&settings, busy, core)
        } else {
            None
        };
        due.or_else(|| pick_whole(&mut self.whole))
    }

    /// What is due, whether or not there is room for it.
    fn pick_due(&mut self, settings: &PickSettings, busy: &Busy, core: &Core) -> Option<Pick> {
        // A table must not be picked for what its compaction could not drop now.
        let (bounds, expired_before_unix_ms) = if core.snapshots.defer_compaction() {
            (GcThresholds::NONE, 0)
        } else {
            let bounds = GcThresholds::of(&core.environment);
            let expired_before_unix_ms = (core.environment.expired_before_unix_ms)();
            let bounds = bounds.at_most(core.least_timestamp_in_memory());
            (bounds, expired_before_unix_ms)
        };
        let due = pick_beside(
            &mut core.tables.summaries(),
            settings,
            &self.cursors,
            expired_before_unix_ms,
            bounds,
            busy,
        );
        due.or_else(|| {
            // Something else is being done, and level 0 may wait for that.
            if !busy.merges.is_empty() {
                return None;
            }
            pick_garbage(core).or_else(|| {
                self.purges
                    .pick(core, settings, bounds, expired_before_unix_ms)
            })
        })
    }
}
